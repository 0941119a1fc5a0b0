"""All texts of one side against all of another, tile after tile: pure functions on tensors.

A tile is a group of texts against another group: one product, and the largest cosines along both of its token axes.
Tokens of a group lie token after token, not text after text, so that both maxima run over whole vectors of numbers; a
product of 384 dimensions then takes 95 % of the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from bertscore_metric.core import ragged

TILE_BYTES = 64 * 2**20  # cosines of a tile; of longer texts it is done in slabs
_CPU_GROUP = (32, 2048)  # most texts and tokens of a group: whole vectors of texts, and cosines that stay in the cache
_GPU_GROUP = (256, 8192)
_SLACK = 0.08  # share of padding in a group above which it ends
_INDEX_BITS = 32


@dataclass(frozen=True)
class Embedded:
    """Texts with their embeddings, of which only the tokens that may be matched are looked at.

    Args:
        embeddings: [row, dim] float32 of length 1.
        rows: [token] int64, which rows of it are the tokens that may be matched, text after text.
        weights: [token] float64, shares of its text's weight: they sum to 1 in every text, or to 0.
        first, lengths: [number] int64, where the tokens of the text of each number begin, and how many it has; of
            texts that are not here, anything.
    """

    embeddings: Tensor
    rows: Tensor
    weights: Tensor
    first: Tensor
    lengths: Tensor


@dataclass(frozen=True)
class Group:
    """Texts of nearly equal length, padded with their own first token, which changes no maximum.

    Args:
        texts: [text] int64, their numbers.
        embeddings: [token, text, dim] float32 of length 1.
        weights: [token, text], 0 for padding.
    """

    texts: Tensor
    embeddings: Tensor
    weights: Tensor


def shares(weights: Tensor, lengths: Tensor) -> Tensor:
    """Return weights divided by their sum in each text: [token], [text] -> [token]; 0 where they sum to 0."""
    totals = ragged.sums(weights, lengths)
    return weights / torch.repeat_interleave(torch.where(totals > 0, totals, 1.0), lengths)


def plan_groups(texts: Tensor, lengths: Tensor, device_type: str = "cpu") -> Iterator[Tensor]:
    """Split texts into groups of nearly equal length, shortest first.

    Args:
        texts: [text] int64, numbers of texts, each with at least one token.
        lengths: [number] int64, tokens of the text of each number.
        device_type: where they are matched: small groups keep a CPU's cache warm, large ones fill a GPU.

    Yields:
        Numbers of the texts of a group, [group] int64; together every one once.
    """
    most_texts, most_tokens = _CPU_GROUP if device_type == "cpu" else _GPU_GROUP
    order = texts[torch.argsort(lengths[texts], stable=True)]
    begin = real = 0
    sizes = lengths[order].tolist()
    for end, size in enumerate(sizes):
        count = end - begin + 1
        padding = size * count - real - size
        full = count > most_texts or size * count > most_tokens or padding > max(size, _SLACK * size * count)
        if count > 1 and full:
            yield order[begin:end]
            begin, real = end, 0
        real += size
    if sizes:
        yield order[begin:]


def make_group(side: Embedded, texts: Tensor) -> Group:
    """Gather the texts of a group, [text] int64, each with at least one token, from those that are embedded."""
    index, real = ragged.padded_positions(side.first[texts], side.lengths[texts])
    rows = side.rows[index.T]
    weights = side.weights[index.T].masked_fill(~real.T, 0)
    device = side.embeddings.device
    embeddings = side.embeddings.index_select(0, rows.flatten().to(device)).view(*rows.shape, -1)
    # Apple's GPUs have no float64.
    return Group(texts, embeddings, weights.to(device, torch.float32 if device.type == "mps" else torch.float64))


def match_tile(candidates: Group, references: Group) -> tuple[Tensor, Tensor]:
    """Match all texts of a group with all of another.

    Returns:
        Precision and recall, [candidate, reference] float64 on the CPU.
    """
    c_size, n_c, dim = candidates.embeddings.shape
    r_size, n_r, _ = references.embeddings.shape
    others = references.embeddings.view(r_size * n_r, dim).T
    step = max(1, TILE_BYTES // (4 * n_c * r_size * n_r))
    c_best = []
    r_best = candidates.embeddings.new_full((n_c, r_size * n_r), -1.0)
    for begin in range(0, c_size, step):
        slab = candidates.embeddings[begin : begin + step].flatten(0, 1)
        cosines = slab @ others
        c_best.append(_largest(cosines.view(-1, r_size, n_r)))
        r_best = torch.maximum(r_best, cosines.view(-1, n_c, r_size * n_r).amax(0))
    best = torch.cat(c_best).view(c_size, n_c, n_r).clamp(-1, 1).to(candidates.weights.dtype)
    precision = (best * candidates.weights[:, :, None]).sum(0)
    best = r_best.view(n_c, r_size, n_r).clamp(max=1).to(references.weights.dtype)
    recall = (best * references.weights).sum(1)
    return precision.cpu().double(), recall.cpu().double()


def _largest(cosines: Tensor) -> Tensor:
    """Return the largest cosine over the tokens: [row, token, text] -> [row, text].

    Halving takes maxima of long runs of numbers; `amax` is five times slower here for groups that are not full.
    """
    while (size := cosines.shape[1]) > 1:
        half = (size + 1) // 2
        cosines = torch.maximum(cosines[:, :half], cosines[:, size - half :])
    return cosines[:, 0]


def match_own_tile(texts: Group) -> tuple[Tensor, Tensor]:
    """Match a group with itself: precision and recall [text, text] float64, each the other's transpose to the bit."""
    precision, recall = match_tile(texts, texts)
    upper = precision.triu() + recall.T.tril(-1)
    return upper, upper.T


