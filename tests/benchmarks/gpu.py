"""`python -m tests.benchmarks.gpu`: is it right on a GPU, and how fast, in under four minutes in all.

First every dtype against float32 on the CPU, with a small model. Then pairs a second, the share of the GPU's own matrix
rate, and memory, beside bert_score, with random weights of roberta-large's size. What takes too long is left out and
said; results are written after every part. `--device cpu --quick` shows in miniature, without a GPU, that it works.
"""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import argparse
import dataclasses
import gc
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bertscore_metric import BERTScorer, release_encoders
from bertscore_metric.source import resolve
from tests.benchmarks.flops import MatrixRate, synchronize, useful_work
from tests.benchmarks.peers import BERT_SCORE, OURS, bert_score_scorer, difference, ours
from tests.benchmarks.random_bert import Size, save_random_bert
from tests.benchmarks.report import Section, Target, machine, table, target_rows, write
from tests.benchmarks.rounds import timed
from tests.benchmarks.texts import distinct_pairs

DTYPES = ("bfloat16", "float32", "tf32", "float16")
COMPILED = ("bfloat16", "float32")
CLOSE = {"float32": 1e-5, "tf32": 2e-3, "bfloat16": 1e-2, "float16": 2e-3}  # largest difference of a segment's F1
FASTER = {"float32": 1.5, "tf32": 5.0, "bfloat16": 12.0}  # times bert_score in float32
CORPUS = 100_000_000  # pairs, whose hours are extrapolated


class OutOfTimeError(Exception):
    """A part took longer than it may."""


@dataclass(frozen=True)
class Plan:
    """What is measured, and for how long.

    Args:
        device: where.
        folder: the small model.
        layer: which layer of it.
        size: of the large model.
        checked: pairs that are compared with the CPU.
        first: pairs that tell how many are measured.
        most: pairs that are measured at most.
        seconds: how long a measured call should take.
        compiled: whether compiled blocks are measured, too.
    """

    device: torch.device
    folder: str
    layer: int
    size: Size = dataclasses.field(default_factory=Size)
    checked: int = 50
    first: int = 1000
    most: int = 20000
    seconds: float = 6.0
    compiled: bool = True


QUICK: dict[str, Any] = {
    "size": Size(dim=64, layers=4, heads=4, inner=256, cut=3),
    "checked": 8,
    "first": 8,
    "most": 16,
    "seconds": 0.1,
}


