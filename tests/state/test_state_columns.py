"""Flat columns, the numbers of samples, waiting texts and kept embeddings: what rooms store the core's results in."""

from typing import Any

import pytest
import torch
from fakes import HashEncoder, LayeredEncoder
from metric_kinds import CORPUS, tokenizer

from bertscore_metric import BERTScorer
from bertscore_metric.core.aggregation import SegmentScores
from bertscore_metric.core.matching import TokenMatches
from bertscore_metric.core.pairs import Segments
from bertscore_metric.state.kept_embeddings import EmbeddingCollector, check_room, segment_embeddings
from bertscore_metric.state.pending_texts import from_bytes, n_segments, to_bytes
from bertscore_metric.state.sample_ids import (
    check_sample_ids,
    matches_in_sample_order,
    parse_sample_ids,
    sample_order,
    scores_in_sample_order,
)
from bertscore_metric.state.state_columns import (
    COUNTS,
    MATCH_COLUMNS,
    SCORE_COLUMNS,
    appended,
    columns_to_matches,
    columns_to_scores,
    joined,
    matches_to_columns,
    scores_to_columns,
)

CANDIDATES, REFERENCES = [c for c, _ in CORPUS], [r for _, r in CORPUS]


def parts(layers: int, **settings: Any) -> tuple[BERTScorer, Any]:
    """Return a scorer, and what its update half says of the corpus."""
    encoder = HashEncoder() if layers == 1 else LayeredEncoder()
    settings = {"max_length": 7, "all_layers": layers > 1, **settings}
    scorer = BERTScorer(encoder=encoder, tokenizer=tokenizer(), **settings)
    return scorer, scorer.match_tokens(scorer.tokenize(CANDIDATES, REFERENCES))


def equal(a: Any, b: Any) -> None:
    """Compare two dataclasses of tensors."""
    for name in type(a).__dataclass_fields__:
        assert torch.equal(getattr(a, name), getattr(b, name)), name


@pytest.mark.parametrize("layers", [1, 3])
def test_matches_survive_columns(layers: int) -> None:
    """Matches become columns of the declared types and come back unchanged, also when parts are joined."""
    _, matches = parts(layers, idf=True)
    assert isinstance(matches, TokenMatches)
    columns = matches_to_columns(matches)
    assert {name: column.dtype for name, column in columns.items()} == MATCH_COLUMNS
    assert {column.ndim for column in columns.values()} == {1}
    equal(columns_to_matches(columns, layers), matches)
    twice = {name: torch.cat([column, column]) for name, column in columns.items()}
    equal(columns_to_matches(twice, layers), TokenMatches.concatenate([matches, matches]))
    assert matches.candidate_lost.any()


@pytest.mark.parametrize("long_text", ["truncate", "windows"])
@pytest.mark.parametrize("layers", [1, 3])
def test_scores_survive_columns(layers: int, long_text: str) -> None:
    """Scores and notes come back unchanged; unknown and all tokens do in sum."""
    scorer, scores = parts(layers, long_text=long_text)
    assert isinstance(scores, SegmentScores)
    columns = scores_to_columns(scores)
    assert {name: column.dtype for name, column in columns.items()} == SCORE_COLUMNS
    back = columns_to_scores({name: torch.cat([c, c]) for name, c in columns.items()}, layers)
    expected = SegmentScores.concatenate([scores, scores])
    for name in SegmentScores.__dataclass_fields__:
        if name in ("unknown", "tokens"):
            assert torch.equal(getattr(back, name).sum(0), getattr(expected, name).sum(0))
        else:
            assert torch.equal(getattr(back, name), getattr(expected, name)), name
    assert scores.empty.any()
    assert (bool(scores.truncated.any()), bool(scores.windows.any())) == (
        long_text == "truncate",
        long_text == "windows",
    )
    assert scorer.layers == layers


def test_lost_tokens_survive_columns() -> None:
    """Tokens lost, and at least lost, are kept."""
    lost = torch.tensor([0, 7, -7, 2**20 - 1, 2**20, -(2**21)])
    row, no = torch.zeros(1, 6), torch.zeros(6, dtype=torch.bool)
    pair, zero = torch.zeros(6, 2, dtype=torch.int64), torch.zeros(6, dtype=torch.int64)
    best = torch.full((1, 6), 2**31 - 1)
    scores = SegmentScores(row, row, row, best, ~no, ~no, pair, pair, (lost != 0).long(), lost, zero)
    found = columns_to_scores(scores_to_columns(scores), 1)
    assert torch.equal(found.lost, lost)
    assert found.truncated.tolist() == [0, 1, 1, 1, 1, 1]
    assert found.windows.tolist() == [0] * 6
    assert torch.equal(found.best_reference, best)
    assert found.empty.all()
    assert found.fell_back.all()


def test_no_columns() -> None:
    """No rows are columns of their type, and come back as no rows."""
    empty = {name: joined([], dtype) for name, dtype in {**SCORE_COLUMNS, **MATCH_COLUMNS}.items()}
    assert {name: column.dtype for name, column in empty.items()} == {**SCORE_COLUMNS, **MATCH_COLUMNS}
    assert columns_to_scores(empty, 3).precision.shape == (3, 0)
    assert len(columns_to_matches(empty, 1)) == 0


