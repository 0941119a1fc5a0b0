"""One contract for the states of the metric, run for every kind of settings, in one process and on two ranks."""

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
import ranks
import torch
from conftest import TOLERANCE
from metric_kinds import ALL, KINDS, Kind, scores, tokenizer, wanted
from torch import Tensor

pytestmark = pytest.mark.filterwarnings("ignore::bertscore_metric.BERTScoreWarning")


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> Kind:
    """Return every kind of settings in turn."""
    return KINDS[request.param]


def same(got: Any, expected: Tensor) -> None:
    """Compare within the project's tolerance."""
    torch.testing.assert_close(
        got if isinstance(got, Tensor) else scores(got), expected, atol=TOLERANCE, rtol=0, equal_nan=True
    )


@pytest.mark.parametrize("step", [1, 2, 4, 100])
def test_any_split_is_the_same(kind: Kind, step: int) -> None:
    """Any split into updates gives what the core gives in one call, and so does calling `compute` twice."""
    metric = kind.metric()
    kind.update(metric, ALL, step=step)
    same(metric.compute(), wanted(kind))
    same(metric.compute(), wanted(kind))
    assert torch.equal(metric.best_reference, kind.expected().best_reference)
    assert metric._result.n_windows == kind.expected().n_windows
    assert (metric._result.n_windows > 0) == (kind.settings.get("long_text") == "windows")


def test_compute_in_between(kind: Kind) -> None:
    """`compute` between updates changes nothing, and its result is not kept over them."""
    metric = kind.metric()
    kind.update(metric, ALL[:4])
    same(metric.compute(), wanted(kind, ALL[:4]))
    kind.update(metric, ALL[4:])
    same(metric.compute(), wanted(kind))


def test_forward(kind: Kind) -> None:
    """`forward` gives the batch's own value and adds the batch, also between updates."""
    metric = kind.metric()
    kind.update(metric, ALL[:2])
    for begin in (2, 5):
        same(metric(*kind.batch(ALL[begin : begin + 3])), wanted(kind, ALL[begin : begin + 3]))
    kind.update(metric, ALL[8:])
    same(metric.compute(), wanted(kind))
    assert metric.update_count == 4


@pytest.mark.parametrize("computed", [False, True], ids=["before compute", "after compute"])
@pytest.mark.parametrize("as_dict", [False, True], ids=["metric", "dict"])
def test_merge(kind: Kind, computed: bool, as_dict: bool) -> None:
    """Own rows come first, then the other's, whether they wait or are encoded, and whatever was computed before."""
    first, second = kind.metric(), kind.metric()
    kind.update(first, ALL[:4])
    kind.update(second, ALL[4:])
    if computed:
        first.compute()
        second.compute()
    first.merge_state(second.metric_state if as_dict else second)
    same(first.compute(), wanted(kind))
    assert first._result.n_windows == kind.expected().n_windows
    same(second.compute(), wanted(kind, ALL[4:]))
    assert first.update_count == 2


def test_merge_with_nothing(kind: Kind) -> None:
    """Merging with a metric without rows, either way round, changes nothing."""
    metric, empty = kind.metric(), kind.metric()
    kind.update(metric, ALL)
    metric.merge_state(kind.metric())
    same(metric.compute(), wanted(kind))
    assert metric.update_count == 1
    empty.merge_state(metric)
    same(empty.compute(), wanted(kind))


def test_merge_is_associative(kind: Kind) -> None:
    """(a + b) + c equals a + (b + c)."""
    parts = [ALL[:2], ALL[2:5], ALL[5:]]
    left = [kind.metric() for _ in parts]
    right = [kind.metric() for _ in parts]
    for metrics in (left, right):
        for metric, part in zip(metrics, parts, strict=True):
            kind.update(metric, part)
    left[0].merge_state(left[1])
    left[0].merge_state(left[2])
    right[1].merge_state(right[2])
    right[0].merge_state(right[1])
    same(left[0].compute(), wanted(kind))
    same(right[0].compute(), wanted(kind))


def test_reset(kind: Kind) -> None:
    """After `reset` nothing is left of what was there, waiting or computed."""
    metric = kind.metric()
    for _ in range(2):
        kind.update(metric, ALL[4:])
        same(metric.compute(), wanted(kind, ALL[4:]))
        kind.update(metric, ALL[:4])
        metric.reset()
        assert not metric.update_called
    kind.update(metric, ALL)
    same(metric.compute(), wanted(kind))


