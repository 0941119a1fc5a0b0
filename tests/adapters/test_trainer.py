"""The Trainer's compute_metrics: equal to the core whatever the Trainer passes, on however many ranks."""

import inspect
import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import seq2seq
import torch
from conftest import MODELS, TOLERANCE
from fakes import HashEncoder
from seq2seq import SETTINGS, SOURCES, TARGETS, rows, tokenizer, trainer
from transformers import EvalPrediction

from bertscore_metric import BERTScorer, BERTScoreWarning
from bertscore_metric.adapters.trainer import ComputeBERTScore

NAMES = ("precision", "recall", "f1")
CANDIDATES = ["the cat sat", "a dog", "birds can fly", "it was rain", "music"]

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of the libraries around a Trainer
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


def compute(name: str = "bert", **settings: Any) -> ComputeBERTScore:
    """Return the callback for a model with this tokenizer, scoring with a fake."""
    return ComputeBERTScore(
        tokenizer(name), **{"encoder": HashEncoder(), "scorer_tokenizer": tokenizer("bert"), **settings}
    )


def core(candidates: list[str], references: list[Any], **settings: Any) -> dict[str, float]:
    """Return what the core gives."""
    scorer = BERTScorer(encoder=HashEncoder(), tokenizer=tokenizer("bert"), **settings)
    mean = scorer.score(candidates, references).mean
    return {f"bertscore_{name}": getattr(mean, name) for name in NAMES}


def padded(texts: list[str], name: str = "bert", *, with_: int = -100, left: bool = False) -> np.ndarray:
    """Return ids of texts [row, token]."""
    ids = [tokenizer(name)(text).input_ids for text in texts]
    width = max(map(len, ids)) + 2
    fill = [[with_] * (width - len(row)) for row in ids]
    return np.array([more + row if left else row + more for row, more in zip(ids, fill, strict=True)])


def prediction(predictions: Any, labels: Any, inputs: Any = None) -> EvalPrediction:
    """Return what a Trainer passes."""
    return EvalPrediction(predictions=predictions, label_ids=labels, inputs=inputs)


def close(got: dict[str, float], expected: dict[str, float]) -> None:
    """Both are the same to the tolerance, and plain floats."""
    assert set(got) == {f"bertscore_{name}" for name in NAMES}
    assert all(type(value) is float for value in got.values())
    assert got == pytest.approx(expected, abs=TOLERANCE)


def logits_of(ids: np.ndarray, size: int = 1000) -> np.ndarray:
    """Return logits whose largest are those of the ids; where ids are negative, anything."""
    noise = np.random.default_rng(0).random((*ids.shape, size), dtype=np.float32)
    np.put_along_axis(noise, np.maximum(ids, 0)[..., None], 9, axis=-1)
    noise[ids < 0] = np.random.default_rng(1).random((int((ids < 0).sum()), size))
    return noise


