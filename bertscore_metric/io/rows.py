"""Rows of a table, column by column, each with the place it came from; and a cursor that goes through them once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


class Missing:
    """Stands in a column where a row has no such cell; `has` are the names that the row has."""

    def __init__(self, has: Sequence[str]) -> None:
        self.has = tuple(has)


@dataclass(frozen=True)
class Rows:
    """Some rows of a file.

    Args:
        path: what messages call the file.
        unit: what its rows are counted in: `line` or `row`.
        numbers: [row] the line or row that each begins at, from 1.
        columns: name -> [row] cells.
        bad: row -> what is wrong with it, a sentence with its place; its cells are `None`.
    """

    path: str
    unit: str
    numbers: Sequence[int]
    columns: dict[str, list[Any]]
    bad: dict[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.numbers)

    def place(self, row: int) -> str:
        """Return where a row stands, for messages."""
        return f"{self.path}, {self.unit} {self.numbers[row]}"

    def part(self, begin: int, end: int) -> Rows:
        """Return the rows from `begin` to before `end`."""
        if begin <= 0 and end >= len(self):
            return self
        return Rows(
            self.path,
            self.unit,
            self.numbers[begin:end],
            {name: cells[begin:end] for name, cells in self.columns.items()},
            {row - begin: reason for row, reason in self.bad.items() if begin <= row < end},
        )


class Chunk(Protocol):
    """Rows as a reader has them; made into `Rows` only where they are wanted."""

    def __len__(self) -> int: ...

    def part(self, begin: int, end: int) -> Rows:
        """Return the rows from `begin` to before `end`."""


class Cursor:
    """Goes through chunks once, in pieces of any size."""

    def __init__(self, chunks: Iterator[Chunk]) -> None:
        self._chunks = chunks
        self._chunk: Chunk | None = None
        self._at = 0

    def take(self, n: int) -> list[Rows]:
        """Return the next `n` rows, fewer at the end, in parts that each come from one file."""
        parts = []
        for chunk, begin, end in self._next(n):
            parts.append(chunk.part(begin, end))
        return parts

    def skip(self, n: int | None = None) -> int:
        """Go over the next `n` rows, or all that are left, and return how many there were."""
        return sum(end - begin for _, begin, end in self._next(n))

    def _next(self, n: int | None) -> Iterator[tuple[Chunk, int, int]]:
        while n is None or n > 0:
            if self._chunk is None or self._at == len(self._chunk):
                self._chunk, self._at = next(self._chunks, None), 0
                if self._chunk is None:
                    return
            begin = self._at
            self._at = len(self._chunk) if n is None else min(len(self._chunk), begin + n)
            if n is not None:
                n -= self._at - begin
            yield self._chunk, begin, self._at
