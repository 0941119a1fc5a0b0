"""Compare systems on the same segments: differences of means, how sure they are, and what they may mean."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bertscore_metric.analysis.systems import (
    SystemScores,
    check_comparable,
    parse_systems,
    score_systems,
    system_scores,
)
from bertscore_metric.core.significance import (
    LEVEL,
    RESAMPLES,
    SEED,
    TIE,
    Interval,
    detectable_difference,
    draws_for,
    holm,
    is_exact,
    mean_intervals,
    randomization_p,
    segments_needed,
)
from bertscore_metric.scorer import BERTScorer

if TYPE_CHECKING:
    from bertscore_metric.analysis.calibration import Agreement, Calibration

MOST_DIFFERENT = 5  # segments named for each pair


@dataclass(frozen=True)
class SystemMean:
    """One system: its name, its mean over the segments, and the interval of the mean."""

    name: str
    mean: float
    interval: Interval


@dataclass(frozen=True)
class PairOfSystems:
    """Two systems on the same segments.

    Args:
        first, second: their names.
        difference: of the means, first minus second.
        interval: of the difference, paired; `None` for a corpus metric, whose library gives none.
        wins, ties, losses: segments where the first is better, within 1e-6, worse; `None` for a corpus metric.
        p: two-sided, by paired randomization, of this comparison alone.
        p_holm: the same, corrected for all comparisons that were asked for (Holm 1979).
        detectable: the smallest difference that so many segments can show (80 % power, 5 % two-sided); `None` for a
            corpus metric.
        needed: how many such segments would show the difference that was asked for, where one was.
        most_different: numbers (from 0) of the segments that differ most, the largest difference first.
        agreement: how often people agreed about such a difference, where a calibration was given.
    """

    first: str
    second: str
    difference: float
    interval: Interval | None
    wins: int | None
    ties: int | None
    losses: int | None
    p: float
    p_holm: float
    detectable: float | None
    needed: int | None = None
    most_different: tuple[int, ...] = ()
    agreement: Agreement | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            "first": self.first,
            "second": self.second,
            "difference": self.difference,
            "interval": None if self.interval is None else list(self.interval),
            "wins": self.wins,
            "ties": self.ties,
            "losses": self.losses,
            "p": self.p,
            "p_holm": self.p_holm,
            "detectable": self.detectable,
            "most_different": list(self.most_different),
            **({} if self.needed is None else {"needed": self.needed}),
            **({} if self.agreement is None else {"agreement": self.agreement.to_dict()}),
        }


@dataclass(frozen=True, repr=False, eq=False)
class Comparison:
    """Systems compared by one metric.

    Args:
        metric: `f1`, or a classic such as `bleu`.
        signature: how the scores came about; `None` where only numbers were given.
        systems: best first.
        pairs: all pairs in the order of `systems`, or every other system with the baseline.
        n_segments: how many segments every mean is over; `n_left_out` are empty for a system with `empty="skip"`.
        n_groups: how many groups were drawn instead of segments; `None` without groups.
        level: of the intervals.
        test: how p was found, in words.
        baseline: the system that the others were compared with; `None` for all pairs.
        detect: the difference that `needed` is about; `None` where none was asked for.
        by: the same for the segments of each domain or language, by its name.
        classics: the same by other metrics.
    """

    metric: str
    signature: str | None
    systems: tuple[SystemMean, ...]
    pairs: tuple[PairOfSystems, ...]
    n_segments: int
    n_left_out: int
    n_groups: int | None
    level: float
    test: str
    baseline: str | None = None
    detect: float | None = None
    by: Mapping[str, Comparison] = field(default_factory=dict)
    classics: Mapping[str, Comparison] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Return the means in one line."""
        means = ", ".join(f"{system.name}={system.mean:.6f}" for system in self.systems)
        return f"Comparison({self.metric}: {means}; n_segments={self.n_segments}, signature={self.signature!r})"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values; `by` and `classics` only where there are any."""
        return {
            "metric": self.metric,
            "signature": self.signature,
            "n_segments": self.n_segments,
            "n_left_out": self.n_left_out,
            "n_groups": self.n_groups,
            "level": self.level,
            "test": self.test,
            "baseline": self.baseline,
            "systems": [
                {"name": system.name, "mean": system.mean, "interval": list(system.interval)} for system in self.systems
            ],
            "pairs": [pair.to_dict() for pair in self.pairs],
            **({} if self.detect is None else {"detect": self.detect}),
            **({"by": {name: part.to_dict() for name, part in self.by.items()}} if self.by else {}),
            **({"classics": {name: part.to_dict() for name, part in self.classics.items()}} if self.classics else {}),
        }

    def to_json(self, *, indent: int | None = None) -> str:
        """Return `to_dict` as JSON."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)


