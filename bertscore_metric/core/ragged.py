"""Ragged data as one flat tensor and a tensor of lengths: where each part starts, and how to pad it."""

from __future__ import annotations

import torch
from torch import Tensor


def starts(lengths: Tensor) -> Tensor:
    """Return where each part begins in the flat tensor.

    Args:
        lengths: [part] int64.

    Returns:
        [part] int64, the exclusive cumulative sum.
    """
    return torch.cumsum(lengths, 0) - lengths


def owners(lengths: Tensor) -> Tensor:
    """Return for every flat entry the number of the part that it belongs to: [part] -> [entry] int64."""
    return torch.repeat_interleave(torch.arange(len(lengths), device=lengths.device), lengths)


def positions(first: Tensor, lengths: Tensor) -> Tensor:
    """Return the flat positions of the parts that begin at `first`, part after part.

    Args:
        first: [part] int64, where each part begins.
        lengths: [part] int64.

    Returns:
        [entry] int64.
    """
    return torch.arange(int(lengths.sum()), device=lengths.device) + torch.repeat_interleave(
        first - starts(lengths), lengths
    )


def padded_positions(first: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Return flat positions padded to the longest part, and the mask of the real ones.

    Args:
        first: [part] int64, where each part begins.
        lengths: [part] int64.

    Returns:
        positions [part, entry] int64 (padding repeats the part's first entry, so that it is always a valid index
        where any entry exists) and mask [part, entry] bool.
    """
    width = int(lengths.max()) if len(lengths) else 0
    steps = torch.arange(width, device=lengths.device)
    mask = steps < lengths[:, None]
    return torch.where(mask, first[:, None] + steps, first[:, None]), mask


def sums(values: Tensor, lengths: Tensor) -> Tensor:
    """Return the sum over each part.

    Args:
        values: [..., entry].
        lengths: [part] int64.

    Returns:
        [..., part] in the dtype of `values`; 0 for a part without entries.
    """
    if values.is_floating_point() and 0 < values.numel() == values.shape[-1]:  # one row, which needs no owners
        return torch.segment_reduce(values.reshape(-1), "sum", lengths=lengths).view(*values.shape[:-1], len(lengths))
    out = values.new_zeros((*values.shape[:-1], len(lengths)))
    return out.index_add_(-1, owners(lengths), values)
