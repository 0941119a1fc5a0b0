"""Lines of bytes -> the rows of a table with named columns: tab- or comma-separated, or JSON lines; or plain text.

Everything is a stream: memory is bounded by a chunk of rows, whatever the size of the file.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from bertscore_metric.io.opened import JSON_LINES, TEXT
from bertscore_metric.io.rows import Missing, Rows

CHUNK = 8192  # rows
TEXT_COLUMN = ""  # the name of the one column of a text file

# A row: the line that it begins at, its cells (a list, or a JSON object), and what is wrong with it.
Row = tuple[int, Any, str | None]


def text_rows(path: str, lines: Iterable[bytes]) -> Iterator[Row]:
    r"""Yield a row a line of plain text; only `\n` and `\r\n` end one."""
    for number, text, wrong in decoded(path, lines):
        yield number, [text], wrong


def tab_separated(path: str, lines: Iterable[bytes], delimiter: str = "\t") -> tuple[list[str], Iterator[Row]]:
    """Return the names of the columns and the rows. Not quoted by custom: a quotation mark is part of the text."""
    cells = ((number, text.split(delimiter) if text else [], wrong) for number, text, wrong in decoded(path, lines))
    return _with_header(path, cells)


def comma_separated(path: str, lines: Iterable[bytes], delimiter: str = ",") -> tuple[list[str], Iterator[Row]]:
    """Return the names of the columns and the rows; quoted cells may hold delimiters, quotation marks and lines."""
    return _with_header(path, _comma_cells(path, lines, delimiter))


def json_lines(path: str, lines: Iterable[bytes]) -> Iterator[Row]:
    """Yield a row a line, whose cells are an object's.

    Raises:
        ValueError: there is no line.
    """
    blank: list[int] = []
    number = 0
    for number, line, wrong in decoded(path, lines):
        if not wrong and (not line or line.isspace()):
            blank.append(number)
            continue
        for other in blank:
            yield other, {}, f'{path}, line {other} is blank; an empty text is written as {{"name": ""}}.'
        blank.clear()
        yield (number, {}, wrong) if wrong else _json_row(path, number, line)
    if len(blank) == number:
        raise ValueError(f"{path} is empty; expected a JSON object with named columns in every line.")


def chunks(path: str, names: Sequence[str], rows: Iterator[Row], *, by_name: Sequence[str] = ()) -> Iterator[Rows]:
    """Gather rows into chunks of columns.

    Args:
        path: what the messages call the file.
        names: the columns that are wanted.
        rows: what a reader of this file yields.
        by_name: for cells in a list, the names of all columns in order; () where rows are objects.
    """
    places = [by_name.index(name) for name in names] if by_name else []
    numbers: list[int] = []
    kept: list[Any] = []
    bad: dict[int, str] = {}
    for number, cells, wrong in rows:
        if wrong is not None:
            bad[len(numbers)] = wrong
        numbers.append(number)
        kept.append(None if wrong is not None else cells)
        if len(numbers) == CHUNK:
            yield Rows(path, "line", numbers, _columns(names, places, kept), bad)
            numbers, kept, bad = [], [], {}
    if numbers:
        yield Rows(path, "line", numbers, _columns(names, places, kept), bad)


def _columns(names: Sequence[str], places: Sequence[int], kept: list[Any]) -> dict[str, list[Any]]:
    if places:
        return {name: [cells and cells[at] for cells in kept] for name, at in zip(names, places, strict=True)}
    return {name: [None if row is None else _member(row, name) for row in kept] for name in names}


def _member(row: dict[str, Any], name: str) -> Any:
    return row[name] if name in row else Missing(tuple(row))


def decoded(path: str, lines: Iterable[bytes]) -> Iterator[tuple[int, str, str | None]]:
    r"""Yield the number of every line, its text without its end, and what is wrong with it.

    `str.splitlines` would also split at form feeds and Unicode separators, which may stand inside a text.

    Raises:
        ValueError: lines end with carriage returns alone, so that all would be one.
    """
    for number, line in enumerate(lines, 1):
        if number == 1:
            if b"\r" in line and not line.endswith(b"\n"):
                raise ValueError(
                    f"{path} ends its lines with carriage returns alone, as in old Mac files, and so would be one "
                    f"line; convert them to \\n or \\r\\n."
                )
            line = line.removeprefix(b"\xef\xbb\xbf")
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            yield number, "", (f"{path}, line {number}: not UTF-8 (byte {line[error.start]:#04x}); convert the file.")
            continue
        yield number, text.removesuffix("\n").removesuffix("\r"), None


def split_lines(text: str) -> list[str]:
    r"""Return the lines of a text; only `\n` and `\r\n` end one, as in files."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines[:-1] if lines[-1] == "" else lines


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the names and values of a JSON object; a name that occurs twice is a `ValueError`."""
    found: dict[str, Any] = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} occurs twice in an object")
    return found


_READ = json.JSONDecoder(object_pairs_hook=unique).decode


def _json_row(path: str, number: int, line: str) -> Row:
    try:
        row = _READ(line)
    except (ValueError, RecursionError) as error:
        return number, {}, f"{path}, line {number}: not JSON ({_reason(error)})."
    if not isinstance(row, dict):
        return number, {}, (f"{path}, line {number}: expected an object with named columns, got {type(row).__name__}.")
    return number, row, None


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return error.msg
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return "a number has too many digits" if "digits" in str(error) else str(error)


def _with_header(path: str, cells: Iterator[Row]) -> tuple[list[str], Iterator[Row]]:
    first = next(cells, None)
    if first is None:
        raise ValueError(f"{path} is empty; expected a header line with the names of the columns.")
    _, header, wrong = first
    if wrong:
        raise ValueError(wrong)
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise ValueError(f"{path} has several columns named {twice[0]!r}.")
    return header, _as_wide_as(path, len(header), cells)


def _as_wide_as(path: str, width: int, cells: Iterator[Row]) -> Iterator[Row]:
    blank: list[int] = []  # behind the last row they are no rows
    for number, line, wrong in cells:
        if not wrong and not line:
            if width == 1:
                yield number, [""], None  # an empty text
            else:
                blank.append(number)
            continue
        for other in blank:
            yield other, [], f"{path}, line {other}: 0 cells, but the header has {width} columns."
        blank.clear()
        if not wrong and len(line) != width:
            wrong = f"{path}, line {number}: {len(line)} cells, but the header has {width} columns."
        yield number, line, wrong


def _comma_cells(path: str, lines: Iterable[bytes], delimiter: str) -> Iterator[Row]:
    csv.field_size_limit(2**31 - 1)  # a text may be long
    wrong: dict[int, str] = {}

    def texts() -> Iterator[str]:
        for number, line in enumerate(lines, 1):
            if number == 1 and b"\r" in line and not line.endswith(b"\n"):
                next(decoded(path, [line]))  # says so
            try:
                yield (line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line).decode()
            except UnicodeDecodeError as error:
                wrong[number] = f"{path}, line {number}: not UTF-8 (byte {line[error.start]:#04x}); convert the file."
                yield line.decode(errors="replace")

    reader = csv.reader(texts(), strict=True, delimiter=delimiter)
    while True:
        begin = reader.line_num + 1  # a quoted cell may hold several lines
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            message = (
                f"{path}, line {begin}: {_explained(str(error))} Quote the whole cell, and write a quotation mark "
                f'inside it twice: "she said ""yes""".'
            )
            if "end of data" in str(error):
                raise ValueError(message) from None  # it has swallowed all the rest
            yield begin, [], message
            continue
        found = [wrong.pop(number) for number in range(begin, reader.line_num + 1) if number in wrong] if wrong else []
        yield begin, cells, found[0] if found else None


def _explained(said: str) -> str:
    if "end of data" in said:
        return "a cell that begins with a quotation mark is never closed."
    if "expected after" in said:
        return "more text follows the quotation mark that closes a cell."
    return "a carriage return stands in a cell that is not quoted." if "new-line" in said else f"{said}."


def read_rows(path: str, lines: Iterable[bytes], suffix: str, delimiter: str) -> tuple[list[str] | None, Iterator[Row]]:
    """Return the names of a file's columns, `None` for JSON lines, whose rows each have their own; and its rows."""
    if suffix == TEXT:
        return [TEXT_COLUMN], text_rows(path, lines)
    if suffix == JSON_LINES:
        return None, json_lines(path, lines)
    return (tab_separated if suffix == ".tsv" else comma_separated)(path, lines, delimiter)
