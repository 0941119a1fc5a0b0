"""Embeddings -> cosine -> greedy match -> `TokenMatches`: pure functions on tensors.

Greedy matching (Zhang et al. 2020, section 3) takes for every token the largest cosine with a token of the other side.
It needs no idf weights, so it is done when a batch arrives; what remains is `TokenMatches`, a few bytes a token, from
which everything else is computed once the corpus is known.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bertscore_metric.core import ragged

_GROUP_BYTES = 16 * 2**20  # embeddings and similarities of pairs that are matched in one product


@dataclass(frozen=True)
class TokenMatches:
    """The waist of the package: for every token its id and its best cosine on the other side, and the lengths.

    Tokens are flat, pair after pair; pairs are in order, segment after segment.

    Args:
        candidate_ids: [cand] int64, token ids of all candidates (a candidate is repeated for each of its references).
        candidate_best: [layer, cand] float32 in [-1, 1], best cosine with a token of the reference.
        candidate_lengths: [pair] int64, tokens of each candidate, special ones included.
        candidate_lost: [pair] int64, tokens that the length limit cut off; -n for at least n.
        reference_ids, reference_best, reference_lengths, reference_lost: the same for the references.
        reference_counts: [segment] int64, how many pairs a segment has.

    Example:
        >>> from bertscore_metric import BERTScorer
        >>> scorer = BERTScorer("offline", idf=True)
        >>> matches = scorer.match_tokens(scorer.tokenize(["a cat"], [["a dog", "a cat sat"]]))
        >>> len(matches), matches.candidate_lengths.tolist(), matches.reference_lengths.tolist()
        (1, [4, 4], [4, 5])
    """

    candidate_ids: Tensor
    candidate_best: Tensor
    candidate_lengths: Tensor
    candidate_lost: Tensor
    reference_ids: Tensor
    reference_best: Tensor
    reference_lengths: Tensor
    reference_lost: Tensor
    reference_counts: Tensor

    def __len__(self) -> int:
        """Return the number of segments."""
        return len(self.reference_counts)

    @staticmethod
    def concatenate(parts: Sequence[TokenMatches]) -> TokenMatches:
        """Join parts in order; joining with an empty part changes nothing."""
        if len(parts) == 1:
            return parts[0]
        return TokenMatches(
            *(torch.cat([getattr(part, name) for part in parts], dim=-1) for name in TokenMatches.__dataclass_fields__)
        )


def unit(embeddings: Tensor) -> Tensor:
    """Scale vectors to length 1 in float32.

    Args:
        embeddings: [..., dim].

    Returns:
        [..., dim] float32; a zero vector stays 0.

    Raises:
        ValueError: a vector is not finite (float16 overflows in some T5 models).
    """
    vectors = embeddings.to(torch.float32)
    norms = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    extreme = ~((norms > 1e-15) & (norms < 1e15))  # squares leave the range of float32
    if bool(extreme.any()):
        largest = vectors.abs().amax(-1, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny)
        vectors = torch.where(extreme, vectors / largest, vectors)
        norms = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    if not bool(torch.isfinite(norms).all()):
        raise ValueError(
            "The encoder returned embeddings that are not finite. In float16 some models overflow: use dtype='float32' "
            "or 'bfloat16'; otherwise check the weights."
        )
    return torch.div(vectors, norms.clamp(min=torch.finfo(torch.float32).tiny))


def similarity(candidates: Tensor, references: Tensor) -> Tensor:
    """Return the cosines of unit vectors: [..., cand, dim] and [..., ref, dim] -> [..., cand, ref]."""
    return candidates @ references.transpose(-1, -2)


def greedy_match(similarities: Tensor, candidate_mask: Tensor, reference_mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return the best similarity of every token.

    Masked tokens are filled before the maximum, never multiplied by 0, so that a token whose best similarity is
    negative keeps it whatever the padding.

    Args:
        similarities: [..., pair, cand, ref].
        candidate_mask: [pair, cand] bool, which tokens may be matched to.
        reference_mask: [pair, ref] bool.

    Returns:
        Best of the candidate's tokens [..., pair, cand] and of the reference's [..., pair, ref]; 0 where the other
        side has no token to match.

    Example:
        >>> s = torch.tensor([[[.95, .10, .05], [.20, .30, .40], [.10, .90, .20], [.05, .10, .80]]])
        >>> best = greedy_match(s, torch.ones(1, 4, dtype=torch.bool), torch.ones(1, 3, dtype=torch.bool))
        >>> [round(side.mean().item(), 5) for side in best]
        [0.7625, 0.88333]
    """
    if not similarities.numel():  # a side without any token, also special ones
        return similarities.new_zeros(similarities.shape[:-1]), similarities.new_zeros(
            (*similarities.shape[:-2], similarities.shape[-1])
        )
    lowest = torch.finfo(similarities.dtype).min
    candidate_best = _fill(similarities, ~reference_mask[:, None, :], lowest).amax(-1)
    reference_best = _fill(similarities, ~candidate_mask[:, :, None], lowest).amax(-2)
    return (
        candidate_best.masked_fill(~reference_mask.any(-1)[:, None], 0),
        reference_best.masked_fill(~candidate_mask.any(-1)[:, None], 0),
    )


