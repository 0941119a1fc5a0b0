"""A table for people: columns in line, whatever the width of their characters."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a line a row, whose cells begin where those above do; two spaces between columns, none at the end.

    Example:
        >>> aligned([["", "P"], ["猫.txt", "0.5"], ["b", "1"]])
        ['        P', '猫.txt  0.5', 'b       1']
    """
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
