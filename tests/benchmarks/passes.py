"""One pass over a corpus: this package beside bert_score and torchmetrics, and beside the machine's matrix rate."""

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.benchmarks.flops import MatrixRate, useful_work
from tests.benchmarks.options import Options
from tests.benchmarks.peers import (
    BERT_SCORE,
    OURS,
    TORCHMETRICS,
    bert_score_scorer,
    difference,
    ours,
    torchmetrics_pass,
)
from tests.benchmarks.random_bert import save_random_bert
from tests.benchmarks.report import Section, Target
from tests.benchmarks.rounds import in_turn, timed
from tests.benchmarks.texts import pairs

PLAIN = "float32"
PEER = (BERT_SCORE, PLAIN)
WARM_UP = 200  # pairs, after which blocks are compiled and caches filled
BOUNDS = {  # times bert_score, share of the matrix rate
    "float32": (1.35, 0.82),
    "float32, compiled": (1.5, 0.90),
    "bfloat16": (2.3, 0.65),
    "bfloat16, compiled": (2.6, 0.70),
}


def measure(options: Options) -> Section:
    """Measure passes of the small model, and of a large one with random weights over far fewer pairs."""
    candidates, references, origin = pairs(options.pairs)
    theirs = torchmetrics_pass(options.folder, options.layer)
    others = {} if theirs is None else {(TORCHMETRICS, PLAIN): theirs}
    rows = _passes(options.folder, options.layer, options.inner, candidates, references, options, others)
    targets = [target for row in rows if row["package"] == OURS for target in _targets(row, len(candidates))]
    with tempfile.TemporaryDirectory() as folder:
        large = save_random_bert(Path(folder), options.folder, options.large)
        few = (candidates[: options.large_pairs], references[: options.large_pairs])
        more = _passes(large, options.large.cut, options.large.inner, *few, options, {})
    return Section(
        f"{len(candidates):,} pairs of {origin} with {options.name}, layer {options.layer}; "
        f"{len(few[0])} of them with a BERT of {options.large.layers} layers and {options.large.dim} dimensions, "
        f"random weights, cut at {options.large.cut} (large). Seconds are medians of {options.rounds} rounds.",
        [{"model": "small", **row} for row in rows] + [{"model": "large", **row} for row in more],
        targets,
        ("torchmetrics pairs the wrong sentences, so its numbers are others.",) if others else (),
    )


def _passes(
    folder: str,
    layer: int,
    inner: int,
    candidates: list[str],
    references: list[str],
    options: Options,
    others: Mapping[Any, Callable[[list[str], list[str]], Any]],
) -> list[dict[str, Any]]:
    """Return a row for each package and setting."""
    loaded = {name: timed(lambda kind=kind: ours(folder, layer, **kind)) for name, kind in options.kinds.items()}
    scorers = {name: scorer for name, (_, scorer) in loaded.items()}
    peer = bert_score_scorer(folder, layer)
    texts = (candidates, references)
    run: dict[Any, Callable[[list[str], list[str]], Any]] = {
        (OURS, name): lambda c, r, scorer=scorer: scorer.score(c, r).f1 for name, scorer in scorers.items()
    }
    if peer is not None:
        run[PEER] = lambda c, r: peer.score(c, r)[2]
    run.update(others)
    first = {
        kind: timed(lambda one=one: one(candidates[:WARM_UP], references[:WARM_UP]))[0] for kind, one in run.items()
    }
    plain = scorers[PLAIN]
    work, tokens = useful_work(plain, *texts, inner)
    rates = {dtype: MatrixRate(plain.model.dim, dtype) for dtype in ("float32", "bfloat16")}

    def machine() -> None:
        for rate in rates.values():
            rate.measure()

    machine()
    rounds = in_turn({kind: lambda one=one: one(*texts) for kind, one in run.items()}, options.rounds, machine)
    rows = []
    for kind in run:
        package, settings = kind
        seconds = rounds.median(kind)
        reached, rate = work / seconds, rates[settings.partition(",")[0]].rate
        rows.append({
            "package": package,
            "settings": settings,
            "pairs": len(candidates),
            "seconds": seconds,
            "pairs/s": len(candidates) / seconds,
            "GFLOP/s": reached / 1e9,
            "matrix rate": rate / 1e9,
            "share of it": reached / rate,
            "bert_score took x": rounds.ratio(PEER, kind),
            "F1 off bert_score": difference(rounds.results[kind], rounds.results.get(PEER)),
            "loading and compiling, s": loaded[settings][0] if package == OURS else None,
            "first call, s": first[kind],
            "not compiled": scorers[settings].model.encoder.compile_error if package == OURS else None,
            "tokens": tokens,
            "rounds": rounds.seconds[kind],
        })  # fmt: skip
    return rows


def _targets(row: Mapping[str, Any], n: int) -> list[Target]:
    settings = row["settings"]
    work = f"one pass of {n:,} pairs, {settings}"
    faster, share = BOUNDS[settings]
    if row["not compiled"]:  # then it is another row's figure
        row = dict.fromkeys(row)
    targets = [
        Target(work, "times bert_score", faster, row["bert_score took x"]),
        Target(work, "share of the matrix rate", share, row["share of it"]),
    ]
    if settings.startswith(PLAIN):
        targets.append(Target(work, "F1 off bert_score", 1e-5, row["F1 off bert_score"], at_least=False))
    return targets
