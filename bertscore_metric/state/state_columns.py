"""`SegmentScores` and `TokenMatches` <-> flat columns, which can be stored in bulk, sent to other processes and joined.

A column is a one-dimensional tensor; columns of parts are joined by putting one behind the other. What a segment has to
say beside its scores (empty, cut, ...) shares one integer with its best reference, so that a segment takes 20 bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from bertscore_metric.core.aggregation import SegmentScores
from bertscore_metric.core.matching import TokenMatches

SCORE_COLUMNS: Mapping[str, torch.dtype] = {
    "precision": torch.float32,
    "recall": torch.float32,
    "f1": torch.float32,
    "best_references": torch.int64,
    "text_counts": torch.int64,
}
MATCH_COLUMNS: Mapping[str, torch.dtype] = {
    "candidate_ids": torch.int64,
    "candidate_best": torch.float32,
    "candidate_lengths": torch.int64,
    "reference_ids": torch.int64,
    "reference_best": torch.float32,
    "reference_lengths": torch.int64,
    "reference_counts": torch.int64,
}
COUNTS = "text_counts"  # the one column whose parts are added instead of joined
_BEST_BITS, _EMPTY, _FELL_BACK, _TRUNCATED, _LOST = 31, 31, 32, 33, 42  # where a segment's notes begin in its integer
_TRUNCATED_MOST, _LOST_MOST = 2**9 - 1, 2**20 - 1
_LENGTH_BITS = 32
_LENGTH_MASK = 2**_LENGTH_BITS - 1


def scores_to_columns(scores: SegmentScores) -> dict[str, Tensor]:
    """Return scores as columns.

    Args:
        scores: of some segments.

    Returns:
        The columns `SCORE_COLUMNS`: [segment x layer] for scores and best references, and `text_counts` [4], which are
        the sums of unknown and of all tokens of either side.
    """
    notes = (
        (scores.empty.long() << _EMPTY)
        | (scores.fell_back.long() << _FELL_BACK)
        | (scores.truncated.clamp(max=_TRUNCATED_MOST) << _TRUNCATED)
        # Texts in windows lose nothing, so the number of windows may stand where that of lost tokens would.
        | (torch.where(scores.truncated > 0, _within(scores.lost), scores.windows.clamp(max=_LOST_MOST)) << _LOST)
    )
    return {
        "precision": _segment_first(scores.precision),
        "recall": _segment_first(scores.recall),
        "f1": _segment_first(scores.f1),
        "best_references": _segment_first(scores.best_reference | notes),
        COUNTS: torch.cat([scores.unknown.sum(0), scores.tokens.sum(0)]),
    }


def columns_to_scores(columns: Mapping[str, Tensor], layers: int) -> SegmentScores:
    """Return the scores that `scores_to_columns` made columns of, part after part.

    Args:
        columns: the joined columns; `text_counts` may be any number of sums, one after the other.
        layers: how many layers were scored.

    Returns:
        The scores. Unknown and all tokens are known only in sum, so the first segment carries them.
    """
    packed = _layer_first(columns["best_references"], layers)
    notes = packed[0]
    truncated = (notes >> _TRUNCATED) & _TRUNCATED_MOST
    lost_or_windows = notes >> _LOST  # the highest bits, with their sign
    unknown, tokens = torch.zeros(2, packed.shape[1], 2, dtype=torch.int64)
    if packed.shape[1]:
        counts = columns[COUNTS].view(-1, 4).sum(0)
        unknown[0], tokens[0] = counts[:2], counts[2:]
    return SegmentScores(
        precision=_layer_first(columns["precision"], layers),
        recall=_layer_first(columns["recall"], layers),
        f1=_layer_first(columns["f1"], layers),
        best_reference=packed & (2**_BEST_BITS - 1),
        empty=((notes >> _EMPTY) & 1).bool(),
        fell_back=((notes >> _FELL_BACK) & 1).bool(),
        unknown=unknown,
        tokens=tokens,
        truncated=truncated,
        lost=lost_or_windows.masked_fill(truncated == 0, 0),
        windows=lost_or_windows.masked_fill(truncated > 0, 0),
    )


def _within(lost: Tensor) -> Tensor:
    """Return numbers of lost tokens that fit their bits; a larger one becomes "at least as many as fit"."""
    return torch.where(lost > _LOST_MOST, -_LOST_MOST, lost).clamp(min=-_LOST_MOST)


def matches_to_columns(matches: TokenMatches) -> dict[str, Tensor]:
    """Return matches as the columns `MATCH_COLUMNS`; a text's length and the tokens it lost share an integer."""
    return {
        "candidate_ids": matches.candidate_ids,
        "candidate_best": _segment_first(matches.candidate_best),
        "candidate_lengths": matches.candidate_lengths | (matches.candidate_lost << _LENGTH_BITS),
        "reference_ids": matches.reference_ids,
        "reference_best": _segment_first(matches.reference_best),
        "reference_lengths": matches.reference_lengths | (matches.reference_lost << _LENGTH_BITS),
        "reference_counts": matches.reference_counts,
    }


