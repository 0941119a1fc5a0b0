"""`BERTScoreResult`: numbers, means, spread, text and JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bertscore_metric.core.aggregation import SegmentScores
from bertscore_metric.core.baseline import Baseline, rescale
from bertscore_metric.core.significance import LEVEL, RESAMPLES, SEED, Interval, mean_interval
from bertscore_metric.signature import Signature

Statistic = float | tuple[float, ...]

UNKNOWN_SHARE = 0.1  # above it, the model hardly knows the language or script
NAMED_INDICES = 10
_NAMES = ("precision", "recall", "f1")


@dataclass(frozen=True, eq=False)
class Scores:
    """Precision, recall and F1 of segments: each [segment], or [layer, segment] with all layers, float32 on the CPU."""

    precision: Tensor
    recall: Tensor
    f1: Tensor


@dataclass(frozen=True)
class Summary:
    """One number each for precision, recall and F1; with all layers a tuple with one number a layer."""

    precision: Statistic
    recall: Statistic
    f1: Statistic

    def to_dict(self) -> dict[str, Any]:
        """Return the three numbers by name, `None` where there is none."""
        return {name: _json_number(getattr(self, name)) for name in ("precision", "recall", "f1")}


@dataclass(frozen=True)
class UnknownShare:
    """Share of tokens, from 0 to 1, that the tokenizer does not know; special tokens are not counted."""

    candidates: float
    references: float


@dataclass(frozen=True, repr=False, eq=False)
class BERTScoreResult:
    """Scores of segments. It unpacks to `P, R, F1`, as bert_score's does.

    Args:
        precision, recall, f1: [segment] float32 on the CPU, [layer, segment] with all layers; rescaled if asked for.
        raw: the same three before rescaling.
        mean, std: over the segments (std with n - 1, 0 for one segment); with `empty="skip"` without the empty ones.
        best_reference: [segment] int64 ([layer, segment] with all layers), number of the reference with the best F1.
        empty: [segment] bool, nothing to score: the candidate or all references are without text.
        n_segments: number of segments, `n_empty` of them empty.
        n_zero_f1: number of segments that have text and yet an F1 of 0 before rescaling (with all layers: in any of
            them), because no reference has both a precision and a recall above 0.
        n_truncated: number of texts cut at the length limit.
        n_windows: number of windows of the texts that are longer than one, with `long_text="windows"`.
        unk_share: share of unknown tokens on either side.
        signature: every setting that changes a number.

    Example:
        >>> from bertscore_metric import score
        >>> result = score(["a cat sat", "hello"], [["a dog", "a cat sat"], ["hello"]], "offline")
        >>> precision, recall, f1 = result
        >>> [round(value, 3) for value in f1.tolist()], result.best_reference.tolist(), round(result.mean.f1, 3)
        ([1.0, 1.0], [1, 0], 1.0)
        >>> sorted(result.to_dict())
        ['mean', 'n_empty', 'n_segments', 'n_truncated', 'signature', 'std', 'unk_share']
    """

    precision: Tensor
    recall: Tensor
    f1: Tensor
    raw: Scores
    mean: Summary
    std: Summary
    best_reference: Tensor
    empty: Tensor
    n_segments: int
    n_empty: int
    n_zero_f1: int
    n_truncated: int
    n_windows: int
    unk_share: UnknownShare
    signature: Signature

    @property
    def has_windows(self) -> bool:
        """Whether texts beyond the limit were embedded in windows, so that reports say how many."""
        return ("long", "windows") in self.signature.items

    def __iter__(self) -> Iterator[Tensor]:
        """Unpack to precision, recall, F1."""
        return iter((self.precision, self.recall, self.f1))

    def __repr__(self) -> str:
        """Return the means in one line."""
        mean = ", ".join(f"{name}={_short(getattr(self.mean, name))}" for name in ("precision", "recall", "f1"))
        return f"BERTScoreResult(mean: {mean}; n_segments={self.n_segments}, signature={str(self.signature)!r})"

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one dictionary a segment; with all layers the values are lists with one entry a layer.

        Where empty segments are left out of the means (`empty="skip"`), `empty` says which they are.
        """
        columns = {
            name: getattr(self, name).movedim(-1, 0).tolist()
            for name in ("precision", "recall", "f1", "best_reference")
        }
        if ("empty", "skip") in self.signature.items:
            columns["empty"] = self.empty.tolist()
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    @property
    def counted(self) -> Tensor:
        """Which segments the means are over, [segment] bool: all, or with `empty="skip"` those that are not empty."""
        return ~self.empty if ("empty", "skip") in self.signature.items else torch.ones_like(self.empty)

    def interval(
        self,
        name: str = "f1",
        level: float = LEVEL,
        resamples: int = RESAMPLES,
        seed: int = SEED,
        groups: Sequence[Any] | None = None,
    ) -> Interval:
        """Return where the mean lies with the probability `level`, if segments like these are drawn again.

        Student's t below 100 and above 20,000 segments, between them the BCa bootstrap over segments; of groups the
        cluster-robust t or the bootstrap over groups (`core.significance.mean_intervals`).

        Args:
            name: `precision`, `recall` or `f1`.
            level: between 0 and 1.
            resamples, seed: of the bootstrap; equal seeds give equal intervals on every machine.
            groups: what each segment belongs to (its document or source), [segment], where segments of one are alike.

        Raises:
            ImportError: scipy is not installed.
            ValueError: fewer than two segments or groups that count, several layers, or a wrong argument.

        Example:
            >>> from bertscore_metric import score
            >>> low, high = score(["a cat", "a dog", "hi"], ["the cat", "a dog", "hey"], "offline").interval()
            >>> 0 < low < high
            True
        """
        if name not in _NAMES:
            raise ValueError(f"name must be one of {', '.join(_NAMES)}; got {name!r}.")
        if self.f1.ndim > 1:
            raise ValueError(
                "An interval is of one layer, and these are the scores of all; choose one with num_layers."
            )
        if groups is not None:
            labels = list(groups)
            if len(labels) != self.n_segments:
                raise ValueError(
                    f"There are {self.n_segments} segments, but {len(labels)} groups; each segment needs one."
                )
            groups = [label for label, counts in zip(labels, self.counted.tolist(), strict=True) if counts]
        values = getattr(self, name)[self.counted].double().numpy()
        return mean_interval(values, level=level, resamples=resamples, seed=seed, groups=groups)

    def to_dict(self, *, segments: bool = False, interval: bool = False, seed: int = SEED) -> dict[str, Any]:
        """Return signature, means, spread and counts as plain values.

        Args:
            segments: whether with the rows of all segments.
            interval: whether with the 95 % intervals of the means, `[low, high]` by name.
            seed: of the intervals.
        """
        data: dict[str, Any] = {
            "signature": str(self.signature),
            "mean": self.mean.to_dict(),
            "std": self.std.to_dict(),
            "n_segments": self.n_segments,
            "n_empty": self.n_empty,
            "n_truncated": self.n_truncated,
            **({"n_windows": self.n_windows} if self.has_windows else {}),
            "unk_share": {"candidates": self.unk_share.candidates, "references": self.unk_share.references},
        }
        if interval:
            data["interval"] = {name: list(self.interval(name, seed=seed)) for name in _NAMES}
        if segments:
            data["segments"] = self.to_rows()
        return data

    def to_json(
        self, *, segments: bool = False, interval: bool = False, seed: int = SEED, indent: int | None = None
    ) -> str:
        """Return `to_dict` as JSON; a mean over nothing is `null`."""
        data = self.to_dict(segments=segments, interval=interval, seed=seed)
        return json.dumps(data, indent=indent, ensure_ascii=False, allow_nan=False)


