"""Parquet and Arrow files -> chunks of rows, made into Python objects only where they are wanted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from bertscore_metric.io.opened import PARQUET, existing, packages
from bertscore_metric.io.rows import Rows

_CHUNK = 8192  # rows


class ArrowRows:
    """A record batch, of which a part becomes `Rows`; the first of its rows is the file's row `first`, from 1."""

    def __init__(self, path: str, first: int, batch: Any) -> None:
        self._path = path
        self._first = first
        self._batch = batch

    def __len__(self) -> int:
        return int(self._batch.num_rows)

    def part(self, begin: int, end: int) -> Rows:
        """Return the rows from `begin` to before `end`."""
        batch = self._batch.slice(begin, end - begin)
        columns = {name: column.to_pylist() for name, column in zip(batch.schema.names, batch.columns, strict=True)}
        return Rows(self._path, "row", range(self._first + begin, self._first + end), columns)


def column_names(path: str, suffix: str) -> list[str]:
    """Return the names of the columns of a Parquet or Arrow file.

    Raises:
        ValueError: it is damaged, or is no such file.
    """
    with _Said(path, suffix):
        if suffix == PARQUET:
            with packages("pyarrow.parquet", path).ParquetFile(existing(path)) as file:
                return list(file.schema_arrow.names)
        with _arrow(path) as (reader, _):
            return list(reader.schema.names)


def chunks(path: str, suffix: str, columns: Sequence[str]) -> Iterator[ArrowRows]:
    """Yield the rows of a Parquet or Arrow file with the columns that are wanted.

    Raises:
        ValueError: it is damaged, or is no such file.
    """
    first = 1
    batches = _parquet_batches if suffix == PARQUET else _arrow_batches
    with _Said(path, suffix):
        for batch in batches(path, list(dict.fromkeys(columns))):
            for begin in range(0, batch.num_rows, _CHUNK):
                part = batch.slice(begin, _CHUNK)
                yield ArrowRows(path, first, part)
                first += part.num_rows


def _parquet_batches(path: str, columns: list[str]) -> Iterator[Any]:
    # Without threads and read ahead: columns of texts are large, and memory is what is bounded.
    with packages("pyarrow.parquet", path).ParquetFile(existing(path), pre_buffer=False) as file:
        for batch in file.iter_batches(batch_size=_CHUNK, columns=columns, use_threads=False):
            yield batch.select(columns)


def _arrow_batches(path: str, columns: list[str]) -> Iterator[Any]:
    with _arrow(path) as (_, batches):
        for batch in batches:
            yield batch.select(columns)


class _arrow:  # noqa: N801
    """Opens an Arrow file: one with a footer (Feather, too), or a stream as `datasets` writes it."""

    def __init__(self, path: str) -> None:
        self._pyarrow = packages("pyarrow", path)
        self._source = self._pyarrow.OSFile(str(existing(path)))

    def __enter__(self) -> tuple[Any, Iterator[Any]]:
        magic = self._source.read(6)
        self._source.seek(0)
        if magic == b"ARROW1":
            file = self._pyarrow.ipc.open_file(self._source)
            return file, (file.get_batch(number) for number in range(file.num_record_batches))
        stream = self._pyarrow.ipc.open_stream(self._source)
        return stream, iter(stream)

    def __exit__(self, *_: object) -> None:
        self._source.close()


class _Said:
    """Says in words what pyarrow raises about a file."""

    def __init__(self, path: str, suffix: str) -> None:
        self._path = path
        self._suffix = suffix

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if error is None or not type(error).__module__.startswith("pyarrow"):
            return
        said = " ".join(str(error).split()).rstrip(".")
        raise ValueError(f"{self._path} is damaged, or is no {self._suffix} file: {said}.") from error
