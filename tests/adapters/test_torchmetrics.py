"""The torchmetrics metric: right values where torchmetrics' own is wrong, and every trap of the base class."""

import gc
import inspect
import os
import pickle
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest
import test_peers as peers
import torch
from conftest import MODELS, TOLERANCE, model_path
from fakes import HashEncoder, LayeredEncoder, SmallMemory
from metric_kinds import ALL, CORPUS, KINDS, scores, tokenizer, wanted
from torch import nn
from torchmetrics import MeanMetric, MetricCollection, MetricTracker
from torchmetrics.text import BERTScore as TheirBERTScore
from torchmetrics.utilities.exceptions import TorchMetricsUserError
from torchmetrics.wrappers import Running
from transformers import AutoModel

import bertscore_metric
from bertscore_metric import BERTScore, BERTScorer, BERTScoreWarning, ScoreConfig, release_encoders
from bertscore_metric.adapters.torchmetrics import BERTScoreValue, bertscore_collection
from bertscore_metric.models.source import resolve
from bertscore_metric.scorer_handle import ReleasedEncoder
from bertscore_metric.state import pending_texts, stream

quiet = pytest.mark.filterwarnings("ignore::bertscore_metric.BERTScoreWarning")
PREDS, TARGET = ["the cat sat", "a dog", "I like lemons."], ["a cat sat", "the dog", "I love lemons."]


def own(fake: Any = None, **settings: Any) -> BERTScore:
    """Return a metric around a fake encoder."""
    return BERTScore(encoder=fake or HashEncoder(), tokenizer=tokenizer(), **settings)


def vectors(**settings: Any) -> BERTScore:
    """Return a metric with a fake encoder that gives vectors."""
    return own(reduction="none", **settings)


def encoder(metric: BERTScore) -> Any:
    """Return the encoder in use."""
    return metric._shared.scorer.model.encoder


def same(a: Any, b: Any) -> None:
    """Compare two values within the project's tolerance."""
    torch.testing.assert_close(scores(a), scores(b), atol=TOLERANCE, rtol=0)


# Right values, which bert_score 0.3.13 gives.


@pytest.mark.parametrize("step", [1, 3, 8])
@pytest.mark.parametrize(
    ("idf", "expected"), [(False, (peers.PRECISION, peers.RECALL, peers.F1)),
                          (True, (peers.IDF_PRECISION, peers.IDF_RECALL, peers.IDF_F1))], ids=["no idf", "idf"]
)  # fmt: skip
def test_right_values(idf: bool, expected: Any, step: int) -> None:
    """An unsorted corpus has its right scores in any batches, where torchmetrics pairs the wrong sentences."""
    metric = BERTScore("offline", num_layers=5, idf=idf, reduction="none")
    for begin in range(0, 8, step):
        metric.update(peers.CANDIDATES[begin : begin + step], peers.REFERENCES[begin : begin + step])
    for got, column in zip(scores(metric.compute()), expected, strict=True):
        peers.close(got, column)


def test_mean_is_over_segments() -> None:
    """By default the value is three numbers, which can be logged."""
    metric = BERTScore("offline", num_layers=5)
    value = metric(peers.CANDIDATES, peers.REFERENCES)
    assert {name: number.shape for name, number in value.items()} == dict.fromkeys(("precision", "recall", "f1"), ())
    assert metric.compute()["f1"].item() == pytest.approx(0.745321, abs=1e-5)


@pytest.mark.parametrize("step", [1, 2])
def test_several_references(step: int) -> None:
    """Ragged groups of references score the same in one update and in two, and say which reference was best."""
    metric = BERTScore("offline", num_layers=5, reduction="none")
    preds, target = ["hello there", "a cat sat"], [["hi there", "hello"], ["the dog", "a cat sat down", "cats"]]
    for begin in range(0, 2, step):
        metric.update(preds[begin : begin + step], target[begin : begin + step])
    value = metric.compute()
    peers.close(value["precision"], [0.876246, 0.970696])
    peers.close(value["recall"], [0.982889, 0.846598])
    peers.close(value["f1"], [0.876246, 0.887840])
    assert metric.best_reference.tolist() == [0, 1]


def test_long_text_with_default_arguments() -> None:
    """Long text is cut and said, also over two updates, where torchmetrics crashes."""
    metric = BERTScore("offline", num_layers=5, reduction="none")
    metric.update("word " * 700, "word " * 700 + "end")
    metric.update(["the cat"], ["a cat"])
    with pytest.warns(BERTScoreWarning, match=r"2 texts are longer than the limit of 512 tokens; 381 tokens"):
        peers.close(metric.compute()["f1"], [1.0, 0.837539])


def test_empty_texts() -> None:
    """Empty and blank texts score 0, with idf too, where torchmetrics gives NaN."""
    metric = BERTScore("offline", num_layers=5, reduction="none")
    metric.update(["", "hello"], ["hello", ""])
    metric.update(["  ", "a cat"], ["hello", "a cat"])
    with pytest.warns(BERTScoreWarning, match=r"3 of 4 segments are empty on a side .* indices 0, 1, 2\."):
        value = metric.compute()
    for column in scores(value):
        peers.close(column, [0, 0, 0, 1])
    metric = BERTScore("offline", num_layers=5, reduction="none", idf=True)
    metric.update(["", "hello there", "a cat"], ["hello", "hi there", "a cat"])
    with pytest.warns(BERTScoreWarning, match="1 of 3 segments are empty"):
        peers.close(metric.compute()["f1"], [0, 0.876246, 1])


def test_one_segment_is_a_vector() -> None:
    """One segment gives vectors of length 1, in `forward` too; torchmetrics squeezes them."""
    metric = vectors()
    assert metric("a cat", "a cat")["f1"].shape == (1,)
    assert metric.compute()["f1"].shape == (1,)
    assert metric.best_reference.shape == (1,)


