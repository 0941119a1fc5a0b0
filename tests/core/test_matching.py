"""Greedy matching gives every token its best cosine on the other side, whatever lies beside it in the batch."""

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from bertscore_metric import TokenMatches
from bertscore_metric.core import matching, ragged
from bertscore_metric.core.aggregation import f1_score
from bertscore_metric.core.matching import greedy_match, match_groups, match_pairs, similarity, unit

# Products of unit vectors in another order differ by an ulp or two of 1.
ULPS = {"atol": 5e-7, "rtol": 0.0}

# Rows are the reference (cat, on, mat), columns the candidate (cat, sits, on, rug).
SEED = torch.tensor([[0.95, 0.20, 0.10, 0.05], [0.10, 0.30, 0.90, 0.10], [0.05, 0.40, 0.20, 0.80]])

seeds = st.integers(0, 2**32 - 1)


def yes(*shape: int) -> Tensor:
    """Return a mask that hides nothing."""
    return torch.ones(shape, dtype=torch.bool)


# --- greedy_match -----------------------------------------------------------------------------------------------------


def test_seed_example() -> None:
    """The seed example, turned to [cand, ref], gives P .76250, R .88333, F1 .81848."""
    candidate_best, reference_best = greedy_match(SEED.T[None], yes(1, 4), yes(1, 3))
    torch.testing.assert_close(candidate_best, torch.tensor([[0.95, 0.40, 0.90, 0.80]]))
    torch.testing.assert_close(reference_best, torch.tensor([[0.95, 0.90, 0.80]]))
    precision, recall = candidate_best.mean().double(), reference_best.mean().double()
    assert precision.item() == pytest.approx(0.76250, abs=5e-6)
    assert recall.item() == pytest.approx(0.88333, abs=5e-6)
    assert f1_score(precision, recall).item() == pytest.approx(0.81848, abs=5e-6)


def test_seed_example_turned_swaps_the_sides() -> None:
    """With candidate and reference exchanged, precision and recall are exchanged."""
    one, other = greedy_match(SEED[None], yes(1, 3), yes(1, 4))
    assert other.mean().item() == pytest.approx(0.76250, abs=5e-6)
    assert one.mean().item() == pytest.approx(0.88333, abs=5e-6)


cosines = st.floats(-1, 1, width=32)


@st.composite
def similarity_lists(draw: st.DrawFn) -> list[list[float]]:
    """Draw the similarities of a pair of at least one token each."""
    width = draw(st.integers(1, 4))
    return draw(st.lists(st.lists(cosines, min_size=width, max_size=width), min_size=1, max_size=4))


@given(similarity_lists(), st.integers(0, 2), st.integers(0, 2), st.sampled_from([-1.0, 0.0, 1.0, math.inf, math.nan]))
@settings(deadline=None)
@example([[-0.5]], 1, 1, 0.0)
def test_padding_changes_nothing(rows: list[list[float]], more_cand: int, more_ref: int, padding: float) -> None:
    """Whatever stands in the padding, the best similarities are those without it, also where they are negative."""
    pair = torch.tensor(rows)
    cand, ref = pair.shape
    padded = torch.full((1, cand + more_cand, ref + more_ref), padding)
    padded[0, :cand, :ref] = pair
    before = padded.clone()
    cand_mask, ref_mask = torch.arange(cand + more_cand)[None] < cand, torch.arange(ref + more_ref)[None] < ref
    candidate_best, reference_best = greedy_match(padded, cand_mask, ref_mask)
    assert candidate_best[0, :cand].tolist() == [max(row) for row in pair.tolist()]
    assert reference_best[0, :ref].tolist() == [max(column) for column in pair.T.tolist()]
    torch.testing.assert_close(padded, before, atol=0.0, rtol=0.0, equal_nan=True)


