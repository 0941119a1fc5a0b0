"""Scores of segments equal a plain loop over pairs and tokens, and every special case has its number."""

import math
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from bertscore_metric import IdfTable, TokenMatches
from bertscore_metric.core.aggregation import (
    SegmentScores,
    Vocabulary,
    best_of_references,
    f1_score,
    no_scores,
    score_segments,
    weighted_mean,
)
from bertscore_metric.core.windows import WindowRule

TOLERANCE = {"atol": 1e-6, "rtol": 1e-6}  # the scores are float32, and an F1 of P near -R is far from 0
CLS, SEP, UNKNOWN = 0, 1, 2
BERT = Vocabulary(frozenset({CLS, SEP}), frozenset({CLS, SEP}), frozenset(), UNKNOWN)
VOCABULARIES = {
    "bert": BERT,
    "no special tokens matched": Vocabulary(
        frozenset({CLS, SEP}), frozenset({CLS, SEP}), frozenset({CLS, SEP}), UNKNOWN
    ),
    "end token counts, as in T5": Vocabulary(frozenset({SEP}), frozenset(), frozenset(), UNKNOWN),
    "nothing unknown": Vocabulary(frozenset({CLS, SEP}), frozenset({CLS, SEP}), frozenset(), None),
    "nothing special": Vocabulary(frozenset(), frozenset(), frozenset(), None),
}
cosines = st.floats(-1, 1, width=32)


def doubles(values: Any) -> Tensor:
    """Return numbers as float64."""
    return torch.tensor(values, dtype=torch.float64)


# --- F1 ---------------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(-1, 1)), max_size=8))
@settings(deadline=None, max_examples=60)
def test_f1(pairs: list[tuple[float, float]]) -> None:
    """F1 is the harmonic mean where both are positive, and 0 elsewhere; it lies between them, and never above 1."""
    found = f1_score(doubles([p for p, _ in pairs]), doubles([r for _, r in pairs]))
    expected = [2 * p * r / (p + r) if p > 0 and r > 0 else 0.0 for p, r in pairs]
    torch.testing.assert_close(found, doubles(expected), atol=1e-12, rtol=1e-12)
    assert ((found >= 0) & (found <= 1)).all()


def test_f1_where_it_has_no_meaning() -> None:
    """F1 is 0, not NaN, infinite, negative or above 1, where a side is not positive; bert_score has -2.659 for one."""
    precision, recall = doubles([0.0, -0.5, 0.3, -0.2, 0.0185, 1.0]), doubles([0.0, 0.5, -0.4, -0.3, -0.0183, 1.0])
    assert f1_score(precision, recall).tolist() == [0.0, 0.0, 0.0, 0.0, 0.0, 1.0]


def test_f1_is_continuous() -> None:
    """F1 falls to 0 as a side does, and stays there."""
    side = doubles([1e-3, 1e-6, 1e-9, 0.0, -1e-9])
    assert (f1_score(side, torch.full_like(side, 0.5)) <= 2 * side.clamp(min=0)).all()


# --- weighted mean ----------------------------------------------------------------------------------------------------

weighted_texts = st.lists(st.lists(st.tuples(cosines, st.sampled_from([0.0, 0.5, 1.0, 3.25])), max_size=5), max_size=6)


@given(weighted_texts, st.integers(1, 3))
@settings(deadline=None, max_examples=60)
def test_weighted_mean(texts: list[list[tuple[float, float]]], layers: int) -> None:
    """Every text has the weighted mean of its tokens in every layer, and 0 where it has no weight."""
    best = torch.tensor([value for text in texts for value, _ in text]).repeat(layers, 1)
    best *= torch.arange(1, layers + 1)[:, None]
    weights = doubles([weight for text in texts for _, weight in text])
    before = best.clone(), weights.clone()
    found = weighted_mean(best, weights, torch.tensor([len(text) for text in texts], dtype=torch.int64))
    expected = []
    for text in texts:
        total = sum(weight for _, weight in text)
        expected.append(sum(value * weight for value, weight in text) / total if total else 0.0)
    assert found.dtype == torch.float64
    wanted = doubles([[layer * value for value in expected] for layer in range(1, layers + 1)])
    torch.testing.assert_close(found, wanted.reshape(layers, len(texts)), **TOLERANCE)
    assert torch.equal(best, before[0])
    assert torch.equal(weights, before[1])


