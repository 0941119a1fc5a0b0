"""The scores of a corpus as an HTML page: how they are spread, the worst pairs explained, a sample to check by hand."""

from __future__ import annotations

import base64
import csv
import datetime
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from bertscore_metric.analysis.explanation_html import render, view
from bertscore_metric.analysis.figures import new_figure, whole_numbers
from bertscore_metric.core.spelling import visible_text
from bertscore_metric.result import BERTScoreResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bertscore_metric.scorer import BERTScorer

WORST = 10
SAMPLE = 20
_BARS = 40
_LEAST = 0.9  # the distribution of F1 is drawn from here, or from a lower tenth, to 1
_POINTS = 2000  # beyond that, points hide one another and density is drawn instead
_JUDGED = ("judgement", "comment")  # columns that annotators fill in


@dataclass(frozen=True)
class Row:
    """A segment as a person reads it: its number from 0, texts and scores, F1 first."""

    number: int
    candidate: str
    references: tuple[str, ...]
    f1: float
    precision: float
    recall: float


def report_page(
    result: BERTScoreResult,
    scorer: BERTScorer,
    candidates: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    worst: int = WORST,
    sample: int = SAMPLE,
    interval: bool = False,
    seed: int = 0,
    sources: Sequence[str] = (),
    date: datetime.date | None = None,
) -> str:
    """Return a self-contained HTML page about a scored corpus.

    Args:
        result: what `scorer.score(candidates, references)` returned.
        scorer: explains the worst segments.
        candidates: texts, [segment].
        references: groups of texts, [segment].
        worst: how many of the segments with the lowest F1 are explained; empty ones are counted, not explained.
        sample: how many segments are drawn for people to check.
        interval: whether with the 95 % intervals of the means.
        seed: of the draw and of the intervals.
        sources: names of the files that the texts are from, the candidates' first.
        date: of the scores; by default today.

    Returns:
        The page. Beyond the corpus it takes the memory of its pictures and of `worst` explanations.

    Raises:
        ImportError: matplotlib or jinja2 (or with `interval` scipy) is not installed.
    """
    idf = scorer.corpus_table([text for group in references for text in group])
    lowest = lowest_segments(result, worst)

    def explained(index: int) -> dict[str, Any]:
        row = _row(result, candidates, references, index)
        pair = scorer.explain(row.candidate, list(row.references), corpus=idf)
        pair = pair.as_scored(row.precision, row.recall, row.f1, n_references=len(row.references))
        return {"row": row, "view": view(pair)}

    return render(
        "report.html",
        result=result,
        intervals=[result.interval(name, seed=seed) for name in ("precision", "recall", "f1")] if interval else [],
        pictures=_pictures(result, candidates),
        explained=[explained(index) for index in lowest],
        linked=lowest,
        sources=sources,
        date=(date or datetime.date.today()).isoformat(),
        sample=[_row(result, candidates, references, index) for index in drawn_segments(result, sample, seed)],
        seed=seed,
    )  # fmt: skip


def write_sample(
    path: Path,
    result: BERTScoreResult,
    candidates: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    sample: int = SAMPLE,
    seed: int = 0,
) -> None:
    """Write the sample as CSV for annotators, in random order: number, candidate, references, an empty judgement.

    Scores are left out, so that nobody is led by them; they are found again by the number, from 0. A text that a
    spreadsheet would take for a formula (it begins with = + - @) gets an apostrophe in front. Arguments as for
    `report_page`.
    """
    drawn = [_row(result, candidates, references, index) for index in drawn_segments(result, sample, seed)]
    most = max((len(row.references) for row in drawn), default=1)
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["segment", "candidate", *(f"reference_{k + 1}" for k in range(most)), *_JUDGED])
        for row in drawn:
            padding = [""] * (most - len(row.references))
            table.writerow([row.number, *map(spreadsheet_cell, (row.candidate, *row.references)), *padding, "", ""])


