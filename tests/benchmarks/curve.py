"""What a token costs in calls of few and of many pairs, with one block of the model, so that many are affordable."""

import json
import statistics
import subprocess
import sys
import time
from typing import Any

from tests.benchmarks.memory import peak_mb
from tests.benchmarks.options import Options
from tests.benchmarks.peers import ours
from tests.benchmarks.report import Section, Target
from tests.benchmarks.texts import distinct_pairs

LAYER = 1
SECONDS = 4.0  # a call is repeated until then
FLAT = 1.2


def measure(options: Options) -> Section:
    """Measure each size in a process of its own."""
    sizes = options.curve_pairs
    found: dict[int, list[dict[str, Any]]] = {n: [] for n in sizes}
    for n in (*sizes, *reversed(sizes[:-1])):  # the largest in the middle: the machine may be slower now and then
        command = [sys.executable, "-m", "tests.benchmarks.curve", str(n), options.folder]
        said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        found[n].append(json.loads(said.splitlines()[-1]))
    rows = [_row(n, runs) for n, runs in found.items()]
    costs = [row["microseconds a token"] for row in rows]
    return Section(
        f"Calls of {distinct_pairs(1)[2]}, no text twice, float32, layer {LAYER}: one block only, so that what is not "
        f"the encoder shows more than at layer {options.layer}. Each size in two processes of its own, the largest in "
        f"one, the median of {SECONDS:.0f} s of calls each, at least one.",
        rows,
        [Target("cost curve", "dearest token over cheapest", FLAT, max(costs) / min(costs), at_least=False)],
    )


def _row(n: int, runs: list[dict[str, Any]]) -> dict[str, Any]:
    tokens, rounds = runs[0]["tokens"], [seconds for run in runs for seconds in run["rounds"]]
    # Each process counts once, however many calls it had time for.
    seconds = statistics.mean(statistics.median(run["rounds"]) for run in runs)
    return {
        "pairs": n,
        "tokens": tokens,
        "seconds": seconds,
        "microseconds a token": 1e6 * seconds / tokens,
        "peak MB": max(run["peak MB"] for run in runs),
        "rounds": rounds,
    }


def main(n: int, folder: str) -> None:
    """Score so many pairs again and again, and print what it took."""
    candidates, references, _ = distinct_pairs(n)
    scorer = ours(folder, LAYER)
    scorer.score(candidates[:100], references[:100])
    tokens = int(scorer.tokenize(candidates, references).texts.lengths.sum())
    rounds: list[float] = []
    while sum(rounds) < SECONDS:
        begin = time.perf_counter()
        scorer.score(candidates, references)
        rounds.append(time.perf_counter() - begin)
    print(json.dumps({"tokens": tokens, "rounds": rounds, "peak MB": peak_mb()}))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
