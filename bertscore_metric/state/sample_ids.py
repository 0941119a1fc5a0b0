"""Rows with the numbers of their samples -> the order of the data set, every sample once: pure functions on tensors."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from bertscore_metric.core import ragged
from bertscore_metric.core.aggregation import SegmentScores
from bertscore_metric.core.matching import TokenMatches

# How far the scores of one sample may lie apart: its batches differ, and with them the order of the encoder's sums.
SCORE_TOLERANCE = {"float32": 1e-4, "tf32": 5e-3, "bfloat16": 5e-2, "float16": 1e-2}


def parse_sample_ids(values: Any, n_segments: int) -> Tensor:
    """Check what a user passed as numbers of samples: a tensor, an array or a sequence of integers -> [segment] int64.

    Raises:
        TypeError: not integers.
        ValueError: not one for each segment, or beyond int64.
    """
    if isinstance(values, Tensor) and values.dtype == torch.uint64:  # would wrap around
        values = values.flatten().tolist()
    if isinstance(values, Tensor):
        ids = values.detach().cpu()
    else:
        try:
            listed = [values] if isinstance(values, Integral) else list(values)
            ids = torch.as_tensor([_integer(value) for value in listed], dtype=torch.int64)
        except TypeError as error:
            raise TypeError(f"sample_ids must be integers, one for each of preds: {error}") from None
    if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
        raise TypeError(f"sample_ids must be integers, one for each of preds; got {ids.dtype}.")
    ids = ids.reshape(-1).to(torch.int64, copy=True)
    if len(ids) != n_segments:
        raise ValueError(f"sample_ids must hold one number for each of preds, got {len(ids)} for {n_segments}.")
    return ids


def check_sample_ids(n_ids: int, n_segments: int) -> None:
    """Refuse numbers for some segments only.

    Raises:
        ValueError: neither none nor all of the segments have one.
    """
    if n_ids not in (0, n_segments):
        raise ValueError(
            f"Only {n_ids} of {n_segments} segments have sample_ids; pass them in every update, or in none (reset() "
            f"begins anew)."
        )


def sample_order(ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return which rows to keep and what they are repeated by.

    Args:
        ids: [row] int64.

    Returns:
        The first row of every sample in the order of the numbers [sample], the rows that repeat an earlier one
        [repeat], and those earlier ones [repeat]; all int64.
    """
    order = torch.argsort(ids, stable=True)
    sorted_ids = ids[order]
    new = torch.ones(len(ids), dtype=torch.bool)
    new[1:] = sorted_ids[1:] != sorted_ids[:-1]
    keep = order[new]
    return keep, order[~new], keep[torch.cumsum(new, 0) - 1][~new]


def scores_in_sample_order(scores: SegmentScores, ids: Tensor, tolerance: float) -> SegmentScores:
    """Return scores in the order of their samples' numbers, and those that a sampler repeated once.

    Args:
        scores: of all segments.
        ids: [segment] int64.
        tolerance: how far the scores of one sample may lie apart.

    Raises:
        ValueError: two segments with the same number have different scores, so they cannot be the same sample.
    """
    keep, repeats, originals = sample_order(ids)
    same = _same_scores(select_scores(scores, repeats), select_scores(scores, originals), tolerance)
    _check_repeats(ids[repeats], same)
    return select_scores(scores, keep)


def matches_in_sample_order(matches: TokenMatches, ids: Tensor, tolerance: float) -> TokenMatches:
    """Return matches in the order of their samples' numbers, and those that a sampler repeated once.

    Args, Raises: as for `scores_in_sample_order`.
    """
    keep, repeats, originals = sample_order(ids)
    if len(repeats):
        same = _same_matches(select_matches(matches, repeats), select_matches(matches, originals), tolerance)
        _check_repeats(ids[repeats], same)
    return select_matches(matches, keep)


