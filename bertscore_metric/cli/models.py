"""`bertscore-metric models`: the tables of layers, languages and baselines."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from bertscore_metric import registry
from bertscore_metric.cli.console import put
from bertscore_metric.models.source import OFFLINE_MODEL, OFFLINE_NAME

_HEADER = {"model": "model", "layer": "layer", "languages": "default for", "baselines": "baselines"}


def models(
    lang: Annotated[
        str | None, typer.Option(metavar="CODE", help="Only the language's default model and those with its baseline.")
    ] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", metavar="NAME", help="Only this model.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the known models with layer and languages.

    For each its best layer, the languages it is the default for, and those with a baseline.
    """
    rows = _rows()
    if model is not None:
        name = OFFLINE_MODEL if model == OFFLINE_NAME else registry.canonical_name(model)
        rows = [row for row in rows if row["model"] == name]
        if not rows:
            raise ValueError(_unknown(model))
    if lang is not None:
        default, code = registry.model_for_language(lang), registry.language_code(lang)
        rows = [row for row in rows if code in (*row["languages"], *row["baselines"])]
        rows.sort(key=lambda row: row["model"] != default)
    put(_as_json(rows) if json else _as_text(rows), None)


def _rows() -> list[dict[str, Any]]:
    """Return a row a model, in the order of the table of layers, then models that other tables know."""
    layers, languages = registry.known_models(), registry.known_languages()
    with_baseline = registry.baselines_for()
    names = dict.fromkeys([*layers, *languages.values(), *(name for _, name in with_baseline)])
    return [
        {
            "model": name,
            "layer": layers.get(name),
            "languages": [code for code, default in languages.items() if default == name],
            "baselines": [code for code, known in with_baseline if known == name],
        }
        for name in names
    ]


def _unknown(model: str) -> str:
    near = difflib.get_close_matches(model, registry.known_models(), n=3)
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else "."
    return (
        f"The tables do not know the model {model!r}{hint} Such a model is scored at 0.7 of its depth; "
        f"`bertscore-metric tune` finds a better layer."
    )


def _as_json(rows: Sequence[Mapping[str, Any]]) -> str:
    import json

    return json.dumps({"models": list(rows)}, indent=2, ensure_ascii=False) + "\n"


def _as_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a table with a column a key; nothing is `-`."""
    cells = [list(_HEADER.values()), *([_cell(row[key]) for key in _HEADER] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    widths[-2:] = map(len, cells[0][-2:])  # lists of languages may be long
    return "".join("  ".join(map(str.ljust, row, widths)).rstrip() + "\n" for row in cells)


def _cell(value: Any) -> str:
    return ",".join(value) or "-" if isinstance(value, list) else "-" if value is None else str(value)
