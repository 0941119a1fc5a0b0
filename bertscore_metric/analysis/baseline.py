"""Make a baseline: the mean scores of random pairs of sentences, layer by layer, in bert_score's file format."""

from __future__ import annotations

import json
import math
import random
import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bertscore_metric.analysis.all_layers import OWN_SETTINGS, score_every_layer
from bertscore_metric.core.pairs import check_texts
from bertscore_metric.result import Summary
from bertscore_metric.scorer import BERTScorer
from bertscore_metric.signature import Signature
from bertscore_metric.warnings import BERTScoreWarning

LARGEST_ERROR = 0.002  # of a score between 0 and 1; rescaling makes it larger, by 1 / (1 - baseline)


@dataclass(frozen=True, eq=False)
class BaselineResult:
    """A baseline and how sure it is.

    Args:
        values: [layer, 3] float64, mean P, R and F1 of the random pairs.
        standard_errors: [layer, 3] float64, of these means.
        n_pairs: number of pairs.
        n_texts: number of different texts that were not blank, of which the pairs were drawn.
        seed: of the drawing.
        signature: of the scores; its layer is `all`, each as `num_layers` gives it.
    """

    values: Tensor
    standard_errors: Tensor
    n_pairs: int
    n_texts: int
    seed: int
    signature: Signature

    @property
    def largest_error(self) -> float:
        """The largest standard error of a value."""
        return float(self.standard_errors.max())

    def to_csv(self) -> str:
        """Return the baseline as a file for `baseline_path`, as bert_score writes them: LAYER,P,R,F."""
        rows = (f"{layer},{p:.8f},{r:.8f},{f:.8f}\n" for layer, (p, r, f) in enumerate(self.values.tolist()))
        return "LAYER,P,R,F\n" + "".join(rows)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        names = ("precision", "recall", "f1")
        layers = [
            {"layer": layer, **dict(zip(names, values, strict=True)),
             "standard_error": dict(zip(names, errors, strict=True))}
            for layer, (values, errors) in enumerate(
                zip(self.values.tolist(), self.standard_errors.tolist(), strict=True)
            )
        ]  # fmt: skip
        counts = {"n_pairs": self.n_pairs, "n_texts": self.n_texts, "seed": self.seed}
        return {"signature": str(self.signature), **counts, "layers": layers}

    def to_json(self, *, indent: int | None = None) -> str:
        """Return `to_dict` as JSON."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)


def make_baseline(
    texts: Any, model_name_or_path: str | None = None, *, pairs: int | None = None, seed: int = 0, **settings: Any
) -> BaselineResult:
    """Score random pairs of texts, which have nothing to do with each other, with every layer of a model.

    This is how bert_score's baselines were made (journal/rescale_baseline.md there), from a million pairs of sentences
    of a monolingual corpus. No text is in two pairs, so that the pairs are independent and the standard errors right.
    Layer k is what `num_layers=k` gives. It warns where a standard error is above `LARGEST_ERROR`.

    Args:
        texts: sentences of a language; blank ones and repetitions are left out.
        model_name_or_path: as for `BERTScorer`.
        pairs: how many; by default as many as there are, half the number of texts.
        seed: of the drawing; equal seeds draw equal pairs from equal texts.
        settings: arguments of `BERTScorer`, but for those that choose a layer, idf or a baseline.

    Raises:
        TypeError, ValueError: wrong texts or settings, or too few texts; the message says what is allowed.
        NotImplementedError: the layers of the model cannot be had in one pass.
    """
    refused = [name for name in OWN_SETTINGS if name in settings]
    if refused:
        raise TypeError(f"{refused[0]}= is not for make_baseline(), which scores all layers without idf.")
    candidates, references, n_texts = draw_pairs(check_texts(texts, "texts"), pairs, seed)
    scorer, _ = score_every_layer(BERTScorer(model_name_or_path, all_layers=True, **settings))
    result = scorer.score(candidates, references)
    values, deviations = _columns(result.mean), _columns(result.std)
    made = BaselineResult(
        values, deviations / math.sqrt(len(candidates)), len(candidates), n_texts, seed, result.signature
    )
    if made.largest_error > LARGEST_ERROR:
        needed = math.ceil(made.n_pairs * (made.largest_error / LARGEST_ERROR) ** 2)
        warnings.warn(
            f"The largest standard error of this baseline is {made.largest_error:.5f}, above {LARGEST_ERROR}; about "
            f"{needed} pairs would be enough, of {2 * needed} different texts.",
            BERTScoreWarning,
            stacklevel=2,
        )
    return made


def draw_pairs(texts: list[str], pairs: int | None, seed: int) -> tuple[list[str], list[str], int]:
    """Return random disjoint pairs of texts, first and second ones, and the number of texts they were drawn from.

    Raises:
        ValueError: there are fewer than two pairs, or fewer than asked for.
    """
    distinct = list(dict.fromkeys(stripped for text in texts if (stripped := text.strip())))
    possible = len(distinct) // 2
    wanted = possible if pairs is None else pairs
    if not 2 <= wanted <= possible:
        raise ValueError(
            f"{wanted} pairs of {len(distinct)} different texts (blank ones and repetitions left out): a baseline "
            f"needs at least 2 pairs, and of these texts there are {possible} at most. Give more texts."
        )
    drawn = random.Random(seed).sample(distinct, 2 * wanted)
    return drawn[:wanted], drawn[wanted:], len(distinct)


def _columns(summary: Summary) -> Tensor:
    return torch.tensor([summary.precision, summary.recall, summary.f1], dtype=torch.float64).T
