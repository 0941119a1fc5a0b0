"""What the ranks of a distributed run say to each other: flat columns, and whether one failed. Nothing is pickled."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

_MESSAGE_BYTES = 4096  # more of an error is not told to the others


def gather(
    columns: Mapping[str, Tensor],
    failure: Exception | None = None,
    *,
    digest: Tensor | None = None,
    group: Any = None,
) -> list[dict[str, Tensor]]:
    """Give every rank the columns of all ranks; to be called on all of them, also on one that failed.

    First a status and a digest are exchanged, then lengths, then the columns, padded to the longest. They travel on
    the device that the backend needs, and come back on the CPU.

    Args:
        columns: name -> [entry], with the same names and dtypes on every rank; lengths may differ, 0 included.
        failure: what this rank failed with, so that it has no columns; the others would wait for it.
        digest: [byte] uint8, of what must be the same on all ranks.
        group: the process group; by default that of all ranks.

    Returns:
        The columns of each rank, in the order of the ranks.

    Raises:
        Exception: `failure`, on the rank that failed.
        RuntimeError: another rank failed; its message is told.
        ValueError: the digests or the columns of two ranks differ; then every rank raises it.
    """
    world, rank = dist.get_world_size(group), dist.get_rank(group)
    message = b"" if failure is None else repr(failure).encode()[:_MESSAGE_BYTES]
    columns = dict(sorted(columns.items()))
    kinds = ",".join(f"{name}:{column.dtype}" for name, column in columns.items())
    names = hashlib.blake2b(kinds.encode(), digest_size=16).digest()
    said = torch.zeros(16, dtype=torch.uint8) if digest is None else digest
    lengths = _gather_equal(torch.tensor([len(message)]), world, group)
    heads = _gather_equal(torch.cat([said, torch.tensor(list(names), dtype=torch.uint8)]), world, group)
    if int(lengths.max()):
        messages = _gather_padded(torch.tensor(list(message), dtype=torch.uint8), lengths[:, 0], group)
        if failure is not None:
            raise failure
        failed = int(torch.nonzero(lengths[:, 0])[0])
        told = bytes(messages[failed].tolist()).decode(errors="replace")
        raise RuntimeError(f"Rank {failed} failed, and with it the scores of all ranks: {told}")
    for part, what in ((heads[:, :16], "rows"), (heads[:, 16:], "columns, so other settings")):
        other = torch.nonzero((part != part[rank]).any(1)).flatten().tolist()
        if other:
            raise ValueError(f"Ranks {rank} and {other[0]} have different {what}; all must have the same.")
    sizes = _gather_equal(torch.tensor([column.numel() for column in columns.values()]), world, group)
    gathered: list[dict[str, Tensor]] = [{} for _ in range(world)]
    for number, (name, column) in enumerate(columns.items()):
        for found, part in zip(gathered, _gather_padded(column, sizes[:, number], group), strict=True):
            found[name] = part
    return gathered


def _gather_equal(values: Tensor, world: int, group: Any) -> Tensor:
    """Return the values of all ranks, which have the same number of them: [entry] -> [rank, entry] on the CPU."""
    values = values.to(_device(group)).contiguous()
    found = [torch.empty_like(values) for _ in range(world)]
    dist.all_gather(found, values, group=group)
    return torch.stack(found).cpu()


def _gather_padded(column: Tensor, lengths: Tensor, group: Any) -> list[Tensor]:
    """Return a column of all ranks, whose lengths are [rank] int64."""
    padded = column.new_zeros(int(lengths.max()))
    padded[: len(column)] = column
    if not len(padded):
        return [padded] * len(lengths)
    found = _gather_equal(padded, len(lengths), group)
    return [part[:length].clone() for part, length in zip(found, lengths.tolist(), strict=True)]


def _device(group: Any) -> torch.device:
    """Return where tensors must be for the backend of a group."""
    if "gloo" in dist.get_backend(group):
        return torch.device("cpu")
    if torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")