@pytest.fixture
def two_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process think that it has another one beside it."""
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 1)


def as_batches(values: np.ndarray) -> list[np.ndarray]:
    return [values[:2], values[2:4], values[4:]]


def ragged(values: np.ndarray) -> list[list[int]]:
    return [[token for token in row if token != -100] for row in values.tolist()]


FORMS: dict[str, Callable[[np.ndarray], Any]] = {
    "numpy": lambda ids: ids,
    "torch": lambda ids: torch.from_numpy(ids),
    "int32": lambda ids: ids.astype(np.int32),
    "floats": lambda ids: ids.astype(np.float32),
    "tensor of floats": lambda ids: torch.from_numpy(ids).double(),
    "tuple": lambda ids: (ids, np.zeros((5, 3, 7))),
    "tuple of tuples": lambda ids: ((ids, np.zeros(3)), np.zeros((5, 3, 7))),
    "list of batches": as_batches,
    "list of tuples": lambda ids: [(batch, np.zeros((2, 3, 4))) for batch in as_batches(ids)],
    "batches of other widths": lambda ids: [ids[:2], np.pad(ids[2:], ((0, 0), (0, 3)), constant_values=-100)],
    "ragged lists": ragged,
    "ragged arrays": lambda ids: [np.array(row) for row in ragged(ids)],
    "ragged tensors": lambda ids: [torch.tensor(row) for row in ragged(ids)],
    "ragged batches": lambda ids: [ragged(ids)[:3], ragged(ids)[3:]],
    "object array": lambda ids: np.array([np.array(row) for row in ragged(ids)], dtype=object),
    "read-only": lambda ids: np.frombuffer(ids.astype(np.int64).tobytes(), np.int64).reshape(ids.shape),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_predictions(form: str) -> None:
    """Arrays, tensors, tuples, batches and ragged lists of ids all mean the same."""
    ids = padded(CANDIDATES)
    got = compute()(prediction(FORMS[form](ids), padded(TARGETS)))
    close(got, core(CANDIDATES, TARGETS))


@pytest.mark.parametrize("name", ["bert", "t5", "bart", "gpt2", "llama"])
@pytest.mark.parametrize("left", [False, True])
def test_padding(name: str, left: bool) -> None:
    """-100 and the pad token are dropped on either side and in both, with any tokenizer, also without a pad token."""
    tok = tokenizer(name)
    pad = tok.pad_token_id if tok.pad_token_id is not None else tok.eos_token_id
    expected = core(tok.batch_decode([tok(t).input_ids for t in CANDIDATES], skip_special_tokens=True), TARGETS)
    for filler in {-100, -1, -100 if pad is None else pad}:
        got = compute(name)(
            prediction(
                padded(CANDIDATES, name, with_=filler, left=left), padded(TARGETS, name, with_=filler, left=not left)
            )
        )
        close(got, expected)


def test_ignored_ids_in_the_middle() -> None:
    """-100 between ids is dropped, not replaced."""
    ids = padded(["the cat sat on"], with_=-100)
    holes = np.insert(ids, 3, -100, axis=1)
    labels = np.insert(padded(["the cat"]), 2, [[-100], [-7]], axis=1)
    close(compute()(prediction(holes, labels)), core(["the cat sat on"], ["the cat"]))


def test_logits() -> None:
    """Logits mean their largest entry, where there is a label; the helper gives the same without keeping logits."""
    references = ["the cat ran", "a cat ran", "birds can"]
    labels = padded(references)
    ids = labels.copy()
    ids[:, 2] = tokenizer("bert")("dog").input_ids[1]  # wrong in one place
    ids[ids == -100] = 7  # and beyond the labels anywhere
    candidates = tokenizer("bert").batch_decode(
        [row[label >= 0] for row, label in zip(ids, labels, strict=True)], skip_special_tokens=True
    )
    assert candidates != references
    expected = core(candidates, references)
    logits = logits_of(ids)
    close(compute()(prediction(logits, labels)), expected)
    close(compute()(prediction((logits, np.zeros((3, 2))), labels)), expected)
    close(compute()(prediction([logits[:2], logits[2:]], [labels[:2], labels[2:]])), expected)
    score = compute()
    small = score.preprocess_logits_for_metrics((torch.from_numpy(logits), torch.zeros(1)), torch.from_numpy(labels))
    assert small.shape == labels.shape
    close(score(prediction(small.numpy(), labels)), expected)
    generated = torch.from_numpy(ids)
    assert score.preprocess_logits_for_metrics(generated, torch.from_numpy(labels)) is generated


def causal(prompts: list[str], answers: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the ids of prompts with answers, and labels where the prompt is -100."""
    tok = tokenizer("gpt2")
    pairs = [(tok(p).input_ids, tok(a).input_ids) for p, a in zip(prompts, answers, strict=True)]
    width = max(len(p) + len(a) for p, a in pairs)
    ids = [p + a + [tok.eos_token_id] * (width - len(p) - len(a)) for p, a in pairs]
    labels = [[-100] * len(p) + a + [-100] * (width - len(p) - len(a)) for p, a in pairs]
    return np.array(ids), np.array(labels)


def test_logits_of_decoder_only_models() -> None:
    """Logits predict the next token, and those of the prompt are dropped."""
    prompts, answers = ["say it:", "a longer prompt is here:"], [" the cat sat", " a dog"]
    ids, labels = causal(prompts, answers)
    logits = logits_of(np.concatenate([ids[:, 1:], ids[:, :1]], axis=1))  # what the next token is
    expected = core([a.strip() for a in answers], [a.strip() for a in answers])
    score = compute("gpt2", decoder_only=True)
    close(score(prediction(logits, labels)), expected)
    small = score.preprocess_logits_for_metrics(torch.from_numpy(logits), torch.from_numpy(labels))
    close(score(prediction(small.numpy(), labels)), expected)
    whole = np.where(ids == tokenizer("gpt2").eos_token_id, -100, ids)  # no prompt: the first token is not predicted
    texts = tokenizer("gpt2").batch_decode([row[row >= 0][1:] for row in whole])
    close(score(prediction(logits, whole)), core(texts, texts))
    unshifted = compute("gpt2")(prediction(logits, labels))
    assert unshifted["bertscore_f1"] < 0.99  # so the shift is seen


