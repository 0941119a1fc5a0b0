"""A figure of matplotlib that is drawn into files, without a screen and without pyplot, which keeps every figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertscore_metric.optional import explained

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of so many inches.

    Raises:
        ImportError: matplotlib is not installed; the message names the command.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise explained(
            error, ("matplotlib",), "Pictures need matplotlib: pip install 'bertscore_metric[plot]'."
        ) from error
    return Figure(figsize=(width, height), layout="constrained")


def whole_numbers() -> MaxNLocator:
    """Return what puts the marks of an axis at whole numbers only, as counts are."""
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(integer=True, min_n_ticks=1)
