"""Files -> texts: plain text, TSV, CSV and JSON lines, as UTF-8."""

from __future__ import annotations

import difflib
import math
import os
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bertscore_metric.config import user_path
from bertscore_metric.io.tables import DELIMITERS, JSON_LINES, Rows, read_table, split_lines

STDIN = STDOUT = "-"
ESCAPED = "backslashreplace"


def read_candidates(path: str, column: str | None = None, option: str = "--candidate-column") -> list[str]:
    """Return one text a line of a text file, or one a row of a table's column.

    Args:
        path: a file, or `-` for standard input. `.tsv`, `.csv` and `.jsonl` files are tables with named columns.
        column: which column; needed for a table.
        option: where the user names it, for the message.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: not UTF-8, no such column, or a broken line; the message names line or columns.
    """
    columns = [] if column is None else [column]
    if _is_table(path):
        return [row[0] for row in _read_table(path, columns, option, several=False)]
    _refuse_columns(path, columns)
    return split_lines(_decode(path))


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
            files.append([[line] for line in split_lines(_decode(path))])
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


def column_names(path: str) -> list[str]:
    """Return the names of a table's columns.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: no table, not UTF-8, or a broken line.
    """
    if not _is_table(path):
        raise ValueError(f"{path} is no table; use .tsv, .csv or .jsonl with named columns.")
    return _load_table(path)[0]


def has_column(path: str, column: str) -> bool:
    """Return whether a file is a table with this column.

    Raises:
        FileNotFoundError, ValueError: as for `read_numbers`.
    """
    return _is_table(path) and column in column_names(path)


def check_stdin(inputs: Iterable[str | None]) -> None:
    """Refuse inputs of which several are standard input, for it can be read once."""
    if [*inputs].count(STDIN) > 1:
        raise ValueError("Standard input (-) can be read once; name files for the others.")


def check_outputs(outputs: Mapping[str, str | None], inputs: Iterable[str | None]) -> None:
    """Refuse, before there is work, files that cannot be written, that are read, or that are written twice.

    Args:
        outputs: option -> file. `--output -`, or its absence, is standard output.
        inputs: everything that is read; `None` where nothing is.

    Raises:
        ValueError: a folder, a file in no folder, one of the inputs, or another output.
        OSError: standard output is closed.
    """
    if outputs.get("--output", STDOUT) in (None, STDOUT) and sys.stdout is None:
        raise OSError("Standard output is closed; name a file with --output.")
    read = [user_path(name) for name in inputs if name is not None and name != STDIN]
    written: dict[Path, str] = {}
    for option, path in outputs.items():
        if path is None or (option == "--output" and path == STDOUT):
            continue
        file = _writable(path, option)
        if any(file.exists() and other.exists() and file.samefile(other) for other in read):
            raise ValueError(f"{option} {path} would overwrite an input.")
        if file.resolve() in written:
            raise ValueError(f"{option} and {written[file.resolve()]} would both write {path}.")
        written[file.resolve()] = option


def _writable(path: str, option: str) -> Path:
    file = user_path(path)
    if path in ("", STDOUT) or file.is_dir():
        raise ValueError(f"{option} must name a file, got {path!r}.")
    if not file.absolute().parent.is_dir():
        raise ValueError(f"There is no folder {str(file.parent)!r} to write {file.name} to.")
    return file


def write_text(path: str, text: str) -> None:
    """Write a file whole or not at all; a device, a pipe or the target of a link is written to, not replaced.

    What UTF-8 cannot hold (a byte of a file's name that is none) is written as an escape.
    """
    target = user_path(path)
    if target.is_symlink() or (target.exists() and not target.is_file()):
        target.write_text(text, encoding="utf-8", errors=ESCAPED, newline="\n")
        return
    folder = target.absolute().parent
    try:
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=".bertscore-", text=False)
    except OSError as error:  # which would name the temporary file
        raise OSError(f"Cannot write {path}: {error.strerror} (its folder takes no new file).") from error
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors=ESCAPED, newline="\n") as stream:
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
    return Path(path).suffix.lower() in (*DELIMITERS, JSON_LINES)


def _refuse_columns(path: str, columns: Sequence[str]) -> None:
    if not path:
        raise ValueError("The name of a file is empty.")
    if Path(path).suffix.lower() == ".json":
        raise ValueError(f"{path} is JSON; only JSON lines are read (.jsonl, one object a line with named columns).")
    if columns:
        raise ValueError(f"Columns ({', '.join(columns)}) are named in .tsv, .csv and .jsonl files; {path} is none.")


def _decode(path: str) -> str:
    if path == STDIN:
        if sys.stdin is None:
            raise OSError("Standard input (-) is closed; name a file.")
        data = sys.stdin.buffer.read()
    else:
        file = user_path(path)
        if file.is_dir():
            raise ValueError(f"{path} is a folder, not a file.")
        if not file.exists():
            near = difflib.get_close_matches(file.name, [other.name for other in file.parent.glob("*")], n=1)
            hint = f" Did you mean {file.with_name(near[0])}?" if near else ""
            raise FileNotFoundError(f"No file {path!r}.{hint} Literal text is scored with --text.")
        data = file.read_bytes()
    if b"\r" in data and b"\n" not in data:
        raise ValueError(
            f"{path} ends its lines with carriage returns alone, as in old Mac files, and so would be one line; "
            f"convert them to \\n or \\r\\n."
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ValueError(f"{path}, line {line}: not UTF-8 (byte {data[error.start]:#04x}); convert the file.") from None


def _read_table(path: str, columns: Sequence[str], option: str, *, several: bool = True) -> list[list[Any]]:
    known, rows = _load_table(path)
    if not columns:
        raise ValueError(f"{path} is a table; name its column with {option}. It has: {', '.join(known)}.")
    for column in columns:
        _check_column(path, column, known)
    return [[_cell(path, line, row, column, several) for column in columns] for line, row in rows]


def _load_table(path: str) -> tuple[list[str], Rows]:
    return read_table(path, _decode(path), Path(path).suffix.lower())


def _check_column(path: str, column: str, known: Sequence[str]) -> None:
    if column not in known:
        near = difflib.get_close_matches(column, known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise ValueError(f"{path} has no column {column!r}{hint} It has: {', '.join(known)}.")


def _value(path: str, line: int, row: dict[str, Any], column: str) -> Any:
    if column not in row:  # only JSON lines can lack one
        raise ValueError(f"{path}, line {line} has no {column!r}; it has: {', '.join(row) or 'nothing'}.")
    return row[column]


def _cell(path: str, line: int, row: dict[str, Any], column: str, several: bool) -> Any:
    value = _value(path, line, row, column)
    texts = value if isinstance(value, list) and several else [value]
    if not texts or not all(isinstance(text, str) for text in texts):
        wanted = "a text or a list of texts" if several else "a text"
        raise ValueError(f"{path}, line {line}: column {column!r} holds {value!r}, not {wanted}.")
    for text in texts:
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ValueError(
                f"{path}, line {line}: column {column!r} holds a lone surrogate at character {error.start}, which is "
                f"not valid Unicode; write the character itself, or both of its surrogates."
            ) from None
    return value


def _number(path: str, line: int, row: dict[str, Any], column: str) -> float:
    value = _value(path, line, row, column)
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{path}, line {line}: column {column!r} holds {value!r}, not a finite number.")
    return number
