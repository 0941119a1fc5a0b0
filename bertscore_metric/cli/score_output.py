"""Results of `score` -> text or JSON: one system, a table of several, or a row a segment."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bertscore_metric.cli.aligned import aligned

if TYPE_CHECKING:
    from bertscore_metric.cli.extras import Extras
    from bertscore_metric.core.significance import Interval
    from bertscore_metric.result import BERTScoreResult

NUMBERS = {"precision": "P", "recall": "R", "f1": "F1"}
Results = Mapping[str, "BERTScoreResult"]


@dataclass(frozen=True)
class Rows:
    """Which segments have a row, and what stands in it beside the scores.

    Args:
        worst: only so many of the segments with the lowest F1, lowest first; `None` is all, in their order.
        header: whether the columns are named.
        ids: [segment], what the user calls the segments; `None` leaves the column out.
        candidates, references: the texts of each system by name, and the references they share; `None` leaves them out.
    """

    worst: int | None = None
    header: bool = True
    ids: Sequence[str] | None = None
    candidates: Mapping[str, Sequence[str]] | None = None
    references: Sequence[Any] | None = None


def as_json(results: Results, extras: Mapping[str, Extras], *, segments: bool, worst: int | None) -> str:
    """Return the result's dictionary, or one for each system; `worst` adds the rows of the lowest F1, numbered."""
    systems = []
    for name, result in results.items():
        data = {**result.to_dict(segments=segments), **extras[name].to_dict()}
        if worst is not None:
            rows = result.to_rows()
            data["worst"] = [{"number": number, **rows[number]} for number in _numbers(result, worst)]
        systems.append(data if len(results) == 1 else {"candidates": name, **data})
    shown = systems[0] if len(systems) == 1 else {"systems": systems}
    return json.dumps(shown, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def as_text(results: Results, extras: Mapping[str, Extras], digits: int) -> str:
    """Return means and deviations (or intervals) with the counts; of several systems a table, a line a layer.

    Classic metrics follow in a line each.
    """
    if len(results) == 1:
        ((name, result),) = results.items()
        lines = ["  ".join(f"{label} {cell}" for label, cell in zip(NUMBERS.values(), cells, strict=True))
                 for cells in _means(result, digits, extras[name].intervals)]  # fmt: skip
        if len(lines) > 1:
            lines = [f"layer {layer}\t{line}" for layer, line in enumerate(lines)]
        lines[-1] += f"  ({_counted(result)})"
    else:
        by_layer = any(len(_layers(result.mean.f1)) > 1 for result in results.values())
        columns = [name.split()[0] for name in _counts(next(iter(results.values())))]
        table = [["", *(["layer"] if by_layer else []), *NUMBERS.values(), *columns]]
        for name, result in results.items():
            for layer, cells in enumerate(_means(result, digits, extras[name].intervals)):
                table.append([name, *([str(layer)] if by_layer else []), *cells, *_counts(result).values()])
        lines = aligned(table)
    for name in results:
        lines += [line if len(results) == 1 else f"{name}  {line}" for line in extras[name].lines()]
    return "\n".join(lines) + "\n"


def as_rows(results: Results, extras: Mapping[str, Extras], rows: Rows, digits: int) -> str:
    """Return a tab-separated row a segment; whatever else is said begins with `#`, so that rows can be sorted.

    A row has the name of the system where there are several, the number of the segment from 0, with all layers that of
    the layer, P, R, F1, the number of the best reference from 0, then id and texts.
    """
    several = len(results) > 1
    by_layer = any(len(_layers(result.mean.f1)) > 1 for result in results.values())
    lines = [f"# signature\t{next(iter(results.values())).signature}"]
    for name, result in results.items():
        system = [name] if several else []
        for layer in range(len(_layers(result.mean.f1))):
            numbers = [str(layer)] if by_layer else []
            for label, part in (("mean", result.mean), ("std", result.std)):
                cells = (f"{_layers(getattr(part, number))[layer]:.{digits}f}" for number in NUMBERS)
                lines.append("\t".join([f"# {label}", *system, *numbers, *cells]))
        if extras[name].intervals:
            cells = (f"{one.low:.{digits}f} to {one.high:.{digits}f}" for one in extras[name].intervals.values())
            lines.append("\t".join(["# interval", *system, *cells]))
        lines.append("\t".join(["# counts", *system, _counted(result)]))
        lines += ["\t".join([f"# {line}", *system]) for line in extras[name].lines()]
    if rows.header:
        lines.append("# " + "\t".join(_header(rows, several, by_layer)))
    for name, result in results.items():
        lines += ["\t".join([*([name] if several else []), *cells]) for cells in _rows(name, result, rows, digits)]
    return "\n".join(lines) + "\n"


def _header(rows: Rows, several: bool, by_layer: bool) -> list[str]:
    names = [*(["system"] if several else []), "number", *(["layer"] if by_layer else []), *NUMBERS.values()]
    names += ["best reference", *(["id"] if rows.ids is not None else [])]
    return [*names, *(["candidate", "references"] if rows.references is not None else [])]


def _rows(name: str, result: BERTScoreResult, rows: Rows, digits: int) -> Iterator[list[str]]:
    scored = result.to_rows()
    for number in range(len(scored)) if rows.worst is None else _numbers(result, rows.worst):
        more = [] if rows.ids is None else [_cell(rows.ids[number])]
        if rows.candidates is not None and rows.references is not None:
            group = rows.references[number]
            texts = [rows.candidates[name][number], *([group] if isinstance(group, str) else group)]
            more += map(_cell, texts)
        layers = [_layers(scored[number][column]) for column in (*NUMBERS, "best_reference")]
        for layer, (*scores, best) in enumerate(zip(*layers, strict=True)):
            numbers = [number] if len(layers[0]) == 1 else [number, layer]
            yield [*map(str, numbers), *(f"{score:.{digits}f}" for score in scores), str(best), *more]


def _numbers(result: BERTScoreResult, worst: int) -> list[int]:
    from bertscore_metric.analysis.report_page import lowest_segments

    return lowest_segments(result, worst)


def _cell(text: str) -> str:
    """Return a text in which tabs, line breaks and what acts unseen are spelled out."""
    from bertscore_metric.core.spelling import visible

    return visible(text) if text else ""


def _means(result: BERTScoreResult, digits: int, intervals: Mapping[str, Interval]) -> list[list[str]]:
    """Return mean ± deviation of P, R and F1 of every layer that was scored, or the mean with its interval."""
    if intervals:
        return [[
            f"{getattr(result.mean, name):.{digits}f} [{intervals[name].low:.3f}, {intervals[name].high:.3f}]"
            for name in NUMBERS
        ]]  # fmt: skip
    columns = [
        [f"{mean:.{digits}f} ± {std:.{digits}f}" for mean, std in zip(
            _layers(getattr(result.mean, name)), _layers(getattr(result.std, name)), strict=True)]
        for name in NUMBERS
    ]  # fmt: skip
    return [list(cells) for cells in zip(*columns, strict=True)]


def _counts(result: BERTScoreResult) -> dict[str, str]:
    counts = {"segments": result.n_segments, "empty": result.n_empty, "truncated texts": result.n_truncated}
    if result.has_windows:
        counts["windows"] = result.n_windows
    share = f"{result.unk_share.candidates:.1%} / {result.unk_share.references:.1%}"
    return {**{name: str(n) for name, n in counts.items()}, "unknown tokens": share}


def _counted(result: BERTScoreResult) -> str:
    *counts, (name, share) = _counts(result).items()
    return ", ".join([*(f"{n} {what}" for what, n in counts), f"{name} {share}"])


def _layers(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple | list) else [value]
