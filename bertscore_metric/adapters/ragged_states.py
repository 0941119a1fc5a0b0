"""States of a `RaggedMetric`, as they are stored, merged and gathered: pure functions on tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor


def same_settings(settings: Tensor) -> Tensor:
    """Return the settings that all have: [rank, byte] -> [byte].

    Raises:
        ValueError: they differ.
    """
    if bool((settings != settings[0]).any()):
        raise ValueError("Metrics of different settings cannot be put together; give every rank the same.")
    return settings[0]


def foreign_columns(
    state: Mapping[str, Any], types: Mapping[str, torch.dtype], others: Sequence[str], settings: Tensor, describe: str
) -> tuple[dict[str, list[Tensor]], dict[str, Tensor]]:
    """Return the columns of a state that comes from elsewhere, and its tensors, on the CPU, or refuse it.

    Args:
        state: a `metric_state`, or what a checkpoint holds.
        types: name -> dtype of the columns that it must have.
        others: names of the tensors that it must have.
        settings: [byte], which it must have too.
        describe: the settings in words, for the message.

    Raises:
        ValueError: something is missing, of another type, or the settings are others.
    """
    missing = [name for name in ("settings", *others, *types) if name not in state]
    tensors = {} if missing else {name: state[name] for name in ("settings", *others)}
    wrong = [name for name, value in tensors.items() if not isinstance(value, Tensor)]
    if missing or wrong or not torch.equal(state["settings"].cpu(), settings):
        what = f"lacks {', '.join(missing or wrong)}" if missing or wrong else "was made with other settings"
        raise ValueError(f"This state {what}; it does not belong to a metric with the settings {describe}.")
    found = {}
    for name, dtype in types.items():
        parts = [state[name]] if isinstance(state[name], Tensor) else list(state[name])
        for part in parts:
            if not isinstance(part, Tensor) or part.dtype != dtype or part.ndim != 1:
                got = f"{part.dtype} of shape {tuple(part.shape)}" if isinstance(part, Tensor) else type(part).__name__
                raise ValueError(f"The state {name} must be {dtype} in one dimension, got {got}.")
        found[name] = [part.detach().cpu() for part in parts]
    return found, {name: state[name].detach().cpu() for name in others}
