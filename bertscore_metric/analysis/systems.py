"""Several systems on the same segments: scored together, so that no text is embedded twice, or as scores at hand."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertscore_metric.core.aggregation import SegmentScores
from bertscore_metric.core.matching import TokenMatches
from bertscore_metric.core.pairs import parse_segments
from bertscore_metric.result import BERTScoreResult
from bertscore_metric.scorer import BERTScorer
from bertscore_metric.signature import Signature
from bertscore_metric.state.sample_ids import select_matches
from bertscore_metric.state.state_columns import to_columns
from bertscore_metric.warnings import BERTScoreWarning


@dataclass(frozen=True, eq=False)
class SystemScores:
    """The F1 of one system.

    Args:
        f1: [segment] float64.
        counted: [segment] bool, which segments its mean is over (`empty="skip"` leaves some out).
        signature: how the scores came about; `None` where only numbers are known.
    """

    f1: NDArray[np.float64]
    counted: NDArray[np.bool_]
    signature: Signature | None


def parse_systems(systems: Mapping[str, Any], references: Any) -> tuple[dict[str, list[str]], list[list[str]]]:
    """Return the candidates of each system, and the references of each segment as a group.

    Raises:
        TypeError, ValueError: wrong texts, or another number of them than of references; the message names the system.
    """
    shared = references if isinstance(references, str) else list(references)
    candidates: dict[str, list[str]] = {}
    groups: list[list[str]] = []
    for name, texts in systems.items():
        segments = parse_segments(texts, shared, names=(f"systems[{name!r}]", "references"))
        candidates[name], groups = segments.candidates, segments.groups
    return candidates, groups


def match_systems(
    scorer: BERTScorer, candidates: Mapping[str, Sequence[str]], references: Sequence[Sequence[str]]
) -> dict[str, TokenMatches | SegmentScores]:
    """Match the candidates of all systems in one call, so that every distinct text is embedded once.

    The systems' candidates for a segment stand side by side, so that its references are at hand for all of them.

    Args:
        scorer: the settings.
        candidates: of each system [segment].
        references: groups of texts [segment].

    Returns:
        For each system what `scorer.match_tokens` would have returned.
    """
    mixed = [text for texts in zip(*candidates.values(), strict=True) for text in texts]
    together = scorer.match_tokens(scorer.tokenize(mixed, [group for group in references for _ in candidates]))
    found: dict[str, TokenMatches | SegmentScores] = {}
    for number, name in enumerate(candidates):
        rows = torch.arange(number, len(mixed), len(candidates))
        found[name] = select_matches(together, rows) if isinstance(together, TokenMatches) else _select(together, rows)
    return found


def score_systems(
    scorer: BERTScorer, candidates: Mapping[str, Sequence[str]], references: Sequence[Sequence[str]]
) -> dict[str, BERTScoreResult]:
    """Score several systems against the same references; each result is that of `scorer.score`.

    What a reader should know about a system is a warning that begins with its name.
    """
    results = {}
    for name, part in match_systems(scorer, candidates, references).items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", BERTScoreWarning)
            results[name] = scorer.report(to_columns(part))
        for warning in caught:
            warnings.warn(f"{name}: {warning.message}", BERTScoreWarning, stacklevel=3)
    return results


def system_scores(name: str, value: Any) -> SystemScores:
    """Return the scores of a system, from a result or from numbers.

    Raises:
        TypeError: neither.
        ValueError: scores of all layers, more than one dimension, or a score that is not finite.
    """
    if isinstance(value, SystemScores):
        scores = value
    elif isinstance(value, BERTScoreResult):
        if value.f1.ndim > 1:
            raise ValueError(f"{name} has the scores of all layers; compare one, with num_layers.")
        scores = SystemScores(value.f1.double().numpy(), value.counted.numpy(), value.signature)
    else:
        numbers = _numbers(name, value)
        scores = SystemScores(numbers, np.ones(len(numbers), dtype=bool), None)
    wrong = np.flatnonzero(~np.isfinite(scores.f1))
    if len(wrong):
        raise ValueError(
            f"Scores must be finite numbers; {name} has {scores.f1[wrong[0]]} at index {wrong[0]} (counted from 0)."
        )
    return scores


def check_comparable(systems: Mapping[str, SystemScores]) -> Signature | None:
    """Return the signature that the scores share; `None` where only numbers are known.

    Raises:
        ValueError: other numbers of segments, signatures that are not comparable, or some scores without one.
    """
    (first, scores), *others = systems.items()
    for name, other in others:
        if len(other.f1) != len(scores.f1):
            raise ValueError(
                f"Systems are compared on the same segments: {first} has {len(scores.f1)} scores, {name} has "
                f"{len(other.f1)}."
            )
        if (scores.signature is None) != (other.signature is None):
            lacking = first if scores.signature is None else name
            raise ValueError(
                f"{lacking} has numbers without a signature, others have one, so they may not belong together; pass "
                f"results or saved scores for all systems, or numbers for all."
            )
        if scores.signature and other.signature and not scores.signature.comparable_to(other.signature):
            raise ValueError(
                f"Scores of different settings cannot be compared; score all systems alike:\n  {first}: "
                f"{scores.signature}\n  {name}: {other.signature}"
            )
    return scores.signature


def _numbers(name: str, value: Any) -> NDArray[np.float64]:
    if isinstance(value, Tensor):
        value = value.detach().cpu().double().numpy()
    try:
        numbers = np.asarray(value if hasattr(value, "__array__") else list(value), dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"systems[{name!r}] must hold texts, a BERTScoreResult or numbers, got {type(value).__name__}."
        ) from None
    if numbers.ndim != 1:
        raise ValueError(f"systems[{name!r}] must hold one score for each segment, got shape {numbers.shape}.")
    return numbers


def _select(scores: SegmentScores, rows: Tensor) -> SegmentScores:
    segment_first = {"unknown", "tokens"}
    return SegmentScores(*(
        getattr(scores, name)[rows] if name in segment_first else getattr(scores, name)[..., rows]
        for name in SegmentScores.__dataclass_fields__
    ))  # fmt: skip
