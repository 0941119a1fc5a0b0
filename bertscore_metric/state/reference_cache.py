"""A bounded store of reference embeddings, so that what was embedded once is not embedded again."""

from __future__ import annotations

import threading

from torch import Tensor

from bertscore_metric.checks import byte_count
from bertscore_metric.forks import renew_after_fork


class ReferenceCache:
    """Embeddings of references by their token ids, admitted until a byte budget is full and then kept.

    References come in the same order epoch after epoch, so a store that lets the oldest go to admit the newest would
    never hold what is asked for next once the corpus is larger than the budget; one that keeps what it has always does.
    Belongs to one encoder; copies of a metric share it. A process that is forked begins with an empty one.

    Args:
        max_bytes: budget for all embeddings together; 0 keeps nothing.

    Raises:
        TypeError, ValueError: the budget is not a number of bytes, or negative.

    Example:
        >>> import torch
        >>> store = ReferenceCache(max_bytes=100)
        >>> store.admit(b"ids", torch.zeros(1, 3, 4))  # 48 bytes
        >>> store.get(b"ids").shape, store.get(b"other"), store.hit_rate
        (torch.Size([1, 3, 4]), None, 0.5)
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = byte_count("embedding_store_bytes", max_bytes)
        self.after_fork()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Begin anew, with a lock of one's own."""
        self._lock = threading.Lock()
        self.clear()

    def __len__(self) -> int:
        """Return how many references are held."""
        return len(self._rows)

    def get(self, ids: bytes) -> Tensor | None:
        """Return the unit embeddings [layer, token, dim] of a reference, or `None`; the look-up is counted."""
        rows = self._rows.get(ids)
        with self._lock:
            self.lookups += 1
            self.hits += rows is not None
        return rows

    def admit(self, ids: bytes, rows: Tensor) -> None:
        """Keep the embeddings of a reference, if they fit; a copy is made, so that a large batch can go."""
        with self._lock:
            if ids not in self._rows and self.n_bytes + rows.nbytes <= self.max_bytes:
                self._rows[ids] = rows.clone()
                self.n_bytes += rows.nbytes

    def clear(self) -> None:
        """Forget everything, the counts included."""
        self._rows: dict[bytes, Tensor] = {}
        self.n_bytes = 0
        self.hits = 0
        self.lookups = 0

    @property
    def hit_rate(self) -> float:
        """Share of look-ups that were found, from 0 to 1; 0 before the first."""
        return self.hits / self.lookups if self.lookups else 0.0
