"""Two pictures of what was measured: seconds of the packages beside one another, and cost over the number of pairs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bertscore_metric.analysis.figures import new_figure

_TITLES = {
    "passes": "one pass of {:,} pairs",
    "validation": "an epoch of validation, {:,} pairs",
    "ranks": "the same on two ranks",
}
_COLOURS = {"bertscore_metric": "tab:blue", "bert_score": "tab:gray", "torchmetrics": "tab:orange"}


def draw_seconds(groups: Mapping[str, Sequence[Mapping[str, Any]]], path: Path) -> None:
    """Draw a panel of bars for each group.

    Args:
        groups: rows with `package`, `settings`, `pairs` and `seconds`; those of the models named `large` are left out.
        path: the picture.
    """
    panels = {name: [row for row in rows if row.get("model") != "large"] for name, rows in groups.items()}
    figure = new_figure(4.2 * len(panels), 2.8)
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, (name, rows) in zip(axes, panels.items(), strict=True):
        labels = [f"{row['package']}\n{row['settings']}" for row in rows]
        seconds = [row["seconds"] for row in rows]
        bars = axis.barh(labels, seconds, color=[_COLOURS[row["package"]] for row in rows])
        axis.bar_label(bars, [f"{value:.1f}" for value in seconds], padding=3)
        axis.margins(x=0.15)
        axis.invert_yaxis()
        axis.set_title(_TITLES[name].format(rows[0]["pairs"]))
        axis.set_xlabel("seconds")
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)


def draw_costs(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draw microseconds a token and peak memory over the number of pairs.

    Args:
        rows: with `pairs`, `microseconds a token` and `peak MB`.
        path: the picture.
    """
    figure = new_figure(8.4, 2.8)
    for axis, column in zip(figure.subplots(1, 2), ("microseconds a token", "peak MB"), strict=True):
        axis.plot([row["pairs"] for row in rows], [row[column] for row in rows], marker="o")
        axis.set_xscale("log")
        axis.set_ylim(0, 1.25 * max(row[column] for row in rows))
        axis.set_xlabel("pairs in a call")
        axis.set_ylabel(column)
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)
