"""Tables: rows by named columns, lines counted from 1, and nothing swallowed, joined or shifted in silence."""

import io
import json
from pathlib import Path

import pytest

from bertscore_metric.io import files
from bertscore_metric.io.opened import DELIMITERS
from bertscore_metric.io.tables import read_rows


def texts(text: str, suffix: str) -> list[tuple[int, list[str]]]:
    """Return the rows of a table as line and cells; the first that is wrong is an error."""
    rows = read_rows(f"t{suffix}", io.BytesIO(text.encode()), suffix, DELIMITERS.get(suffix, ""))[1]
    found = []
    for line, cells, wrong in rows:
        if wrong:
            raise ValueError(wrong)
        found.append((line, list(cells.values()) if isinstance(cells, dict) else cells))
    return found


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('the cat,"Yes, he said\nhello,hello\nbye,bye', "t.csv, line 3: a cell that begins with a quotation mark is"),
        ('"z"",w\nhello,hello', "t.csv, line 3: a cell that begins with a quotation mark is never closed"),
        ('the cat,"Yes" he said', "t.csv, line 3: more text follows the quotation mark that closes a cell"),
        ('the cat,"Yes, he said\nhello,"hello"', "t.csv, line 3: more text follows the quotation mark"),
        ("the\rcat,a dog", "t.csv, line 3: a carriage return stands in a cell that is not quoted"),
    ],
)
def test_stray_quotation_marks_in_csv(line: str, message: str) -> None:
    """A quotation mark that is not closed, or has text behind it, is an error at its line, and swallows no row."""
    with pytest.raises(ValueError, match=message) as caught:
        texts(f"output,gold\na,b\n{line}\n", ".csv")
    assert 'write a quotation mark inside it twice: "she said ""yes""".' in str(caught.value)


def test_quoted_cells() -> None:
    """Quoted cells may hold commas, quotation marks and lines; a row is named by the line it begins at."""
    text = 'a,b\r\n"x, ""y""","two\nlines\rhere"\r\nan "inner" mark,z\r\n'
    assert texts(text, ".csv") == [(2, ['x, "y"', "two\nlines\rhere"]), (4, ['an "inner" mark', "z"])]
    with pytest.raises(ValueError, match=r"^t.csv, line 4: 1 cells, but the header has 2 columns\.$"):
        texts('a,b\n"two\nlines",x\nalone\n', ".csv")


def test_carriage_returns_in_tsv_are_text() -> None:
    """Only \\n and \\r\\n end a row of tab-separated text, as in a text file."""
    assert texts("a\tb\r\nx\ry\tz\n", ".tsv") == [(2, ["x\ry", "z"])]


@pytest.mark.parametrize("name", ["t.txt", "t.tsv", "t.csv", "t.jsonl"])
def test_old_mac_lines(tmp_path: Path, name: str) -> None:
    """A file whose lines end with carriage returns alone is refused: it would be one line of everything."""
    (tmp_path / name).write_bytes(b"a\rb\rc\r")
    with pytest.raises(ValueError, match=rf"{name} ends its lines with carriage returns alone, .* convert them"):
        files.read_candidates(str(tmp_path / name), None if name == "t.txt" else "a")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": "x"}\n\n{"a": "y"}\n', r"^t.jsonl, line 2 is blank; an empty text is written as {\"name\": \"\"}\.$"),
        ("", r"^t.jsonl is empty; expected a JSON object with named columns in every line\.$"),
        ("\n \n", r"^t.jsonl is empty; "),
        ('{"a": ' + "[" * 100000, r"^t.jsonl, line 1: not JSON \(it is nested too deeply\)\.$"),
        ('{"a": ' + "9" * 5000 + "}", r"^t.jsonl, line 1: not JSON \(a number has too many digits\)\.$"),
        ('{"a": "x", "a": "y"}', r"^t.jsonl, line 1: not JSON \('a' occurs twice in an object\)\.$"),
        ('{"a": \n', r"^t.jsonl, line 1: not JSON \(Expecting value\)\.$"),
        ("[1]\n", r"^t.jsonl, line 1: expected an object with named columns, got list\.$"),
    ],
)
def test_json_lines_that_are_wrong(text: str, message: str) -> None:
    """What is wrong in JSON lines is said with file and line."""
    with pytest.raises(ValueError, match=message):
        texts(text, ".jsonl")


