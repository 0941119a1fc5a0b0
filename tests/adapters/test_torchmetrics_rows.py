"""Rows of the torchmetrics metric: counted once whoever shares them, refused where they do not fit."""

import copy
import gc
import pickle
import threading
import weakref
from typing import Any

import numpy as np
import pytest
import torch
from conftest import TOLERANCE, model_path
from fakes import HashEncoder, LayeredEncoder, SmallMemory
from metric_kinds import KINDS, tokenizer
from torch import Tensor
from torchmetrics import MetricCollection
from torchmetrics.utilities.exceptions import TorchMetricsUserError

from bertscore_metric import BERTScore, BERTScorer, TokenBatch
from bertscore_metric.adapters.torchmetrics import BERTScoreValue, bertscore_collection
from bertscore_metric.state import state_columns, stream

PREDS, TARGET = ["the cat sat", "a dog", "I like lemons."], ["a cat sat", "the dog", "I love lemons."]


def own(fake: Any = None, **settings: Any) -> BERTScore:
    """Return a metric around a fake encoder that gives vectors."""
    return BERTScore(encoder=fake or HashEncoder(), tokenizer=tokenizer(), **{"reduction": "none", **settings})


def expected(*numbers: int) -> list[float]:
    """Return F1 of the pairs with these numbers."""
    scorer = BERTScorer(encoder=HashEncoder(), tokenizer=tokenizer())
    return scorer.score([PREDS[n] for n in numbers], [TARGET[n] for n in numbers]).f1.tolist()


def feed(metric: Any, *numbers: int) -> Any:
    """Update a metric with the pairs of these numbers."""
    return metric.update([PREDS[n] for n in numbers], [TARGET[n] for n in numbers])


def f1(metric: BERTScore) -> list[float]:
    """Return F1 of every segment."""
    return metric.compute()["f1"].tolist()  # type: ignore[no-any-return]


# Lists that several hold.


def test_a_member_updated_on_its_own() -> None:
    """A member of a group that gets a row of its own leaves the rows of the others alone."""
    collection = MetricCollection({"a": own(), "b": own()})
    feed(collection, 0)
    feed(collection.b, 1)
    assert f1(collection.b) == pytest.approx(expected(0, 1), abs=TOLERANCE)
    assert f1(collection.a) == pytest.approx(expected(0), abs=TOLERANCE)
    assert collection.compute()["a_f1"].tolist() == pytest.approx(expected(0), abs=TOLERANCE)


def test_a_scalar_updated_on_its_own() -> None:
    """The same holds in the collection of scalars: a mean over one segment beside one over two."""
    collection = bertscore_collection(encoder=HashEncoder(), tokenizer=tokenizer())
    feed(collection, 0)
    feed(collection.f1, 1)
    assert collection.f1.compute().item() == pytest.approx(sum(expected(0, 1)) / 2, abs=TOLERANCE)
    for metric in (collection.f1, collection.precision, collection.recall):
        metric.drain()
    assert [len(m.column("f1")) for m in (collection.f1, collection.precision, collection.recall)] == [2, 1, 1]


@pytest.mark.parametrize("more", ["update", "forward", "merge"])
def test_a_snapshot_is_not_changed(more: str) -> None:
    """A `metric_state` taken while texts wait holds what the metric held then, whatever happens to it later."""
    metric, other = own(), own()
    feed(metric, 0)
    state = metric.metric_state
    if more == "merge":
        metric.merge_state(copy.deepcopy(metric))
    else:
        getattr(metric, more)(PREDS[1:2], TARGET[1:2])
    metric.compute()
    other.merge_state(state)
    assert f1(other) == pytest.approx(expected(0), abs=TOLERANCE)


def test_shallow_copy() -> None:
    """`copy.copy` and its original go their own ways."""
    metric = own()
    feed(metric, 0)
    other = copy.copy(metric)
    feed(metric, 1)
    feed(other, 2)
    assert f1(metric) == pytest.approx(expected(0, 1), abs=TOLERANCE)
    assert f1(other) == pytest.approx(expected(0, 2), abs=TOLERANCE)