def test_best_reference_is_of_all_rows() -> None:
    """`best_reference` is of everything accumulated, also before `compute`, after more rows, and after a step."""
    metric = vectors()
    metric.update(["a cat", "a dog"], [["a dog", "a cat"], ["a dog", "a cat"]])
    assert metric.best_reference.tolist() == [1, 0]
    metric.update(["a cat"], [["Go", "a cat"]])
    assert metric.best_reference.tolist() == [1, 0, 1]
    metric(["a cat"], [["Go", "Go", "a cat"]])
    assert metric.best_reference.tolist() == [1, 0, 1, 2]
    with pytest.raises(ValueError, match="sample_ids"):
        metric(["a cat"], ["a cat"], [1])
    assert metric.best_reference.tolist() == [1, 0, 1, 2]
    uncached = vectors(compute_with_cache=False)
    uncached.update(["a cat"], [["a dog", "a cat"]])
    assert uncached.best_reference.tolist() == [1]


@quiet
def test_no_segments() -> None:
    """Nothing to score is an empty vector, or NaN, and an empty batch is no trouble."""
    metric = vectors()
    metric.update([], [])
    assert metric.compute()["f1"].shape == (0,)
    assert own().compute()["f1"].isnan()
    assert metric([], [])["f1"].shape == (0,)


# Arguments.


def test_arguments_of_torchmetrics() -> None:
    """Every argument that torchmetrics' own class has exists here, in the same order."""
    theirs = list(inspect.signature(TheirBERTScore.__init__).parameters)[1:-1]
    ours = list(inspect.signature(BERTScore.__init__).parameters)[1:]
    assert ours[: len(theirs)] == theirs


def test_user_tokenizer_and_model() -> None:
    """A model with `user_tokenizer`, as torchmetrics calls it, scores like the model's folder."""
    model = AutoModel.from_pretrained(MODELS / "bert").train()
    metric = BERTScore(model=model, user_tokenizer=tokenizer(), num_layers=2, reduction="none")
    metric.update(PREDS, TARGET)
    same(metric.compute(), BERTScorer(model_path("bert"), num_layers=2).score(PREDS, TARGET))
    assert model.training
    assert list(metric.parameters()) == []
    assert list(metric.modules()) == [metric]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"user_forward_fn": print}, r"user_forward_fn is not supported: pass encoder="),
        ({"baseline_url": "https://x"}, r"baseline_url is not supported: download the file and pass baseline_path"),
        ({"reduction": "sum"}, r"reduction must be 'mean' or 'none', got 'sum'"),
        ({"all_layers": True}, r"pass reduction='none', or one num_layers"),
        ({"truncation": True, "long_text": "error"}, "truncation and long_text say the same"),
        ({"user_tokenizer": "x", "tokenizer": "y"}, "two names for one argument"),
        ({"embedding_store_bytes": -1}, "at least 0, got -1"),
        ({"num_layer": 3}, "Unknown setting 'num_layer'; did you mean 'num_layers'"),
    ],
)
def test_refused_arguments(arguments: dict[str, Any], message: str) -> None:
    """What cannot be obeyed is an error that says what to use instead, never ignored."""
    with pytest.raises(ValueError, match=message):
        BERTScore(model_path("bert"), **arguments)


def test_a_tokenizer_that_is_no_tokenizer() -> None:
    """torchmetrics' kind of user tokenizer, a plain function, is refused in words."""
    with pytest.raises(TypeError, match=r"^user_tokenizer= takes a tokenizer of transformers, got a function"):
        BERTScore(model=object(), user_tokenizer=lambda texts: texts)


def test_default_model() -> None:
    """Without a model and a language it is English, and without a network the error names the model."""
    with pytest.raises(OSError, match="roberta-large"):
        BERTScore()


def test_truncation() -> None:
    """`truncation=False` refuses long text, before anything of the update is kept."""
    metric = own(truncation=False, max_length=8)
    with pytest.raises(ValueError, match="a text of 12 tokens, and the limit is 8"):
        metric.update(["the cat", "the cat " * 5], ["the cat", "a"])
    assert metric.pending_texts == []
    assert not metric.update_called


def test_return_hash() -> None:
    """`return_hash` puts the signature into the value."""
    metric = own(return_hash=True)
    assert metric("a cat", "a cat")["hash"] == str(metric.signature)


def test_from_config() -> None:
    """A config gives the metric that its settings give, with the core's signature."""
    config = ScoreConfig(model_name_or_path=model_path("bert"), num_layers=2, idf=True)
    metric = BERTScore.from_config(config, reduction="none")
    assert metric.signature == BERTScorer.from_config(config).signature
    assert metric.signature == metric.clone().signature
    assert str(metric.signature) in repr(metric)


def test_rescaling(tmp_path: Path) -> None:
    """Scores are rescaled when they are computed."""
    file = tmp_path / "baseline.csv"
    file.write_text("LAYER,P,R,F\n2,0.5,0.5,0.5\n")
    settings = {"num_layers": 2, "rescale_with_baseline": True, "baseline_path": str(file)}
    metric = BERTScore(model_path("bert"), reduction="none", **settings)  # type: ignore[arg-type]
    metric.update(PREDS, TARGET)
    same(metric.compute(), BERTScorer(model_path("bert"), **settings).score(PREDS, TARGET))  # type: ignore[arg-type]


# Errors leave everything as it was.


def snapshot(metric: BERTScore) -> Any:
    """Return everything that an error must leave alone."""
    states = {name: [t.clone() for t in getattr(metric, name)] for name in metric._column_types}
    flags = (metric._update_count, metric._computed, metric._is_synced, metric._to_sync, metric._should_unsync)
    return states, flags, metric._cache


