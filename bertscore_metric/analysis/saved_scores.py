"""Scores that `bertscore-metric score` saved -> systems to compare, without a model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bertscore_metric.analysis.systems import SystemScores
from bertscore_metric.io import files
from bertscore_metric.io.tables import split_lines
from bertscore_metric.signature import Signature

_HOW = "save them with `bertscore-metric score --segments -o FILE`, or with --json"
_ALL_LAYERS = "all-raw"


def read_saved(paths: Sequence[str]) -> dict[str, SystemScores]:
    """Return the systems of files that `score --segments` wrote, by the names of the files or of the candidates.

    Args:
        paths: files whose first line is `# signature<TAB>...`, or JSON (`score --json --segments`), which may hold
            several systems.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: no saved scores, a broken line (named by its number), or a name twice.
    """
    systems: dict[str, SystemScores] = {}
    for path in paths:
        text = files.read_text(path)
        found = _read_json(path, text) if text.lstrip().startswith("{") else {path: _read_lines(path, text)}
        for source, scores in found.items():
            name = system_name(source)
            if name in systems:
                raise ValueError(f"Two systems are named {name!r}; names come from file names, which must differ.")
            systems[name] = scores
    return systems


def system_name(path: str) -> str:
    """Return what a system is called: the name of its file without the last suffix."""
    return Path(path).stem


def _read_lines(path: str, text: str) -> SystemScores:
    signature: Signature | None = None
    rows: list[list[Any]] = []
    for number, line in enumerate(split_lines(text), 1):
        if line.startswith("#"):
            key, _, value = line.removeprefix("#").strip().partition("\t")
            signature = Signature.parse(value) if key == "signature" else signature
            continue
        if signature is None:
            raise ValueError(f"{path} does not begin with '# signature', so it holds no saved scores; {_HOW}.")
        cells = line.split("\t")
        try:
            if int(cells[0]) != len(rows):
                raise ValueError
            precision, recall, f1 = map(float, cells[1:4])
            rows.append([precision, recall, f1])
        except ValueError:
            raise ValueError(
                f"{path}, line {number}: expected segment {len(rows)} with precision, recall and F1, tab-separated, "
                f"got {line[:60]!r}; save each system into a file of its own."
            ) from None
    if signature is None:
        raise ValueError(f"{path} does not begin with '# signature', so it holds no saved scores; {_HOW}.")
    return _scores(path, signature, rows, None)


def _read_json(path: str, text: str) -> dict[str, SystemScores]:
    try:
        data = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{path} is not JSON ({error}); {_HOW}.") from None
    parts = {str(part.get("candidates", path)): part for part in data["systems"]} if "systems" in data else {path: data}
    found = {}
    for name, part in parts.items():
        if "signature" not in part or "segments" not in part:
            raise ValueError(f"{path} holds no scores of segments; save them with `score --json --segments`.")
        rows = part["segments"]
        empty = [row["empty"] for row in rows] if all("empty" in row for row in rows) else None
        columns = [[row.get(key) for key in ("precision", "recall", "f1")] for row in rows]
        found[name] = _scores(path, Signature.parse(part["signature"]), columns, empty)
    return found


def _scores(path: str, signature: Signature, rows: list[list[Any]], empty: list[bool] | None) -> SystemScores:
    known = dict(signature.items)
    if known.get("layer") == _ALL_LAYERS:
        raise ValueError(f"{path} has the scores of all layers; save those of one, with --num-layers.")
    try:
        if any(cell is None for row in rows for cell in row):
            raise TypeError
        values = np.array(rows, dtype=np.float64).reshape(-1, 3)
    except (TypeError, ValueError):
        raise ValueError(f"{path} holds segments without precision, recall and F1; {_HOW}.") from None
    counted = np.ones(len(values), dtype=bool)
    if known.get("empty") == "skip":
        if empty is None and known.get("rescale") != "no":
            raise ValueError(
                f"{path} does not say which segments are empty, and empty:skip leaves them out; save rescaled scores "
                f"with `score --json --segments`."
            )
        # Only an empty segment is exactly 0 before rescaling.
        counted = (values != 0).any(1) if empty is None else ~np.array(empty, dtype=bool)
    return SystemScores(values[:, 2], counted, signature)