def test_prompts_of_decoder_only_models() -> None:
    """Generated ids lose their prompt, which the Trainer passes as inputs, or whose length is known."""
    tok = tokenizer("gpt2")
    prompts = [tok(text).input_ids for text in ("say it:", "a longer prompt:")]
    width = max(map(len, prompts)) + 1
    inputs = np.array([[tok.eos_token_id] * (width - len(row)) + row for row in prompts])
    answers = [tok(" the cat sat").input_ids, tok(" a dog").input_ids]
    longest = max(map(len, answers))
    generated = np.array(
        [[*i, *a, *[-100] * (longest - len(a))] for i, a in zip(inputs.tolist(), answers, strict=True)]
    )
    labels = padded([" the cat", " a dog"], "gpt2")
    expected = core(["the cat sat", "a dog"], ["the cat", "a dog"])
    score = compute("gpt2", decoder_only=True)
    close(score(prediction(generated, labels, inputs)), expected)
    close(score(prediction(generated, labels, np.pad(inputs, ((0, 0), (0, 2)), constant_values=-100))), expected)
    close(score(prediction(generated, labels, {"input_ids": torch.from_numpy(inputs)})), expected)
    close(compute("gpt2", decoder_only=True, prompt_length=width)(prediction(generated, labels)), expected)
    with pytest.raises(ValueError, match=r"include_for_metrics=\['inputs'\]"):
        score(prediction(generated, labels))
    with pytest.raises(ValueError, match=r"predictions\[0\] does not begin with its prompt"):
        score(prediction(generated[:, 1:], labels, inputs))
    with pytest.raises(ValueError, match="2 rows of predictions and 1 prompts"):
        score(prediction(generated, labels, inputs[:1]))


def test_external_references(request: pytest.FixtureRequest) -> None:
    """References by row replace the labels, one or several each, and cut the rows that repeat the first."""
    several = [[text, "something else"] for text in TARGETS]
    ids, labels = padded(CANDIDATES), padded(TARGETS)
    close(compute(references=several)(prediction(ids, labels)), core(CANDIDATES, several))
    for references in (TARGETS[:4], [*TARGETS, "one more"]):
        with pytest.raises(ValueError, match=r"passed 5 rows, which cannot be [46] samples"):
            compute(references=references)(prediction(ids, labels))
    request.getfixturevalue("two_processes")
    wrapped = np.r_[0:5, 0:3]
    close(compute(references=TARGETS)(prediction(ids[wrapped], labels[wrapped])), core(CANDIDATES, TARGETS))


@pytest.mark.parametrize(
    ("references", "message"),
    [
        ([*TARGETS[:1], None, *TARGETS[2:]], r"references\[1\] is None"),
        ([["a"], ["b", None]], r"references\[1\]\[1\] is None"),
        ({"news": ["a"], "talks": ["b", 7]}, r"references\['talks'\]\[1\] is of type int"),
        ([["a"], []], r"references\[1\] is an empty group"),
        (["a", ["b"]], r"references mixes single texts"),
        ({"news": "a text"}, r"references\['news'\] must be a sequence with an entry for each row, got one str"),
    ],
)
def test_references_are_checked_at_once(references: Any, message: str) -> None:
    """What references hold is checked before anything is trained, and named by its place."""
    with pytest.raises((TypeError, ValueError), match=message):
        compute(references=references)


@pytest.mark.usefixtures("two_processes")
@pytest.mark.parametrize(
    "said", [5, np.int64(5), {"talks": 7, "news": 5}, lambda: 5, lambda passed: len(passed.label_ids) - 3]
)
def test_num_samples(said: Any) -> None:
    """Rows that fill batches are cut: a number, numbers by name, or a function."""
    wrapped = np.r_[0:5, 0:3]
    score = compute(num_samples=said)
    score.select("news" if isinstance(said, dict) else None)
    got = score(prediction(padded(CANDIDATES)[wrapped], padded(TARGETS)[wrapped]))
    close(got, core(CANDIDATES, TARGETS))
    assert score.result is not None
    assert score.result.n_segments == 5


