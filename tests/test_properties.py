"""What must hold for every corpus, whatever the texts, the batches, the splits and the order."""

import dataclasses
import random
from typing import Any

import pytest
import torch
from conftest import TOLERANCE, shared_scorer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from bertscore_metric import BERTScorer, BERTScoreResult
from bertscore_metric.core.batches import BatchRule

pytestmark = pytest.mark.filterwarnings("ignore::bertscore_metric.BERTScoreWarning")

WORDS = [
    "the",
    "a",
    "cat",
    "dog",
    "sat",
    "looked",
    "on",
    "at",
    "red",
    "table",
    "Go",
    "go",
    "28-year-old",
    "emoji",
    "😀",
    "Über",
    "你好",
    "lemons.",
    "is",
    "it?",
]
texts = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
references = st.one_of(texts.map(lambda text: [text]), st.lists(texts, min_size=1, max_size=3))
corpora = st.lists(st.tuples(texts, references), min_size=1, max_size=8)
idfs = st.sampled_from([False, True])
quick = settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])


def scores(result: BERTScoreResult) -> Tensor:
    """Return the three columns as one tensor."""
    return torch.stack(list(result))


def close(a: Tensor, b: Tensor) -> None:
    """Compare within the project's tolerance."""
    torch.testing.assert_close(a, b, atol=TOLERANCE, rtol=0)


def run(corpus: list[tuple[str, list[str]]], idf: bool, **kwargs: Any) -> BERTScoreResult:
    """Score a corpus with the tiny BERT."""
    return shared_scorer("bert", num_layers=2, idf=idf, **kwargs).score([c for c, _ in corpus], [r for _, r in corpus])


@quick
@given(corpora, idfs, st.randoms(use_true_random=False))
def test_permuting_pairs_permutes_scores(corpus: Any, idf: bool, rng: random.Random) -> None:
    """The order of the segments does not matter."""
    order = list(range(len(corpus)))
    rng.shuffle(order)
    close(scores(run([corpus[k] for k in order], idf)), scores(run(corpus, idf))[:, order])


@quick
@given(corpora, idfs, st.integers(1, 5), st.integers(1, 60), st.integers(0, 30))
def test_batches_do_not_matter(corpus: Any, idf: bool, max_texts: int, max_tokens: int, max_padding: int) -> None:
    """Any batch size and any amount of padding give the same scores."""
    scorer = BERTScorer(str(shared_scorer("bert", num_layers=2).config.model_name_or_path), num_layers=2, idf=idf)
    scorer._settings = dataclasses.replace(scorer._settings, rule=BatchRule(max_texts, max_tokens, max_padding))
    close(scores(scorer.score([c for c, _ in corpus], [r for _, r in corpus])), scores(run(corpus, idf)))


@quick
@given(corpora, idfs, st.integers(1, 4), st.booleans())
def test_splits_into_updates_do_not_matter(corpus: Any, idf: bool, size: int, drain: bool) -> None:
    """Any split into updates gives the same result, also when results are asked for in between."""
    scorer = BERTScorer(str(shared_scorer("bert", num_layers=2).config.model_name_or_path), num_layers=2, idf=idf)
    for begin in range(0, len(corpus), size):
        part = corpus[begin : begin + size]
        scorer.update([c for c, _ in part], [r for _, r in part])
        if drain:
            scorer.compute()
    result, whole = scorer.compute(), run(corpus, idf)
    close(scores(result), scores(whole))
    assert result.best_reference.tolist() == whole.best_reference.tolist()
    assert (result.n_empty, result.unk_share, result.n_truncated) == (
        whole.n_empty,
        whole.unk_share,
        whole.n_truncated,
    )


@quick
@given(corpora, corpora, idfs)
def test_merging_in_any_order(first: Any, second: Any, idf: bool) -> None:
    """Merging two streams gives the scores of both, own segments first; merging an empty one changes nothing."""
    path = str(shared_scorer("bert", num_layers=2).config.model_name_or_path)
    a, b, empty = (BERTScorer(path, num_layers=2, idf=idf) for _ in range(3))
    for scorer, corpus in ((a, first), (b, second)):
        scorer.update([c for c, _ in corpus], [r for _, r in corpus])
    a.merge(empty)
    a.merge(b)
    close(scores(a.compute()), scores(run(first + second, idf)))
    b.merge(a)
    close(scores(b.compute()), scores(run(second + first + second, idf)))


@quick
@given(st.lists(texts.filter(str.strip), min_size=1, max_size=5), idfs)
def test_a_text_against_itself_scores_one(values: list[str], idf: bool) -> None:
    """Every text matches itself perfectly."""
    result = run([(text, [text]) for text in values], idf)
    close(scores(result), torch.ones(3, len(values)))


@quick
@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=6))
def test_swapping_sides_swaps_precision_and_recall(pairs: list[tuple[str, str]]) -> None:
    """Without idf the two sides are alike."""
    there = run([(a, [b]) for a, b in pairs], idf=False)
    back = run([(b, [a]) for a, b in pairs], idf=False)
    close(there.precision, back.recall)
    close(there.recall, back.precision)
    close(there.f1, back.f1)


@quick
@given(corpora, corpora)
def test_further_pairs_leave_earlier_ones(first: Any, more: Any) -> None:
    """Without idf a segment's score has nothing to do with the rest of the corpus."""
    close(scores(run(first + more, idf=False))[:, : len(first)], scores(run(first, idf=False)))


@quick
@given(corpora, idfs)
def test_rescaling_keeps_the_order(corpus: Any, idf: bool) -> None:
    """Rescaling moves scores but never swaps two of them, and the raw values stay readable."""
    from conftest import TESTS

    path = str(TESTS / "golden" / "baseline.csv")
    plain = run(corpus, idf)
    rescaled = run(corpus, idf, rescale_with_baseline=True, baseline_path=path)
    close(scores(plain), torch.stack([rescaled.raw.precision, rescaled.raw.recall, rescaled.raw.f1]))
    for before, after in zip(plain, rescaled, strict=True):
        order = before.argsort(stable=True)
        assert (after[order].diff() >= 0).all()


@quick
@given(corpora, st.sampled_from(["bert", "t5", "gpt2", "llama", "xlnet"]), idfs, st.booleans())
def test_no_nan_and_within_bounds(corpus: Any, model: str, idf: bool, match_special_tokens: bool) -> None:
    """Scores are finite and at most 1 for every kind of special tokens."""
    scorer = shared_scorer(model, num_layers=2, idf=idf, match_special_tokens=match_special_tokens)
    got = scores(scorer.score([c for c, _ in corpus], [r for _, r in corpus]))
    assert torch.isfinite(got).all()
    assert (got <= 1 + TOLERANCE).all()
