"""The name of a table -> its rows as a stream, with the columns that are wanted."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

from bertscore_metric.io import columnar, tables
from bertscore_metric.io.opened import COLUMNAR, DELIMITERS, JSON_LINES, NO_TABLES, STDIN, TEXT, expand, kind, unpacked
from bertscore_metric.io.rows import Chunk, Rows

_logger = logging.getLogger("bertscore_metric")


def open_rows(path: str, options: Mapping[str, str], *, delimiter: str | None = None) -> Iterator[Chunk]:
    """Yield the rows of a file, of those that a pattern matches, or of a folder's tables, one after the other.

    Args:
        path: what the user named; `-` is standard input.
        options: the columns that are wanted, each with the option that names it, for messages; none for plain text,
            whose column is `TEXT_COLUMN`.
        delimiter: what separates the cells of .tsv and .csv files, where it is not a tab or a comma.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a missing column, a damaged file, or one that cannot be read on; else what is wrong with a row is
            in its chunk.
    """
    for file in expand(path):
        suffix = TEXT if file == STDIN else kind(file)
        _check_kind(file, suffix, options, delimiter)
        if suffix in COLUMNAR:
            _check_columns(file, options, columnar.column_names(file, suffix))
            yield from columnar.chunks(file, suffix, [*options])
        else:
            yield from _line_chunks(file, suffix, options, delimiter)


def table_columns(path: str, delimiter: str | None = None) -> list[str]:
    """Return the names of a table's columns; of JSON lines those of all lines.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: no table, or a broken one.
    """
    names: dict[str, None] = {}
    for file in expand(path):
        suffix = kind(file)
        if suffix == TEXT:
            raise ValueError(f"{file} is not a table; {NO_TABLES}.")
        if suffix in COLUMNAR:
            names.update(dict.fromkeys(columnar.column_names(file, suffix)))
            continue
        with unpacked(file) as lines:
            header, rows = tables.read_rows(file, lines, suffix, delimiter or DELIMITERS.get(suffix, ""))
            names.update(dict.fromkeys(header if header is not None else _names(rows)))
    return [*names]


def _line_chunks(file: str, suffix: str, options: Mapping[str, str], delimiter: str | None) -> Iterator[Rows]:
    with unpacked(file) as lines:
        names, rows = tables.read_rows(file, lines, suffix, delimiter or DELIMITERS.get(suffix, ""))
        if suffix == TEXT:
            yield from tables.chunks(file, [tables.TEXT_COLUMN], rows, by_name=[tables.TEXT_COLUMN])
            return
        if names is None:
            some = [*islice(rows, tables.CHUNK)]
            _check_columns(file, options, _names(some))
            rows = chain(some, rows)
        else:
            _check_columns(file, options, names)
        found = tables.chunks(file, [*options], rows, by_name=names or ())
        yield from found if suffix != ".tsv" else _quotes_noticed(file, found)


def _names(rows: Any) -> list[str]:
    return [*dict.fromkeys(name for _, row, wrong in rows if wrong is None for name in row)]


def _check_kind(file: str, suffix: str, options: Mapping[str, str], delimiter: str | None) -> None:
    named = {column: option for column, option in options.items() if column != tables.TEXT_COLUMN or option}
    if suffix == TEXT and named:
        raise ValueError(
            f"Columns ({', '.join(named)}) are named in tables (.tsv, .csv, .jsonl, .parquet, .arrow); {file} is none."
        )
    if delimiter is not None and suffix not in DELIMITERS:
        raise ValueError(f"--delimiter is for .csv and .tsv files; {file} is none.")


def _check_columns(file: str, options: Mapping[str, str], known: Sequence[str]) -> None:
    for column, option in options.items():
        if column in known:
            continue
        near = difflib.get_close_matches(column, known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near and len(known) > 1 else "."
        raise ValueError(
            f"{file} has no column {column!r} ({option}){hint} It has: {', '.join(known)}.{separator_hint(file, known)}"
        )


def separator_hint(file: str, known: Sequence[str]) -> str:
    """Return a sentence about `--delimiter` where the one name of a header seems to hold several."""
    usual = DELIMITERS.get(kind(file))
    if usual is None or len(known) != 1:
        return ""
    other = next((mark for mark in (";", "\t", ",", "|") if mark != usual and mark in known[0]), None)
    shown = {"\t": "tab"}.get(other or "", other)
    return "" if other is None else f" If {shown} separates its columns, say --delimiter '{shown}'."


def _quotes_noticed(file: str, found: Iterator[Rows]) -> Iterator[Rows]:
    """Warn, behind the last row, of a column whose cells are quoted as spreadsheets and pandas write them."""
    filled: dict[str, int] = {}
    quoted: dict[str, int] = {}
    doubled: set[str] = set()
    for rows in found:
        for name, cells in rows.columns.items():
            marked = [cell for cell in cells if cell and cell[0] == '"' == cell[-1] and len(cell) > 1]
            filled[name] = filled.get(name, 0) + sum(1 for cell in cells if cell)
            quoted[name] = quoted.get(name, 0) + len(marked)
            if any('""' in cell[1:-1] for cell in marked):
                doubled.add(name)
        yield rows
    for name, n in filled.items():
        if name in doubled or quoted[name] == n > 1:
            _logger.warning(
                "%s: cells of the column %r stand in quotation marks, as pandas and spreadsheets write them; in .tsv "
                "files they are part of the text and are scored. Write it without them (pandas: quoting=3), or "
                "name it .csv and pass --delimiter tab.",
                file, name,
            )  # fmt: skip


def delimiter_of(given: str | None) -> str | None:
    r"""Return the character that `--delimiter` names: one, `tab`, or `\t`.

    Raises:
        ValueError: it is not one character, or one that cannot separate cells.
    """
    if given is None:
        return None
    mark = {"tab": "\t", "\\t": "\t"}.get(given, given)
    if len(mark) != 1 or mark in '"\r\n':
        raise ValueError(f"--delimiter must be one character, or tab; got {given!r}.")
    return mark


__all__ = ["DELIMITERS", "JSON_LINES", "delimiter_of", "open_rows", "separator_hint", "table_columns"]
