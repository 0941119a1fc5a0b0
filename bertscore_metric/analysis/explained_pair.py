"""A pair token by token, as arithmetic leaves it: matches, weights and contributions, and their sums over words."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from bertscore_metric.core.spelling import join

_ROUNDING = 1e-5  # by which a text's score moves with the batch that it is embedded in


@dataclass(frozen=True, eq=False)
class ExplainedPair:
    """A scored pair, token by token.

    Args:
        candidate_tokens, reference_tokens: [cand] and [ref], special tokens included, as people read them: `##` goes on
            with a word, `▁` is a space in front, and a token that completes the character before it is empty.
        similarity: [cand, ref] float32, cosines before rescaling.
        candidate_match: [cand] int64, the reference's token that each is matched to; -1 where it is matched to none.
        reference_match: [ref] int64, the same for the reference's tokens.
        candidate_weights, reference_weights: [cand] and [ref] float64, 1 or idf; 0 for what does not count.
        precision_contributions: [cand] float64; their sum is `precision` but for its rounding to float32.
        recall_contributions: [ref] float64; their sum is `recall` but for its rounding to float32.
        precision, recall, f1: of this pair, rescaled where the scorer rescales.
        reference_number: which of the references it is, from 0.
        signature: of the scorer.

    The contribution of a token is its weight times its best cosine (rescaled where the scorer rescales) over the sum of
    the weights. A side without any token that counts contributes nothing; with rescaling its score, that of 0, is
    therefore not the sum of contributions.
    """

    candidate_tokens: tuple[str, ...]
    reference_tokens: tuple[str, ...]
    similarity: Tensor
    candidate_match: Tensor
    reference_match: Tensor
    candidate_weights: Tensor
    reference_weights: Tensor
    precision_contributions: Tensor
    recall_contributions: Tensor
    precision: float
    recall: float
    f1: float
    reference_number: int
    signature: str
    candidate_words: tuple[int, ...] = dataclasses.field(repr=False)
    reference_words: tuple[int, ...] = dataclasses.field(repr=False)
    word_mark: str = dataclasses.field(repr=False)

    def as_scored(self, precision: float, recall: float, f1: float, *, n_references: int = 1) -> Self:
        """Return the same with the numbers of a result, so that both print alike; they differ in the last digit.

        With several references P and R of a result may be those of another one than is explained; then the
        explanation's own stay.
        """
        own = n_references == 1
        return dataclasses.replace(
            self,
            precision=precision if own or abs(precision - self.precision) < _ROUNDING else self.precision,
            recall=recall if own or abs(recall - self.recall) < _ROUNDING else self.recall,
            f1=f1,
        )

    def words(self) -> Self:
        """Return the same with the pieces of a word joined.

        Weights and contributions of the pieces add up. Two words are as similar as their most similar pieces, and a
        word is matched to the most similar word that may be matched to.

        Example:
            >>> from bertscore_metric import BERTScorer
            >>> pair = BERTScorer("offline").explain("word embeddings", "embedding")
            >>> pair.candidate_tokens, pair.words().candidate_tokens
            (('[CLS]', 'word', 'em', '##bed', '##ding', '##s', '[SEP]'), ('[CLS]', 'word', 'embeddings', '[SEP]'))
        """
        cand, ref = (torch.tensor(side, dtype=torch.int64) for side in (self.candidate_words, self.reference_words))
        similar = _largest(_largest(self.similarity, cand).T, ref).T
        matchable_cand = _largest((self.candidate_match >= 0).long()[:, None], cand)[:, 0] > 0
        matchable_ref = _largest((self.reference_match >= 0).long()[:, None], ref)[:, 0] > 0
        candidate_match, reference_match = best_partners(similar, matchable_cand, matchable_ref)
        return dataclasses.replace(
            self,
            candidate_tokens=_joined(self.candidate_tokens, self.candidate_words, self.word_mark),
            reference_tokens=_joined(self.reference_tokens, self.reference_words, self.word_mark),
            similarity=similar,
            candidate_match=candidate_match,
            reference_match=reference_match,
            candidate_weights=_total(self.candidate_weights, cand),
            reference_weights=_total(self.reference_weights, ref),
            precision_contributions=_total(self.precision_contributions, cand),
            recall_contributions=_total(self.recall_contributions, ref),
            candidate_words=tuple(range(len(similar))),
            reference_words=tuple(range(similar.shape[1])),
            word_mark="",
        )


def best_partners(similar: Tensor, candidate_mask: Tensor, reference_mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return the best partner of every token, -1 for those that may not be matched or have none."""
    lowest = torch.finfo(similar.dtype).min
    allowed = similar.masked_fill(~(candidate_mask[:, None] & reference_mask[None, :]), lowest)
    none = torch.full((1,), -1)
    if not bool(candidate_mask.any()) or not bool(reference_mask.any()):
        return none.expand(len(candidate_mask)), none.expand(len(reference_mask))
    return (
        allowed.argmax(1).masked_fill(~candidate_mask, -1),
        allowed.argmax(0).masked_fill(~reference_mask, -1),
    )


def _largest(values: Tensor, groups: Tensor) -> Tensor:
    """Return the largest values of the rows of each group: [token, other], [token] -> [group, other]."""
    n = int(groups.max()) + 1 if len(groups) else 0
    index = groups[:, None].expand(values.shape)
    out = values.new_empty(n, values.shape[1])
    return out.scatter_reduce(0, index, values, "amax", include_self=False)


def _total(values: Tensor, groups: Tensor) -> Tensor:
    n = int(groups.max()) + 1 if len(groups) else 0
    return torch.zeros(n, dtype=values.dtype).index_add(0, groups, values)


def _joined(tokens: Sequence[str], words: Sequence[int], mark: str) -> tuple[str, ...]:
    pieces: list[list[str]] = [[] for _ in range(max(words, default=-1) + 1)]
    for token, word in zip(tokens, words, strict=True):
        pieces[word].append(token)
    return tuple(join(word, mark) for word in pieces)
