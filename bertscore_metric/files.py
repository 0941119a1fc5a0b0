"""Files -> texts: plain text, TSV, CSV and JSON lines, as UTF-8."""

from __future__ import annotations

import csv
import difflib
import io
import json
import math
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

STDIN = "-"
_DELIMITERS = {".tsv": "\t", ".csv": ","}


def read_candidates(path: str, column: str | None = None) -> list[Any]:
    """Return one text a line of a text file, or one a row of a table's column.

    Args:
        path: a file, or `-` for standard input. `.tsv`, `.csv` and `.jsonl` files are tables with named columns.
        column: which column; needed for a table.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: not UTF-8, no such column, or a broken line; the message names line or columns.
    """
    if _is_table(path):
        return [row[0] for row in _read_table(path, [column] if column else [], "--candidate-column")]
    _refuse_columns(path, [column] if column else [])
    return _read_lines(path)


def read_references(paths: Sequence[str], columns: Sequence[str] = ()) -> list[Any]:
    """Return the references of each candidate: a text where there is one, else a list of texts.

    Args:
        paths: text files with a reference a line each, or tables.
        columns: the columns of every table that hold references. A JSON line may hold a list of them.

    Raises:
        FileNotFoundError, ValueError: as for `read_candidates`, or files of different length.
    """
    files: list[list[list[Any]]] = []
    for path in paths:
        if _is_table(path):
            files.append(_read_table(path, columns, "--reference-column"))
        else:
            _refuse_columns(path, columns)
            files.append([[line] for line in _read_lines(path)])
    for path, file in zip(paths, files, strict=True):
        if len(file) != len(files[0]):
            raise ValueError(
                f"Reference files need equal numbers of lines: {paths[0]} has {len(files[0])}, {path} has {len(file)}."
            )
    groups = [[text for part in parts for text in _flatten(part)] for parts in zip(*files, strict=True)]
    return [group[0] for group in groups] if all(len(group) == 1 for group in groups) else groups


def read_numbers(path: str, column: str) -> list[float]:
    """Return one number a row of a table's column.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: no table, no such column, or a cell that is no finite number; the message names line or columns.
    """
    if not _is_table(path):
        _refuse_columns(path, [column])
    known, rows = _load_table(path)
    _check_column(path, column, known)
    return [_number(path, line, row, column) for line, row in rows]


def has_column(path: str, column: str) -> bool:
    """Return whether a file is a table with this column.

    Raises:
        FileNotFoundError, ValueError: as for `read_numbers`.
    """
    return _is_table(path) and column in _load_table(path)[0]


def check_output(path: str, inputs: Sequence[str], option: str = "--output") -> None:
    """Refuse, before there is work, a file that cannot be written or that is read.

    Raises:
        ValueError: a folder, a file in no folder, or one of the inputs.
    """
    file = Path(path).expanduser()
    if not path or file.is_dir():
        raise ValueError(f"{option} must name a file, got {path!r}.")
    if not file.absolute().parent.is_dir():
        raise ValueError(f"There is no folder {str(file.parent)!r} to write {file.name} to.")
    for name in inputs:
        other = Path(name).expanduser()
        if name != STDIN and file.exists() and other.exists() and file.samefile(other):
            raise ValueError(f"{option} {path} would overwrite an input.")


def write_text(path: str, text: str) -> None:
    """Write a file whole or not at all; a device, a pipe or the target of a link is written to, not replaced."""
    target = Path(path).expanduser()
    if target.is_symlink() or (target.exists() and not target.is_file()):
        target.write_text(text, encoding="utf-8", newline="\n")
        return
    folder = target.absolute().parent
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".bertscore-", text=False)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
        Path(temporary).chmod(0o666 & ~_umask())
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _flatten(row: list[Any]) -> list[Any]:
    return [text for cell in row for text in (cell if isinstance(cell, list) else [cell])]


def _is_table(path: str) -> bool:
    return Path(path).suffix.lower() in (*_DELIMITERS, ".jsonl")


def _refuse_columns(path: str, columns: Sequence[str]) -> None:
    if Path(path).suffix.lower() == ".json":
        raise ValueError(f"{path} is JSON; only JSON lines are read (.jsonl, one object a line with named columns).")
    if columns:
        raise ValueError(f"Columns ({', '.join(columns)}) are named in .tsv, .csv and .jsonl files; {path} is none.")