@dataclass(frozen=True)
class Part:
    """A part of the benchmark: the section and the row it fills, the most seconds it may take, and what to do."""

    section: str
    package: str
    settings: str
    budget: float
    run: Callable[[], dict[str, Any]]


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
    for part in _parts(plan, place):
        begin = time.monotonic()
        try:
            with at_most(min(part.budget, deadline - begin)):
                row = part.run()
        except Exception as error:
            failed += 1
            row = {"note": f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"}
        row = {"package": part.package, "settings": part.settings, **row, "took, s": time.monotonic() - begin}
        rows[part.section].append(row)
        sections = {"correctness": _correctness(plan, rows["correctness"]), "speed": _speed(plan, rows["speed"])}
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


def _parts(plan: Plan, place: Path) -> Iterator[Part]:
    """Yield the parts: the most important ones first, and compiling, which may take long, last."""
    exact: list[torch.Tensor] = []

    def check(**kind: Any) -> dict[str, Any]:
        candidates, references, _ = distinct_pairs(plan.checked)
        if not exact:
            exact.append(ours(plan.folder, plan.layer).score(candidates, references).f1)
        scorer = ours(plan.folder, plan.layer, device=plan.device, **kind)
        f1 = scorer.score(candidates, references).f1
        _check_compiled(scorer)
        mean = float((f1.double() - exact[0].double()).abs().mean())
        return {"largest difference of F1": difference(f1, exact[0]), "mean difference": mean}

    def large() -> str:
        return str(place) if (place / "config.json").is_file() else save_random_bert(place, plan.folder, plan.size)

    def run(**kind: Any) -> dict[str, Any]:
        seconds, scorer = timed(lambda: ours(large(), plan.size.cut, device=plan.device, **kind))
        row = measure_speed(plan, lambda c, r: scorer.score(c, r).f1, scorer, kind["dtype"])
        _check_compiled(scorer)
        return {**row, "loading and compiling, s": seconds}

    def peer() -> dict[str, Any]:
        other = bert_score_scorer(large(), plan.size.cut, device=str(plan.device))
        if other is None:
            return {"note": "not installed"}
        counting = ours(large(), plan.size.cut)  # on the CPU, so that it takes no memory of the device
        return measure_speed(plan, lambda c, r: other.score(c, r)[2], counting, "float32")

    for dtype in DTYPES:
        yield Part("correctness", OURS, dtype, 25, lambda dtype=dtype: check(dtype=dtype))
    for dtype in DTYPES:
        # The first one makes the large model.
        yield Part("speed", OURS, dtype, 50 if dtype == DTYPES[0] else 30, lambda dtype=dtype: run(dtype=dtype))
        if dtype == "float32":
            yield Part("speed", BERT_SCORE, dtype, 35, peer)
    for dtype in COMPILED if plan.compiled else ():
        name, kind = f"{dtype}, compiled", {"dtype": dtype, "compile": True}
        yield Part("speed", OURS, name, 80, lambda kind=kind: run(**kind))
        yield Part("correctness", OURS, name, 45, lambda kind=kind: check(**kind))


def _check_compiled(scorer: BERTScorer) -> None:
    """Raise where the scorer runs uncompiled although it should not: its figures would stand in the wrong row."""
    error = getattr(scorer.model.encoder, "compile_error", None)
    if error is not None:
        raise RuntimeError(f"not compiled: {error}")


def measure_speed(plan: Plan, score: Callable[..., Any], counting: Any, dtype: str) -> dict[str, Any]:
    """Return what scoring as many pairs takes as fit the seconds of the plan.

    Args:
        plan: where, and how many.
        score: a function of candidates and references.
        counting: a scorer of the same model, to count the work with.
        dtype: of the matrix rate that the work is compared with.
    """
    cuda = plan.device.type == "cuda"
    rate = MatrixRate(plan.size.dim, dtype, plan.device)
    rate.measure()
    warm = distinct_pairs(plan.first)
    first_call = _seconds(plan.device, score, *warm[:2])  # asks for memory
    seconds = _seconds(plan.device, score, *warm[:2])
    n = max(plan.first, min(plan.most, int(plan.seconds * plan.first / seconds)))
    candidates, references, _ = distinct_pairs(n)
    if cuda:
        torch.cuda.reset_peak_memory_stats(plan.device)
    seconds = _seconds(plan.device, score, candidates, references)
    peak = torch.cuda.max_memory_allocated(plan.device) / 2**20 if cuda else None
    rate.measure()
    work, tokens = useful_work(counting, candidates, references, plan.size.inner)
    return {
        "pairs": n,
        "seconds": seconds,
        "pairs/s": n / seconds,
        "tokens/s": tokens / seconds,
        "TFLOP/s": work / seconds / 1e12,
        "matrix rate": rate.rate / 1e12,
        "share of it": work / seconds / rate.rate,
        "peak MB": peak,
        "first call, s": first_call,
        f"hours for {CORPUS // 10**6} M pairs": seconds / n * CORPUS / 3600,
    }


def _seconds(device: torch.device, score: Callable[..., Any], candidates: list[str], references: list[str]) -> float:
    synchronize(device)
    begin = time.perf_counter()
    score(candidates, references)
    synchronize(device)
    return time.perf_counter() - begin


def _correctness(plan: Plan, rows: list[dict[str, Any]]) -> Section:
    figure = "largest difference of F1"
    targets = []
    for row in rows:
        bound = CLOSE[row["settings"].partition(",")[0]]
        targets.append(Target(row["settings"], figure, bound, row.get(figure), at_least=False))
    texts, model = distinct_pairs(1)[2], Path(plan.folder).name
    title = f"{plan.checked} pairs of {texts} with {model}, layer {plan.layer}, against float32 on the CPU."
    return Section(title, rows, targets)


def _speed(plan: Plan, rows: list[dict[str, Any]]) -> Section:
    figure = "times bert_score"
    peer = next((row.get("pairs/s") for row in rows if row["package"] == BERT_SCORE), None)
    rows = [{**row, figure: row["pairs/s"] / peer if peer and "pairs/s" in row else None} for row in rows]
    targets = []
    for row in rows:
        if row["package"] == OURS and row["settings"] in FASTER:
            targets.append(Target(row["settings"], figure, FASTER[row["settings"]], row[figure]))
        if row["package"] == OURS and row["settings"] == "bfloat16":
            targets.append(Target("bfloat16", "share of the matrix rate", 0.4, row.get("share of it")))
            targets.append(Target("bfloat16", "pairs/s", 13000, row.get("pairs/s")))
    size = plan.size
    title = (
        f"{distinct_pairs(1)[2]}, no text twice, with a BERT of {size.layers} layers and {size.dim} dimensions, random "
        f"weights, cut at {size.cut}; the matrix rate is in TFLOP/s."
    )
    return Section(title, rows, targets)


if __name__ == "__main__":
    sys.exit(min(main(), 1))
