"""What the child of a fork must not inherit: locks that another thread held, half-made state, a GPU.

A fork copies memory as it is at that moment and one thread, the one that forks. A lock that another thread holds then
is never released in the child, and what that thread was changing stays half changed.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import Protocol

import torch


class Renewable(Protocol):
    """Whatever holds a lock, or memory that several threads share."""

    def after_fork(self) -> None:
        """Be as new, in the child of a fork, where no other thread runs."""


_owners: weakref.WeakSet[Renewable] = weakref.WeakSet()
_functions: list[Callable[[], None]] = []
_forked = {"child": False, "cuda": False, "cuda before": False}  # what this process is, had, and had at its last fork


def renew_after_fork(owner: Renewable) -> None:
    """Have `owner.after_fork` called in every child that is forked while the owner lives."""
    _owners.add(owner)


def call_after_fork(function: Callable[[], None]) -> None:
    """Have a function called in every child that is forked."""
    _functions.append(function)


def is_child() -> bool:
    """Return whether this process was forked from one that had this module."""
    return _forked["child"]


def check_cuda() -> None:
    """Refuse to use a GPU where the parent had used one before the fork.

    Raises:
        RuntimeError: the message says how to start processes instead.
    """
    if _forked["cuda"]:
        raise RuntimeError(
            "This process was forked from one that had used CUDA, and cannot use it. Start processes with spawn "
            "(multiprocessing.get_context('spawn'), or multiprocessing_context='spawn' of a DataLoader), or score on "
            "the CPU: device='cpu'."
        )


def _before() -> None:
    _forked["cuda before"] = bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]  # the child would say no


def _in_child() -> None:
    _forked["child"] = True
    _forked["cuda"] |= _forked["cuda before"]
    for function in _functions:
        function()
    for owner in list(_owners):
        owner.after_fork()


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(before=_before, after_in_child=_in_child)