def test_nothing_to_match() -> None:
    """Where the other side has no token to match, the best similarity is 0, and finite everywhere."""
    similarities = torch.full((2, 2, 3), -0.5)
    reference_mask = torch.tensor([[False, False, False], [True, False, False]])
    candidate_best, reference_best = greedy_match(similarities, yes(2, 2), reference_mask)
    assert candidate_best.tolist() == [[0.0, 0.0], [-0.5, -0.5]]
    assert reference_best.tolist() == [[-0.5] * 3] * 2
    candidate_best, reference_best = greedy_match(similarities, ~yes(2, 2), ~yes(2, 3))
    assert not candidate_best.any()
    assert not reference_best.any()


def test_layers_are_matched_alone() -> None:
    """With a layer axis in front every layer is matched for itself."""
    layers = torch.stack([SEED.T, -SEED.T])[:, None]
    both = greedy_match(layers, yes(1, 4), yes(1, 3))
    for layer in range(2):
        for side, alone in zip(both, greedy_match(layers[layer], yes(1, 4), yes(1, 3)), strict=True):
            assert torch.equal(side[layer], alone)


# --- unit and similarity ----------------------------------------------------------------------------------------------


@given(seeds, st.sampled_from([torch.float32, torch.float64, torch.bfloat16, torch.float16]), st.integers(-3, 3))
@settings(deadline=None, max_examples=50)
def test_unit(seed: int, dtype: torch.dtype, exponent: int) -> None:
    """Vectors come out with length 1 in float32 and their direction kept; the input is as it was."""
    vectors = (torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(seed)) * 10.0**exponent).to(dtype)
    before = vectors.clone()
    result = unit(vectors)
    assert result.dtype == torch.float32
    torch.testing.assert_close(result.norm(dim=-1), torch.ones(2, 3), **ULPS)
    torch.testing.assert_close(result, torch.nn.functional.normalize(vectors.double(), dim=-1).float(), **ULPS)
    assert torch.equal(vectors, before)


@pytest.mark.parametrize("scale", [1e-30, 1e-22, 1e-20, 1e20, 1e30])
def test_unit_of_any_size(scale: float) -> None:
    """A finite vector that is not 0 has length 1 afterwards, also where its square leaves the range of float32."""
    result = unit(torch.tensor([[3.0, -4.0]]) * scale)
    torch.testing.assert_close(result, torch.tensor([[0.6, -0.8]]), **ULPS)


def test_unit_of_zero() -> None:
    """A zero vector stays 0, and so do its cosines."""
    vectors = unit(torch.tensor([[0.0, 0.0], [3.0, 4.0]]))
    assert vectors[0].tolist() == [0.0, 0.0]
    assert similarity(vectors, vectors)[0].tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    "vectors",
    [
        torch.tensor([[1.0, 2.0], [math.nan, 1.0]]),
        torch.tensor([[1.0, 2.0], [-math.inf, 1.0]]),
        torch.tensor([[7e4, 1.0]]).half(),
    ],
    ids=["nan", "inf", "float16 overflow"],
)
def test_unit_of_what_is_not_finite(vectors: Tensor) -> None:
    """Embeddings that are not finite are an error that says what to do, never a 0."""
    with pytest.raises(ValueError, match=r"^The encoder returned embeddings that are not finite\. .* dtype='float32'"):
        unit(vectors)


def test_similarity_is_candidate_by_reference() -> None:
    """The axes of a similarity matrix are [cand, ref]."""
    candidates, references = torch.eye(3)[[0, 1]], torch.eye(3)[[2, 0, 1, 1]]
    assert similarity(candidates, references).tolist() == [[0, 1, 0, 0], [0, 0, 1, 1]]
    stacked = similarity(candidates.expand(2, 5, 2, 3), references.expand(2, 5, 4, 3))
    assert stacked.shape == (2, 5, 2, 4)


# --- match_groups -----------------------------------------------------------------------------------------------------

pair_lengths = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=30)