def test_pickle(kind: Kind) -> None:
    """Pickled before and after use, a metric goes on where it was."""
    metric = pickle.loads(pickle.dumps(kind.metric()))
    kind.update(metric, ALL[:4])
    metric = pickle.loads(pickle.dumps(metric))
    assert metric.update_count == 1
    kind.update(metric, ALL[4:])
    same(metric.compute(), wanted(kind))
    again = pickle.loads(pickle.dumps(metric))
    same(again.compute(), wanted(kind))
    assert again._result.n_windows == kind.expected().n_windows


@pytest.mark.parametrize("make", [copy.deepcopy, lambda metric: metric.clone()], ids=["deepcopy", "clone"])
def test_copies(kind: Kind, make: Any) -> None:
    """Copies share the encoder and go their own ways."""
    metric = kind.metric()
    kind.update(metric, ALL[:4])
    other = make(metric)
    kind.update(other, ALL[4:])
    same(metric.compute(), wanted(kind, ALL[:4]))
    same(other.compute(), wanted(kind))
    assert other._shared is metric._shared


def test_state_dict(kind: Kind, tmp_path: Path) -> None:
    """A checkpoint holds nothing of the metric, or with `persistent(True)` all its rows, waiting ones included."""
    metric = kind.metric()
    kind.update(metric, ALL)
    assert metric.state_dict() == {}
    metric.persistent(True)
    torch.save(metric.state_dict(), tmp_path / "state.pt")
    other = kind.metric()
    kind.update(other, ALL[:3])
    other.compute()
    other.load_state_dict(torch.load(tmp_path / "state.pt"))
    same(other.compute(), wanted(kind))
    assert other.update_count == 1
    same(metric.compute(), wanted(kind))


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Run everything that is tested on two ranks, once."""
    return ranks.run("every kind", tmp_path_factory.mktemp("ranks"))


@pytest.mark.parametrize(
    ("split", "dtype"), [*((split, str(torch.float32)) for split in ranks.SPLITS), ("empty rank", str(torch.bfloat16))]
)
@pytest.mark.parametrize("name", list(KINDS))
def test_two_ranks(two_ranks: Any, name: str, split: str, dtype: str) -> None:
    """Two ranks with even, uneven or no rows say what one process says, each embedding only its own rows."""
    kind = KINDS[name]
    for rank in (0, 1):
        got = two_ranks[rank][name, split, dtype]
        same(got["scores"], wanted(kind))
        same(got["again"], wanted(kind))
        assert torch.equal(got["best"], kind.expected().best_reference)
        assert got["rows"] == len(ranks.SPLITS[split][rank])
        assert got["windows"] == kind.expected().n_windows
        assert not got["synced"]
        if kind.encoder is not None:
            segments = [kind.corpus[number] for number in ranks.SPLITS[split][rank]]
            assert got["texts"] <= sum(1 + len(r) for _, r in segments)


@pytest.mark.parametrize(
    "name", ["numbered", "corpus idf, numbered", "all layers, corpus idf", "long texts in windows"]
)
def test_sampler_duplicates(two_ranks: Any, name: str) -> None:
    """Rows come in the order of their samples, and what the sampler repeated counts once, also in df and N."""
    kind = KINDS[name]
    for rank in (0, 1):
        value, n_windows = two_ranks[rank]["more"]["duplicates"][name]
        same(value, wanted(kind, ALL[:7]))
        assert n_windows == kind.expected(ALL[:7]).n_windows


def test_conflicting_numbers_on_two_ranks(two_ranks: Any) -> None:
    """One number for two texts is an error on every rank, after which each has its own rows and can go on."""
    for rank in (0, 1):
        error, rows, synced, after = two_ranks[rank]["more"]["conflict"]
        assert "ValueError: sample_ids 3 stand for texts with different scores" in error
        assert (rows, synced) == (1, False)
        assert after.shape == (3, 2)
        assert "ValueError: Only 1 of 2 segments have sample_ids" in two_ranks[rank]["more"]["numbers on one rank"]


def test_ranks_of_other_settings(two_ranks: Any) -> None:
    """Ranks with different settings get an error in words on both sides instead of a hang or a number."""
    for rank in (0, 1):
        error, synced, rows = two_ranks[rank]["more"]["other settings"]
        assert "ValueError: Metrics of different settings cannot be put together" in error
        assert (synced, rows) == (False, 1)


def test_sync_by_hand_and_checkpoint(two_ranks: Any) -> None:
    """`sync` holds all rows until `unsync`; only then is a checkpoint whole, and one rank takes it on loading."""
    kind = KINDS["corpus idf"]
    for rank in (0, 1):
        update, synced, refused, loaded, local = two_ranks[rank]["more"]["by hand"]
        assert "The metric is synced; call unsync() before update" in update
        same(synced, wanted(kind))
        assert "TorchMetricsUserError: The states are persistent" in refused
        same(loaded, wanted(kind))
        same(local, wanted(kind, ranks.SPLITS["uneven"][rank]))


def test_forward_on_two_ranks(two_ranks: Any) -> None:
    """`forward` gives the rank's batch, or with `dist_sync_on_step` that of all ranks, embedding each text once."""
    kind = KINDS["corpus idf"]
    order = [0, 1, 4, 5, 2, 3, 6, 7]
    for rank in (0, 1):
        for sync, (steps, value, count, texts) in enumerate(two_ranks[rank]["more"]["forward"]):
            for step, got in enumerate(steps):
                own = [4 * step + 2 * rank, 4 * step + 2 * rank + 1]
                numbers = [4 * step, 4 * step + 1, 4 * step + 2, 4 * step + 3] if sync else own
                same(got, wanted(kind, numbers))
            same(value, wanted(kind, order))
            assert count == 2
            segments = [kind.corpus[number] for number in (order[:4] if rank == 0 else order[4:])]
            assert texts <= sum(1 + len(r) for _, r in segments)


