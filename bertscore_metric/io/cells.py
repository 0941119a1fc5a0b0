"""Cells -> texts, groups of references, and numbers; what is wrong is said with file and line."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from bertscore_metric.io.rows import Missing, Rows


class CellError(ValueError):
    """A cell that is not what its column must hold."""


def text_of(rows: Rows, column: str) -> list[str]:
    """Return the texts of a column [row].

    Raises:
        CellError: a cell is no text, or holds what UTF-8 cannot; the first is named.
    """
    cells = rows.columns[column]
    if _plain(cells):
        return cells
    return [check_text(rows, row, column) for row in range(len(rows))]


def references_of(rows: Rows, columns: Sequence[str], *, others: bool = False) -> list[list[Any]]:
    """Return the references of each row, those of all columns in order: [row] lists.

    Args:
        rows: of a table.
        columns: that hold a text, or a list of texts, each.
        others: whether other files hold references of these rows, so that none may be here.

    Raises:
        CellError: a cell is neither a text nor a list of them, or a row has no reference; the first is named.
    """
    if all(_plain(rows.columns[column]) for column in columns):
        return [list(cells) for cells in zip(*(rows.columns[column] for column in columns), strict=True)]
    return [check_references(rows, row, columns, others=others) for row in range(len(rows))]


def number_of(rows: Rows, column: str) -> Iterator[float]:
    """Yield the numbers of a column.

    Raises:
        CellError: a cell is no finite number.
    """
    for row, value in enumerate(rows.columns[column]):
        _present(rows, row, column, value)
        try:
            number = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            raise CellError(f"{rows.place(row)}: column {column!r} holds {_shown(value)}, not a finite number.")
        yield number


def check_text(rows: Rows, row: int, column: str) -> str:
    """Return the text in a cell.

    Raises:
        CellError: it is none.
    """
    value = rows.columns[column][row]
    _present(rows, row, column, value)
    if not isinstance(value, str):
        raise CellError(f"{rows.place(row)}: column {column!r} holds {_shown(value)}, not a text.")
    return _valid(rows, row, column, value)


def check_references(rows: Rows, row: int, columns: Sequence[str], *, others: bool = False) -> list[Any]:
    """Return the references in the cells of a row; `None` and NaN stay beside a text, for references have numbers.

    Raises:
        CellError: there is no text, or something else.
    """
    cells = {column: rows.columns[column][row] for column in columns}
    entries = {column: cell if isinstance(cell, list) else [cell] for column, cell in cells.items()}
    missing_may_be = others or any(
        isinstance(text, str) and text.strip() for texts in entries.values() for text in texts
    )
    for column, texts in entries.items():
        _present(rows, row, column, cells[column])
        wrong = [text for text in texts if not (isinstance(text, str) or (missing_may_be and _is_none(text)))]
        if wrong or not texts:
            held = f"holds {_shown(cells[column])}, not a text or a list of texts"
            raise CellError(f"{rows.place(row)}: column {column!r} {held}.")
        for text in texts:
            if isinstance(text, str):
                _valid(rows, row, column, text)
    return [text for texts in entries.values() for text in texts]


def _plain(cells: list[Any]) -> bool:
    """Return whether all cells are texts that UTF-8 can hold."""
    try:
        "".join(cells).encode()
    except (TypeError, UnicodeEncodeError):
        return False
    return True


def _present(rows: Rows, row: int, column: str, value: Any) -> None:
    if isinstance(value, Missing):  # only JSON lines can lack a cell
        raise CellError(f"{rows.place(row)} has no {column!r}; it has: {', '.join(value.has) or 'nothing'}.")


def _valid(rows: Rows, row: int, column: str, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise CellError(
            f"{rows.place(row)}: column {column!r} holds a lone surrogate at character {error.start}, which is not "
            f"valid Unicode; write the character itself, or both of its surrogates."
        ) from None
    return text


def _is_none(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _shown(value: Any) -> str:
    said = repr(value)
    return said if len(said) <= 200 else f"{said[:200]}..."