def select_scores(scores: SegmentScores, rows: Tensor) -> SegmentScores:
    """Return the scores of some segments; the sums of tokens stay those of all (they are known only in sum)."""
    unknown, tokens = (torch.zeros(len(rows), 2, dtype=torch.int64) for _ in range(2))
    if len(rows):
        unknown[0], tokens[0] = scores.unknown.sum(0), scores.tokens.sum(0)
    return SegmentScores(
        precision=scores.precision[:, rows],
        recall=scores.recall[:, rows],
        f1=scores.f1[:, rows],
        best_reference=scores.best_reference[:, rows],
        empty=scores.empty[rows],
        fell_back=scores.fell_back[rows],
        unknown=unknown,
        tokens=tokens,
        truncated=scores.truncated[rows],
        lost=scores.lost[rows],
        windows=scores.windows[rows],
    )


def select_matches(matches: TokenMatches, rows: Tensor) -> TokenMatches:
    """Return the matches of some segments."""
    counts = matches.reference_counts[rows]
    pairs = ragged.positions(ragged.starts(matches.reference_counts)[rows], counts)
    c_lengths, r_lengths = matches.candidate_lengths[pairs], matches.reference_lengths[pairs]
    c_tokens = ragged.positions(ragged.starts(matches.candidate_lengths)[pairs], c_lengths)
    r_tokens = ragged.positions(ragged.starts(matches.reference_lengths)[pairs], r_lengths)
    return TokenMatches(
        candidate_ids=matches.candidate_ids[c_tokens],
        candidate_best=matches.candidate_best[:, c_tokens],
        candidate_lengths=c_lengths,
        candidate_lost=matches.candidate_lost[pairs],
        reference_ids=matches.reference_ids[r_tokens],
        reference_best=matches.reference_best[:, r_tokens],
        reference_lengths=r_lengths,
        reference_lost=matches.reference_lost[pairs],
        reference_counts=counts,
    )


def _check_repeats(ids: Tensor, same: Tensor) -> None:
    if not bool(same.all()):
        wrong = sorted(set(ids[~same].tolist()))
        raise ValueError(
            f"sample_ids {', '.join(map(str, wrong[:10]))}{', ...' if len(wrong) > 10 else ''} stand for texts with "
            f"different scores; a number must name one sample in the whole data set, on every rank."
        )


def _same_scores(a: SegmentScores, b: SegmentScores, tolerance: float) -> Tensor:
    near = [(getattr(a, name) - getattr(b, name)).abs() <= tolerance for name in ("precision", "recall", "f1")]
    return torch.stack(near).flatten(0, 1).all(0) & (a.empty == b.empty)


def _same_matches(a: TokenMatches, b: TokenMatches, tolerance: float) -> Tensor:
    """Return for every segment whether both have the same tokens and about the same similarities: [segment] bool."""
    # Segments of another shape are out; only those of the rest can be laid side by side, token by token.
    rows = torch.nonzero(a.reference_counts == b.reference_counts).squeeze(1)
    x, y = select_matches(a, rows), select_matches(b, rows)
    other = (x.candidate_lengths != y.candidate_lengths) | (x.reference_lengths != y.reference_lengths)
    rows = rows[ragged.sums(other.long(), x.reference_counts) == 0]
    x, y = select_matches(a, rows), select_matches(b, rows)
    wrong = _wrong(x.candidate_ids, y.candidate_ids, x.candidate_best, y.candidate_best, x.candidate_lengths, tolerance)
    wrong += _wrong(
        x.reference_ids, y.reference_ids, x.reference_best, y.reference_best, x.reference_lengths, tolerance
    )
    same = torch.zeros(len(a), dtype=torch.bool)
    same[rows] = ragged.sums(wrong, x.reference_counts) == 0
    return same


def _wrong(ids: Tensor, ids2: Tensor, best: Tensor, best2: Tensor, lengths: Tensor, tolerance: float) -> Tensor:
    return ragged.sums(((ids != ids2) | ((best - best2).abs() > tolerance).any(0)).long(), lengths)


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"got {value!r} of type {type(value).__name__}.")
    number = int(value.__index__())
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"sample_ids must fit into 64 bits with a sign (below 2**63), got {number}.")
    return number
