"""`scorer.pairwise` and `scorer.mbr` beside bert_score on the flattened pairs, and how fast matching alone is."""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from bertscore_metric import BERTScorer
from bertscore_metric.all_pairs import PairScoring, Texts, embed, prepare, tiles
from tests.benchmarks.memory import peak_mb
from tests.benchmarks.options import Options
from tests.benchmarks.peers import BERT_SCORE, OURS, bert_score_scorer, difference, ours
from tests.benchmarks.report import Target
from tests.benchmarks.rounds import in_turn, timed
from tests.benchmarks.texts import distinct_pairs, pairs

ENCODING = "each text once"
OWN, TWO, NEAREST, MBR = "a list with itself", "two lists", "the 10 best of every row", "MBR"


def measure(options: Options) -> tuple[list[dict[str, Any]], list[Target]]:
    """Measure matrices, the best of every row in a process of its own, and MBR; return rows and targets."""
    a, b, _ = distinct_pairs(options.matrix_texts)
    scorer = ours(options.folder, options.layer)
    few = b[: options.matrix_columns]
    scale = len(b) / len(few)
    peer = bert_score_scorer(options.folder, options.layer)
    runs: dict[str, Callable[[], Any]] = {OWN: lambda: scorer.pairwise(a), TWO: lambda: scorer.pairwise(a, b)}
    if peer is not None:
        flat = [text for text in a for _ in few], few * len(a)
        runs[BERT_SCORE] = lambda: peer.score(*flat)[2]
        runs[ENCODING] = lambda: peer.score(a, b)[2]
    scorer.pairwise(a[:32], few)
    rounds = in_turn(runs, options.rounds)
    rows = [_row(OURS, name, len(a), len(b), rounds.seconds[name]) for name in (OWN, TWO)]
    million: list[float] = []
    if peer is not None:  # only matching is done once a pair; texts are embedded once a call
        share = (len(a) + len(few)) / (len(a) + len(b))
        for flat_seconds, once in zip(rounds.seconds[BERT_SCORE], rounds.seconds[ENCODING], strict=True):
            million.append(once + scale * (flat_seconds - share * once))
        said = f"two lists, flattened: {len(a):,} x {len(few)}, its matching times {scale:g}"
        rows.append(_row(BERT_SCORE, said, len(a), len(b), million))
    off = None if peer is None else difference(
        rounds.results[TWO].f1[:, : len(few)].flatten(), rounds.results[BERT_SCORE]
    )  # fmt: skip
    rate, cosines = _matching(scorer, a)
    rows.append(cosines)
    rows.append(_nearest(options))
    share, chosen = _mbr(scorer, options)
    rows.append(chosen)
    faster = {
        name: statistics.median(x / y for x, y in zip(million, rounds.seconds[name], strict=True)) if million else None
        for name in (OWN, TWO)
    }
    return rows, [
        Target(OWN, "times as fast as bert_score on the flattened pairs", 5.0, faster[OWN]),
        Target(TWO, "times as fast as bert_score on the flattened pairs", 4.0, faster[TWO]),
        # It takes 0 for a negative best match where there is padding: .00026 for one pair of these.
        Target(TWO, "F1 off bert_score", 1e-3, off, at_least=False),
        Target("matching", "million cosines a second and thread", 90.0, rate),
        Target(NEAREST, "peak MB", 2000.0, rows[-2]["peak MB"], at_least=False),
        Target(MBR, "share of embedding in the time", 2 / 3, share),
    ]


def _row(package: str, settings: str, n: int, m: int, seconds: list[float]) -> dict[str, Any]:
    middle = sorted(seconds)[len(seconds) // 2]
    return {
        "package": package, "settings": settings, "pairs": n * m, "seconds": middle,
        "microseconds a pair": 1e6 * middle / (n * m), "rounds": seconds,
    }  # fmt: skip


def _scoring(scorer: BERTScorer, sides: dict[str, list[str]]) -> tuple[PairScoring, Texts]:
    scoring = scorer._pair_scoring("pairwise")
    return scoring, prepare(scoring, sides)


def _matching(scorer: BERTScorer, a: list[str]) -> tuple[float, dict[str, Any]]:
    """Match a list with itself, embedded before: the rate counts cosines between tokens, not those of padding."""
    with scorer.own_arithmetic():
        scoring, texts = _scoring(scorer, {"a": a})
        chosen = torch.unique(texts.sides[0])
        side = embed(scoring, texts, chosen)
        seconds, tokens = [], int(texts.lengths.sum())
        for _ in range(3):
            begin = time.process_time()
            for _tile in tiles(scoring, texts, chosen, side=side):
                pass
            seconds.append(time.process_time() - begin)
    n = len(chosen)
    cosines = (tokens**2 + int((texts.lengths**2).sum())) / 2
    row = _row(OURS, "matching alone, each pair once, seconds of all threads", n, (n + 1) // 2, seconds)
    return cosines / row["seconds"] / 1e6, row


def _nearest(options: Options) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.benchmarks.all_pairs", str(options.nearest_texts), options.folder]
    done = subprocess.run([*command, str(options.layer)], stdout=subprocess.PIPE, text=True, check=True).stdout
    found = json.loads(done.splitlines()[-1])
    n = options.nearest_texts
    return {**_row(OURS, f"{NEAREST}, {n:,} x {n:,}", n, n, [found["seconds"]]), "peak MB": found["peak MB"]}


def _mbr(scorer: BERTScorer, options: Options) -> tuple[float, dict[str, Any]]:
    n, size = options.mbr_lists
    texts = pairs(n * size)[0]
    lists = [texts[k * size : (k + 1) * size] for k in range(n)]
    whole: list[float] = []
    encoding: list[float] = []
    for _ in range(options.rounds):
        with scorer.own_arithmetic():
            begin = time.perf_counter()
            scoring, prepared = _scoring(scorer, {f"lists[{k}]": one for k, one in enumerate(lists)})
            embed(scoring, prepared, torch.unique(torch.cat(prepared.sides)))
            encoding.append(time.perf_counter() - begin)
        whole.append(timed(lambda: scorer.mbr(lists))[0])
    share = sorted(e / w for e, w in zip(encoding, whole, strict=True))[len(whole) // 2]
    return share, _row(OURS, f"{MBR}: {n} lists of {size}", n * size, size, whole)


def main(n: int, folder: str, layer: str) -> None:
    """Find the 10 best of so many texts for as many others, and print what it took."""
    a, b, _ = distinct_pairs(n)
    scorer = ours(folder, int(layer))
    seconds, _ = timed(lambda: scorer.pairwise(a, b, top=min(10, n)))
    print(json.dumps({"seconds": seconds, "peak MB": peak_mb()}))


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
