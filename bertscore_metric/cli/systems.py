"""Options -> systems: their texts or saved scores by name, what people said of them, and what segments belong to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bertscore_metric.cli.texts import read_texts
from bertscore_metric.io import files

if TYPE_CHECKING:
    from bertscore_metric.analysis.systems import SystemScores

Saved = Annotated[
    list[str] | None,
    typer.Option("--scores", metavar="FILE...", help="Saved scores (score --segments -o FILE), without any model."),
]
With = Annotated[
    str | None,
    typer.Option("--with", metavar="NAMES", help="Metrics beside it: bleu,chrf,ter,rouge1,rouge2,rougeL."),
]
Systems = Annotated[
    list[str] | None, typer.Option("--systems", metavar="FILE...", help="Texts of each judged system, one a line.")
]
Human = Annotated[
    str | None, typer.Option(metavar="FILE", help="People's scores of systems: a table with the column system.")
]


def classic_names(names: str | None) -> list[str]:
    """Return the metrics that `--with` names."""
    return [] if names is None else [name.strip() for name in names.split(",")]


def named_texts(
    candidates: list[str], references: list[str], candidate_column: str | None, reference_columns: list[str]
) -> tuple[dict[str, list[Any]], list[Any]]:
    """Return the candidates of each system by the name of its file without suffix, and the references."""
    texts, trusted = read_texts(candidates, references, False, candidate_column, reference_columns)
    systems: dict[str, list[Any]] = {}
    for path, own in texts.items():
        name = Path(path).stem
        if name in systems:
            raise ValueError(f"Two systems are named {name!r}; names come from file names, which must differ.")
        systems[name] = own
    return systems, trusted


def read_saved(paths: Sequence[str]) -> dict[str, SystemScores]:
    """Return the systems of files with saved scores, by name."""
    from bertscore_metric.analysis import saved_scores

    return saved_scores.read_saved(paths)


def read_human(path: str, score_column: str) -> dict[str, float]:
    """Return people's score of each system from a table with the column `system`."""
    names = files.read_candidates(path, "system", "system")
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ValueError(f"{path} has several scores of {twice[0]!r}; each system needs one.")
    return dict(zip(names, files.read_numbers(path, score_column), strict=True))


def read_labels(paths: Sequence[str], column: str | None, option: str) -> list[str] | None:
    """Return a column of the first table that has it: what each segment belongs to."""
    if column is None:
        return None
    for path in paths:
        if files.has_column(path, column):
            return files.read_candidates(path, column, option)
    raise ValueError(
        f"No table has a column {column!r} for {option}; put it beside the references, in a .tsv, .csv or .jsonl file "
        f"that --references names."
    )
