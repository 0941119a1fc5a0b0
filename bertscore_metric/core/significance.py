"""How sure a mean is: intervals, paired tests, and what they can show. Pure functions on numpy arrays (scipy)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

LEVEL, RESAMPLES, SEED = 0.95, 9999, 0
TIE = 1e-6  # float32 scores move by as much with the batch that a text is in
_SUMS_EQUAL = 1e-9  # sums of the same numbers in another order
_EXACT = 12  # units of which all signs are tried
_BOOTSTRAP = range(100, 20_001)  # below, the t interval covers better; above, scipy's jackknife takes minutes
_LEAST_DRAWS, _DRAWS_FOR_EACH = 9999, 200  # Holm cannot go below comparisons / (draws + 1)
_LEAST_RESAMPLES = 100
_NUMBERS_AT_ONCE = 2**22  # bounds memory
_POWER = 2.8  # 1.96 + 0.84: 5 % two-sided, 80 % power


@dataclass(frozen=True)
class Interval:
    """Where a mean lies with the probability that was asked for; it unpacks to `low, high`."""

    low: float
    high: float

    def __iter__(self) -> Iterator[float]:
        """Unpack to low, high."""
        return iter((self.low, self.high))


def mean_interval(
    values: ArrayLike,
    *,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = SEED,
    groups: Sequence[Any] | None = None,
) -> Interval:
    """Return the interval of one mean; arguments, result and errors as for `mean_intervals`, for `values` [segment].

    Example:
        >>> low, high = mean_interval([0.91, 0.93, 0.88, 0.95])
        >>> round(low, 3), round(high, 3)
        (0.87, 0.965)
    """
    return mean_intervals(np.asarray(values, dtype=np.float64)[None], level=level, resamples=resamples, seed=seed,
                          groups=groups)[0]  # fmt: skip


def mean_intervals(
    values: ArrayLike,
    *,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = SEED,
    groups: Sequence[Any] | None = None,
) -> list[Interval]:
    """Return an interval for the mean of every row.

    Below 100 and above 20,000 segments it is Student's t; between them scipy's BCa bootstrap (Efron 1987), whose
    resamples are the same for every row. With groups it is these that are drawn, their number decides, and the t
    interval has the cluster-robust standard error (Liang and Zeger 1986) and one less degree of freedom than groups.

    Args:
        values: [row, segment], finite.
        level: of the interval, between 0 and 1.
        resamples: of the bootstrap, at least 100.
        seed: of the bootstrap; equal seeds give equal intervals.
        groups: what each segment belongs to (its document), [segment]; `None` where segments are independent.

    Returns:
        [row]; equal values give that value twice.

    Raises:
        ImportError: scipy is not installed.
        ValueError: fewer than two segments or groups, a value that is not finite, or a wrong argument.
    """
    rows = _finite(values)
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, got {level}.")
    if resamples < _LEAST_RESAMPLES:
        raise ValueError(f"resamples must be at least {_LEAST_RESAMPLES}, got {resamples}.")
    sums, sizes = grouped(rows, groups)
    n_units, what = len(sizes), "segments" if groups is None else "groups"
    if n_units < 2:
        raise ValueError(f"An interval needs at least 2 {what}, got {n_units}.")
    means, errors = rows.mean(-1), standard_errors(rows, groups)
    found = [_constant(row, mean) if error <= 1e-12 * abs(mean) else None
             for row, mean, error in zip(rows, means, errors, strict=True)]  # fmt: skip
    open_rows = [number for number, interval in enumerate(found) if interval is None]
    if open_rows and n_units in _BOOTSTRAP:
        lows, highs = _bootstrap(sums[open_rows], sizes, level, resamples, seed)
    else:
        reach = _scipy().t.ppf((1 + level) / 2, n_units - 1) * errors[open_rows]
        lows, highs = means[open_rows] - reach, means[open_rows] + reach
    for number, low, high in zip(open_rows, lows, highs, strict=True):
        found[number] = Interval(float(low), float(high))
    return [interval for interval in found if interval is not None]


def standard_errors(values: ArrayLike, groups: Sequence[Any] | None = None) -> Floats:
    """Return the standard error of the mean of every row: s / sqrt(n), with groups the cluster-robust one.

    Args:
        values: [row, segment].
        groups: [segment], as for `mean_intervals`; groups of one segment each give s / sqrt(n).

    Returns:
        [row]; NaN with fewer than two segments or groups.
    """
    rows = _finite(values)
    sums, sizes = grouped(rows - rows.mean(-1, keepdims=True), groups)
    n = len(sizes)
    if n < 2:
        return np.full(len(rows), np.nan)
    return np.asarray(np.sqrt(n / (n - 1) * (sums**2).sum(-1)) / sizes.sum())


def grouped(values: Floats, groups: Sequence[Any] | None) -> tuple[Floats, Floats]:
    """Return the sums over every group [row, group] and the groups' sizes [group]; without groups the values.

    Raises:
        ValueError: not one group for each segment.
    """
    if groups is None:
        return values, np.ones(values.shape[-1])
    if len(groups) != values.shape[-1]:
        raise ValueError(f"There are {values.shape[-1]} segments, but {len(groups)} groups; each segment needs one.")
    numbers: dict[Any, int] = {}
    members = np.array([numbers.setdefault(group, len(numbers)) for group in groups], dtype=np.int64)
    sums = np.stack([np.bincount(members, weights=row, minlength=len(numbers)) for row in values])
    return np.asarray(sums, dtype=np.float64), np.bincount(members).astype(np.float64)


def randomization_p(
    differences: ArrayLike, *, seed: int = SEED, groups: Sequence[Any] | None = None, draws: int | None = None
) -> Floats:
    """Return the two-sided p of every row by paired randomization: the signs of differences are flipped at random.

    Up to 12 segments all signs are tried and p = c / 2^n; above, p = (c + 1) / (draws + 1) (Riezler and Maxwell 2005),
    where c counts sums at least as far from 0 as the observed one. Differences of at most 1e-6 count as 0, so a system
    against its own copy has p = 1. With groups the segments of a group flip together.

    Args:
        differences: [row, segment], of two systems on the same segments; every row is a comparison.
        seed: of the draws, the same ones for every row.
        groups: [segment], as for `mean_intervals`.
        draws: how many; by default `draws_for` the number of rows.

    Returns:
        [row] in (0, 1].
    """
    rows = _finite(differences)
    units, _ = grouped(np.where(np.abs(rows) <= TIE, 0.0, rows), groups)
    observed = np.abs(units.sum(-1)) - _SUMS_EQUAL
    n = units.shape[-1]
    if n <= _EXACT:
        flips = (np.arange(2**n)[:, None] >> np.arange(n) & 1).astype(np.float64)
        return np.asarray(_far(units, flips, observed) / 2**n)
    count, wanted = np.zeros(len(units)), draws_for(len(units)) if draws is None else draws
    random, width = np.random.default_rng(seed), -(-n // 8)
    step = max(1, _NUMBERS_AT_ONCE // n)
    for begin in range(0, wanted, step):
        some = min(step, wanted - begin)
        bits = np.frombuffer(random.bytes(some * width), dtype=np.uint8).reshape(some, width)
        count += _far(units, np.unpackbits(bits, axis=1, count=n).astype(np.float64), observed)
    return np.asarray((count + 1) / (wanted + 1))


def draws_for(comparisons: int) -> int:
    """Return how many random draws so many comparisons need, so that Holm's correction can still find something."""
    return max(_LEAST_DRAWS, _DRAWS_FOR_EACH * comparisons)


