"""The shipped pairs that `verify` scores, and the files of values that are shipped for them."""

from __future__ import annotations

import json
from importlib.resources import files
from importlib.resources.abc import Traversable

_FOLDER = files("bertscore_metric").joinpath("registry", "verify")
_PAIRS = "pairs.json"


def verification_pairs() -> list[tuple[str, list[str]]]:
    """Return some sixty candidates with their references: several scripts, and empty, long, tiny and hostile texts."""
    return [(candidate, references) for candidate, references in json.loads(_FOLDER.joinpath(_PAIRS).read_bytes())]


def shipped_values() -> list[Traversable]:
    """Return the shipped files of values, sorted by name."""
    found = (file for file in _FOLDER.iterdir() if file.name.endswith(".json") and file.name != _PAIRS)
    return sorted(found, key=lambda file: file.name)
