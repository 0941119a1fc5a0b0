"""What `score` is asked for beside means and deviations: intervals, and classic metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bertscore_metric.analysis.classics import ClassicScore
    from bertscore_metric.core.significance import Interval
    from bertscore_metric.result import BERTScoreResult

_COLUMNS = ("precision", "recall", "f1")


@dataclass(frozen=True)
class Extras:
    """Intervals of the means by the name of the score, and the scores by classic metrics; empty where not asked for."""

    intervals: dict[str, Interval]
    classics: list[ClassicScore]

    def to_dict(self) -> dict[str, Any]:
        """Return what there is, as the keys `interval` and `classics`."""
        intervals = {name: list(one) for name, one in self.intervals.items()}
        others = {one.name: one.to_dict() for one in self.classics}
        return {**({"interval": intervals} if intervals else {}), **({"classics": others} if others else {})}

    def lines(self) -> Iterator[str]:
        """Yield a line for each classic metric: name, score, interval and signature."""
        for one in self.classics:
            sure = "" if one.interval is None else f" [{one.interval.low:.3f}, {one.interval.high:.3f}]"
            yield f"{one.name} {one.score:.6f}{sure}  {one.signature}"


def extras_of(
    results: Mapping[str, BERTScoreResult],
    systems: Mapping[str, list[Any]],
    references: Sequence[Any],
    classics: Sequence[str],
    *,
    lang: str | None,
    interval: bool,
    seed: int,
) -> dict[str, Extras]:
    """Return what was asked for, of each system."""
    if not (classics or interval):
        return {name: Extras({}, []) for name in results}
    from bertscore_metric.analysis.classics import classic_scores

    groups = [[group] if isinstance(group, str) else list(group) for group in references]
    return {
        name: Extras(
            {column: result.interval(column, seed=seed) for column in _COLUMNS} if interval else {},
            classic_scores(classics, systems[name], groups, lang=lang, interval=interval, seed=seed),
        )
        for name, result in results.items()
    }