def test_process_group(two_ranks: Any) -> None:
    """A process group of one rank keeps to itself, in a copy too."""
    kind = KINDS["plain"]
    for rank in (0, 1):
        expected = wanted(kind, ranks.SPLITS["even"][rank])
        for got in two_ranks[rank]["more"]["subgroup"]:
            same(got, expected)


def test_kept_embeddings_of_another_rank(two_ranks: Any) -> None:
    """After `gather_embeddings` every rank has the embeddings of every segment."""
    kind = KINDS["embeddings kept"]
    metric = kind.metric()
    kind.update(metric, ALL)
    kept = metric.kept_embeddings(6)
    for rank in (0, 1):
        got = two_ranks[rank]["more"]["embeddings"]
        for (ids, rows), text in zip(got, (kept.candidate, *kept.references), strict=True):
            assert torch.equal(ids, text.ids)
            assert torch.equal(rows, text.embeddings)


def test_kept_embeddings_while_synced(two_ranks: Any) -> None:
    """The embeddings of one rank are neither saved with the scores of all, nor taken for theirs."""
    for rank in (0, 1):
        saved, shown = two_ranks[rank]["more"]["embeddings while synced"]
        assert "TorchMetricsUserError: The rows of all ranks are here, but kept_ids, kept_lengths" in saved
        assert "TorchMetricsUserError: The metric is synced; call unsync() before kept_embeddings" in shown


def test_checkpoints_of_ranks_that_never_sync(two_ranks: Any) -> None:
    """With `sync_on_compute=False` each rank saves and loads its own rows, or loads those of all."""
    kind = KINDS["plain"]
    for rank in (0, 1):
        own, ids, everything = two_ranks[rank]["more"]["checkpoints of ranks apart"]
        numbers = ranks.SPLITS["uneven"][rank]
        same(own, wanted(kind, numbers))
        assert ids.tolist() == tokenizer()(kind.corpus[numbers[0]][0]).input_ids
        same(everything, wanted(kind))


def test_collection_on_two_ranks(two_ranks: Any) -> None:
    """The collection of scalars agrees on both ranks."""
    for rank in (0, 1):
        values, _ = two_ranks[rank]["more"]["collection"]
        same(torch.stack([values[f"val_{name}"] for name in ("precision", "recall", "f1")]), wanted(KINDS["mean"]))


def test_no_rank_has_rows(two_ranks: Any) -> None:
    """Without any rows on any rank the result is empty, not a crash."""
    assert two_ranks[0]["more"]["nothing"] == two_ranks[1]["more"]["nothing"] == (3, 0)


def test_a_rank_that_dies(two_ranks: Any) -> None:
    """A rank that dies gives the others torch's error, not a number, and their rows are still there."""
    error, synced, rows = two_ranks[0]["death"]
    assert error.startswith(("RuntimeError", "DistBackendError", "DistNetworkError"))
    assert (synced, rows) == (False, 1)


def test_result_on_ranks(two_ranks: Any) -> None:
    """`result()` is that of all ranks, with repeated rows counted once, and its interval is the same everywhere."""
    first, second = (two_ranks[rank]["more"]["duplicates"]["interval"] for rank in range(2))
    assert first == second
    low, high, n_segments = first
    assert low < high
    assert n_segments == 7
