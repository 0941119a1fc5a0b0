"""How far metrics agree with people about whole systems, and metrics beside BERTScore about segments."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from bertscore_metric.analysis import classics
from bertscore_metric.analysis.all_layers import OWN_SETTINGS, score_every_layer
from bertscore_metric.analysis.calibration import check_same_systems
from bertscore_metric.analysis.correlation import STATISTICS, correlations, require_scipy
from bertscore_metric.analysis.systems import SystemScores, match_systems, parse_systems
from bertscore_metric.analysis.tuning import check_judgements
from bertscore_metric.core.aggregation import score_segments
from bertscore_metric.core.matching import TokenMatches
from bertscore_metric.scorer import BERTScorer
from bertscore_metric.state.state_columns import to_columns

_LEAST_SYSTEMS = 3  # two points always lie on a line


@dataclass(frozen=True)
class SystemAgreement:
    """How far one metric agrees with people about systems.

    Args:
        name: of the metric: `layer 5`, `layer 5, idf`, `chrf`, `saved`.
        accuracy: share of the pairs of systems that both order alike (Kocmi et al. 2021); a tie on a side counts half.
        n_pairs: how many pairs there are.
        pearson, kendall: correlation with people's scores; NaN where the metric gives every system the same.
    """

    name: str
    accuracy: float
    n_pairs: int
    pearson: float
    kendall: float

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, `None` for a correlation that does not exist."""
        numbers = {key: None if math.isnan(value) else value
                   for key, value in (("pearson", self.pearson), ("kendall", self.kendall))}  # fmt: skip
        return {"name": self.name, "accuracy": self.accuracy, "n_pairs": self.n_pairs, **numbers}


@dataclass(frozen=True)
class SystemJudgement:
    """How far metrics agree with people about systems: a row a metric, and the signature of BERTScore's rows."""

    metrics: tuple[SystemAgreement, ...]
    n_systems: int
    signatures: Mapping[str, str]

    def to_json(self, *, indent: int | None = None) -> str:
        """Return everything as JSON."""
        data = {"signatures": dict(self.signatures), "n_systems": self.n_systems,
                "metrics": [metric.to_dict() for metric in self.metrics]}  # fmt: skip
        return json.dumps(data, indent=indent, ensure_ascii=False, allow_nan=False)


def judge_systems(
    systems: Mapping[str, Any],
    references: Any,
    human: Mapping[str, float],
    model_name_or_path: str | None = None,
    *,
    saved: Mapping[str, SystemScores] | None = None,
    others: Sequence[str] = (),
    lang: str | None = None,
    **settings: Any,
) -> SystemJudgement:
    """Say how far metrics agree with people about systems: mean F1 of every layer, saved scores and classic metrics.

    Args:
        systems: by name the candidates [segment]; empty where only saved scores are judged.
        references: texts [segment] or groups of texts; `None` without systems.
        human: people's score of each system, higher is better.
        model_name_or_path: as for `BERTScorer`; its layers are judged without idf and with the references' idf. Without
            it, saved scores and classics alone.
        saved: scores at hand of the same systems.
        others: classic metrics, as for `compare`; TER, which counts errors, is negated.
        lang: language of the texts, for BLEU's tokenizer.
        settings: arguments of `BERTScorer`, but for those that choose a layer, idf or a baseline.

    Raises:
        ImportError: scipy (or with `others` sacrebleu or rouge-score) is not installed.
        TypeError, ValueError: fewer than three systems, judgements of other systems, or wrong texts or settings.
    """
    require_scipy()
    candidates, groups = parse_systems(systems, references) if systems else ({}, [])
    means: dict[str, Mapping[str, float]] = {}
    signatures: dict[str, str] = {}
    for names in (candidates, saved or {}):
        if names:
            check_same_systems(dict.fromkeys(names, 0.0), human)
    if len(human) < _LEAST_SYSTEMS:
        raise ValueError(f"Systems are judged where there are at least {_LEAST_SYSTEMS}, got {len(human)}.")
    if len(set(human.values())) == 1:
        raise ValueError("People gave every system the same score; nothing agrees or disagrees with that.")
    if candidates and model_name_or_path is not None:
        means, signature = _every_layer(candidates, groups, model_name_or_path, settings)
        signatures["layers"] = signature
    if saved:
        means["saved"] = {name: float(scores.f1[scores.counted].mean()) for name, scores in saved.items()}
        signatures["saved"] = str(next(iter(saved.values())).signature)
    for name in classics.check_names(others):
        sign = -1.0 if name == "ter" else 1.0
        found = {system: classics.classic_scores([name], texts, groups, lang=lang)[0]
                 for system, texts in candidates.items()}  # fmt: skip
        means[name] = {system: sign * one.score for system, one in found.items()}
        signatures[name] = next(iter(found.values())).signature
    rows = tuple(system_agreement(name, values, human) for name, values in means.items())
    return SystemJudgement(rows, len(human), signatures)


