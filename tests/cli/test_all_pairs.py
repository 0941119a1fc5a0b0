"""`bertscore-metric pairwise` and `mbr`: what they print is what the scorer returns."""

import json
from pathlib import Path

import pytest
from conftest import model_path, shared_scorer

from bertscore_metric import cli

A, B = ["a dog sat", "the red cat"], ["a cat", "the dog", "lemons"]
BERT = ["-m", model_path("bert"), "-l", "2"]
LISTS = [["a cat\tsat", "the cat sat", "lemons"], ["a dog"]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the texts as files, as the current one."""
    (tmp_path / "a.txt").write_text("\n".join(A) + "\n")
    (tmp_path / "b.txt").write_text("\n".join(B) + "\n")
    (tmp_path / "s.jsonl").write_text("\n".join(json.dumps({"samples": texts}) for texts in LISTS) + "\n")
    rows = [("q1", "a cat sat"), ("q2", "a dog"), ("q1", "the cat sat"), ("q1", "lemons")]
    (tmp_path / "s.tsv").write_text("\n".join(["id\ttext", *("\t".join(row) for row in rows)]) + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> list[str]:
    """Run a command and return the lines that it printed, or said of an error."""
    with pytest.raises(SystemExit) as stop:
        cli.main([*arguments])
    said = capsys.readouterr()
    assert stop.value.code == code, said.err
    return (said.err if code else said.out).splitlines()


def test_matrix(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line a row after the signature, of F1 or of what `--by` names; one file is compared with itself."""
    scorer = shared_scorer("bert", num_layers=2)
    found = scorer.pairwise(A, B)
    lines = run(capsys, "pairwise", "-c", "a.txt", "-r", "b.txt", *BERT)
    assert lines == [str(found.signature), *("\t".join(f"{x:.6f}" for x in row) for row in found.f1.tolist())]
    lines = run(capsys, "pairwise", "-c", "b.txt", "--by", "recall", *BERT)
    assert lines[1:] == ["\t".join(f"{x:.6f}" for x in row) for row in scorer.pairwise(B).recall.tolist()]
    assert run(capsys, "pairwise", "-c", "a.txt", "-r", "b.txt", "--json", "-o", "out.json", *BERT) == []
    assert json.loads((folder / "out.json").read_text()) == found.to_dict()


def test_top(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each of the best columns: row, column, F1."""
    best = shared_scorer("bert", num_layers=2).pairwise(A, B, 2)
    lines = run(capsys, "pairwise", "-c", "a.txt", "-r", "b.txt", "--top", "2", *BERT)[1:]
    assert [line.split("\t")[1] for line in lines] == [str(index) for index in best.index.flatten().tolist()]
    assert lines[0] == f"0\t{best.index[0, 0]}\t{best.f1[0, 0]:.6f}"
    (error,) = run(capsys, "pairwise", "-c", "a.txt", "-r", "b.txt", "--top", "9", *BERT, code=2)
    assert "--top 9 asks for more than there is: b has 3 texts" in error
    (error,) = run(capsys, "pairwise", "-c", "a.txt", "--by", "best", *BERT, code=2)
    assert "--by must be one of f1, precision, recall; got 'best'" in error


def test_mbr(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line a source with the chosen sample, of all samples with `--segments`, or JSON."""
    found = shared_scorer("bert", num_layers=2).mbr(LISTS)
    lines = run(capsys, "mbr", "--candidates", "s.jsonl", "--column", "samples", *BERT)
    index = int(found.index[0])
    text = LISTS[0][index].replace("\t", r"\t")
    assert lines[1:] == [f"0\t{index}\t{found.expected[0]:.6f}\t{text}", "1\t0\tnan\ta dog"]
    lines = run(capsys, "mbr", "-c", "s.jsonl", "--column", "samples", "--segments", *BERT)
    assert lines[1] == f"0\t0\t{found.scores[0][0]:.6f}\ta cat\\tsat"
    assert len(lines) == 5
    data = json.loads("\n".join(run(capsys, "mbr", "-c", "s.jsonl", "--column", "samples", "--json", *BERT)))
    assert data["lists"][0]["text"] == LISTS[0][index]
    assert data["lists"][1]["expected"] is None


def test_mbr_by_group(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows of a group are a list, wherever they stand; without groups a row must hold a list."""
    lines = run(capsys, "mbr", "-c", "s.tsv", "--column", "text", "--group-column", "id", *BERT)
    assert [line.split("\t")[0] for line in lines[1:]] == ["q1", "q2"]
    assert lines[2] == "q2\t0\tnan\ta dog"
    (error,) = run(capsys, "mbr", "-c", "s.tsv", "--column", "text", *BERT, code=2)
    assert "holds a text in row 0, not a list of texts" in error
    (folder / "e.jsonl").write_text('{"samples": []}\n')
    (error,) = run(capsys, "mbr", "-c", "e.jsonl", "--column", "samples", *BERT, code=2)
    assert "e.jsonl, line 1: column 'samples' holds []" in error