def _fill(similarities: Tensor, mask: Tensor, value: float) -> Tensor:
    return similarities.masked_fill(mask, value) if bool(mask.any()) else similarities


def match_groups(candidate_lengths: Tensor, reference_lengths: Tensor, dim: int, layers: int) -> Iterator[Tensor]:
    """Split pairs into groups of similar size whose padded product fits a byte bound.

    Args:
        candidate_lengths, reference_lengths: [pair] int64.
        dim: size of an embedding.
        layers: how many layers are matched at once.

    Yields:
        Numbers of the pairs of a group, [group] int64; together every pair once.
    """
    order = torch.argsort(reference_lengths * (int(candidate_lengths.max()) + 1) + candidate_lengths, stable=True)
    cand, ref = candidate_lengths[order].tolist(), reference_lengths[order].tolist()
    begin = widest = 0
    for end, (c, r) in enumerate(zip(cand, ref, strict=True)):
        widest = max(widest, c)
        size = _product_bytes(widest, r, dim, layers) * (end - begin + 1)
        if end > begin and (size > _GROUP_BYTES or r > 1.25 * ref[begin] + 2):
            yield order[begin:end]
            begin, widest = end, c
    yield order[begin:]


def _product_bytes(cand: int, ref: int, dim: int, layers: int) -> int:
    """Return the bytes that matching a pair takes: copies of its embeddings, its similarities and two filled copies."""
    return 4 * layers * ((cand + ref) * dim + 3 * cand * ref)