def is_exact(n_units: int) -> bool:
    """Return whether the p of so many segments or groups is exact."""
    return n_units <= _EXACT


def _far(units: Floats, flips: Floats, observed: Floats) -> Floats:
    """Count the flips whose sums are as far from 0 as observed: [row, unit], [draw, unit], [row] -> [row]."""
    totals = units.sum(-1, keepdims=True) - 2 * (units @ flips.T)
    return np.asarray((np.abs(totals) >= observed[:, None]).sum(-1), dtype=np.float64)


def holm(p: ArrayLike) -> Floats:
    """Return Holm's (1979) corrected p of several comparisons: [comparison] -> [comparison] in [0, 1].

    Example:
        >>> [round(value, 3) for value in holm([0.01, 0.04, 0.03]).tolist()]
        [0.03, 0.06, 0.06]
    """
    values = np.asarray(p, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    corrected = np.empty_like(values)
    corrected[order] = np.maximum.accumulate(values[order] * (len(values) - np.arange(len(values))))
    return np.asarray(np.minimum(corrected, 1.0))


def detectable_difference(differences: ArrayLike, groups: Sequence[Any] | None = None) -> Floats:
    """Return the smallest difference of means that so many segments can show: 2.8 standard errors, [row].

    A true difference of this size is found in 80 % of the cases by one two-sided test at 5 %.

    Args:
        differences: [row, segment].
        groups: [segment], as for `mean_intervals`.
    """
    return _POWER * standard_errors(differences, groups)


def segments_needed(n_segments: int, detectable: float, difference: float) -> int:
    """Return how many segments like these would show a difference.

    Args:
        n_segments: how many there are.
        detectable: what they can show, of `detectable_difference`.
        difference: what shall be shown, above 0.

    Raises:
        ValueError: the difference is not above 0.
    """
    if not difference > 0:
        raise ValueError(f"The difference to detect must be above 0, got {difference}.")
    return max(2, int(np.ceil(n_segments * (detectable / difference) ** 2 - 1e-9)))


def _bootstrap(sums: Floats, sizes: Floats, level: float, resamples: int, seed: int) -> tuple[Floats, Floats]:
    """Return the ends of the BCa intervals of the means [row] of groups with these sums [row, group] and sizes."""

    def ratio(drawn: Floats, counts: Floats, axis: int) -> Floats:
        return np.asarray(drawn.sum(axis) / counts.sum(axis))

    alone = bool((sizes == 1).all())
    done = _scipy().bootstrap(
        (sums,) if alone else (sums, np.broadcast_to(sizes, sums.shape)), np.mean if alone else ratio,
        paired=not alone, vectorized=True, axis=-1, method="BCa", n_resamples=resamples, confidence_level=level,
        batch=max(1, _NUMBERS_AT_ONCE // sums.size), rng=np.random.default_rng(seed),
    )  # fmt: skip
    lows, highs = done.confidence_interval
    if not (np.isfinite(lows).all() and np.isfinite(highs).all()):
        raise ValueError("The bootstrap found no interval, for nearly all values are equal; use more resamples.")
    return lows, highs


def _constant(row: Floats, mean: float) -> Interval:
    value = float(row[0]) if np.ptp(row) == 0 else float(mean)
    return Interval(value, value)


def _finite(values: ArrayLike) -> Floats:
    rows = np.asarray(values, dtype=np.float64)
    if not np.isfinite(rows).all():
        index = int(np.argwhere(~np.isfinite(rows))[0][-1])
        raise ValueError(f"Scores must be finite numbers; the one at index {index} is not.")
    return rows


def _scipy() -> Any:
    try:
        from scipy import stats
    except ImportError as error:
        raise ImportError("Intervals are computed by scipy: pip install 'bertscore_metric[stats]'.") from error
    return stats
