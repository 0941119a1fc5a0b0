"""The command line: files, columns, options, output, and a line for every mistake."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import TESTS, model_path
from safetensors.torch import load_file

from bertscore_metric import IdfTable, cli, registry, score
from bertscore_metric.cli import options
from bertscore_metric.io import files

CANDIDATES = ["the cat sat on the red table.", "", "I like lemons.", "a dog"]
REFERENCES = ["a dog sat on the red table.", "Go go go.", "I love lemons.", "the dog walked"]
SECOND = ["the cat was near the red table.", "", "lemons I like.", "dogs"]
BERT = ["-m", model_path("bert"), "-l", "2"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the texts as files, as the current one."""
    for name, texts in (("c.txt", CANDIDATES), ("r.txt", REFERENCES), ("s.txt", SECOND)):
        (tmp_path / name).write_text("\n".join(texts) + "\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """Run the command line in this process and return what it printed; errors must be one line on stderr."""
    with pytest.raises(SystemExit) as stop:
        cli.main([*arguments])
    output = capsys.readouterr()
    assert stop.value.code == code, output.err
    if code:
        assert output.out == ""
        assert output.err.startswith("bertscore-metric: error: ")
        assert output.err.count("\n") == 1
        return output.err
    return output.out


def expected(candidates: list[str], references: Any, **settings: Any) -> Any:
    """Score the same texts through the API."""
    with pytest.warns(UserWarning, match="empty"):
        return score(candidates, references, model_path("bert"), num_layers=2, **settings)


def test_text_report(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Means and deviations come with the counts, the API's numbers; the signature is the last line."""
    result = expected(CANDIDATES, REFERENCES)
    lines = run(capsys, "score", "-c", "c.txt", "-r", "r.txt", *BERT).splitlines()
    assert lines[1] == str(result.signature)
    assert lines[0] == (
        f"P {result.mean.precision:.6f} ± {result.std.precision:.6f}  R {result.mean.recall:.6f} ± "
        f"{result.std.recall:.6f}  F1 {result.mean.f1:.6f} ± {result.std.f1:.6f}  "
        f"(4 segments, 1 empty, 0 truncated texts, unknown tokens 0.0% / 0.0%)"
    )
    assert len(lines) == 2


def test_segments(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--segments` prints a tab-separated row a segment; all else begins with `#`, so that sorted rows stay rows."""
    groups = [list(pair) for pair in zip(REFERENCES, CANDIDATES, strict=True)]
    result = expected(CANDIDATES, groups)
    score = ["score", "-c", "c.txt", "-r", "r.txt", "c.txt", "--segments", *BERT]
    lines = run(capsys, *score).splitlines()
    assert lines[0] == f"# signature\t{result.signature}"
    mean, std = ([f"{value:.6f}" for value in part.to_dict().values()] for part in (result.mean, result.std))
    assert [line.split("\t") for line in lines[1:3]] == [["# mean", *mean], ["# std", *std]]
    assert lines[3] == "# counts\t4 segments, 1 empty, 0 truncated texts, unknown tokens 0.0% / 0.0%"
    assert lines[4] == "# number\tP\tR\tF1\tbest reference"
    columns = [column.tolist() for column in (*result, result.best_reference)]
    for number, (line, p, r, f, best) in enumerate(zip(lines[5:], *columns, strict=True)):
        assert line == f"{number}\t{p:.6f}\t{r:.6f}\t{f:.6f}\t{best}"
    assert {"0", "1"} == {line.split("\t")[-1] for line in lines[5:]}
    bare = run(capsys, *score, "--no-header", "--digits", "2").splitlines()
    assert bare[4] == f"0\t{result.precision[0]:.2f}\t{result.recall[0]:.2f}\t{result.f1[0]:.2f}\t{columns[3][0]}"


def test_texts_and_ids(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On request a row has an id and the texts, each in a cell of its own whatever it holds."""
    rows = [{"name": "a", "c": "the\tcat", "r": ["a cat", "the\ncats"]}, {"name": "b\t", "c": "", "r": ["dog"]}]
    (folder / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    columns = ["--candidate-column", "c", "--reference-column", "r", "--id-column", "name"]
    lines = run(capsys, "score", "-c", "p.jsonl", *columns, "--segments", "--texts", *BERT).splitlines()
    assert lines[4].split("\t")[5:] == ["id", "candidate", "references"]
    assert lines[5].split("\t")[5:] == ["a", "the\\tcat", "a cat", "the\\ncats"]
    assert lines[6].split("\t")[5:] == ["b\\t", "", "dog"]


def test_worst(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--worst N` prints the rows with the lowest F1, lowest first and without empty ones, and is the page's number."""
    result = expected(CANDIDATES, REFERENCES)
    order = [int(number) for number in result.f1.argsort() if number != 1]
    score = ["score", "-c", "c.txt", "-r", "r.txt", *BERT]
    printed = run(capsys, *score, "--worst", "2", "--report", "page.html", "--texts")
    rows = [line.split("\t") for line in printed.splitlines() if not line.startswith("#")]
    assert [int(row[0]) for row in rows] == order[:2]
    assert [row[5] for row in rows] == [CANDIDATES[number] for number in order[:2]]
    assert (folder / "page.html").read_text(encoding="utf-8").count('class="pair"') == 2
    data = json.loads(run(capsys, *score, "--worst", "9", "--json"))
    assert [row["number"] for row in data["worst"]] == order
    assert data["worst"][0]["f1"] == result.f1[order[0]].item()
    assert "segments" not in data


def test_on_a_terminal(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal gets four decimals, a dim signature (unless NO_COLOR), and a line while the model loads."""
    result = expected(CANDIDATES, REFERENCES)
    score = ["score", "-c", "c.txt", "-r", "r.txt", *BERT]
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    lines = run(capsys, *score).splitlines()
    assert lines[0].startswith(f"P {result.mean.precision:.4f} ± {result.std.precision:.4f}  R ")
    assert lines[1] == f"\x1b[2m{result.signature}\x1b[0m"
    explained = run(capsys, "explain", "-c", "c.txt", "-r", "r.txt", *BERT)
    assert explained.endswith("\x1b[0m\n")
    run(capsys, *score, "-o", "out.txt")
    assert (folder / "out.txt").read_text().startswith(f"P {result.mean.precision:.6f} ± ")
    assert "\x1b" not in (folder / "out.txt").read_text()
    monkeypatch.setenv("NO_COLOR", "1")
    assert run(capsys, *score).splitlines()[1] == str(result.signature)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    for words, loading in (([], f"bertscore-metric: loading {BERT[1]} ...\n"), (["--quiet"], "")):
        with pytest.raises(SystemExit):
            cli.main([*score, *words])
        assert capsys.readouterr().err.startswith(loading)
        assert bool(loading) != bool(words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--texts"], "--texts is about the rows of --segments or --worst; ask for those, too."),
        (["--no-header"], "--no-header is about the rows"),
        (["--id-column", "x"], "--id-column is about the rows"),
        (["--worst", "0"], "--worst must be at least 1, got 0."),
        (["--digits", "12"], "--digits must be from 1 to 9, got 12."),
        (["-s", "--id-column", "x"], "Columns (x) are named in tables"),
        (["-s", "--id-column", "x", "-c", "s.txt"], "--id-column names a column of one candidates file"),
        (["--worst", "3", "--config", "all.yaml"], "--worst is about one layer; the config asks for all_layers."),
    ],
)
def test_mistakes_about_rows(folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    """What shapes rows needs rows, and numbers mean something; it is said before there is work."""
    (folder / "all.yaml").write_text("all_layers: true\nmodel_name_or_path: offline\n")
    model = [] if "--config" in words else BERT
    assert message in run(capsys, "score", "-c", "c.txt", "-r", "r.txt", *model, *words, code=2)


@pytest.mark.parametrize("words", [[], ["score"], ["explain"], ["tune"], ["baseline"], ["models"]])
def test_no_help_line_is_cut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """On a terminal of 80 columns every sentence of the help is whole."""
    monkeypatch.setenv("COLUMNS", "80")
    lines = run(capsys, *words, "--help").splitlines()
    assert not [line for line in lines[1:] if line.endswith("...") and "FILE..." not in line and "NAME..." not in line]
    assert max(map(len, lines)) <= 80


def test_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--json` prints the result's own dictionary, with rows when asked for."""
    result = expected(CANDIDATES, REFERENCES)
    arguments = ["score", "-c", "c.txt", "-r", "r.txt", "--json", *BERT]
    assert json.loads(run(capsys, *arguments)) == result.to_dict()
    assert json.loads(run(capsys, *arguments, "--segments")) == result.to_dict(segments=True)


def test_several_references(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Several files after one `--references`, or one each, are several references."""
    groups = [list(pair) for pair in zip(REFERENCES, SECOND, strict=True)]
    result = expected(CANDIDATES, groups)
    for words in (["-r", "r.txt", "s.txt"], ["-r", "r.txt", "-r", "s.txt"], ["--references", "r.txt", "s.txt"]):
        assert json.loads(run(capsys, "score", "-c", "c.txt", *words, "--json", *BERT)) == result.to_dict()


def test_several_candidates_in_one_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Several candidates files are a table in line above one signature, and a list in JSON."""
    (folder / "long.txt").write_bytes((folder / "s.txt").read_bytes())
    lines = run(capsys, "score", "-c", "c.txt", "long.txt", "-r", "r.txt", *BERT).splitlines()
    assert [line.split(" ")[0] for line in lines[:3]] == ["", "c.txt", "long.txt"]
    assert lines[0].split() == ["P", "R", "F1", "segments", "empty", "truncated", "unknown"]
    for column in ("P", "R", "F1", "segments", "unknown"):
        begin = lines[0].index(column)
        assert all(line[begin - 1] == " " != line[begin] for line in lines[:3])
    assert lines[3].startswith("model:bert|")
    assert len(lines) == 4
    rows = run(capsys, "score", "-c", "c.txt", "s.txt", "-r", "r.txt", "-s", *BERT).splitlines()
    assert [row.split("\t")[:2] for row in rows if not row.startswith("#")] == [
        [name, str(number)] for name in ("c.txt", "s.txt") for number in range(4)
    ]
    data = json.loads(run(capsys, "score", "-c", "c.txt", "s.txt", "-r", "r.txt", "--json", *BERT))
    for system, texts in zip(data["systems"], (CANDIDATES, SECOND), strict=True):
        assert system["mean"] == expected(texts, REFERENCES).to_dict()["mean"]


@pytest.mark.parametrize("suffix", ["tsv", "csv", "jsonl"])
def test_columns(folder: Path, capsys: pytest.CaptureFixture[str], suffix: str) -> None:
    """Candidates and references come from named columns of one table."""
    rows = list(zip(CANDIDATES, REFERENCES, SECOND, strict=True))
    file = folder / f"pairs.{suffix}"
    if suffix == "jsonl":
        lines = [json.dumps({"hyp": c, "refs": [r, s]}) for c, r, s in rows]
        columns = ["--reference-column", "refs"]
    else:
        separator = "\t" if suffix == "tsv" else ","
        lines = [separator.join(("hyp", "ref 1", "ref 2")), *(separator.join(row) for row in rows)]
        columns = ["--reference-column", "ref 1", "ref 2"]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    got = run(capsys, "score", "-c", file.name, "--candidate-column", "hyp", *columns, "--json", *BERT)
    groups = [[r, s] for _, r, s in rows]
    assert json.loads(got) == expected(CANDIDATES, groups).to_dict()


def test_quotation_marks_in_tsv_are_text(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A lone quotation mark in a tab-separated file does not swallow the next lines."""
    (folder / "q.tsv").write_text('hyp\tref\n"the cat\tthe cat\na dog\ta "dog\n', encoding="utf-8")
    arguments = ["-c", "q.tsv", "--candidate-column", "hyp", "--reference-column", "ref", "--json", *BERT]
    got = json.loads(run(capsys, "score", *arguments))
    result = score(['"the cat', "a dog"], ["the cat", 'a "dog'], model_path("bert"), num_layers=2)
    assert got == result.to_dict()


@pytest.mark.parametrize(
    "data",
    [
        "the cat\r\n\r\nlemons\u2028here\r\n".encode(),
        "\ufeffthe cat\n\nlemons\u2028here".encode(),
        "the cat\n\nlemons\u2028here\n".encode(),
    ],
    ids=["CRLF", "BOM", "LF"],
)
def test_line_endings_and_bom(folder: Path, capsys: pytest.CaptureFixture[str], data: bytes) -> None:
    """CRLF, a byte-order mark and a missing last newline change nothing; only newlines end a line."""
    (folder / "in.txt").write_bytes(data)
    got = json.loads(run(capsys, "score", "-c", "in.txt", "-r", "in.txt", "--json", "--segments", *BERT))
    assert [round(row["f1"], 5) for row in got["segments"]] == [1, 0, 1]


def test_literal_text(capsys: pytest.CaptureFixture[str]) -> None:
    """`--text` scores what stands on the command line."""
    got = json.loads(run(capsys, "score", "--text", "-c", "the cat", "-r", "a cat", "the cats", "--json", *BERT))
    assert got == score(["the cat"], [["a cat", "the cats"]], model_path("bert"), num_layers=2).to_dict()


def test_output_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--output` writes what would be printed, and nothing is printed."""
    arguments = ["score", "-c", "c.txt", "-r", "r.txt", *BERT]
    printed = run(capsys, *arguments)
    assert run(capsys, *arguments, "-o", "out.txt") == ""
    assert (folder / "out.txt").read_text(encoding="utf-8") == printed
    assert sorted(path.name for path in folder.iterdir()) == ["c.txt", "out.txt", "r.txt", "s.txt"]


def test_options_reach_the_scorer(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every option that changes a number shows in the signature, and gives the API's numbers."""
    IdfTable({2: 0.0}, default=1.5).save("table.json")
    baseline = str(TESTS / "golden" / "baseline.csv")
    cases: list[tuple[list[str], dict[str, Any]]] = [
        (["--idf"], {"idf": True}),
        (["--idf-texts", "s.txt"], {"idf": SECOND}),
        (["--idf-table", "table.json"], {"idf": IdfTable.load("table.json")}),
        (["--rescale", "--baseline-path", baseline], {"rescale_with_baseline": True, "baseline_path": baseline}),
        (["--dtype", "bfloat16"], {"dtype": "bfloat16"}),
        (["--compile"], {"compile": True}),
        (["--max-length", "30"], {"max_length": 30}),
        (["--empty", "skip"], {"empty": "skip"}),
        (["--no-match-special-tokens"], {"match_special_tokens": False}),
        (["--batch-size", "1", "--device", "cpu"], {}),
    ]
    signatures = set()
    for words, settings in cases:
        got = json.loads(run(capsys, "score", "-c", "c.txt", "-r", "r.txt", "--json", *BERT, *words))
        result = expected(CANDIDATES, REFERENCES, **settings)
        assert got["signature"] == str(result.signature), words
        assert got["mean"]["f1"] == pytest.approx(result.mean.f1, abs=1e-6), words
        signatures.add(got["signature"])
    assert len(signatures) == len(cases)


def test_config(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--config` reads a file or a shipped config, and options override it."""
    (folder / "mine.yaml").write_text(f"model_name_or_path: {model_path('bert')}\nnum_layers: 1\nidf: true\n")
    got = json.loads(run(capsys, "score", "-c", "c.txt", "-r", "r.txt", "--config", "mine.yaml", "-l", "2", "--json"))
    assert got == expected(CANDIDATES, REFERENCES, idf=True).to_dict()
    shipped = run(capsys, "score", "-c", "c.txt", "-r", "r.txt", "--config", "offline")
    assert "\nmodel:sentence-transformers/all-MiniLM-L6-v2|layer:6|" in shipped


def test_warnings_are_lines_on_stderr(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A warning is one line that names the program, and `--quiet` keeps it away."""
    for words, lines in (([], 1), (["--quiet"], 0)):
        with pytest.raises(SystemExit):
            cli.main(["score", "-c", "c.txt", "-r", "r.txt", *BERT, *words])
        error = capsys.readouterr().err
        assert error.count("\n") == lines
        assert not lines or error.startswith("bertscore-metric: 1 of 4 segments are empty on a side")


MISTAKES = [
    (["-c", "nowhere.txt", "-r", "r.txt"], r"No file 'nowhere.txt'."),
    (["-c", "c.text", "-r", "r.txt"], "No file 'c.text'. Did you mean c.txt? Literal text is scored with --text."),
    (["-c", "c.txt", "-r", "short.txt"], "c.txt has 4 candidates, but short.txt has 1 reference; line by line"),
    (["-c", "c.txt", "-r", "r.txt", "short.txt"], "equal numbers of lines: r.txt has 4, short.txt has 1"),
    (["-c", "c.txt"], "Name the references: --references FILE"),
    (["-c", "-", "-r", "-"], "Standard input (-) can be read once"),
    (["-c", "c.txt", "-r", "."], ". is a folder with tables of several kinds (.csv"),
    (["-c", "latin.txt", "-r", "r.txt"], "latin.txt, line 2: not UTF-8 (byte 0xe9)"),
    (["-c", "p.tsv", "-r", "r.txt"], "p.tsv is a table; name its column with --candidate-column. It has: hyp, ref."),
    (
        ["-c", "p.tsv", "--candidate-column", "hypo", "--reference-column", "ref"],
        "p.tsv has no column 'hypo' (--candidate-column); did you mean 'hyp'?",
    ),
    (["-c", "c.txt", "-r", "r.txt", "--candidate-column", "x"], "Columns (x) are named in tables (.tsv, .csv"),
    (["-c", "wide.tsv", "--candidate-column", "hyp", "-r", "r.txt"], "wide.tsv, line 2: 3 cells, but the header has 2"),
    (["-c", "bad.jsonl", "--candidate-column", "a", "-r", "r.txt"], "bad.jsonl, line 2: not JSON"),
    (["-c", "null.jsonl", "--candidate-column", "a", "-r", "r.txt"], "null.jsonl, line 1: column 'a' holds None"),
    (["-c", "c.txt", "-r", "r.txt", "--config", "offlin"], "No config 'offlin': not a file; did you mean 'offline'?"),
    (["-c", "c.txt", "-r", "r.txt", "--config", "bad.yaml"], "Unknown setting 'num_layer'; did you mean 'num_layers'"),
    (["-c", "c.txt", "-r", "r.txt", "--idf", "--idf-texts", "r.txt"], "Give one of --idf, --idf-texts and --idf-table"),
    (["-c", "c.txt", "-r", "r.txt", "-m", "./nowhere"], "No model folder './nowhere'"),
    (["-c", "c.txt", "-r", "r.txt", "-l", "many"], "Invalid value for '--num-layers'"),
    (["-c", "c.txt", "-r", "r.txt", "--modle", "x"], "No such option"),
    (["-c", "c.txt", "-r", "r.txt", "--dtype", "int8", *BERT], "--dtype must be one of float32, tf32"),
    (
        ["-c", "c.txt", "-r", "r.txt", "--rescale", *BERT],
        "--rescale needs the language (--lang en), or a file (--baseline-path ...)",
    ),
    (["-c", "c.txt", "-r", "r.txt"], "Name a model (--model offline needs no network"),
    (["-c", "c.txt", "c.txt", "-r", "r.txt"], "A candidates file is named twice"),
    (["-c", "", "-r", "r.txt"], "The name of a file is empty"),
    (["-c", "c.txt", "-r", "r.txt", "-o", "no/out.txt"], "There is no folder 'no' to write out.txt to"),
    (["-c", "c.txt", "-r", "r.txt", "-o", "."], "--output must name a file, got '.'"),
    (["-c", "c.txt", "-r", "r.txt", "-o", "c.txt"], "--output c.txt would overwrite an input"),
    (["-c", "c.txt", "-r", "r.txt", "--idf-table", "no.json", *BERT], "No file 'no.json' with an idf table"),
    (["-c", "c.txt", "-r", "r.txt", "--idf-table", "latin.txt", *BERT], "latin.txt is not an idf table"),
    (["-c", "list.json", "-r", "r.txt"], "list.json is JSON; only JSON lines are read"),
    (["-c", "twice.csv", "--candidate-column", "a", "-r", "r.txt"], "twice.csv has several columns named 'a'"),
    (["-c", "gap.tsv", "--candidate-column", "hyp", "-r", "r.txt"], "gap.tsv, line 3: 0 cells, but the header has 2"),
    (
        ["-c", "head.tsv", "--candidate-column", "x", "-r", "r.txt"],
        "head.tsv has no column 'x' (--candidate-column).",
    ),
    (["-c", "c.txt", "-r", "r.txt", "--device", "cuda:99", *BERT], "There is no device 'cuda:99' here"),
    (["-c", "c.txt", "-r", "r.txt", "--device", "99", *BERT], "There is no device '99' here"),
    (["-c", "c.txt", "-r", "r.txt", "--device", "meta", *BERT], "Unknown device 'meta'; use 'cpu'"),
    (["-c", "c.txt", "-r", "r.txt", "--device", "xpu", *BERT], "Unknown device 'xpu'; use 'cpu'"),
    (["-c", "c.txt", "-r", "r.txt", "--config", ""], "No config ''"),
    (["-c", "c.txt", "-r", "r.txt", "--idf-table", "", *BERT], "No file '' with an idf table"),
    (["-c", "c.txt", "-r", "r.txt", "--idf-texts", "", *BERT], "The name of a file is empty"),
    (["-c", "c.txt", "-r", "r.txt", "-o", "", *BERT], "--output must name a file, got ''"),
    (["-c", "c.txt", "-r", "r.txt", "--report", "", *BERT], "a name that ends with .html, got ''"),
    (["-c", "c.txt", "-r", "r.txt", "--rescale", "--baseline-path", "", *BERT], "--baseline-path is empty"),
    (["-c", "c.txt", "-r", "r.txt", "--model", ""], "--model is empty; leave it out or name one"),
    (["-c", "p.tsv", "--candidate-column", "", "-r", "r.txt"], "p.tsv has no column '' (--candidate-column). It has"),
    (["-c", "-", "-r", "r.txt", "--idf-texts", "-", *BERT], "Standard input (-) can be read once"),
    (["-c", "c.txt", "-r", "r.txt", "--idf-texts", "none.txt", *BERT], "none.txt holds no texts to count idf in"),
    (["-c", "~nosuchuser/x", "-r", "r.txt"], "No file '~nosuchuser/x'"),
    (["-c", "c.txt", "-r", "r.txt", "--config", "~nosuchuser/x"], "No config '~nosuchuser/x'"),
    (["-c", "c.txt", "-r", "r.txt", "-o", "~nosuchuser/x", *BERT], "There is no folder '~nosuchuser'"),
    (["-c", "c.txt", "-r", "r.txt", "-m", "~nosuchuser/x"], "No model folder '~nosuchuser/x'"),
    (["-c", "c.txt", "-r", "r.txt", "--idf-table", "words.json", *BERT], "words.json: idf must map token ids (int)"),
    (["-c", "c.txt", "-r", "r.txt", "--idf-table", "few.json", *BERT], 'give it one under the key "default"'),
    (
        ["-c", "c.txt", "-r", "r.txt", "--idf-table", "two.json", *BERT],
        "two.json is not an idf table: '7' occurs twice",
    ),
    (
        ["-c", "c.txt", "-r", "r.txt", "--config", "two.yaml"],
        "two.yaml is not valid YAML: 'lang' occurs twice in line 2",
    ),
    (["-c", "c.txt", "-r", "r.txt", "--config", "model.yaml"], "setting 'model'; did you mean 'model_name_or_path'?"),
    (
        ["-c", "c.txt", "-r", "r.txt", "--config", "size.yaml"],
        "'batch_size' changes no score, so it is an option, where",
    ),
    (["-c", "c.txt", "-r", "r.txt", "--max-length", "1", *BERT], "--max-length 1 leaves no room for text"),
    (["--text", "-c", "a", "b", "-r", "x", "y", *BERT], "--text scores one candidate against all its references"),
    (["-c", "c.txt", "-r", "r.txt", "--report", "-", *BERT], "a name that ends with .html, got '-'"),
    (["-c", "none.txt", "-r", "none.txt", *BERT], "none.txt and none.txt hold no texts, so there is nothing to score"),
    (["-c", "semi.csv", "--candidate-column", "hyp", "-r", "r.txt"], "If ; separates its columns, say --delimiter ';'"),
    (["-c", "semi.csv", "-r", "r.txt"], "It has: hyp;ref. If ; separates its columns, say --delimiter ';'"),
    (["-c", "c.txt", "-r", "r.txt", "--delimiter", ";"], "--delimiter is for .csv and .tsv files; c.txt is none"),
    (["-c", "c.txt", "-r", "r.txt", "--delimiter", "::"], "--delimiter must be one character, or tab; got '::'"),
    (["-c", "c.sgm", "-r", "r.txt"], "c.sgm holds markup, whose tags would be scored as text"),
    (["-c", "c.xml", "-r", "r.txt"], "c.xml holds markup"),
    (["-c", "open.csv", "--candidate-column", "output", "--reference-column", "gold"], "open.csv, line 2: a cell that"),
]


@pytest.mark.parametrize(("words", "message"), MISTAKES, ids=[message[:30] for _, message in MISTAKES])
def test_mistakes(folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    """A user's mistake is one line that says what to do, and exit code 2."""
    (folder / "short.txt").write_text("one\n")
    (folder / "latin.txt").write_bytes(b"a\nd\xe9j\xe0 vu\n")
    (folder / "p.tsv").write_text("hyp\tref\na\tb\n")
    (folder / "wide.tsv").write_text("hyp\tref\na\tb\tc\n")
    (folder / "bad.jsonl").write_text('{"a": "x"}\n{"a": \n')
    (folder / "null.jsonl").write_text('{"a": null}\n')
    (folder / "bad.yaml").write_text("num_layer: 3\n")
    (folder / "list.json").write_text("[]")
    (folder / "twice.csv").write_text("a,a\nx,y\n")
    (folder / "gap.tsv").write_text("hyp\tref\na\tb\n\na\tb\n")
    (folder / "head.tsv").write_text("hyp\tref\n")
    (folder / "none.txt").write_text("")
    (folder / "semi.csv").write_text("hyp;ref\na;b\n")
    for name in ("c.sgm", "c.xml"):
        (folder / name).write_text("<seg>a</seg>\n")
    (folder / "words.json").write_text('{"cat": 1.0}')
    (folder / "few.json").write_text('{"7": 1.0}')
    (folder / "two.json").write_text('{"7": 1.0, "7": 2.0}')
    (folder / "two.yaml").write_text("lang: en\nlang: de\n")
    (folder / "model.yaml").write_text("model: offline\n")
    (folder / "size.yaml").write_text("batch_size: 8\n")
    (folder / "open.csv").write_text('output,gold\nthe cat,"Yes, he said\nhello,hello\nbye,bye\n')
    assert message in run(capsys, "score", *words, code=2)


def process(*arguments: str, stdin: str = "", cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command line as a user does, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "bertscore_metric", *arguments],
        input=stdin,
        capture_output=True,
        encoding="utf-8",
        cwd=cwd,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        check=False,
    )


def test_a_process_of_its_own(folder: Path) -> None:
    """Read from a pipe, no chatter of the libraries and no progress bar reach the user."""
    stdin = "\n".join(CANDIDATES) + "\n"
    done = process("score", "-c", "-", "-r", "r.txt", "--json", "-q", *BERT, stdin=stdin, cwd=folder)
    assert done.returncode == 0
    assert done.stderr == ""
    assert json.loads(done.stdout) == expected(CANDIDATES, REFERENCES).to_dict()
    failed = process("score", "-c", "c.txt", "-r", "missing.txt", *BERT, cwd=folder)
    assert (failed.returncode, failed.stdout) == (2, "")
    assert failed.stderr.startswith("bertscore-metric: error: No file 'missing.txt'")


def test_help_and_version_need_no_torch() -> None:
    """`--help`, of every command, `--version` and the tables answer without importing torch or transformers."""
    code = (
        "import sys; from bertscore_metric import cli\n"
        "try: cli.main({arguments!r})\n"
        "except SystemExit as stop: print(stop.code, {{'torch', 'transformers'}} & set(sys.modules))"
    )
    helps = {"score": "--references", "tune": "--plot", "baseline": "--pairs", "models": "--lang"}
    cases = [([name, "--help"], option) for name, option in helps.items()]
    cases += [(["--help"], "tune"), (["--version"], "bertscore-metric 0."), (["models", "--lang", "ko"], "ko")]
    for arguments, text in cases:
        done = subprocess.run(
            [sys.executable, "-c", code.format(arguments=arguments)], capture_output=True, text=True, check=True
        )
        assert text in done.stdout
        assert done.stdout.splitlines()[-1] == "0 set()"


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_blank_lines_of_one_column_are_empty_texts(
    folder: Path, capsys: pytest.CaptureFixture[str], suffix: str
) -> None:
    """A blank line in a table of one column is a row without text, so no row shifts."""
    (folder / f"c.{suffix}").write_text("hyp\na b c\n\nlast\n")
    (folder / f"r.{suffix}").write_text("ref\na b c\nx\n\n")
    columns = ["--candidate-column", "hyp", "--reference-column", "ref"]
    got = json.loads(run(capsys, "score", "-c", f"c.{suffix}", "-r", f"r.{suffix}", *columns, "--json", "-s", *BERT))
    assert [round(row["f1"], 5) for row in got["segments"]] == [1, 0, 0]


def test_long_cells(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A cell may be longer than the limit of Python's csv module."""
    (folder / "long.csv").write_text("hyp,ref\n" + "the cat " * 20000 + ",the cat\n")
    words = ["-c", "long.csv", "--candidate-column", "hyp", "--reference-column", "ref", "-q", "--json", *BERT]
    assert json.loads(run(capsys, "score", *words))["n_truncated"] == 1


def test_windows(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--long-text windows` scores long texts whole, and both reports say in how many windows."""
    words = ["-c", "c.txt", "-r", "r.txt", "--long-text", "windows", "--max-length", "6", *BERT]
    result = expected(CANDIDATES, REFERENCES, long_text="windows", max_length=6)
    lines = run(capsys, "score", *words).splitlines()
    assert "|maxlen:6|long:windows|" in lines[1]
    assert lines[0].endswith(
        f"(4 segments, 1 empty, 0 truncated texts, {result.n_windows} windows, unknown tokens 0.0% / 0.0%)"
    )
    assert result.n_windows > 0
    assert json.loads(run(capsys, "score", "--json", *words))["n_windows"] == result.n_windows


def test_folder_that_takes_no_file(folder: Path) -> None:
    """A file that cannot be made is named as the user named it."""
    if not Path("/proc").is_dir():
        pytest.skip("there is no folder here in which nobody can make a file")
    with pytest.raises(OSError, match=r"^Cannot write /proc/x\.html: .*its folder takes no new file"):
        files.write_text("/proc/x.html", "a")


def test_output_writes_into_links(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A link stays a link, and what it points to is written."""
    (folder / "real.txt").write_text("old")
    (folder / "link.txt").symlink_to("real.txt")
    run(capsys, "score", "-c", "c.txt", "-r", "r.txt", "-o", "link.txt", *BERT)
    assert (folder / "link.txt").is_symlink()
    assert "\nmodel:bert|" in (folder / "real.txt").read_text(encoding="utf-8")


def test_all_layers_of_a_config(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With all layers the report has a line a layer, and a line for each layer of a segment."""
    (folder / "all.yaml").write_text(f"model_name_or_path: {model_path('bert')}\nall_layers: true\n")
    score = ["score", "-c", "c.txt", "-r", "r.txt", "--config", "all.yaml"]
    lines = run(capsys, *score).splitlines()
    assert [line.split("\t")[0] for line in lines[:5]] == [f"layer {number}" for number in range(5)]
    assert len(lines) == 5 + 1
    rows = run(capsys, *score, "--segments").splitlines()
    assert [row.split("\t")[:2] for row in rows if row.startswith("# mean")] == [["# mean", str(k)] for k in range(5)]
    assert rows[12] == "# number\tlayer\tP\tR\tF1\tbest reference"
    assert [row.split("\t")[:2] for row in rows[13:]] == [[str(n), str(k)] for n in range(4) for k in range(5)]
    table = run(capsys, *score, "-c", "s.txt").splitlines()
    assert [line.split()[:2] for line in table[1:7]] == [["c.txt", str(k)] for k in range(5)] + [["s.txt", "0"]]


def test_another_model_drops_the_layer_of_the_config(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A config's layer belongs to its model; `--model` takes the layer of its own table."""
    printed = run(capsys, "score", "-c", "c.txt", "-r", "r.txt", "--config", "en", "-m", "offline")
    assert "\nmodel:sentence-transformers/all-MiniLM-L6-v2|layer:6|" in printed


def test_no_words_print_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    """The bare command prints its help."""
    assert "Score candidates against references" in run(capsys)


def test_models(capsys: pytest.CaptureFixture[str]) -> None:
    """`models` prints what the tables say: a row a model, with its languages and baselines."""
    rows = {row["model"]: row for row in json.loads(run(capsys, "models", "--json"))["models"]}
    assert {name: row["layer"] for name, row in rows.items() if row["layer"] is not None} == registry.known_models()
    for code, name in registry.known_languages().items():
        assert code in rows[name]["languages"]
    with_baseline = {(code, name) for name, row in rows.items() for code in row["baselines"]}
    assert with_baseline == set(registry.baselines_for())
    lines = run(capsys, "models").splitlines()
    assert lines[0].split() == ["model", "layer", "default", "for", "baselines"]
    assert [line.split()[0] for line in lines[1:]] == list(rows)


def test_models_of_a_language(capsys: pytest.CaptureFixture[str]) -> None:
    """`--lang` puts the default model first, then those with a baseline of the language."""
    for code in ("zh", "zh-TW"):
        rows = json.loads(run(capsys, "models", "--lang", code, "--json"))["models"]
        assert rows[0]["model"] == registry.model_for_language("zh")
        assert {row["model"] for row in rows if "zh" in row["baselines"]} == {
            name for _, name in registry.baselines_for(language="zh")
        }
    assert "nearest names: Korean is 'ko'" in run(capsys, "models", "--lang", "korean", code=2)


def test_one_model(capsys: pytest.CaptureFixture[str]) -> None:
    """`--model` finds a model by any of its names; one that is not there is an error that says what to do."""
    for name in ("roberta-large", "FacebookAI/roberta-large"):
        assert run(capsys, "models", "--model", name).splitlines()[1].split() == ["roberta-large", "17", "en", "en"]
    assert "all-MiniLM-L6-v2  6 " in run(capsys, "models", "--model", "offline")
    message = run(capsys, "models", "--model", "robert-large", code=2)
    assert "The tables do not know the model 'robert-large'; did you mean 'roberta-large'" in message
    assert "`bertscore-metric tune` finds a better layer" in message


def test_explain(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One segment is explained with the idf of the whole file; its numbers are those of `score`."""
    result = expected(CANDIDATES, REFERENCES, idf=True)
    shown = run(capsys, "explain", "-c", "c.txt", "-r", "r.txt", "--idf", "--segment", "2", *BERT)
    assert shown.startswith(f"P {result.precision[2]:.6f}  R {result.recall[2]:.6f}")
    assert "lemons" in run(capsys, "explain", "-c", "c.txt", "-r", "r.txt", "--words", "--segment", "2", *BERT)
    run(capsys, "explain", "--text", "-c", "a cat", "-r", "the dog", "a cat", *BERT, "-o", "pair.html")
    assert "F1 1.000000" in (folder / "pair.html").read_text(encoding="utf-8")
    (folder / "corpus.txt").write_text("lemons\na cat\n", encoding="utf-8")
    (folder / "idf.json").write_text('{"101": 2.0, "default": 0.5}', encoding="utf-8")
    for option, file, weights in (("--idf-texts", "corpus.txt", ["lemons", "a cat"]),
                                  ("--idf-table", "idf.json", {101: 2.0, "default": 0.5})):  # fmt: skip
        result = expected(CANDIDATES, REFERENCES, idf=weights)
        shown = run(capsys, "explain", "-c", "c.txt", "-r", "r.txt", option, file, "--segment", "2", *BERT)
        assert shown.endswith(f"\n{result.signature}\n")
        assert shown.startswith(f"P {result.precision[2]:.6f}  R {result.recall[2]:.6f}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--segment", "4"], "There is no segment 4; the files have 4, numbered from 0."),
        (["-o", "pair.doc"], "use .html, .txt, .png, .svg or .pdf"),
        (["-o", "c.txt"], "would overwrite an input"),
        (["-c", "s.txt"], "about one candidates file"),
        (["--by", "F"], "by must be 'precision', 'recall' or 'f1'"),
        (["--idf", "--idf-texts", "c.txt"], "Give one of --idf, --idf-texts and --idf-table."),
        (["--idf-table", "none.json"], "No file 'none.json' with an idf table."),
        (["--idf-texts", "c.txt", "-o", "c.txt"], "would overwrite an input"),
    ],
)
def test_explain_mistakes(folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    """What cannot be explained is said in a line."""
    assert message in run(capsys, "explain", "-c", "c.txt", "-r", "r.txt", *BERT, *arguments, code=2)


def test_report(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The page is written beside what is printed, and the sample for annotators beside the page."""
    result = expected(CANDIDATES, REFERENCES)
    printed = run(
        capsys, "score", "-c", "c.txt", "-r", "r.txt", *BERT, "--report", "page.html", "--sample", "3", "--seed", "2"
    )
    assert f"F1 {result.mean.f1:.6f}" in printed
    assert f"{result.mean.f1:.6f}" in (folder / "page.html").read_text(encoding="utf-8")
    assert len((folder / "page.csv").read_text(encoding="utf-8").splitlines()) == 4


def test_scores_come_before_what_may_fail(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scores are printed, or written, whatever then fails in a page."""

    def fails(*_: Any, **__: Any) -> None:
        raise ValueError("no picture today")

    monkeypatch.setattr("bertscore_metric.analysis.report_page.report_page", fails)
    score = ["score", "-c", "c.txt", "-r", "r.txt", *BERT, "--report", "page.html"]
    for words in ([], ["-o", "out.txt"]):
        with pytest.raises(SystemExit) as stop:
            cli.main([*score, *words])
        assert stop.value.code == 2
        printed = capsys.readouterr()
        assert "bertscore-metric: error: no picture today" in printed.err
        assert "F1 " in (printed.out or (folder / "out.txt").read_text(encoding="utf-8"))
    assert not (folder / "page.html").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sample", "3"], "name that file too"),
        (["--report", "page.txt"], "a name that ends with .html"),
        (["--report", "page.html", "--sample", "-1"], "--sample must be at least 0, got -1"),
        (["--report", "p.html", "-c", "s.txt"], "call it once for each"),
        (["--report", "no/p.html"], "There is no folder"),
    ],
)
def test_report_mistakes(folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    """Mistakes are found before there is work."""
    assert message in run(capsys, "score", "-c", "c.txt", "-r", "r.txt", *BERT, *arguments, code=2)


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (["--config", "mine.yaml"], "mine.yaml"),
        (["--config", "mine.yaml"], "rows.csv"),
        (["--idf-table", "table.json"], "table.json"),
        (["--idf-texts", "s.txt"], "s.txt"),
        (["--rescale", "--baseline-path", "rows.csv"], "rows.csv"),
        (["-m", "model"], "model/config.json"),
    ],
)
def test_no_input_is_overwritten(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], output: str
) -> None:
    """Whatever a run reads, and whatever its config reads, is neither its `--output` nor the sample of its page."""
    scale = "rescale_with_baseline: true\nbaseline_path: rows.csv\n"
    (folder / "mine.yaml").write_text(f"model_name_or_path: offline\n{scale}")
    (folder / "rows.csv").write_text("LAYER,P,R,F\n0,0,0,0\n")
    (folder / "table.json").write_text("{}")
    (folder / "model").mkdir()
    (folder / "model" / "config.json").write_text("{}")
    score = ["score", "-c", "c.txt", "-r", "r.txt", *words]
    assert f"--output {output} would overwrite an input" in run(capsys, *score, "-o", output, code=2)
    if output.endswith(".csv"):
        page = output.replace(".csv", ".html")
        message = run(capsys, *score, "--report", page, "--sample", "3", code=2)
        assert f"--sample {output} would overwrite an input" in message
    if words[0] != "--idf-table" and words[0] != "--idf-texts":
        explain = ["explain", "-c", "c.txt", "-r", "r.txt", *words]
        assert "would overwrite an input" in run(capsys, *explain, "-o", output, code=2)


def test_tune_and_baseline_overwrite_no_input(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Data and texts are neither output nor plot."""
    (folder / "d.tsv").write_text("candidate\treference\tscore\n")
    for words in (["-o", "d.tsv"], ["--plot", "d.tsv"]):
        assert "d.tsv would overwrite an input" in run(capsys, "tune", "--data", "d.tsv", *BERT[:2], *words, code=2)
    message = run(capsys, "baseline", "--texts", "c.txt", *BERT[:2], "-o", "c.txt", code=2)
    assert "--output c.txt would overwrite an input" in message
    assert "The name of a file is empty" in run(capsys, "tune", "--data", "", *BERT[:2], code=2)


def test_output_to_stdout(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`-o -` is standard output; of a baseline its file stands there, and nothing else."""
    pair = ["-c", "c.txt", "-r", "r.txt", *BERT, "-q"]
    for command in ("score", "explain"):
        assert run(capsys, command, *pair, "-o", "-") == run(capsys, command, *pair)
    (folder / "many.txt").write_text("a cat\nthe dog\nlemons\na red table\n")
    assert run(capsys, "baseline", "--texts", "many.txt", *BERT[:2], "-q", "-o", "-").startswith("LAYER,P,R,F\n0,")
    assert not (folder / "-").exists()


def test_another_model_drops_what_is_the_configs_model(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With another model, or language where that chooses the model, nothing of the config's model is left."""
    own = "num_layers: 3\nrevision: abc\ntrust_remote_code: true\nuse_safetensors: false\n"
    scale = "rescale_with_baseline: true\nbaseline_path: rows.csv\n"
    (folder / "model.yaml").write_text(f"model_name_or_path: a/b\nlang: en\nempty: skip\n{own}{scale}")
    (folder / "lang.yaml").write_text(f"lang: zh\nempty: skip\n{own}")
    (folder / "none.yaml").write_text(f"empty: skip\n{own}")
    (folder / "table.yaml").write_text("model_name_or_path: a/b\nidf: {7: 0.5}\n")
    kept = {"empty": "skip"}
    rescaled = {**kept, "lang": "en", "rescale_with_baseline": True}
    trusting = partial(options.config, trust_remote_code=True)
    config = options.config
    assert config("model.yaml", model_name_or_path="c/d").to_mapping() == {**rescaled, "model_name_or_path": "c/d"}
    assert config("model.yaml", model_name_or_path="c/d", num_layers=2).num_layers == 2
    assert config("lang.yaml", lang="de").to_mapping() == {**kept, "lang": "de"}
    none = trusting("none.yaml", model_name_or_path="c/d")
    for same in (trusting("model.yaml", lang="de"), none, trusting("lang.yaml")):
        assert (same.num_layers, same.revision, same.trust_remote_code, same.use_safetensors) == (3, "abc", True, False)
    score = ["score", "-c", "c.txt", "-r", "r.txt", "--config", "table.yaml", "-m", "offline"]
    assert "table.yaml holds an idf table for the tokens of a/b" in run(capsys, *score, code=2)


def test_pickled_weights(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A model without safetensors names the option that loads it, and the option does."""
    source = Path(model_path("bert"))
    (folder / "pickled").mkdir()
    for file in source.iterdir():
        if file.suffix == ".json":
            (folder / "pickled" / file.name).write_bytes(file.read_bytes())
    torch.save(load_file(source / "model.safetensors"), folder / "pickled" / "pytorch_model.bin")
    score = ["score", "-c", "c.txt", "-r", "r.txt", "-m", "pickled", "-l", "2", "-q", "--json"]
    assert "Pass --pickled-weights if you trust its pickled weights" in run(capsys, *score, code=2)
    got = json.loads(run(capsys, *score, "--pickled-weights"))
    assert got["mean"] == expected(CANDIDATES, REFERENCES).to_dict()["mean"]


def test_warnings_speak_of_options(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A warning names options, the limit that took effect, and from where indices are counted."""
    with pytest.raises(SystemExit):
        cli.main(["score", "-c", "c.txt", "-r", "r.txt", "--max-length", "3", *BERT])
    empty, cut = capsys.readouterr().err.splitlines()
    assert empty.endswith("counted from 0, index 1. --empty skip leaves them out of the mean.")
    assert "texts are longer than the limit of 3 tokens" in cut
    assert cut.endswith("(--long-text windows scores all, --long-text error refuses such texts).")
    with pytest.raises(SystemExit):
        cli.main(["score", "--text", "-c", "a cat", "-r", "a cat", "--max-length", "100000", *BERT])
    assert "bertscore-metric: --max-length 100000 is above the model's own limit" in capsys.readouterr().err


@pytest.mark.skipif(os.name == "nt", reason="closes streams and names files as only POSIX shells can")
def test_closed_streams_and_odd_names(folder: Path) -> None:
    """A closed stream is a line that says so, and a file name that is not UTF-8 is printed escaped, in both forms."""
    command = f"{sys.executable} -m bertscore_metric score -r r.txt -q {' '.join(BERT)}"
    env = {**os.environ, "HF_HUB_OFFLINE": "1"}

    def shell(words: str) -> tuple[int, bytes, bytes]:
        done = subprocess.run(f"{command} {words}", shell=True, capture_output=True, cwd=folder, env=env, check=False)
        return done.returncode, done.stdout, done.stderr

    closed = shell("-c c.txt >&-")
    assert closed == (2, b"", b"bertscore-metric: error: Standard output is closed; name a file with --output.\n")
    assert shell("-c - <&-") == (2, b"", b"bertscore-metric: error: Standard input (-) is closed; name a file.\n")
    assert shell("-c c.txt -o out.txt >&- 2>&-")[0] == 0
    odd = os.fsdecode(b"caf\xe9.txt")
    try:
        (folder / odd).write_text("\n".join(CANDIDATES) + "\n")
    except OSError:
        pytest.skip("this file system has UTF-8 names only")
    code, printed, _ = shell("-c c.txt caf*.txt")
    assert code == 0
    assert rb"caf\udce9.txt  " in printed
    code, printed, _ = shell("-c c.txt caf*.txt --json -o out.json")
    assert json.loads((folder / "out.json").read_text())["systems"][1]["candidates"] == odd


def test_a_config_alone_does_not_let_code_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A config that trusts a model's code needs the option as well, unless another model is named."""
    (folder / "code.yaml").write_text(f"model_name_or_path: {BERT[1]}\nnum_layers: 2\ntrust_remote_code: true\n")
    for command in ("score", "explain"):
        words = [command, "-c", "c.txt", "-r", "r.txt", "-q", "--config", "code.yaml"]
        said = run(capsys, *words, code=2)
        assert "code.yaml says trust_remote_code: true, which runs code that comes with the model." in said
        assert said.rstrip().endswith("add --trust-remote-code.")
        assert run(capsys, *words, "--trust-remote-code")
        assert run(capsys, *words, "-m", "offline")