def build_result(
    scores: SegmentScores, baseline: Baseline | None, signature: Signature, *, by_layer: bool, skip_empty: bool
) -> BERTScoreResult:
    """Rescale, average and count.

    Args:
        scores: raw scores of all segments.
        baseline: the rows to rescale with; `None` leaves the raw scores.
        signature: of the scorer.
        by_layer: keep the layer axis.
        skip_empty: leave empty segments out of mean and deviation.
    """
    names = ("precision", "recall", "f1")
    raw = [getattr(scores, name) for name in names]
    final = (
        [one.clone() for one in raw] if baseline is None else [rescale(raw[k], baseline.values[:, k]) for k in range(3)]
    )

    def pick(value: Tensor) -> Tensor:
        return value if by_layer else value[0]

    shown = Scores(*map(pick, final))
    mean, std = _spread(shown, ~scores.empty if skip_empty else torch.ones_like(scores.empty))
    n_unknown, n_tokens = scores.unknown.sum(0).tolist(), scores.tokens.sum(0).tolist()
    return BERTScoreResult(
        shown.precision,
        shown.recall,
        shown.f1,
        raw=Scores(*map(pick, raw)),
        mean=mean,
        std=std,
        best_reference=pick(scores.best_reference),
        empty=scores.empty,
        n_segments=len(scores.empty),
        n_empty=int(scores.empty.sum()),
        n_zero_f1=int(_without_f1(scores).sum()),
        n_truncated=int(scores.truncated.sum()),
        n_windows=int(scores.windows.sum()),
        unk_share=UnknownShare(*(u / n if n else 0.0 for u, n in zip(n_unknown, n_tokens, strict=True))),
        signature=signature,
    )


