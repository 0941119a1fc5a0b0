"""How far scores agree with human judgements: correlations in groups, and how sure they are (scipy)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertscore_metric.optional import explained

Floats = NDArray[np.float64]

STATISTICS = ("pearson", "spearman", "kendall")
_RESAMPLES_AT_ONCE = 50  # bounds memory: this many copies of the scores of a group


def correlations(scores: Floats, human: Floats, groups: Sequence[NDArray[np.int64]]) -> Floats:
    """Return Pearson's r, Spearman's rho and Kendall's tau-b of every row of scores with human judgements.

    Args:
        scores: [row, segment].
        human: [segment].
        groups: for each group the numbers of its segments, at least two.

    Returns:
        [row, statistic, group] in [-1, 1], statistics as in `STATISTICS`; NaN where a row is the same everywhere.
    """
    stats = require_scipy()
    functions = (stats.pearsonr, stats.spearmanr, stats.kendalltau)
    found = np.empty((len(scores), len(functions), len(groups)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.ConstantInputWarning)
        for number, members in enumerate(groups):
            for row, values in enumerate(scores[:, members]):
                found[row, :, number] = [function(values, human[members]).statistic for function in functions]
    return found


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
