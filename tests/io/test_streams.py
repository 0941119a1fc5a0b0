"""Streams of rows: every kind of table, compressed or not, patterns and folders, and what is wrong with them."""

import bz2
import gzip
import json
import logging
import lzma
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from bertscore_metric.io import files
from bertscore_metric.io.read import open_rows
from bertscore_metric.io.rows import Cursor

TEXTS = ["a cat", "", "ein Bär", "日本"]
PACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
    ".zst": zstandard.compress,
}


def write(folder: Path, name: str, texts: list[str] = TEXTS) -> str:
    """Write texts as a table of the kind that the name says, with the columns `hyp` and `n`."""
    file = folder / name
    suffix = next(suffix for suffix in file.suffixes if suffix not in PACK)
    rows = [{"hyp": text, "n": number} for number, text in enumerate(texts)]
    if suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), file, row_group_size=3)
    elif suffix in (".arrow", ".feather"):
        table = pa.Table.from_pylist(rows)
        new = pa.ipc.new_stream if suffix == ".arrow" else pa.ipc.new_file
        with new(str(file), table.schema) as writer:
            writer.write_table(table, max_chunksize=3)
    else:
        lines = {
            ".txt": texts,
            ".tsv": ["hyp\tn", *(f"{row['hyp']}\t{row['n']}" for row in rows)],
            ".csv": ["hyp,n", *(f'"{row["hyp"]}",{row["n"]}' for row in rows)],
            ".jsonl": [json.dumps(row) for row in rows],
        }[suffix]
        data = "".join(f"{line}\n" for line in lines).encode()
        file.write_bytes(PACK.get(file.suffix, bytes)(data))
    return str(file)


@pytest.mark.parametrize("name", ["t.tsv", "t.csv", "t.jsonl", "t.parquet", "t.arrow", "t.feather", "t.txt"])
def test_every_kind(tmp_path: Path, name: str) -> None:
    """A table of any kind gives the same texts."""
    assert files.read_candidates(write(tmp_path, name), None if name == "t.txt" else "hyp") == TEXTS


@pytest.mark.parametrize("packed", [*PACK])
@pytest.mark.parametrize("name", ["t.txt", "t.jsonl"])
def test_compressed(tmp_path: Path, name: str, packed: str) -> None:
    """What is compressed is unpacked, by its content: also under a name that does not say so."""
    column = None if name == "t.txt" else "hyp"
    path = write(tmp_path, name + packed)
    assert files.read_candidates(path, column) == TEXTS
    assert files.read_candidates(str(Path(path).rename(tmp_path / name)), column) == TEXTS


@pytest.mark.parametrize("packed", [*PACK])
def test_compressed_in_several_pieces(tmp_path: Path, packed: str) -> None:
    """Members and frames one behind the other are one text, as `cat a.gz b.gz` makes them."""
    (tmp_path / f"t.txt{packed}").write_bytes(PACK[packed](b"a\nb\n") + PACK[packed](b"c\n"))
    assert files.read_candidates(str(tmp_path / f"t.txt{packed}")) == ["a", "b", "c"]


