"""The measurement of coverage, in small: intervals hold the mean about as often as they promise."""

import sys

import numpy as np
import pytest
from conftest import TESTS

sys.path.append(str(TESTS.parent))  # the benchmarks are run from there

from tests.benchmarks.coverage import coverage, false_alarms


@pytest.mark.parametrize("n", [10, 30])
def test_coverage(n: int) -> None:
    """Of 400 samples with a long tail 91.5 to 98 % of the intervals hold the mean: 95 % and three deviations below."""
    population = 0.95 - np.random.default_rng(0).gamma(3, 0.03, 2000)
    assert 0.915 <= coverage(population, n, 400) <= 0.98


def test_coverage_can_fail() -> None:
    """The measurement sees an interval that is too narrow: of values that hide a rare one."""
    population = np.concatenate([np.random.default_rng(0).normal(0, 0.001, 99), [1.0]])
    assert coverage(population, 10, 200) < 0.5


def test_false_alarms() -> None:
    """Without Holm's correction ten equal systems mostly seem to differ; with it they hardly do."""
    plain, corrected = false_alarms(np.random.default_rng(0).gamma(1.5, 0.05, 500), 40, n=30)
    assert plain > 0.4
    assert corrected <= 0.15
