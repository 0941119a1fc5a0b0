"""Epochs of validation in small updates, with candidates that change and references that stay, on one process."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from bertscore_metric import BERTScore
from tests.benchmarks.counted import counted
from tests.benchmarks.options import Options
from tests.benchmarks.peers import BERT_SCORE, OURS, TORCHMETRICS, bert_score_scorer, difference, torchmetrics_metric
from tests.benchmarks.report import Section, Target
from tests.benchmarks.rounds import Rounds, in_turn, timed
from tests.benchmarks.texts import pairs

UPDATE = 16
BOUNDS = {"float32": (3.4, 2.4), "bfloat16": (6.0, 4.0)}  # times bert_score, times torchmetrics
ONE_EPOCH = "{} keeps nothing between epochs, so one was measured, and all are like it."


def epoch_texts(candidates: list[str], epoch: int) -> list[str]:
    """Return the candidates of an epoch: those of no other, and as long."""
    return [f"{text} Epoch {epoch}." for text in candidates]


def our_epochs(metric: BERTScore, candidates: list[str], references: list[str], epochs: int, numbers: range) -> Any:
    """Validate with an empty store of references.

    Args:
        metric: with `reduction="none"`.
        candidates, references: texts of all samples, [segment].
        epochs: how often.
        numbers: samples of this rank.

    Returns:
        Seconds [epoch], and the F1 of the first epoch [segment].
    """
    metric._shared.store.clear()
    seconds, f1 = [], []
    for epoch in range(epochs):
        taken, scores = timed(
            lambda epoch=epoch: _our_epoch(metric, epoch_texts(candidates, epoch), references, numbers)
        )
        seconds.append(taken)
        f1.append(scores)
    return seconds, f1[0]


def _our_epoch(metric: BERTScore, candidates: list[str], references: list[str], numbers: range) -> Tensor:
    for first in range(0, len(numbers), UPDATE):
        own = list(numbers[first : first + UPDATE])
        metric.update([candidates[n] for n in own], [references[n] for n in own], sample_ids=own)
    f1: Tensor = metric.compute()["f1"].clone()
    metric.reset()
    return f1


def bert_score_epoch(scorer: Any, candidates: list[str], references: list[str]) -> Tensor:
    """Call bert_score's scorer in every step, as a training loop does, and return F1 [segment]."""
    parts = [
        scorer.score(candidates[first : first + UPDATE], references[first : first + UPDATE])[2]
        for first in range(0, len(candidates), UPDATE)
    ]
    return torch.cat(parts)


def torchmetrics_epoch(metric: Any, candidates: list[str], references: list[str], numbers: range) -> Tensor:
    """Update torchmetrics' metric in every step and compute, and return what it takes for F1 [segment]."""
    for first in range(0, len(numbers), UPDATE):
        own = numbers[first : first + UPDATE]
        metric.update([candidates[n] for n in own], [references[n] for n in own])
    f1 = torch.as_tensor(metric.compute()["f1"])
    metric.reset()
    return f1


def our_metric(options: Options, dtype: str) -> BERTScore:
    """Return this package's metric with its store."""
    return BERTScore(options.folder, num_layers=options.layer, dtype=dtype, reduction="none", device="cpu")


def measure(options: Options) -> Section:
    """Measure all epochs of this package, and one of each of the others, in turn."""
    candidates, references, origin = pairs(options.epoch_pairs)
    every = range(len(candidates))
    metrics = {dtype: our_metric(options, dtype) for dtype in BOUNDS}
    peer = bert_score_scorer(options.folder, options.layer)
    theirs = torchmetrics_metric(options.folder, options.layer)
    texts = epoch_texts(candidates, 0)
    runs: dict[Any, Callable[[], Any]] = {
        (OURS, dtype): lambda metric=metric: our_epochs(metric, candidates, references, options.epochs, every)
        for dtype, metric in metrics.items()
    }
    if peer is not None:
        runs[BERT_SCORE, "float32"] = lambda: ([], bert_score_epoch(peer, texts, references))
    if theirs is not None:
        runs[TORCHMETRICS, "float32"] = lambda: ([], torchmetrics_epoch(theirs, texts, references, every))
    for metric in metrics.values():
        our_epochs(metric, texts[:64], references[:64], 1, range(min(64, len(texts))))
    with counted() as encoded:
        our_epochs(metrics["float32"], candidates, references, options.epochs, every)
    rounds = in_turn(runs, options.rounds)
    rounds = Rounds({kind: [value / (options.epochs if kind[0] == OURS else 1) for value in values]
                     for kind, values in rounds.seconds.items()}, rounds.results)  # fmt: skip
    rows = [_row(rounds, kind) for kind in runs]
    return Section(
        f"{options.epochs} epochs of {len(candidates):,} pairs of {origin} with {options.name}, layer {options.layer}, "
        f"in updates of {UPDATE}, with other candidates in every epoch and the same references; seconds of one epoch "
        f"in the mean, of which the median of {options.rounds} rounds. bertscore_metric encoded {encoded.texts:,} "
        f"texts in {options.epochs} epochs.",
        rows,
        [target for row in rows if row["package"] == OURS for target in _targets(row)],
        [ONE_EPOCH.format(name) for name, there in ((BERT_SCORE, peer), (TORCHMETRICS, theirs)) if there is not None],
    )


def _row(rounds: Rounds, kind: Any) -> dict[str, Any]:
    epochs, f1 = rounds.results[kind]
    exact = rounds.results.get((BERT_SCORE, "float32"))
    return {
        "package": kind[0],
        "settings": kind[1],
        "pairs": len(f1),
        "seconds": rounds.median(kind),
        "first epoch": epochs[0] if epochs else None,
        "last epoch": epochs[-1] if epochs else None,
        "bert_score took x": rounds.ratio((BERT_SCORE, "float32"), kind),
        "torchmetrics took x": rounds.ratio((TORCHMETRICS, "float32"), kind),
        "F1 off bert_score": difference(f1, None if exact is None else exact[1]),
        "mean F1": float(f1.mean()),
        "rounds": rounds.seconds[kind],
    }


def _targets(row: dict[str, Any]) -> list[Target]:
    work = f"validation, {row['settings']}"
    bounds = BOUNDS[row["settings"]]
    targets = [
        Target(work, "times bert_score called per update", bounds[0], row["bert_score took x"]),
        Target(work, "times torchmetrics", bounds[1], row["torchmetrics took x"]),
    ]
    if row["settings"] == "float32":
        targets.append(Target(work, "F1 off bert_score", 1e-5, row["F1 off bert_score"], at_least=False))
    return targets
