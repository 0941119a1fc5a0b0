"""`python -m tests.benchmarks.torchmetrics_room`: memory and time of the torchmetrics metric, and its targets.

Timings on shared machines are noisy; what is compared is measured in turn, several times, and the median counts.
"""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import ctypes
import gc
import json
import random
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer

from bertscore_metric import BERTScore, TokenBatch
from bertscore_metric.models.source import resolve
from bertscore_metric.state.state_columns import MATCH_COLUMNS, SCORE_COLUMNS
from tests.benchmarks.texts import pairs

LAYER = 5
ROUNDS = 3
WORDS = ["the", "a", "cat", "dog", "sat", "looked", "on", "red", "table", "river", "bank", "old", "two", "lemons", "is"]


class Table:
    """An encoder that costs nothing, so that what is measured is the metric."""

    fingerprint = "table"
    dim = 16

    def __init__(self) -> None:
        self.table = torch.randn(30522, self.dim, generator=torch.Generator().manual_seed(0))

    def embed(self, tokens: TokenBatch) -> torch.Tensor:
        """Return a fixed vector for each id."""
        return self.table[tokens.ids]


def main() -> None:
    """Print every figure."""
    warnings.simplefilter("ignore")
    if sys.argv[1:2] == ["measure"]:
        print(json.dumps(measure_memory(int(sys.argv[3]), idf=sys.argv[2] == "idf")))
        return
    print(f"{torch.get_num_threads()} threads, load {os.getloadavg()[0]:.1f}")
    parts = {"memory": memory, "forward": forward, "compute": compute, "encoder": encoder_time}
    for name in sys.argv[1:] or parts:
        parts[name]()


def fake_metric(**settings: Any) -> BERTScore:
    """Return a metric around the encoder that costs nothing."""
    tokenizer = AutoTokenizer.from_pretrained(resolve("offline").location)
    return BERTScore(encoder=Table(), tokenizer=tokenizer, **settings)


def batches(n: int, size: int) -> Iterator[tuple[list[str], list[str]]]:
    """Yield n batches of made-up pairs."""
    rng = random.Random(0)

    def sentence() -> str:
        return " ".join(rng.choice(WORDS) for _ in range(rng.randint(5, 40)))

    for _ in range(n):
        yield [sentence() for _ in range(size)], [sentence() for _ in range(size)]


def memory() -> None:
    """Resident memory of the states after many updates of 16 pairs, each kind in a process of its own."""
    for kind in ("plain", "idf"):
        found = measured(kind, 5000)
        with_idf = "with" if kind == "idf" else "without"
        print(
            f"states {with_idf} corpus idf: {found['resident']:.1f} bytes a {found['unit']} resident "
            f"({found['stored']:.1f} stored)"
        )


def measured(kind: str, updates: int) -> dict[str, Any]:
    """Return `measure_memory` of a process of its own: of `plain` states, or with corpus `idf`."""
    command = [sys.executable, "-m", "tests.benchmarks.torchmetrics_room", "measure", kind, str(updates)]
    found: dict[str, Any] = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
    return found


def measure_memory(updates: int, *, idf: bool) -> dict[str, Any]:
    """Return the bytes that so many updates of 16 pairs add to the process, and those of the states.

    They are of a token with idf, and of a segment without.
    """
    metric = fake_metric(idf=idf, embedding_store_bytes=0)
    for batch in batches(300, 16):
        metric.update(*batch)
    metric.compute()
    metric.reset()
    before = _resident()
    n = 0
    for step, batch in enumerate(batches(updates, 16)):
        (metric.forward if step % 10 == 0 else metric.update)(*batch)
        n += 16
    metric.drain()
    metric._computed = metric._forward_cache = metric._result = None
    metric.release()
    used = _resident() - before
    columns = MATCH_COLUMNS if idf else SCORE_COLUMNS
    stored = sum(metric.column(name).nbytes for name in columns)
    unit = "segment"
    if idf:
        n, unit = metric.column("candidate_ids").numel() + metric.column("reference_ids").numel(), "token"
    return {"unit": unit, "resident": used / n, "stored": stored / n}


def _resident() -> int:
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def forward() -> None:
    """One step after 10 and after 10,000 updates of 16 pairs."""
    for idf in (False, True):
        metric = fake_metric(idf=idf)
        few, many = _step(metric, 10), _step(metric, 10_000)
        kind = " with corpus idf" if idf else ""
        print(f"forward{kind}: {few:.2f} ms after 10 updates, {many:.2f} ms after 10,000")


def _step(metric: BERTScore, updates: int) -> float:
    """Return the shortest time of a step in ms, after that many updates in all."""
    for batch in batches(updates - metric.update_count, 16):
        metric.update(*batch)
    batch = next(batches(1, 16))
    metric(*batch)
    return 1000 * min(_seconds(lambda: metric(*batch)) for _ in range(50))


