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
    figure = new_figure(9, 4.6)
    panels = figure.subplots(1, len(WEIGHTINGS), sharey=True)
    pearson = result.correlations[..., STATISTICS.index("pearson")]
    layers = range(len(result.norms))
    for panel, by_layer, best, weighting in zip(panels, pearson, result.best, WEIGHTINGS, strict=True):
        for score, label in enumerate(_LABELS):
            panel.plot(layers, by_layer[:, score].tolist(), marker="o", markersize=4, label=label)
        interval = f"95 % interval {best.low:.3f} to {best.high:.3f}"
        panel.vlines(best.layer, best.low, best.high, color="black", label="95 % interval of the best layer's F1")
        panel.set_title(f"{weighting}: F1 agrees best at layer {best.layer}\n({interval})", fontsize=10)
        panel.set_xlabel("layer")
        panel.set_xticks(layers[:: max(1, len(layers) // 12)])
    panels[0].set_ylabel("Pearson correlation with people")
    # Below the panels, where it hides nothing.
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle(f"{result.signature['model']}, {result.n_segments} segments", parse_math=False)
    figure.savefig(path, dpi=150)