def ranking_keys(scores: Tensor, columns: Tensor) -> Tensor:
    """Return one whole number for each score, larger for the better one, and of equal scores for the first column.

    Args:
        scores: [row, column] float32, no NaN.
        columns: [column] int64, the column's number, at least 0 and below 2^31.

    Returns:
        [row, column] int64; no two of a row are equal, so that the best k of a row are the same in any order.
    """
    bits = (scores + 0.0).contiguous().view(torch.int32).long()  # -0.0 becomes 0.0
    ordered = torch.where(bits < 0, bits ^ (2**31 - 1), bits)  # negative floats order the other way round
    keys: Tensor = (ordered << _INDEX_BITS) | (2**_INDEX_BITS - 1 - columns)
    return keys


def best_keys(keys: Tensor, more: Tensor) -> Tensor:
    """Return the best of two sets of keys: [row, k], [row, column] -> [row, k], best first."""
    return torch.cat([keys, more], dim=1).topk(keys.shape[1], dim=1).values


def read_keys(keys: Tensor) -> tuple[Tensor, Tensor]:
    """Return the columns (int64) and the scores (float32) of keys, in their shape."""
    columns = 2**_INDEX_BITS - 1 - (keys & (2**_INDEX_BITS - 1))
    ordered = keys >> _INDEX_BITS
    bits = torch.where(ordered < 0, ordered ^ (2**31 - 1), ordered)
    return columns, bits.to(torch.int32).view(torch.float32)


def expected_scores(utilities: Tensor, weights: Tensor, *, exclude_self: bool) -> Tensor:
    """Return what every candidate is expected to score against texts of which one is right.

    Args:
        utilities: [candidate, reference] float64, the score of each candidate if that reference is right.
        weights: [reference] float64, at least 0: how likely each reference is, up to a factor.
        exclude_self: the references are the candidates, and none counts for itself.

    Returns:
        [candidate] float64, the mean of each row under the weights; NaN where no other text has any. Rows that are
        equal, as those of equal texts with equal weights are, give equal numbers.
    """
    totals, masses = (utilities * weights).sum(1), weights.sum().expand(len(utilities))
    if exclude_self:
        totals = totals - utilities.diagonal() * weights
        masses = torch.where(_others(weights > 0), masses - weights, 0.0)
    return torch.where(masses > 0, totals / masses, torch.nan)


def _others(marked: Tensor) -> Tensor:
    """Return for each entry whether another one is marked: [entry] bool -> [entry] bool."""
    return marked.sum() - marked.long() > 0


def best_candidate(expected: Tensor) -> int:
    """Return the number of the largest value [candidate], the first of equal ones; NaN is below all, alone it is 0."""
    return int(expected.nan_to_num(nan=-torch.inf).argmax())