def test_small_parts_are_joined() -> None:
    """However many parts come, few tensors are left; large ones are not copied again and none is changed."""
    column: list[torch.Tensor] = []
    seen = []
    for number in range(1000):
        column = appended("ids", column, torch.full((3,), number), most=300)
        seen.append([part.clone() for part in column])
    assert torch.equal(torch.cat(column), torch.arange(1000).repeat_interleave(3))
    assert len(column) <= 3000 / 100
    large = torch.zeros(1000)
    assert appended("ids", [large], torch.zeros(2))[0] is large
    sums: list[torch.Tensor] = []
    for _ in range(5):
        sums = appended(COUNTS, sums, torch.ones(4))
    assert [one.tolist() for one in sums] == [[5] * 4]
    assert COUNTS in SCORE_COLUMNS


def test_sample_order() -> None:
    """The first row of each number is kept, in the order of the numbers, and repeats name what they repeat."""
    keep, repeats, originals = sample_order(torch.tensor([7, 3, 7, -1, 3, 7]))
    assert keep.tolist() == [3, 1, 0]
    assert sorted(zip(repeats.tolist(), originals.tolist(), strict=True)) == [(2, 0), (4, 1), (5, 0)]
    assert [len(part) for part in sample_order(torch.zeros(0, dtype=torch.int64))] == [0, 0, 0]


@pytest.mark.parametrize("idf", [False, True])
def test_rows_in_sample_order(idf: bool) -> None:
    """Rows that come twice and in disorder become the corpus."""
    _, rows = parts(1, idf=idf)
    order = [5, 2, 8, 0, 7, 1, 3, 2, 6, 4, 0]
    ids = torch.tensor(order)
    if idf:
        from bertscore_metric.state.sample_ids import select_matches

        equal(matches_in_sample_order(select_matches(rows, ids), ids, 1e-4), rows)
    else:
        from bertscore_metric.state.sample_ids import select_scores

        back = scores_in_sample_order(select_scores(rows, ids), ids, 1e-4)
        assert torch.equal(back.f1, rows.f1)
        assert torch.equal(back.best_reference, rows.best_reference)


@pytest.mark.parametrize("idf", [False, True])
@pytest.mark.parametrize("other", [1, 3, 5, 8])
def test_one_number_for_two_texts(idf: bool, other: int) -> None:
    """Rows of one number with other scores, tokens or counts of references are refused, and named."""
    _, rows = parts(1, idf=idf)
    ids = torch.arange(9)
    ids[other] = 0
    with pytest.raises(ValueError, match="sample_ids 0 stand for texts with different scores"):
        (matches_in_sample_order if idf else scores_in_sample_order)(rows, ids, 1e-4)


def test_parse_sample_ids() -> None:
    """Integers of any kind are numbers, and nothing else is."""
    import numpy as np

    for values in ([3, 4], np.array([3, 4]), torch.tensor([3, 4], dtype=torch.uint8), range(3, 5)):
        ids = parse_sample_ids(values, 2)
        assert ids.dtype == torch.int64
        assert ids.tolist() == [3, 4]
    assert parse_sample_ids(7, 1).tolist() == [7]
    with pytest.raises(TypeError, match="sample_ids must be integers, one for each of preds"):
        parse_sample_ids(None, 1)
    with pytest.raises(ValueError, match="got 2 for 3"):
        parse_sample_ids([1, 2], 3)
    check_sample_ids(0, 5)
    check_sample_ids(5, 5)
    with pytest.raises(ValueError, match="Only 2 of 5 segments have sample_ids"):
        check_sample_ids(2, 5)


def test_waiting_texts_survive_bytes() -> None:
    """Texts in any script, empty ones and zero bytes come back, with their groups."""
    segments = Segments(["", "Über 你好 😀", "a\x00b"], ["x", "", "\x01", "y"], [1, 2, 1])
    data = to_bytes(segments)
    assert (data.dtype, data.shape) == (torch.uint8, (23 + 7,))
    assert from_bytes(data) == segments
    assert n_segments([data, data]) == 6
    nothing = Segments([], [], [])
    assert from_bytes(to_bytes(nothing)) == nothing
    twice = from_bytes(torch.cat([data, data]))
    assert twice == Segments(segments.candidates * 2, segments.references * 2, segments.reference_counts * 2)


@pytest.mark.parametrize("data", [b"a", b"\xfea", b"\xffa", b"\xff\xfea\xffb", b"\xfea\xfeb\xffc"])
def test_other_bytes_are_no_waiting_texts(data: bytes) -> None:
    """Bytes that are no segments, or a part of them, are refused."""
    with pytest.raises(ValueError, match="no waiting segments"):
        from_bytes(torch.tensor(list(data), dtype=torch.uint8))


@pytest.mark.parametrize("layers", [1, 3])
def test_collected_embeddings(layers: int) -> None:
    """The collector gets every text of every segment, and has a limit."""
    scorer, _ = parts(layers)
    segments = scorer.tokenize(CANDIDATES, REFERENCES)
    collector = EmbeddingCollector(10**6)
    scorer.match_tokens(segments, collector=collector)
    columns = {name: [column] for name, column in collector.columns(segments).items()}
    encoder = scorer.model.encoder
    for index, references in enumerate(REFERENCES):
        kept = segment_embeddings(columns, index, layers)
        assert len(kept.references) == len(references)
        for text in (kept.candidate, *kept.references):
            table = encoder.table[text.ids]  # type: ignore[attr-defined]
            first = text.embeddings[0]
            torch.testing.assert_close(first, table / table.norm(dim=-1, keepdim=True))
            assert text.embeddings.shape == (layers, len(text.ids), 16)
    used = sum(column.nbytes for column in columns["kept_vectors"])
    assert collector.n_bytes == used
    with pytest.raises(ValueError, match=rf"its limit is {used - 1}"):
        scorer.match_tokens(segments, collector=EmbeddingCollector(used - 1))
    check_room(used, used)