@given(pair_lengths, st.integers(1, 8), st.integers(1, 3), st.sampled_from([0, 2_000, 50_000, 2**25]))
@settings(deadline=None)
@example([(1, 1), (30, 1), (1, 2), (1, 2)], 1, 1, 700)
def test_groups(lengths: list[tuple[int, int]], dim: int, layers: int, most_bytes: int) -> None:
    """Every pair is in one group, and a group keeps the bound unless it is one pair.

    What is bounded are the padded embeddings of both sides, their product, and its two masked copies.
    """
    cand, ref = torch.tensor(lengths).T
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching, "_GROUP_BYTES", most_bytes)
        groups = [group.tolist() for group in match_groups(cand, ref, dim, layers)]
    assert sorted(pair for group in groups for pair in group) == list(range(len(lengths)))
    assert all(groups)
    for group in groups:
        width, height = max(int(cand[pair]) for pair in group), max(int(ref[pair]) for pair in group)
        needed = 4 * layers * len(group) * ((width + height) * dim + 3 * width * height)
        assert len(group) == 1 or needed <= most_bytes


def test_pairs_of_one_size_share_a_group() -> None:
    """Pairs of equal lengths are matched in one product where they fit."""
    lengths = torch.full((50,), 12)
    assert [len(group) for group in match_groups(lengths, lengths, 384, 1)] == [50]


# --- match_pairs ------------------------------------------------------------------------------------------------------


def naive_pairs(
    embeddings: Tensor, matchable: Tensor, texts: Sequence[tuple[int, int]], pairs: Sequence[tuple[int, int]]
) -> tuple[Tensor, Tensor]:
    """Match every pair alone and token by token: a maximum over Python floats."""

    def best(layer: Tensor, own: range, other: range) -> list[float]:
        partners = [token for token in other if matchable[token]]
        return [
            max(float(layer[token] @ layer[partner]) for partner in partners) if partners and matchable[token] else 0.0
            for token in own
        ]

    spans = [range(begin, begin + length) for begin, length in texts]
    sides: list[list[list[float]]] = [[], []]
    for layer in embeddings:
        sides[0].append([value for c, r in pairs for value in best(layer, spans[c], spans[r])])
        sides[1].append([value for c, r in pairs for value in best(layer, spans[r], spans[c])])
    return torch.tensor(sides[0]), torch.tensor(sides[1])


@st.composite
def ragged_pairs(draw: st.DrawFn) -> tuple[Tensor, Tensor, list[tuple[int, int]], list[tuple[int, int]]]:
    """Draw embeddings of texts, some without tokens, some with none that may be matched to, and pairs of them."""
    lengths = draw(st.lists(st.integers(0, 6), min_size=1, max_size=6))
    layers, dim, total = draw(st.integers(1, 3)), draw(st.integers(1, 4)), sum(lengths)
    generator = torch.Generator().manual_seed(draw(seeds))
    embeddings = torch.randn(layers, total, dim, generator=generator)
    if draw(st.booleans()):  # every cosine is negative between the texts of even and of odd number
        embeddings = embeddings.abs()
        for text, begin in enumerate(ragged.starts(torch.tensor(lengths)).tolist()):
            embeddings[:, begin : begin + lengths[text]] *= (-1) ** text
    matchable = torch.rand(total, generator=generator) >= draw(st.sampled_from([0.0, 0.4, 1.0]))
    texts = list(zip(ragged.starts(torch.tensor(lengths)).tolist(), lengths, strict=True))
    text = st.integers(0, len(lengths) - 1)
    return unit(embeddings), matchable, texts, draw(st.lists(st.tuples(text, text), max_size=8))


def match(
    embeddings: Tensor, matchable: Tensor, texts: Sequence[tuple[int, int]], pairs: Sequence[tuple[int, int]]
) -> tuple[Tensor, Tensor]:
    """Match pairs of texts, which are given as (begin, length)."""
    cand = torch.tensor([texts[c] for c, _ in pairs], dtype=torch.int64).reshape(-1, 2)
    ref = torch.tensor([texts[r] for _, r in pairs], dtype=torch.int64).reshape(-1, 2)
    return match_pairs(embeddings, matchable, cand[:, 0], cand[:, 1], ref[:, 0], ref[:, 1])


