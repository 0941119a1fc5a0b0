"""Options -> texts: the candidates of every system, and the references they share."""

from __future__ import annotations

from typing import Any

from bertscore_metric.io import files
from bertscore_metric.io.read import delimiter_of


def read_texts(
    candidates: list[str],
    references: list[str],
    text: bool,
    candidate_column: str | None,
    reference_columns: list[str],
    delimiter: str | None = None,
) -> tuple[dict[str, list[Any]], list[Any]]:
    """Return the candidates of each system by the name of its file, and the references."""
    if text:
        if not references or candidate_column or reference_columns:
            raise ValueError("--text needs the candidate after -c and its references after -r, and no columns.")
        if len(candidates) > 1:
            raise ValueError(
                f"--text scores one candidate against all its references, and got {len(candidates)} candidates; "
                f"write several into files."
            )
        return {"text": candidates}, [references if len(references) > 1 else references[0]]
    if not references and not reference_columns:
        raise ValueError("Name the references: --references FILE, or --reference-column NAME in a table of pairs.")
    if len(set(candidates)) < len(candidates):
        raise ValueError("A candidates file is named twice.")
    if not references and len(candidates) > 1:
        raise ValueError("Several candidates files need their references in files of their own (--references FILE).")
    mark = delimiter_of(delimiter)
    systems = {path: files.read_candidates(path, candidate_column, delimiter=mark) for path in candidates}
    trusted = files.read_references(references or candidates, reference_columns, delimiter=mark)
    for path, texts in systems.items():
        if len(texts) != len(trusted):
            raise ValueError(
                f"{path} has {_counted(len(texts), 'candidate')}, but {', '.join(references)} has "
                f"{_counted(len(trusted), 'reference')}; line by line they must belong together."
            )
    if not trusted:
        raise ValueError(f"{' and '.join([*candidates, *references])} hold no texts, so there is nothing to score.")
    return systems, trusted


def _counted(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