@pytest.mark.parametrize("bad", [None, 3, float("nan"), b"bytes", "\ud800"])
@pytest.mark.parametrize("call", ["update", "forward"])
def test_rejected_input_changes_nothing(bad: Any, call: str) -> None:
    """Wrong texts are named by torchmetrics' names, and leave states, counts and the computed value."""
    metric = vectors()
    metric.update(PREDS, TARGET)
    value = metric.compute()
    before = snapshot(metric)
    with pytest.raises((TypeError, ValueError), match=r"target\[1\]"):
        getattr(metric, call)(["a cat", "a dog"], ["a cat", bad])
    with pytest.raises(ValueError, match="preds and target must have the same number of entries, got 2 preds and 1"):
        getattr(metric, call)(["a cat", "a dog"], ["a cat"])
    assert str(snapshot(metric)) == str(before)
    assert metric.compute() is value


@pytest.mark.parametrize("sync", [False, True])
def test_out_of_memory_changes_nothing(monkeypatch: pytest.MonkeyPatch, sync: bool) -> None:
    """An update or forward that runs out of memory can be repeated, and waiting texts go on waiting."""
    fake = SmallMemory(most_tokens=100)
    metric = vectors(fake=fake, dist_sync_on_step=sync)
    metric.update(PREDS[:1], TARGET[:1])
    metric(PREDS[1:2], TARGET[1:2])
    metric.update(["Go"], ["Go"])
    before = snapshot(metric)
    fake.most_tokens = 1
    monkeypatch.setattr(stream, "FULL_BYTES", 1)
    for call in (metric.update, metric.forward):
        with pytest.raises(torch.OutOfMemoryError, match="A text does not fit"):
            call(PREDS[2:], TARGET[2:])
        assert str(snapshot(metric)) == str(before)
    with pytest.raises(torch.OutOfMemoryError):
        metric.compute()
    assert str(snapshot(metric)) == str(before)
    fake.most_tokens = 100
    metric.update(PREDS[2:], TARGET[2:])
    same(metric.compute(), BERTScorer(encoder=HashEncoder(), tokenizer=tokenizer()).score(
        [*PREDS[:2], "Go", PREDS[2]], [*TARGET[:2], "Go", TARGET[2]]
    ))  # fmt: skip


def test_an_error_in_compute_leaves_the_metric_usable() -> None:
    """After an error at `compute` the metric is not left half synced."""
    metric = vectors()
    metric.update(["the cat", "a dog"], ["the cat", "the cat"], [1, 1])
    with pytest.raises(ValueError, match="sample_ids 1 stand for texts with different scores"):
        metric.compute()
    assert not metric._is_synced
    metric.reset()
    assert metric("the cat", "the cat", [1])["f1"].shape == (1,)


def test_own_encoder_without_weight_for_a_token() -> None:
    """A token without idf weight is refused before the update is kept."""
    metric = own(idf={2: 0.0, 3: 0.0})
    with pytest.raises(ValueError, match="no weight for token id"):
        metric.update("a cat", "a cat")
    assert metric.pending_texts == []


# sample_ids.


@quiet
def test_sample_ids_restore_the_order() -> None:
    """Results come in the order of the numbers, whatever the order of the updates, and repeated rows count once."""
    for kind in (KINDS["numbered"], KINDS["corpus idf, numbered"]):
        metric = kind.metric()
        for number in (5, 2, 8, 0, 7, 1, 3, 2, 6, 4, 0):
            metric.update(*kind.batch([number]))
        torch.testing.assert_close(scores(metric.compute()), wanted(kind), atol=TOLERANCE, rtol=0)
        assert torch.equal(metric.best_reference, kind.expected().best_reference)


@pytest.mark.parametrize("ids", [[3, 1], (3, 1), torch.tensor([3, 1], dtype=torch.int32), iter([3, 1])])
def test_forms_of_sample_ids(ids: Any) -> None:
    """Lists, tuples, tensors of any integer type and iterators are numbers."""
    metric = vectors()
    metric.update(["a cat", "a dog"], ["a dog", "a dog"], ids)
    assert metric.compute()["f1"][0] == pytest.approx(1)


def test_wrong_sample_ids() -> None:
    """Numbers of another type or count, or for some rows only, are refused and change nothing."""
    metric = vectors()
    for ids, error, message in (
        ([1.0, 2.0], TypeError, "sample_ids must be integers"),
        (torch.tensor([1.0, 2.0]), TypeError, "got torch.float32"),
        ([True, False], TypeError, "got True of type bool"),
        (["a", "b"], TypeError, "got 'a' of type str"),
        ([1], ValueError, "one number for each of preds, got 1 for 2"),
    ):
        with pytest.raises(error, match=message):
            metric.update(PREDS[:2], TARGET[:2], ids)
    assert not metric.update_called
    metric.update(PREDS, TARGET, [0, 1, 2])
    with pytest.raises(ValueError, match="Only 3 of 4 segments have sample_ids"):
        metric.update("Go", "Go")
    with pytest.raises(ValueError, match="Only 3 of 4 segments have sample_ids"):
        metric("Go", "Go")
    plain = vectors()
    plain.update("Go", "Go")
    with pytest.raises(ValueError, match="Only 1 of 2 segments have sample_ids"):
        plain.update("Go", "Go", [1])
    with pytest.raises(ValueError, match="Only 3 of 4 segments"):
        plain.merge_state(metric)
    assert plain.compute()["f1"].shape == (1,)
    assert metric.compute()["f1"].shape == (3,)


# The encoder.


