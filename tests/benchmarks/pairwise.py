"""All pairs: as a flattened list, in which each text should be encoded once, and as matrices."""

import statistics
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from tests.benchmarks import all_pairs
from tests.benchmarks.options import Options
from tests.benchmarks.peers import BERT_SCORE, OURS, bert_score_scorer, difference, ours
from tests.benchmarks.report import Section, Target
from tests.benchmarks.rounds import in_turn
from tests.benchmarks.texts import pairs

REPEATS = 3  # rounds are short


def plain_matching(embeddings: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Match all texts with all others in one product, which is the least that matching can be.

    Args:
        embeddings: [text, token, dim] of length 1.
        mask: [text, token] bool, which are no padding.

    Returns:
        Best cosine of every token with each other text [text, token, text], from either side.
    """
    cosines = torch.einsum("acd,brd->acbr", embeddings, embeddings)
    lowest = torch.finfo(cosines.dtype).min
    return (
        cosines.masked_fill(~mask[None, None], lowest).amax(3),
        cosines.masked_fill(~mask[:, :, None, None], lowest).amax(1),
    )


def measure(options: Options) -> Section:
    """Measure the flattened list, and beside it what it should come to."""
    texts = pairs(options.matrix)[0]
    candidates = [text for text in texts for _ in texts]
    references = texts * len(texts)
    scorer = ours(options.folder, options.layer)
    lengths = scorer.tokenize(texts, texts).texts.lengths
    mask = torch.arange(int(lengths.max()))[None] < lengths[:, None]
    generator = torch.Generator().manual_seed(0)
    embeddings = normalize(torch.randn(*mask.shape, scorer.model.dim or 1, generator=generator), dim=-1)
    peer = bert_score_scorer(options.folder, options.layer)
    runs: dict[str, Callable[[], Any]] = {
        "all pairs": lambda: scorer.score(candidates, references).f1,
        "encoding": lambda: scorer.score(texts, texts),
        "matching": lambda: plain_matching(embeddings, mask),
    }
    if peer is not None:
        runs[BERT_SCORE] = lambda: peer.score(candidates, references)[2]
    in_turn(runs, 1)
    rounds = in_turn(runs, REPEATS * options.rounds)
    least = [sum(both) for both in zip(rounds.seconds["encoding"], rounds.seconds["matching"], strict=True)]
    times = statistics.median(a / b for a, b in zip(rounds.seconds["all pairs"], least, strict=True))
    off = difference(rounds.results["all pairs"], rounds.results.get(BERT_SCORE))
    named = {
        "all pairs": (OURS, "all pairs in one list"),
        "encoding": (OURS, "each text with itself"),
        "matching": ("torch", "all pairs matched in one product"),
        BERT_SCORE: (BERT_SCORE, "all pairs in one list"),
    }
    matrices, targets = all_pairs.measure(options)
    return Section(
        f"{len(texts)} candidates against one another, {len(candidates):,} pairs, float32, median of "
        f"{REPEATS * options.rounds} rounds; then matrices of {options.matrix_texts:,} texts, {options.rounds} rounds.",
        [
            *(
                {
                    "package": named[name][0],
                    "settings": named[name][1],
                    "seconds": rounds.median(name),
                    "rounds": rounds.seconds[name],
                }
                for name in runs
            ),
            *matrices,
        ],
        [
            Target("all pairs", "times encoding each text once plus matching", 1.3, times, at_least=False),
            Target("all pairs", "F1 off bert_score", 1e-5, off, at_least=False),
            *targets,
        ],
    )