def system_agreement(name: str, means: Mapping[str, float], human: Mapping[str, float]) -> SystemAgreement:
    """Return how far the means of systems agree with people's scores of them.

    Example:
        >>> system_agreement("f1", {"a": 0.9, "b": 0.8, "c": 0.7}, {"a": 2.0, "b": 1.0, "c": 1.5}).accuracy
        0.6666666666666666
    """
    stats = require_scipy()
    pairs = list(combinations(means, 2))
    agree = 0.0
    for first, second in pairs:
        ours, theirs = means[first] - means[second], human[first] - human[second]
        agree += 0.5 if ours == 0 or theirs == 0 else float((ours > 0) == (theirs > 0))
    x, y = [means[system] for system in means], [human[system] for system in means]
    constant = len(set(x)) == 1
    pearson, kendall = (
        math.nan if constant else float(function(x, y).statistic) for function in (stats.pearsonr, stats.kendalltau)
    )
    return SystemAgreement(name, agree / len(pairs), len(pairs), pearson, kendall)


def judge_segments(
    scores: Mapping[str, Any], human: Sequence[float], groups: Sequence[str] | None = None
) -> dict[str, dict[str, Any]]:
    """Return how far the scores of segments agree with people, by the name of each metric.

    Args:
        scores: by name [segment].
        human: a judgement of each segment.
        groups: as for `tune`: within each group, and the mean over the groups.

    Returns:
        For each metric and statistic (`pearson`, `spearman`, `kendall`, `accuracy`) the `mean`, and with several groups
        `groups` by name; `None` where there is no correlation.
    """
    found = {}
    for name, values in scores.items():
        row = np.asarray(values, dtype=np.float64)
        people, names, members = check_judgements(human, groups, len(row))
        by_group = correlations(row[None], people, members)[0]
        found[name] = {
            statistic: {
                "mean": _json_number(float(one.mean())),
                **(
                    {"groups": dict(zip(names, map(_json_number, one.tolist()), strict=True))} if len(names) > 1 else {}
                ),
            }
            for statistic, one in zip(STATISTICS, by_group, strict=True)
        }
    return found


def rows_beside(
    saved: Mapping[str, SystemScores],
    others: Sequence[str],
    candidates: Sequence[str],
    references: Sequence[Any],
    lang: str | None = None,
) -> dict[str, Any]:
    """Return the scores of segments by metrics beside BERTScore's layers: saved ones, and classics.

    Args:
        saved: by name, of `read_saved`, one score for each candidate.
        others: classic metrics, as for `compare`.
        candidates, references: texts, as for `score`.
        lang: language of the texts, for BLEU's tokenizer.

    Raises:
        ImportError: sacrebleu or rouge-score is not installed.
        ValueError: other numbers of scores, or an unknown metric.
    """
    rows: dict[str, Any] = {}
    for name, scores in saved.items():
        if len(scores.f1) != len(candidates):
            raise ValueError(f"{name} has {len(scores.f1)} scores, but there are {len(candidates)} judged segments.")
        rows[name] = scores.f1
    groups = [[group] if isinstance(group, str) else list(group) for group in references]
    for name in classics.check_names(others):
        rows[name] = classics.sentence_scores(name, candidates, groups, lang)
    return rows


def _every_layer(
    candidates: Mapping[str, list[str]], groups: list[list[str]], model: str, settings: Mapping[str, Any]
) -> tuple[dict[str, Mapping[str, float]], str]:
    """Return the systems' mean F1 by the name of layer and weighting, and the signature."""
    refused = [name for name in OWN_SETTINGS if name in settings]
    if refused:
        raise TypeError(f"{refused[0]}= is not for judging systems, which compares all layers, with and without idf.")
    scorer, _ = score_every_layer(BERTScorer(model, all_layers=True, idf=True, **settings))
    plain: dict[str, list[float]] = {}
    weighted: dict[str, list[float]] = {}
    for system, matches in match_systems(scorer, candidates, groups).items():
        assert isinstance(matches, TokenMatches)  # idf=True waits for the whole corpus
        with scorer.own_arithmetic():
            scores = score_segments(matches, scorer.vocabulary)
        plain[system] = scores.f1.double().mean(-1).tolist()
        weighted[system] = scorer.report(to_columns(matches)).f1.double().mean(-1).tolist()
    layers = range(len(next(iter(plain.values()))))
    means: dict[str, Mapping[str, float]] = {
        f"layer {layer}{suffix}": {system: values[layer] for system, values in by_system.items()}
        for suffix, by_system in (("", plain), (", idf", weighted))
        for layer in layers
    }
    return means, str(scorer.signature.replace("idf", "both"))


def _json_number(value: float) -> float | None:
    return None if math.isnan(value) else value