def test_the_encoder_is_no_part_of_the_module() -> None:
    """A parent module gets no parameters and no state, and its .half(), .to() or .train() change nothing."""
    parent = nn.Module()
    parent.metric = BERTScore(model_path("bert"), num_layers=2, reduction="none")
    parent.metric.update(PREDS, TARGET)
    expected = parent.metric.compute()
    assert sum(1 for _ in parent.parameters()) + sum(1 for _ in parent.buffers()) == 0
    assert parent.state_dict() == {}
    assert list(parent.modules()) == [parent, parent.metric]
    for change in (
        parent.half,
        parent.double,
        parent.train,
        lambda: parent.to(torch.bfloat16),
        lambda: parent.metric.set_dtype(torch.float16),
        lambda: parent.to_empty(device="cpu"),
    ):
        change()
        assert {name: {t.dtype for t in getattr(parent.metric, name)} for name in ("precision", "best_references")} == {
            "precision": {torch.float32},
            "best_references": {torch.int32},
        }
        parent.metric.update(PREDS, TARGET)
        assert parent.metric.compute()["f1"].dtype == torch.float32
        same(parent.metric.compute(), {name: value.repeat(2) for name, value in expected.items()})
        parent.metric.reset()
        same(parent.metric(PREDS, TARGET), expected)


def test_moving_never_moves_a_shared_encoder() -> None:
    """`.to(device)` changes which encoder a metric asks for; those who share the old one keep it."""
    stays, moves = (BERTScore(model_path("bert"), num_layers=2) for _ in range(2))
    assert encoder(stays) is encoder(moves)
    kept = encoder(stays)
    assert moves.to("meta").device.type == "meta"
    assert {parameter.device.type for parameter in kept._model.parameters()} == {"cpu"}
    assert encoder(stays) is kept
    assert encoder(moves).device.type == "meta"
    assert encoder(moves.to("cpu")) is kept
    fixed = BERTScore(model_path("bert"), num_layers=2, device="cpu").to("meta")
    assert encoder(fixed) is kept
    collection = bertscore_collection(model_name_or_path=model_path("bert"), num_layers=2).to("meta")
    assert len({id(metric._shared) for metric in collection.values()}) == 1


def test_release() -> None:
    """`release` lets the encoder go, what was accumulated stays, and the encoder comes back when it is needed."""
    metric = BERTScore(model_path("roberta"), num_layers=1, reduction="none")
    metric.update(PREDS, TARGET)
    gone = weakref.ref(encoder(metric))
    value = metric.compute()
    metric.release()
    gc.collect()
    assert gone() is None
    metric.compute_with_cache, metric._computed = False, None
    same(metric.compute(), value)
    assert gone() is None
    with pytest.raises(RuntimeError, match="released"):
        metric._shared.reporter.model.encoder.embed(None)  # type: ignore[arg-type]
    metric.update(PREDS, TARGET)
    same(metric.compute(), {name: column.repeat(2) for name, column in value.items()})
    model = own()
    model.update(PREDS, TARGET)
    model.release()
    assert model.compute()["f1"].shape == ()


def test_pickle_leaves_the_encoder_out() -> None:
    """A pickled metric is small, and loads its encoder again only for texts."""
    metric = BERTScore("offline", num_layers=5)
    metric.update(PREDS, TARGET)
    data = pickle.dumps(metric)
    assert len(data) < 20_000
    again = pickle.loads(data)
    assert again.signature == metric.signature
    assert again.compute() == metric.compute()
    assert isinstance(again._shared.reporter.model.encoder, ReleasedEncoder)
    again.update(PREDS, TARGET)
    assert again.compute()["f1"].item() == pytest.approx(metric.compute()["f1"].item())


@quiet
def test_pickle_takes_objects_along() -> None:
    """A model object is pickled with the metric as far as it is kept, also after it gave hidden states."""
    model = AutoModel.from_pretrained(MODELS / "bert")
    metric = BERTScore(model=model, tokenizer=tokenizer(), all_layers=True, reduction="none")
    metric.update(PREDS, TARGET)
    value = metric.compute()
    again = pickle.loads(pickle.dumps(metric))
    again.reset()
    again.update(PREDS, TARGET)
    same(again.compute(), value)
    assert value["f1"].shape == (5, 3)
    moved = metric.clone().to("meta")
    assert encoder(moved).device.type == "meta"
    assert encoder(metric).device.type == "cpu"


def test_objects_that_cannot_be_pickled() -> None:
    """An encoder that cannot be pickled says so, and what to do."""
    fake = HashEncoder()
    fake.hook = lambda: None  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match=r"The metric cannot be pickled.*Name a model"):
        pickle.dumps(own(fake))


def test_a_model_that_changed_since_pickling(tmp_path: Path) -> None:
    """Scores of weights that changed on disk are not mixed with those of the old ones."""
    AutoModel.from_pretrained(MODELS / "bert").save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    data = pickle.dumps(BERTScore(str(tmp_path), num_layers=2))
    changed = AutoModel.from_pretrained(MODELS / "bert")
    with torch.no_grad():
        for parameter in changed.parameters():
            parameter.mul_(1.5)
    changed.save_pretrained(tmp_path)
    release_encoders()
    gc.collect()
    metric = pickle.loads(data)
    with pytest.raises(ValueError, match="The model was loaded again and has changed since"):
        metric.update(PREDS, TARGET)


def test_weights_that_are_not_finite(tmp_path: Path) -> None:
    """A checkpoint with NaN is refused when it is loaded."""
    model = AutoModel.from_pretrained(MODELS / "bert")
    with torch.no_grad():
        next(model.encoder.parameters())[0] = torch.nan
    model.save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="not finite in 1 of their tensors"):
        BERTScore(str(tmp_path), num_layers=2)


