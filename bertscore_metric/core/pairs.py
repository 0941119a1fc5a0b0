"""User input -> segments: the only check of user input.

A *segment* is a candidate with all its references, a *pair* is a candidate with one of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import islice
from numbers import Real
from typing import Any, NoReturn

from bertscore_metric.core.not_texts import advice


@dataclass(frozen=True)
class Segments:
    """Checked texts: `candidates` [segment], `references` flat [pair], `reference_counts` [segment] (each >= 1).

    A reference that is missing in a group is "", so that the others keep their numbers.
    `names` are what the caller calls the two sides, for messages about a text.
    """

    candidates: list[str]
    references: list[str]
    reference_counts: list[int]
    names: tuple[str, str] = field(default=("candidates", "references"), compare=False)

    def __len__(self) -> int:
        """Return the number of segments."""
        return len(self.candidates)

    @property
    def groups(self) -> list[list[str]]:
        """The references of each segment, as lists [segment]."""
        texts = iter(self.references)
        return [list(islice(texts, count)) for count in self.reference_counts]

    def pieces(self, most: int) -> Iterator[Segments]:
        """Yield the segments in order, at most `most` at a time."""
        first = 0
        for begin in range(0, len(self), most):
            counts = self.reference_counts[begin : begin + most]
            references = self.references[first : first + sum(counts)]
            first += len(references)
            yield Segments(self.candidates[begin : begin + most], references, counts, self.names)

    def place(self, text: str) -> str:
        """Return where a text stands first, in the caller's words: `preds[3]`, or `target[3][1]` in a group."""
        if text in self.candidates:
            return f"{self.names[0]}[{self.candidates.index(text)}]"
        number = self.references.index(text)
        for segment, count in enumerate(self.reference_counts):
            if number < count:
                return f"{self.names[1]}[{segment}]" + (f"[{number}]" if count > 1 else "")
            number -= count
        raise ValueError("More references than the groups hold.")


def parse_segments(
    candidates: Any, references: Any, *, names: tuple[str, str] = ("candidates", "references")
) -> Segments:
    """Check what a user passed and return it as segments.

    Args:
        candidates: one text, or a sequence of texts: list, tuple, numpy, pandas, pyarrow, a dataset's column, or an
            iterator, which is read once.
        references: one text, a sequence of texts, or a sequence of groups of texts (several references each). In a
            group that has a text, `None`, NaN and blank texts are no references; they are left out when it is scored.
        names: what the caller calls the two arguments, for the messages.

    Raises:
        TypeError: a text is missing, a number, bytes, or flat and grouped references are mixed.
        ValueError: different lengths, an empty group, or text that is not valid Unicode (a lone surrogate).
    """
    candidates_name, references_name = names
    if isinstance(candidates, str) and isinstance(references, str):
        candidates, references = [candidates], [references]
    for name, value, other, others in (
        (candidates_name, candidates, references_name, references),
        (references_name, references, candidates_name, candidates),
    ):
        if isinstance(value, str):
            entries = _as_list(others, other)
            if name == candidates_name and len(entries) > 1 and all(isinstance(entry, str) for entry in entries):
                raise TypeError(
                    f"{name} is one str and {other} are {len(entries)}; for one text with several references pass "
                    f'[{name}], [{other}], as in ["a cat"], [["r1", "r2"]].'
                )
            raise TypeError(
                f"{name} is one str but {other} is not; put it in a list ([{name}]), one entry for each of {other}."
            )
    checked = check_texts(candidates, candidates_name)
    groups = _as_list(references, references_name)
    grouped = [not isinstance(entry, str) and _is_group(entry) for entry in groups]
    if any(grouped) and not all(grouped):
        flat, group = grouped.index(False), grouped.index(True)
        if not isinstance(groups[flat], str):
            _reject(groups[flat], f"{references_name}[{flat}]")
        raise TypeError(
            f"{references_name} mixes single texts ({references_name}[{flat}]) and groups "
            f"({references_name}[{group}]); make every entry a list, with one text where there is one reference."
        )
    _check_lengths(checked, groups, names)
    if not groups or not grouped[0]:
        flat_texts = check_texts(groups, references_name)
        return Segments(checked, flat_texts, [1] * len(checked), names)
    texts: list[str] = []
    counts: list[int] = []
    for index, entry in enumerate(groups):
        where = f"{references_name}[{index}]"
        group_texts = check_texts(_without_missing(entry, where), where)
        if not group_texts:
            raise ValueError(f"{where} is an empty group; every candidate needs a reference.")
        texts.extend(group_texts)
        counts.append(len(group_texts))
    return Segments(checked, texts, counts, names)


