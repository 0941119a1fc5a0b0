"""The scorer that metrics share: copies, devices, pickling, release."""

import copy
import pickle

import pytest
import torch
from conftest import model_path
from fakes import HashEncoder
from metric_kinds import tokenizer

from bertscore_metric import ScoreConfig
from bertscore_metric.core.pairs import Segments
from bertscore_metric.scorer_handle import ScorerHandle, SharedBatchCache

SEGMENTS = Segments(["the cat", "a dog"], ["a cat", "a dog"], [1, 1])
NONE = torch.zeros(0, dtype=torch.int64)


def named(**settings: object) -> ScorerHandle:
    """Return a shared scorer with the tiny BERT."""
    config = ScoreConfig(model_name_or_path=model_path("bert"), num_layers=2, **settings)  # type: ignore[arg-type]
    return ScorerHandle(config, store_bytes=10**6, device="cpu")


@pytest.mark.parametrize("idf", [False, True])
def test_rows_are_reported(idf: bool) -> None:
    """What `rows` returns has the declared columns, and `report` scores it as the scorer does."""
    shared = named(idf=idf)
    rows = shared.match(SEGMENTS, user=0)
    assert {name: column.dtype for name, column in rows.items()} == shared.columns
    expected = shared.scorer.score(SEGMENTS.candidates, SEGMENTS.references)
    assert torch.equal(shared.report(rows, NONE).f1, expected.f1)
    assert torch.equal(shared.report(rows, torch.tensor([1, 0])).f1, expected.f1.flip(0))
    assert shared.check_columns({name: [column, column] for name, column in rows.items()}) == 4


def test_copies_are_the_same_object() -> None:
    """Deep copies share, and pickled ones load again."""
    shared = named()
    assert copy.deepcopy(shared) is shared
    again = pickle.loads(pickle.dumps(shared))
    assert again is not shared
    assert again.signature == shared.signature
    assert torch.equal(again.match(SEGMENTS, user=0)["f1"], shared.match(SEGMENTS, user=0)["f1"])
    assert again.store.max_bytes == 10**6


def test_users_that_move_together_share_again() -> None:
    """Moving to a device twice gives one scorer there, and leaves the first where it was."""
    shared = named()
    moved = shared.to_device(torch.device("meta"))
    assert shared.to_device(torch.device("meta")) is moved
    assert moved.store is not shared.store
    assert shared.scorer.device.type == "cpu"


def test_an_own_encoder_stays_where_it_is() -> None:
    """A custom encoder is not copied to another device."""
    fake = HashEncoder()
    shared = ScorerHandle(ScoreConfig(), store_bytes=0, device=None, encoder=fake, tokenizer=tokenizer())
    assert shared.to_device(torch.device("meta")).scorer.model.encoder is fake


def test_the_latest_result_is_for_others() -> None:
    """A user's result is given once to every other user that asks for the same, never to itself."""
    latest = SharedBatchCache()
    latest.set("key", 1, {})
    assert latest.get("key", 1) is None
    assert latest.get("other", 2) is None
    assert latest.get("key", 2) == {}
    assert latest.get("key", 2) is None
    assert latest.get("key", 3) == {}