def check_sample(path: Path) -> None:
    """Refuse to write a sample over a file that holds judgements, or that is not a sample.

    Raises:
        ValueError: it would be lost; the message says what to do.
    """
    if not path.is_file():
        return
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        table = csv.DictReader(file)
        ours = {"segment", "candidate", *_JUDGED} <= set(table.fieldnames or ())
        if ours and not any(row[name] for row in table for name in _JUDGED):
            return
    what = "holds judgements" if ours else "is not a sample of an earlier report"
    raise ValueError(f"The sample would be written over {path}, which {what}; move it away, or choose another name.")


def spreadsheet_cell(text: str) -> str:
    """Return what a spreadsheet takes for text: a formula gets an apostrophe, what acts unseen is spelled out."""
    formula = text.startswith(("=", "+", "-", "@", "\t", "\r"))
    return ("'" if formula else "") + visible_text(text)


def lowest_segments(result: BERTScoreResult, n: int) -> list[int]:
    """Return the numbers of the segments with the lowest F1, lowest first, without empty ones; [at most n]."""
    f1 = result.f1.masked_fill(result.empty, torch.inf)
    order = torch.argsort(f1, stable=True)[: min(n, int((~result.empty).sum()))]
    return [int(index) for index in order]


def drawn_segments(result: BERTScoreResult, n: int, seed: int) -> list[int]:
    """Return the numbers of segments drawn at random without replacement; [at most n]."""
    generator = torch.Generator().manual_seed(seed)
    order: Tensor = torch.randperm(result.n_segments, generator=generator)
    return [int(index) for index in order[:n]]


def _row(result: BERTScoreResult, candidates: Sequence[str], references: Sequence[Sequence[str]], index: int) -> Row:
    return Row(
        index, candidates[index], tuple(references[index]),
        float(result.f1[index]), float(result.precision[index]), float(result.recall[index]),
    )  # fmt: skip


def _pictures(result: BERTScoreResult, candidates: Sequence[str]) -> list[dict[str, str]]:
    """Return the pictures of the page: what each shows, and a data URL."""
    lengths = torch.tensor([len(text) for text in candidates], dtype=torch.float32)
    p, r, f = result.precision, result.recall, result.f1

    def distribution(axes: Axes) -> None:
        draw_distribution(axes, f)

    def balance(axes: Axes) -> None:
        _points(axes, p, r)
        axes.set(xlabel="precision", ylabel="recall")

    def length(axes: Axes) -> None:
        _points(axes, lengths, f)
        axes.set(xlabel="characters of the candidate", ylabel="F1")

    captions = ("Distribution of F1", "Precision against recall", "Length against F1")
    return [{"caption": caption, "source": _picture(draw)} for caption, draw in
            zip(captions, (distribution, balance, length), strict=True)]  # fmt: skip


def draw_distribution(axes: Axes, f1: Tensor) -> None:
    """Draw how many segments have which F1 [segment]: a fixed number of bars up to 1, and whole counts."""
    # The range that matplotlib takes, that of the values, is none where they are equal.
    low = min(_LEAST, math.floor(f1.min().item() * 10) / 10) if len(f1) else 0.0
    counts, *_ = axes.hist(f1.clamp(max=1).numpy(), bins=_BARS, range=(low, 1), color="tab:blue")
    axes.set(xlabel="F1", ylabel="segments", xlim=(low, 1), ylim=(0, max(1.05 * max(counts), 1)))
    axes.yaxis.set_major_locator(whole_numbers())


def _points(axes: Axes, x: Tensor, y: Tensor) -> None:
    if len(x) <= _POINTS:
        axes.scatter(x.numpy(), y.numpy(), s=8, alpha=0.5, color="tab:blue")
    else:
        axes.hexbin(x.numpy(), y.numpy(), gridsize=50, bins="log", mincnt=1, cmap="Blues")


def _picture(draw: Any) -> str:
    figure = new_figure(4.2, 3.2)
    draw(figure.add_subplot())
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=110)
    return "data:image/png;base64," + base64.b64encode(data.getvalue()).decode()