def compare(
    systems: Mapping[str, Any],
    references: Any = None,
    model_name_or_path: str | None = None,
    *,
    baseline: str | None = None,
    groups: Sequence[Any] | None = None,
    by: Sequence[Any] | None = None,
    classics: Sequence[str] = (),
    calibration: Calibration | None = None,
    detect: float | None = None,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = SEED,
    scorer: BERTScorer | None = None,
    **settings: Any,
) -> Comparison:
    """Compare systems on the same segments: means and differences with intervals, p by paired randomization.

    Differences of segments, not two intervals, say whether systems differ; `p_holm` is the one to read where several
    pairs are compared. Every distinct text of all systems is embedded once, and scores at hand need no model.

    Args:
        systems: by name the candidates [segment], or a `BERTScoreResult` of them, or scores [segment]; two or more.
        references: texts [segment] or groups of texts; needed where candidates are given.
        model_name_or_path: as for `BERTScorer`.
        baseline: compare the other systems with this one only; by default all pairs are compared.
        groups: what each segment belongs to (its document), [segment], where segments of one are alike: groups are
            then drawn and flipped as wholes.
        by: what each segment is about (a domain, a language), [segment]: each is compared for itself as well.
        classics: other metrics beside F1: bleu, chrf, ter, rouge1, rouge2, rougeL. They need texts.
        calibration: how often people agreed about differences, of the same settings.
        detect: a difference; `needed` is then the number of segments that would show it.
        level, resamples, seed: of the intervals, as for `BERTScoreResult.interval`; the seed serves p as well.
        scorer: a scorer at hand, instead of a model and settings.
        settings: the arguments of `BERTScorer`.

    Raises:
        ImportError: scipy (or with `classics` sacrebleu or rouge-score) is not installed.
        TypeError, ValueError: fewer than two systems, other numbers of segments, scores that are not comparable or not
            finite, or wrong texts or settings; the message says what is allowed.

    Example:
        >>> comparison = compare({"one": [0.9, 0.8, 0.7, 0.9], "other": [0.8, 0.6, 0.7, 0.7]})
        >>> pair = comparison.pairs[0]
        >>> round(pair.difference, 3), pair.wins, pair.ties, pair.losses, pair.p
        (0.125, 3, 1, 0, 0.25)
    """
    if len(systems) < 2:
        raise ValueError(f"A comparison needs at least two systems, got {len(systems)}.")
    if baseline is not None and baseline not in systems:
        raise ValueError(f"The baseline must be one of the systems ({', '.join(systems)}), got {baseline!r}.")
    _check_request(classics, detect, groups, level)
    texts = {name: value for name, value in systems.items() if _holds_texts(value)}
    found: dict[str, Any] = dict(systems)
    parsed: tuple[dict[str, list[str]], list[list[str]]] | None = None
    if texts:
        if references is None:
            raise ValueError(f"systems[{next(iter(texts))!r}] holds texts, which are scored against references=.")
        parsed = parse_systems(texts, references)
        scorer = BERTScorer(model_name_or_path, **settings) if scorer is None else scorer
        found.update(score_systems(scorer, *parsed))
    elif settings or model_name_or_path is not None or scorer is not None:
        raise ValueError("Scores at hand are compared as they are; a model and its settings are for texts.")
    scored = {name: system_scores(name, found[name]) for name in systems}
    signature = check_comparable(scored)
    if calibration is not None:
        calibration.check(signature)
    plan = _Plan(baseline, groups, level, resamples, seed, detect)
    labels = None if by is None else _labels(by, len(next(iter(scored.values())).f1))
    whole = _compare(scored, plan, signature=None if signature is None else str(signature))
    if calibration is not None:
        whole = replace(whole, pairs=tuple(
            replace(pair, agreement=calibration.agreement(pair.difference)) for pair in whole.pairs
        ))  # fmt: skip
    return replace(
        whole,
        by={} if labels is None else _compare_by(scored, plan, labels, whole.signature),
        classics=_compare_classics(
            classics, parsed, len(texts) == len(systems), plan, None if scorer is None else scorer.config.lang
        ),
    )