def test_weights_have_no_unit() -> None:
    """Doubling all weights of a text changes nothing."""
    best, lengths = torch.tensor([[0.1, 0.9, 0.4]]), torch.tensor([2, 1])
    one = weighted_mean(best, doubles([1.0, 3.0, 2.0]), lengths)
    torch.testing.assert_close(weighted_mean(best, doubles([2.0, 6.0, 9.0]), lengths), one, atol=1e-12, rtol=0)


# --- several references -----------------------------------------------------------------------------------------------

reference_scores = st.lists(
    st.lists(st.sampled_from([-0.75, -0.5, 0.0, 0.25, 0.5]), min_size=1, max_size=4), max_size=6
)


@given(reference_scores, st.integers(1, 3))
@settings(deadline=None, max_examples=60)
def test_best_of_references(segments: list[list[float]], layers: int) -> None:
    """A segment has the maximum over its references and the number of the first that reaches it, in every layer."""
    flat = torch.tensor([score for segment in segments for score in segment])
    scores = torch.stack([flat.roll(layer) if len(flat) else flat for layer in range(layers)])
    counts = torch.tensor([len(segment) for segment in segments], dtype=torch.int64)
    best, index = best_of_references(scores, counts)
    assert best.dtype == scores.dtype
    assert index.dtype == torch.int64
    for layer in range(layers):
        values = iter(scores[layer].tolist())
        groups = [list(islice(values, len(segment))) for segment in segments]
        assert best[layer].tolist() == [max(group) for group in groups]
        assert index[layer].tolist() == [group.index(max(group)) for group in groups]


def test_ragged_references() -> None:
    """References of one segment never compete with those of another, also where all scores are negative."""
    best, index = best_of_references(torch.tensor([[-0.5, 0.2, 0.9, 0.9, -0.1]]), torch.tensor([1, 3, 1]))
    torch.testing.assert_close(best, torch.tensor([[-0.5, 0.9, -0.1]]))
    assert index.tolist() == [[0, 1, 0]]


@pytest.mark.parametrize("weight", [1e-100, 1e100])
def test_extreme_weights(weight: float) -> None:
    """The largest and the smallest weights that a table may hold give the mean, not 0 or NaN."""
    table = IdfTable({4: weight}, default=weight / 2 if weight > 1 else weight * 2)
    other = 0.5 if weight > 1 else 2.0
    segment = [(Side([4, 5], [[0.9, 0.3]], 0), Side([4] * 1000, [[0.9] * 1000], 0))]
    scores = score_segments(to_matches(1, [segment]), BERT, table)
    torch.testing.assert_close(scores.precision, torch.tensor([[(0.9 + 0.3 * other) / (1 + other)]]))
    torch.testing.assert_close(scores.recall, torch.tensor([[0.9]]))


# --- segments, against a loop -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Side:
    """A text in a pair: ids, best cosines [layer][token], and how many tokens were cut off."""

    ids: list[int]
    best: list[list[float]]
    lost: int


Segment = list[tuple[Side, Side]]


@st.composite
def corpora(draw: st.DrawFn) -> tuple[int, list[Segment]]:
    """Draw segments: a candidate, the same for all of its references, matched with each of them."""
    layers, counts = draw(st.integers(1, 2)), draw(st.lists(st.integers(1, 3), max_size=4))
    random = Random(draw(st.integers(0, 2**32)))  # drawing every number would take a hundred times as long

    def side(ids: list[int], lost: int) -> Side:
        return Side(ids, [[random.randint(-64, 64) / 64 for _ in ids] for _ in range(layers)], lost)

    def text() -> tuple[list[int], int]:
        return [random.randint(0, 6) for _ in range(random.randint(0, 4))], random.choice([0, 0, 2, -3])

    segments = []
    for n in counts:
        candidate = text()
        segments.append([(side(*candidate), side(*text())) for _ in range(n)])
    return layers, segments


def to_matches(layers: int, segments: list[Segment]) -> TokenMatches:
    """Return segments as the tensors that the update half leaves."""
    columns: list[Tensor] = []
    for number in (0, 1):
        texts = [pair[number] for segment in segments for pair in segment]
        best = [[value for text in texts for value in text.best[layer]] for layer in range(layers)]
        columns += [
            torch.tensor([token for text in texts for token in text.ids], dtype=torch.int64),
            torch.tensor(best).reshape(layers, -1),
            torch.tensor([len(text.ids) for text in texts], dtype=torch.int64),
            torch.tensor([text.lost for text in texts], dtype=torch.int64),
        ]
    return TokenMatches(*columns, reference_counts=torch.tensor([len(one) for one in segments], dtype=torch.int64))


