"""Intervals, paired randomization and Holm's correction: each beside an independent way to the same number."""

import math
from itertools import product
from statistics import NormalDist, stdev

import numpy as np
import pytest
from scipy import stats

from bertscore_metric.core.significance import (
    Interval,
    detectable_difference,
    draws_for,
    holm,
    mean_interval,
    mean_intervals,
    randomization_p,
    segments_needed,
    standard_errors,
)


def skewed(n: int, seed: int = 0) -> np.ndarray:
    """Return values with a long left tail, as scores have."""
    return 0.95 - np.random.default_rng(seed).gamma(1.5, 0.05, n)


@pytest.mark.parametrize("n", [2, 10, 99])
def test_few_segments(n: int) -> None:
    """Below 100 segments the interval is Student's t, as scipy's one-sample test gives it."""
    values = skewed(n)
    theirs = stats.ttest_1samp(values, 0).confidence_interval(0.9)
    assert [*mean_interval(values, level=0.9)] == pytest.approx([theirs.low, theirs.high], abs=1e-12)


def bca(values: np.ndarray, level: float, resamples: int, seed: int) -> list[float]:
    """Return Efron's BCa interval from its formulas."""
    normal, n = NormalDist(), len(values)
    drawn = np.sort(values[np.random.default_rng(seed).integers(n, size=(resamples, n))].mean(1))
    z0 = normal.inv_cdf(float((drawn < values.mean()).mean()))
    off = values.mean() - (values.sum() - values) / (n - 1)
    a = (off**3).sum() / (6 * (off**2).sum() ** 1.5)
    ends = []
    for tail in ((1 - level) / 2, (1 + level) / 2):
        z = z0 + normal.inv_cdf(tail)
        ends.append(float(np.quantile(drawn, normal.cdf(z0 + z / (1 - a * z)))))
    return ends


@pytest.mark.parametrize("n", [100, 500])
def test_bootstrap(n: int) -> None:
    """From 100 segments on it is BCa, by its formulas, and shifted against t as the skew demands."""
    values = skewed(n)
    found = mean_interval(values, seed=3)
    error = values.std(ddof=1) / math.sqrt(n)
    assert [*found] == pytest.approx(bca(values, 0.95, 9999, 7), abs=0.06 * error)
    assert found == mean_interval(values, seed=3) != mean_interval(values, seed=4)
    assert found.low + found.high < 2 * values.mean()


def test_many_segments() -> None:
    """Above 20,000 segments it is t again, without resamples."""
    values = skewed(20_001)
    theirs = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert [*mean_interval(values)] == pytest.approx([theirs.low, theirs.high], abs=1e-12)


def test_rows() -> None:
    """Rows together have the intervals that they have alone."""
    rows = np.stack([skewed(150, seed) for seed in range(5)])
    for row, interval in zip(rows, mean_intervals(rows, seed=2), strict=True):
        assert [*interval] == pytest.approx([*mean_interval(row, seed=2)], abs=1e-12)


def test_equal_values() -> None:
    """Equal values give that value, also beside rows that differ, and with groups."""
    assert mean_interval([0.7] * 300) == mean_interval([0.7] * 3) == Interval(0.7, 0.7)
    rows = np.stack([np.full(200, 0.25), skewed(200)])
    assert mean_intervals(rows)[0] == Interval(0.25, 0.25)
    assert mean_interval([0.7] * 4, groups="aabb") == Interval(0.7, 0.7)


def test_groups() -> None:
    """Groups of one segment change nothing below 100; copies in one group add nothing."""
    values = skewed(40)
    alone = mean_interval(values)
    assert [*mean_interval(values, groups=range(40))] == pytest.approx([*alone], abs=1e-12)
    tripled = mean_interval(np.repeat(values, 3), groups=np.repeat(np.arange(40), 3).tolist())
    assert [*tripled] == pytest.approx([*alone], abs=1e-12)


def test_groups_of_unequal_size() -> None:
    """The cluster-robust error is that of a regression on a constant, with statsmodels' correction G / (G - 1)."""
    values, groups = skewed(9), [0, 0, 0, 1, 1, 2, 2, 2, 2]
    residuals = values - values.mean()
    meat = sum(residuals[np.array(groups) == group].sum() ** 2 for group in range(3))
    error = math.sqrt(3 / 2 * meat) / 9
    assert standard_errors(values[None], groups)[0] == pytest.approx(error)
    reach = stats.t.ppf(0.975, 2) * error
    assert [*mean_interval(values, groups=groups)] == pytest.approx([values.mean() - reach, values.mean() + reach])


