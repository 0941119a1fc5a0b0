"""Optimal instead of greedy matching: the score of an exact transport between the tokens of two texts."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bertscore_metric.core import ragged
from bertscore_metric.core.aggregation import best_of_references, token_weights
from bertscore_metric.core.matching import similarity
from bertscore_metric.core.pairs import Segments, parse_segments
from bertscore_metric.core.tokens import TokenizedSegments
from bertscore_metric.core.weighting import IdfTable, plain_weights
from bertscore_metric.scorer import BERTScorer
from bertscore_metric.state.kept_embeddings import EmbeddingCollector
from bertscore_metric.warnings import BERTScoreWarning

_PIECE = 512  # segments whose embeddings are in memory at a time
_COLLECTED_BYTES = 2**34  # far beyond what they need


def optimal_scores(scorer: BERTScorer, candidates: Any, references: Any) -> Tensor:
    """Score segments by optimal transport (MoverScore's question, Zhao et al. 2019, asked of single tokens).

    The tokens' weights, of each side a share of 1, are masses; the score is the largest sum of mass times cosine that
    any plan reaches which moves all mass of the candidate onto the reference: 1 minus the earth mover's distance with
    the cost 1 - cosine (Rubner et al. 2000), exactly. Where both sides have one token it equals greedy matching.
    Special tokens have no mass, so nothing is matched to them.

    Args:
        scorer: embeds and weights the tokens; its idf, if it has one, gives the masses.
        candidates: texts, [segment].
        references: texts [segment], or groups of texts, of which the best counts.

    Returns:
        [segment] float32 on the CPU, in [-1, 1]; 0 where a side is empty. There is no precision and no recall.

    Raises:
        ImportError: POT is not installed.
        TypeError, ValueError: wrong texts, a scorer that rescales (there is no baseline for these scores), or one with
            all layers.

    Example:
        >>> from bertscore_metric import BERTScorer
        >>> scorer = BERTScorer("offline", num_layers=6)
        >>> round(optimal_scores(scorer, ["a cat sat"], ["a cat sat"]).item(), 2)
        1.0
    """
    emd2 = _solver()
    if scorer.config.all_layers:
        raise ValueError("Optimal scores are of one layer: use a scorer with num_layers=..., without all_layers.")
    if scorer.config.rescale_with_baseline:
        raise ValueError(
            "Optimal scores have no baseline to be rescaled with; use a scorer without rescale_with_baseline=True."
        )
    segments = parse_segments(candidates, references)
    with scorer.own_arithmetic():
        idf = scorer.corpus_table(segments.references) if scorer.config.idf is True else scorer.fixed_idf
        scores, empty = [torch.zeros(0)], [torch.zeros(0, dtype=torch.bool)]
        for piece in segments.pieces(_PIECE):
            score, without = _score(scorer, piece, idf, emd2)
            scores.append(score)
            empty.append(without)
    found = torch.cat(empty)
    if bool(found.any()):
        warnings.warn(
            f"{int(found.sum())} of {len(found)} segments are empty on a side and score 0, the first at index "
            f"{int(found.long().argmax())}.",
            BERTScoreWarning,
            stacklevel=2,
        )
    return torch.cat(scores)


def _score(scorer: BERTScorer, segments: Segments, idf: IdfTable | None, emd2: Any) -> tuple[Tensor, Tensor]:
    """Return the scores of segments, and which have no pair with text on both sides: [segment] each."""
    tokenized = scorer.tokenize_segments(segments)
    collector = EmbeddingCollector(_COLLECTED_BYTES)
    scorer.match_tokens(tokenized, collector=collector)
    masses, empty = _masses(scorer, tokenized, idf)
    values, without = [], []
    for candidate, reference in zip(tokenized.candidates.tolist(), tokenized.references.tolist(), strict=True):
        without.append(bool(empty[candidate] | empty[reference]))
        if without[-1]:
            values.append(0.0)
            continue
        (a, rows), (b, columns) = ((masses[text], collector.rows[text][0]) for text in (candidate, reference))
        cosines = similarity(rows[a > 0], columns[b > 0]).clamp(-1, 1).double().numpy()
        values.append(1 - float(emd2(_shares(a), _shares(b), 1 - cosines)))
    counts = tokenized.reference_counts
    empty_pairs = torch.tensor(without, dtype=torch.bool)
    best, _ = best_of_references(torch.tensor(values, dtype=torch.float64)[None], counts)
    return best[0].float(), ragged.sums((~empty_pairs).long(), counts) == 0


def _masses(scorer: BERTScorer, segments: TokenizedSegments, idf: IdfTable | None) -> tuple[list[Tensor], Tensor]:
    """Return the weights of the tokens of every distinct text, and which texts have none or are empty [text] bool."""
    ids, lengths = segments.texts.ids.long(), segments.texts.lengths
    listed = idf is not None and scorer.config.idf is not True
    weights, _ = token_weights(ids, lengths, scorer.vocabulary, idf, listed_specials=listed)
    text = plain_weights(ids, scorer.vocabulary.special_ids)
    empty = (ragged.sums(text, lengths) == 0) | (ragged.sums(weights, lengths) <= 0)
    return list(torch.split(weights, lengths.tolist())), empty


def _shares(weights: Tensor) -> np.ndarray[Any, Any]:
    kept = weights[weights > 0].numpy()
    return np.asarray(kept / kept.sum())


def _solver() -> Any:
    try:
        from ot import emd2
    except ImportError as error:
        raise ImportError("Optimal scores need POT: pip install 'bertscore_metric[stats]'") from error
    return emd2
