"""The stream alone, without any room: every kind of settings, every split, merging, storing, failing."""

from typing import Any

import pytest
import torch
from fakes import WordCount
from hypothesis import given, settings
from hypothesis import strategies as st
from metric_kinds import ALL, KINDS, Kind

from bertscore_metric import BERTScorer, BERTScoreResult, parse_segments
from bertscore_metric.state.stream import FULL_BYTES, Stream

STREAMED = {name: kind for name, kind in KINDS.items() if "keep_embeddings" not in kind.settings}
kinds = pytest.mark.parametrize("kind", STREAMED.values(), ids=STREAMED.keys())


def scorer_of(kind: Kind) -> BERTScorer:
    """Return the core's scorer with the settings of a kind."""
    return kind.metric()._shared.scorer


def add(stream: Stream, kind: Kind, numbers: tuple[int, ...], **how: Any) -> None:
    """Add the segments with these numbers."""
    segments = [kind.corpus[number] for number in numbers]
    ids = torch.tensor([10 * number for number in numbers]) if kind.numbered else None
    stream.add(parse_segments([c for c, _ in segments], [r for _, r in segments]), ids, **how)


def same(result: BERTScoreResult, kind: Kind, numbers: tuple[int, ...] = ALL) -> None:
    """Compare a result with what the core says in one call."""
    expected = kind.expected(numbers)
    for name in ("precision", "recall", "f1"):
        torch.testing.assert_close(getattr(result, name), getattr(expected, name), rtol=0, atol=1e-6)
    assert torch.equal(result.best_reference, expected.best_reference)
    assert torch.equal(result.empty, expected.empty)
    assert (result.n_truncated, result.n_windows) == (expected.n_truncated, expected.n_windows)
    assert result.unk_share == expected.unk_share


@kinds
@pytest.mark.filterwarnings("ignore::bertscore_metric.warnings.BERTScoreWarning")
def test_any_split_merge_and_store(kind: Kind) -> None:
    """Adding one by one or at once, waiting or not, merging two streams and storing them gives what one call gives."""
    scorer = scorer_of(kind)
    together = Stream(scorer)
    add(together, kind, ALL)
    single = Stream(scorer)
    for number in ALL:
        add(single, kind, (number,), wait=number % 2 == 0)
    first, second = Stream(scorer), Stream(scorer)
    add(first, kind, ALL[:4])
    add(second, kind, ALL[4:])
    stored = Stream.from_columns(scorer, first.columns())
    stored.merge(second)
    empty = Stream(scorer)
    empty.merge(stored)
    empty.merge(Stream(scorer))
    for stream in (together, single, stored, empty):
        assert len(stream) == len(ALL)
        same(stream.report(), kind)
        same(stream.report(), kind)
    assert len(second) == len(ALL) - 4


@kinds
@pytest.mark.filterwarnings("ignore::bertscore_metric.warnings.BERTScoreWarning")
def test_nothing_added(kind: Kind) -> None:
    """A stream of nothing has the columns of its scorer and reports no segments."""
    scorer = scorer_of(kind)
    stream = Stream(scorer)
    assert {name: stream.columns()[name].dtype for name in scorer.columns} == dict(scorer.columns)
    assert stream.report().n_segments == 0
    assert Stream.from_columns(scorer, stream.columns()).report().n_segments == 0


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 5), st.booleans()), max_size=12))
def test_order_and_count(steps: list[tuple[int, bool]]) -> None:
    """Segments come out in the order they went in, whichever of them waited."""
    stream, texts = Stream(WordCount()), []
    for n, wait in steps:
        part = ["w " * (len(texts) + k) for k in range(n)]
        texts += part
        stream.add(parse_segments(part, part), wait=wait)
        assert len(stream) == len(texts)
    assert stream.report() == ([len(text.split()) for text in texts], [])


def test_small_updates_fill_batches() -> None:
    """Nothing is scored until a batch is full, and then all that waits at once."""
    scorer = WordCount()
    stream = Stream(scorer)
    text = "word " * 200  # 1,000 bytes, twice a segment
    for _ in range(2 * FULL_BYTES // 2000):
        stream.add(parse_segments([text], [text]))
    assert scorer.calls == [-(-FULL_BYTES // 2002)]
    stream.drain()
    assert sum(scorer.calls) == len(stream)


def test_a_failure_changes_nothing() -> None:
    """A call that fails leaves the stream as it was, and says which earlier segments are concerned."""
    scorer = WordCount()
    stream = Stream(scorer)
    stream.add(parse_segments(["a"], ["a"]))
    digest = stream.digest
    scorer.fails = True
    with pytest.raises(RuntimeError, match="no words") as caught:
        stream.add(parse_segments(["b c"], ["b"]), wait=False)
    assert "Segments 0 to 0 of earlier updates" in caught.value.__notes__[0]
    with pytest.raises(RuntimeError, match="no words"):
        stream.report()
    assert (len(stream), torch.equal(stream.digest, digest)) == (1, True)
    scorer.fails = False
    assert stream.report() == ([1], [])


def test_numbers_for_all_or_none() -> None:
    """Numbers for some segments only are refused, in one stream and between two."""
    stream, other = Stream(WordCount()), Stream(WordCount())
    stream.add(parse_segments(["a"], ["a"]), torch.tensor([3]))
    with pytest.raises(ValueError, match="Only 1 of 2 segments have sample_ids"):
        stream.add(parse_segments(["b"], ["b"]))
    other.add(parse_segments(["b"], ["b"]))
    with pytest.raises(ValueError, match="Only 1 of 2 segments have sample_ids"):
        stream.merge(other)
    assert stream.report() == ([1], [3])
    stream.reset()
    assert (len(stream), stream.report()) == (0, ([], []))


def test_digest() -> None:
    """The digest stands for texts, numbers and order, and scoring what waits leaves it."""
    one, other = Stream(WordCount()), Stream(WordCount())
    assert torch.equal(one.digest, other.digest)
    for stream, wait in ((one, True), (other, False)):
        stream.add(parse_segments(["a", "b"], ["c", "d"]), wait=wait)
    assert torch.equal(one.digest, other.digest)
    one.add(parse_segments(["x"], ["y"]))
    other.add(parse_segments(["xy"], [""]))
    assert not torch.equal(one.digest, other.digest)