def test_used_metrics_with_other_rows_are_no_group() -> None:
    """Two metrics with other rows never become one group, though one has encoded its rows and the other's wait."""
    encoded, waits = own(), own()
    feed(encoded, 0)
    encoded.compute()
    feed(waits, 1)
    collection = MetricCollection({"encoded": encoded, "waits": waits})
    collection.update([], [])
    value = collection.compute()
    assert len(collection.compute_groups) == 2
    assert value["encoded_f1"].tolist() == pytest.approx(expected(0), abs=TOLERANCE)
    assert value["waits_f1"].tolist() == pytest.approx(expected(1), abs=TOLERANCE)


@pytest.mark.parametrize("keep", [False, True])
def test_a_collection_embeds_a_large_batch_once(keep: bool) -> None:
    """`forward` of the collection embeds a text once for its members, in large batches and with embeddings kept."""
    n = 1600
    fake = HashEncoder()
    collection = bertscore_collection(
        encoder=fake, tokenizer=tokenizer(), embedding_store_bytes=0, keep_embeddings=keep
    )
    preds = [f"{number} {'the cat sat on the red table ' * 3}" for number in range(n)]
    target = [f"{number} {'a dog sat on the red table ' * 3}" for number in range(n)]
    assert sum(map(len, preds + target)) > 2 * stream.FULL_BYTES
    collection(preds, target)
    collection.compute()
    assert fake.n_texts == 2 * n


def test_the_limit_of_kept_embeddings_holds_for_every_member() -> None:
    """A member with a lower limit refuses embeddings that another one has just made."""
    first = own(keep_embeddings=True)
    second = copy.deepcopy(first)
    second.kept_embeddings_bytes = 100
    feed(first, 0)
    with pytest.raises(ValueError, match="its limit is 100"):
        feed(second, 0)


def test_threads_share_a_metric() -> None:
    """Steps, updates and computations of several threads lose no segment, and no old value stays."""
    metric = own()
    feed(metric, 0)
    work = [lambda: metric(PREDS[:1], TARGET[:1]), lambda: feed(metric, 1), metric.compute] * 2
    errors: list[Exception] = []

    def run(job: Any) -> None:
        try:
            for _ in range(15):
                job()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(job,)) for job in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert (len(f1(metric)), metric.update_count) == (61, 61)


# Work does not grow.


@pytest.mark.parametrize("numbered", [False, True])
def test_waiting_texts_are_few_tensors(numbered: bool) -> None:
    """However many small updates wait, they are a few tensors, so that an update costs the same first and last."""
    metric = own()
    for number in range(1000):
        metric.update(["a cat"], ["a dog"], *([[number]] if numbered else []))
    assert int(metric.n_segments) == 1000
    assert 1 <= len(metric.pending_texts) <= 16
    assert len(metric.sample_ids) <= 16


def test_kept_embeddings_are_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """An update, and a look at one segment, copy no more of the kept embeddings than they need."""
    metric = own(keep_embeddings=True)
    for _ in range(30):
        metric.update(["the cat " * 200] * 10, ["a dog " * 200] * 10)
    copied = []
    cat = torch.cat

    def counted(parts: Any, *args: Any, **kwargs: Any) -> Tensor:
        out = cat(parts, *args, **kwargs)
        copied.append(out.nbytes)
        return out

    monkeypatch.setattr(torch, "cat", counted)
    feed(metric, 0)
    kept = metric.kept_embeddings(300)
    assert max(copied) < metric._kept_bytes(metric.stream()) / 10
    plain = own(keep_embeddings=True)
    feed(plain, 0)
    assert torch.equal(kept.candidate.embeddings, plain.kept_embeddings(0).candidate.embeddings)
    assert torch.equal(kept.references[0].ids, plain.kept_embeddings(0).references[0].ids)


# Encoders that refuse.


class Refusing(HashEncoder):
    """Refuses texts that hold a token."""

    def __init__(self) -> None:
        super().__init__()
        self.refused = tokenizer().convert_tokens_to_ids("dog")
        self.error: Exception = ValueError("no dogs")

    def embed(self, tokens: TokenBatch) -> Tensor:
        """Return the vectors, or refuse."""
        if bool((tokens.ids == self.refused).any()):
            raise self.error
        return super().embed(tokens)


