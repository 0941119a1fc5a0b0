"""Whole files -> texts and numbers; and what is written, checked before there is work."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bertscore_metric.io.cells import number_of, references_of, text_of
from bertscore_metric.io.opened import STDIN as STDIN
from bertscore_metric.io.opened import TEXT, expand, kind, unpacked
from bertscore_metric.io.paths import user_path
from bertscore_metric.io.read import open_rows, separator_hint, table_columns
from bertscore_metric.io.rows import Rows
from bertscore_metric.io.tables import TEXT_COLUMN, decoded

STDOUT = "-"
ESCAPED = "backslashreplace"


def read_candidates(
    path: str, column: str | None = None, option: str = "--candidate-column", *, delimiter: str | None = None
) -> list[str]:
    """Return one text a line of a text file, or one a row of a table's column.

    Args:
        path: a file, a pattern in quotes, a folder of tables, or `-` for standard input. Tables with named columns are
            `.tsv`, `.csv`, `.jsonl`, `.parquet` and `.arrow` files; what is compressed (.gz, .zst, .xz, .bz2) is
            unpacked.
        column: which column; needed for a table.
        option: where the user names it, for the message.
        delimiter: what separates the cells of .tsv and .csv files, where it is not a tab or a comma.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: not UTF-8, no such column, or a broken line; the message names line or columns.
    """
    columns = wanted(path, [] if column is None else [column], option, delimiter)
    return [text for rows in _all_good(path, columns, delimiter) for text in text_of(rows, next(iter(columns)))]


def read_text(path: str) -> str:
    """Return what is in a text file.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a folder, or not UTF-8; the message names the line.
    """
    lines = []
    with unpacked(path) as stream:
        for _, line, wrong in decoded(path, stream):
            if wrong:
                raise ValueError(wrong)
            lines.append(line + "\n")
    return "".join(lines)


def read_references(paths: Sequence[str], columns: Sequence[str] = (), *, delimiter: str | None = None) -> list[Any]:
    """Return the references of each candidate: a text where there is one, else a list of texts.

    Args:
        paths: text files with a reference a line each, or tables, each as for `read_candidates`.
        columns: the columns of every table that hold references. A JSON line, or a Parquet row, may hold a list.
        delimiter: as for `read_candidates`.

    Raises:
        FileNotFoundError, ValueError: as for `read_candidates`, or files of different length.
    """
    files: list[list[list[Any]]] = []
    for path in paths:
        options = wanted(path, columns, "--reference-column", delimiter)
        files.append([
            group
            for rows in _all_good(path, options, delimiter)
            for group in references_of(rows, [*options], others=len(paths) > 1)
        ])  # fmt: skip
    for path, file in zip(paths, files, strict=True):
        if len(file) != len(files[0]):
            raise ValueError(
                f"Reference files need equal numbers of lines: {paths[0]} has {len(files[0])}, {path} has {len(file)}."
            )
    groups = [[text for group in parts for text in group] for parts in zip(*files, strict=True)]
    return [group[0] for group in groups] if all(len(group) == 1 for group in groups) else groups


def read_lists(path: str, column: str, group_column: str | None = None) -> dict[str, list[str]]:
    """Return lists of texts by name: a list of a row by the row's number, or the rows of a group by its name.

    Args:
        path: a table.
        column: holds a list of texts in every row (JSON lines, Parquet); with `group_column` a text.
        group_column: names the group of every row; groups are in the order of their first rows.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: no table, no such column, or no list where there should be one; the message names the line.
    """
    if group_column is not None:
        groups: dict[str, list[str]] = {}
        names = read_candidates(path, group_column, "--group-column")
        for name, text in zip(names, read_candidates(path, column, "--column"), strict=True):
            groups.setdefault(name, []).append(text)
        return groups
    lists: dict[str, list[str]] = {}
    for rows in _all_good(path, {column: "--column"}, None):
        for number, group in enumerate(references_of(rows, [column])):
            if not isinstance(rows.columns[column][number], list):
                raise ValueError(
                    f"{path}: column {column!r} holds a text in row {len(lists)}, not a list of texts; if a row has "
                    f"one sample, name the column of its source with --group-column."
                )
            lists[str(len(lists))] = group
    return lists


def read_numbers(
    path: str, column: str, option: str = "--score-column", *, delimiter: str | None = None
) -> list[float]:
    """Return one number a row of a table's column.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: no table, no such column, or a cell that is no finite number; the message names line or columns.
    """
    rows = _all_good(path, {column: option}, delimiter)
    return [number for part in rows for number in number_of(part, column)]


def column_names(path: str, *, delimiter: str | None = None) -> list[str]:
    """Return the names of a table's columns.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: no table, not UTF-8, or a broken line.
    """
    return table_columns(path, delimiter)


def has_column(path: str, column: str, *, delimiter: str | None = None) -> bool:
    """Return whether a file is a table with this column.

    Raises:
        FileNotFoundError, ValueError: as for `read_numbers`.
    """
    return path != STDIN and kind(expand(path)[0]) != TEXT and column in column_names(path, delimiter=delimiter)


def wanted(path: str, columns: Sequence[str], option: str, delimiter: str | None = None) -> dict[str, str]:
    """Return the columns to read of a file, each with the option that names it.

    Raises:
        ValueError: none is named in a table, or some are in plain text.
    """
    if columns:
        return dict.fromkeys(columns, option)
    file = path if path == STDIN else expand(path)[0]
    if file == STDIN or kind(file) == TEXT:
        return {TEXT_COLUMN: ""}
    known = table_columns(file, delimiter)
    raise ValueError(
        f"{file} is a table; name its column with {option}. It has: {', '.join(known)}.{separator_hint(file, known)}"
    )


def _all_good(path: str, columns: Mapping[str, str], delimiter: str | None) -> Iterator[Rows]:
    for chunk in open_rows(path, columns, delimiter=delimiter):
        rows = chunk.part(0, len(chunk))
        if rows.bad:
            raise ValueError(rows.bad[min(rows.bad)])
        yield rows


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
        try:
            target.write_text(text, encoding="utf-8", errors=ESCAPED, newline="\n")
        except OSError as error:
            raise OSError(f"Cannot write {path}: {error.strerror}.") from error
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
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError):  # which would name the temporary file
            raise OSError(f"Cannot write {path}: {error.strerror}.") from error
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
