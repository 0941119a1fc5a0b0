"""Warnings that name the line of the user's code, whichever libraries call this package in between."""

from __future__ import annotations

import sys
import warnings

# Whoever stands between a user's line and this package.
_LIBRARIES = frozenset({
    "accelerate", "bertscore_metric", "contextlib", "datasets", "evaluate", "lightning", "lightning_fabric",
    "pytorch_lightning", "torch", "torchmetrics", "transformers",
})  # fmt: skip


def warn(message: str, category: type[Warning]) -> None:
    """Warn, naming the innermost line that is neither this package's nor of a library that calls it."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _LIBRARIES:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