@pytest.mark.parametrize("error", [ValueError("no dogs"), torch.OutOfMemoryError("CUDA out of memory")])
def test_a_refused_text_that_waits_is_named(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever meets the error of texts that wait is told which segments those are, and the way out."""
    fake = Refusing()
    fake.error = error
    metric = own(fake)
    feed(metric, 0)
    metric.compute()
    feed(metric, 2)
    feed(metric, 1)
    monkeypatch.setattr(stream, "FULL_BYTES", 60)
    for call in (
        metric.compute,
        metric.sync,
        lambda: metric(PREDS[:1], TARGET[:1]),
        lambda: feed(metric, 2),
        lambda: pickle.dumps(metric),
        lambda: metric.merge_state(own()),
    ):
        with pytest.raises(type(error), match=r"Segments 1 to 2 of earlier updates .*, and wait on.* or reset\(\)"):
            call()
    assert (metric.update_count, int(metric.n_segments)) == (3, 3)
    fake.refused = -1
    assert f1(metric) == pytest.approx(expected(0, 2, 1), abs=TOLERANCE)
    alone = own(fake)
    fake.refused = tokenizer().convert_tokens_to_ids("dog")
    fake.error = type(error)("CUDA out of memory")
    with pytest.raises(type(error)) as caught:
        alone(PREDS[1:2], TARGET[1:2])
    assert not hasattr(caught.value, "__notes__")


def test_release_encodes_nothing() -> None:
    """`release` frees memory also where none is left to encode what waits, which waits on."""
    fake = SmallMemory(most_tokens=1)
    metric = own(fake)
    feed(metric, 0)
    metric.release()
    fake.most_tokens = 100
    assert f1(metric) == pytest.approx(expected(0), abs=TOLERANCE)
    named = BERTScore(model_path("albert"), num_layers=1, reduction="none")
    feed(named, 0)
    gone = weakref.ref(named._shared.scorer.model.encoder)
    named.release()
    gc.collect()
    assert gone() is None
    assert named.compute()["f1"].shape == (1,)


def test_an_unpickled_metric_computes_without_the_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that were scored before pickling are computed where the model is not at hand; texts need it."""
    metric = BERTScore(model_path("bert"), num_layers=2, reduction="none", idf=True, keep_embeddings=True)
    metric.update(PREDS, TARGET)
    again = pickle.loads(pickle.dumps(metric))
    moved = pickle.loads(pickle.dumps(metric))
    monkeypatch.setattr(BERTScorer, "from_config", None)  # what loads a model
    again._computed = None
    assert torch.equal(again.compute()["f1"], metric.compute()["f1"])
    assert torch.equal(moved.to("meta").to("cpu").compute()["f1"], metric.compute()["f1"])
    monkeypatch.undo()
    assert again.explain(1).f1 == pytest.approx(f1(metric)[1], abs=TOLERANCE)
    feed(again, 0)
    assert again.compute()["f1"].shape == (4,)


# States from elsewhere.


@pytest.mark.parametrize("kind", ["plain", "corpus idf", "all layers", "all layers, corpus idf", "embeddings kept"])
def test_damaged_states_are_refused(kind: str) -> None:
    """A state with one column cut short is refused by name when it is loaded or merged, and changes nothing."""
    metric, other = KINDS[kind].metric(), KINDS[kind].metric()
    for one in (metric, other):
        KINDS[kind].update(one, [0, 1, 3])
        one.drain()
    rows = int(metric.n_segments)
    names = [name for name in other._column_types if getattr(other, name)]
    assert len(names) >= 5
    for name in names:
        state = {**other.metric_state, name: [part[:-1] for part in getattr(other, name)]}
        message = "sample_ids" if name == "sample_ids" else r"The column \w+ has \d+ entries, and with the other"
        with pytest.raises(RuntimeError, match=message):
            metric.load_state_dict(state)
        with pytest.raises(ValueError, match=message):
            metric.merge_state(state)
    for name, value in (
        ("pending_texts", [torch.tensor([65], dtype=torch.uint8)]),
        ("text_counts", [3]),
        ("settings", [1]),
    ):
        with pytest.raises(ValueError, match=r"no waiting segments|must be torch.int64|lacks settings|lacks"):
            metric.merge_state({**other.metric_state, name: value} if name in other.metric_state else {})
    assert int(metric.n_segments) == rows
    assert metric.update_count == 1


def test_own_gathering_without_torch_distributed() -> None:
    """With a custom `dist_sync_fn` and no process group of torch's, checkpoints and gathered embeddings work."""
    metric = own(
        keep_embeddings=True, dist_sync_fn=lambda tensor, group: [tensor, tensor], distributed_available_fn=lambda: True
    )
    feed(metric, 0, 1)
    assert len(f1(metric)) == 4
    metric.persistent(True)
    state = metric.state_dict()
    other = own(keep_embeddings=True)
    other.load_state_dict(state)
    assert f1(other) == pytest.approx(expected(0, 1), abs=TOLERANCE)
    metric.load_state_dict(metric.state_dict())
    metric.gather_embeddings()
    assert torch.equal(metric.kept_embeddings(3).candidate.ids, metric.kept_embeddings(1).candidate.ids)


# Embeddings of several ranks, here of two that have the same rows.


def two_ranks(**settings: Any) -> BERTScore:
    """Return a metric that keeps embeddings and meets another rank with the same rows."""
    return own(
        keep_embeddings=True,
        dist_sync_fn=lambda tensor, group: [tensor, tensor],
        distributed_available_fn=lambda: True,
        **settings,
    )


def test_embeddings_of_a_synced_metric() -> None:
    """While the rows of all ranks are there, the embeddings of one are not taken for theirs, nor saved with them."""
    metric = two_ranks()
    feed(metric, 0, 1)
    metric.persistent(True)
    with metric.sync_context(metric.dist_sync_fn):
        for call in (lambda: metric.kept_embeddings(0), lambda: metric.explain(0), metric.gather_embeddings):
            with pytest.raises(TorchMetricsUserError, match=r"The metric is synced; call unsync\(\) before"):
                call()
        with pytest.raises(
            TorchMetricsUserError, match=r"of this rank only.*persistent\(False\).*sync_on_compute=False"
        ):
            metric.state_dict()
        with pytest.raises(ValueError, match="column kept_text_counts has 2 entries"):
            own(keep_embeddings=True).merge_state(metric.metric_state)
    assert len(metric.state_dict()["kept_ids"]) == 1


def test_gathered_embeddings_that_are_old() -> None:
    """After more segments gathered embeddings are asked for again, also of a member that its group updates."""
    collection = MetricCollection({"a": two_ranks(), "b": two_ranks()})
    feed(collection, 0)
    for metric in collection.values(copy_state=False):
        metric.gather_embeddings()
        assert metric.kept_embeddings(1).candidate.ids.tolist() == metric.kept_embeddings(0).candidate.ids.tolist()
    assert collection["b"].kept_embeddings(1)
    feed(collection, 1)
    for metric in collection.values(copy_state=False):
        with pytest.raises(ValueError, match=r"added since gather_embeddings\(\).*call it again, on every rank"):
            metric.kept_embeddings(0)
        metric.gather_embeddings()
        assert metric.kept_embeddings(3)
        metric.reset()
        with pytest.raises(IndexError):
            metric.kept_embeddings(0)


def test_group_of_members_with_and_without_embeddings() -> None:
    """A member whose group keeps no embeddings says that the group is wrong, not that there is no such segment."""
    collection = MetricCollection({"a": own(), "b": own(keep_embeddings=True)}, compute_groups=[["a", "b"]])
    feed(collection, 0, 1)
    collection.compute()
    feed(collection, 2)
    collection.compute()
    with pytest.raises(
        ValueError, match=r"of \d of 3 segments were kept.*compute_groups must not put metrics with and"
    ):
        collection.b.kept_embeddings(0)


# Arguments.


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            {"embedding_store_bytes": None},
            TypeError,
            "embedding_store_bytes must be a number of bytes, 0 for none; got N",
        ),
        ({"embedding_store_bytes": 1.5}, TypeError, "embedding_store_bytes must be an int, got float"),
        ({"kept_embeddings_bytes": "x"}, TypeError, "kept_embeddings_bytes must be an int, got str"),
        ({"kept_embeddings_bytes": -1}, ValueError, "kept_embeddings_bytes must be at least 0, got -1"),
        ({"keep_embeddings": "no"}, TypeError, "keep_embeddings must be True or False, got str"),
    ],
)
def test_arguments_about_memory(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    """What is not a number of bytes, or neither True nor False, is refused at construction."""
    with pytest.raises(error, match=message):
        own(**arguments)


def test_numbers_beyond_int64() -> None:
    """Numbers that do not fit are refused instead of wrapped around, and numpy's scalars are numbers."""
    metric = own()
    for ids in ([2**63], torch.tensor([2**63 + 5], dtype=torch.uint64), np.array([2**63], dtype=np.uint64)):
        with pytest.raises(
            ValueError, match=r"sample_ids must fit into 64 bits with a sign \(below 2\*\*63\), got 922"
        ):
            metric.update(["a"], ["b"], ids)
    for ids in (np.int64(3), 4, torch.tensor(5), torch.tensor([6], dtype=torch.uint64), np.array([7])):
        metric.update(["a"], ["b"], ids)
    assert metric.column("sample_ids").tolist() == [3, 4, 5, 6, 7]


def test_a_long_text_is_named() -> None:
    """A refused text is named as the caller knows it, with the argument that would cut it."""
    metric = own(truncation=False, max_length=8)
    for preds, target, place in (
        (["a", "the cat " * 9], ["a", "b"], r"preds\[1\]"),
        (["a", "b"], ["a", "the cat " * 9], r"target\[1\]"),
        (["a", "b"], [["a"], ["b", "the cat " * 9]], r"target\[1\]\[1\]"),
    ):
        with pytest.raises(ValueError, match=rf"^{place} is a text of 20 tokens, and the limit is 8.*long_text='t"):
            metric.update(preds, target)
    scorer = BERTScorer(encoder=HashEncoder(), tokenizer=tokenizer(), long_text="error", max_length=8)
    with pytest.raises(ValueError, match=r"^references\[0\] is a text of 20 tokens.*long_text='truncate'"):
        scorer.score(["a"], ["the cat " * 9])
    with pytest.raises(ValueError, match=r"^idf\[1\] is a text of 20 tokens"):
        BERTScorer(
            encoder=HashEncoder(), tokenizer=tokenizer(), long_text="error", max_length=8, idf=["a", "the cat " * 9]
        )


def test_the_collection_takes_a_model_first() -> None:
    """The first argument of the collection is the model, as everywhere; a prefix has to be named."""
    collection = bertscore_collection("offline", prefix="val/", num_layers=5)
    assert collection.prefix == "val/"
    assert "all-MiniLM-L6-v2" in str(collection["f1"].signature)


def test_plots_of_given_values() -> None:
    """Every value that the metric returned can be plotted, alone and with others, whatever is in it."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    layers = {"encoder": LayeredEncoder(), "tokenizer": tokenizer(), "all_layers": True, "reduction": "none"}
    fake = {"encoder": HashEncoder(), "tokenizer": tokenizer()}
    for metric in (
        own(return_hash=True),
        own(LayeredEncoder(), all_layers=True),
        BERTScoreValue("f1", **layers),
        BERTScoreValue("f1", **fake),
        BERTScoreValue("f1", reduction="none", **fake),
    ):
        values = [metric(PREDS, TARGET), metric(PREDS[:1], TARGET[:1])]
        for shown in (None, values[0], values):
            _, axes = metric.plot(shown)
            assert axes.lines
    metric = own()
    _, axes = metric.plot([metric(PREDS, TARGET), metric(PREDS[:1], TARGET[:1])])
    means = [sum(expected(0, 1, 2)) / 3, expected(0)[0]]
    assert axes.lines[-1].get_ydata() == pytest.approx(means, abs=1e-5)
    plt.close("all")


def test_pieces_of_a_column() -> None:
    """A piece of a column in parts is what the joined column has there."""
    parts = [torch.arange(3), torch.arange(0), torch.arange(5)]
    whole = torch.cat(parts)
    for begin in range(9):
        for end in range(begin, 9):
            assert torch.equal(state_columns.piece(parts, begin, end), whole[begin:end])
