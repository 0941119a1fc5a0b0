"""What a difference means: how often people preferred the system with the higher score, by size of the difference."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertscore_metric.analysis.systems import check_comparable, parse_systems, score_systems, system_scores
from bertscore_metric.scorer import BERTScorer
from bertscore_metric.signature import Signature

_CURVE = "1 / (1 + exp(-slope * difference))"
_EDGES = (0.0, 0.005, 0.01, 0.02, math.inf)  # of the table by size


@dataclass(frozen=True)
class Agreement:
    """How often people preferred the better system of pairs like one.

    Args:
        share: the curve's value, from 0 to 1.
        low, high: the values of the curves with one system left out.
        n_pairs: judged pairs whose difference is between half and twice the one in question.
    """

    share: float
    low: float
    high: float
    n_pairs: int

    def __str__(self) -> str:
        """Return it as `compare` prints it."""
        return f"people agree in {100 * self.share:.0f} % ({self.n_pairs} pairs)"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {"share": self.share, "limits": [self.low, self.high], "n_pairs": self.n_pairs}


@dataclass(frozen=True)
class JudgedPair:
    """Two systems of one language pair: how far their scores differ, and whether people agree (1, 0; a tie is 0.5)."""

    first: str
    second: str
    difference: float
    agree: float
    language_pair: str | None


@dataclass(frozen=True)
class Calibration:
    """For a signature, how often people prefer the system with the higher score.

    Pairs of a system share it, so that they are fewer than they seem: `n_systems` and the slopes with one system left
    out say how much hangs on single systems.

    Args:
        signature: of the scores.
        slope: of the logistic curve through one half at 0, fitted by maximum likelihood.
        limits: smallest and largest slope with one system left out; infinity where the rest agree without exception.
        pairs: every pair that was judged.
        n_systems: how many systems were judged.
    """

    signature: Signature
    slope: float
    limits: tuple[float, float]
    pairs: tuple[JudgedPair, ...]
    n_systems: int

    @property
    def language_pairs(self) -> tuple[str | None, ...]:
        """The language pairs of the systems, each once."""
        return tuple(dict.fromkeys(pair.language_pair for pair in self.pairs))

    def agreement(self, difference: float) -> Agreement | None:
        """Return how often people agree about a difference of this size; `None` above the largest that was seen."""
        size = abs(difference)
        sizes = [pair.difference for pair in self.pairs]
        if size > max(sizes):
            return None
        low, high = (_curve(slope, size) for slope in self.limits)
        return Agreement(_curve(self.slope, size), low, high, sum(size / 2 <= one <= 2 * size for one in sizes))

    def by_size(self) -> list[dict[str, Any]]:
        """Return for classes of differences how many pairs there are, and in which share of them people agree."""
        rows = []
        for low, high in pairwise(_EDGES):
            agree = [pair.agree for pair in self.pairs if low <= pair.difference < high]
            rows.append({
                "from": low, "to": None if math.isinf(high) else high, "n_pairs": len(agree),
                "agree": sum(agree) / len(agree) if agree else None,
            })  # fmt: skip
        return rows

    def check(self, signature: Signature | None) -> None:
        """Refuse scores that this calibration says nothing about.

        Raises:
            ValueError: the scores have no signature, or one that is not comparable.
        """
        if signature is None:
            raise ValueError("A calibration is for the scores of one signature, and these numbers have none.")
        if not self.signature.comparable_to(signature):
            raise ValueError(
                f"The calibration is of other settings, so it says nothing about these scores:\n  calibration: "
                f"{self.signature}\n  scores: {signature}"
            )

    def to_json(self) -> str:
        """Return everything as JSON, as `calibrate` writes it; a limit of infinity is `null`."""
        data = {
            "signature": str(self.signature),
            "curve": {"form": _CURVE, "slope": self.slope,
                      "limits": [None if math.isinf(one) else one for one in self.limits]},
            "n_pairs": len(self.pairs),
            "n_systems": self.n_systems,
            "language_pairs": list(self.language_pairs),
            "by_size": self.by_size(),
            "pairs": [vars(pair) for pair in self.pairs],
        }  # fmt: skip
        return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str, source: str = "The text") -> Calibration:
        """Read what `to_json` wrote.

        Raises:
            ValueError: not a calibration; the message names `source`.
        """
        try:
            data = json.loads(text)
            low, high = data["curve"]["limits"]
            return cls(
                Signature.parse(data["signature"]),
                float(data["curve"]["slope"]),
                (-math.inf if low is None else float(low), math.inf if high is None else float(high)),
                tuple(JudgedPair(**pair) for pair in data["pairs"]),
                int(data["n_systems"]),
            )
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{source} is not a file of `bertscore-metric calibrate` ({error!r}).") from None


def calibrate(
    means: Mapping[str, float], human: Mapping[str, float], signature: Signature, language_pair: str | None = None
) -> Calibration:
    """Fit how often people prefer the system with the higher mean.

    Args:
        means: the mean score of each system.
        human: people's score of each system, higher is better; every system needs one, and further ones are an error.
        signature: of the scores.
        language_pair: `de-en`; pairs of systems are formed within it.

    Raises:
        ImportError: scipy is not installed.
        ValueError: other systems on the two sides, fewer than three, or people who agree without exception, which no
            curve fits.
    """
    check_same_systems(means, human)
    if len(means) < 3:
        raise ValueError(f"A calibration needs at least three judged systems, got {len(means)}.")
    pairs = []
    for first, second in combinations(sorted(means, key=lambda name: -means[name]), 2):
        preferred = human[first] - human[second]
        agree = 0.5 if preferred == 0 or means[first] == means[second] else float(preferred > 0)
        pairs.append(JudgedPair(first, second, means[first] - means[second], agree, language_pair))
    return _fitted(signature, pairs)


def calibrate_scores(
    systems: Mapping[str, Any], human: Mapping[str, float], language_pair: str | None = None
) -> Calibration:
    """Calibrate with systems that are scored already: by name a `BERTScoreResult` or saved scores.

    Raises:
        ImportError, ValueError: as `calibrate`, and for scores without a signature or of several.
    """
    check_same_systems(dict.fromkeys(systems, 0.0), human)
    scored = {name: system_scores(name, value) for name, value in systems.items()}
    signature = check_comparable(scored)
    if signature is None:
        raise ValueError("A calibration is for one signature; pass results or saved scores, not bare numbers.")
    means = {name: float(scores.f1[scores.counted].mean()) for name, scores in scored.items()}
    return calibrate(means, human, signature, language_pair)


def calibrate_texts(
    scorer: BERTScorer,
    systems: Mapping[str, Any],
    references: Any,
    human: Mapping[str, float],
    language_pair: str | None = None,
) -> Calibration:
    """Calibrate with the texts of systems, by name the candidates [segment], each distinct text embedded once."""
    check_same_systems(dict.fromkeys(systems, 0.0), human)
    return calibrate_scores(score_systems(scorer, *parse_systems(systems, references)), human, language_pair)


def pool(calibrations: Sequence[Calibration]) -> Calibration:
    """Join calibrations of several language pairs with the same target language, for the same settings.

    Raises:
        ValueError: fewer than two, other settings, another or no target language, or the same judgements twice.
    """
    if len(calibrations) < 2:
        raise ValueError(f"Pooling needs at least two calibrations, got {len(calibrations)}.")
    targets = {_target(pair) for one in calibrations for pair in one.language_pairs}
    if len(targets) > 1:
        raise ValueError(
            f"Only language pairs with the same target language are pooled, got {', '.join(sorted(map(str, targets)))}."
        )
    for one in calibrations[1:]:
        calibrations[0].check(one.signature)
    pairs = [pair for one in calibrations for pair in one.pairs]
    if len(set(pairs)) < len(pairs):
        raise ValueError("The same judged pair of systems is in two of the calibrations; add each once.")
    return _fitted(calibrations[0].signature, pairs)


def check_same_systems(means: Mapping[str, float], human: Mapping[str, float]) -> None:
    """Refuse judgements that do not belong to the systems.

    Raises:
        ValueError: a system without a judgement, or a judgement without a system; the message names them.
    """
    for what, names in (
        ("People's scores lack", [name for name in means if name not in human]),
        ("There are no texts or scores of", [name for name in human if name not in means]),
    ):
        if names:
            raise ValueError(f"{what} {', '.join(names)}; both sides must name the same systems.")


def _target(language_pair: str | None) -> str:
    source, dash, target = (language_pair or "").partition("-")
    if not (source and dash and target):
        raise ValueError(
            f"Pooling needs the language pair of every calibration, such as de-en, and one has {language_pair!r}; name "
            f"it when it is made (--language-pair)."
        )
    return target


def _fitted(signature: Signature, pairs: Sequence[JudgedPair]) -> Calibration:
    x, y = (np.array([getattr(pair, name) for pair in pairs]) for name in ("difference", "agree"))
    slope = _slope(x, y)
    if math.isinf(slope):
        agree = "agree" if slope > 0 else "disagree"
        raise ValueError(
            f"People {agree} about every one of {len(pairs)} pairs of systems, so there is no curve to fit; add "
            f"systems that are closer to one another."
        )
    systems = dict.fromkeys((pair.language_pair, name) for pair in pairs for name in (pair.first, pair.second))
    without = [np.array([not _has(pair, *system) for pair in pairs]) for system in systems]
    slopes = [_slope(x[rest], y[rest]) for rest in without]
    return Calibration(signature, slope, (min(slopes), max(slopes)), tuple(pairs), len(systems))


def _has(pair: JudgedPair, language_pair: str | None, system: str) -> bool:
    return pair.language_pair == language_pair and system in (pair.first, pair.second)


def _slope(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """Return the slope of the most likely curve through 1/2 at 0; infinite where nobody contradicts."""
    try:
        from scipy.optimize import brentq
    except ImportError as error:
        raise ImportError("Curves are fitted with scipy: pip install 'bertscore_metric[stats]'.") from error
    x, y = x[x > 0], y[x > 0]
    if not len(x) or (y == 1).all() or (y == 0).all():
        return math.inf if not len(x) or (y == 1).all() else -math.inf

    def gradient(slope: float) -> float:  # of the log likelihood; falls with the slope
        return float((x * (y - 1 / (1 + np.exp(np.clip(-slope * x, -700, 700))))).sum())

    bound = 1 / x.max()
    while gradient(bound) > 0 or gradient(-bound) < 0:
        bound *= 2
    return float(brentq(gradient, -bound, bound, xtol=1e-10 * bound))


def _curve(slope: float, difference: float) -> float:
    if difference == 0:
        return 0.5
    return 1 / (1 + math.exp(min(700.0, -slope * difference)))
