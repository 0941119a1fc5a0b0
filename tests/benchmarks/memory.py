"""Peak host memory by the number of pairs, and what the metrics hold between updates."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.benchmarks.options import Options
from tests.benchmarks.peers import BERT_SCORE, OURS, TORCHMETRICS, bert_score_scorer, ours, torchmetrics_metric
from tests.benchmarks.report import Section, Target
from tests.benchmarks.texts import pairs
from tests.benchmarks.torchmetrics_room import measured

GROWTH_MB = 50


def measure(options: Options) -> Section:
    """Measure the peaks, each in a process of its own, and the bytes that states take."""
    packages = [OURS] if bert_score_scorer(options.folder, options.layer) is None else [OURS, BERT_SCORE]
    rows: list[dict[str, Any]] = []
    for package in packages:
        for n in options.memory_pairs:
            peak = float(_child(package, str(n), options.folder, str(options.layer)))
            rows.append({"package": package, "settings": f"one pass of {n:,} pairs", "peak MB": peak})
    few, *_, many = [row["peak MB"] for row in rows if row["package"] == OURS]
    rows += _held(options)
    return Section(
        f"Peak of a process with libraries and model, float32, pairs of {pairs(1)[2]}; and bytes held between updates "
        f"of 16 pairs, counted after {16 * options.held_updates:,} segments.",
        rows,
        [
            Target(
                f"{options.memory_pairs[-1]:,} pairs",
                f"MB more than {options.memory_pairs[0]:,}",
                GROWTH_MB,
                many - few,
                at_least=False,
            )
        ],
    )


def _held(options: Options) -> list[dict[str, Any]]:
    """Return rows of the bytes that states take for a segment, and with corpus idf for a token."""
    rows: list[dict[str, Any]] = []
    for kind in ("plain", "idf"):
        found = measured(kind, options.held_updates)
        rows.append({
            "package": OURS,
            "settings": "states, corpus idf" if kind == "idf" else "states, no idf or a fixed one",
            f"bytes a {found['unit']}": found["stored"],
            f"resident bytes a {found['unit']}": found["resident"],
        })  # fmt: skip
    theirs = torchmetrics_metric(options.folder, options.layer)
    if theirs is not None:
        candidates, references, _ = pairs(16)
        theirs.update(candidates, references)
        held = sum(part.nbytes for name in theirs._defaults for part in getattr(theirs, name))
        rows.append({"package": TORCHMETRICS, "settings": "states", "bytes a segment": held / 16})
    return rows


def _child(*arguments: str) -> str:
    command = [sys.executable, "-m", "tests.benchmarks.memory", *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.split()[-1]


def peak_mb() -> float:
    """Return the peak of this process in MB, libraries included."""
    # Linux' own count begins with the program; that of `getrusage` has the process it was started from in it.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]


def main(package: str, n: str, folder: str, layer: str) -> None:
    """Score so many pairs and print the peak of the process."""
    candidates, references, _ = pairs(max(10000, int(n)))
    scorer = ours(folder, int(layer)) if package == OURS else bert_score_scorer(folder, int(layer))
    scorer.score(candidates[: int(n)], references[: int(n)])
    print(peak_mb())


if __name__ == "__main__":
    main(*sys.argv[1:])