def _read_lines(path: str) -> list[str]:
    # Only \n and \r\n end a line: str.splitlines() would also split at form feeds and Unicode separators inside a text.
    lines = [line.removesuffix("\r") for line in _decode(path).split("\n")]
    return lines[:-1] if lines[-1] == "" else lines


def _decode(path: str) -> str:
    if not path:
        raise ValueError("The name of a file is empty.")
    if path == STDIN:
        data = sys.stdin.buffer.read()
    else:
        file = Path(path).expanduser()
        if file.is_dir():
            raise ValueError(f"{path} is a folder, not a file.")
        if not file.exists():
            near = difflib.get_close_matches(file.name, [other.name for other in file.parent.glob("*")], n=1)
            hint = f" Did you mean {file.with_name(near[0])}?" if near else ""
            raise FileNotFoundError(f"No file {path!r}.{hint} Literal text is scored with --text.")
        data = file.read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ValueError(f"{path}, line {line}: not UTF-8 (byte {data[error.start]:#04x}); convert the file.") from None


def _read_table(path: str, columns: Sequence[str], option: str) -> list[list[Any]]:
    known, rows = _load_table(path)
    if not columns:
        raise ValueError(f"{path} is a table; name its column with {option}. It has: {', '.join(known)}.")
    for column in columns:
        _check_column(path, column, known)
    return [[_cell(path, line, row, column) for column in columns] for line, row in rows]


def _load_table(path: str) -> tuple[list[str], list[tuple[int, dict[str, Any]]]]:
    """Return the names of a table's columns, and its rows with the numbers of their lines."""
    text = _decode(path)
    suffix = Path(path).suffix.lower()
    if suffix == ".jsonl":
        rows = _read_json_lines(path, text)
        return list(dict.fromkeys(name for _, row in rows for name in row)), rows
    return _read_delimited(path, text, _DELIMITERS[suffix])


def _check_column(path: str, column: str, known: Sequence[str]) -> None:
    if column not in known:
        near = difflib.get_close_matches(column, known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise ValueError(f"{path} has no column {column!r}{hint} It has: {', '.join(known)}.")


def _cell(path: str, line: int, row: dict[str, Any], column: str) -> Any:
    value = row.get(column)
    texts = value if isinstance(value, list) else [value]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"{path}, line {line}: column {column!r} holds {value!r}, not a text or a list of texts.")
    return value


def _number(path: str, line: int, row: dict[str, Any], column: str) -> float:
    value = row.get(column)
    try:
        number = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{path}, line {line}: column {column!r} holds {value!r}, not a finite number.")
    return number


def _read_json_lines(path: str, text: str) -> list[tuple[int, dict[str, Any]]]:
    rows = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"{path}, line {number}: not JSON ({error.msg}).") from None
        if not isinstance(row, dict):
            raise ValueError(f"{path}, line {number}: expected an object with named columns, got {type(row).__name__}.")
        rows.append((number, row))
    return rows


def _read_delimited(path: str, text: str, delimiter: str) -> tuple[list[str], list[tuple[int, dict[str, Any]]]]:
    csv.field_size_limit(2**31 - 1)  # a text may be long
    # Tab-separated text is not quoted by custom: a quotation mark in it is part of the sentence.
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=delimiter,
        quoting=csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL,
    )
    n_lines = len(text.rstrip("\r\n").split("\n")) + 1
    try:
        header = next(reader)
        twice = sorted({name for name in header if header.count(name) > 1})
        if twice:
            raise ValueError(f"{path} has several columns named {twice[0]!r}.")
        rows = []
        for cells in reader:
            if not cells and len(header) == 1:
                cells = [""]  # a blank line is an empty text
            if not cells and reader.line_num >= n_lines:
                continue  # behind the last line
            if len(cells) != len(header):
                raise ValueError(
                    f"{path}, line {reader.line_num}: {len(cells)} cells, but the header has {len(header)} columns."
                )
            rows.append((reader.line_num, dict(zip(header, cells, strict=True))))
    except StopIteration:
        raise ValueError(f"{path} is empty; expected a header line with the names of the columns.") from None
    except csv.Error as error:
        raise ValueError(f"{path}, line {reader.line_num}: {error}.") from None
    return header, rows
