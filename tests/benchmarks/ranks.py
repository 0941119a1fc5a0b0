"""The same validation on two processes that talk over gloo, one thread each."""

import json
import statistics
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.multiprocessing

from tests.benchmarks.counted import counted
from tests.benchmarks.options import Options
from tests.benchmarks.peers import OURS, TORCHMETRICS, torchmetrics_metric
from tests.benchmarks.report import Section, Target
from tests.benchmarks.rounds import timed
from tests.benchmarks.texts import pairs
from tests.benchmarks.validation import ONE_EPOCH, UPDATE, epoch_texts, our_epochs, our_metric, torchmetrics_epoch

BOUNDS = {"float32": 5.0, "bfloat16": 9.0}  # times torchmetrics
TEXTS, TOKENS, SECONDS, F1 = range(4)  # of what a rank says of a run


def measure(options: Options) -> Section:
    """Measure on two processes, and count what one alone encodes."""
    two = run(options, 2, options.rounds)
    one = run(options, 1, 1)
    rows = [row for kind in two[0] if (row := _row(kind, two, one, options)) is not None]
    by_kind = {row["settings"]: row for row in rows if row["package"] == OURS}
    theirs = f"{TORCHMETRICS} float32"
    targets = [
        Target(f"validation on two ranks, {dtype}", "times torchmetrics", bound, by_kind[dtype]["torchmetrics took x"])
        for dtype, bound in BOUNDS.items()
    ]
    encoded = [sum(rank[f"{OURS} float32"][-1][TEXTS] for rank in ranks) for ranks in (two, one)]
    targets.append(
        Target("validation on two ranks", "texts encoded, over those of one rank", 1.01, encoded[0] / encoded[1],
               at_least=False)
    )  # fmt: skip
    return Section(
        f"{options.epochs} epochs of {options.epoch_pairs:,} pairs of {pairs(1)[2]} in updates of {UPDATE} on two "
        f"processes of one thread; seconds of one epoch on the slower rank, the median of {options.rounds} rounds.",
        rows,
        targets,
        [ONE_EPOCH.format(TORCHMETRICS)] if theirs in two[0] else [],
    )


def _row(kind: str, two: list[dict[str, Any]], one: list[dict[str, Any]], options: Options) -> dict[str, Any] | None:
    package, settings = kind.split()
    slower = _slower(two, kind, options)
    theirs = f"{TORCHMETRICS} float32"
    ratio = None
    if theirs in two[0]:
        ratio = statistics.median(a / b for a, b in zip(_slower(two, theirs, options), slower, strict=True))
    return {
        "package": package,
        "settings": settings,
        "pairs": options.epoch_pairs,
        "seconds": statistics.median(slower),
        "torchmetrics took x": ratio,
        "texts encoded by each rank": " + ".join(f"{rank[kind][-1][TEXTS]:,}" for rank in two),
        "tokens, padded": " + ".join(f"{rank[kind][-1][TOKENS]:,}" for rank in two),
        "one rank: texts": one[0][kind][-1][TEXTS],
        "one rank: tokens, padded": one[0][kind][-1][TOKENS],
        "one rank, one thread: seconds": _slower(one, kind, options)[-1],
        "mean F1": two[0][kind][-1][F1],
        "rounds": slower,
    }


def _slower(ranks: list[dict[str, Any]], kind: str, options: Options) -> list[float]:
    """Return the seconds of one epoch on the slower rank, [round]."""
    epochs = options.epochs if kind.startswith(OURS) else 1
    return [
        max(found[SECONDS] for found in ranks_of) / epochs
        for ranks_of in zip(*(rank[kind] for rank in ranks), strict=True)
    ]


def run(options: Options, world: int, rounds: int) -> list[dict[str, Any]]:
    """Return what each rank found: kind -> [round] of texts and tokens it encoded, seconds, and mean F1."""
    with tempfile.TemporaryDirectory() as folder:
        context = torch.multiprocessing.start_processes(
            _rank, (options, world, rounds, folder), nprocs=world, start_method="spawn", join=False
        )
        assert context is not None
        while not context.join():
            pass
        return [json.loads((Path(folder) / f"{rank}.json").read_text()) for rank in range(world)]


def _rank(rank: int, options: Options, world: int, rounds: int, folder: str) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=world)
    runs = _runs(options, range(rank, options.epoch_pairs, world))
    found: dict[str, list[Any]] = {kind: [] for kind in runs}
    for _ in range(rounds):
        for kind, one in runs.items():
            torch.distributed.barrier()
            with counted() as encoded:
                seconds, f1 = timed(one)
            found[kind].append([encoded.texts, encoded.tokens, seconds, float(f1.mean())])
    (Path(folder) / f"{rank}.json").write_text(json.dumps(found))
    torch.distributed.destroy_process_group()


def _runs(options: Options, numbers: range) -> dict[str, Callable[[], Any]]:
    candidates, references, _ = pairs(options.epoch_pairs)
    texts = epoch_texts(candidates, 0)
    metrics = {dtype: our_metric(options, dtype) for dtype in BOUNDS}
    runs: dict[str, Callable[[], Any]] = {
        f"{OURS} {dtype}": lambda metric=metric: our_epochs(metric, candidates, references, options.epochs, numbers)[1]
        for dtype, metric in metrics.items()
    }
    for metric in metrics.values():
        our_epochs(metric, texts, references, 1, numbers[:UPDATE])
    theirs = torchmetrics_metric(options.folder, options.layer)
    if theirs is not None:
        runs[f"{TORCHMETRICS} float32"] = lambda: torchmetrics_epoch(theirs, texts, references, numbers)
    return runs