@dataclass(frozen=True)
class _Plan:
    """What is asked of a comparison, apart from the scores."""

    baseline: str | None
    groups: Sequence[Any] | None
    level: float
    resamples: int
    seed: int
    detect: float | None


def _check_request(classics: Sequence[str], detect: float | None, groups: Any, level: float) -> None:
    """Refuse, before there is work, what no comparison can give."""
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, got {level}.")
    if detect is not None:
        segments_needed(1, 0.0, detect)
    if not classics:
        return
    from bertscore_metric.analysis.classics import CORPUS_METRICS, check_names

    for name in [name for name in check_names(classics) if name in CORPUS_METRICS]:
        if groups is not None:
            raise ValueError(f"sacrebleu draws single segments for {name}, not groups; leave the groups or {name} out.")
        if level != LEVEL:
            raise ValueError(f"sacrebleu gives 95 % intervals for {name}, got level {level}; leave one of them out.")


def _holds_texts(value: Any) -> bool:
    if isinstance(value, str):
        return True
    if hasattr(value, "f1") or (hasattr(value, "dtype") and getattr(value.dtype, "kind", "f") not in "OUST"):
        return False
    return any(isinstance(entry, str) for entry in value) if isinstance(value, Sequence) else True


def _labels(by: Sequence[Any], n: int) -> list[str]:
    labels = [str(label) for label in by]
    if len(labels) != n:
        raise ValueError(f"There are {n} segments, but {len(labels)} entries of by=; each segment needs one.")
    return labels


def _compare_by(
    scored: Mapping[str, SystemScores], plan: _Plan, labels: list[str], signature: str | None
) -> dict[str, Comparison]:
    parts = {}
    for label in dict.fromkeys(labels):
        mine = np.array([one == label for one in labels])
        try:
            parts[label] = _compare(scored, plan, signature=signature, among=mine)
        except ValueError as error:
            raise ValueError(f"{label}: {error}") from error
    return parts


def _compare_classics(
    classics: Sequence[str],
    parsed: tuple[dict[str, list[str]], list[list[str]]] | None,
    complete: bool,
    plan: _Plan,
    lang: str | None,
) -> dict[str, Comparison]:
    if not classics:
        return {}
    if parsed is None or not complete:
        raise ValueError("BLEU, chrF, TER and ROUGE are computed from texts: give the candidates of every system.")
    from bertscore_metric.analysis import classics as others

    candidates, references = parsed
    found: dict[str, Comparison] = {}
    for name in others.check_names(classics):
        if name in others.SEGMENT_METRICS:
            scores = {system: SystemScores(others.rouge(name, texts, references), np.ones(len(texts), dtype=bool), None)
                      for system, texts in candidates.items()}  # fmt: skip
            part = _compare(scores, plan, signature=others.rouge_signature(name), metric=name)
        else:
            part = _corpus_comparison(name, candidates, references, plan, lang)
        found[name] = part
    return found


def _corpus_comparison(
    name: str, candidates: Mapping[str, list[str]], references: list[list[str]], plan: _Plan, lang: str | None
) -> Comparison:
    from bertscore_metric.analysis import classics as others

    found = others.corpus_scores(name, candidates, references, lang)
    systems = tuple(sorted((SystemMean(system, score, interval) for system, (score, interval) in found.scores.items()),
                           key=lambda one: one.mean if name == "ter" else -one.mean))  # fmt: skip
    asked = _pairs([system.name for system in systems], plan.baseline)
    p = others.corpus_p(name, candidates, references, asked, lang)
    means = {system.name: system.mean for system in systems}
    pairs = tuple(
        PairOfSystems(first, second, means[first] - means[second], None, None, None, None, value, corrected, None)
        for (first, second), value, corrected in zip(asked, p, holm(p).tolist(), strict=True)
    )
    return Comparison(
        name, found.signature, systems, pairs, len(references), 0, None, plan.level, others.CORPUS_TEST, plan.baseline
    )


