"""What one evaluation of a Trainer has passed so far, and what tells it from the next one."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist


@dataclass
class Evaluation:
    """Texts by row, and the pass over a data loader that they come from.

    Args:
        candidates, labels: [row], decoded.
        loop: the pass, as `loop_over` names it; `None` where that cannot be known.
        length: of the data set; `None` where that cannot be known.
        told: the callback has told of the rows that come next.
        processes: how many take part, where the callback has told.
    """

    candidates: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    loop: Hashable = None
    length: int | None = None
    told: bool = False
    processes: int | None = None

    @property
    def repeats(self) -> bool:
        """Whether rows may be repeated to fill batches, which happens on several processes only."""
        return (self.processes or (dist.get_world_size() if distributed() else 1)) > 1


def distributed() -> bool:
    """Return whether there are processes to talk to."""
    return dist.is_available() and dist.is_initialized()


def loop_over(dataloader: Any) -> Hashable:
    """Return what names this pass over a data loader: equal while it lasts, and never equal to another one.

    Trainers may keep a data loader for all evaluations. accelerate lists a pass until it ends; one that was broken off
    stays listed, so that the next pass over the same data loader is listed beside it.
    """
    if dataloader is None:
        return None
    listed = getattr(_gradient_state(), "dataloader_references", ())
    return weakref.ref(dataloader), sum(other is dataloader for other in listed)


def active_dataloader(*, at_end: bool) -> Any:
    """Return what accelerate iterates now: each evaluation with `batch_eval_metrics` has a data loader of its own.

    At its end the Trainer says so because accelerate does; otherwise it is one that was broken off, or the training's.
    """
    state = _gradient_state()
    if at_end and not getattr(state, "end_of_dataloader", False):
        return None
    return getattr(state, "active_dataloader", None)


def dataset_length(dataloader: Any) -> int | None:
    """Return how many samples a data loader's data set has; `None` where that cannot be known."""
    dataset = getattr(dataloader, "dataset", None)
    if isinstance(dataset, torch.utils.data.IterableDataset) or not hasattr(dataset, "__getitem__"):
        return None
    try:
        return len(dataset)  # type: ignore[arg-type]
    except (TypeError, NotImplementedError):
        return None


def _gradient_state() -> Any:
    kind = getattr(sys.modules.get("accelerate.state"), "GradientState", None)
    return None if kind is None else kind()