def test_blank_lines_behind_the_last_row() -> None:
    """Blank lines at the end of a table of several columns are no rows."""
    for suffix, text in ((".tsv", "a\tb\nx\ty\n\n\n"), (".csv", "a,b\nx,y\n\n\n"), (".jsonl", '{"a":"x","b":"y"}\n\n')):
        assert len(texts(text, suffix)) == 1


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (["x"], r"line 2: column 'a' holds \['x'\], not a text\.$"),
        ("x\ud800", r"line 2: column 'a' holds a lone surrogate at character 1, which is not valid Unicode"),
        (3, r"line 2: column 'a' holds 3, not a text\.$"),
        (None, r"line 2: column 'a' holds None, not a text\.$"),
    ],
)
def test_cells_of_json_lines(tmp_path: Path, cell: object, message: str) -> None:
    """A cell that is no candidate is named by file and line."""
    file = tmp_path / "t.jsonl"
    file.write_text(json.dumps({"a": "x"}) + "\n" + json.dumps({"a": cell}) + "\n")
    with pytest.raises(ValueError, match=message):
        files.read_candidates(str(file), "a")


def test_lists_of_references(tmp_path: Path) -> None:
    """A JSON line may hold a list of references; a surrogate in it is named by its line, too."""
    file = tmp_path / "t.jsonl"
    file.write_text('{"a": ["x", "y"]}\n{"a": "z"}\n')
    assert files.read_references([str(file)], ["a"]) == [["x", "y"], ["z"]]
    file.write_text('{"a": ["x", "y\\ud800"]}\n')
    with pytest.raises(ValueError, match="line 1: column 'a' holds a lone surrogate at character 1"):
        files.read_references([str(file)], ["a"])


def test_a_missing_name(tmp_path: Path) -> None:
    """A JSON line without the name is said to lack it, and not to hold None."""
    file = tmp_path / "t.jsonl"
    file.write_text('{"gold": "x"}\n{"silver": "y", "n": 1}\n{}\n')
    with pytest.raises(ValueError, match=r"line 2 has no 'gold'; it has: silver, n\.$"):
        files.read_candidates(str(file), "gold")
    with pytest.raises(ValueError, match=r"line 1 has no 'n'; it has: gold\.$"):
        files.read_numbers(str(file), "n")
    file.write_text('{"n": ' + "9" * 4000 + "}\n")
    with pytest.raises(ValueError, match="line 1: column 'n' holds 999"):
        files.read_numbers(str(file), "n")


def test_an_input_is_never_written(tmp_path: Path) -> None:
    """Whatever is read, under any of its names, is not written, and nothing is written twice."""
    (tmp_path / "in.txt").write_text("x")
    (tmp_path / "link.txt").symlink_to(tmp_path / "in.txt")
    for name in ("in.txt", "link.txt"):
        with pytest.raises(ValueError, match=r"^--plot .*in.txt would overwrite an input\.$"):
            files.check_outputs({"--plot": str(tmp_path / "in.txt")}, [None, "-", "missing.txt", str(tmp_path / name)])
    new = str(tmp_path / "new.html")
    with pytest.raises(ValueError, match=rf"^--report and --output would both write {new}\.$"):
        files.check_outputs({"--output": new, "--report": new}, [])
    for option, path in (("--report", "-"), ("--output", ""), ("--plot", str(tmp_path))):
        with pytest.raises(ValueError, match=rf"^{option} must name a file, got {path!r}\.$"):
            files.check_outputs({option: path}, [])
    files.check_outputs({"--output": "-", "--plot": None, "--report": new}, [])
