"""Token embeddings of segments as flat columns, for those who want to explain or match pairs again after scoring."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import SupportsIndex

import torch
from torch import Tensor

from bertscore_metric.core import ragged
from bertscore_metric.core.tokens import TokenizedSegments
from bertscore_metric.state.state_columns import check_size, joined, piece, total

EMBEDDING_COLUMNS: Mapping[str, torch.dtype] = {
    "kept_text_counts": torch.int64,
    "kept_lengths": torch.int64,
    "kept_ids": torch.int64,
    "kept_vectors": torch.float32,
}


@dataclass(frozen=True)
class TextEmbeddings:
    """Tokens of a text: `ids` [token] int64, and `embeddings` [layer, token, dim] float32 of length 1, on the CPU."""

    ids: Tensor
    embeddings: Tensor


@dataclass(frozen=True)
class SegmentEmbeddings:
    """Embeddings of a candidate and of its references."""

    candidate: TextEmbeddings
    references: tuple[TextEmbeddings, ...]


class EmbeddingCollector:
    """Collects the embeddings of every text that is matched, up to a number of bytes.

    Args:
        max_bytes: most bytes of all embeddings.
        held: bytes that are kept already.
    """

    def __init__(self, max_bytes: int, held: int = 0) -> None:
        self.max_bytes = max_bytes
        self.n_bytes = held
        self.rows: dict[int, Tensor] = {}

    def add(self, text: int, rows: Tensor, uses: int) -> None:
        """Keep the embeddings [layer, token, dim] of a text that occurs `uses` times.

        Raises:
            ValueError: the limit is exceeded.
        """
        if text in self.rows:
            return
        self.n_bytes += rows.nbytes * uses
        check_room(self.n_bytes, self.max_bytes)
        self.rows[text] = rows.to("cpu", torch.float32, copy=True)

    def columns(self, segments: TokenizedSegments) -> dict[str, Tensor]:
        """Return what was collected as the columns `EMBEDDING_COLUMNS`: each candidate, then its references."""
        counts = segments.reference_counts
        order = torch.zeros(len(counts) + int(counts.sum()), dtype=torch.int64)
        first = ragged.starts(counts + 1)
        order[first] = segments.candidates[ragged.starts(counts)]
        order[ragged.positions(first + 1, counts)] = segments.references
        texts = segments.texts
        lengths = texts.lengths[order]
        rows = [self.rows[text].movedim(0, 1).reshape(-1) for text in order.tolist() if text in self.rows]
        return {
            "kept_text_counts": counts + 1,
            "kept_lengths": lengths,
            "kept_ids": texts.ids[ragged.positions(ragged.starts(texts.lengths)[order], lengths)].long(),
            "kept_vectors": torch.cat(rows) if rows else torch.empty(0),
        }

    def segment(self, segments: TokenizedSegments, layers: int) -> SegmentEmbeddings:
        """Return what was collected of the first segment of a call."""
        return segment_embeddings({name: [column] for name, column in self.columns(segments).items()}, 0, layers)


def check_room(n_bytes: int, max_bytes: int) -> None:
    """Refuse to keep more than was allowed.

    Raises:
        ValueError: the message says how to go on.
    """
    if n_bytes > max_bytes:
        raise ValueError(
            f"keep_embeddings would hold {n_bytes} bytes of embeddings, and its limit is {max_bytes}. Score fewer "
            f"texts with it, raise kept_embeddings_bytes, or reset() more often."
        )


def check_index(index: SupportsIndex, n_segments: int) -> int:
    """Return the number of a segment, or refuse what is none.

    Raises:
        TypeError: no whole number.
        IndexError: there are fewer segments.
    """
    try:
        if isinstance(index, bool):
            raise TypeError
        number = operator.index(index)
    except TypeError:
        raise TypeError(f"A segment is named by its number (int), got {type(index).__name__}.") from None
    if not 0 <= number < n_segments:
        raise IndexError(f"There is no segment {number}; embeddings of {n_segments} segments are kept.")
    return number


def segment_embeddings(columns: Mapping[str, Sequence[Tensor]], index: int, layers: int) -> SegmentEmbeddings:
    """Return the embeddings of one segment.

    Args:
        columns: the columns `EMBEDDING_COLUMNS`, each in one or several parts.
        index: number of the segment, in the order it was kept.
        layers: how many layers were kept.

    Raises:
        IndexError: there are fewer segments.
    """
    counts, lengths = (joined(columns[name], torch.int64) for name in ("kept_text_counts", "kept_lengths"))
    index = check_index(index, len(counts))
    rows = columns["kept_vectors"]
    width = sum(part.numel() for part in rows) // max(int(lengths.sum()), 1)
    first = int(ragged.starts(counts)[index])
    starts = ragged.starts(lengths)
    texts = []
    for text in range(first, first + int(counts[index])):
        begin, n = int(starts[text]), int(lengths[text])
        tokens = piece(rows, begin * width, (begin + n) * width).view(n, layers, width // layers).movedim(1, 0)
        texts.append(TextEmbeddings(piece(columns["kept_ids"], begin, begin + n), tokens))
    return SegmentEmbeddings(texts[0], tuple(texts[1:]))


def check_embeddings(columns: Mapping[str, Sequence[Tensor]], n_segments: int, layers: int) -> None:
    """Refuse columns of embeddings that do not fit together, or not to the segments they should be of.

    Raises:
        ValueError: the message names the column.
    """
    size = {name: sum(part.numel() for part in columns[name]) for name in EMBEDDING_COLUMNS}
    check_size("kept_text_counts", size["kept_text_counts"], n_segments)
    check_size("kept_lengths", size["kept_lengths"], total(columns["kept_text_counts"]))
    check_size("kept_ids", size["kept_ids"], total(columns["kept_lengths"]))
    width = size["kept_vectors"] // (max(size["kept_ids"], 1) * layers)
    check_size("kept_vectors", size["kept_vectors"], width * size["kept_ids"] * layers)
