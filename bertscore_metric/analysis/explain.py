"""Why a pair scores as it does: matches, weights, and what every token contributes to precision and recall."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from bertscore_metric.analysis.explained_pair import ExplainedPair, best_partners
from bertscore_metric.core.aggregation import Vocabulary, f1_score, token_weights, weighted_mean
from bertscore_metric.core.baseline import rescale
from bertscore_metric.core.matching import greedy_match, similarity
from bertscore_metric.core.weighting import IdfTable
from bertscore_metric.io.files import check_outputs, write_text
from bertscore_metric.io.paths import user_path
from bertscore_metric.models.tokenizer import TextTokenizer
from bertscore_metric.state.kept_embeddings import SegmentEmbeddings, TextEmbeddings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

By = Literal["precision", "recall", "f1"]


class Explanation(ExplainedPair):
    """A scored pair, token by token, that can be shown: its fields are those of `ExplainedPair`."""

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
    special = torch.tensor(sorted(vocabulary.special_ids), dtype=torch.int64)
    texts = [pair for pair, reference in zip(pairs, segment.references, strict=True)
             if not bool(torch.isin(reference.ids, special).all())]  # fmt: skip
    return max(texts or pairs, key=lambda pair: getattr(pair, by))  # a reference without text is a missing one


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
    candidate_match, reference_match = best_partners(similar, *(mask & has_text for mask in masks))
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
