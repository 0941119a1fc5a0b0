"""`make bench`: this package beside bert_score, in turn on the same texts in one run, and their numbers compared.

Timings on shared machines are noisy, so the ratios of rounds that follow one another are what counts.
"""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from bertscore_metric import BERTScorer
from bertscore_metric.source import resolve
from tests.benchmarks.texts import pairs

LAYER = 5
ROUNDS = 3


def main() -> None:
    """Print every table."""
    if sys.argv[1:2] == ["memory"]:
        measure_memory(int(sys.argv[2]))
        return
    speed()
    memory()


def speed() -> None:
    """One pass of 1,000 pairs, MiniLM layer 5, float32."""
    candidates, references, origin = pairs(1000)
    peer = peer_scorer()
    ours = BERTScorer("offline", num_layers=LAYER)
    runs: dict[str, Callable[[], Any]] = {"bertscore_metric": lambda: ours.score(candidates, references)}
    if peer is not None:
        runs["bert_score"] = lambda: peer.score(candidates, references)
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    f1: dict[str, Any] = {}
    for name, run in runs.items():
        f1[name] = run()  # also the warm-up
    for _ in range(ROUNDS):
        for name, run in runs.items():
            begin = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - begin)
    print(f"1,000 pairs of {origin}, all-MiniLM-L6-v2, layer {LAYER}, float32, {torch.get_num_threads()} threads")
    for name, values in seconds.items():
        print(f"  {name:18s} median {statistics.median(values):6.2f} s  (of {', '.join(f'{v:.2f}' for v in values)})")
    if peer is not None:
        ratios = [b / a for a, b in zip(seconds["bertscore_metric"], seconds["bert_score"], strict=True)]
        print(f"  bert_score / bertscore_metric: median {statistics.median(ratios):.2f}")
        theirs = f1["bert_score"][2]
        print(f"  largest difference of F1: {(f1['bertscore_metric'].f1 - theirs).abs().max():.1e}")


def peer_scorer() -> Any:
    """Return bert_score's scorer with the same weights, or `None` where it is not installed."""
    try:
        from bert_score import BERTScorer as Peer
    except ImportError:
        print("bert_score is not installed; measuring this package alone.")
        return None
    return Peer(model_type=resolve("offline").location, num_layers=LAYER, use_fast_tokenizer=True)


def memory() -> None:
    """Peak resident memory of 1,000 and of 10,000 pairs, each in a process of its own."""
    peaks = {}
    for n in (1000, 10000):
        command = [sys.executable, "-m", "tests.benchmarks", "memory", str(n)]
        peaks[n] = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])
        print(f"{n:6d} pairs: peak of the process {peaks[n]:.0f} MB")
    print(f"  difference: {peaks[10000] - peaks[1000]:.0f} MB")


def measure_memory(n: int) -> None:
    """Print the peak of the process in MB, libraries and model included."""
    candidates, references, _ = pairs(10000)
    scorer = BERTScorer("offline", num_layers=LAYER)
    scorer.score(candidates[:n], references[:n])
    # Linux' own count begins with the program; that of `getrusage` has the process it was started from in it.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    print(int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024)  # type: ignore[index]


if __name__ == "__main__":
    main()
