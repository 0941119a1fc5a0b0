"""`scorer.pairwise`: the matrices of all pairs, or the best partners of every text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from bertscore_metric.all_pairs import PairScoring, prepare, tiles, warn
from bertscore_metric.checks import optional_int
from bertscore_metric.core import ragged
from bertscore_metric.core.pairs import check_texts
from bertscore_metric.core.pairwise import best_keys, ranking_keys, read_keys
from bertscore_metric.signature import Signature


@dataclass(frozen=True, eq=False)
class PairwiseScores:
    """Scores of all pairs.

    Args:
        precision, recall, f1: [a, b] float32 on the CPU; rescaled if asked for.
        signature: every setting that changes a number.
    """

    precision: Tensor
    recall: Tensor
    f1: Tensor
    signature: Signature

    def to_dict(self) -> dict[str, Any]:
        """Return signature and matrices as plain values, a list a row."""
        matrices = {name: getattr(self, name).tolist() for name in ("precision", "recall", "f1")}
        return {"signature": str(self.signature), **matrices}


@dataclass(frozen=True, eq=False)
class PairwiseBest:
    """The best partners of every text.

    Args:
        index: [a, k] int64, numbers of the texts of `b` with the highest F1, best first; of equal ones the lowest.
        f1: [a, k] float32 on the CPU; rescaled if asked for.
        signature: every setting that changes a number.
    """

    index: Tensor
    f1: Tensor
    signature: Signature

    def to_dict(self) -> dict[str, Any]:
        """Return signature, numbers and F1 as plain values, a list a row."""
        return {"signature": str(self.signature), "index": self.index.tolist(), "f1": self.f1.tolist()}


def pairwise(scoring: PairScoring, a: Any, b: Any, top: int | None) -> PairwiseScores | PairwiseBest:
    """Score all texts of `a` against all of `b`; see `BERTScorer.pairwise`."""
    sides = {"a": _one_reference(a, "a")} | ({} if b is None else {"b": _one_reference(b, "b")})
    n_columns = len(sides["a" if b is None else "b"])
    top = optional_int("top", top, at_least=1)
    if top is not None and top > n_columns:
        raise ValueError(f"top={top} asks for more than there is: {'a' if b is None else 'b'} has {n_columns} texts.")
    texts = prepare(scoring, sides)
    warn(scoring, texts, sides, stacklevel=4)
    rows, columns = texts.sides[0], texts.sides[-1]
    found = Matrices(scoring, rows, columns) if top is None else _Best(scoring, rows, columns, top)
    distinct = [torch.unique(side) for side in texts.sides]
    n = [len(side) for side in distinct]
    with tqdm(
        total=n[0] * n[-1], unit=" pairs", unit_scale=True, desc="All pairs", disable=not scoring.progress
    ) as bar:
        for tile in tiles(scoring, texts, *distinct):
            found.put(*tile)
            bar.update(tile[2].numel())
    return found.result()


class _Places:
    """Where the texts of a side stand: a text that occurs several times has a row or a column each time."""

    def __init__(self, numbers: Tensor) -> None:
        self._order = torch.argsort(numbers, stable=True)
        self._counts = torch.bincount(numbers)
        self._first = ragged.starts(self._counts)

    def of(self, texts: Tensor) -> tuple[Tensor, Tensor]:
        """Return which of `texts` stands at a place, and the place: [place] int64 each."""
        counts = self._counts[texts]
        return ragged.owners(counts), self._order[ragged.positions(self._first[texts], counts)]


class Matrices:
    """Gathers tiles into matrices: precision, recall and F1, [row, column] float32."""

    def __init__(self, scoring: PairScoring, rows: Tensor, columns: Tensor) -> None:
        self._scoring = scoring
        self._rows, self._columns = _Places(rows), _Places(columns)
        p, r, f1 = (torch.empty(len(rows), len(columns)) for _ in range(3))
        self.matrices = (p, r, f1)

    def put(self, row_texts: Tensor, column_texts: Tensor, precision: Tensor, recall: Tensor) -> None:
        """Take the scores of some rows and columns."""
        which_row, rows = self._rows.of(row_texts)
        which_column, columns = self._columns.of(column_texts)
        for matrix, scores in zip(self.matrices, self._scoring.final(precision, recall), strict=True):
            matrix[rows[:, None], columns] = scores[which_row[:, None], which_column]

    def result(self) -> PairwiseScores:
        """Return the matrices."""
        return PairwiseScores(*self.matrices, signature=self._scoring.signature)


class _Best:
    """Keeps the best columns of every row."""

    def __init__(self, scoring: PairScoring, rows: Tensor, columns: Tensor, top: int) -> None:
        self._scoring = scoring
        self._rows, self._columns = _Places(rows), _Places(columns)
        self._keys = torch.full((len(rows), top), torch.iinfo(torch.int64).min)

    def put(self, row_texts: Tensor, column_texts: Tensor, precision: Tensor, recall: Tensor) -> None:
        """Take the scores of some rows and columns."""
        which_row, rows = self._rows.of(row_texts)
        which_column, columns = self._columns.of(column_texts)
        f1 = self._scoring.final(precision, recall)[2]
        keys = ranking_keys(f1[which_row[:, None], which_column], columns)
        self._keys[rows] = best_keys(self._keys[rows], keys)

    def result(self) -> PairwiseBest:
        """Return numbers and F1."""
        return PairwiseBest(*read_keys(self._keys), signature=self._scoring.signature)


def _one_reference(texts: Any, name: str) -> list[str]:
    entries = texts if isinstance(texts, list | tuple) else []
    group = next((index for index, entry in enumerate(entries) if isinstance(entry, list | tuple)), None)
    if group is not None:
        raise TypeError(
            f"{name}[{group}] is a {type(entries[group]).__name__}; pairwise compares single texts, not segments "
            f"with several references. Pass all texts in one flat list; the maximum over those that belong together "
            f"is yours to take."
        )
    return check_texts(texts, name)
