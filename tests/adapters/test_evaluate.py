"""The evaluate module: a drop-in for the Hub's bertscore, and equal to the core."""

import json
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import datasets
import evaluate
import numpy as np
import pandas as pd
import pytest
import yaml
from conftest import MODELS, TESTS, TOLERANCE
from fakes import HashEncoder
from transformers import AutoTokenizer

from bertscore_metric import BERTScorer, BERTScoreWarning
from bertscore_metric.adapters.evaluate import BERTScore

CARD = TESTS.parent / "hub_card" / "bertscore.py"
OFFLINE = {"model_type": "offline", "num_layers": 5}
TEXTS = """the cat sat on the mat . | a cat was sitting on the mat .
a quick brown fox | the fast brown fox jumped over the lazy dog
hello there, general kenobi! | hello there
The weather is nice today and we will go to the park to play football with friends. | It is sunny, so let's play \
soccer in the park.
x | y z w
the cat sat on the mat . | the cat sat on the mat .
New York is big | Los Angeles is bigger than New York
I like it. | I love it!"""
CANDIDATES, REFERENCES = (list(side) for side in zip(*(line.split(" | ") for line in TEXTS.splitlines()), strict=True))
PLAIN = {
    "precision": [0.931639, 0.836850, 0.449452, 0.674377, 0.397950, 1, 0.900710, 0.834624],
    "recall": [0.905306, 0.623932, 0.925012, 0.757504, 0.340551, 1, 0.762015, 0.802649],
    "f1": [0.918284, 0.714874, 0.604961, 0.713528, 0.367020, 1, 0.825578, 0.818324],
}
WITH_IDF = {
    "precision": [0.918085, 0.829948, 0.409908, 0.628515, 0.397950, 1, 0.893499, 0.830883],
    "recall": [0.882336, 0.618644, 0.925012, 0.742719, 0.340551, 1, 0.756788, 0.793651],
    "f1": [0.899856, 0.708885, 0.568079, 0.680861, 0.367020, 1, 0.819481, 0.811840],
}
SECOND = (
    ["graph neural networks", "the cat sat here"],
    ["neural networks on graphs", "the cat is here now"],
    [0.897373, 0.731544],
)

Scores = dict[str, Any]


