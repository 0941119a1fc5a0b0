"""`python -m tests.benchmarks.coverage`: how often intervals hold the mean, and how often equal systems seem to differ.

Samples are drawn with replacement from the scores of real translations where they are at hand (made-up sentences
otherwise), whose mean is known; minutes on two cores.
"""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
from numpy.typing import NDArray

from bertscore_metric import BERTScorer
from bertscore_metric.analysis.comparison import compare
from bertscore_metric.core.significance import mean_intervals
from tests.benchmarks.texts import DATA, pairs

SIZES = (10, 30, 60, 100, 300)
SYSTEMS = ("hyp.RWTH.5636.en", "hyp.online-F.0.en")
_LINES = slice(1000, 1600)


def populations(num_layers: int = 5) -> dict[str, NDArray[np.float64]]:
    """Return F1 of a system, and its difference from another on the same segments, by name: [segment]."""
    scorer = BERTScorer("offline", num_layers=num_layers)
    if DATA.is_dir():
        texts = [(DATA / name).read_text(encoding="utf-8").split("\n")[_LINES] for name in (*SYSTEMS, "ref.en")]
    else:
        candidates, references, _ = pairs(1200)
        texts = [candidates[:600], candidates[600:], references[:600]]
    one, other = (scorer.score(side, texts[2]).f1.double().numpy() for side in texts[:2])
    return {"scores": one, "differences": one - other}


def coverage(population: NDArray[np.float64], n: int, trials: int, *, resamples: int = 1999, seed: int = 0) -> float:
    """Return the share of samples of n segments whose 95 % interval holds the mean of the population."""
    random, held = np.random.default_rng(seed), 0
    for begin in range(0, trials, 100):
        drawn = population[random.integers(len(population), size=(min(100, trials - begin), n))]
        intervals = mean_intervals(drawn, resamples=resamples, seed=begin)
        held += sum(interval.low <= population.mean() <= interval.high for interval in intervals)
    return held / trials


def false_alarms(
    population: NDArray[np.float64], trials: int, *, systems: int = 10, n: int = 99
) -> tuple[float, float]:
    """Return the share of trials in which some pair of equal systems has p below .05, without Holm and with it.

    Every system is the same segments, each moved by a draw from the population of differences with a random sign.
    """
    random, plain, corrected = np.random.default_rng(0), 0, 0
    for _ in range(trials):
        moved = population[random.integers(len(population), size=(systems, n))] * random.choice([-1, 1], (systems, n))
        found = compare({str(number): row for number, row in enumerate(moved)}).pairs
        plain += any(pair.p < 0.05 for pair in found)
        corrected += any(pair.p_holm < 0.05 for pair in found)
    return plain / trials, corrected / trials


def main(trials: int = 1000) -> None:
    """Print a row for each number of segments, then the false alarms."""
    found = populations()
    print(f"{trials} samples each; share of 95 % intervals that hold the mean")
    print("segments  " + "  ".join(f"{name:>12}" for name in found))
    for n in SIZES:
        print(f"{n:8d}  " + "  ".join(f"{coverage(one, n, trials):12.3f}" for one in found.values()), flush=True)
    plain, corrected = false_alarms(found["differences"], trials)
    print(f"ten equal systems, some pair below .05: {plain:.1%} without Holm, {corrected:.1%} with it")


if __name__ == "__main__":
    main()
