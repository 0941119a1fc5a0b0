"""`SegmentScores` and `TokenMatches` <-> flat columns, which can be stored in bulk, sent to other processes and joined.

A column is a one-dimensional tensor; columns of parts are joined by putting one behind the other, and a few are added.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from bertscore_metric.core.aggregation import SegmentScores
from bertscore_metric.core.matching import TokenMatches

COUNTS = "text_counts"
ADDED = (COUNTS, "n_segments")  # columns whose parts are added instead of joined
SCORE_COLUMNS: Mapping[str, torch.dtype] = {
    "precision": torch.float32,
    "recall": torch.float32,
    "f1": torch.float32,
    "best_references": torch.int32,
    "empty": torch.uint8,
    "fell_back": torch.uint8,
    "truncated": torch.int32,
    "lost": torch.int32,
    "windows": torch.int32,
    COUNTS: torch.int64,
}
MATCH_COLUMNS: Mapping[str, torch.dtype] = {
    "candidate_ids": torch.int64,
    "candidate_best": torch.float32,
    "candidate_lengths": torch.int64,
    "candidate_lost": torch.int32,
    "reference_ids": torch.int64,
    "reference_best": torch.float32,
    "reference_lengths": torch.int64,
    "reference_lost": torch.int32,
    "reference_counts": torch.int64,
}
_BY_LAYER = ("precision", "recall", "f1", "best_references", "candidate_best", "reference_best")
_FIELDS = {"best_references": "best_reference"}  # whose column is called otherwise; the metric has such a property


def scores_to_columns(scores: SegmentScores) -> dict[str, Tensor]:
    """Return scores as the columns `SCORE_COLUMNS`.

    Args:
        scores: of some segments.

    Returns:
        What there is for every layer as [segment x layer], the rest as [segment], and `text_counts` [4], which are the
        sums of unknown and of all tokens of either side.
    """
    counts = torch.cat([scores.unknown.sum(0), scores.tokens.sum(0)])
    return {**_to_columns(scores, SCORE_COLUMNS), COUNTS: counts}


def columns_to_scores(columns: Mapping[str, Tensor], layers: int) -> SegmentScores:
    """Return the scores that `scores_to_columns` made columns of, part after part.

    Args:
        columns: the joined columns; `text_counts` may be any number of sums, one after the other.
        layers: how many layers were scored.

    Returns:
        The scores. Unknown and all tokens are known only in sum, so the first segment carries them.
    """
    n_segments = len(columns["empty"])
    unknown, tokens = torch.zeros(2, n_segments, 2, dtype=torch.int64)
    if n_segments:
        counts = columns[COUNTS].view(-1, 4).sum(0)
        unknown[0], tokens[0] = counts[:2], counts[2:]
    return SegmentScores(
        precision=_layer_first(columns["precision"], layers),
        recall=_layer_first(columns["recall"], layers),
        f1=_layer_first(columns["f1"], layers),
        best_reference=_layer_first(columns["best_references"], layers).long(),
        empty=columns["empty"].bool(),
        fell_back=columns["fell_back"].bool(),
        unknown=unknown,
        tokens=tokens,
        truncated=columns["truncated"].long(),
        lost=columns["lost"].long(),
        windows=columns["windows"].long(),
    )


def matches_to_columns(matches: TokenMatches) -> dict[str, Tensor]:
    """Return matches as the columns `MATCH_COLUMNS`."""
    return _to_columns(matches, MATCH_COLUMNS)


def columns_to_matches(columns: Mapping[str, Tensor], layers: int) -> TokenMatches:
    """Return the matches that `matches_to_columns` made columns of, part after part."""
    return TokenMatches(
        candidate_ids=columns["candidate_ids"],
        candidate_best=_layer_first(columns["candidate_best"], layers),
        candidate_lengths=columns["candidate_lengths"],
        candidate_lost=columns["candidate_lost"].long(),
        reference_ids=columns["reference_ids"],
        reference_best=_layer_first(columns["reference_best"], layers),
        reference_lengths=columns["reference_lengths"],
        reference_lost=columns["reference_lost"].long(),
        reference_counts=columns["reference_counts"],
    )


def to_columns(rows: SegmentScores | TokenMatches) -> dict[str, Tensor]:
    """Return scores or matches as columns."""
    return matches_to_columns(rows) if isinstance(rows, TokenMatches) else scores_to_columns(rows)


def digest(*tensors: Tensor) -> Tensor:
    """Return 16 bytes [byte] uint8 that stand for the tensors in their order, for their types, shapes and values."""
    data = hashlib.blake2b(digest_size=16)
    for tensor in tensors:
        data.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
        data.update(tensor.cpu().contiguous().numpy().data)
    return torch.tensor(list(data.digest()), dtype=torch.uint8)


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
        segments = size["empty"]
        for name in SCORE_COLUMNS:
            if name != COUNTS:
                check_size(name, size[name], segments * (layers if name in _BY_LAYER else 1))
        check_size(COUNTS, size[COUNTS], max(size[COUNTS] // 4, min(segments, 1)) * 4)
        return segments
    pairs = total(columns["reference_counts"])
    for side in ("candidate", "reference"):
        for name in (f"{side}_lengths", f"{side}_lost"):
            check_size(name, size[name], pairs)
        tokens = total(columns[f"{side}_lengths"])
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


def joined_columns(parts: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Return the columns of several parts, at least one, as those of all."""
    if len(parts) == 1:
        return dict(parts[0])
    return {name: _join(name, [part[name] for part in parts]) for name in parts[0]}


def _join(name: str, parts: Sequence[Tensor]) -> Tensor:
    if name == "digest":
        return digest(*parts)
    return torch.stack(list(parts)).sum(0) if name in ADDED else torch.cat(list(parts))


def appended(name: str, parts: Sequence[Tensor], part: Tensor, *, most: int = 2**16) -> list[Tensor]:
    """Return the parts of a column with one more, joining small ones; parts of a column of `ADDED` are added.

    A tensor takes some hundred bytes beside its numbers, so a part is joined to the one before it unless that is much
    longer: every number is copied a few times in all, and the parts stay few. Parts are never changed.

    Args:
        name: of the column.
        parts: of this column.
        part: comes last.
        most: longest part that is made by joining.
    """
    if name in ADDED or name == "digest":
        return [_join(name, [*parts, part])] if parts else [part]
    out = list(parts)
    run = [part]
    size = part.numel()
    while out and out[-1].numel() <= 2 * size and out[-1].numel() + size <= most:
        run.append(out.pop())
        size += run[-1].numel()
    out.append(torch.cat(run[::-1]) if len(run) > 1 else part)
    return out


def _to_columns(rows: SegmentScores | TokenMatches, types: Mapping[str, torch.dtype]) -> dict[str, Tensor]:
    columns = {}
    for name, dtype in types.items():
        if name != COUNTS:
            values = getattr(rows, _FIELDS.get(name, name))
            columns[name] = (_segment_first(values) if name in _BY_LAYER else values).to(dtype)
    return columns


def _segment_first(values: Tensor) -> Tensor:
    """[layer, entry] -> [entry x layer], so that parts can be joined."""
    return values[0].clone() if len(values) == 1 else values.T.reshape(-1)


def _layer_first(values: Tensor, layers: int) -> Tensor:
    return values[None] if layers == 1 else values.view(-1, layers).T.contiguous()
