"""Text -> the rows of a table with named columns: tab- or comma-separated, or JSON lines."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

DELIMITERS = {".tsv": "\t", ".csv": ","}
JSON_LINES = ".jsonl"

Rows = list[tuple[int, dict[str, Any]]]


def read_table(path: str, text: str, suffix: str) -> tuple[list[str], Rows]:
    r"""Return the names of a table's columns, and its rows with the numbers of the lines they begin at, from 1.

    Args:
        path: what the messages call the file.
        text: its content. Lines end with `\n` or `\r\n`.
        suffix: what kind of table it is: `.tsv` (never quoted), `.csv` or `.jsonl`.

    Raises:
        ValueError: no header, a line that is not as long as it, a quotation mark that is not closed, a line that is no
            JSON object, or a column twice; the message names the line.

    Example:
        >>> read_table("pairs.tsv", "output\tgold\na cat\tthe cat\n", ".tsv")
        (['output', 'gold'], [(2, {'output': 'a cat', 'gold': 'the cat'})])
    """
    if suffix == JSON_LINES:
        rows = _json_lines(path, text)
        return list(dict.fromkeys(name for _, row in rows for name in row)), rows
    cells = _tab_separated(text) if suffix == ".tsv" else _comma_separated(path, text)
    if not cells:
        raise ValueError(f"{path} is empty; expected a header line with the names of the columns.")
    (_, header), *lines = cells
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise ValueError(f"{path} has several columns named {twice[0]!r}.")
    if len(header) == 1:
        lines = [(number, line or [""]) for number, line in lines]  # a blank line is an empty text
    while lines and not lines[-1][1]:
        lines.pop()  # blank lines behind the last row
    for number, line in lines:
        if len(line) != len(header):
            raise ValueError(f"{path}, line {number}: {len(line)} cells, but the header has {len(header)} columns.")
    return header, [(number, dict(zip(header, line, strict=True))) for number, line in lines]


def split_lines(text: str) -> list[str]:
    r"""Return the lines of a text; only `\n` and `\r\n` end one.

    `str.splitlines` would also split at form feeds and Unicode separators, which may stand inside a text.
    """
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines[:-1] if lines[-1] == "" else lines


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the names and values of a JSON object; a name that occurs twice is a `ValueError`."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name!r} occurs twice in an object")
        found[name] = value
    return found


def _json_lines(path: str, text: str) -> Rows:
    lines = text.rstrip().split("\n") if text.strip() else []
    if not lines:
        raise ValueError(f"{path} is empty; expected a JSON object with named columns in every line.")
    rows = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            raise ValueError(f'{path}, line {number} is blank; an empty text is written as {{"name": ""}}.')
        try:
            row = json.loads(line, object_pairs_hook=unique)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path}, line {number}: not JSON ({_reason(error)}).") from None
        if not isinstance(row, dict):
            raise ValueError(f"{path}, line {number}: expected an object with named columns, got {type(row).__name__}.")
        rows.append((number, row))
    return rows


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return error.msg
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return "a number has too many digits" if "digits" in str(error) else str(error)


def _tab_separated(text: str) -> list[tuple[int, list[str]]]:
    # Not quoted by custom: a quotation mark in it is part of the sentence.
    return [(number, line.split("\t") if line else []) for number, line in enumerate(split_lines(text), 1)]


def _comma_separated(path: str, text: str) -> list[tuple[int, list[str]]]:
    csv.field_size_limit(2**31 - 1)  # a text may be long
    reader = csv.reader(io.StringIO(text, newline="\n"), strict=True)
    cells: list[tuple[int, list[str]]] = []
    try:
        while True:
            begin = reader.line_num + 1  # a quoted cell may hold several lines
            cells.append((begin, next(reader)))
    except StopIteration:
        return cells
    except csv.Error as error:
        raise ValueError(
            f"{path}, line {begin}: {_explained(str(error))} Quote the whole cell, and write a quotation mark inside "
            f'it twice: "she said ""yes""".'
        ) from None


def _explained(said: str) -> str:
    if "end of data" in said:
        return "a cell that begins with a quotation mark is never closed."
    if "expected after" in said:
        return "more text follows the quotation mark that closes a cell."
    return "a carriage return stands in a cell that is not quoted." if "new-line" in said else f"{said}."