WINDOW = WindowRule(size=4, front=0, behind=0)  # windows of 4 tokens, 2 from one to the next


@dataclass(frozen=True)
class Expected:
    """What a loop finds for one segment: P, R, F1 and the best reference by layer, and the counts."""

    scores: list[tuple[float, float, float, int]]
    empty: bool
    fell_back: bool
    unknown: tuple[int, int]
    tokens: tuple[int, int]
    truncated: int
    lost: int
    windows: int


def loop(segment: Segment, layers: int, vocabulary: Vocabulary, idf: IdfTable | None, listed: bool) -> Expected:
    """Score one segment by the definition, token by token."""

    def text_ids(side: Side) -> list[int]:
        return [token for token in side.ids if token not in vocabulary.special_ids]

    def weigh(side: Side) -> tuple[list[float], bool]:
        never = vocabulary.unmatchable_ids
        plain = [0.0 if token in vocabulary.unweighted_ids | never else 1.0 for token in side.ids]
        if idf is None:
            return plain, False
        zero = never if listed else vocabulary.unweighted_ids | never
        weights = [0.0 if token in zero else idf.get(token, idf.default) for token in side.ids]
        falls = not any(weights) and any(plain)
        return (plain if falls else weights), falls

    def mean(side: Side, layer: int) -> float:
        weights, _ = weigh(side)
        return sum(w * x for w, x in zip(weights, side.best[layer], strict=True)) / (sum(weights) or 1.0)

    scores = []
    for layer in range(layers):
        rows = []
        for candidate, reference in segment:
            if not text_ids(reference) and any(text_ids(other) for _, other in segment):
                rows.append((-math.inf,) * 3)  # a missing reference
                continue
            empty = not text_ids(candidate) or not text_ids(reference)
            p, r = (0.0, 0.0) if empty else (mean(candidate, layer), mean(reference, layer))
            rows.append((p, r, 2 * p * r / (p + r) if p > 0 and r > 0 else 0.0))
        f = [row[2] for row in rows]
        scores.append((max(row[0] for row in rows), max(row[1] for row in rows), max(f), f.index(max(f))))
    texts = [segment[0][0], *[reference for _, reference in segment]]
    unknown = [sum(token == vocabulary.unknown_id for token in text_ids(text)) for text in texts]
    tokens = [len(text_ids(text)) for text in texts]
    return Expected(
        scores,
        empty=not tokens[0] or not any(tokens[1:]),
        fell_back=any(
            weigh(side)[1] for pair, row in zip(segment, rows, strict=True) if row[0] > -1.5 for side in pair
        ),
        unknown=(unknown[0], sum(unknown[1:])),
        tokens=(tokens[0], sum(tokens[1:])),
        truncated=sum(text.lost != 0 for text in texts),
        lost=sum(abs(text.lost) for text in texts) * (-1 if any(text.lost < 0 for text in texts) else 1),
        windows=sum(len(range(0, len(text.ids) - WINDOW.size + 2, 2)) for text in texts if len(text.ids) > WINDOW.size),
    )


TABLES = {
    "no idf": (None, False),
    "counted": (IdfTable({0: 0.0, 1: 0.0, 2: 0.4, 3: 0.0, 4: 1.5}, default=2.0), False),
    "all alike": (IdfTable({}, default=0.0), False),
    "listed": (IdfTable({0: 0.3, 1: 0.0, 2: 0.4, 3: 0.0, 4: 1.5}, default=2.0), True),
}


