"""Fakes that stand in for a model: ten lines each, so that tests need no weights."""

import torch
from torch import Tensor

from bertscore_metric import TokenBatch


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
