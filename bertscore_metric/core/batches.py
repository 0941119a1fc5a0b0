"""Plan the work of a call: which pairs are done together, and which texts share an encoder batch.

Pairs are taken in an order in which equal references meet and lengths fall, in chunks whose embeddings fit a byte
budget; inside a chunk texts of nearly equal length share a batch, longest first. So memory never depends on the corpus,
padding is rare, and running out of memory shows at once instead of hours later.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class BatchRule:
    """When an encoder batch is full.

    Args:
        max_texts: most texts in a batch; `None` for no limit.
        max_tokens: most tokens in a batch, padding included (a single longer text is a batch of its own).
        max_padding: most padding tokens in a batch; about as many as one more call of the encoder costs.
    """

    max_texts: int | None
    max_tokens: int
    max_padding: int


def batch_rule(device_type: str, batch_size: int | None = None) -> BatchRule:
    """Return the rule for a device: small batches keep a CPU's cache warm, large ones fill a GPU."""
    if device_type == "cpu":
        return BatchRule(batch_size, max_tokens=2048, max_padding=64)
    return BatchRule(batch_size, max_tokens=32768, max_padding=1024)


def plan_batches(lengths: Tensor, rule: BatchRule) -> Iterator[Tensor]:
    """Split texts into batches of nearly equal length, longest first.

    Args:
        lengths: [text] int64, each at least 1.
        rule: when a batch is full.

    Yields:
        Numbers of the texts of a batch, [batch] int64; together every text once.
    """
    order = torch.argsort(lengths, descending=True, stable=True)
    sizes = lengths[order].tolist()
    begin = padding = 0
    for end, size in enumerate(sizes):
        count = end - begin + 1
        padding += sizes[begin] - size
        full = sizes[begin] * count > rule.max_tokens or padding > rule.max_padding
        if count > 1 and (full or (rule.max_texts is not None and count > rule.max_texts)):
            yield order[begin:end]
            begin, padding = end, 0
    if sizes:
        yield order[begin:]


def plan_chunks(candidates: Tensor, references: Tensor, lengths: Tensor, max_tokens: int) -> Iterator[Tensor]:
    """Split pairs into chunks whose distinct texts have at most `max_tokens` tokens.

    Args:
        candidates: [pair] int64, number of the candidate's text.
        references: [pair] int64, number of the reference's text.
        lengths: [text] int64.
        max_tokens: budget of a chunk (a single larger pair is a chunk of its own).

    Yields:
        Numbers of the pairs of a chunk, [pair] int64, with falling reference length and equal references side by side;
        together every pair once.
    """
    order = _lexicographic(lengths[references], references, lengths[candidates])
    pairs = zip(order.tolist(), candidates[order].tolist(), references[order].tolist(), strict=True)
    sizes = lengths.tolist()
    chunk: list[int] = []
    inside: set[int] = set()
    tokens = 0
    for pair, candidate, reference in pairs:
        new = {candidate, reference} - inside
        more = sum(sizes[text] for text in new)
        if chunk and tokens + more > max_tokens:
            yield torch.tensor(chunk)
            chunk, inside, tokens = [], set(), 0
            new = {candidate, reference}
            more = sum(sizes[text] for text in new)
        chunk.append(pair)
        inside |= new
        tokens += more
    if chunk:
        yield torch.tensor(chunk)


def _lexicographic(*keys: Tensor) -> Tensor:
    """Return the order that sorts by the first key, then by the second, and so on, each falling."""
    order = torch.arange(len(keys[0]))
    for key in reversed(keys):
        order = order[torch.argsort(key[order], descending=True, stable=True)]
    return order
