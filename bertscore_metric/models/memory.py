"""Give memory that is free back to the system, where the C library keeps it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

_FRAGMENTED = 100_000  # tokens after which a heap is fragmented; less is not worth the time


class Heap:
    """Gives free memory of the heap back as soon as much has passed, in one call or in many small ones.

    Example:
        >>> heap = Heap()
        >>> heap.passed(2048)
        >>> heap.n_tokens
        2048
    """

    def __init__(self) -> None:
        self.n_tokens = 0

    def passed(self, n_tokens: int) -> None:
        """Note a batch whose tensors are free again."""
        self.n_tokens += n_tokens
        if self.n_tokens > _FRAGMENTED:
            give_back()


def give_back() -> None:
    """Return free memory of the heap to the system, with glibc; elsewhere do nothing.

    Batches of changing size fragment glibc's heap, and it learns from them to keep what is freed: a process that scored
    10,000 pairs on a CPU would hold some 250 MB more than one that scored 1,000, though no tensor is larger.
    """
    _trim()(0)


@cache
def _trim() -> Callable[[int], object]:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # another C library, or Windows
        return lambda _: None
