"""`scorer.mbr` and `scorer.consistency`: samples of one source against one another.

Minimum Bayes risk decoding (Kumar and Byrne 2004; Eikema and Aziz 2020) takes the candidate with the highest expected
score, where every other sample in turn stands for the right text.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from bertscore_metric.all_pairs import PairScoring, Texts, embed, prepare, tiles, warn
from bertscore_metric.core.pairs import check_lists
from bertscore_metric.core.pairwise import Embedded, best_candidate, expected_scores
from bertscore_metric.pairwise import Matrices
from bertscore_metric.signature import Signature
from bertscore_metric.update import EMBEDDING_BYTES, token_bytes

UTILITIES = ("precision", "recall", "f1")


@dataclass(frozen=True, eq=False)
class MBRResult:
    """The candidate of every list that is expected to score best.

    Args:
        index: [list] int64, its number, the lowest of equal ones.
        expected: [list] float32 on the CPU, its expected score; NaN for a list of one.
        scores: for each list [candidate] float32, the expected scores of all its candidates.
        utility: what is expected: `f1`, `precision` or `recall`.
        signature: every setting that changes a number.
    """

    index: Tensor
    expected: Tensor
    scores: tuple[Tensor, ...]
    utility: str
    signature: Signature

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, an object a list; `None` where there is no number."""
        rows = zip(self.index.tolist(), self.expected.tolist(), self.scores, strict=True)
        lists = [
            {"index": index, "expected": _plain(expected), "scores": [_plain(score) for score in scores.tolist()]}
            for index, expected, scores in rows
        ]
        return {"signature": str(self.signature), "utility": self.utility, "lists": lists}


def mbr(
    scoring: PairScoring, lists: Any, references: Any, weights: Any, utility: str, *, skip_empty: bool
) -> MBRResult:
    """Choose the best candidate of every list; see `BERTScorer.mbr`."""
    if utility not in UTILITIES:
        raise ValueError(f"utility must be one of {', '.join(UTILITIES)}; got {utility!r}.")
    _refuse_corpus_idf(scoring, "mbr")
    candidates = check_lists(lists, "lists")
    judges = None if references is None else _as_many(check_lists(references, "references"), len(candidates))
    masses = _masses(weights, candidates if judges is None else judges, "lists" if judges is None else "references")
    found = []
    for texts, number, matrices in _matrices(scoring, candidates, judges, stacklevel=5):
        mass = masses[number]
        if skip_empty:
            mass = mass.masked_fill(texts.empty[texts.sides[number if judges is None else number + len(candidates)]], 0)
        values = matrices[UTILITIES.index(utility)].double()
        found.append(expected_scores(values, mass, exclude_self=judges is None))
    index = torch.tensor([best_candidate(expected) for expected in found], dtype=torch.int64)
    best = torch.tensor([float(expected[k]) for expected, k in zip(found, index.tolist(), strict=True)])
    return MBRResult(index, best, tuple(expected.float() for expected in found), utility, scoring.signature)


def consistency(scoring: PairScoring, lists: Any, *, skip_empty: bool) -> Tensor:
    """Return how well the texts of every list agree; see `BERTScorer.consistency`."""
    _refuse_corpus_idf(scoring, "consistency")
    found = []
    for texts, number, (_, _, f1) in _matrices(scoring, check_lists(lists, "lists"), None, stacklevel=5):
        counted = torch.ones(len(f1), dtype=torch.float64)
        if skip_empty:
            counted = counted.masked_fill(texts.empty[texts.sides[number]], 0)
        n = float(counted.sum())
        expected = expected_scores(f1.double(), counted, exclude_self=True)  # each over n - 1 others
        found.append(float((expected[counted > 0]).mean()) if n > 1 else math.nan)
    return torch.tensor(found)


