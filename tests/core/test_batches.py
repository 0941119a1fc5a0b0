"""Plans hold every text and every pair once, keep their limits, and fill what they are allowed to fill."""

from itertools import groupby, pairwise

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bertscore_metric.core.batches import BatchRule, batch_rule, plan_batches, plan_chunks

rules = st.builds(
    BatchRule,
    max_texts=st.none() | st.integers(1, 6),
    max_tokens=st.integers(1, 60),
    max_padding=st.integers(0, 12),
)


def overflows(sizes: list[int], rule: BatchRule) -> bool:
    """Return whether texts of these lengths, padded to the longest, are too many for one batch."""
    padded = max(sizes) * len(sizes)
    too_many = rule.max_texts is not None and len(sizes) > rule.max_texts
    return too_many or padded > rule.max_tokens or padded - sum(sizes) > rule.max_padding


@given(st.lists(st.integers(1, 30), max_size=25), rules)
@settings(deadline=None, max_examples=60)
def test_batches(lengths: list[int], rule: BatchRule) -> None:
    """Every text is in one batch, batches keep the rule unless a single text breaks it, and lengths fall."""
    batches = [batch.tolist() for batch in plan_batches(torch.tensor(lengths, dtype=torch.int64), rule)]
    order = [text for batch in batches for text in batch]
    assert sorted(order) == list(range(len(lengths)))
    assert [lengths[text] for text in order] == sorted(lengths, reverse=True)
    assert all(batches)
    for batch in batches:
        assert len(batch) == 1 or not overflows([lengths[text] for text in batch], rule)


@given(st.lists(st.integers(1, 30), max_size=25), rules)
@settings(deadline=None, max_examples=60)
@example([3, 3, 3, 3, 3], BatchRule(2, max_tokens=60, max_padding=12))
@example([3, 3, 3, 3, 3], BatchRule(None, max_tokens=6, max_padding=12))
@example([5, 4, 3, 2, 1], BatchRule(None, max_tokens=60, max_padding=1))
def test_batches_are_full(lengths: list[int], rule: BatchRule) -> None:
    """A batch ends only where the next text does not fit."""
    batches = [batch.tolist() for batch in plan_batches(torch.tensor(lengths, dtype=torch.int64), rule)]
    for batch, following in pairwise(batches):
        assert overflows([lengths[text] for text in [*batch, following[0]]], rule)


def test_texts_of_equal_length_keep_their_order() -> None:
    """Texts of equal length share a batch, in their order."""
    rule = BatchRule(None, max_tokens=100, max_padding=0)
    batches = list(plan_batches(torch.tensor([2, 5, 2, 5, 2]), rule))
    assert [batch.tolist() for batch in batches] == [[1, 3], [0, 2, 4]]
    assert all(batch.dtype == torch.int64 for batch in batches)


def test_a_text_above_the_token_limit_is_alone() -> None:
    """A text longer than the limit is a batch of its own, and the others are not."""
    rule = BatchRule(None, max_tokens=8, max_padding=8)
    assert [batch.tolist() for batch in plan_batches(torch.tensor([4, 20, 4]), rule)] == [[1], [0, 2]]


@pytest.mark.parametrize("device", ["cpu", "cuda", "mps"])
def test_rule_of_a_device(device: str) -> None:
    """A device's rule allows more tokens than most texts have, room for padding, and the user's batch size."""
    assert batch_rule(device).max_texts is None
    rule = batch_rule(device, 3)
    assert rule.max_texts == 3
    assert rule.max_tokens >= 2048  # a longer text is a batch of its own
    assert 0 < rule.max_padding < rule.max_tokens / 8
    assert batch_rule("cuda").max_tokens > batch_rule("cpu").max_tokens


# --- chunks -----------------------------------------------------------------------------------------------------------


@st.composite
def corpora(draw: st.DrawFn) -> tuple[list[int], list[int], list[int]]:
    """Draw pairs as numbers of texts, and the lengths of the texts, among them texts that occur often."""
    lengths = draw(st.lists(st.integers(0, 9), min_size=1, max_size=8))
    text = st.integers(0, len(lengths) - 1)
    pairs = draw(st.lists(st.tuples(text, text), max_size=20))
    return [candidate for candidate, _ in pairs], [reference for _, reference in pairs], lengths


def plan(corpus: tuple[list[int], list[int], list[int]], max_tokens: int) -> list[list[int]]:
    """Return the chunks of a corpus as lists."""
    candidates, references, lengths = (torch.tensor(part, dtype=torch.int64) for part in corpus)
    return [chunk.tolist() for chunk in plan_chunks(candidates, references, lengths, max_tokens)]


def tokens(corpus: tuple[list[int], list[int], list[int]], pairs: list[int]) -> int:
    """Return how many tokens the distinct texts of some pairs have."""
    candidates, references, lengths = corpus
    return sum(lengths[text] for text in {text for pair in pairs for text in (candidates[pair], references[pair])})


@given(corpora(), st.integers(1, 40))
@settings(deadline=None, max_examples=60)
@example(([2, 3, 2, 4, 3], [1, 1, 0, 0, 0], [4, 5, 2, 2, 2]), 9)  # texts of one chunk return in the next
def test_chunks(corpus: tuple[list[int], list[int], list[int]], max_tokens: int) -> None:
    """Every pair is in one chunk, and the distinct texts of a chunk keep the budget unless a single pair breaks it."""
    chunks = plan(corpus, max_tokens)
    assert sorted(pair for chunk in chunks for pair in chunk) == list(range(len(corpus[0])))
    for chunk in chunks:
        assert len(chunk) == 1 or tokens(corpus, chunk) <= max_tokens


@given(corpora(), st.integers(1, 40))
@settings(deadline=None, max_examples=60)
def test_chunks_are_full(corpus: tuple[list[int], list[int], list[int]], max_tokens: int) -> None:
    """A chunk ends only where the next pair does not fit."""
    chunks = plan(corpus, max_tokens)
    for chunk, following in pairwise(chunks):
        assert tokens(corpus, [*chunk, following[0]]) > max_tokens


@given(corpora(), st.integers(1, 40))
@settings(deadline=None, max_examples=60)
def test_chunk_order(corpus: tuple[list[int], list[int], list[int]], max_tokens: int) -> None:
    """Reference lengths fall, equal references are side by side, and beside one reference candidate lengths fall."""
    candidates, references, lengths = corpus
    order = [pair for chunk in plan(corpus, max_tokens) for pair in chunk]
    reference_lengths = [lengths[references[pair]] for pair in order]
    assert reference_lengths == sorted(reference_lengths, reverse=True)
    runs = [(reference, list(run)) for reference, run in groupby(order, key=lambda pair: references[pair])]
    assert len(runs) == len(set(references))
    for _, run in runs:
        candidate_lengths = [lengths[candidates[pair]] for pair in run]
        assert candidate_lengths == sorted(candidate_lengths, reverse=True)


def test_texts_that_return_are_free() -> None:
    """A text that a chunk already has costs nothing again, also one that is candidate and reference."""
    # One reference of 4 tokens with three candidates of 2: 10 tokens, not 18.
    assert plan(([1, 2, 3], [0, 0, 0], [4, 2, 2, 2]), 10) == [[0, 1, 2]]
    assert plan(([1, 2, 3], [0, 0, 0], [4, 2, 2, 2]), 9) == [[0, 1], [2]]
    assert plan(([0, 0], [0, 0], [4]), 4) == [[0, 1]]