@given(corpora(), st.sampled_from(sorted(VOCABULARIES)), st.sampled_from(sorted(TABLES)))
@settings(deadline=None, max_examples=200)
def test_segments_equal_a_loop(corpus: tuple[int, list[Segment]], vocabulary: str, table: str) -> None:
    """Scores, best references and counts of any segments are those of the loop."""
    words, (idf, listed) = VOCABULARIES[vocabulary], TABLES[table]
    layers, segments = corpus
    found = score_segments(to_matches(layers, segments), words, idf, listed_specials=listed, window=WINDOW)
    expected = [loop(segment, layers, words, idf, listed) for segment in segments]
    for column, name in enumerate(("precision", "recall", "f1")):
        wanted = [[one.scores[layer][column] for one in expected] for layer in range(layers)]
        score = getattr(found, name)
        assert score.dtype == torch.float32
        torch.testing.assert_close(score, torch.tensor(wanted).reshape(layers, len(segments)), **TOLERANCE)
    for layer in range(layers):
        for number, segment in enumerate(segments):
            # Two references whose F1 differ by less than float64 resolves may come in either order.
            best = int(found.best_reference[layer, number])
            if best != expected[number].scores[layer][3]:
                alone = [loop([pair], 1, words, idf, listed) for pair in by_layer(segment, layer)]
                assert alone[best].scores[0][2] == pytest.approx(expected[number].scores[layer][2], abs=1e-12)
    for name in ("empty", "fell_back", "truncated", "lost", "windows"):
        assert getattr(found, name).tolist() == [getattr(one, name) for one in expected]
    assert found.unknown.tolist() == [list(one.unknown) for one in expected]
    assert found.tokens.tolist() == [list(one.tokens) for one in expected]


def by_layer(segment: Segment, layer: int) -> Segment:
    """Return a segment with one of its layers."""
    return [
        (Side(c.ids, [c.best[layer]], c.lost), Side(r.ids, [r.best[layer]], r.lost))
        for c, r in segment
    ]  # fmt: skip


# --- segments, case by case -------------------------------------------------------------------------------------------


def pair(candidate: list[int], reference: list[int], best: float = 1.0) -> Segment:
    """Return a segment of one reference in which every token has the same best cosine."""
    return [(Side(candidate, [[best] * len(candidate)], 0), Side(reference, [[best] * len(reference)], 0))]


def test_special_tokens_weigh_nothing() -> None:
    """A special token's cosine does not count, but for the tables that weigh it."""
    segment = [(Side([CLS, 5, SEP], [[0.0, 0.9, 0.0]], 0), Side([CLS, 5, 6, SEP], [[0.0, 0.9, 0.5, 0.0]], 0))]
    scores = score_segments(to_matches(1, [segment]), BERT)
    torch.testing.assert_close(scores.precision, torch.tensor([[0.9]]))
    torch.testing.assert_close(scores.recall, torch.tensor([[0.7]]))
    ones = IdfTable({}, default=1.0)
    torch.testing.assert_close(score_segments(to_matches(1, [segment]), BERT, ones).precision, torch.tensor([[0.9]]))
    listed = score_segments(to_matches(1, [segment]), BERT, ones, listed_specials=True)
    torch.testing.assert_close(listed.precision, torch.tensor([[0.3]]))


def test_empty_texts() -> None:
    """A text of special tokens only scores 0 on either side, whatever its tokens' cosines; one token is not empty."""
    segments = [pair([CLS, SEP], [CLS, 5, SEP]), pair([CLS, 5, SEP], [CLS, SEP]), pair([CLS, SEP], [CLS, SEP]),
                pair([], []), pair([CLS, 5, SEP], [CLS, 5, SEP])]  # fmt: skip
    scores = score_segments(to_matches(1, segments), BERT)
    for column in (scores.precision, scores.recall, scores.f1):
        torch.testing.assert_close(column, torch.tensor([[0.0, 0.0, 0.0, 0.0, 1.0]]))
    assert scores.empty.tolist() == [True, True, True, True, False]
    t5 = VOCABULARIES["end token counts, as in T5"]
    assert score_segments(to_matches(1, [pair([SEP], [SEP])]), t5).f1.tolist() == [[0.0]]
    assert score_segments(to_matches(1, [pair([5, SEP], [5, SEP])]), t5).f1.tolist() == [[1.0]]


def test_one_empty_reference_of_two() -> None:
    """A segment is empty where all of its references are, not where one is."""
    [with_text], [without] = pair([5], [5], 0.5), pair([5], [CLS], 1.0)
    scores = score_segments(to_matches(1, [[without, with_text], [without, without]]), BERT)
    assert scores.empty.tolist() == [False, True]
    assert scores.f1.tolist() == [[0.5, 0.0]]
    assert scores.best_reference.tolist() == [[1, 0]]


