"""A comparison as an HTML page: means with intervals, differences as a matrix, the segments that differ most."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bertscore_metric.analysis.comparison import Comparison, PairOfSystems
from bertscore_metric.analysis.explanation_html import render, view
from bertscore_metric.analysis.figures import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bertscore_metric.scorer import BERTScorer

EXPLAINED_PAIRS = 3  # pairs of systems, in the order of the comparison
EXPLAINED_SEGMENTS = 3  # of each of them
_SURE = 0.05
_NAMED_CELLS = 12  # systems up to which the matrix has numbers


def comparison_page(
    comparison: Comparison,
    scorer: BERTScorer | None = None,
    systems: Mapping[str, Sequence[str]] | None = None,
    references: Sequence[Sequence[str]] = (),
) -> str:
    """Return a self-contained HTML page about a comparison.

    Args:
        comparison: what `compare` returned.
        scorer: explains the segments that differ most; without it, or without texts, they are named only.
        systems: by name the candidates [segment].
        references: groups of texts [segment].

    Raises:
        ImportError: matplotlib or jinja2 is not installed.
    """
    explained = []
    if scorer is not None and systems:
        idf = scorer.corpus_table([text for group in references for text in group])
        for pair in comparison.pairs[:EXPLAINED_PAIRS]:
            segments = [_segment(pair, index, scorer, systems, references, idf)
                        for index in pair.most_different[:EXPLAINED_SEGMENTS]]  # fmt: skip
            explained.append({"pair": pair, "segments": segments})
    parts = [("F1", comparison), *comparison.by.items(), *comparison.classics.items()]
    return render(
        "comparison.html",
        parts=[{"title": title, "comparison": part, "pictures": _pictures(part),
                "digits": "%.2f" if part.metric in ("bleu", "chrf", "ter") else "%.6f"} for title, part in parts],
        explained=explained,
    )  # fmt: skip


def draw_means(axes: Axes, comparison: Comparison) -> None:
    """Draw the means of the systems with their intervals, best on top."""
    places = range(len(comparison.systems), 0, -1)
    for place, system in zip(places, comparison.systems, strict=True):
        axes.plot([system.interval.low, system.interval.high], [place, place], color="tab:blue", linewidth=2)
        axes.plot([system.mean], [place], "o", color="tab:blue", markersize=5)
    axes.set_yticks(list(places), [_plain(system.name) for system in comparison.systems])
    axes.set(xlabel=f"mean {comparison.metric}, {100 * comparison.level:g} % interval")
    axes.grid(axis="x", alpha=0.3)


def draw_differences(axes: Axes, comparison: Comparison) -> None:
    """Draw the differences of the systems as a matrix, row minus column; bold where Holm's p is below .05."""
    names = [system.name for system in comparison.systems]
    matrix = np.full((len(names), len(names)), np.nan)
    sure = np.zeros(matrix.shape, dtype=bool)
    for pair in comparison.pairs:
        row, column = names.index(pair.first), names.index(pair.second)
        matrix[row, column], matrix[column, row] = pair.difference, -pair.difference
        sure[row, column] = sure[column, row] = pair.p_holm < _SURE
    most = float(np.nanmax(np.abs(matrix))) or 1.0
    axes.imshow(matrix, cmap="RdBu", vmin=-1.5 * most, vmax=1.5 * most)
    digits = 2 if comparison.metric in ("bleu", "chrf", "ter") else 3
    for row, column in np.argwhere(~np.isnan(matrix)).tolist():
        text = f"{matrix[row, column]:+.{digits}f}" if len(names) <= _NAMED_CELLS else "*" * bool(sure[row, column])
        weight = "bold" if sure[row, column] else "normal"
        axes.text(column, row, text, ha="center", va="center", fontsize=7, fontweight=weight)
    plain = [_plain(name) for name in names]
    axes.set_xticks(range(len(names)), plain, rotation=60, ha="right")
    axes.set_yticks(range(len(names)), plain)
    marks = "bold" if len(names) <= _NAMED_CELLS else "*"
    axes.set_title(f"row - column ({marks}: p (Holm) < .05)", fontsize=9)


def _pictures(comparison: Comparison) -> list[dict[str, str]]:
    n = len(comparison.systems)
    shown: tuple[tuple[str, float, float, Callable[[Axes, Comparison], None]], ...] = (
        ("Means with intervals", 5.0, 1.2 + 0.3 * n, draw_means),
        ("Differences", 3.0 + 0.35 * n, 2.4 + 0.35 * n, draw_differences),
    )
    return [{"caption": caption, "source": _picture(width, height, draw, comparison)}
            for caption, width, height, draw in shown]  # fmt: skip


def _picture(width: float, height: float, draw: Callable[[Axes, Comparison], None], comparison: Comparison) -> str:
    figure = new_figure(width, height)
    draw(figure.add_subplot(), comparison)
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=110)
    return "data:image/png;base64," + base64.b64encode(data.getvalue()).decode()


def _plain(name: str) -> str:
    return name.replace("$", r"\$")  # which matplotlib would take for mathematics


def _segment(
    pair: PairOfSystems,
    index: int,
    scorer: BERTScorer,
    systems: Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    idf: Any,
) -> dict[str, Any]:
    views = [{"name": name, "view": view(scorer.explain(systems[name][index], list(references[index]), corpus=idf))}
             for name in (pair.first, pair.second)]  # fmt: skip
    return {"number": index, "systems": views}