def test_num_samples_that_cannot_be_right(request: pytest.FixtureRequest) -> None:
    """A number that these rows cannot be is an error, and leaves nothing behind."""
    ids, labels = padded(CANDIDATES), padded(TARGETS)
    for said in (4, 6):
        score = compute(num_samples=said)
        with pytest.raises(ValueError, match=r"passed 5 rows, which cannot be . samples: none may be missing"):
            score(prediction(ids, labels))
    close(compute(num_samples=5)(prediction(ids, labels)), core(CANDIDATES, TARGETS))
    request.getfixturevalue("two_processes")
    with pytest.raises(ValueError, match=r"passed 5 rows, which cannot be 4 samples"):
        compute(num_samples=4)(prediction(ids, labels))  # the fifth repeats nothing


@pytest.mark.parametrize("said", [{"references": TARGETS[:2]}, {"num_samples": 2}])
def test_one_process_repeats_no_row(said: dict[str, Any], request: pytest.FixtureRequest) -> None:
    """Rows whose labels are alike are samples, so that a number too small is an error; on two processes they repeat."""
    rows_passed = prediction(padded(CANDIDATES[:3]), padded([TARGETS[0]] * 3))
    with pytest.raises(ValueError, match=r"3 rows, which cannot be 2.* samples.* only several processes repeat rows"):
        compute(**said)(rows_passed)
    request.getfixturevalue("two_processes")
    score = compute(**said)
    score(rows_passed)
    assert score.result is not None
    assert score.result.n_segments == 2


def test_several_data_sets() -> None:
    """References by name are those of the data set that is selected, and none is guessed."""
    ids, labels = padded(CANDIDATES), padded(TARGETS)
    score = compute(references={"all": TARGETS, "few": TARGETS[:2], "others": TARGETS[::-1][:2]})
    with pytest.raises(ValueError, match=r"for all, few, others. None of them was selected: call select\(name"):
        score(prediction(ids, labels))
    score.select("all")
    close(score(prediction(ids, labels)), core(CANDIDATES, TARGETS))
    score.select("others")
    close(score(prediction(ids[:2], labels[:2])), core(CANDIDATES[:2], TARGETS[::-1][:2]))
    score.select("mine")
    with pytest.raises(ValueError, match=r"for all, few, others. select\('mine'\) names none of them"):
        score(prediction(ids[:2], labels[:2]))
    score = compute(references={"all": TARGETS}, num_samples={"few": 2})
    score.select("few")
    close(score(prediction(ids[:2], labels[:2])), core(CANDIDATES[:2], TARGETS[:2]))


@pytest.mark.filterwarnings("ignore:.*batch_eval_metrics")
def test_batches() -> None:
    """Rows that come in batches are one evaluation, which ends with `compute_result`."""
    parameter = inspect.signature(ComputeBERTScore.__call__).parameters["compute_result"]
    assert parameter.default is True
    ids, labels = torch.from_numpy(padded(CANDIDATES)), torch.from_numpy(padded(TARGETS))
    for idf in (False, True):
        score = compute(idf=idf)
        for _ in range(2):
            assert score(prediction(ids[:2], labels[:2]), compute_result=False) == {}
            assert score(prediction(ids[2:4], labels[2:4]), compute_result=False) == {}
            close(score(prediction(ids[4:], labels[4:]), compute_result=True), core(CANDIDATES, TARGETS, idf=idf))
    assert score(prediction(ids[:2], labels[:2]), compute_result=False) == {}
    score.reset()
    close(score(prediction(ids, labels)), core(CANDIDATES, TARGETS, idf=True))


def test_long_texts_in_windows() -> None:
    """Texts that are longer than a window are scored whole, and the result says in how many windows."""
    settings = {"long_text": "windows", "max_length": 4}
    score = compute(**settings)
    close(score(prediction(padded(CANDIDATES), padded(TARGETS))), core(CANDIDATES, TARGETS, **settings))
    expected = BERTScorer(encoder=HashEncoder(), tokenizer=tokenizer("bert"), **settings).score(CANDIDATES, TARGETS)
    assert score.result.n_windows == expected.n_windows > 0