def test_many_groups() -> None:
    """From 100 groups on they are drawn as wholes: the interval is wide where segments of a group are alike."""
    random = np.random.default_rng(0)
    groups = np.repeat(np.arange(120), 5)
    values = random.normal(size=120)[groups] + 0.1 * random.normal(size=600)
    narrow, wide = mean_interval(values), mean_interval(values, groups=groups.tolist())
    assert 2 < (wide.high - wide.low) / (narrow.high - narrow.low) < 2.4  # sqrt(5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.5],), "needs at least 2 segments, got 1"),
        (([],), "needs at least 2 segments, got 0"),
        (([0.5, math.nan],), "finite numbers; the one at index 1 is not"),
    ],
)
def test_wrong_values(arguments: tuple[list[float]], message: str) -> None:
    """What has no interval is an error in words."""
    with pytest.raises(ValueError, match=message):
        mean_interval(*arguments)


def test_wrong_arguments() -> None:
    """Arguments are checked, and the message says what is allowed."""
    with pytest.raises(ValueError, match=r"level must be between 0 and 1, got 95\."):
        mean_interval([1, 2], level=95)
    with pytest.raises(ValueError, match="resamples must be at least 100, got 5"):
        mean_interval([1, 2], resamples=5)
    with pytest.raises(ValueError, match="needs at least 2 groups, got 1"):
        mean_interval([1, 2], groups=["a", "a"])
    with pytest.raises(ValueError, match="There are 2 segments, but 1 groups"):
        mean_interval([1, 2], groups=["a"])
    with pytest.raises(ValueError, match="must be above 0, got 0"):
        segments_needed(100, 0.01, 0)


def every_sign(differences: list[float]) -> float:
    """Return the exact p from its definition."""
    far = [abs(sum(s * d for s, d in zip(signs, differences, strict=True))) for signs in
           product((1, -1), repeat=len(differences))]  # fmt: skip
    return sum(one >= abs(sum(differences)) - 1e-9 for one in far) / len(far)


@pytest.mark.parametrize("n", [1, 2, 5, 12])
def test_exact_p(n: int) -> None:
    """Up to 12 segments all signs are tried."""
    rows = np.random.default_rng(n).normal(0.3, 1, (4, n))
    assert randomization_p(rows).tolist() == pytest.approx([every_sign(row.tolist()) for row in rows])
    assert randomization_p(np.abs(rows)).tolist() == [2 / 2**n] * 4


def test_drawn_p() -> None:
    """Above 12 the draws come near the exact p, and to that of scipy's permutation test."""
    rows = np.random.default_rng(1).normal(0.3, 1, (3, 16))
    exact = [every_sign(row.tolist()) for row in rows]
    assert randomization_p(rows, draws=40_000).tolist() == pytest.approx(exact, abs=0.012)
    for row, p in zip(rows, randomization_p(rows), strict=True):
        theirs = stats.permutation_test((row,), np.sum, permutation_type="samples", n_resamples=np.inf)
        assert p == pytest.approx(theirs.pvalue, abs=0.02)
    assert randomization_p(np.ones((1, 300)))[0] == 1 / 10_000


def test_own_copy() -> None:
    """A system against its own copy has p = 1, also where scores move by what float32 does."""
    noise = np.random.default_rng(0).uniform(-1e-6, 1e-6, (1, 300))
    assert randomization_p(np.zeros((1, 300))).tolist() == randomization_p(noise).tolist() == [1.0]
    assert randomization_p(noise[:, :9]).tolist() == [1.0]


def test_groups_flip_together() -> None:
    """A group counts once: twenty segments in three groups have 2^3 signs."""
    assert randomization_p(np.ones((1, 20)), groups=[0] * 5 + [1] * 5 + [2] * 10).tolist() == [0.25]


def test_draws() -> None:
    """Many comparisons get more draws."""
    assert [draws_for(1), draws_for(120)] == [9999, 24_000]


def test_holm() -> None:
    """Holm's p, beside its definition: reject step by step until the first that fails."""
    p = np.random.default_rng(0).uniform(0, 0.2, 9)
    corrected = holm(p)
    for level in np.linspace(0.01, 0.99, 50):
        rejected = np.zeros(9, dtype=bool)
        for step, index in enumerate(np.argsort(p)):
            if p[index] > level / (9 - step):
                break
            rejected[index] = True
        assert ((corrected <= level) == rejected).all()


def test_detectable() -> None:
    """A true difference of that size is found in 80 % of the cases, and `segments_needed` turns it around."""
    values = skewed(200)
    smallest = detectable_difference(values[None])[0]
    assert smallest == pytest.approx(2.8 * stdev(values.tolist()) / math.sqrt(200))
    random = np.random.default_rng(0)
    draws = random.normal(smallest, values.std(ddof=1), (2000, 200))
    assert (stats.ttest_1samp(draws, 0, axis=1).pvalue < 0.05).mean() == pytest.approx(0.8, abs=0.03)
    assert segments_needed(200, smallest, smallest / 2) == 800
    assert segments_needed(200, smallest, smallest) == 200
