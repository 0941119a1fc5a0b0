"""Fakes that stand in for a model: ten lines each, so that tests need no weights."""

from collections.abc import Mapping

import torch
from torch import Tensor

from bertscore_metric import TokenBatch
from bertscore_metric.core.pairs import Segments


class HashEncoder:
    """Gives every token id a fixed random vector, the same in any batch, and counts what it embeds."""

    fingerprint = "hash-encoder"
    dim = 16

    def __init__(self, vocabulary: int = 400, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.table = torch.randn(vocabulary, 16, generator=generator)
        self.batches: list[TokenBatch] = []

    def embed(self, tokens: TokenBatch) -> Tensor:
        """Return the vectors of the ids."""
        self.batches.append(tokens)
        return self.table[tokens.ids]

    @property
    def n_texts(self) -> int:
        """Return how many texts were embedded."""
        return sum(len(batch.ids) for batch in self.batches)


class LayeredEncoder(HashEncoder):
    """Gives three layers, embeddings and two blocks, that differ."""

    fingerprint = "layered-encoder"
    num_layers = 2

    def embed(self, tokens: TokenBatch) -> Tensor:
        """Return [layer, text, token, dim]."""
        one = super().embed(tokens)
        return torch.stack([one, one.roll(1, -1) + one, one.square()])


class SmallMemory(HashEncoder):
    """Runs out of memory above a number of tokens in a batch."""

    fingerprint = "small-memory"

    def __init__(self, most_tokens: int) -> None:
        super().__init__()
        self.most_tokens = most_tokens
        self.refused = 0

    def embed(self, tokens: TokenBatch) -> Tensor:
        """Return the vectors, or raise what torch raises."""
        if tokens.ids.numel() > self.most_tokens:
            self.refused += 1
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return super().embed(tokens)


class WordCount:
    """Counts words: a scorer of ten lines, without a model."""

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.fails = False

    def match(self, segments: Segments) -> Mapping[str, Tensor]:
        """Return the number of words of each candidate."""
        if self.fails:
            raise RuntimeError("no words today")
        self.calls.append(len(segments))
        return {"words": torch.tensor([len(text.split()) for text in segments.candidates], dtype=torch.int64)}

    def report(self, columns: Mapping[str, Tensor], sample_ids: Tensor) -> tuple[list[int], list[int]]:
        """Return the counts and the numbers."""
        return columns["words"].tolist(), sample_ids.tolist()