@pytest.mark.parametrize("packed", [*PACK])
def test_damaged_compression(tmp_path: Path, packed: str) -> None:
    """A file that was cut off, or that is not what its name says, is an error with its name, never fewer texts."""
    file = tmp_path / f"t.txt{packed}"
    data = PACK[packed]("".join(f"text {number * 7919}\n" for number in range(20000)).encode())
    for cut in (len(data) // 2, len(data) - 1):
        file.write_bytes(data[:cut])
        with pytest.raises(ValueError, match=rf"t\.txt{packed} is damaged or incomplete and cannot be unpacked: "):
            files.read_candidates(str(file))
    file.write_bytes(b"plain text\n")
    with pytest.raises(ValueError, match=rf"t\.txt{packed} is not compressed as its name says \({packed}\)"):
        files.read_candidates(str(file))


def test_what_is_not_read(tmp_path: Path) -> None:
    """Archives, markup, and tables under another name are refused in words."""
    (tmp_path / "t.zip").write_bytes(b"PK\x03\x04rest")
    with pytest.raises(ValueError, match=r"t\.zip is a zip archive; unpack it\."):
        files.read_candidates(str(tmp_path / "t.zip"))
    path = write(tmp_path, "t.parquet")
    with pytest.raises(ValueError, match=r"t\.txt is a parquet file; name it \.parquet\."):
        files.read_candidates(str(Path(path).rename(tmp_path / "t.txt")))
    (tmp_path / "t.parquet.gz").touch()
    with pytest.raises(ValueError, match=r"t\.parquet\.gz cannot be read: \.parquet files are compressed inside"):
        files.read_candidates(str(tmp_path / "t.parquet.gz"), "hyp")
    for suffix in (".parquet", ".arrow"):
        (tmp_path / f"bad{suffix}").write_bytes(b"nothing of the kind")
        with pytest.raises(ValueError, match=rf"bad\{suffix} is damaged, or is no \{suffix} file: "):
            files.read_candidates(str(tmp_path / f"bad{suffix}"), "hyp")


def test_patterns_and_folders(tmp_path: Path) -> None:
    """A pattern or a folder is its files in order; tables of several kinds are not mixed."""
    for number in (10, 2, 1):
        write(tmp_path, f"part-{number:03d}.jsonl", [f"text {number}"])
    wanted = ["text 1", "text 2", "text 10"]
    assert files.read_candidates(str(tmp_path / "part-*.jsonl"), "hyp") == wanted
    (tmp_path / "README.md").write_text("notes")
    (tmp_path / "_SUCCESS").write_text("")
    assert files.read_candidates(str(tmp_path), "hyp") == wanted
    with pytest.raises(FileNotFoundError, match=r"No file matches '.*none-\*'"):
        files.read_candidates(str(tmp_path / "none-*"), "hyp")
    write(tmp_path, "one.csv")
    with pytest.raises(ValueError, match=r"tables of several kinds \(\.csv, \.jsonl\); choose with a pattern"):
        files.read_candidates(str(tmp_path), "hyp")
    (tmp_path / "sub").mkdir()
    with pytest.raises(ValueError, match=r"sub is a folder without tables; use \.tsv"):
        files.read_candidates(str(tmp_path / "sub"), "hyp")


def test_rows_are_named(tmp_path: Path) -> None:
    """A cell that is no text is named by its row in files without lines, also behind the first chunk."""
    column = ["x"] * 10000 + [None]
    pq.write_table(pa.table({"hyp": column, "refs": [["a", "b"]] * 10000 + [[]]}), tmp_path / "t.parquet")
    path = str(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=r"t\.parquet, row 10001: column 'hyp' holds None, not a text\."):
        files.read_candidates(path, "hyp")
    with pytest.raises(ValueError, match=r"row 10001: column 'refs' holds \[\], not a text or a list of texts\."):
        files.read_references([path], ["refs"])
    with pytest.raises(ValueError, match=r"has no column 'hip' \(--candidate-column\); did you mean 'hyp'\?"):
        files.read_candidates(path, "hip")


@pytest.mark.parametrize("name", ["t.jsonl", "t.parquet", "t.arrow", "t.csv"])
@pytest.mark.parametrize("step", [1, 3, 5000, 8192, 30000])
def test_cursor(tmp_path: Path, name: str, step: int) -> None:
    """Pieces of any size, some of them passed over, are the same rows with the same places."""
    texts = [f"text {number}" for number in range(20000 if step > 10 else 50)]
    cursor = Cursor(open_rows(write(tmp_path, name, texts), {"hyp": ""}))
    at, skipped = 0, False
    while at < len(texts):
        if skipped:
            n = cursor.skip(step)
        else:
            parts = cursor.take(step)
            n = sum(map(len, parts))
            assert [text for part in parts for text in part.columns["hyp"]] == texts[at : at + step]
            first = 1 if name == "t.jsonl" or "." + name.split(".")[1] in (".parquet", ".arrow") else 2
            assert parts[0].numbers[0] == at + first
        assert n == min(step, len(texts) - at)
        at, skipped = at + n, not skipped
    assert (cursor.skip(), cursor.take(1)) == (0, [])


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (['"said ""yes"""\tx', "plain\ty"], True),
        (['"one"\tx', '"two"\ty'], True),
        (['"one"\tx', "two\ty"], False),
        (['say "yes"\tx', '"no" he said\ty'], False),
        (['"\tx', "\ty"], False),
    ],
)
def test_quoted_cells_in_tsv(tmp_path: Path, caplog: pytest.LogCaptureFixture, lines: list[str], told: bool) -> None:
    """Cells of .tsv files that pandas has quoted are scored as they are, and a warning says so."""
    (tmp_path / "t.tsv").write_text("\n".join(["hyp\tref", *lines]) + "\n")
    with caplog.at_level(logging.WARNING, "bertscore_metric"):
        texts = files.read_candidates(str(tmp_path / "t.tsv"), "hyp")
    assert texts == [line.split("\t")[0] for line in lines]
    assert [record.getMessage().partition("t.tsv")[2][:36] for record in caplog.records] == (
        [": cells of the column 'hyp' stand in"] if told else []
    )


def test_delimiter(tmp_path: Path) -> None:
    """Cells may be separated by another character, and are quoted as the name says."""
    (tmp_path / "t.csv").write_text('hyp;ref\n"a;b";c\n')
    assert files.read_candidates(str(tmp_path / "t.csv"), "hyp", delimiter=";") == ["a;b"]
    (tmp_path / "t.tsv").write_text('hyp|ref\n"a|c\n')
    assert files.read_candidates(str(tmp_path / "t.tsv"), "hyp", delimiter="|") == ['"a']