def columns_to_matches(columns: Mapping[str, Tensor], layers: int) -> TokenMatches:
    """Return the matches that `matches_to_columns` made columns of, part after part."""
    return TokenMatches(
        candidate_ids=columns["candidate_ids"],
        candidate_best=_layer_first(columns["candidate_best"], layers),
        candidate_lengths=columns["candidate_lengths"] & _LENGTH_MASK,
        candidate_lost=columns["candidate_lengths"] >> _LENGTH_BITS,
        reference_ids=columns["reference_ids"],
        reference_best=_layer_first(columns["reference_best"], layers),
        reference_lengths=columns["reference_lengths"] & _LENGTH_MASK,
        reference_lost=columns["reference_lengths"] >> _LENGTH_BITS,
        reference_counts=columns["reference_counts"],
    )


def digest(tensors: Sequence[Tensor]) -> bytes:
    """Return 16 bytes that stand for the tensors in their order, for their types, shapes and values."""
    data = hashlib.blake2b(digest_size=16)
    for tensor in tensors:
        data.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
        data.update(tensor.cpu().contiguous().numpy().data)
    return data.digest()


def check_columns(columns: Mapping[str, Sequence[Tensor]], layers: int) -> int:
    """Return how many segments there are in columns that come in parts, or refuse such that do not fit together.

    Args:
        columns: the columns `MATCH_COLUMNS` or `SCORE_COLUMNS`, and perhaps others, which are ignored.
        layers: how many layers were scored.

    Raises:
        ValueError: a column is longer or shorter than the others make it; the message names it.
    """
    size = {name: sum(part.numel() for part in parts) for name, parts in columns.items()}
    if "reference_counts" not in columns:
        segments = size["best_references"] // layers
        for name in ("best_references", "precision", "recall", "f1"):
            check_size(name, size[name], segments * layers)
        check_size(COUNTS, size[COUNTS], max(size[COUNTS] // 4, min(segments, 1)) * 4)
        return segments
    pairs = total(columns["reference_counts"])
    for side in ("candidate", "reference"):
        check_size(f"{side}_lengths", size[f"{side}_lengths"], pairs)
        tokens = sum(int((part & _LENGTH_MASK).sum()) for part in columns[f"{side}_lengths"])
        check_size(f"{side}_ids", size[f"{side}_ids"], tokens)
        check_size(f"{side}_best", size[f"{side}_best"], tokens * layers)
    return size["reference_counts"]


def check_size(name: str, got: int, expected: int) -> None:
    """Refuse a column of another length than the other columns make it.

    Raises:
        ValueError: the message names the column and both lengths.
    """
    if got != expected:
        raise ValueError(
            f"The column {name} has {got} entries, and with the other columns it must have {expected}; this state is "
            f"damaged, or put together from several."
        )


def total(parts: Sequence[Tensor]) -> int:
    """Return the sum of all entries of a column."""
    return sum(int(part.sum()) for part in parts)


def piece(parts: Sequence[Tensor], begin: int, end: int) -> Tensor:
    """Return the entries from `begin` to `end` of a column that has parts, as a copy; nothing else is copied."""
    found = [part[:0] for part in parts[:1]]
    for part in parts:
        if end > 0 and begin < len(part):
            found.append(part[max(begin, 0) : end])
        begin, end = begin - len(part), end - len(part)
    return torch.cat(found)


def joined(parts: Sequence[Tensor], dtype: torch.dtype) -> Tensor:
    """Return parts of a column as one tensor; no parts are an empty one of its type."""
    if len(parts) == 1:
        return parts[0]
    return torch.cat(list(parts)) if parts else torch.empty(0, dtype=dtype)


def appended(parts: Sequence[Tensor], part: Tensor, *, add: bool = False, most: int = 2**16) -> list[Tensor]:
    """Return the parts of a column with one more, joining small ones.

    A tensor takes some hundred bytes beside its numbers, so a part is joined to the one before it unless that is much
    longer: every number is copied a few times in all, and the parts stay few. Parts are never changed.

    Args:
        parts: of one column.
        part: comes last.
        add: the parts are sums, which are added.
        most: longest part that is made by joining.
    """
    if add:
        return [torch.stack([*parts, part]).sum(0)] if parts else [part]
    out = list(parts)
    run = [part]
    size = part.numel()
    while out and out[-1].numel() <= 2 * size and out[-1].numel() + size <= most:
        run.append(out.pop())
        size += run[-1].numel()
    out.append(torch.cat(run[::-1]) if len(run) > 1 else part)
    return out


def _segment_first(values: Tensor) -> Tensor:
    """[layer, entry] -> [entry x layer], so that parts can be joined."""
    return values[0].clone() if len(values) == 1 else values.T.reshape(-1)


def _layer_first(values: Tensor, layers: int) -> Tensor:
    return values[None] if layers == 1 else values.view(-1, layers).T.contiguous()
