"""Why a pair scores as it does: matches, weights, and what every token contributes to precision and recall."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from bertscore_metric.aggregation import Vocabulary, f1_score, token_weights, weighted_mean
from bertscore_metric.baseline import rescale
from bertscore_metric.config import user_path
from bertscore_metric.embeddings import SegmentEmbeddings, TextEmbeddings
from bertscore_metric.io.files import check_outputs, write_text
from bertscore_metric.matching import greedy_match, similarity
from bertscore_metric.spelling import join
from bertscore_metric.tokens import TextTokenizer
from bertscore_metric.weighting import IdfTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

By = Literal["precision", "recall", "f1"]


@dataclass(frozen=True, eq=False)
class Explanation:
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

    def words(self) -> Explanation:
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
        candidate_match, reference_match = _matches(similar, matchable_cand, matchable_ref)
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

    def to_text(self, *, color: bool = False) -> str:
        """Return both texts for a terminal: every token that counts with its match, cosine, weight and contribution."""
        from bertscore_metric.analysis.explanation_text import to_text

        return to_text(self, color=color)

    def to_html(self) -> str:
        """Return a self-contained HTML page: both texts coloured by contribution; pointing at a token shows its match.

        Raises:
            ImportError: jinja2 is not installed.
        """
        from bertscore_metric.analysis.explanation_html import to_html

        return to_html(self)

    def plot(self, ax: Any = None) -> Figure:
        """Draw the similarities as a heat map [cand, ref] with the matches marked; returns matplotlib's figure.

        Args:
            ax: axes of matplotlib to draw into; by default a figure of a size that fits the tokens.

        Raises:
            ImportError: matplotlib is not installed.
        """
        from bertscore_metric.analysis.heat_map import draw

        return draw(self, ax)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file: `.html`, `.txt`, or a picture (`.png`, `.svg`, `.pdf`).

        Raises:
            ValueError: another ending, or there is no such folder.
            ImportError: what draws it is not installed.
        """
        check_outputs({"path": str(path)}, [])
        file = user_path(path)
        ending = file.suffix.lower()
        if ending == ".html":
            write_text(str(file), self.to_html())
        elif ending == ".txt":
            write_text(str(file), self.to_text())
        elif ending in (".png", ".svg", ".pdf"):
            from bertscore_metric.analysis.heat_map import write

            write(self, file)
        else:
            raise ValueError(f"Cannot write an explanation to {str(path)!r}; use .html, .txt, .png, .svg or .pdf.")


def explain_segment(
    segment: SegmentEmbeddings,
    tokenizer: TextTokenizer,
    vocabulary: Vocabulary,
    idf: IdfTable | None,
    *,
    listed_specials: bool,
    baseline: Tensor | None,
    signature: str,
    by: By = "f1",
) -> Explanation:
    """Explain the pair of a segment that decides its score.

    Args:
        segment: embeddings of a candidate and its references, of one layer.
        tokenizer: spells the tokens.
        vocabulary, idf, listed_specials: as for `score_segments`.
        baseline: [3] float64 for P, R, F1; `None` without rescaling.
        signature: of the scorer.
        by: with several references the score's P, R and F1 are those of the best one, each for itself. This names the
            number whose best reference is explained.

    Raises:
        ValueError: `by` is none of the three.
    """
    if by not in ("precision", "recall", "f1"):
        raise ValueError(f"by must be 'precision', 'recall' or 'f1', got {by!r}.")
    shift = torch.zeros(3, dtype=torch.float64) if baseline is None else baseline
    pairs = [
        _explain_pair(
            segment.candidate, reference, tokenizer, vocabulary, idf,
            listed_specials=listed_specials, baseline=shift, signature=signature, number=number,
        )
        for number, reference in enumerate(segment.references)
    ]  # fmt: skip
    return max(pairs, key=lambda pair: getattr(pair, by))


def _explain_pair(
    candidate: TextEmbeddings,
    reference: TextEmbeddings,
    tokenizer: TextTokenizer,
    vocabulary: Vocabulary,
    idf: IdfTable | None,
    *,
    listed_specials: bool,
    baseline: Tensor,
    signature: str,
    number: int,
) -> Explanation:
    similar = similarity(candidate.embeddings[0], reference.embeddings[0]).clamp(-1, 1)
    unmatchable, special = (torch.tensor(sorted(ids), dtype=torch.int64)
                            for ids in (vocabulary.unmatchable_ids, vocabulary.special_ids))  # fmt: skip
    masks = [~torch.isin(text.ids, unmatchable) for text in (candidate, reference)]
    has_text = all(bool((~torch.isin(text.ids, special)).any()) for text in (candidate, reference))
    best = greedy_match(similar[None], masks[0][None], masks[1][None])
    weights, contributions, raw = [], [], []
    for text, cosines, mask, base in zip((candidate, reference), best, masks, baseline, strict=False):
        length = torch.tensor([len(text.ids)])
        weight = token_weights(text.ids, length, vocabulary, idf, listed_specials=listed_specials)[0]
        counted = cosines.masked_fill(~mask, 0).double() * has_text
        raw.append(weighted_mean(counted, weight, length))
        weights.append(weight)
        contributions.append(weight / weight.sum().clamp(min=1e-300) * (counted[0] - base) / (1 - base))
    scores = [*raw, f1_score(*raw)]
    precision, recall, f1 = (rescale(x, base[None]).item() for x, base in zip(scores, baseline, strict=True))
    candidate_match, reference_match = _matches(similar, *(mask & has_text for mask in masks))
    ids = [text.ids.tolist() for text in (candidate, reference)]
    return Explanation(
        candidate_tokens=tuple(tokenizer.spelled(ids[0])),
        reference_tokens=tuple(tokenizer.spelled(ids[1])),
        similarity=similar,
        candidate_match=candidate_match,
        reference_match=reference_match,
        candidate_weights=weights[0],
        reference_weights=weights[1],
        precision_contributions=contributions[0],
        recall_contributions=contributions[1],
        precision=precision,
        recall=recall,
        f1=f1,
        reference_number=number,
        signature=signature,
        candidate_words=tuple(tokenizer.words(ids[0])),
        reference_words=tuple(tokenizer.words(ids[1])),
        word_mark=tokenizer.word_mark,
    )


def _matches(similar: Tensor, candidate_mask: Tensor, reference_mask: Tensor) -> tuple[Tensor, Tensor]:
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
