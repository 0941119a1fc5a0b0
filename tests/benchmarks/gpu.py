"""`python -m tests.benchmarks.gpu`: is it right on a GPU, and how fast, in under four minutes in all.

First every dtype against float32 on the CPU, with a small model. Then pairs a second, the share of the GPU's own matrix
rate, and memory, beside bert_score, with random weights of roberta-large's size. What takes too long is left out and
said; results are written after every part. `--device cpu --quick` shows in miniature, without a GPU, that it works.
"""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import argparse
import gc
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from bertscore_metric import release_encoders
from bertscore_metric.models.source import resolve
from tests.benchmarks.gpu_parts import QUICK, Plan, correctness_section, parts, speed_section
from tests.benchmarks.report import machine, table, target_rows, write


class OutOfTimeError(BaseException):
    """A part took longer than it may. Compiling falls back after any `Exception`, and would go on after this one."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise `OutOfTimeError` inside after so many seconds."""

    def stop(*_: Any) -> None:
        raise OutOfTimeError(f"not done in the {max(seconds, 0):.0f} s that were left for it")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-3))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure everything that there is time for, and return how many parts failed."""
    given = parser().parse_args(arguments)
    device = torch.device(given.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        sys.exit("torch sees no GPU here. `--device cpu --quick` shows in miniature that this benchmark works.")
    try:
        folder = resolve(given.model).location
    except (ImportError, OSError) as error:
        sys.exit(str(error))
    plan = Plan(device, folder, given.layer, compiled=not given.no_compile, **(QUICK if given.quick else {}))
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as place:
        return measure(plan, Path(place), given.output, time.monotonic() + given.seconds)


def parser() -> argparse.ArgumentParser:
    """Return what the command line may say."""
    made = argparse.ArgumentParser(prog="python -m tests.benchmarks.gpu", description=__doc__)
    made.add_argument("--device", default="cuda", help="cuda, cuda:1, or cpu")
    made.add_argument("--quick", action="store_true", help="small sizes, to see that it works; no figures to quote")
    made.add_argument("--no-compile", action="store_true", help="leave out compiled blocks")
    made.add_argument("--model", default="offline", help="name or folder of the small model, a BERT")
    made.add_argument("--layer", type=int, default=5, help="layer of the small model")
    made.add_argument("--seconds", type=float, default=225, help="time for all parts together")
    made.add_argument("--output", type=Path, default=Path("build/gpu"), help="folder for the results")
    return made


def measure(plan: Plan, place: Path, output: Path, deadline: float) -> int:
    """Run the parts in the order in which they matter, write after each, and return how many failed.

    Args:
        plan: what is measured.
        place: a folder for the large model.
        output: a folder for the results.
        deadline: when all must be done, in seconds of `time.monotonic`.
    """
    facts = {**machine(), **_device_facts(plan.device)}
    rows: dict[str, list[dict[str, Any]]] = {"correctness": [], "speed": []}
    failed = 0
    for part in parts(plan, place):
        begin = time.monotonic()
        try:
            with at_most(min(part.budget, deadline - begin)):
                row = part.run()
        except (Exception, OutOfTimeError) as error:
            failed += 1
            row = {"note": f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"}
        row = {"package": part.package, "settings": part.settings, **row, "took, s": time.monotonic() - begin}
        rows[part.section].append(row)
        sections = {
            "correctness": correctness_section(plan, rows["correctness"]),
            "speed": speed_section(plan, rows["speed"]),
        }
        write(output, facts, sections)
        print(f"{part.section}, {part.package}, {part.settings}: {row.get('note', 'done')}", flush=True)
        release_encoders()
        gc.collect()
    for section in sections.values():
        print(f"\n{section.title}\n\n{table(section.rows)}\n\n{table(target_rows(section.targets))}")
    print(f"\nWritten to {output}.")
    return failed


def _device_facts(device: torch.device) -> dict[str, Any]:
    if device.type != "cuda":
        return {"device": device.type}
    properties = torch.cuda.get_device_properties(device)
    return {"device": properties.name, "device GB": round(properties.total_memory / 1e9), "CUDA": torch.version.cuda}


if __name__ == "__main__":
    sys.exit(min(main(), 1))