def test_loading_inside_a_sharded_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings of FSDP and ZeRO for the model in training do not reach ours, and are there again afterwards."""
    from transformers.integrations import deepspeed

    class Zero:
        def is_zero3(self) -> bool:
            raise AssertionError("asked for ZeRO-3")

    config = Zero()
    monkeypatch.setattr(deepspeed, "_hf_deepspeed_config_weak_ref", lambda: config)
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    with torch.inference_mode():
        metric = BERTScore(model_path("albert"), num_layers=1)
    assert not any(tensor.is_inference() for tensor in encoder(metric)._model.parameters())
    assert os.environ["ACCELERATE_USE_FSDP"] == "true"
    assert deepspeed._hf_deepspeed_config_weak_ref() is config


# Where it is called.


@quiet
def test_inference_mode() -> None:
    """Rows from inside and outside of inference mode are mixed, merged and changed without trouble."""
    metric, other = vectors(idf=True), vectors(idf=True)
    with torch.inference_mode():
        metric.update(PREDS[:1], TARGET[:1])
        metric(PREDS[1:2], TARGET[1:2])
    other.update(PREDS[2:], TARGET[2:])
    with torch.inference_mode():
        metric.merge_state(other)
    value = metric.compute()
    value["f1"].add_(0)
    same(value, BERTScorer(encoder=HashEncoder(), tokenizer=tokenizer(), idf=True).score(PREDS, TARGET))
    metric.reset()


def test_default_dtype_and_autocast() -> None:
    """The caller's default dtype and autocast change nothing, and are there again afterwards."""
    expected = BERTScorer(model_path("bert"), num_layers=2).score(PREDS, TARGET)
    metric = BERTScore(model_path("bert"), num_layers=2, reduction="none")
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            metric.update(PREDS[:2], TARGET[:2])
            metric(PREDS[2:], TARGET[2:])
            value = metric.compute()
        assert torch.get_default_dtype() == torch.bfloat16
    finally:
        torch.set_default_dtype(torch.float32)
    same(value, expected)


def test_torch_compile() -> None:
    """Inside a compiled function the metric runs as ever."""
    metric = vectors()

    @torch.compile(backend="eager")
    def step(x: torch.Tensor) -> torch.Tensor:
        metric.update(PREDS, TARGET)
        metric(PREDS, TARGET)
        return x + 1

    assert step(torch.zeros(1)) == 1
    assert metric.compute()["f1"].shape == (6,)


# Collections, trackers, composition, plots.


@quiet
def test_automatic_compute_groups() -> None:
    """Members with the same settings are one group; another model or setting never joins it."""
    other = HashEncoder(seed=1)
    other.fingerprint = "another"
    members = {
        "a": own(),
        "b": own(reduction="none"),
        "other": own(other),
        "idf": own(idf=True),
        "layers": own(LayeredEncoder(), all_layers=True, reduction="none"),
    }
    alone = {name: metric.clone() for name, metric in members.items()}
    collection = MetricCollection(members)
    for begin in range(0, 9, 3):
        batch = [c for c, _ in CORPUS[begin : begin + 3]], [r for _, r in CORPUS[begin : begin + 3]]
        collection.update(*batch)
        for metric in alone.values():
            metric.update(*batch)
    assert sorted(map(sorted, collection.compute_groups.values())) == [["a", "b"], ["idf"], ["layers"], ["other"]]
    collection.compute()
    for name, metric in alone.items():
        same(collection[name].compute(), metric.compute())


@quiet
def test_first_batch_of_empty_texts() -> None:
    """A first batch that gives every model the same scores does not put different models into one group."""
    other = HashEncoder(seed=1)
    other.fingerprint = "another"
    for forward in (False, True):
        collection = MetricCollection({"a": own(), "other": own(other)})
        (collection.forward if forward else collection.update)(["", ""], ["", ""])
        collection.update(PREDS, TARGET)
        value = collection.compute()
        assert len(collection.compute_groups) == 2
        assert value["a_f1"] != value["other_f1"]


def test_a_used_metric_in_a_collection() -> None:
    """A metric that has rows already keeps them, and does not give them to a new one of the same settings."""
    used = vectors()
    used.update(PREDS, TARGET)
    used.compute()
    collection = MetricCollection({"used": used, "new": vectors()})
    collection.update(["Go"], ["Go"])
    value = collection.compute()
    assert (value["used_f1"].shape, value["new_f1"].shape) == ((4,), (1,))


def test_wrong_explicit_groups() -> None:
    """Metrics of different settings in one explicit group are an error instead of one's numbers under both names."""
    collection = MetricCollection({"a": own(), "b": own(empty="skip")}, compute_groups=[["a", "b"]])
    collection.update(PREDS, TARGET)
    with pytest.raises(ValueError, match="compute_groups must not put them into one group"):
        collection.compute()


@pytest.mark.parametrize("forward", [False, True])
def test_collection_of_scalars(forward: bool) -> None:
    """The collection embeds every batch once for its three members, and keeps them together over epochs."""
    fake = HashEncoder()
    collection = bertscore_collection(prefix="val/", encoder=fake, tokenizer=tokenizer(), embedding_store_bytes=0)
    for epoch in (1, 2):
        for pred, target in zip(PREDS, TARGET, strict=True):
            (collection.forward if forward else collection.update)([pred], [target])
        value = collection.compute()
        assert fake.n_texts == 6 * epoch
        expected = BERTScorer(encoder=HashEncoder(), tokenizer=tokenizer()).score(PREDS, TARGET).mean
        assert {name: number.item() for name, number in value.items()} == pytest.approx(
            {f"val/{name}": getattr(expected, name) for name in ("precision", "recall", "f1")}
        )
        collection.reset()


def test_update_and_forward_mixed_in_a_collection() -> None:
    """Members that share lists do not disturb each other when steps mix `update` and `forward`."""
    collection = bertscore_collection(encoder=HashEncoder(), tokenizer=tokenizer())
    for step in (collection.update, collection.forward, collection.update, collection.forward):
        step(PREDS, TARGET)
    expected = BERTScorer(encoder=HashEncoder(), tokenizer=tokenizer()).score(PREDS, TARGET).mean.f1
    assert collection.compute()["f1"].item() == pytest.approx(expected)
    for metric in collection.values():
        assert int(metric.n_segments) == 12


