"""How far scores agree with human judgements: correlations in groups, and how sure they are (scipy)."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertscore_metric.optional import explained

Floats = NDArray[np.float64]

STATISTICS = ("pearson", "spearman", "kendall", "accuracy")
_PAIRS_AT_ONCE = 2**22  # bounds memory
_RESAMPLES_AT_ONCE = 50  # bounds memory: this many copies of the scores of a group


def correlations(scores: Floats, human: Floats, groups: Sequence[NDArray[np.int64]]) -> Floats:
    """Return Pearson's r, Spearman's rho, Kendall's tau-b and the pairwise accuracy of every row of scores.

    The accuracy is that of `pairwise_accuracy`, with ties calibrated within each group.

    Args:
        scores: [row, segment].
        human: [segment].
        groups: for each group the numbers of its segments, at least two.

    Returns:
        [row, statistic, group] in [-1, 1], statistics as in `STATISTICS`; NaN where a row is the same everywhere, which
        agrees with nobody.
    """
    stats = require_scipy()
    functions = (stats.pearsonr, stats.spearmanr, stats.kendalltau)
    found = np.empty((len(scores), len(STATISTICS), len(groups)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.ConstantInputWarning)
        for number, members in enumerate(groups):
            for row, values in enumerate(scores[:, members]):
                found[row, :-1, number] = [function(values, human[members]).statistic for function in functions]
                same = np.ptp(values) == 0
                found[row, -1, number] = np.nan if same else pairwise_accuracy(values, human[members]).accuracy
    return found


@dataclass(frozen=True)
class PairwiseAccuracy:
    """In which share of all pairs of segments scores and people agree about what is better, or that neither is.

    Args:
        accuracy: with pairs counted as ties whose scores are at most `threshold` apart, the best threshold there is.
        uncalibrated: with equal scores counted as ties only.
        threshold: 0 where nothing is gained by more ties.
        n_pairs: how many pairs there are.
    """

    accuracy: float
    uncalibrated: float
    threshold: float
    n_pairs: int


def pairwise_accuracy(scores: Floats, human: Floats) -> PairwiseAccuracy:
    """Return the pairwise accuracy of scores with ties calibrated (Deutsch et al. 2023), over all pairs, exactly.

    Only a pair that people call a tie can be won by a larger threshold, so the thresholds that are tried are the
    differences of those pairs; the smallest of the best ones is taken.

    Args:
        scores: [segment].
        human: [segment].

    Example:
        >>> found = pairwise_accuracy(np.array([0.1, 0.2, 0.8]), np.array([1.0, 1.0, 2.0]))
        >>> found.accuracy, round(found.uncalibrated, 3), round(found.threshold, 3)
        (1.0, 0.667, 0.1)
    """
    tied = [sizes[same] for sizes, same, _ in _pairs(scores, human)]
    thresholds, gains = np.unique(np.concatenate([np.zeros(1), *tied]), return_counts=True)
    gains[0] -= 1  # the 0 that is always tried
    lost, concordant = np.zeros(len(thresholds), dtype=np.int64), 0
    for sizes, _, agree in _pairs(scores, human):
        sizes = np.sort(sizes[agree])
        concordant += len(sizes)
        lost += np.searchsorted(sizes, thresholds, side="right")
    correct = concordant + np.cumsum(gains) - lost
    best, n_pairs = int(np.argmax(correct)), len(scores) * (len(scores) - 1) // 2
    return PairwiseAccuracy(
        float(correct[best] / n_pairs), float(correct[0] / n_pairs), float(thresholds[best]), n_pairs
    )


def _pairs(scores: Floats, human: Floats) -> Iterator[tuple[Floats, NDArray[np.bool_], NDArray[np.bool_]]]:
    """Yield, for some pairs of segments at a time, how far the scores differ, people's ties, and who agrees: [pair]."""
    n = len(scores)
    rows = max(1, _PAIRS_AT_ONCE // max(1, n))
    for begin in range(0, n, rows):
        block = range(begin, min(n, begin + rows))
        by_score, by_people = (
            np.concatenate([side[one] - side[one + 1 :] for one in block]) for side in (scores, human)
        )
        yield np.abs(by_score), by_people == 0, np.sign(by_score) * np.sign(by_people) > 0


def resampled_pearson(
    scores: Floats, human: Floats, groups: Sequence[NDArray[np.int64]], *, resamples: int, seed: int
) -> Floats:
    """Return Pearson's r of every row, mean over the groups, in bootstrap resamples of the segments.

    Every resample draws as many segments of each group as it has, with replacement, the same ones for every row, so
    that rows can be compared within a resample (Efron and Tibshirani 1993, chapter 13, with groups as strata).

    Args:
        scores: [row, segment].
        human: [segment].
        groups: for each group the numbers of its segments.
        resamples: how many.
        seed: of the random numbers; equal seeds draw equal segments.

    Returns:
        [row, resample]; NaN where a resample drew equal values only.
    """
    stats = require_scipy()
    random = np.random.default_rng(seed)
    found = np.zeros((len(scores), resamples))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a resample of equal values: constant, or nearly
        for members in groups:
            for begin in range(0, resamples, _RESAMPLES_AT_ONCE):
                count = min(_RESAMPLES_AT_ONCE, resamples - begin)
                drawn = members[random.integers(len(members), size=(count, len(members)))]
                values = stats.pearsonr(scores[:, drawn], np.broadcast_to(human[drawn], (len(scores), *drawn.shape)),
                                        axis=-1).statistic  # fmt: skip
                found[:, begin : begin + count] += values / len(groups)
    return found


def require_scipy() -> Any:
    """Return `scipy.stats`.

    Raises:
        ImportError: scipy is not installed; the message names the command.
    """
    try:
        from scipy import stats
    except ImportError as error:
        raise explained(
            error, ("scipy",), "Correlations are computed by scipy: pip install 'bertscore_metric[stats]'."
        ) from error
    return stats
