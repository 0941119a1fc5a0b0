"""What a token costs in calls of few and of many pairs, with one block of the model, so that many are affordable."""

import json
import statistics
import subprocess
import sys
import time

from tests.benchmarks.memory import peak_mb
from tests.benchmarks.options import Options
from tests.benchmarks.peers import ours
from tests.benchmarks.report import Section, Target
from tests.benchmarks.texts import distinct_pairs

LAYER = 1
SECONDS = 6.0  # a call is repeated until then
FLAT = 1.2


def measure(options: Options) -> Section:
    """Measure each size in a process of its own."""
    rows = []
    for n in options.curve_pairs:
        command = [sys.executable, "-m", "tests.benchmarks.curve", str(n), options.folder]
        found = json.loads(
            subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()[-1]
        )
        seconds = statistics.median(found["rounds"])
        rows.append({
            "pairs": n,
            "tokens": found["tokens"],
            "seconds": seconds,
            "microseconds a token": 1e6 * seconds / found["tokens"],
            "peak MB": found["peak MB"],
            "rounds": found["rounds"],
        })  # fmt: skip
    costs = [row["microseconds a token"] for row in rows]
    return Section(
        f"Calls of {distinct_pairs(1)[2]}, no text twice, float32, layer {LAYER}: one block only, so that what is not "
        f"the encoder shows more than at layer {options.layer}. Each size in a process of its own, the median of "
        f"{SECONDS:.0f} s of calls, at least one.",
        rows,
        [Target("cost curve", "dearest token over cheapest", FLAT, max(costs) / min(costs), at_least=False)],
    )


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
