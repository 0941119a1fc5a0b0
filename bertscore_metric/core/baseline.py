"""Find a baseline row (language, model, layer) and rescale with it."""

from __future__ import annotations

import csv
import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

import torch
from torch import Tensor

from bertscore_metric import registry
from bertscore_metric.io.paths import user_path

_NAMED = 3  # of models and languages in a message

Rows = Mapping[int, tuple[float, float, float]]


@dataclass(frozen=True)
class Baseline:
    """Baseline of the layers that are scored: `values` [layer, 3] float64 (P, R, F), and its name in the signature."""

    values: Tensor
    name: str


def find_baseline(
    *, lang: str | None, model: str, num_layers: int | None, depth: int | None, path: str | None
) -> Baseline:
    """Return the baseline of a model's layer (or of all its layers), from a file or from the table.

    Args:
        lang: language code; not needed with a file.
        model: hub name.
        num_layers: the layer; `None` for all from 0 to `depth`.
        depth: the model's depth, where all layers are scored.
        path: a file in bert_score's format: LAYER,P,R,F, separated by commas or tabs.

    Raises:
        ValueError: there is no such baseline; the message says which exist.
        FileNotFoundError: `path` is not a file.
    """
    if path is not None:
        rows: Rows = read_baseline(path)
        where = f"The baseline file {path}"
    else:
        if lang is None:
            raise ValueError("rescale_with_baseline needs the language (lang='en'), or a file (baseline_path=...).")
        found = registry.baseline(lang, model)
        if found is None:
            raise ValueError(_missing(lang, model))
        rows = found
        where = f"The baseline of {model} for {lang!r}"
    layers = range((depth or 0) + 1) if num_layers is None else [num_layers]
    absent = [layer for layer in layers if layer not in rows]
    if absent:
        raise ValueError(f"{where} has no row for layer {absent[0]}; it has {_listed(rows)}.")
    values = torch.tensor([rows[layer] for layer in layers], dtype=torch.float64)
    return Baseline(values, hashlib.sha256(values.numpy().tobytes()).hexdigest()[:8])


def read_baseline(path: str) -> dict[int, tuple[float, float, float]]:
    """Read a baseline file: a header LAYER,P,R,F and a line per layer, separated by commas or tabs.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a line is not such a row, a layer occurs twice, or a value is not below 1; named by its line.
    """
    file = user_path(path)
    if not file.is_file():
        raise FileNotFoundError(f"No baseline file {path!r}.")
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a baseline file: {error}.") from None
    separator = "\t" if lines and "\t" in lines[0] else ","
    rows: dict[int, tuple[float, float, float]] = {}
    for number, cells in enumerate(csv.reader(lines, delimiter=separator), 1):
        if not cells or (number == 1 and cells[0].strip().upper() == "LAYER"):
            continue
        try:
            layer = int(cells[0])
            p, r, f = (float(cell) for cell in cells[1:])
        except ValueError:
            raise ValueError(f"{path}, line {number}: expected LAYER,P,R,F as numbers, got {cells}.") from None
        if layer < 0 or layer in rows or not all(math.isfinite(value) and value < 1 for value in (p, r, f)):
            raise ValueError(f"{path}, line {number}: a layer must occur once, with values below 1; got {cells}.")
        rows[layer] = (p, r, f)
    if not rows:
        raise ValueError(f"{path} holds no baseline rows (LAYER,P,R,F).")
    return rows


def rescale(scores: Tensor, baseline: Tensor) -> Tensor:
    """Return (x - b) / (1 - b), which keeps the order of the scores (bert_score, journal/rescale_baseline.md).

    Args:
        scores: [layer, segment].
        baseline: [layer], each below 1.
    """
    b = baseline[:, None]
    return ((scores.double() - b) / (1 - b)).float()


def _listed(rows: Rows) -> str:
    layers = sorted(rows)
    whole = len(layers) > 1 and layers == list(range(layers[0], layers[-1] + 1))
    return f"{layers[0]} to {layers[-1]}" if whole else ", ".join(map(str, layers))


def _missing(lang: str, model: str) -> str:
    models = [name for _, name in registry.baselines_for(language=lang)]
    languages = [code for code, _ in registry.baselines_for(model=model)]
    near = get_close_matches(model, models, n=_NAMED, cutoff=0) or models[:_NAMED]
    exist = f"for {lang!r} there is one for {', '.join(near)}" if models else f"there is none for {lang!r}"
    if len(models) - len(near) > 0:
        exist += f" and {len(models) - len(near)} more models"
    if languages:
        more = f" and {len(languages) - _NAMED} more" if len(languages) > _NAMED else ""
        exist += f"; for {model} there is one in {', '.join(languages[:_NAMED])}{more}"
    return (
        f"No baseline for {model} in {lang!r}: {exist} (`bertscore-metric models` lists all). Pass one with "
        f"baseline_path=FILE (LAYER,P,R,F); `bertscore-metric baseline` makes one of sentences of the language."
    )