@pytest.mark.filterwarnings("ignore:.*batch_eval_metrics")
def test_a_rejected_batch_ends_the_evaluation() -> None:
    """After an error nothing of the evaluation is left."""
    ids, labels = padded(CANDIDATES), padded(TARGETS)
    score = compute()
    errors: list[tuple[Any, Any, type[Exception], str]] = [
        (np.full((2, 3), 0.5), labels[:2], TypeError, r"predictions \[row, token\] must be token ids, got fractions"),
        (np.full((2, 3), np.nan), labels[:2], TypeError, "got NaN or infinity"),
        (np.full((2, 3), np.inf), labels[:2], TypeError, "got NaN or infinity"),
        (
            ids[:2],
            np.full((2, 3), 10**6),
            ValueError,
            r"label_ids hold the id 1000000, but the tokenizer knows \d+ ids",
        ),
        (["a", "b"], labels[:2], TypeError, "predictions must be arrays or lists of ids, got str"),
        (np.zeros(3, np.int64), labels[:2], ValueError, r"got shape \[3\]"),
        (ids[:3], labels[:2], ValueError, "3 rows of predictions for 2 rows of label_ids"),
        (ids[:2], None, ValueError, "There are no label_ids"),
        (np.zeros((2, 4, 400)), labels[:2], ValueError, r"logits of the places \[2, 4\] and labels of \[2, "),
    ]
    for predictions, label_ids, kind, message in errors:
        score(prediction(ids[:2], labels[:2]), compute_result=False)
        with pytest.raises(kind, match=message):
            score(prediction(predictions, label_ids), compute_result=False)
        close(score(prediction(ids, labels)), core(CANDIDATES, TARGETS))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"all_layers": True, "model_name_or_path": "offline"}, "choose one layer with num_layers"),
        ({"prompt_length": 3}, "only used with decoder_only=True"),
        ({"num_layer": 3}, "did you mean 'num_layers'"),
        ({"references": "a text"}, "an entry for each row, got one str"),
        (
            {"references": TARGETS, "num_samples": 4},
            "num_samples says 4, there are references for 5 rows; they must agree",
        ),
        ({"num_samples": 0}, "num_samples must be at least 1"),
        ({"num_samples": "5"}, "num_samples must be an int, got str"),
        ({"num_samples": {"a": -1}}, r"num_samples\['a'\] must be at least 1"),
        ({"decoder_only": True, "prompt_length": -3}, "prompt_length must be at least 0"),
        ({"decoder_only": True, "prompt_length": True}, "prompt_length must be an int, got bool"),
    ],
)
def test_wrong_settings(settings: dict[str, Any], message: str) -> None:
    """Wrong settings are errors at construction."""
    with pytest.raises((TypeError, ValueError), match=message):
        compute(**settings)
    with pytest.raises(TypeError, match="model that scores is named by model_name_or_path="):
        ComputeBERTScore("offline")


def test_unknown_predictions_are_mentioned() -> None:
    """A model may have more places than its tokenizer has tokens, so what it says there is no error."""
    with pytest.warns(BERTScoreWarning, match="predictions hold the id 1000000, but the tokenizer knows"):
        compute()(prediction(np.array([[10**6, *padded(CANDIDATES[:1])[0]]]), padded(TARGETS[:1])))


