"""Measure in turn: on shared machines timings are noisy, so the ratios of what ran in the same round count."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Rounds:
    """What was measured in turn.

    Args:
        seconds: [round] for each run, by its name.
        results: what each run returned in the last round.
    """

    seconds: Mapping[Any, list[float]]
    results: Mapping[Any, Any]

    def median(self, name: Any) -> float:
        """Return the median of a run's seconds."""
        return statistics.median(self.seconds[name])

    def ratio(self, slow: Any, fast: Any) -> float | None:
        """Return how many times as long `slow` took: the median of the ratios within a round; `None` without one."""
        if slow not in self.seconds or fast not in self.seconds:
            return None
        return statistics.median(a / b for a, b in zip(self.seconds[slow], self.seconds[fast], strict=True))


def in_turn(runs: Mapping[Any, Callable[[], Any]], rounds: int, between: Callable[[], Any] | None = None) -> Rounds:
    """Run each once a round, one after the other.

    Args:
        runs: what is measured, by its name; warmed up already.
        rounds: how often.
        between: is called before every round, and not measured.
    """
    seconds: dict[Any, list[float]] = {name: [] for name in runs}
    results: dict[Any, Any] = {}
    for _ in range(rounds):
        if between is not None:
            between()
        for name, run in runs.items():
            taken, results[name] = timed(run)
            seconds[name].append(taken)
    return Rounds(seconds, results)


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds that a run took, and what it returned."""
    begin = time.perf_counter()
    result = run()
    return time.perf_counter() - begin, result
