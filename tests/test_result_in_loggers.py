"""Results go into loggers, files and notebooks as they are: no conversion by the caller."""

import copy
import json
import pickle
import sqlite3
from typing import Any

import pandas
import pyarrow
import pytest
import torch
import yaml
from conftest import model_path

from bertscore_metric import BERTScorer, BERTScoreResult, Signature
from bertscore_metric.result import Summary

BERT = model_path("bert")
LINE = "model:x|layer:2|idf:no"


@pytest.fixture(scope="module")
def result() -> BERTScoreResult:
    """Return the scores of two segments."""
    return BERTScorer(BERT, num_layers=2).score(["a cat sat", "a dog"], [["the cat", "a cat sat"], ["the dog"]])


def test_signature_is_its_line() -> None:
    """A signature is a `str` in every respect; only its parts are asked for by name."""
    signature = Signature.parse(LINE)
    assert isinstance(signature, str)
    assert signature == LINE
    assert hash(signature) == hash(LINE)
    assert {LINE: 1}[signature] == 1
    assert f"{signature}" == str(signature) == "%s" % signature == LINE  # noqa: UP031
    assert type(str(signature)) is str
    assert signature.replace("|", "\n") == LINE.replace("|", "\n")  # as loggers do with any text
    assert (signature["layer"], signature[0], signature[:5], signature.split("|")[1]) == ("2", "m", "model", "layer:2")
    with pytest.raises(KeyError, match="dtype"):
        _ = signature["dtype"]
    assert signature.with_value("layer", "3") == "model:x|layer:3|idf:no"
    assert isinstance(signature.with_value("layer", "3"), Signature)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_copies_keep_their_parts(copied: Any) -> None:
    """Copied and unpickled signatures and means are what they were."""
    signature, mean = Signature.parse(LINE), Summary(precision=0.5, recall=0.25, f1=1 / 3)
    assert (copied(signature), copied(signature).items) == (LINE, signature.items)
    assert (copied(mean), copied(mean).recall) == (mean, 0.25)


@pytest.mark.parametrize("write", [yaml.safe_dump, yaml.dump, lambda data: yaml.dump(data, Dumper=yaml.CSafeDumper)])
def test_yaml(write: Any, result: BERTScoreResult) -> None:
    """YAML gets plain text and numbers, from every writer, and reads them back."""
    row = {"signature": result.signature, "mean": result.mean, "std": result.std, "f1": result["f1"]}
    text = write(row)
    assert "!!python" not in text
    assert yaml.safe_load(text) == row


def test_json_and_tables(result: BERTScoreResult) -> None:
    """JSON, sqlite, pandas and Arrow take signature, means and columns."""
    row = {"signature": result.signature, "mean": result.mean, "std": result.std, "f1": result["f1"]}
    assert json.loads(json.dumps(row)) == row
    with sqlite3.connect(":memory:") as database:
        found = database.execute("select ?, ?", (result.signature, result.mean.f1)).fetchone()
    database.close()
    assert found == (str(result.signature), result.mean.f1)
    frame = pandas.DataFrame({"f1": result["f1"], "signature": result.signature})
    assert frame["signature"].tolist() == [str(result.signature)] * 2
    assert pyarrow.array([result.signature]).to_pylist() == [str(result.signature)]


def test_what_web_servers_return(result: BERTScoreResult) -> None:
    """FastAPI turns `to_dict()`, with segments and intervals, into the JSON that `to_json` writes."""
    encoders = pytest.importorskip("fastapi.encoders")
    assert encoders.jsonable_encoder(result.to_dict(segments=True)) == json.loads(result.to_json(segments=True))
    assert encoders.jsonable_encoder(result.signature) == str(result.signature)


def test_what_mlflow_and_wandb_take(result: BERTScoreResult) -> None:
    """A mean is a dictionary of floats by name, as `log_metrics` and `log_dict` take it, with attributes beside."""
    assert isinstance(result.mean, dict)
    assert list(result.mean.items()) == [(name, getattr(result.mean, name)) for name in ("precision", "recall", "f1")]
    assert all(type(value) is float for value in result.std.values())


def test_tensorboard_takes_it(result: BERTScoreResult, tmp_path: Any) -> None:
    """TensorBoard takes the signature as a text and the means as scalars."""
    pytest.importorskip("tensorboard")
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(tmp_path) as writer:
        writer.add_text("bertscore", result.signature)
        writer.add_scalars("bertscore", result.mean)
    assert list(tmp_path.rglob("events*"))


def test_columns_by_name(result: BERTScoreResult) -> None:
    """`result["f1"]` is a list of plain numbers, and other keys are refused in words."""
    assert result["f1"] == result.f1.tolist()
    assert result["best_reference"] == [1, 0]
    layers = BERTScorer(BERT, all_layers=True).score(["a cat"], ["the cat"])
    assert torch.tensor(layers["recall"]).shape == layers.recall.shape
    for key in ("F1", 2, "mean"):
        with pytest.raises(KeyError, match=r"has the columns precision, recall, f1, best_reference; got"):
            _ = result[key]  # type: ignore[index]


def test_notebook_table(result: BERTScoreResult) -> None:
    """A notebook shows means, deviations, counts and signature; what is in the signature cannot become HTML."""
    page = result._repr_html_()
    assert page.startswith("<table>")
    for text in (f"{result.mean.f1:.6f}", f"{result.std.recall:.6f}", "2 segments, 0 empty", result.signature):
        assert text in page
    layers = BERTScorer(BERT, all_layers=True).score(["a cat"], ["the cat"])
    assert f"{layers.mean.f1[-1]:.6f}" in layers._repr_html_()  # type: ignore[index]


def test_notebook_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    """A notebook shows an explanation as its page, in a frame that keeps its style; without jinja2 as text."""
    explanation = BERTScorer(BERT, num_layers=2).explain('a "cat" <b>', "the cat")
    frame = explanation._repr_html_()
    assert frame is not None
    assert frame.startswith('<iframe srcdoc="')
    assert frame.count("<") == 2  # the page inside is escaped
    assert "BERTScore of a pair" in frame
    monkeypatch.setitem(__import__("sys").modules, "jinja2", None)
    assert explanation._repr_html_() is None


def test_progress_bar_is_that_of_the_place(capsys: pytest.CaptureFixture[str]) -> None:
    """The bar is tqdm.auto's: a widget in a notebook, and here a line on stderr."""
    from tqdm.auto import tqdm

    from bertscore_metric import update

    assert update.tqdm is tqdm  # type: ignore[attr-defined]
    BERTScorer(BERT, num_layers=2, verbose=True).score(["a cat"], ["the cat"])
    assert "BERTScore" in capsys.readouterr().err