@pytest.mark.usefixtures("two_processes")
def test_a_process_that_cannot_load_tells_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The encoder that was let go is loaded before the scores are exchanged, where others would wait."""
    told: list[Any] = []

    def gather(columns: Any, failure: Any, **_: Any) -> None:
        told.append(failure)
        raise failure

    monkeypatch.setattr("bertscore_metric.adapters.trainer.gather", gather)
    score = ComputeBERTScore(tokenizer("bert"), distributed=True, num_samples=5, **SETTINGS)
    score.release()

    def fails() -> None:
        raise OSError("no such file here")

    monkeypatch.setattr(score._shared, "_load", fails)
    with pytest.raises(OSError, match="no such file here"):
        score(prediction(padded(CANDIDATES), padded(TARGETS)))
    assert [str(failure) for failure in told] == ["no such file here"]


@pytest.mark.filterwarnings("ignore:.*batch_eval_metrics")
def test_release_and_pickle() -> None:
    """The encoder is let go between evaluations and comes back; pickling leaves it out."""
    score = ComputeBERTScore(tokenizer("bert"), release_encoder=True, **SETTINGS)
    ids, labels = padded(CANDIDATES), padded(TARGETS)
    first = score(prediction(ids, labels))
    assert type(score._shared.reporter.model.encoder).__name__ == "ReleasedEncoder"
    assert score(prediction(ids, labels)) == first
    score(prediction(ids[:1], labels[:1]), compute_result=False)
    copied = pickle.loads(pickle.dumps(score))
    assert copied(prediction(ids, labels)) == first
    assert str(copied.signature) == str(score.signature)


def test_references_are_embedded_once() -> None:
    """Later evaluations embed only what the model says."""
    encoder = HashEncoder()
    score = compute(encoder=encoder)
    ids, labels = padded(CANDIDATES), padded(TARGETS)
    score(prediction(ids, labels))
    before = encoder.n_texts
    score(prediction(ids, labels))
    assert encoder.n_texts - before == len(set(CANDIDATES) - set(TARGETS))


def test_import_is_light() -> None:
    """Importing the room imports no Trainer."""
    code = (
        "import sys, bertscore_metric.adapters.trainer\n"
        "print([n for n in ('transformers.trainer', 'accelerate', 'datasets', 'evaluate') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


WAYS = ("callback", "num_samples", "references")


@pytest.mark.filterwarnings("ignore:.*batch_eval_metrics")
def test_real_trainer_on_one_and_two_processes(tmp_path: Path) -> None:
    """Seq2SeqTrainer gives the same numbers for five rows in every way of evaluating, on one process and on two."""
    alone = seq2seq.evaluations(tmp_path)
    plain = [values for name, values in alone.items() if name.split()[0] in WAYS and "idf" not in name]
    assert plain[0][0] == 5
    assert all(values == pytest.approx(plain[0], abs=TOLERANCE) for values in plain)
    assert alone["predict"] == pytest.approx([5, plain[0][3]], abs=TOLERANCE)
    assert alone["logits False"] == pytest.approx(alone["logits True"], abs=TOLERANCE)
    assert alone["logits True"][1] == 5
    weighted = [values for name, values in alone.items() if "idf" in name]
    assert weighted[0] == pytest.approx(weighted[1], abs=TOLERANCE)
    assert weighted[0] != pytest.approx(plain[0], abs=1e-5)
    for there in seq2seq.on_two_processes(tmp_path):
        assert set(there) == set(alone)
        for name, values in there.items():
            assert values == pytest.approx(alone[name], abs=TOLERANCE), name


def test_best_model_and_early_stopping(tmp_path: Path) -> None:
    """`metric_for_best_model` and early stopping read the score, during training, over several data sets."""
    from transformers import EarlyStoppingCallback

    tok = tokenizer()
    score = ComputeBERTScore(tok, **SETTINGS)
    run = trainer(
        tmp_path,
        score,
        eval_dataset={"all": rows(tok), "few": rows(tok, SOURCES[:3], TARGETS[:3])},
        eval_strategy="epoch",
        save_strategy="epoch",
        num_train_epochs=3,
        learning_rate=0.0,
        save_total_limit=1,
        load_best_model_at_end=True,
        metric_for_best_model="all_bertscore_f1",
        greater_is_better=True,
    )
    run.add_callback(EarlyStoppingCallback(early_stopping_patience=1))
    run.train()
    logged = [entry for entry in run.state.log_history if "eval_all_bertscore_f1" in entry]
    assert len(logged) == 2  # the second is no better than the first, so it stops before the third
    assert run.state.best_metric == logged[0]["eval_all_bertscore_f1"]
    assert any("eval_few_bertscore_f1" in entry for entry in run.state.log_history)
    assert json.dumps(run.state.log_history)


class BrokenError(RuntimeError):
    """What an evaluation dies of."""


@pytest.mark.parametrize("another", [None, True, False])
def test_broken_evaluation(tmp_path: Path, another: bool | None, caplog: pytest.LogCaptureFixture) -> None:
    """An evaluation that dies after its first batch leaves nothing to the next, of the same Trainer or another one."""
    score = ComputeBERTScore(tokenizer(), **SETTINGS)
    run = trainer(tmp_path, score, batch_eval_metrics=True)
    good = run.evaluate()["eval_bertscore_f1"]
    break_off(run)
    assert len(score._evaluation.labels) == 2
    if another is not None:
        run = trainer(tmp_path, score, batch_eval_metrics=another)
    assert run.evaluate()["eval_bertscore_f1"] == pytest.approx(good, abs=TOLERANCE)
    assert score.result is not None
    assert score.result.n_segments == 5
    assert "Forgetting 2 rows of an evaluation that was broken off" in caplog.text


def test_without_a_callback(tmp_path: Path) -> None:
    """Rows in batches without the callback are scored, with one warning that says what it would prevent."""
    score = ComputeBERTScore(tokenizer(), num_samples=5, **SETTINGS)
    run = trainer(tmp_path, score, callback=False, batch_eval_metrics=True)
    with pytest.warns(BERTScoreWarning, match="Add this object's callback to its callbacks"):
        good = run.evaluate()
    break_off(run)
    with pytest.raises(ValueError, match=r"[67] rows, which cannot be 5 samples.*broken off call reset"):
        run.evaluate()
    assert run.evaluate()["eval_bertscore_f1"] == good["eval_bertscore_f1"]


def break_off(run: Any, at: int = 2) -> None:
    """Let an evaluation die at a batch, and the next ones not."""
    step, calls = run.prediction_step, []

    def dies(*arguments: Any, **more: Any) -> Any:
        calls.append(1)
        if len(calls) == at:
            raise BrokenError
        return step(*arguments, **more)

    run.prediction_step = dies
    with pytest.raises(BrokenError):
        run.evaluate()
    run.prediction_step = step


def test_broken_evaluation_of_a_data_loader_that_is_kept(tmp_path: Path) -> None:
    """With one data loader for all evaluations a broken one makes the next an error, and nothing after it."""
    score = ComputeBERTScore(tokenizer(), **SETTINGS)
    run = trainer(
        tmp_path, score, batch_eval_metrics=True, dataloader_persistent_workers=True, dataloader_num_workers=1
    )
    good = run.evaluate()
    break_off(run)
    with pytest.raises(ValueError, match=r"[67] rows, which cannot be 5 samples"):
        run.evaluate()
    assert run.evaluate()["eval_bertscore_f1"] == good["eval_bertscore_f1"]


@pytest.mark.parametrize("batch_eval", [True, False])
def test_references_that_are_too_few(tmp_path: Path, batch_eval: bool) -> None:
    """No sample is taken for a row that fills a batch because its label is that of another."""
    data = rows(tokenizer(), SOURCES, [TARGETS[0]] * 5)
    score = ComputeBERTScore(tokenizer(), references=TARGETS[:4], **SETTINGS)
    run = trainer(tmp_path, score, eval_dataset=data, batch_eval_metrics=batch_eval)
    with pytest.raises(ValueError, match="there are references for 4, the data set has 5 rows; they must agree"):
        run.evaluate()


def test_references_by_name_in_one_evaluation(tmp_path: Path) -> None:
    """The Trainer's own data sets of one size find their references where it names them."""
    from transformers import Seq2SeqTrainer

    references = {"news": TARGETS, "talks": TARGETS[::-1]}
    score = ComputeBERTScore(tokenizer(), references=references, **SETTINGS)
    run = trainer(tmp_path, score, eval_dataset={name: rows(tokenizer()) for name in references})
    with pytest.raises(ValueError, match=r"for news, talks. None .*call select\(name\).*get_eval_dataloader, which is"):
        run.evaluate()

    def named(self: Any, eval_dataset: Any = None) -> Any:
        score.select(eval_dataset if isinstance(eval_dataset, str) else None)
        return Seq2SeqTrainer.get_eval_dataloader(self, eval_dataset)

    run.__class__ = type("Named", (Seq2SeqTrainer,), {"get_eval_dataloader": named})
    got = run.evaluate()
    for name, texts in references.items():
        alone = ComputeBERTScore(tokenizer(), references=texts, **SETTINGS)
        expected = trainer(tmp_path, alone).evaluate()["eval_bertscore_f1"]
        assert got[f"eval_{name}_bertscore_f1"] == pytest.approx(expected, abs=TOLERANCE)


