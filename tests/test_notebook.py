"""In a notebook: a real Jupyter kernel, and a stdout that is no file."""

import io
import os
import sys
from pathlib import Path

import nbclient
import nbformat
import pytest
import rich.console
from conftest import model_path, shared_scorer

from bertscore_metric import cli
from bertscore_metric.cli.console import put

# What people run in a notebook; every line prints what the test compares.
CELL = """
from bertscore_metric import BERTScorer, cli
pair = BERTScorer(MODEL, num_layers=2).explain("the cat sat", "a cat")
text = pair.to_text()
pair.save("pair.txt")
try:
    cli.main(["score", "--text", "-c", "a cat", "-r", "the cat", "-m", MODEL, "-l", "2"])
except SystemExit as stop:
    code = stop.code
print(text)
print("code", code)
"""


@pytest.mark.slow
def test_a_kernel(tmp_path: Path) -> None:
    """An explanation is text and is saved as text, and the command line prints its scores."""
    cell = nbformat.v4.new_code_cell(f"MODEL = {model_path('bert')!r}\n{CELL}")
    notebook = nbformat.v4.new_notebook(cells=[cell])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "HF_HUB_OFFLINE": "1"}
    client = nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}})
    client.execute(env=environment)
    assert {output.output_type for output in cell.outputs} == {"stream"}  # nothing is displayed beside the text
    printed = "".join(output.text for output in cell.outputs if output.name == "stdout")
    saved = (tmp_path / "pair.txt").read_text(encoding="utf-8")
    assert "contribution to P" in saved
    assert saved in printed
    assert "model:bert|layer:2" in printed
    assert "code 0" in printed


def test_an_explanation_is_text_where_rich_would_display_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What rich takes for a notebook gets the same text."""
    pair = shared_scorer("bert", num_layers=2).explain("the cat sat", "a cat")
    text = pair.to_text()
    monkeypatch.setattr(rich.console, "_is_jupyter", lambda: True)
    assert pair.to_text() == text
    pair.save(tmp_path / "pair.txt")
    assert (tmp_path / "pair.txt").read_text(encoding="utf-8") == text


@pytest.mark.parametrize("words", [["score"], ["score", "--json", "-s"], ["explain"]])
def test_stdout_without_a_file(monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    """A StringIO instead of stdout gets what would be printed."""
    monkeypatch.setattr(sys, "stdout", stream := io.StringIO())
    with pytest.raises(SystemExit) as stop:
        cli.main([*words, "--text", "-c", "a", "-r", "a", "-m", model_path("bert"), "-l", "2", "-q"])
    assert stop.value.code == 0
    assert "model:bert|layer:2" in stream.getvalue()


def test_what_utf_8_cannot_hold_is_an_escape(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that would fail at a byte of a file's name gets an escape."""
    monkeypatch.setattr(sys, "stdout", stream := io.StringIO())
    put("caf\udce9\n", None)
    assert stream.getvalue() == "caf\\udce9\n"
