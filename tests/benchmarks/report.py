"""What was measured -> `results.json`, a Markdown table with the targets beside what was reached, and two pictures."""

import dataclasses
import json
import math
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from tests.benchmarks.plots import draw_costs, draw_seconds


@dataclass(frozen=True)
class Target:
    """A figure and what it should be.

    Args:
        work: what was done.
        figure: what is counted.
        bound: the value it should reach.
        reached: what was measured; `None` where it could not be.
        at_least: whether it should be at least the bound; else at most.
    """

    work: str
    figure: str
    bound: float
    reached: float | None
    at_least: bool = True

    @property
    def met(self) -> bool | None:
        """Whether the bound was kept; `None` where nothing was measured."""
        if self.reached is None or math.isnan(self.reached):
            return None
        return self.reached >= self.bound if self.at_least else self.reached <= self.bound


@dataclass(frozen=True)
class Section:
    """A part of the benchmark.

    Args:
        title: what was measured, on which texts.
        rows: the table: name of the column -> value; lists are for the JSON file alone.
        targets: what of it has one.
        notes: what a reader must know.
    """

    title: str
    rows: Sequence[Mapping[str, Any]]
    targets: Sequence[Target] = ()
    notes: Sequence[str] = field(default=())


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    versions = {}
    for name in ("bertscore_metric", "torch", "transformers", "bert-score", "torchmetrics"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "not installed"
    capabilities = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    return {
        "processor": _processor(),
        "threads": torch.get_num_threads(),
        "load": round(os.getloadavg()[0], 1),
        "bfloat16 in hardware": bool(capabilities.get("amx_bf16") or capabilities.get("avx512_bf16")),
        "python": platform.python_version(),
        **versions,
    }


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.is_file():
        for line in information.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def write(folder: Path, facts: Mapping[str, Any], sections: Mapping[str, Section]) -> None:
    """Write `results.json`, `results.md`, and the pictures that these sections are enough for: again after each part.

    Args:
        folder: where; it is made where it is not there.
        facts: what the figures depend on.
        sections: what was measured so far, by its name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    plain = {name: _plain(section) for name, section in sections.items()}
    text = json.dumps({"machine": facts, "sections": plain}, indent=2)
    (folder / "results.json").write_text(text + "\n", encoding="utf-8")
    (folder / "results.md").write_text(markdown(facts, sections), encoding="utf-8")
    groups = {name: sections[name].rows for name in ("passes", "validation", "ranks") if name in sections}
    if groups:
        draw_seconds(groups, folder / "seconds.png")
    if "curve" in sections:
        draw_costs(sections["curve"].rows, folder / "costs.png")


def _plain(section: Section) -> dict[str, Any]:
    targets = [{**dataclasses.asdict(target), "met": target.met} for target in section.targets]
    return {**dataclasses.asdict(section), "targets": targets}


def markdown(facts: Mapping[str, Any], sections: Mapping[str, Section]) -> str:
    """Return the facts, a table of the targets of all sections, and a table of each section."""
    parts = [", ".join(f"{name} {value}" for name, value in facts.items())]
    targets = [target for section in sections.values() for target in section.targets]
    if targets:
        parts.append(table(target_rows(targets)))
    for name, section in sections.items():
        parts.append(f"## {name}\n\n{section.title}")
        parts.append(table(section.rows))
        parts += section.notes
    return "\n\n".join(parts) + "\n"


def target_rows(targets: Sequence[Target]) -> list[dict[str, Any]]:
    """Return rows that say what should be reached and what was."""
    said = {None: "not measured", True: "yes", False: "no"}
    return [
        {
            "work": target.work,
            "figure": target.figure,
            "target": f"{'>=' if target.at_least else '<='} {number(target.bound)}",
            "reached": target.reached,
            "met": said[target.met],
        }
        for target in targets
    ]


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as a Markdown table; a column is there if a row has a value for it, and lists are left out."""
    named = (name for row in rows for name, value in row.items() if value is not None and not isinstance(value, list))
    columns = list(dict.fromkeys(named))
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(number(row.get(name)) for name in columns) + " |" for row in rows]
    return "\n".join(lines)


def number(value: Any) -> str:
    """Return a cell: whole numbers with separators, others with three or more digits, nothing for `None`."""
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    if value != 0 and abs(value) < 1e-3:
        return f"{value:.1e}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
