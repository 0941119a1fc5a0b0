"""`TokenMatches` and weights -> precision, recall, F1 per pair -> the best per segment: pure functions on tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bertscore_metric.core import ragged
from bertscore_metric.core.matching import TokenMatches
from bertscore_metric.core.weighting import IdfTable, idf_weights, plain_weights, with_fallback
from bertscore_metric.core.windows import WindowRule, count_windows


@dataclass(frozen=True)
class Vocabulary:
    """Which token ids have a part to play in scoring.

    Args:
        special_ids: carry no text; a text of nothing else is empty.
        unweighted_ids: weigh 0 without idf and with idf that was counted.
        unmatchable_ids: take no part in the matching, so they weigh 0 in any case.
        unknown_id: stands for what the tokenizer does not know; `None` where it knows everything.
    """

    special_ids: frozenset[int]
    unweighted_ids: frozenset[int]
    unmatchable_ids: frozenset[int]
    unknown_id: int | None


@dataclass(frozen=True)
class SegmentScores:
    """Raw scores of segments, before rescaling, and what there is to say about their texts.

    Args:
        precision, recall, f1: [layer, segment] float32.
        best_reference: [layer, segment] int64, number of the reference with the best F1.
        empty: [segment] bool, nothing to score: the candidate or every reference is empty.
        fell_back: [segment] bool, all idf weights of a side were 0.
        unknown, tokens: [segment, 2] int64, unknown and all tokens of the candidate and of the references, special
            ones not counted.
        truncated, lost: [segment] int64, texts cut at the length limit, and tokens lost by it; -n for at least n.
        windows: [segment] int64, windows of the texts that are longer than one.
    """

    precision: Tensor
    recall: Tensor
    f1: Tensor
    best_reference: Tensor
    empty: Tensor
    fell_back: Tensor
    unknown: Tensor
    tokens: Tensor
    truncated: Tensor
    lost: Tensor
    windows: Tensor

    @staticmethod
    def concatenate(parts: Sequence[SegmentScores]) -> SegmentScores:
        """Join parts in order."""
        segment_first = {"unknown", "tokens"}
        return SegmentScores(*(
            torch.cat([getattr(part, name) for part in parts], dim=0 if name in segment_first else -1)
            for name in SegmentScores.__dataclass_fields__
        ))  # fmt: skip


def score_segments(
    matches: TokenMatches,
    vocabulary: Vocabulary,
    idf: IdfTable | None = None,
    *,
    listed_specials: bool = False,
    window: WindowRule | None = None,
) -> SegmentScores:
    """Score segments from their matches.

    Args:
        matches: what the update half left.
        vocabulary: which ids weigh nothing, are unknown, and so on.
        idf: weights of the tokens; `None` weighs all alike.
        listed_specials: special tokens weigh what the table says (a table given by the user), not 0.
        window: how longer texts were cut into windows, to count them.
    """
    sides = []
    for ids, lengths in (
        (matches.candidate_ids, matches.candidate_lengths),
        (matches.reference_ids, matches.reference_lengths),
    ):
        weights, fell = token_weights(ids, lengths, vocabulary, idf, listed_specials=listed_specials)
        text = plain_weights(ids, vocabulary.special_ids)
        sides.append((weights, fell, ragged.sums(text, lengths).long(), _count(ids, vocabulary.unknown_id, lengths)))
    (c_weights, c_fell, c_tokens, c_unknown), (r_weights, r_fell, r_tokens, r_unknown) = sides
    empty = (c_tokens == 0) | (r_tokens == 0)
    precision = weighted_mean(matches.candidate_best, c_weights, matches.candidate_lengths).masked_fill(empty, 0)
    recall = weighted_mean(matches.reference_best, r_weights, matches.reference_lengths).masked_fill(empty, 0)
    counts = matches.reference_counts
    missing = _missing(r_tokens, counts)
    best = [
        best_of_references(score.masked_fill(missing, -torch.inf), counts)
        for score in (precision, recall, f1_score(precision, recall))
    ]
    first = ragged.starts(counts)  # a candidate is repeated for each reference, and counted once
    return SegmentScores(
        precision=best[0][0].float(),
        recall=best[1][0].float(),
        f1=best[2][0].float(),
        best_reference=best[2][1],
        empty=ragged.sums((~empty).long(), counts) == 0,
        fell_back=ragged.sums(((c_fell | r_fell) & ~missing).long(), counts) > 0,
        unknown=torch.stack([c_unknown[first], ragged.sums(r_unknown, counts)], dim=1),
        tokens=torch.stack([c_tokens[first], ragged.sums(r_tokens, counts)], dim=1),
        truncated=(matches.candidate_lost[first] != 0).long()
        + ragged.sums((matches.reference_lost != 0).long(), counts),
        lost=_total_lost(matches.candidate_lost[first], matches.reference_lost, counts),
        windows=_several(matches.candidate_lengths[first], window)
        + ragged.sums(_several(matches.reference_lengths, window), counts),
    )


def counted_references(matches: TokenMatches, special_ids: frozenset[int]) -> tuple[Tensor, Tensor]:
    """Return the token ids [token] and lengths [pair] of the references that count as documents.

    These are all but the missing ones: texts without a token, in a group that has another text.
    """
    ids, lengths = matches.reference_ids, matches.reference_lengths
    if len(lengths) == len(matches.reference_counts):  # no groups
        return ids, lengths
    tokens = ragged.sums(plain_weights(ids, special_ids), lengths).long()
    kept = ~_missing(tokens, matches.reference_counts)
    return ids[torch.repeat_interleave(kept, lengths)], lengths[kept]


def _missing(tokens: Tensor, counts: Tensor) -> Tensor:
    """Return which references are missing, having no token of text [pair] where others of their group have some."""
    without = tokens == 0
    some = ragged.sums((~without).long(), counts) > 0
    return without & torch.repeat_interleave(some, counts)


def _total_lost(candidate: Tensor, reference: Tensor, counts: Tensor) -> Tensor:
    """Return the tokens lost in each segment: [segment] and [pair] int64 -> [segment] int64, -n for at least n."""
    lost = candidate.abs() + ragged.sums(reference.abs(), counts)
    at_least = (candidate < 0) | (ragged.sums((reference < 0).long(), counts) > 0)
    return torch.where(at_least, -lost, lost)


def _several(lengths: Tensor, window: WindowRule | None) -> Tensor:
    """Return the number of windows of texts that have several, 0 for the others: [text] int64 -> [text] int64."""
    counts = torch.zeros_like(lengths) if window is None else count_windows(lengths, window)
    return counts.masked_fill(counts == 1, 0)


def token_weights(
    ids: Tensor, lengths: Tensor, vocabulary: Vocabulary, idf: IdfTable | None = None, *, listed_specials: bool = False
) -> tuple[Tensor, Tensor]:
    """Return what every token weighs: 1 or its idf, 0 for special tokens.

    Args:
        ids: [token] int64, text after text.
        lengths: [text] int64.
        vocabulary, idf, listed_specials: as for `score_segments`.

    Returns:
        Weights [token] float64, and the texts whose idf weights were all 0, so that they weigh as without idf [text].
    """
    unweighted = vocabulary.unweighted_ids | vocabulary.unmatchable_ids
    if idf is None:
        return plain_weights(ids, unweighted), torch.zeros(len(lengths), dtype=torch.bool)
    weights = idf_weights(ids, idf, vocabulary.unmatchable_ids if listed_specials else unweighted)
    if bool((ragged.sums(weights, lengths) <= 0).any()):
        return with_fallback(weights, plain_weights(ids, unweighted), lengths)
    return weights, torch.zeros(len(lengths), dtype=torch.bool)


def _count(ids: Tensor, token: int | None, lengths: Tensor) -> Tensor:
    found = ids == (-1 if token is None else token)
    return ragged.sums(found.double(), lengths).long() if bool(found.any()) else torch.zeros_like(lengths)


def weighted_mean(best: Tensor, weights: Tensor, lengths: Tensor) -> Tensor:
    """Return the weighted mean of the best cosines of every text: the sum of w x best over the sum of w.

    Args:
        best: [layer, token] float32.
        weights: [token] float64.
        lengths: [text] int64.

    Returns:
        [layer, text] float64; 0 for a text without weight.
    """
    totals = ragged.sums(weights, lengths)
    return ragged.sums(best.double() * weights, lengths) / torch.where(totals > 0, totals, 1.0)


def f1_score(precision: Tensor, recall: Tensor) -> Tensor:
    """Return 2PR / (P + R) where both are positive, and 0 elsewhere.

    The harmonic mean of numbers of either sign leaves every bound (bert_score gives -2.659 for P .0185 and R -.0183);
    so F1 is continuous and lies in [0, 1].
    """
    positive = (precision > 0) & (recall > 0)
    return torch.where(positive, 2 * precision * recall / torch.where(positive, precision + recall, 1.0), 0.0)


def best_of_references(scores: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Return the maximum over the references of each segment, and the number of the first that reaches it.

    Args:
        scores: [layer, pair].
        counts: [segment] int64, each at least 1.

    Returns:
        [layer, segment] in the dtype of `scores`, and [layer, segment] int64.
    """
    if not len(counts) or int(counts.max()) == 1:
        return scores, torch.zeros_like(scores, dtype=torch.int64)
    index, mask = ragged.padded_positions(ragged.starts(counts), counts)
    padded = scores[:, index].masked_fill(~mask, -torch.inf)
    return padded.max(-1).values, padded.argmax(-1)


def no_scores(layers: int) -> SegmentScores:
    """Return the scores of no segments."""
    row, column = torch.zeros(layers, 0), torch.zeros(0, dtype=torch.int64)
    pair = torch.zeros(0, 2, dtype=torch.int64)
    return SegmentScores(row, row, row, row.long(), column.bool(), column.bool(), pair, pair, column, column, column)