def _matrices(
    scoring: PairScoring, lists: list[list[str]], references: list[list[str]] | None, *, stacklevel: int
) -> Iterator[tuple[Texts, int, tuple[Tensor, Tensor, Tensor]]]:
    """Yield the texts, the number of each list in turn, and its P, R and F1 [candidate, reference] float32.

    Lists are embedded together, as many as fit the memory of a call; a longer one is done in blocks.
    """
    sides = {f"lists[{number}]": texts for number, texts in enumerate(lists)}
    sides |= {f"references[{number}]": texts for number, texts in enumerate(references or [])}
    texts = prepare(scoring, sides)
    warn(scoring, texts, sides, stacklevel=stacklevel)
    n = len(lists)
    distinct = [torch.unique(side) for side in texts.sides]
    together = [torch.unique(torch.cat(distinct[number::n])) for number in range(n)]
    most = min(EMBEDDING_BYTES, scoring.embeddings_bytes)
    bytes_each = texts.tokens.lengths * token_bytes(texts.tokens, scoring.encoder, scoring.settings)
    sizes = [int(bytes_each[one].sum()) for one in together]
    with tqdm(total=n, unit=" lists", desc="Lists", disable=not scoring.progress) as bar:
        for chunk in _chunks(sizes, most):
            side: Embedded | None = None
            if sizes[chunk[0]] <= most:
                everything = torch.unique(torch.cat([together[number] for number in chunk]))
                side = embed(scoring, texts, everything[~texts.empty[everything]])
            for number in chunk:
                own = texts.sides[number::n]
                found = Matrices(scoring, own[0], own[-1])
                for tile in tiles(scoring, texts, *distinct[number::n], side=side):
                    found.put(*tile)
                yield texts, number, found.matrices
                bar.update()


def _chunks(sizes: list[int], most: int) -> Iterator[list[int]]:
    """Yield the numbers of lists that follow one another and have at most so many bytes together, or are one."""
    chunk: list[int] = []
    total = 0
    for number, size in enumerate(sizes):
        if chunk and total + size > most:
            yield chunk
            chunk, total = [], 0
        chunk.append(number)
        total += size
    if chunk:
        yield chunk


def _refuse_corpus_idf(scoring: PairScoring, what: str) -> None:
    if scoring.idf is True:
        raise ValueError(
            f"{what} compares the texts of a list, which are no corpus to count idf in, so idf=True is refused; fix "
            f"the weights: idf= takes a sequence of texts to count in, or a table (IdfTable.load)."
        )


def _as_many(references: list[list[str]], n: int) -> list[list[str]]:
    if len(references) != n:
        raise ValueError(f"references must have a list for each of lists; got {len(references)} for {n}.")
    return references


def _masses(weights: Any, texts: list[list[str]], name: str) -> list[Tensor]:
    """Return the weight of every pseudo-reference, for each list [reference] float64; all alike without `weights`."""
    if weights is None:
        return [torch.ones(len(one), dtype=torch.float64) for one in texts]
    entries = list(weights)
    if len(entries) != len(texts):
        raise ValueError(f"weights must have a list for each of {name}; got {len(entries)} for {len(texts)}.")
    found = []
    for number, (entry, one) in enumerate(zip(entries, texts, strict=True)):
        try:
            mass = torch.as_tensor(entry, dtype=torch.float64).detach().cpu()
        except (TypeError, ValueError, RuntimeError):
            raise TypeError(f"weights[{number}] must be a list of numbers, got {entry!r:.60}.") from None
        if mass.shape != (len(one),):
            raise ValueError(
                f"weights[{number}] must have a number for each of {name}[{number}], {len(one)}; it has the shape "
                f"{tuple(mass.shape)}."
            )
        if not bool((torch.isfinite(mass) & (mass >= 0)).all()) or float(mass.sum()) <= 0:
            raise ValueError(
                f"weights[{number}] must be finite and at least 0, and not all 0 (probabilities, no logarithms of "
                f"them); got {entry!r:.60}."
            )
        found.append(mass)
    return found


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else value