@pytest.fixture(autouse=True, scope="module")
def _caches(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Keep what evaluate writes in a folder of the tests."""
    folder = tmp_path_factory.mktemp("evaluate")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluate.config, "HF_METRICS_CACHE", str(folder / "metrics"))
        patch.setattr(evaluate.config, "HF_MODULES_CACHE", str(folder / "modules"))
        patch.setattr(sys, "path", [*sys.path])  # the loader adds the folder
        yield


def metric(**settings: Any) -> BERTScore:
    """Return a module of the tiny BERT."""
    return BERTScore(**{"model_type": str(MODELS / "bert"), "num_layers": 2, "keep_in_memory": True, **settings})


def same(scores: Scores, expected: Scores, within: float = TOLERANCE) -> bool:
    """Return whether the three lists are those expected."""
    return all(np.allclose(scores[name], expected[name], rtol=0, atol=within) for name in ("precision", "recall", "f1"))


def core(candidates: Any, references: Any, **settings: Any) -> Scores:
    """Return what the core gives."""
    result = BERTScorer(str(MODELS / "bert"), **{"num_layers": 2, **settings}).score(candidates, references)
    return {name: getattr(result, name).tolist() for name in ("precision", "recall", "f1")}


def test_load_from_the_card() -> None:
    """`evaluate.load` finds the script, and the numbers are bert_score's: plain, with idf, and again plain."""
    bertscore = evaluate.load(str(CARD), **OFFLINE)
    first = bertscore.compute(predictions=CANDIDATES, references=REFERENCES)
    assert set(first) == {"precision", "recall", "f1", "hashcode"}
    assert same(first, PLAIN, 1e-5)
    assert sum(first["f1"]) / 8 == pytest.approx(0.745321, abs=1e-5)
    assert all(type(value) is float for name in ("precision", "recall", "f1") for value in first[name])
    assert first["hashcode"].startswith("model:sentence-transformers/all-MiniLM-L6-v2|layer:5|idf:no|")
    idf = bertscore.compute(predictions=CANDIDATES, references=REFERENCES, idf=True)
    assert same(idf, WITH_IDF, 1e-5)
    assert "|idf:corpus|" in idf["hashcode"]
    second = bertscore.compute(predictions=SECOND[0], references=SECOND[1], idf=True)
    assert second["f1"] == pytest.approx(SECOND[2], abs=1e-5)  # with its own idf, not that of the first corpus
    assert same(bertscore.compute(predictions=CANDIDATES, references=REFERENCES), PLAIN, 1e-5)


def test_load_from_a_copied_folder(tmp_path: Path) -> None:
    """A folder `bertscore` with the script inside is a module, as a clone of the Space would be."""
    folder = tmp_path / "bertscore"
    shutil.copytree(CARD.parent, folder)
    bertscore = evaluate.load(str(folder), **OFFLINE)
    assert bertscore.name == "bert_score"
    assert bertscore.compute(predictions=["a cat"], references=["a cat"])["f1"] == pytest.approx([1])


def test_script_for_the_hub() -> None:
    """A script that was written for the Hub's bertscore runs with its load line changed."""
    script = """
from evaluate import load
bertscore = load("bertscore")
predictions = ["hello there", "a cat sat"]
references = [["hi there", "hello"], ["the dog", "a cat sat down", "cats"]]
results = bertscore.compute(
    predictions=predictions, references=references, lang="en", model_type="sentence-transformers/all-MiniLM-L6-v2",
    num_layers=5, verbose=False, idf=False, device="cpu", batch_size=64, nthreads=4, all_layers=False,
    rescale_with_baseline=False, baseline_path=None, use_fast_tokenizer=False,
)
print([round(v, 2) for v in results["f1"]], results["hashcode"])
for reference, prediction in zip(references, predictions):
    bertscore.add(references=reference, predictions=prediction)
again = bertscore.compute(model_type="sentence-transformers/all-MiniLM-L6-v2", num_layers=5)
"""
    session: dict[str, Any] = {}
    exec(script.replace('load("bertscore")', f"load({str(CARD)!r})"), session)
    results = session["results"]
    assert results["precision"] == pytest.approx([0.876246, 0.970696], abs=1e-5)
    assert results["recall"] == pytest.approx([0.982889, 0.846598], abs=1e-5)
    assert results["f1"] == pytest.approx([0.876246, 0.887840], abs=1e-5)
    assert session["again"] == results


def test_without_load_and_without_memory(tmp_path: Path) -> None:
    """The class works alone, and leaves no file of texts behind."""
    module = metric(keep_in_memory=False, cache_dir=str(tmp_path))
    for _ in range(2):
        module.add_batch(predictions=CANDIDATES[:3], references=REFERENCES[:3])
        module.add(prediction=CANDIDATES[3], reference=REFERENCES[3])
        assert list(tmp_path.rglob("*.arrow"))
        assert same(module.compute(), core(CANDIDATES[:4], REFERENCES[:4]))
        assert not list(tmp_path.rglob("*.arrow"))


def test_flat_and_grouped_batches_may_follow_each_other() -> None:
    """References are flat or grouped, batch by batch, and one by one; an empty batch adds nothing."""
    module = metric()
    module.add_batch(predictions=[], references=[])
    module.add_batch(predictions=["a cat"], references=["the cat"])
    module.add_batch(predictions=["a dog", "it"], references=[["dogs", "a dog"], ["that"]])
    module.add(prediction="rain", reference=["rain fell", "snow"])
    module.add(prediction="rain", reference="snow")
    expected = core(
        ["a cat", "a dog", "it", "rain", "rain"],
        [["the cat"], ["dogs", "a dog"], ["that"], ["rain fell", "snow"], ["snow"]],
    )
    assert same(module.compute(), expected)


def test_changed_settings_are_obeyed() -> None:
    """Every compute has its own settings; those that it does not name are the constructor's."""
    module = metric(idf=True)
    for change in ({}, {"num_layers": 1}, {"idf": False}, {"all_layers": True}, {"dtype": "bfloat16"}, {}):
        got = module.compute(predictions=CANDIDATES[:3], references=REFERENCES[:3], **change)
        settings: dict[str, Any] = {"idf": True, **change}
        if "all_layers" in change:
            settings["num_layers"] = None
        assert same(got, core(CANDIDATES[:3], REFERENCES[:3], **settings)), change
        assert ("|idf:no|" in got["hashcode"]) == ("idf" in change)
    layers = module.compute(predictions=["a", "b"], references=["a", "c"], all_layers=True)["f1"]
    assert len(layers) > 2
    assert all(len(layer) == 2 for layer in layers)


def test_settings_in_other_forms() -> None:
    """idf texts may be a column or an array, and a switch 0 or 1, as the Hub's takes it."""
    texts = {"predictions": CANDIDATES[:3], "references": REFERENCES[:3]}
    expected = core(*texts.values(), idf=REFERENCES)
    for idf in (np.array(REFERENCES), pd.Series(REFERENCES), datasets.Dataset.from_dict({"text": REFERENCES})["text"]):
        assert same(metric().compute(**texts, idf=idf), expected)
    assert same(metric(idf=1, all_layers=0).compute(**texts), core(*texts.values(), idf=True))
    assert same(metric(idf=True).compute(**texts, idf=0), core(*texts.values()))
    with pytest.raises(TypeError, match=r"all_layers must be True or False, got int"):
        metric().compute(**texts, all_layers=2)


def test_rescaling(tmp_path: Path) -> None:
    """Baselines are those of a file, and a path without rescaling is not used, as in the Hub's."""
    (tmp_path / "baseline.csv").write_text("LAYER,P,R,F\n0,.1,.1,.1\n1,.2,.2,.2\n2,.5,.4,.3\n")
    module = metric()
    texts = {"predictions": ["a cat"], "references": ["the cat"], "baseline_path": str(tmp_path / "baseline.csv")}
    raw = module.compute(**texts)
    scaled = module.compute(**texts, rescale_with_baseline=True)
    for name, base in (("precision", 0.5), ("recall", 0.4), ("f1", 0.3)):
        assert scaled[name] == pytest.approx([(raw[name][0] - base) / (1 - base)], abs=1e-5)


def test_own_encoder() -> None:
    """Objects go to the constructor."""
    tokenizer = AutoTokenizer.from_pretrained(MODELS / "bert")
    module = BERTScore(encoder=HashEncoder(), tokenizer=tokenizer, keep_in_memory=True)
    got = module.compute(predictions=["a cat sat"], references=["a cat"])
    assert same(
        got, {name: getattr(BERTScorer(encoder=HashEncoder(), tokenizer=tokenizer).score("a cat sat", "a cat"), name)
              .tolist() for name in ("precision", "recall", "f1")},
    )  # fmt: skip
    with pytest.raises(TypeError, match=r"encoder= is an argument of the constructor"):
        module.compute(predictions=["a"], references=["a"], encoder=HashEncoder())


class Shorter(evaluate.Metric):
    """The share of predictions that are shorter than allowed: another metric to combine with."""

    def _info(self) -> Any:
        text = datasets.Value("string")
        features = datasets.Features({"predictions": text, "references": text})
        return evaluate.MetricInfo(description="", citation="", inputs_description="", features=features)

    def _compute(self, predictions: Any, references: Any, max_len: int = 5, **others: Any) -> dict[str, float]:
        return {"shorter": float(np.mean([len(p) < max_len for p in predictions]))}


def test_combine() -> None:
    """Other metrics' arguments are left to them, with one warning each; settings may go to the constructor."""
    both = evaluate.combine([metric(), Shorter(keep_in_memory=True)])
    with pytest.warns(BERTScoreWarning, match=r"no setting 'max_len' and leaves it to the other metrics") as caught:
        got = both.compute(predictions=["a cat", "it"], references=["the cat", "that"], max_len=4, idf=True)
    assert len(caught) == 1
    assert same(got, core(["a cat", "it"], ["the cat", "that"], idf=True))
    assert got["shorter"] == 0.5
    both.add_batch(predictions=["a cat"], references=["the cat"])
    both.add(prediction="it", reference="that")
    assert both.compute(max_len=4)["f1"] == pytest.approx(
        core(["a cat", "it"], ["the cat", "that"])["f1"]
    )  # no warning


@pytest.mark.filterwarnings("ignore::bertscore_metric.BERTScoreWarning")
@pytest.mark.parametrize(
    "name",
    ["rouge_types", "use_aggregator", "use_stemmer", "tokenizer", "max_order", "smooth", "smooth_method", "lowercase",
     "tokenize", "force", "char_order", "beta", "normalized", "western_lang", "max_len", "device_id", "model_id", "k",
     "max_text_length", "mode", "model", "num_labels", "all_labels", "regexes_to_ignore", "average", "labels",
     "sample_weight", "gpus", "num_workers"],
)  # fmt: skip
def test_arguments_of_other_metrics(name: str) -> None:
    """Arguments of evaluate's other metrics are never taken for misspelled ones of ours."""
    assert metric().compute(predictions=["a"], references=["a"], **{name: 1})["f1"] == pytest.approx([1])


@pytest.mark.parametrize(
    ("name", "meant"),
    [("num_layer", "num_layers"), ("model_typ", "model_type"), ("modeltype", "model_type"), ("batchsize", "batch_size"),
     ("rescale_with_baselin", "rescale_with_baseline"), ("all_layer", "all_layers"), ("IDF", "idf"),
     ("model_name_or_pth", "model_name_or_path"), ("langs", "lang"), ("max_lenght", "max_length")],
)  # fmt: skip
def test_near_misses_are_errors(name: str, meant: str) -> None:
    """A misspelled setting is an error that names the right one, in both places."""
    with pytest.raises(ValueError, match=rf"Unknown setting '{name}'; did you mean '{meant}'\?"):
        metric(**{name: 1})
    with pytest.raises(ValueError, match=rf"did you mean '{meant}'\?"):
        metric().compute(predictions=["a"], references=["a"], **{name: 1})


@pytest.mark.parametrize("memory", [True, False])
def test_rejected_calls_leave_the_texts(memory: bool, tmp_path: Path) -> None:
    """Wrong texts are named by their row, wrong settings by their name, and what was added before is as it was."""
    module = metric(keep_in_memory=memory, cache_dir=str(tmp_path))
    module.add_batch(predictions=["a cat"], references=["the cat"])
    calls: list[tuple[str, dict[str, Any], str]] = [
        ("add_batch", {"predictions": ["a", None], "references": ["a", "b"]}, r"predictions\[1\] is None"),
        ("add_batch", {"predictions": ["a", "b"], "references": [["a"], ["", None]]}, r"references\[1\]\[1\] is None"),
        ("add_batch", {"predictions": ["a", "b"], "references": ["a"]}, r"got 2 predictions and 1 references"),
        ("add_batch", {"predictions": [1], "references": ["a"]}, r"predictions\[0\] is of type int"),
        ("add_batch", {"predictions": ["a"]}, r"references must be a sequence of texts, got NoneType"),
        ("add", {"prediction": None, "reference": "a"}, r"prediction is None"),
        ("add", {"prediction": "a", "reference": ["", None]}, r"^reference\[1\] is None"),
        ("add", {"prediction": "a", "reference": []}, r"^reference is an empty group"),
        ("compute", {"predictions": ["a", None], "references": ["a", "b"]}, r"predictions\[1\] is None"),
        ("compute", {"dtype": "int8"}, r"dtype must be one of"),
        ("compute", {"num_layers": 99}, r"num_layers=99, but bert has"),
        ("compute", {"model_type": "a", "model_name_or_path": "b"}, r"two names for one setting"),
        ("compute", {"idf": {5: 1.0}}, r"has no weight for token id"),
        (
            "compute",
            {"predictions": ["a", "b"], "references": ["c", "d"], "idf": {5: 1.0}},
            r"has no weight for token id",
        ),
        ("compute", {"long_text": "error", "max_length": 3}, r"the limit is 3"),
    ]
    for name, arguments, message in calls:
        with pytest.raises((TypeError, ValueError), match=message):
            getattr(module, name)(**arguments)
    assert len(module) == 1
    module.add(prediction="it", reference="that")
    assert same(module.compute(), core(["a cat", "it"], ["the cat", "that"]))
    with pytest.raises(ValueError, match="Nothing to score"):
        module.compute()


@pytest.mark.parametrize("memory", [True, False])
def test_a_failed_compute_leaves_nothing(memory: bool, tmp_path: Path) -> None:
    """Texts that the settings refuse fail the call, and the next one begins anew with all locks free."""
    module = metric(keep_in_memory=memory, cache_dir=str(tmp_path), long_text="error", max_length=6)
    with pytest.raises(ValueError, match="the limit is 6"):
        module.compute(predictions=["a cat " * 9], references=["a cat"])
    assert not list(tmp_path.rglob("*.arrow"))
    with pytest.raises(ValueError, match="Nothing to score"):
        module.compute()
    other = metric(keep_in_memory=memory, cache_dir=str(tmp_path))
    other.add_batch(predictions=["a"], references=["a"])
    assert module.compute(predictions=["a cat"], references=["a cat"])["f1"] == pytest.approx([1])
    assert other.compute()["f1"] == pytest.approx([1])


def test_long_texts_in_windows() -> None:
    """Long texts are scored whole where that is asked for, and the hashcode says so."""
    settings = {"long_text": "windows", "max_length": 6}
    candidates, references = ["a dog sat on the red table", "a cat"], ["the cat sat near the red table", "the cat"]
    got = metric().compute(predictions=candidates, references=references, **settings)
    assert same(got, core(candidates, references, **settings))
    assert "|maxlen:6|long:windows|" in got["hashcode"]


def test_no_model_is_an_error_that_says_so() -> None:
    """Without model and language the error says how to name one."""
    with pytest.raises(
        ValueError, match=r"^Name a model \(model_type='offline' .*lang='en'\), here or in evaluate\.load\.$"
    ):
        BERTScore(keep_in_memory=True).compute(predictions=["a"], references=["a"])


def test_zero_pairs() -> None:
    """Empty lists give empty lists."""
    with pytest.warns(BERTScoreWarning, match="No segments"):
        got = metric().compute(predictions=[], references=[])
    assert (got["precision"], got["recall"], got["f1"]) == ([], [], [])


def test_columns() -> None:
    """Columns of data sets, frames and tables, arrays and iterators are sequences of texts."""
    texts = {"prediction": CANDIDATES[:3], "reference": REFERENCES[:3]}
    table = datasets.Dataset.from_dict({**texts, "several": [[text, "x"] for text in REFERENCES[:3]]})
    frame = pd.DataFrame(texts)
    module = metric()
    expected = core(CANDIDATES[:3], REFERENCES[:3])
    for predictions, references in (
        (table["prediction"], table["reference"]),
        (table.with_format("numpy")["prediction"], table.with_format("numpy")["reference"]),
        (frame["prediction"], frame["reference"]),
        (table.data.column("prediction"), table.data.column("reference")),
        (np.array(CANDIDATES[:3]), np.array(REFERENCES[:3])),
        (iter(CANDIDATES[:3]), iter(REFERENCES[:3])),
    ):
        assert same(module.compute(predictions=predictions, references=references), expected)
    grouped = module.compute(predictions=table["prediction"], references=table["several"])
    assert same(grouped, core(CANDIDATES[:3], [[text, "x"] for text in REFERENCES[:3]]))


def test_save(tmp_path: Path) -> None:
    """`evaluate.save` writes the results as they are."""
    results = metric().compute(predictions=["a cat"], references=["the cat"])
    file = evaluate.save(tmp_path / "scores.json", **results)
    saved = json.loads(Path(file).read_text())
    assert {name: saved[name] for name in results} == results


@pytest.mark.parametrize("shards", [[[0, 1, 2], [3], []], [[], [0, 1, 2], [3]]], ids=["last empty", "first empty"])
def test_several_processes(shards: list[list[int]], tmp_path: Path) -> None:
    """Processes with uneven shares, also none, get one result on the first, round after round."""
    found: list[list[Any]] = [[], [], []]

    def work(rank: int) -> None:
        # Threads stand for processes: the locks belong to files, and evaluate knows processes by their number alone.
        module = metric(
            keep_in_memory=False, num_process=3, process_id=rank, cache_dir=str(tmp_path), experiment_id="x", timeout=20
        )
        for idf in (False, True, False):
            if shards[rank]:
                module.add_batch(
                    predictions=[CANDIDATES[k] for k in shards[rank]], references=[REFERENCES[k] for k in shards[rank]]
                )
            found[rank].append(module.compute(idf=idf))

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[1:] == [[None] * 3] * 2
    assert len(found[0]) == 3
    for scores, idf in zip(found[0], (False, True, False), strict=True):
        assert same(scores, core(CANDIDATES[:4], REFERENCES[:4], idf=idf))
    assert not list(tmp_path.rglob("*.arrow"))


@pytest.mark.parametrize("failing", [0, 1])
@pytest.mark.parametrize("added", [False, True])
def test_a_process_that_fails_takes_part(failing: int, added: bool, tmp_path: Path) -> None:
    """Wrong texts on one process fail it and the first one, without waiting, and the next round is as ever."""
    found: list[list[Any]] = [[], []]

    def work(rank: int) -> None:
        module = metric(
            keep_in_memory=False, num_process=2, process_id=rank, cache_dir=str(tmp_path), experiment_id="x", timeout=60
        )
        for turn in range(4):
            wrong = [None] if rank == failing and turn == 1 else []
            if added:
                module.add(prediction="it", reference="that")
            try:
                scores = module.compute(predictions=[CANDIDATES[rank], *wrong], references=[REFERENCES[rank], *wrong])
                found[rank].append(scores)
            except (TypeError, RuntimeError) as error:
                found[rank].append(str(error))

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    it, that = (["it"], ["that"]) if added else ([], [])
    expected = core([*it, CANDIDATES[0], *it, CANDIDATES[1]], [*that, REFERENCES[0], *that, REFERENCES[1]])
    told, other = found[0].pop(1), found[1].pop(1)
    assert all(same(scores, expected) for scores in found[0])
    assert found[1] == [None] * 3
    own = told if failing == 0 else other
    assert own.startswith("predictions[1] is None")
    assert (failing == 0 and other is None) or re.match(r"Another process failed .*predictions\[1\] is None", told)
    assert not list(tmp_path.rglob("*.arrow"))


def test_one_encoder_for_the_process() -> None:
    """Modules with the same settings share their encoder, and a changed one stays with the module."""
    one, two = metric(), metric()
    encoders = []
    for module in (one, two, one):
        module.compute(predictions=["a"], references=["a"])
        assert module._scorer is not None
        encoders.append(module._scorer.scorer.model.encoder)
    assert encoders[0] is encoders[1] is encoders[2]


def test_memory_is_freed() -> None:
    """Loading in a loop keeps no encoder but the last."""
    import gc
    import weakref

    kept = []
    for layers in (1, 2, 3):
        module = metric(num_layers=layers, dtype="bfloat16")  # which no other test keeps
        module.compute(predictions=["a"], references=["a"])
        assert module._scorer is not None
        kept.append(weakref.ref(module._scorer.scorer.model.encoder))
        del module
    metric(num_layers=0).compute(predictions=["a"], references=["a"])
    gc.collect()
    assert [ref() for ref in kept] == [None] * 3


def test_missing_evaluate() -> None:
    """Without evaluate the import says what to install."""
    code = (
        "import sys; sys.modules['evaluate'] = None\n"
        "try:\n  import bertscore_metric.adapters.evaluate\nexcept ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'bertscore_metric[evaluate]'" in done.stdout


def test_information() -> None:
    """What evaluate shows of a module is there: both formats, the citation, the settings."""
    module = metric()
    assert [type(features["references"]) is datasets.Value for features in module.features] == [True, False]
    assert "zhang2020bertscore" in module.citation
    assert "rescale_with_baseline" in module.inputs_description
    assert "rescale_with_baseline" in str(module.compute.__doc__)
    assert "stored examples" in repr(module)


def card_examples() -> list[tuple[str, str]]:
    """Return the Python blocks of the card, each with what it prints."""
    text = (CARD.parent / "README.md").read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


def test_card_examples(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Every example of the card runs on its own and prints what the card says."""
    monkeypatch.chdir(CARD.parent.parent)
    examples = card_examples()
    assert len(examples) == (CARD.parent / "README.md").read_text(encoding="utf-8").count("```python") == 4
    for code, shown in examples:
        exec(compile(code, "README.md", "exec"), {})
        assert capsys.readouterr().out == shown


def test_card_header_and_sections() -> None:
    """The card has the header of a Space, and the sections of a metric card."""
    text = (CARD.parent / "README.md").read_text(encoding="utf-8")
    _, header, body = text.split("---\n", 2)
    space = yaml.safe_load(header)
    assert space["sdk"] == "gradio"
    assert space["app_file"] == "app.py"
    assert {"evaluate", "metric"} <= set(space["tags"])
    assert {"title", "emoji", "colorFrom", "colorTo", "sdk_version", "pinned", "description"} <= set(space)
    for section in ("Metric description", "How to use", "Inputs", "Output values", "Values from the paper", "Examples",
                    "When not to use it", "Limitations and bias", "Citation", "Further references"):  # fmt: skip
        assert f"# {section}\n" in body
    assert (CARD.parent / "requirements.txt").read_text().endswith(".[evaluate,offline,plot,space]\n")