def check_references(references: Any, name: str = "references") -> list[list[str]]:
    """Return references, for which there are no candidates yet, as groups of texts, a group for each candidate.

    Raises:
        TypeError, ValueError: as for `parse_segments`.
    """
    entries = _as_list(references, name)
    return parse_segments([""] * len(entries), entries, names=("candidates", name)).groups


def check_texts(values: Any, name: str) -> list[str]:
    """Return `values` as a list of plain `str`, or say which entry is not a text.

    Raises:
        TypeError: `values` is not a sequence of texts, or an entry is not a `str` (named by its index and type).
        ValueError: an entry holds a lone surrogate, which is no valid Unicode and which no tokenizer accepts.
    """
    texts = []
    for index, value in enumerate(_as_list(values, name)):
        if not isinstance(value, str):
            _reject(value, f"{name}[{index}]")
        text = value if type(value) is str else str.__str__(value)  # a subclass may print itself otherwise
        if not text.isascii():
            try:
                text.encode("utf-8")
            except UnicodeEncodeError as error:
                raise ValueError(
                    f"{name}[{index}] holds a lone surrogate at character {error.start}, which is not valid Unicode; "
                    f"read the text as UTF-8, or replace it."
                ) from None
        texts.append(text)
    return texts


def check_lists(values: Any, name: str) -> list[list[str]]:
    """Return `values` as lists of plain `str`, each with at least one, or say which is none.

    Raises:
        TypeError, ValueError: as for `check_texts`, or a list is empty.
    """
    lists = [check_texts(entry, f"{name}[{index}]") for index, entry in enumerate(_as_list(values, name))]
    for index, texts in enumerate(lists):
        if not texts:
            raise ValueError(f"{name}[{index}] is an empty list; every list needs at least one text.")
    return lists


def _without_missing(group: Any, name: str) -> list[Any]:
    """Return a group of references with "" for those that are missing, if there is a text among the others."""
    entries = _as_list(group, name)
    if not any(isinstance(entry, str) and entry.strip() for entry in entries):
        return entries
    return ["" if _is_missing(entry) else entry for entry in entries]


def _is_missing(value: Any) -> bool:
    """Return whether a table would call this missing: `None`, NaN of Python or numpy, or pandas' `NA`."""
    return value is None or type(value).__name__ == "NAType" or (isinstance(value, Real) and math.isnan(value))


def _as_list(values: Any, name: str) -> list[Any]:
    # Asked of the type: a Series answers to its labels as to attributes.
    table = hasattr(type(values), "columns") or hasattr(type(values), "column_names")
    if hasattr(type(values), "to_pylist") and not table:  # pyarrow: iterating gives scalars, not str
        return list(values.to_pylist())
    unordered = isinstance(values, Mapping | AbstractSet) or table
    if isinstance(values, str | bytes | bytearray) or unordered or not isinstance(values, Iterable):
        hint = advice(values) or (" Pass one column of it." if unordered else "")
        raise TypeError(f"{name} must be a sequence of texts, got {type(values).__name__}.{hint}")
    if getattr(values, "ndim", 1) == 0:
        raise TypeError(f"{name} must be a sequence of texts, got a 0-dimensional {type(values).__name__}.")
    return list(values)


def _is_group(entry: Any) -> bool:
    return isinstance(entry, Iterable) and not isinstance(entry, bytes | bytearray | Mapping | AbstractSet)


def _reject(value: Any, where: str) -> NoReturn:
    if value is None:
        what = "None"
    elif isinstance(value, float) and math.isnan(value):
        what = "NaN (float)"
    else:
        what = f"of type {type(value).__name__}"
    raise TypeError(f"{where} is {what}; every text must be a str.{advice(value)}")


def _check_lengths(candidates: list[str], groups: list[Any], names: tuple[str, str]) -> None:
    if len(candidates) == len(groups):
        return
    message = (
        f"{names[0]} and {names[1]} must have the same number of entries, "
        f"got {len(candidates)} {names[0]} and {len(groups)} {names[1]}."
    )
    sized = [entry for entry in groups if not isinstance(entry, str) and hasattr(entry, "__len__")]
    if groups and len(sized) == len(groups) and all(len(entry) == len(candidates) for entry in sized):
        message += (
            f" {names[1]} looks like one list per reference set; group it by candidate with list(zip(*{names[1]}))."
        )
    raise ValueError(message)
