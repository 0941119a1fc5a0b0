"""The commands about systems: score with intervals and classics, compare, calibrate, tune with systems."""

import json
import re
from pathlib import Path

import pytest
from cli.test_cli import run
from conftest import model_path

from bertscore_metric import score
from bertscore_metric.analysis.comparison import compare
from bertscore_metric.analysis.tuning import tune

A = ["the cat sat on a red table.", "Go go", "I love lemons", "a dog walked", "two bananas"]
B = ["a dog", "Go", "lemons I like.", "the dog walked", "the table"]
C = ["the table", "I go", "lemons I like.", "a dog and a cat", "bananas"]
REFERENCES = ["the cat sat on the red table.", "Go go go.", "I love lemons.", "a dog walked", "bananas"]
BERT = ["-m", model_path("bert"), "-l", "2"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the texts as files, as the current one."""
    for name, texts in (("a", A), ("b", B), ("c", C), ("r", REFERENCES)):
        (tmp_path / f"{name}.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    rows = [f"{text}\td{number // 2}\t{'xy'[number % 2]}" for number, text in enumerate(REFERENCES)]
    (tmp_path / "r.tsv").write_text("\n".join(["reference\tdoc\tdomain", *rows]) + "\n", encoding="utf-8")
    (tmp_path / "human.tsv").write_text("system\tscore\na\t1\nb\t0.4\nc\t0.5\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_interval(capsys: pytest.CaptureFixture[str]) -> None:
    """`--interval` gives the result's own intervals, in the line and in JSON."""
    result = score(A, REFERENCES, model_path("bert"), num_layers=2)
    line = run(capsys, "score", "-c", "a.txt", "-r", "r.txt", "--interval", *BERT).splitlines()[0]
    low, high = result.interval("f1")
    assert f"F1 {result.mean.f1:.6f} [{low:.3f}, {high:.3f}]" in line
    data = json.loads(run(capsys, "score", "-c", "a.txt", "-r", "r.txt", "--interval", "--json", *BERT))
    assert data == result.to_dict(interval=True)
    assert data["interval"]["recall"] == [*result.interval("recall")]


def test_classics(capsys: pytest.CaptureFixture[str]) -> None:
    """`--with` adds a line a metric with its signature; JSON has them by name."""
    words = ["score", "-c", "a.txt", "-r", "r.txt", "--with", "chrf,rougeL", *BERT]
    lines = run(capsys, *words).splitlines()
    assert re.fullmatch(r"chrf \d+\.\d{6}  nrefs:1\|.*version:.*", lines[1])
    assert re.fullmatch(r"rougeL 0\.\d{6}  rougeL\|measure:f\|.*", lines[2])
    data = json.loads(run(capsys, *words, "--json", "--interval"))["classics"]
    assert list(data) == ["chrf", "rougeL"]
    assert data["rougeL"]["interval"][0] < data["rougeL"]["score"] < data["rougeL"]["interval"][1]
    assert "there is no metric 'meteor'" in run(capsys, *words, "--with", "meteor", code=2).lower()


def test_compare(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command gives the function's comparison, named by files; the table is ordered and names both p."""
    words = ["compare", "-c", "b.txt", "a.txt", "c.txt", "-r", "r.txt", *BERT]
    wanted = compare({"b": B, "a": A, "c": C}, REFERENCES, model_path("bert"), num_layers=2)
    assert json.loads(run(capsys, *words, "--json")) == wanted.to_dict()
    lines = run(capsys, *words, "--detect", "0.01", "--report", "p.html").splitlines()
    assert lines[0] == wanted.signature
    assert lines[1] == "5 segments; 95 % intervals"
    assert [line.split()[0] for line in lines[2:5]] == [system.name for system in wanted.systems]
    assert "p (Holm): corrected for 3 comparisons" in lines[6]
    pair = wanted.pairs[0]
    assert lines[8].startswith(f"{pair.first} - {pair.second}  {pair.difference:+.6f}")
    assert "segments for 0.01" in lines[7]
    assert "<h2>" in (folder / "p.html").read_text(encoding="utf-8")
    one = json.loads(run(capsys, *words, "--json", "--baseline", "b"))
    assert {pair["second"] for pair in one["pairs"]} == {"b"}


def test_compare_columns(capsys: pytest.CaptureFixture[str]) -> None:
    """`--by` and `--group-column` name columns beside the references."""
    words = ["compare", "-c", "a.txt", "b.txt", "-r", "r.tsv", "--reference-column", "reference", *BERT]
    found = json.loads(run(capsys, *words, "--json", "--by", "domain"))
    assert {name: part["n_segments"] for name, part in found["by"].items()} == {"x": 3, "y": 2}
    assert json.loads(run(capsys, *words, "--json", "--group-column", "doc"))["n_groups"] == 3
    assert "\nx:\n" in run(capsys, *words, "--by", "domain")
    assert "No table has a column 'topic' for --by; put it beside" in run(capsys, *words, "--by", "topic", code=2)


def test_saved_scores_and_calibration(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Saved scores compare and calibrate without a model, and `compare` says how often people agree."""
    for name in "abc":
        run(capsys, "score", "-c", f"{name}.txt", "-r", "r.txt", "--segments", "--json", "-o", f"{name}.json", *BERT)
    saved = ["--scores", "a.json", "b.json", "c.json"]
    (folder / "human.tsv").write_text("system\tscore\na\t0.6\nb\t0.4\nc\t0.5\n", encoding="utf-8")
    words = ["calibrate", *saved, "--human", "human.tsv", "--language-pair", "de-en"]
    if "every one of" in run(capsys, *words, "-o", "c1.json", code=2):
        (folder / "human.tsv").write_text("system\tscore\na\t0.6\nb\t0.5\nc\t0.4\n", encoding="utf-8")
    table = run(capsys, *words, "-o", "c1.json")
    assert "3 systems, 3 pairs" in table
    data = json.loads((folder / "c1.json").read_text(encoding="utf-8"))
    assert data["n_pairs"] == 3
    texts = ["calibrate", "--systems", "a.txt", "b.txt", "c.txt", "-r", "r.txt", "--human", "human.tsv", *BERT]
    assert json.loads(run(capsys, *texts))["curve"]["slope"] == pytest.approx(data["curve"]["slope"], rel=1e-3)
    assert re.search(r"people agree in \d+ % \(\d pairs\)", run(capsys, "compare", *saved, "--calibration", "c1.json"))
    run(capsys, *words[:-1], "cs-en", "-o", "c2.json")
    assert json.loads(run(capsys, "calibrate", "--add", "c1.json", "c2.json"))["n_pairs"] == 6
    judged = run(capsys, "tune", *saved, "--human", "human.tsv")
    assert re.search(r"^saved +\d\.\d{4} +\d of 3", judged, flags=re.MULTILINE)


def test_tune_systems(capsys: pytest.CaptureFixture[str]) -> None:
    """Systems are judged by every layer and by classics in one table."""
    words = ["tune", "--systems", "a.txt", "b.txt", "c.txt", "-r", "r.txt", "--human", "human.tsv"]
    data = json.loads(run(capsys, *words, "-m", model_path("bert"), "--with", "chrf", "--json"))
    assert [row["name"] for row in data["metrics"]][-2:] == ["layer 4, idf", "chrf"]
    lines = run(capsys, *words, "--with", "chrf").splitlines()
    assert lines[-1].startswith("chrf ")


def test_tune_beside(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Judged segments are also correlated with saved scores and classics, side by side with the best layers."""
    rows = [f"{c}\t{r}\t{s}" for c, r, s in zip(A, REFERENCES, (5, 1, 4, 3, 2), strict=True)]
    (folder / "d.tsv").write_text("\n".join(["candidate\treference\tscore", *rows]) + "\n", encoding="utf-8")
    run(capsys, "score", "-c", "a.txt", "-r", "r.txt", "--segments", "--json", "-o", "mine.json", *BERT)
    words = ["tune", "--data", "d.tsv", "--scores", "mine.json", "--with", "chrf"]
    data = json.loads(run(capsys, *words, "--json", "-m", model_path("bert"), "--resamples", "9"))
    result = tune(A, REFERENCES, [5, 1, 4, 3, 2], model_path("bert"), resamples=9)
    assert list(data["others"]) == ["mine", "chrf"]
    for number, statistic in enumerate(("pearson", "spearman", "kendall", "accuracy")):
        ours = result.correlations[0, 2, 2, number].item()
        assert data["others"]["mine"][statistic]["mean"] == pytest.approx(ours, abs=1e-4)
    assert run(capsys, *words).splitlines()[0].startswith("side by side")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["compare", "-c", "a.txt", "-r", "r.txt", *BERT], "needs at least two systems, got 1"),
        (["compare", "-r", "r.txt"], "Give the systems' texts (--candidates A B, with --references) or saved"),
        (["compare", "-c", "a.txt", "--scores", "a.json"], "Give the systems' texts"),
        (["compare", "--scores", "a.json", "a.json"], "A file of scores is named twice"),
        (["compare", "--scores", "a.json", "-m", "offline"], "--scores are compared as they are"),
        (["compare", "--scores", "a.json", "--with", "bleu"], "--with computes its metrics from texts"),
        (["compare", "-c", "a.txt", "x/a.txt", "-r", "r.txt", *BERT], "Two systems are named 'a'"),
        (["compare", "-c", "a.txt", "r.tsv", "-r", "r.txt", *BERT], "r.tsv is a table; name its column"),
        (["compare", "-c", "a.txt", "b.txt", "-r", "r.txt", "--report", "x.txt"], "needs a name that ends with .html"),
        (["compare", "-c", "a.txt", "short.txt", "-r", "r.txt", *BERT], "short.txt has 1 candidate, but r.txt has 5"),
        (["calibrate"], "Give --systems FILES with --references, or saved --scores FILES, or --add"),
        (["calibrate", "--scores", "a.json"], "Name people's scores of the systems: --human FILE"),
        (["calibrate", "--add", "human.tsv", "r.tsv"], "human.tsv is not a file of `bertscore-metric calibrate`"),
        (["tune"], "Name judged segments (--data FILE), or judged systems: --systems"),
        (["tune", "--data", "r.tsv", "--systems", "a.txt"], "--data judges segments, --systems and --human judge"),
        (["tune", "--data", "r.tsv"], "Name what is judged: --model NAME, saved --scores FILES, or --with"),
        (["tune", "--scores", "a.json", "--human", "human.tsv", "--with", "ter"], "--with computes its metrics"),
        (["tune", "--systems", "a.txt", "-r", "r.txt", "--human", "twice.tsv", *BERT[:2]], "several scores of 'a'"),
    ],
)
def test_mistakes(folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    """A mistake is one line that says what to do."""
    (folder / "x").mkdir()
    (folder / "x" / "a.txt").write_text("\n".join(A), encoding="utf-8")
    (folder / "short.txt").write_text("a\n", encoding="utf-8")
    (folder / "twice.tsv").write_text("system\tscore\na\t1\na\t2\n", encoding="utf-8")
    assert message in run(capsys, *words, code=2)
