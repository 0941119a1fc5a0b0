"""How much of the machine's own matrix rate the encoder reaches: useful work over time, over the rate.

Useful are the products of the linear layers for tokens that are no padding, and attention over each text's own length
(two operations a multiplication). The rate is that of a [2048, dim] x [dim, 4 dim] product, measured in the same run.
"""

import statistics
import time
from typing import Any

import torch
from torch import Tensor

from bertscore_metric.models.numerics import TORCH_DTYPES, own_arithmetic

ROWS = 2048


def encoder_flops(lengths: Tensor, dim: int, inner: int, layers: int) -> int:
    """Return the operations of a BERT encoder's matrix products for texts of these lengths.

    Args:
        lengths: [text] int64, tokens of each text.
        dim: size of an embedding.
        inner: size between the two linear layers of a block.
        layers: how many blocks run.
    """
    linear = 2 * int(lengths.sum()) * (4 * dim * dim + 2 * dim * inner)  # query, key, value, output; up and down
    attention = 2 * 2 * int((lengths * lengths).sum()) * dim  # query x key, weights x value
    return layers * (linear + attention)


def useful_work(scorer: Any, candidates: list[str], references: list[str], inner: int) -> tuple[int, int]:
    """Return the operations that scoring these texts takes, each distinct text embedded once, and their tokens."""
    lengths = scorer.tokenize(candidates, references).texts.lengths
    return encoder_flops(lengths, scorer.model.dim, inner, scorer.model.num_layers), int(lengths.sum())


class MatrixRate:
    """Measures the rate of a plain matrix product, once a call; the median counts.

    Args:
        dim: size of an embedding.
        dtype: `float32`, `tf32`, `bfloat16` or `float16`.
        device: where.
        seconds: how long a call measures.
    """

    def __init__(self, dim: int, dtype: str, device: torch.device | None = None, seconds: float = 0.3) -> None:
        self.dtype = dtype
        self.device = torch.device("cpu") if device is None else device
        self._seconds = seconds
        generator = torch.Generator().manual_seed(0)
        left, right = (torch.randn(shape, generator=generator) for shape in ((ROWS, dim), (dim, 4 * dim)))
        self._left, self._right = (one.to(self.device, TORCH_DTYPES[dtype]) for one in (left, right))
        self._flops = 2 * ROWS * dim * 4 * dim
        self.rates: list[float] = []

    def measure(self) -> None:
        """Measure once more."""
        with own_arithmetic(self.dtype, self.device):
            once = self._run(3) / 3
            count = max(1, int(self._seconds / once))
            self.rates.append(count * self._flops / self._run(count))

    def _run(self, count: int) -> float:
        synchronize(self.device)
        begin = time.perf_counter()
        for _ in range(count):
            torch.mm(self._left, self._right)
        synchronize(self.device)
        return time.perf_counter() - begin

    @property
    def rate(self) -> float:
        """Operations a second."""
        return statistics.median(self.rates)


def synchronize(device: torch.device) -> None:
    """Wait until the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