def test_tracker() -> None:
    """Over epochs a tracker gives the best value and its step, for the collection of scalars."""
    collection = bertscore_collection(encoder=HashEncoder(), tokenizer=tokenizer())
    tracker = MetricTracker(collection)
    for preds in (PREDS, TARGET, PREDS):
        tracker.increment()
        tracker.update(preds, TARGET)
        tracker.compute()
    best, step = tracker.best_metric(return_step=True)
    assert best == pytest.approx({"precision": 1.0, "recall": 1.0, "f1": 1.0})
    assert set(step.values()) == {1}
    single = MetricTracker(own())
    for preds in (PREDS, TARGET):
        single.increment()
        single.update(preds, TARGET)
    assert single.compute_all()["f1"].shape == (2,)


def test_composition() -> None:
    """Metrics that are one number can be calculated with."""
    f1 = BERTScoreValue("f1", encoder=HashEncoder(), tokenizer=tokenizer())
    percent = f1 * 100
    percent.update(TARGET, TARGET)
    assert percent.compute().item() == pytest.approx(100)
    with pytest.raises(ValueError, match="score must be one of precision, recall, f1; got 'f2'"):
        BERTScoreValue("f2", encoder=HashEncoder(), tokenizer=tokenizer())


def test_running_window() -> None:
    """torchmetrics' window over the last steps sees the last rows."""
    metric = Running(vectors(), window=2)
    for pred, target in zip(PREDS, TARGET, strict=True):
        metric.update([pred], [target])
    expected = BERTScorer(encoder=HashEncoder(), tokenizer=tokenizer()).score(PREDS[1:], TARGET[1:])
    assert sorted(metric.compute()["f1"].tolist()) == pytest.approx(sorted(expected.f1.tolist()), abs=TOLERANCE)


def test_plot() -> None:
    """One value, several values, and what is accumulated can be plotted, numbers and vectors."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    for metric in (own(), vectors()):
        values = [metric(PREDS, TARGET) for _ in range(3)]
        for shown in (None, values[0], values):
            figure, axes = metric.plot(shown)
            assert figure is not None
            assert axes.lines
    figure, axes = BERTScoreValue("f1", encoder=HashEncoder(), tokenizer=tokenizer()).plot(torch.tensor(0.5))
    assert axes.lines
    plt.close("all")


# States.


def test_small_updates_wait_for_full_batches() -> None:
    """Small updates are encoded together, each text once, and `forward` encodes them before its own batch."""
    fake = HashEncoder()
    metric = own(fake)
    for _ in range(20):
        metric.update(PREDS, TARGET)
    assert fake.batches == []
    metric.compute()
    assert fake.n_texts == 6


def test_full_batches_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts that fill the encoder's batches are encoded at once, with those that waited, in order."""
    monkeypatch.setattr(stream, "FULL_BYTES", 60)
    fake = HashEncoder()
    metric = vectors(fake=fake)
    metric.update(PREDS[:1], TARGET[:1])
    assert fake.batches == []
    metric.update(PREDS[1:], TARGET[1:])
    assert fake.n_texts == 6
    assert metric.pending_texts == []
    same(metric.compute(), BERTScorer(encoder=HashEncoder(), tokenizer=tokenizer()).score(PREDS, TARGET))


def test_states_stay_small() -> None:
    """Steps leave few tensors of at most 32 bytes a segment, however many they are."""
    metric = own()
    for _ in range(300):
        metric(PREDS, TARGET)
    assert max(len(getattr(metric, name)) for name in metric._column_types) <= 12
    assert sum(part.nbytes for name in metric._column_types for part in getattr(metric, name)) <= 32 * 900


def test_forward_copies_nothing_old() -> None:
    """What was accumulated is put aside during a step, not copied."""
    metric = own()
    metric.update(PREDS * 100, TARGET * 100)
    metric.compute()
    old = metric.precision[0].data_ptr()  # type: ignore[attr-defined]
    metric(PREDS, TARGET)
    assert metric.precision[0].data_ptr() == old  # type: ignore[attr-defined]


def test_results_are_not_kept_too_long() -> None:
    """`merge_state` and `load_state_dict` make a computed value void, which the base class returns once more."""
    metric, other = vectors(), vectors()
    metric.update(PREDS, TARGET)
    other.update(TARGET, TARGET)
    metric.compute()
    metric.merge_state(other)
    assert metric.compute()["f1"].shape == (6,)
    assert metric.best_reference.shape == (6,)
    other.persistent(True)
    metric.load_state_dict(other.state_dict())
    assert metric.compute()["f1"].tolist() == pytest.approx([1, 1, 1])
    assert metric.best_reference.shape == (3,)


def test_states_of_other_settings() -> None:
    """States of another model or setting are refused by `merge_state` and `load_state_dict`, and change nothing."""
    metric, other = vectors(), vectors(empty="skip")
    for one in (metric, other):
        one.update(PREDS, TARGET)
        one.persistent(True)
    value = metric.compute()
    with pytest.raises(ValueError, match="This state was made with other settings"):
        metric.merge_state(other)
    with pytest.raises(RuntimeError, match="This state was made with other settings"):
        metric.load_state_dict(other.state_dict())
    with pytest.raises(ValueError, match="This state lacks"):
        metric.merge_state(vectors(idf=True))
    with pytest.raises(ValueError, match="Cannot merge a MeanMetric into a BERTScore"):
        metric.merge_state(MeanMetric())
    with pytest.raises(ValueError, match="takes a metric or its metric_state, got int"):
        metric.merge_state(3)  # type: ignore[arg-type]
    assert metric.compute() is value
    state = metric.state_dict()
    state["precision"] = [part.double() for part in state["precision"]]
    with pytest.raises(
        RuntimeError, match=r"The state precision must be torch.float32 in one dimension, got torch.float64"
    ):
        metric.load_state_dict(state)