def _pairs(ordered: Sequence[str], baseline: str | None) -> list[tuple[str, str]]:
    if baseline is None:
        return list(combinations(ordered, 2))
    return [(name, baseline) for name in ordered if name != baseline]


def _compare(
    scored: Mapping[str, SystemScores],
    plan: _Plan,
    *,
    signature: str | None,
    metric: str = "f1",
    among: NDArray[np.bool_] | None = None,
) -> Comparison:
    """Compare by scores of segments; `among` [segment] says which of them are compared."""
    mine = np.ones(len(next(iter(scored.values())).f1), dtype=bool) if among is None else among
    counted = np.logical_and.reduce([scores.counted for scores in scored.values()])
    kept = np.flatnonzero(mine & counted)
    groups = plan.groups
    if groups is not None:
        groups = list(groups)
        if len(groups) != len(mine):
            raise ValueError(f"There are {len(mine)} segments, but {len(groups)} groups; each segment needs one.")
        groups = [groups[index] for index in kept]
    values = {name: scores.f1[kept] for name, scores in scored.items()}
    intervals = mean_intervals(
        np.stack(list(values.values())), level=plan.level, resamples=plan.resamples, seed=plan.seed, groups=groups
    )
    systems = [SystemMean(name, float(one.mean()), interval)
               for (name, one), interval in zip(values.items(), intervals, strict=True)]  # fmt: skip
    systems.sort(key=lambda one: -one.mean)
    asked = _pairs([system.name for system in systems], plan.baseline)
    differences = np.stack([values[first] - values[second] for first, second in asked])
    n_groups = None if groups is None else len(set(groups))
    return Comparison(
        metric,
        signature,
        tuple(systems),
        _pairs_of_systems(asked, differences, kept, groups, plan),
        n_segments=len(kept),
        n_left_out=int((mine & ~counted).sum()),
        n_groups=n_groups,
        level=plan.level,
        test=_test(len(kept), n_groups, len(asked), plan.seed),
        baseline=plan.baseline,
        detect=plan.detect,
    )


def _pairs_of_systems(
    asked: Sequence[tuple[str, str]],
    differences: NDArray[np.float64],
    kept: NDArray[np.int64],
    groups: Sequence[Any] | None,
    plan: _Plan,
) -> tuple[PairOfSystems, ...]:
    intervals = mean_intervals(differences, level=plan.level, resamples=plan.resamples, seed=plan.seed, groups=groups)
    p = randomization_p(differences, seed=plan.seed, groups=groups)
    pairs = []
    for (first, second), row, interval, one, corrected, smallest in zip(
        asked, differences, intervals, p, holm(p), detectable_difference(differences, groups), strict=True
    ):
        largest = np.argsort(-np.abs(row), kind="stable")[:MOST_DIFFERENT]
        pairs.append(PairOfSystems(
            first, second, float(row.mean()), interval, int((row > TIE).sum()), int((np.abs(row) <= TIE).sum()),
            int((row < -TIE).sum()), float(one), float(corrected), float(smallest),
            None if plan.detect is None else segments_needed(row.size, float(smallest), plan.detect),
            tuple(int(kept[index]) for index in largest if abs(row[index]) > TIE),
        ))  # fmt: skip
    return tuple(pairs)


def _test(n_segments: int, n_groups: int | None, n_pairs: int, seed: int) -> str:
    units, what = (n_segments, "segments") if n_groups is None else (n_groups, "groups")
    how = f"all {2**units} signs" if is_exact(units) else f"{draws_for(n_pairs)} draws, seed {seed}"
    return f"paired randomization of {units} {what}, two-sided, {how}"
