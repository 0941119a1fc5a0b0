"""Choose a layer: how far every layer's scores agree with human judgements."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bertscore_metric.analysis.all_layers import OWN_SETTINGS, score_every_layer
from bertscore_metric.analysis.correlation import STATISTICS, correlations, require_scipy, resampled_pearson
from bertscore_metric.core.aggregation import SegmentScores, score_segments
from bertscore_metric.core.matching import TokenMatches
from bertscore_metric.scorer import BERTScorer
from bertscore_metric.signature import Signature
from bertscore_metric.state.state_columns import to_columns

SCORES = ("precision", "recall", "f1")
WEIGHTINGS = ("without idf", "with idf")
_LEAST_IN_GROUP = 3  # two points always lie on a line
_TAILS = (0.025, 0.975)  # of a 95 % interval


@dataclass(frozen=True)
class BestLayer:
    """The layer whose F1 has the highest Pearson correlation with people, and how sure that is.

    Args:
        layer: its number, as for `num_layers`.
        correlation: Pearson's r of its F1, mean over the groups.
        low, high: 95 % bootstrap interval of `correlation` (percentiles).
        times_best: for every layer the share of the resamples, from 0 to 1, in which it is the best.
    """

    layer: int
    correlation: float
    low: float
    high: float
    times_best: tuple[float, ...]


@dataclass(frozen=True, repr=False, eq=False)
class TuningResult:
    """How far the scores of every layer agree with human judgements.

    Args:
        scores: [weighting, layer, score, segment] float32, in the order of `WEIGHTINGS` and `SCORES`.
        by_group: [weighting, layer, score, statistic, group] float64, correlations in the order of `STATISTICS`; NaN
            where a layer gives every segment of a group the same score.
        groups: names of the groups; one without a name where there are none.
        norms: mean L2 norm of the embeddings by layer, over the tokens of all texts, special tokens left out.
        best: the best layer of each weighting.
        resamples, seed: of the bootstrap.
        signature: of the scores; its layer is `all`, each as `num_layers` gives it, and its idf is `both`.
    """

    scores: Tensor
    by_group: Tensor
    groups: tuple[str, ...]
    norms: tuple[float, ...]
    best: tuple[BestLayer, BestLayer]
    resamples: int
    seed: int
    signature: Signature

    @property
    def correlations(self) -> Tensor:
        """Mean over the groups, each counting alike: [weighting, layer, score, statistic] float64."""
        return self.by_group.mean(-1)

    @property
    def n_segments(self) -> int:
        """Number of segments."""
        return self.scores.shape[-1]

    def __repr__(self) -> str:
        """Return the best layers in one line."""
        best = ", ".join(f"layer {b.layer} {name}" for name, b in zip(WEIGHTINGS, self.best, strict=True))
        return f"TuningResult(best: {best}; {self.n_segments} segments, signature={str(self.signature)!r})"

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the scores as plain values: a row for every weighting and layer, then the best."""
        rows = []
        for weighting, by_layer in enumerate(self.by_group.tolist()):
            for layer, by_score in enumerate(by_layer):
                row: dict[str, Any] = {"idf": bool(weighting), "layer": layer, "norm": self.norms[layer]}
                for score, by_statistic in zip(SCORES, by_score, strict=True):
                    row[score] = {
                        statistic: {"mean": _json_number(float(np.mean(values))), **self._named(values)}
                        for statistic, values in zip(STATISTICS, by_statistic, strict=True)
                    }
                rows.append(row)
        best = [
            {"idf": bool(weighting), "layer": b.layer, "correlation": b.correlation, "interval": [b.low, b.high],
             "times_best": list(b.times_best)}
            for weighting, b in enumerate(self.best)
        ]  # fmt: skip
        return {
            "signature": str(self.signature),
            "n_segments": self.n_segments,
            "groups": list(self.groups),
            "resamples": self.resamples,
            "seed": self.seed,
            "layers": rows,
            "best": best,
        }

    def to_json(self, *, indent: int | None = None) -> str:
        """Return `to_dict` as JSON; a correlation that does not exist is `null`."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)

    def _named(self, values: list[float]) -> dict[str, Any]:
        named = {name: _json_number(value) for name, value in zip(self.groups, values, strict=True)}
        return {"groups": named} if len(self.groups) > 1 else {}


def tune(
    candidates: Any,
    references: Any,
    human: Sequence[float],
    model_name_or_path: str | None = None,
    *,
    groups: Sequence[str] | None = None,
    resamples: int = 1000,
    seed: int = 0,
    **settings: Any,
) -> TuningResult:
    """Compare every layer of a model with human judgements, without idf and with the idf of the references.

    Each text is embedded once for all layers, and layer k is what `num_layers=k` gives. The best layer is the one whose
    F1 has the highest Pearson correlation, as in bert_score's table of layers.

    Args:
        candidates, references: texts, as for `score`.
        human: a judgement for each candidate; higher is better.
        model_name_or_path: as for `BERTScorer`.
        groups: what each segment belongs to (a language pair). Correlations are computed within each group and then
            averaged, for judgements of different groups need not share a scale; there is no correlation over all
            segments beside it, which groups left out give.
        resamples: bootstrap resamples of the segments within their groups.
        seed: of the bootstrap.
        settings: arguments of `BERTScorer`, but for those that choose a layer, idf or a baseline.

    Raises:
        ImportError: scipy is not installed.
        TypeError, ValueError: wrong texts, judgements, groups or settings; the message says what is allowed.
        NotImplementedError: the layers of the model cannot be had in one pass.
    """
    require_scipy()
    refused = [name for name in OWN_SETTINGS if name in settings]
    if refused:
        raise TypeError(f"{refused[0]}= is not for tune(), which compares all layers, with and without idf.")
    if resamples < 1:
        raise ValueError(f"resamples must be at least 1, got {resamples}.")
    scorer = BERTScorer(model_name_or_path, all_layers=True, idf=True, **settings)
    segments = scorer.tokenize(candidates, references)
    judgements, names, members = check_judgements(human, groups, len(segments))
    scorer, encoder = score_every_layer(scorer)
    matches = scorer.match_tokens(segments)
    assert isinstance(matches, TokenMatches)  # idf=True waits for the whole corpus
    with scorer.own_arithmetic():
        plain = score_segments(matches, scorer.vocabulary)
    scores = torch.stack([_stack(plain), _stack(scorer.report(to_columns(matches)))])
    by_group, best = _compare(scores.double().numpy(), judgements, members, resamples, seed)
    signature = scorer.signature.replace("idf", "both")
    return TuningResult(scores, by_group, names, encoder.norms, best, resamples, seed, signature)


def _stack(scores: SegmentScores | Any) -> Tensor:
    return torch.stack([scores.precision, scores.recall, scores.f1], dim=1)


def check_judgements(
    human: Sequence[float], groups: Sequence[str] | None, n: int
) -> tuple[np.ndarray[Any, Any], tuple[str, ...], list[np.ndarray[Any, Any]]]:
    """Check what people said.

    Returns:
        The judgements [segment], the names of the groups, and for each the numbers of its segments.

    Raises:
        ValueError: not one judgement and group for each of the `n` segments, a judgement that is not finite, or a group
            that is too small or has the same judgement everywhere.
    """
    values = np.asarray(human, dtype=np.float64)
    labels = [""] * n if groups is None else [str(group) for group in groups]
    for name, length in (("judgements", len(values)), ("groups", len(labels))):
        if length != n:
            raise ValueError(f"There are {n} candidates, but {length} {name}; each candidate needs one.")
    if not np.isfinite(values).all():
        index = int(np.flatnonzero(~np.isfinite(values))[0])
        raise ValueError(f"Judgements must be finite numbers; the one at index {index} is {values[index]}.")
    names = tuple(dict.fromkeys(labels)) or ("",)
    members = [np.flatnonzero(np.array(labels, dtype=object) == name) for name in names]
    for name, numbers in zip(names, members, strict=True):
        which = f"Group {name!r}" if groups is not None else "The data"
        if len(numbers) < _LEAST_IN_GROUP:
            raise ValueError(
                f"{which} has {len(numbers)} segments; a correlation needs at least {_LEAST_IN_GROUP}. "
                f"Leave the group out, or join it with another."
            )
        if np.ptp(values[numbers]) == 0:
            raise ValueError(f"{which} has the same judgement, {values[numbers[0]]}, everywhere; nothing correlates.")
    return values, names, members


def _compare(
    scores: np.ndarray[Any, Any],
    human: np.ndarray[Any, Any],
    members: list[np.ndarray[Any, Any]],
    resamples: int,
    seed: int,
) -> tuple[Tensor, tuple[BestLayer, BestLayer]]:
    """Return the correlations [weighting, layer, score, statistic, group] and the best layer of each weighting."""
    *axes, n = scores.shape
    by_group = correlations(scores.reshape(-1, n), human, members)
    by_group = by_group.reshape(*axes, *by_group.shape[1:])
    f1 = SCORES.index("f1")
    means = by_group[:, :, f1, STATISTICS.index("pearson")].mean(-1)
    drawn = resampled_pearson(scores[:, :, f1].reshape(-1, n), human, members, resamples=resamples, seed=seed)
    drawn = drawn.reshape(*axes[:2], resamples)
    plain, idf = (_best(mean, draw) for mean, draw in zip(means, drawn, strict=True))
    return torch.from_numpy(by_group), (plain, idf)


def _best(means: np.ndarray[Any, Any], drawn: np.ndarray[Any, Any]) -> BestLayer:
    """Return the best layer of the correlations [layer], with those of the resamples [layer, resample]."""
    if np.isnan(means).all():
        raise ValueError("Every layer gives all segments of a group the same score; nothing correlates.")
    layer = int(np.nanargmax(means))
    drawn = drawn[:, np.isfinite(drawn[layer])]
    if not drawn.shape[1]:
        raise ValueError("Every bootstrap resample of a group has equal scores only; give more segments a group.")
    low, high = np.quantile(drawn[layer], _TAILS)
    winners = np.bincount(np.nanargmax(drawn, axis=0), minlength=len(means)) / drawn.shape[1]
    return BestLayer(layer, float(means[layer]), float(low), float(high), tuple(winners.tolist()))


def _json_number(value: float) -> float | None:
    return None if math.isnan(value) else value