def test_loaded_states_are_copies() -> None:
    """A checkpoint in memory is not changed by the metric that was restored from it, and waiting rows come along."""
    metric = vectors()
    metric.persistent(True)
    metric.update(PREDS, TARGET)
    state = metric.metric_state
    other = vectors()
    other.load_state_dict(dict(state))
    other.compute()
    other.update(PREDS, TARGET)
    other.reset()
    assert pending_texts.from_bytes(state["pending_texts"][0]).candidates == PREDS
    assert metric.compute()["f1"].shape == (3,)


def test_merge_with_itself() -> None:
    """Merging a metric with itself doubles its rows."""
    metric = vectors()
    metric.update(PREDS, TARGET)
    metric.merge_state(metric)
    assert metric.compute()["f1"].shape == (6,)


def test_reset_of_a_synced_metric() -> None:
    """A metric can be reset while it is synced; the base class crashes there."""
    metric = vectors(distributed_available_fn=lambda: True)
    metric.update(PREDS, TARGET)
    metric.sync(dist_sync_fn=lambda tensor, group: [tensor, tensor])
    with pytest.raises(TorchMetricsUserError, match="already been synced"):
        metric.sync(dist_sync_fn=lambda tensor, group: [tensor, tensor])
    with pytest.raises(TorchMetricsUserError, match=r"call unsync\(\) before forward"):
        metric(PREDS, TARGET)
    metric.reset()
    assert metric.precision == []  # type: ignore[attr-defined]
    metric.update(PREDS, TARGET)


def test_a_failed_sync_restores_the_rows() -> None:
    """When gathering fails half way, this rank still has its own rows."""
    calls = []

    def gather(tensor: torch.Tensor, group: Any) -> list[torch.Tensor]:
        calls.append(tensor)
        if len(calls) > 3:
            raise RuntimeError("connection closed")
        return [tensor, tensor]

    metric = vectors(dist_sync_fn=gather, distributed_available_fn=lambda: True)
    metric.update(PREDS, TARGET)
    with pytest.raises(RuntimeError, match="connection closed"):
        metric.compute()
    assert not metric._is_synced
    assert [len(part) for part in metric.precision] == [3]  # type: ignore[attr-defined]


# Reference store and kept embeddings.


def test_later_epochs_embed_only_candidates() -> None:
    """References are embedded in the first epoch only, and the hit rate tells."""
    fake = HashEncoder()
    metric = vectors(fake=fake)
    for epoch in range(3):
        metric.update([f"{pred} {epoch}" for pred in PREDS], TARGET)
        metric.compute()
        metric.reset()
        assert fake.n_texts == 3 + 3 * (epoch + 1)
    assert metric.store_hit_rate == pytest.approx(2 / 3)
    assert metric.clone().store_hit_rate == metric.store_hit_rate


def test_a_full_store_keeps_what_it_has() -> None:
    """A budget for one of three references serves that one in every epoch; none serves nothing."""
    for budget, rate in ((4 * 16 * 6, 1 / 6), (0, 0.0)):
        metric = vectors(embedding_store_bytes=budget)
        for epoch in range(2):
            metric.update([f"{pred} {epoch}" for pred in PREDS], TARGET)
            metric.compute()
            metric.reset()
        assert metric.store_hit_rate == pytest.approx(rate)
        assert metric._shared.store.n_bytes <= budget


@quiet
def test_stored_references_give_the_same_scores() -> None:
    """Scores do not depend on what the store holds, with several references and idf too."""
    metric = KINDS["corpus idf"].metric()
    for _ in range(3):
        KINDS["corpus idf"].update(metric, ALL, step=4)
        torch.testing.assert_close(scores(metric.compute()), wanted(KINDS["corpus idf"]), atol=TOLERANCE, rtol=0)
        metric.reset()


@quiet
@pytest.mark.parametrize("kind", ["embeddings kept", "layers"])
def test_kept_embeddings(kind: str) -> None:
    """The embeddings of a pair match to its scores without the encoder."""
    metric = KINDS["embeddings kept"].metric()
    if kind == "layers":
        metric = own(LayeredEncoder(), all_layers=True, reduction="none", keep_embeddings=True)
    KINDS["plain"].update(metric, ALL, step=2)
    f1 = metric.compute()["f1"]
    for index in (1, 3, 6):
        kept = metric.kept_embeddings(index)
        assert len(kept.references) == len(CORPUS[index][1])
        best = int(metric.best_reference[..., index].flatten()[0])
        similarity = kept.candidate.embeddings @ kept.references[best].embeddings.transpose(-1, -2)
        precision, recall = (best_match[:, 1:-1].mean(-1) for best_match in (similarity.amax(-1), similarity.amax(-2)))
        expected = 2 * precision * recall / (precision + recall)
        torch.testing.assert_close(expected[0], f1[..., index].flatten()[0], atol=1e-5, rtol=0)
    with pytest.raises(IndexError, match="There is no segment 9; embeddings of 9 segments are kept"):
        metric.kept_embeddings(9)


def test_kept_embeddings_have_a_limit() -> None:
    """Beyond the limit an update or a merge is an error and changes nothing."""
    metric = vectors(keep_embeddings=True, kept_embeddings_bytes=4 * 16 * 18)
    metric.update(PREDS[:1], TARGET[:1])
    before = snapshot(metric)
    with pytest.raises(ValueError, match=r"keep_embeddings would hold \d+ bytes .* its limit is 1152"):
        metric.update(PREDS * 2, TARGET * 2)
    other = metric.clone()
    with pytest.raises(ValueError, match="its limit is 1152"):
        other.merge_state(metric)
    assert str(snapshot(metric)) == str(before)
    assert metric.compute()["f1"].shape == (1,)
    with pytest.raises(ValueError, match="No embeddings were kept"):
        vectors().kept_embeddings(0)
    with pytest.raises(ValueError, match="No embeddings were kept"):
        vectors().gather_embeddings()


