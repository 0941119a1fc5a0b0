"""The parts of the benchmark for a GPU: is it right, and how fast is it beside bert_score and the matrix rate."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from bertscore_metric import BERTScorer
from tests.benchmarks.flops import MatrixRate, synchronize, useful_work
from tests.benchmarks.peers import BERT_SCORE, OURS, bert_score_scorer, difference, ours
from tests.benchmarks.random_bert import Size, save_random_bert
from tests.benchmarks.report import Section, Target
from tests.benchmarks.rounds import timed
from tests.benchmarks.texts import distinct_pairs

DTYPES = ("bfloat16", "float32", "tf32", "float16")
COMPILED = ("bfloat16", "float32")
CLOSE = {"float32": 1e-5, "tf32": 2e-3, "bfloat16": 1e-2, "float16": 2e-3}  # largest difference of a segment's F1
FASTER = {"float32": 1.5, "tf32": 5.0, "bfloat16": 12.0}  # times bert_score in float32
CORPUS = 100_000_000  # pairs, whose hours are extrapolated


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
    size: Size = field(default_factory=Size)
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


def parts(plan: Plan, place: Path) -> Iterator[Part]:
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
        return str(place) if (place / "tokenizer.json").is_file() else save_random_bert(place, plan.folder, plan.size)

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


def correctness_section(plan: Plan, rows: list[dict[str, Any]]) -> Section:
    """Return what was compared, with the bounds."""
    figure = "largest difference of F1"
    targets = []
    for row in rows:
        bound = CLOSE[row["settings"].partition(",")[0]]
        targets.append(Target(row["settings"], figure, bound, row.get(figure), at_least=False))
    texts, model = distinct_pairs(1)[2], Path(plan.folder).name
    title = f"{plan.checked} pairs of {texts} with {model}, layer {plan.layer}, against float32 on the CPU."
    return Section(title, rows, targets)


def speed_section(plan: Plan, rows: list[dict[str, Any]]) -> Section:
    """Return what was timed, with the targets and what bert_score took, once that is known."""
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
