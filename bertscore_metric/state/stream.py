"""Segments that were added and wait for a full batch, and the results of those that were scored: one accumulation.

    from bertscore_metric import BERTScorer, parse_segments
    from bertscore_metric.state.stream import Stream

    stream = Stream(BERTScorer("offline"))
    stream.add(parse_segments(candidates, references))
    stream.report().mean.f1

It knows no model: whatever turns segments into columns and columns into a result can be streamed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from bertscore_metric.core.pairs import Segments
from bertscore_metric.state.pending_texts import from_bytes, n_segments, to_bytes
from bertscore_metric.state.sample_ids import check_sample_ids
from bertscore_metric.state.state_columns import appended, digest, joined

FULL_BYTES = 2**17  # of texts, some 32,000 tokens, which fill a few well-planned batches
# What a stream holds beside results. `n_segments` counts those that wait, too; `digest` stands for all that was added.
STREAM_COLUMNS: Mapping[str, torch.dtype] = {
    "pending_texts": torch.uint8,
    "sample_ids": torch.int64,
    "n_segments": torch.int64,
    "digest": torch.uint8,
}
Parts = dict[str, list[Tensor]]


class SegmentScorer(Protocol):
    """What a stream asks of a scorer; a `BERTScorer` is one."""

    def match(self, segments: Segments) -> Mapping[str, Tensor]:
        """Return results as flat columns, of any names, which joined part after part are the results of all."""
        ...

    def report(self, columns: Mapping[str, Tensor], sample_ids: Tensor) -> Any:
        """Return the result of all segments from their joined columns; `sample_ids` [segment] int64, or none [0]."""
        ...


class Stream:
    """Segments in the order they are added, scored as soon as they fill a few batches.

    Any split into `add`, `merge` and `from_columns` gives the same result. A call that fails changes nothing.

    Args:
        scorer: turns segments into columns, and columns into a result.
        parts: the state of another stream, by column in one or several tensors. It is taken over, and only `drain`
            changes it in place.

    Example:
        >>> from bertscore_metric import BERTScorer, parse_segments
        >>> stream = Stream(BERTScorer("offline", num_layers=5))
        >>> stream.add(parse_segments(["hello there"], [["hi there", "hello"]]))
        >>> stream.add(parse_segments(["a cat sat"], ["a cat sat"]))
        >>> len(stream), [round(f1, 3) for f1 in stream.report().f1.tolist()]
        (2, [0.876, 1.0])
    """

    def __init__(self, scorer: SegmentScorer, parts: Parts | None = None) -> None:
        self.scorer = scorer
        self.parts: Parts = no_parts() if parts is None else parts

    def __len__(self) -> int:
        """Return the number of segments, of which some may wait."""
        return sum(int(part.sum()) for part in self.parts["n_segments"])

    def add(self, segments: Segments, sample_ids: Tensor | None = None, *, wait: bool = True) -> None:
        """Add segments.

        Args:
            segments: checked texts.
            sample_ids: [segment] int64, numbers of the samples: results come in their order, and samples that occur
                again count once. For all segments of a stream, or for none.
            wait: whether they may wait for others; else everything is scored now.

        Raises:
            ValueError: `sample_ids` for some segments only; and whatever the scorer raises.
        """
        if not len(segments):
            return
        ids = torch.empty(0, dtype=torch.int64) if sample_ids is None else sample_ids
        check_sample_ids(_size(self.parts["sample_ids"]) + len(ids), len(self) + len(segments))
        texts = to_bytes(segments)
        pending = [*self.parts["pending_texts"], texts]
        added = {"n_segments": torch.tensor([len(segments)]), "digest": digest(texts, ids)}
        if sample_ids is not None:
            added["sample_ids"] = sample_ids
        if wait and _size(pending) < FULL_BYTES:
            self.parts = self._with({**added, "pending_texts": texts})
        else:
            self.parts = {**self._with({**self._match(pending), **added}), "pending_texts": []}

    def drain(self) -> None:
        """Score what waits. The lists of `parts` change in place, so that all who hold them see it."""
        pending = self.parts["pending_texts"]
        if pending:
            for name, part in self._match(pending).items():
                self.parts.setdefault(name, [])[:] = appended(name, self.parts.get(name, []), part)
            pending.clear()

    def merge(self, other: Stream) -> None:
        """Add what another stream holds, after one's own; the other keeps it.

        Raises:
            ValueError: one has `sample_ids` and the other has none.
        """
        n_ids = _size(self.parts["sample_ids"]) + _size(other.parts["sample_ids"])
        check_sample_ids(n_ids, len(self) + len(other))
        self.drain()
        other.drain()
        parts = self.parts
        for name, more in other.parts.items():
            for part in more:
                parts = {**parts, name: appended(name, parts.get(name, []), part)}
        self.parts = parts

    def columns(self) -> dict[str, Tensor]:
        """Return everything as flat columns, to be stored or sent; what waits is scored first."""
        self.drain()
        empty = {} if _scored(self.parts) else self.scorer.match(Segments([], [], []))
        columns = {name: joined(parts, STREAM_COLUMNS.get(name, torch.float32)) for name, parts in self.parts.items()}
        return {**empty, **{name: column for name, column in columns.items() if name != "pending_texts"}}

    @classmethod
    def from_columns(cls, scorer: SegmentScorer, columns: Mapping[str, Tensor]) -> Stream:
        """Return the stream that `columns` was called on, for a scorer of the same settings."""
        parts: Parts = {name: [column] for name, column in columns.items()}
        return cls(scorer, {**no_parts(), **parts})

    @property
    def digest(self) -> Tensor:
        """16 bytes [byte] uint8 that stand for all that was added, in its order and split."""
        return self.parts["digest"][0]

    def rows(self) -> tuple[dict[str, Tensor], Tensor]:
        """Return what `report` of the scorer takes: the columns of results, and `sample_ids`."""
        columns = self.columns()
        own = {name: columns.pop(name) for name in STREAM_COLUMNS if name in columns}
        return columns, own["sample_ids"]

    def report(self) -> Any:
        """Return the scorer's result of all segments; what waits is scored first."""
        return self.scorer.report(*self.rows())

    def reset(self) -> None:
        """Forget everything; lists that others hold stay as they are."""
        self.parts = no_parts()

    def _match(self, texts: Sequence[Tensor]) -> Mapping[str, Tensor]:
        try:
            return self.scorer.match(from_bytes(joined(texts, torch.uint8)))
        except Exception as error:
            waiting = n_segments(self.parts["pending_texts"])
            if waiting:
                error.add_note(
                    f"Segments {len(self) - waiting} to {len(self) - 1} of earlier updates (counted from 0), which "
                    f"waited for a full batch, are among the texts that were scored here, and wait on. Repeat the call "
                    f"once the cause is gone, or reset() to begin anew without them."
                )
            raise

    def _with(self, rows: Mapping[str, Tensor]) -> Parts:
        """Return the parts with more rows, in new lists."""
        longer = {name: appended(name, self.parts.get(name, []), part) for name, part in rows.items()}
        return {**{name: list(parts) for name, parts in self.parts.items()}, **longer}


def no_parts() -> Parts:
    """Return the parts of a stream to which nothing was added."""
    lists: Parts = {name: [] for name in STREAM_COLUMNS}
    return {**lists, "n_segments": [torch.zeros(1, dtype=torch.int64)], "digest": [torch.zeros(16, dtype=torch.uint8)]}


def _size(parts: Sequence[Tensor]) -> int:
    return sum(part.numel() for part in parts)


def _scored(parts: Mapping[str, Sequence[Tensor]]) -> bool:
    return any(rows for name, rows in parts.items() if name not in STREAM_COLUMNS)
