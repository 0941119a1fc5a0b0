"""References -> document frequencies -> idf -> token weights: pure functions, and counts that add up."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bertscore_metric.core import ragged
from bertscore_metric.io.paths import user_path
from bertscore_metric.io.tables import unique

_MOST_IDS = 2**24  # no vocabulary is nearly as large
_LEAST_WEIGHT, _MOST_WEIGHT = 1e-100, 1e100  # so that no product or sum leaves float64's range


@dataclass(frozen=True)
class DocumentFrequencies:
    """In how many texts each token occurs: `df` [vocabulary] int64, and the number of texts `n`."""

    df: Tensor
    n: int

    def __add__(self, other: DocumentFrequencies) -> DocumentFrequencies:
        """Add the counts of other texts."""
        size = max(len(self.df), len(other.df))
        df = torch.zeros(size, dtype=torch.int64)
        df[: len(self.df)] += self.df
        df[: len(other.df)] += other.df
        return DocumentFrequencies(df, self.n + other.n)


def document_frequencies(ids: Tensor, lengths: Tensor) -> DocumentFrequencies:
    """Count in how many texts each token occurs; a token that occurs twice in a text counts once.

    Args:
        ids: [token] int64, texts one after the other, special tokens included.
        lengths: [text] int64.
    """
    if not len(ids):
        return DocumentFrequencies(torch.zeros(0, dtype=torch.int64), len(lengths))
    counts = torch.bincount(ids)
    # Sorted by id, the texts of an id are in order, so each begins where the text or the id is another than before.
    texts = torch.repeat_interleave(torch.arange(len(lengths), dtype=torch.int32), lengths)
    texts = texts.index_select(0, _sorting(ids))
    begins = torch.ones(len(ids), dtype=torch.bool)
    torch.ne(texts[1:], texts[:-1], out=begins[1:])
    begins[ragged.starts(counts)[counts > 0]] = True
    return DocumentFrequencies(ragged.sums(begins.double(), counts).long(), len(lengths))


def _sorting(ids: Tensor) -> Tensor:
    """Return the order that sorts ids and keeps the texts in order among equal ones.

    numpy sorts 16 bits by counting, in linear time: five times as fast as finding the distinct pairs of text and id.
    """
    values = ids.numpy()
    order = np.argsort(values.astype(np.uint16), kind="stable")
    if int(ids.max()) >= 2**16:
        order = order[np.argsort((values >> 16).astype(np.uint16)[order], kind="stable")]
    return torch.from_numpy(order)


class IdfTable(Mapping[int, float]):
    """Weights of token ids, with an optional weight for every other id.

    Args:
        weights: token id -> weight, 0 or from 1e-100 to 1e100. A `defaultdict` or `Counter` brings its default along.
        default: weight of an id that is not listed; `None` makes such an id an error.

    Raises:
        TypeError, ValueError: an id is not an int, or a weight is negative, not finite, or out of range.

    Example:
        >>> table = IdfTable({7: 0.5}, default=2.0)
        >>> table.weights(torch.tensor([7, 8])).tolist()
        [0.5, 2.0]
    """

    def __init__(self, weights: Mapping[Any, Any], default: float | None = None) -> None:
        self._weights = {
            _token_id(token): _weight(token, weight) for token, weight in weights.items() if token != "default"
        }
        self.default = _default_weight(weights) if default is None else _weight("default", default)
        for token, weight in [*self._weights.items(), ("default", self.default or 0.0)]:
            if not (weight == 0 or _LEAST_WEIGHT <= weight <= _MOST_WEIGHT):
                raise ValueError(
                    f"idf weights must be 0, or from {_LEAST_WEIGHT} to {_MOST_WEIGHT}; token id {token} has {weight}."
                )
        self._dense = torch.full((max(self._weights, default=-1) + 2,), math.nan, dtype=torch.float64)
        self._dense[list(self._weights)] = torch.tensor(list(self._weights.values()), dtype=torch.float64)
        if self.default is not None:
            self._dense = self._dense.nan_to_num(nan=self.default)

    @classmethod
    def counted(cls, ids: Tensor, weights: Tensor, default: float) -> IdfTable:
        """Build a table from tensors that need no checks: [id] int64 and [id] float64."""
        table = cls({}, default)
        table._weights = dict(zip(ids.tolist(), weights.tolist(), strict=True))
        table._dense = torch.full((int(ids.max()) + 2 if len(ids) else 1,), default, dtype=torch.float64)
        table._dense[ids] = weights
        return table

    def __getitem__(self, token: int) -> float:
        return self._weights[token]

    def __iter__(self) -> Iterator[int]:
        return iter(self._weights)

    def __len__(self) -> int:
        return len(self._weights)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IdfTable) and (self._weights, self.default) == (other._weights, other.default)

    __hash__ = None  # type: ignore[assignment]  # a mapping that compares by content

    def __repr__(self) -> str:
        return f"IdfTable({len(self)} ids, default={self.default})"

    def weights(self, ids: Tensor) -> Tensor:
        """Return the weight of every id: [token] int64 -> [token] float64.

        Raises:
            ValueError: an id is not listed and the table has no default.
        """
        known = len(self._dense)
        weights = self._dense.index_select(0, ids.clamp(max=known - 1) if len(ids) and int(ids.max()) >= known else ids)
        if self.default is None and bool(weights.isnan().any()):
            token = int(ids[weights.isnan()][0])
            raise ValueError(
                f"The idf table has no weight for token id {token} and no default; "
                f"give it one: IdfTable(weights, default=...), or a collections.defaultdict."
            )
        return weights

    @property
    def fingerprint(self) -> str:
        """Hash of the table's content, for the signature."""
        return hashlib.sha256(self._json().encode()).hexdigest()[:12]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the table as JSON."""
        Path(path).write_text(self._json() + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> IdfTable:
        """Read a table written by `save`, or any JSON object from token id to weight.

        The key `"default"`, where there is one, holds the weight of every other id.

        Raises:
            ValueError: the file holds no such object.
        """
        try:
            data = json.loads(user_path(path).read_text(encoding="utf-8-sig"), object_pairs_hook=unique)
        except (ValueError, RecursionError) as error:  # also text that is not UTF-8
            raise ValueError(f"{path} is not an idf table: {error}.") from error
        if not isinstance(data, dict):
            raise ValueError(f"{path} must hold a JSON object from token id to weight, got {type(data).__name__}.")
        try:
            return cls(data)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{path}: {error}") from error

    def _json(self) -> str:
        default = {} if self.default is None else {"default": self.default}
        return json.dumps({**default, **{str(token): self._weights[token] for token in sorted(self._weights)}})


def inverse_document_frequencies(counts: DocumentFrequencies, zero_ids: Collection[int] = ()) -> IdfTable:
    """Return idf = ln((N + 1) / (df + 1)) (Zhang et al. 2020, section 3, with bert_score's plus-one smoothing).

    An id that occurs in no text weighs ln(N + 1), and the ids `zero_ids` (special tokens) weigh 0.
    """
    zero = torch.tensor(sorted(zero_ids), dtype=torch.int64)
    seen = torch.nonzero(counts.df).squeeze(1)
    seen = torch.cat([zero, seen[~torch.isin(seen, zero)]])
    df = torch.cat([torch.zeros_like(zero), counts.df[seen[len(zero) :]]])
    idf = torch.log((counts.n + 1) / (df.double() + 1))
    idf[: len(zero)] = 0
    return IdfTable.counted(seen, idf, default=math.log(counts.n + 1))


def plain_weights(ids: Tensor, unweighted_ids: Collection[int]) -> Tensor:
    """Return weight 0 for special tokens and 1 for all others: [token] int64 -> [token] float64."""
    if not len(ids):
        return torch.zeros(0, dtype=torch.float64)
    known = int(ids.max()) + 1
    table = torch.ones(known, dtype=torch.float64)
    table[[token for token in unweighted_ids if token < known]] = 0
    return table.index_select(0, ids)


def idf_weights(ids: Tensor, table: IdfTable, zero_ids: Collection[int]) -> Tensor:
    """Return idf weights, 0 for the ids `zero_ids` whatever the table says: [token] int64 -> [token] float64."""
    if not len(ids):
        return torch.zeros(0, dtype=torch.float64)
    used = torch.arange(int(ids.max()) + 1)
    if table.default is None:
        table.weights(ids)  # an id without a weight is an error, also where its weight would not count
        used = torch.where(torch.bincount(ids) > 0, used, ids[0])
    weights = table.weights(used) * plain_weights(used, zero_ids)
    return weights.index_select(0, ids)


def with_fallback(weights: Tensor, plain: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Give a text whose weights are all 0 (one reference with idf) the weights that it has without idf.

    Args:
        weights, plain: [token] float64.
        lengths: [text] int64.

    Returns:
        The weights [token], and which texts fell back [text] bool (texts with special tokens only never do).
    """
    fell = (ragged.sums(weights, lengths) <= 0) & (ragged.sums(plain, lengths) > 0)
    return torch.where(torch.repeat_interleave(fell, lengths), plain, weights), fell


def _token_id(token: Any) -> int:
    if isinstance(token, str) and re.fullmatch(r"-?[0-9]+", token):
        token = int(token)  # JSON and YAML keys
    if isinstance(token, bool) or not hasattr(token, "__index__"):
        raise TypeError(
            f"idf must map token ids (int) to weights, got the key {token!r} of type {type(token).__name__}."
        )
    if not 0 <= token < _MOST_IDS:
        raise ValueError(f"idf must map token ids to weights; {token} is not a token id.")
    return int(token)


def _weight(token: Any, value: Any) -> float:
    try:
        return float(value) + 0.0  # -0.0 is 0.0
    except (TypeError, ValueError):
        raise TypeError(f"idf weights must be numbers; token id {token} has {value!r}.") from None


def _default_weight(weights: Mapping[Any, Any]) -> float | None:
    if isinstance(weights, defaultdict) and weights.default_factory is not None:
        return _weight("default", weights.default_factory())
    if isinstance(weights, Counter):
        return 0.0
    default = getattr(weights, "default", None)
    if default is None:
        default = weights.get("default")
    return None if default is None else _weight("default", default)
