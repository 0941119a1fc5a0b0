"""What ranks say to each other, over real processes."""

from typing import Any

import pytest
import ranks
import torch


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Return what two ranks saw of every exchange."""
    return ranks.run("exchange", tmp_path_factory.mktemp("exchange"))


def test_every_rank_has_all_columns(said: list[dict[str, Any]]) -> None:
    """Columns of any dtype and length, empty ones too, come in the order of the ranks."""
    for rank in said:
        first, second = rank["columns"]
        assert torch.equal(first["ids"], torch.tensor([1, 2, 3]))
        assert torch.equal(first["scores"], torch.tensor([0.5]))
        assert second["ids"].tolist() == []
        assert torch.equal(second["scores"], torch.tensor([0.25, 0.75]))
        assert torch.equal(second["flags"], torch.tensor([1], dtype=torch.uint8))
        assert {first[name].dtype for name in first} == {torch.int64, torch.float32, torch.uint8}


def test_a_failure_is_told_to_all(said: list[dict[str, Any]]) -> None:
    """The rank that failed raises its own error, the other one a message that holds it."""
    assert said[1]["failure"] == "KeyError: 'lost'"
    assert said[0]["failure"] == ("RuntimeError: Rank 1 failed, and with it the scores of all ranks: KeyError('lost')")


@pytest.mark.parametrize("what", ["rows", "columns"])
def test_what_must_be_the_same(said: list[dict[str, Any]], what: str) -> None:
    """Other rows or other columns are an error on every rank."""
    assert all(f"different {what}" in rank[f"other {what}"] for rank in said)


def test_a_stream_over_ranks(said: list[dict[str, Any]]) -> None:
    """Streams of two ranks, one of them empty, make the stream of all."""
    assert [rank["stream"] for rank in said] == [([1, 2, 3, 1], [])] * 2


def test_nothing_is_pickled(said: list[dict[str, Any]]) -> None:
    """The processes ran with a pickler of torch.distributed that refuses."""
    assert [rank["pickled"] for rank in said] == [0, 0]