def match_in_tiles(
    candidate: Tensor, reference: Tensor, candidate_mask: Tensor, reference_mask: Tensor
) -> tuple[Tensor, Tensor]:
    """Match one pair whose similarities do not fit into memory at once: tile after tile of their matrix.

    Args:
        candidate: [layer, cand, dim] of length 1.
        reference: [layer, ref, dim] of length 1.
        candidate_mask: [cand] bool, which tokens may be matched to.
        reference_mask: [ref] bool.

    Returns:
        Best of the candidate's tokens [layer, cand] and of the reference's [layer, ref], as `greedy_match`. Beyond
        these it takes `_GROUP_BYTES`, however long the texts are.
    """
    side = max(1, math.isqrt(_GROUP_BYTES // _product_bytes(1, 1, 0, len(candidate))))
    lowest = torch.finfo(candidate.dtype).min
    candidate_best = candidate.new_full(candidate.shape[:2], lowest)
    reference_best = reference.new_full(reference.shape[:2], lowest)
    for c_begin in range(0, candidate.shape[1], side):
        c = slice(c_begin, c_begin + side)
        for r_begin in range(0, reference.shape[1], side):
            r = slice(r_begin, r_begin + side)
            tile = similarity(candidate[:, c], reference[:, r])
            c_best = _fill(tile, ~reference_mask[r], lowest).amax(-1)
            r_best = _fill(tile, ~candidate_mask[c, None], lowest).amax(-2)
            candidate_best[:, c] = torch.maximum(candidate_best[:, c], c_best)
            reference_best[:, r] = torch.maximum(reference_best[:, r], r_best)
    return (
        candidate_best.masked_fill(~reference_mask.any(), 0),
        reference_best.masked_fill(~candidate_mask.any(), 0),
    )


def match_pairs(
    embeddings: Tensor,
    matchable: Tensor,
    candidate_starts: Tensor,
    candidate_lengths: Tensor,
    reference_starts: Tensor,
    reference_lengths: Tensor,
) -> tuple[Tensor, Tensor]:
    """Match pairs of texts whose embeddings lie in one flat tensor.

    Args:
        embeddings: [layer, token, dim] float32 of length 1, all texts one after the other.
        matchable: [token] bool, which tokens may be matched to.
        candidate_starts, candidate_lengths: [pair] int64, where each candidate is in the flat tensor.
        reference_starts, reference_lengths: [pair] int64.

    Returns:
        Best cosines [layer, cand] and [layer, ref], flat, pair after pair, on the CPU; 0 for tokens that may not be
        matched to or have nothing to match.
    """
    layers, _, dim = embeddings.shape
    candidate_best = torch.zeros(layers, int(candidate_lengths.sum()))
    reference_best = torch.zeros(layers, int(reference_lengths.sum()))
    candidate_to, reference_to = ragged.starts(candidate_lengths), ragged.starts(reference_lengths)
    both = torch.nonzero((candidate_lengths > 0) & (reference_lengths > 0)).squeeze(1)
    if not len(both):
        return candidate_best, reference_best
    for group in match_groups(candidate_lengths[both], reference_lengths[both], dim, layers):
        pairs = both[group]
        c_index, c_real = ragged.padded_positions(candidate_starts[pairs], candidate_lengths[pairs])
        r_index, r_real = ragged.padded_positions(reference_starts[pairs], reference_lengths[pairs])
        c_index, r_index = c_index.to(embeddings.device), r_index.to(embeddings.device)
        c_mask = matchable[c_index] & c_real.to(embeddings.device)
        r_mask = matchable[r_index] & r_real.to(embeddings.device)
        c_best, r_best = _match_group(embeddings, c_index, r_index, c_mask, r_mask)
        for best, mask, real, out, to, lengths in (
            (c_best, c_mask, c_real, candidate_best, candidate_to, candidate_lengths),
            (r_best, r_mask, r_real, reference_best, reference_to, reference_lengths),
        ):
            values = best.masked_fill(~mask, 0).clamp(-1, 1).cpu()
            out[:, ragged.positions(to[pairs], lengths[pairs])] = values[:, real]
    return candidate_best, reference_best


def _match_group(
    embeddings: Tensor, c_index: Tensor, r_index: Tensor, c_mask: Tensor, r_mask: Tensor
) -> tuple[Tensor, Tensor]:
    """Match the pairs whose tokens are at the positions [pair, cand] and [pair, ref]; `greedy_match` of a group."""
    layers, _, dim = embeddings.shape
    if len(c_index) == 1 and _product_bytes(c_index.numel(), r_index.numel(), dim, layers) > _GROUP_BYTES:
        c, r = (embeddings[:, int(index[0, 0]) : int(index[0, -1]) + 1] for index in (c_index, r_index))
        c_best, r_best = match_in_tiles(c, r, c_mask[0], r_mask[0])
        return c_best[:, None], r_best[:, None]
    return greedy_match(similarity(embeddings[:, c_index], embeddings[:, r_index]), c_mask, r_mask)