def compute() -> None:
    """`compute` of 100,000 pairs with corpus idf and of 1,000,000 without."""
    generator = torch.Generator().manual_seed(0)
    metric, n = fake_metric(idf=True), 100_000
    # Ids as frequent as words are: the rank is distributed as in Zipf's law.
    weights = 1 / torch.arange(1, 29_000, dtype=torch.float64)
    for side in ("candidate", "reference"):
        lengths = 17 + torch.randint(0, 22, (n,), generator=generator)
        lengths[0] += 2_750_000 - int(lengths.sum())
        ids = 1000 + torch.multinomial(weights, int(lengths.sum()), replacement=True, generator=generator)
        setattr(metric, f"{side}_lengths", [lengths])
        setattr(metric, f"{side}_ids", [ids])
        setattr(metric, f"{side}_best", [torch.rand(len(ids), generator=generator)])
    metric.reference_counts = [torch.ones(n, dtype=torch.int64)]
    _print_compute("100,000 pairs of 5.5 M tokens with corpus idf", metric, 0.5)
    metric, n = fake_metric(), 1_000_000
    for name in ("precision", "recall", "f1"):
        setattr(metric, name, [torch.rand(n, generator=generator)])
    metric.best_references = [torch.zeros(n, dtype=torch.int64)]
    metric.text_counts = [torch.tensor([0, 0, n, n])]
    _print_compute("1,000,000 pairs without idf", metric, 0.2)


def _print_compute(what: str, metric: BERTScore, target: float) -> None:
    def run() -> None:
        metric._computed = None
        metric.compute()

    run()
    seconds = [_seconds(run) for _ in range(2 * ROUNDS)]
    print(f"compute of {what}: best {min(seconds):.2f} s, median {statistics.median(seconds):.2f} s (at most {target})")


def encoder_time() -> None:
    """Encoder time of small updates against one call, and of a second epoch with the same references."""
    candidates, references, origin = pairs(2000)
    first, second = ([f"{text} {more}." for text in candidates[:1000]] for more in ("No", "Yes"))
    references = references[:1000]
    metric = BERTScore("offline", num_layers=LAYER, embedding_store_bytes=0)
    clock = _Clock(metric._shared.scorer.model.encoder)
    metric._shared.scorer.model.encoder.embed = clock.embed  # type: ignore[method-assign]
    sizes = (1000, 8, 16)
    encoder: dict[int, list[float]] = {size: [] for size in sizes}
    whole: dict[int, list[float]] = {size: [] for size in sizes}
    tokens = {}
    for _ in range(ROUNDS):
        for size in sizes:
            clock.seconds, clock.tokens = 0, 0
            whole[size].append(_epoch(metric, first, references, size))
            encoder[size].append(clock.seconds)
            tokens[size] = clock.tokens
    once = statistics.median(encoder[1000])
    print(f"1,000 pairs of {origin}, all-MiniLM-L6-v2, layer {LAYER}: {once:.2f} s of encoder in one call")
    for size in sizes[1:]:
        ours, all_ = (
            statistics.median(a / b for a, b in zip(values[size], values[1000], strict=True))
            for values in (encoder, whole)
        )
        print(
            f"  updates of {size:2d} pairs: {ours:.2f} x encoder time (at most 1.15), {all_:.2f} x in all, "
            f"{tokens[size] / tokens[1000]:.3f} x tokens with padding"
        )
    epochs = []
    del metric._shared.scorer.model.encoder.embed
    for _ in range(ROUNDS):
        stored = BERTScore("offline", num_layers=LAYER)
        seconds = [_epoch(stored, texts, references, 16) for texts in (first, second)]
        epochs.append(seconds[1] / seconds[0])
    print(f"  second epoch with the same references: {statistics.median(epochs):.2f} x the first in all (at most 0.6)")


class _Clock:
    """Counts what an encoder does; seconds are the process's own, so that other work on the machine hardly matters."""

    def __init__(self, encoder: Any) -> None:
        self._embed: Callable[[TokenBatch], torch.Tensor] = encoder.embed
        self.seconds = 0.0
        self.tokens = 0

    def embed(self, tokens: TokenBatch) -> torch.Tensor:
        begin = time.process_time()
        out = self._embed(tokens)
        self.seconds += time.process_time() - begin
        self.tokens += tokens.ids.numel()
        return out


def _epoch(metric: BERTScore, candidates: list[str], references: list[str], size: int) -> float:
    """Return the seconds of an epoch in updates of `size` pairs."""
    begin = time.process_time()
    for first in range(0, len(candidates), size):
        metric.update(candidates[first : first + size], references[first : first + size])
    metric.compute()
    metric.reset()
    return time.process_time() - begin


def _seconds(run: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