def test_references_and_an_order_by_length(tmp_path: Path) -> None:
    """Rows that are sorted by length are refused where references belong to rows, before training begins."""
    from transformers import TrainingArguments

    new = "train_sampling_strategy" in inspect.signature(TrainingArguments).parameters
    by_length: dict[str, Any] = {"train_sampling_strategy": "group_by_length"} if new else {"group_by_length": True}
    score = ComputeBERTScore(tokenizer(), references=TARGETS, **SETTINGS)
    run = trainer(tmp_path, score, eval_strategy="epoch", **by_length)
    for act in (run.evaluate, run.train):
        with pytest.raises(ValueError, match="group_by_length changes the order of evaluation sets"):
            act()
    assert run.state.global_step == 0
    assert trainer(tmp_path, ComputeBERTScore(tokenizer(), **SETTINGS), **by_length).evaluate()


@pytest.mark.filterwarnings("ignore:.*batch_eval_metrics")
def test_callback_resets_when_training_goes_on() -> None:
    """A step of training after a broken evaluation begins anew."""
    score = compute()
    ids, labels = padded(CANDIDATES), padded(TARGETS)
    for event in ("on_train_begin", "on_step_begin", "on_train_end", "on_evaluate", "on_predict"):
        score(prediction(ids[:2], labels[:2]), compute_result=False)
        getattr(score.callback, event)(None, None, None, metrics={})
        close(score(prediction(ids, labels)), core(CANDIDATES, TARGETS))