def warnings_for(
    scores: SegmentScores, *, skip_empty: bool = False, limit: int | None = None, rescaled: bool = False
) -> list[str]:
    """Return what a reader of the scores should know, a sentence or two each.

    Args:
        scores: of the segments.
        skip_empty: whether empty segments are left out of the means.
        limit: most tokens of a text, the model's own or a lower one that was asked for.
        rescaled: whether the scores are rescaled.
    """
    messages = []
    n = len(scores.empty)
    if not n:
        messages.append("No segments were scored; the means are NaN.")
    n_empty = int(scores.empty.sum())
    if n_empty:
        rule = "They are left out of the mean." if skip_empty else "empty='skip' leaves them out of the mean."
        if skip_empty and scores.empty.all():
            rule = "They are left out of the means, which are NaN."
        messages.append(
            f"{n_empty} of {n} segments are empty on a side and score 0{' before rescaling' if rescaled else ''}: "
            f"{_indices(scores.empty)}. {rule}"
        )
    without_f1 = _without_f1(scores)
    if without_f1.any():
        messages.append(
            f"In {int(without_f1.sum())} of {n} segments no reference has both precision and recall above 0, so F1 is "
            f"0 before rescaling: {_indices(without_f1)}."
        )
    if scores.fell_back.any():
        messages.append(
            f"In {int(scores.fell_back.sum())} of {n} segments all idf weights of a side are 0, so that side is "
            f"weighted as without idf: {_indices(scores.fell_back)}. idf needs a corpus of references; a few are not "
            f"enough."
        )
    cut, lost = int(scores.truncated.sum()), int(scores.lost.abs().sum())
    if cut:
        messages.append(
            f"{cut} {'text is' if cut == 1 else 'texts are'} longer than the limit of {limit} tokens; "
            f"{'at least ' if bool((scores.lost < 0).any()) else ''}{lost} "
            f"{'token was' if lost == 1 else 'tokens were'} cut off and not scored (long_text='windows' scores all, "
            f"long_text='error' refuses such texts)."
        )
    for side, unknown, tokens in zip(
        ("candidates", "references"), scores.unknown.sum(0).tolist(), scores.tokens.sum(0).tolist(), strict=True
    ):
        if tokens and unknown / tokens > UNKNOWN_SHARE:
            messages.append(
                f"{unknown / tokens:.0%} of the tokens of the {side} are unknown to the model, so these scores mean "
                f"little; choose a model that knows their language."
            )
    return messages


def _without_f1(scores: SegmentScores) -> Tensor:
    """Return which segments have text but, in some layer, no positive F1: [segment] bool."""
    return (scores.f1 == 0).any(0) & ~scores.empty


def _indices(marked: Tensor) -> str:
    indices = torch.nonzero(marked).squeeze(1).tolist()
    named = ", ".join(map(str, indices[:NAMED_INDICES]))
    more = f" and {len(indices) - NAMED_INDICES} more" if len(indices) > NAMED_INDICES else ""
    return f"counted from 0, {'index' if len(indices) == 1 else 'indices'} {named}{more}"


def _spread(scores: Scores, keep: Tensor) -> tuple[Summary, Summary]:
    """Return mean and standard deviation over the segments marked in `keep` [segment] bool."""
    columns = [getattr(scores, name)[..., keep].double() for name in ("precision", "recall", "f1")]
    n = int(keep.sum())
    means = [column.mean(-1) for column in columns]
    spreads = [column.std(-1) if n > 1 else torch.zeros_like(m) if n else m
               for column, m in zip(columns, means, strict=True)]  # fmt: skip
    return Summary(*map(_statistic, means)), Summary(*map(_statistic, spreads))


def _statistic(value: Tensor) -> Statistic:
    return tuple(value.tolist()) if value.ndim else float(value)


def _json_number(value: Statistic) -> Any:
    if isinstance(value, tuple):
        return [_json_number(one) for one in value]
    return None if math.isnan(value) else value


def _short(value: Statistic) -> str:
    return f"[{', '.join(f'{one:.6f}' for one in value)}]" if isinstance(value, tuple) else f"{value:.6f}"
