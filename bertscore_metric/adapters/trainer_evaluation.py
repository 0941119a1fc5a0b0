"""What one evaluation of a Trainer has passed so far, and which of its rows are samples."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from bertscore_metric.state.stream import Stream


@dataclass
class Evaluation:
    """The samples of an evaluation, and what is known about it.

    Args:
        stream: the samples that this process scores.
        labels: a hash of the label of every row, to recognize rows that are repeated.
        digest: [byte] uint8, of all rows, whichever process scores them.
        dataloader: what is iterated, and `length` its number of samples, where the callback tells.
        processes: how many take part, where the callback tells.
        failure: what this process failed with, to be told to the others at the end.
    """

    stream: Stream
    labels: list[int] = field(default_factory=list)
    digest: Tensor = field(default_factory=lambda: torch.zeros(16, dtype=torch.uint8))
    dataloader: weakref.ref[Any] | None = None
    length: int | None = None
    processes: int | None = None
    failure: Exception | None = None

    @property
    def repeats(self) -> bool:
        """Whether rows may be repeated to fill batches, which happens on several processes only."""
        return (self.processes or (dist.get_world_size() if distributed() else 1)) > 1

    def samples(self, labels: Sequence[str], n_samples: int | None) -> range:
        """Note rows by their labels, and return which of these rows are samples; the others repeat the first ones.

        Raises:
            ValueError: there are more rows than samples, and they repeat nothing.
        """
        first = len(self.labels)
        self.labels += map(hash, labels)
        if n_samples is None or len(self.labels) <= n_samples:
            return range(len(labels))
        more = range(max(first, n_samples), len(self.labels))
        if not self.repeats or any(self.labels[row] != self.labels[row % n_samples] for row in more):
            raise ValueError(self._refusal(n_samples))
        return range(max(0, n_samples - first))

    def check_complete(self, n_samples: int | None) -> None:
        """Refuse an evaluation whose rows are fewer than its samples.

        Raises:
            ValueError: they are.
        """
        if n_samples is not None and len(self.labels) < n_samples:
            raise ValueError(self._refusal(n_samples))

    def _refusal(self, n_samples: int) -> str:
        return (
            f"The Trainer passed {len(self.labels)} rows, which cannot be {n_samples} samples: none may be missing "
            f"(dataloader_drop_last, other data), and only several processes repeat rows, the first ones at the end. "
            f"After an evaluation that was broken off call reset()."
        )


def distributed() -> bool:
    """Return whether there are processes to talk to."""
    return dist.is_available() and dist.is_initialized()


def dataset_length(dataloader: Any) -> int | None:
    """Return how many samples a data loader's data set has; `None` where that cannot be known."""
    dataset = getattr(dataloader, "dataset", None)
    if isinstance(dataset, torch.utils.data.IterableDataset) or not hasattr(dataset, "__getitem__"):
        return None
    try:
        return len(dataset)  # type: ignore[arg-type]
    except (TypeError, NotImplementedError):
        return None