def test_maxima_are_taken_column_by_column() -> None:
    """P, R and F1 each have their own best reference; `best_reference` is that of F1."""
    candidate = Side([5], [[0.9]], 0), Side([5], [[0.3]], 0), Side([5], [[0.6]], 0)
    reference = Side([6], [[0.1]], 0), Side([6], [[0.8]], 0), Side([6], [[0.7]], 0)
    scores = score_segments(to_matches(1, [list(zip(candidate, reference, strict=True))]), BERT)
    torch.testing.assert_close(scores.precision, torch.tensor([[0.9]]))
    torch.testing.assert_close(scores.recall, torch.tensor([[0.8]]))
    torch.testing.assert_close(scores.f1, torch.tensor([[2 * 0.6 * 0.7 / 1.3]]))
    assert scores.best_reference.tolist() == [[2]]


def test_best_reference_is_the_first_of_equals() -> None:
    """Of references with the same F1 the first is the best one."""
    [low], [high] = pair([5], [5], 0.25), pair([5], [5], 0.75)
    scores = score_segments(to_matches(1, [[low, high, high], [high, high], [low, low, high]]), BERT)
    assert scores.best_reference.tolist() == [[1, 0, 2]]


def test_a_side_without_idf_falls_back_alone() -> None:
    """Where all idf weights of one side are 0, that side is weighted plainly, the other by idf, and it is marked."""
    table = IdfTable({5: 0.0, 6: 0.0, 7: 3.0, 8: 1.0})
    segment = [(Side([5, 6], [[0.2, 0.6]], 0), Side([5, 7, 8], [[0.0, 0.4, 0.8]], 0))]
    scores = score_segments(to_matches(1, [segment, pair([7], [7])]), BERT, table)
    torch.testing.assert_close(scores.precision, torch.tensor([[0.4, 1.0]]))
    torch.testing.assert_close(scores.recall, torch.tensor([[0.5, 1.0]]))
    assert scores.fell_back.tolist() == [True, False]


def test_unmatchable_tokens_weigh_nothing_in_any_table() -> None:
    """Tokens taken out of the matching have no cosine, so no table can give them weight."""
    vocabulary = VOCABULARIES["no special tokens matched"]
    segment = [(Side([CLS, 5, SEP], [[0.0, 0.9, 0.0]], 0), Side([CLS, 5, SEP], [[0.0, 0.9, 0.0]], 0))]
    scores = score_segments(to_matches(1, [segment]), vocabulary, IdfTable({}, default=1.0), listed_specials=True)
    torch.testing.assert_close(scores.f1, torch.tensor([[0.9]]))


def test_scoring_edits_nothing() -> None:
    """The matches are the same after scoring."""
    matches = to_matches(1, [pair([CLS, 5, SEP], [CLS, SEP]), pair([5], [6], -0.5)])
    before = {name: getattr(matches, name).clone() for name in TokenMatches.__dataclass_fields__}
    score_segments(matches, BERT, IdfTable({}, default=0.0))
    assert all(torch.equal(getattr(matches, name), value) for name, value in before.items())


# --- joining ----------------------------------------------------------------------------------------------------------


def assert_same(one: SegmentScores, other: SegmentScores) -> None:
    """Compare all fields bit for bit, with their types and shapes."""
    for name in SegmentScores.__dataclass_fields__:
        mine, others = getattr(one, name), getattr(other, name)
        assert mine.dtype == others.dtype
        assert torch.equal(mine, others), name


@given(corpora(), st.integers(0, 4))
@settings(deadline=None, max_examples=50)
def test_scores_of_parts(corpus: tuple[int, list[Segment]], cut: int) -> None:
    """Scores of parts, joined, are the scores of the whole, and joining with no scores changes nothing."""
    layers, segments = corpus
    whole = score_segments(to_matches(layers, segments), BERT)
    parts = [score_segments(to_matches(layers, part), BERT) for part in (segments[:cut], segments[cut:])]
    assert_same(SegmentScores.concatenate(parts), whole)
    nothing = no_scores(layers)
    assert_same(SegmentScores.concatenate([nothing, whole]), whole)
    assert_same(SegmentScores.concatenate([whole, nothing]), whole)
    assert_same(SegmentScores.concatenate([parts[0], nothing, parts[1]]), whole)


@pytest.mark.parametrize("layers", [1, 3])
def test_no_segments(layers: int) -> None:
    """No segments have no scores, in as many layers as there are, and of the types that scores have."""
    nothing = score_segments(to_matches(layers, []), BERT, IdfTable({}, default=1.0))
    assert_same(no_scores(layers), nothing)
    assert nothing.precision.shape == (layers, 0)
    assert nothing.unknown.shape == (0, 2)
    assert nothing.best_reference.dtype == torch.int64
    assert not math.isnan(float(nothing.f1.sum()))