@given(ragged_pairs(), st.sampled_from([0, 400, 2**25]))
@settings(deadline=None, max_examples=150)
def test_pairs_equal_a_loop(case: Any, most_bytes: int) -> None:
    """Pairs matched together, in one group or in many, equal pairs matched alone, token by token."""
    embeddings, matchable, texts, pairs = case
    before = embeddings.clone(), matchable.clone()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching, "_GROUP_BYTES", most_bytes)
        found = match(embeddings, matchable, texts, pairs)
    for side, expected in zip(found, naive_pairs(embeddings, matchable, texts, pairs), strict=True):
        assert side.dtype == torch.float32
        torch.testing.assert_close(side, expected.reshape(len(embeddings), -1), **ULPS)
    assert torch.equal(embeddings, before[0])
    assert torch.equal(matchable, before[1])


def test_many_pairs_in_many_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of pairs of all sizes, split into many groups, equal a loop over them."""
    generator = torch.Generator().manual_seed(3)
    lengths = torch.randint(0, 30, (40,), generator=generator)
    embeddings = unit(torch.randn(2, int(lengths.sum()), 6, generator=generator))
    matchable = torch.rand(int(lengths.sum()), generator=generator) > 0.1
    texts = list(zip(ragged.starts(lengths).tolist(), lengths.tolist(), strict=True))
    pairs = torch.randint(0, 40, (300, 2), generator=generator).tolist()
    monkeypatch.setattr(matching, "_GROUP_BYTES", 100_000)
    sizes = [[texts[text][1] for text in pair] for pair in pairs]
    cand, ref = torch.tensor([size for size in sizes if all(size)]).T
    assert len(list(match_groups(cand, ref, 6, 2))) > 20
    found = match(embeddings, matchable, texts, pairs)
    for side, expected in zip(found, naive_pairs(embeddings, matchable, texts, pairs), strict=True):
        torch.testing.assert_close(side, expected, **ULPS)
        assert bool((side < 0).any())


@given(ragged_pairs(), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=50)
def test_order_of_pairs(case: Any, random: Any) -> None:
    """A pair's matches are the same wherever it stands."""
    embeddings, matchable, texts, pairs = case
    order = list(range(len(pairs)))
    random.shuffle(order)
    sides = match(embeddings, matchable, texts, pairs)
    shuffled_sides = match(embeddings, matchable, texts, [pairs[number] for number in order])
    for column, (side, shuffled) in enumerate(zip(sides, shuffled_sides, strict=True)):
        parts = side.split([texts[pair[column]][1] for pair in pairs], dim=1) if pairs else []
        expected = torch.cat([parts[number] for number in order], dim=1) if pairs else side
        torch.testing.assert_close(shuffled, expected, **ULPS)


@given(ragged_pairs())
@settings(deadline=None, max_examples=50)
def test_swapped_sides(case: Any) -> None:
    """Exchanging candidates and references exchanges the results."""
    embeddings, matchable, texts, pairs = case
    one, other = match(embeddings, matchable, texts, pairs)
    swapped_one, swapped_other = match(embeddings, matchable, texts, [(r, c) for c, r in pairs])
    torch.testing.assert_close(swapped_one, other, **ULPS)
    torch.testing.assert_close(swapped_other, one, **ULPS)


@given(ragged_pairs())
@settings(deadline=None, max_examples=50)
def test_text_against_itself(case: Any) -> None:
    """A text's tokens that may be matched to find themselves: their best cosine is 1, and no cosine is above 1."""
    embeddings, matchable, texts, _ = case
    for side in match(embeddings, matchable, texts, [(text, text) for text in range(len(texts))]):
        torch.testing.assert_close(side, matchable.float().expand_as(side), **ULPS)
        assert bool((side <= 1).all())


