"""What corpus idf costs: it is counted from what scoring leaves behind, so nothing is encoded or tokenized for it."""

from collections.abc import Callable
from typing import Any

from tests.benchmarks.options import Options
from tests.benchmarks.peers import BERT_SCORE, OURS, bert_score_scorer, difference, ours
from tests.benchmarks.report import Section, Target
from tests.benchmarks.rounds import in_turn
from tests.benchmarks.texts import pairs

NONE, CORPUS = "no idf", "corpus idf"


def measure(options: Options) -> Section:
    """Measure passes without idf and with that of the corpus in turn, and bert_score's with idf."""
    candidates, references, origin = pairs(options.epoch_pairs)
    scorers = {name: ours(options.folder, options.layer, idf=idf) for name, idf in ((NONE, False), (CORPUS, True))}
    runs: dict[Any, Callable[[], Any]] = {
        (OURS, name): lambda scorer=scorer: scorer.score(candidates, references).f1 for name, scorer in scorers.items()
    }
    peer = bert_score_scorer(options.folder, options.layer, idf=True, idf_sents=references[:1])
    if peer is not None:
        runs[BERT_SCORE, CORPUS] = lambda: (peer.compute_idf(references), peer.score(candidates, references)[2])[1]
    for scorer in scorers.values():
        scorer.score(candidates[:200], references[:200])
    rounds = in_turn(runs, options.rounds)
    exact = rounds.results.get((BERT_SCORE, CORPUS))
    off = difference(rounds.results[OURS, CORPUS], exact)
    rows = [
        {"package": package, "settings": settings, "seconds": rounds.median((package, settings)),
         "F1 off bert_score": off if (package, settings) == (OURS, CORPUS) else None,
         "rounds": rounds.seconds[package, settings]}
        for package, settings in runs
    ]  # fmt: skip
    return Section(
        f"{len(candidates):,} pairs of {origin} in one pass, float32, median of {options.rounds} rounds.",
        rows,
        [
            Target("corpus idf", "times none", 1.05, rounds.ratio((OURS, CORPUS), (OURS, NONE)), at_least=False),
            Target("corpus idf", "F1 off bert_score", 1e-5, off, at_least=False),
        ],
    )
