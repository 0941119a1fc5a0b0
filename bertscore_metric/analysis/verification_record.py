"""`Record`: what scoring some pairs gave, stage by stage, and the file that keeps it."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bertscore_metric.io.tables import unique

FORMAT = 1  # raised when a file's meaning changes; lower ones stay readable
_KIND = "values of bertscore-metric verify"


@dataclass(frozen=True)
class Record:
    """Values of every stage of scoring some pairs.

    Args:
        signature: of the scorer.
        settings: fields of `ScoreConfig` that build the scorer again; without permissions to run or unpickle code.
        made_with: kind of device, and versions of the packages that compute.
        pairs: candidates, each with its references.
        token_ids: [text, token], every distinct text once: candidates first, then references.
        weights: identity of the model's weights, as in the signature.
        embeddings: [text, value], a few values of the embeddings of every text.
        matches: [pair + 2, value], mean and lowest best cosine of the two sides, and the best of fixed vectors.
        idf: what each id weighs with idf.
        scores: [segment, 3], raw precision, recall and F1; all layers of each after one another.
        rescaled: the same, rescaled; empty where there is no baseline.
        baseline: [layer, 3], what they are rescaled with.
        hashes: of all embeddings and all best cosines, rounded to three decimals.
    """

    signature: str
    settings: dict[str, Any]
    made_with: dict[str, str]
    pairs: list[tuple[str, list[str]]]
    token_ids: list[list[int]]
    weights: str
    embeddings: list[list[float]]
    matches: list[list[float]]
    idf: dict[int, float]
    scores: list[list[float]]
    rescaled: list[list[float]]
    baseline: list[list[float]]
    hashes: dict[str, str]

    def to_json(self) -> str:
        """Return the file's text: JSON with a line for each row of values."""
        content = {"file": _KIND, "format": FORMAT, **dataclasses.asdict(self)}
        content["idf"] = {str(number): weight for number, weight in self.idf.items()}
        return "{\n" + ",\n".join(f'"{name}": {_laid_out(value)}' for name, value in content.items()) + "\n}\n"


def read_record(text: str, name: str) -> Record:
    """Read what `Record.to_json` wrote.

    Args:
        text: content of the file.
        name: of the file, for messages.

    Raises:
        ValueError: no such file, one of a later format, or one in which something is missing or has another form.
    """
    try:
        content = json.loads(text, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name} is not a file of `bertscore-metric verify --record`: {error}.") from None
    if not isinstance(content, dict) or content.get("file") != _KIND:
        raise ValueError(
            f"{name} is not a file of `bertscore-metric verify --record`: it does not say that it holds {_KIND!r}."
        )
    number = content.get("format")
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise ValueError(f"{name} has the format {number!r}, which is not a whole number from 1 up; record it again.")
    if number > FORMAT:
        raise ValueError(
            f"{name} has the format {number}, and this version reads formats up to {FORMAT}; upgrade bertscore_metric."
        )
    values = {}
    for field, is_right in _FORMS.items():
        if field not in content:
            raise ValueError(f"{name} has no {field!r}; it is not complete, so record it again.")
        if not is_right(content[field]):
            raise ValueError(f"{name}: {field!r} does not hold {_EXPECTED[field]}; it was damaged, so record it again.")
        values[field] = content[field]
    values["pairs"] = [(candidate, references) for candidate, references in values["pairs"]]
    values["idf"] = {int(number): float(weight) for number, weight in values["idf"].items()}
    return Record(**values)


def _laid_out(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], list | tuple):
        return "[\n" + ",\n".join(_in_line(row) for row in value) + "\n]"
    if isinstance(value, dict) and len(value) > 20:
        rows = [f"{_in_line(key)}: {_in_line(one)}" for key, one in value.items()]
        return "{\n" + ",\n".join(", ".join(rows[k : k + 8]) for k in range(0, len(rows), 8)) + "\n}"
    return _in_line(value)


def _in_line(value: Any) -> str:
    written = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return written if written.isprintable() else json.dumps(value, allow_nan=False)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _list_of(is_right: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(is_right, value))


def _texts_by_name(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_text, value.values()))


def _pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and _text(value[0]) and _list_of(_text)(value[1]) and value[1]


def _weights(value: Any) -> bool:
    return isinstance(value, dict) and all(map(str.isdecimal, value)) and all(map(_number, value.values()))


_rows = _list_of(_list_of(_number))
_FORMS: Mapping[str, Callable[[Any], bool]] = {
    "signature": _text,
    "settings": lambda value: isinstance(value, dict),
    "made_with": _texts_by_name,
    "pairs": _list_of(_pair),
    "token_ids": _list_of(_list_of(_whole)),
    "weights": _text,
    "embeddings": _rows,
    "matches": _rows,
    "idf": _weights,
    "scores": _rows,
    "rescaled": _rows,
    "baseline": _rows,
    "hashes": _texts_by_name,
}
_EXPECTED = {
    **dict.fromkeys(("signature", "weights"), "a text"),
    "settings": "names with values",
    **dict.fromkeys(("made_with", "hashes"), "names with texts"),
    "pairs": "candidates with their references",
    "token_ids": "lists of whole numbers",
    "idf": "ids with numbers",
    **dict.fromkeys(("embeddings", "matches", "scores", "rescaled", "baseline"), "lists of numbers"),
}