def test_no_pairs() -> None:
    """No pairs have no matches, in as many layers as there are."""
    sides = match(unit(torch.randn(3, 4, 2)), yes(4), [(0, 4)], [])
    assert [side.shape for side in sides] == [(3, 0), (3, 0)]


def test_texts_without_tokens() -> None:
    """A token with nothing on the other side has best cosine 0."""
    candidate_best, reference_best = match(
        unit(torch.ones(1, 2, 3)), yes(2), [(0, 2), (2, 0)], [(0, 1), (1, 1), (0, 0)]
    )
    torch.testing.assert_close(candidate_best, torch.tensor([[0.0, 0.0, 1.0, 1.0]]))
    torch.testing.assert_close(reference_best, torch.tensor([[1.0, 1.0]]))


# --- TokenMatches -----------------------------------------------------------------------------------------------------


def token_matches(counts: list[int], layers: int, seed: int) -> TokenMatches:
    """Return matches of segments with so many references, filled with random numbers."""
    generator = torch.Generator().manual_seed(seed)
    n_pairs = sum(counts)
    sides = []
    for _ in range(2):
        lengths = torch.randint(0, 5, (n_pairs,), generator=generator)
        total = int(lengths.sum())
        ids = torch.randint(0, 50, (total,), generator=generator)
        best = torch.rand(layers, total, generator=generator) * 2 - 1
        sides += [ids, best, lengths, torch.randint(0, 3, (n_pairs,), generator=generator)]
    return TokenMatches(*sides, reference_counts=torch.tensor(counts, dtype=torch.int64))


def assert_same(one: TokenMatches, other: TokenMatches) -> None:
    """Compare all fields bit for bit, with their types and shapes."""
    for name in TokenMatches.__dataclass_fields__:
        mine, others = getattr(one, name), getattr(other, name)
        assert mine.dtype == others.dtype
        assert torch.equal(mine, others), name


many_counts = st.lists(st.lists(st.integers(1, 3), max_size=4), min_size=1, max_size=4)


@given(many_counts, st.integers(1, 3), seeds, st.integers(0, 4))
@settings(deadline=None, max_examples=60)
def test_joining_with_nothing(counts: list[list[int]], layers: int, seed: int, where: int) -> None:
    """An empty part changes nothing, wherever it stands."""
    parts = [token_matches(some, layers, seed + number) for number, some in enumerate(counts)]
    with_empty = list(parts)
    with_empty.insert(where, token_matches([], layers, seed))
    assert_same(TokenMatches.concatenate(with_empty), TokenMatches.concatenate(parts))


@given(many_counts, st.integers(1, 3), seeds, st.integers(0, 4))
@settings(deadline=None, max_examples=60)
def test_joining_is_associative(counts: list[list[int]], layers: int, seed: int, cut: int) -> None:
    """Joining parts of parts gives the same as joining all at once."""
    parts = [token_matches(some, layers, seed + number) for number, some in enumerate(counts)]
    halves = [TokenMatches.concatenate(half) for half in (parts[:cut], parts[cut:]) if half]
    whole = TokenMatches.concatenate(parts)
    assert_same(TokenMatches.concatenate(halves), whole)
    assert len(whole) == sum(map(len, counts))


def test_joining_keeps_the_order() -> None:
    """Parts follow each other in every field, tokens along the token axis and layers side by side."""
    one, two = token_matches([2, 1], 2, 0), token_matches([3], 2, 1)
    joined = TokenMatches.concatenate([one, two])
    assert joined.reference_counts.tolist() == [2, 1, 3]
    assert joined.candidate_ids.tolist() == [*one.candidate_ids.tolist(), *two.candidate_ids.tolist()]
    assert torch.equal(joined.reference_best, torch.cat([one.reference_best, two.reference_best], dim=1))
    assert joined.reference_lost.tolist() == [*one.reference_lost.tolist(), *two.reference_lost.tolist()]