def test_kept_embeddings_follow_the_numbers() -> None:
    """With `sample_ids` the index counts samples in their order, as the scores do."""
    metric = vectors(keep_embeddings=True)
    metric.update(PREDS, TARGET, [2, 0, 1])
    plain = vectors(keep_embeddings=True)
    plain.update(PREDS, TARGET)
    assert torch.equal(metric.kept_embeddings(0).candidate.ids, plain.kept_embeddings(1).candidate.ids)
    metric.gather_embeddings()
    with pytest.raises(IndexError):
        metric.kept_embeddings(3)


@quiet
@pytest.mark.parametrize("idf", [False, True])
def test_explain_without_the_encoder(idf: bool) -> None:
    """Kept embeddings explain every score of the metric, in the order of the samples, with the idf of the corpus."""
    metric = vectors(keep_embeddings=True, idf=idf)
    metric.update(PREDS, TARGET, [2, 0, 1])
    metric.release()
    for index in range(3):
        pair = metric.explain(index)
        scores = metric.compute()
        assert pair.f1 == pytest.approx(float(scores["f1"][index]), abs=TOLERANCE)
        assert float(pair.precision_contributions.sum()) == pytest.approx(pair.precision, abs=TOLERANCE)
    metric.update(PREDS[:1], TARGET[:1], [3])  # which changes the corpus
    assert metric.explain(3).f1 == pytest.approx(float(metric.compute()["f1"][3]), abs=TOLERANCE)


@pytest.mark.parametrize("index", [-1, 3])
def test_segments_that_are_not_there(index: int) -> None:
    """The message names the index that was asked for, with and without numbers of samples."""
    for ids in (None, [2, 0, 1]):
        metric = vectors(keep_embeddings=True)
        metric.update(PREDS, TARGET, ids)
        with pytest.raises(IndexError, match=rf"There is no segment {index}; embeddings of 3 segments are kept"):
            metric.explain(index)
        with pytest.raises(TypeError, match=r"A segment is named by its number \(int\), got float"):
            metric.explain(1.0)  # type: ignore[arg-type]


@quiet
def test_explain_after_pickling() -> None:
    """A restored metric computes and explains, whether or not it had computed before."""
    metric = BERTScore(model_path("bert"), num_layers=2, reduction="none", keep_embeddings=True)
    metric.update(["the cat sat"], ["a cat"])
    restored = pickle.loads(pickle.dumps(metric))
    assert restored.explain(0).f1 == pytest.approx(float(metric.compute()["f1"]), abs=TOLERANCE)


# The package.


def test_names() -> None:
    """The package hands out the metric, and the evaluate room has another."""
    assert bertscore_metric.BERTScore is BERTScore
    assert BERTScore.__module__ == "bertscore_metric.adapters.torchmetrics"


def test_without_torchmetrics() -> None:
    """Without torchmetrics the package works, and asking for the metric names the line that installs it."""
    code = (
        "import sys; sys.modules['torchmetrics'] = None\n"
        "import bertscore_metric\n"
        "try:\n    bertscore_metric.BERTScore\n"
        "except ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'bertscore_metric[lightning]'" in done.stdout


@pytest.mark.filterwarnings("ignore")
def test_torchmetrics_is_the_counter_example() -> None:
    """torchmetrics' own class gives the scores that the README says it gives; when that changes, so must the README."""
    theirs = TheirBERTScore(resolve("offline").location, num_layers=5)
    theirs.update(peers.CANDIDATES, peers.REFERENCES)
    expected = [0.1556, 0.2758, 0.3627, 0.4424, 0.1192, 0.0747, 0.3001, 0.1744]
    assert theirs.compute()["f1"].tolist() == pytest.approx(expected, abs=1e-3)  # type: ignore[union-attr]


def test_result() -> None:
    """`result()` is what a scorer returns for the same texts, before and after `compute`, and again after `update`."""
    metric, scorer = own(), BERTScorer(encoder=HashEncoder(), tokenizer=tokenizer())
    metric.update(PREDS[:2], TARGET[:2])
    assert metric.result().n_segments == 2
    metric.update(PREDS[2:], TARGET[2:])
    value, result, wanted = metric.compute(), metric.result(), scorer.score(PREDS, TARGET)
    assert result.mean.f1 == pytest.approx(value["f1"].item())
    assert [*result.interval("f1")] == pytest.approx([*wanted.interval("f1")], abs=TOLERANCE)
    assert result.to_dict(segments=True)["segments"] == wanted.to_dict(segments=True)["segments"]


def test_all_layers_beside_num_layers() -> None:
    """num_layers has no effect beside all_layers, as torchmetrics documents it."""
    metric = BERTScore(model_path("bert"), all_layers=True, num_layers=1, reduction="none")
    plain = BERTScore(model_path("bert"), all_layers=True, reduction="none")
    assert str(metric.signature) == str(plain.signature)
    metric.update(PREDS, TARGET)
    assert metric.compute()["f1"].shape == (metric._shared.scorer.layers, 3)


def test_unknown_arguments() -> None:
    """An unknown argument is answered with the nearest one; those of torchmetrics pass."""
    for wrong, right in (("rescale", "rescale_with_baseline"), ("n_layers", "num_layers"), ("layer", "num_layers"),
                         ("dist_sync_function", "dist_sync_fn"), ("model_type", "model_name_or_path")):  # fmt: skip
        with pytest.raises(
            ValueError, match=rf"^Unknown setting '{wrong}'; did you mean '{right}'\? Known: model_name"
        ):
            BERTScore("offline", **{wrong: 3})
    with pytest.raises(
        ValueError, match=r"^Unknown setting 'zzz'\. Known: .*; and those of torchmetrics\.Metric: comp"
    ):
        BERTScoreValue("f1", "offline", zzz=1)
    assert not BERTScore(model_path("bert"), num_layers=2, sync_on_compute=False).sync_on_compute