def test_trainer_with_logits(tmp_path: Path) -> None:
    """Without generation the Trainer passes logits; the helper shrinks them and changes nothing."""
    scores = []
    for helper in (False, True):
        for batch_eval in (False, True):
            score = ComputeBERTScore(tokenizer(), **SETTINGS)
            more = {"preprocess_logits_for_metrics": score.preprocess_logits_for_metrics} if helper else {}
            run = trainer(tmp_path, score, generate=False, batch_eval_metrics=batch_eval, **more)
            scores.append(run.evaluate()["eval_bertscore_f1"])
    assert scores == pytest.approx([scores[0]] * 4, abs=TOLERANCE)


def test_plain_trainer_with_a_decoder_only_model(tmp_path: Path) -> None:
    """Trainer and a causal model: the scores are those of the argmax of the answers."""
    from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

    tok = tokenizer("gpt2")
    net = AutoModelForCausalLM.from_pretrained(MODELS / "gpt2")
    ids, labels = causal(["say it:", "a prompt:", "now:"], [" the cat sat", " a dog", " birds"])
    data = [{"input_ids": row, "labels": label} for row, label in zip(ids.tolist(), labels.tolist(), strict=True)]
    score = ComputeBERTScore(tok, decoder_only=True, **SETTINGS)
    run = Trainer(
        model=net,
        args=TrainingArguments(
            output_dir=str(tmp_path), per_device_eval_batch_size=2, use_cpu=True, report_to=[], disable_tqdm=True,
            dataloader_pin_memory=False,
        ),
        eval_dataset=data,
        compute_metrics=score,
        preprocess_logits_for_metrics=score.preprocess_logits_for_metrics,
        callbacks=[score.callback],
    )  # fmt: skip
    got = run.evaluate()["eval_bertscore_f1"]
    with torch.no_grad():
        chosen = net(torch.tensor(ids)).logits.argmax(-1)[:, :-1]
    wanted = labels[:, 1:]
    texts = tok.batch_decode([row[mask].tolist() for row, mask in zip(chosen, wanted >= 0, strict=True)],
                             skip_special_tokens=True)  # fmt: skip
    answers = tok.batch_decode([row[row >= 0].tolist() for row in wanted], skip_special_tokens=True)
    expected = BERTScorer(**SETTINGS).score(texts, answers).mean.f1
    assert got == pytest.approx(expected, abs=TOLERANCE)
    unlabelled = run.predict([{"input_ids": row["input_ids"]} for row in data]).predictions
    assert np.array_equal(unlabelled[:, 1:], chosen.numpy())
    assert set(unlabelled[:, 0]) == {-100}
    assert run.evaluate()["eval_bertscore_f1"] == got


def test_rows_that_may_repeat_are_refused(request: pytest.FixtureRequest) -> None:
    """On several processes rows may repeat, so that nothing is scored where nobody says how many samples there are."""
    wrapped = np.r_[0:5, 0:3]
    rows_passed = prediction(padded(CANDIDATES)[wrapped], padded(TARGETS)[wrapped])
    score = compute()
    score(rows_passed)  # one process: all are samples
    request.getfixturevalue("two_processes")
    with pytest.raises(ValueError, match=r"may repeat the first rows at.*callback.*num_samples= or references="):
        score(rows_passed)


def test_plain_tuples() -> None:
    """A tuple of predictions and labels is taken as an EvalPrediction, with the inputs as its third part."""
    ids, labels = padded(CANDIDATES), padded(TARGETS)
    close(compute()((ids, labels)), core(CANDIDATES, TARGETS))
    close(compute()((ids, labels, ids)), core(CANDIDATES, TARGETS))
    for wrong, got in (((ids,), "a tuple of 1"), (ids, "ndarray"), (None, "NoneType")):
        with pytest.raises(TypeError, match=rf"^Pass an EvalPrediction or a tuple .*; got {got}\.$"):
            compute()(wrong)


def test_several_texts_for_each_row() -> None:
    """num_return_sequences, which gives more rows than labels, is named with what to do."""
    ids, labels = padded(CANDIDATES), padded(TARGETS)
    said = (
        r"Got 10 rows .* for 5 rows of label_ids\. .*\(num_return_sequences=2\), set num_return_sequences=1 in its gen"
    )
    with pytest.raises(ValueError, match=said):
        compute()(prediction(np.repeat(ids, 2, 0), labels))
    with pytest.raises(ValueError, match=r"Got 4 rows of predictions for 5 rows of label_ids\.$"):
        compute()(prediction(ids[:4], labels))
