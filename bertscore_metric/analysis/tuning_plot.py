"""Draw what `tune` found (matplotlib)."""

from __future__ import annotations

import os

from bertscore_metric.analysis.correlation import STATISTICS
from bertscore_metric.analysis.figures import new_figure
from bertscore_metric.analysis.tuning import WEIGHTINGS, TuningResult

_LABELS = ("P", "R", "F1")  # of `SCORES`


def plot_tuning(result: TuningResult, path: str | os.PathLike[str]) -> None:
    """Draw the Pearson correlation of P, R and F1 by layer, without and with idf side by side, with the best layer.

    Args:
        result: what `tune` returned.
        path: the picture; its suffix says the format (`.png`, `.pdf`, `.svg`).

    Raises:
        ImportError: matplotlib is not installed.
        ValueError: the suffix names no format.
    """
    figure = new_figure(9, 4)
    panels = figure.subplots(1, len(WEIGHTINGS), sharey=True)
    pearson = result.correlations[..., STATISTICS.index("pearson")]
    layers = range(len(result.norms))
    for panel, by_layer, best, weighting in zip(panels, pearson, result.best, WEIGHTINGS, strict=True):
        for score, label in enumerate(_LABELS):
            panel.plot(layers, by_layer[:, score].tolist(), marker="o", markersize=4, label=label)
        panel.vlines(best.layer, best.low, best.high, color="black", label=f"best F1: layer {best.layer}, 95 %")
        panel.set_title(weighting)
        panel.set_xlabel("layer")
        panel.set_xticks(layers[:: max(1, len(layers) // 12)])
        panel.legend()
    panels[0].set_ylabel("Pearson correlation with people")
    figure.suptitle(f"{result.signature['model']}, {result.n_segments} segments", parse_math=False)
    figure.savefig(path, dpi=150)
