"""All texts of one side against all of another: embedded once, matched in tiles, in bounded memory."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from tqdm import tqdm

from bertscore_metric.core import ragged
from bertscore_metric.core.aggregation import SegmentScores, Vocabulary, f1_score, token_weights
from bertscore_metric.core.baseline import Baseline, rescale
from bertscore_metric.core.pairwise import Embedded, make_group, match_own_tile, match_tile, plan_groups, shares
from bertscore_metric.core.tokens import TokenizedTexts
from bertscore_metric.core.weighting import IdfTable, document_frequencies, inverse_document_frequencies, plain_weights
from bertscore_metric.models.encoder import Encoder
from bertscore_metric.models.tokenizer import TextTokenizer
from bertscore_metric.result import NAMED_INDICES, warnings_for
from bertscore_metric.signature import Signature
from bertscore_metric.update import EMBEDDING_BYTES, EncoderSettings, embed_texts, token_bytes
from bertscore_metric.warnings import BERTScoreWarning

Tile = tuple[Tensor, Tensor, Tensor, Tensor]  # numbers of row and column texts, precision and recall [row, column]

EMBEDDINGS_BYTES = 2**30  # embeddings of both sides that are held at a time
_STREAMED = 8  # the part of the budget, one in so many, that texts take which are embedded again and again


@dataclass(frozen=True)
class PairScoring:
    """What a scorer brings along to score pairs: how texts are embedded, weighted and rescaled.

    Args:
        tokenizer, encoder, settings: turn texts into embeddings.
        vocabulary: which ids weigh nothing, are unknown, and so on.
        idf: a fixed table; `True` counts idf in the texts of the second side.
        baseline: the row to rescale with; `None` leaves the raw scores.
        signature: of the scorer.
        progress: show progress on stderr.
        embeddings_bytes: most bytes of embeddings that are held at a time.
    """

    tokenizer: TextTokenizer
    encoder: Encoder
    settings: EncoderSettings
    vocabulary: Vocabulary
    idf: IdfTable | bool
    baseline: Baseline | None
    signature: Signature
    progress: bool
    embeddings_bytes: int = EMBEDDINGS_BYTES

    def final(self, precision: Tensor, recall: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return precision, recall and F1 as they are reported: float64 in, float32 out, in their shape."""
        raw = (precision, recall, f1_score(precision, recall))
        if self.baseline is None:
            return raw[0].float(), raw[1].float(), raw[2].float()
        rows = self.baseline.values[:1]
        p, r, f = (rescale(raw[k].reshape(1, -1), rows[:, k]).view(raw[k].shape) for k in range(3))
        return p, r, f


@dataclass(frozen=True)
class Texts:
    """Distinct texts and the sides that they stand on.

    Args:
        tokens: the distinct texts.
        sides: for each side [text] int64, the number of every text.
        matchable: [token] bool, which tokens may be matched to.
        weights: [token] float64, their shares in the text's weight.
        lengths: [number] int64, tokens of each distinct text that may be matched to; 0 if it is empty.
        empty: [number] bool, texts without text.
        fell_back: [number] bool, texts whose idf weights were all 0.
    """

    tokens: TokenizedTexts
    sides: tuple[Tensor, ...]
    matchable: Tensor
    weights: Tensor
    lengths: Tensor
    empty: Tensor
    fell_back: Tensor


def prepare(scoring: PairScoring, sides: Mapping[str, Sequence[str]]) -> Texts:
    """Turn the texts of sides into tokens with weights, every distinct text once.

    Args:
        scoring: how.
        sides: the texts of each side by its name; idf of the corpus is counted in the last.

    Raises:
        ValueError: a text that `long_text="error"` refuses, or a token without idf weight.
    """
    numbers: dict[str, int] = {}
    numbered = tuple(
        torch.tensor([numbers.setdefault(text, len(numbers)) for text in side], dtype=torch.int64)
        for side in sides.values()
    )

    def place(text: str) -> str:
        return next(f"{name}[{side.index(text)}]" for name, side in sides.items() if text in side)

    tokens = scoring.tokenizer(list(numbers), place=place)
    ids = tokens.ids.long()
    idf = scoring.idf if isinstance(scoring.idf, IdfTable) else None
    if scoring.idf is True:
        counted = numbered[-1]
        lengths = tokens.lengths[counted]
        flat = ids[ragged.positions(ragged.starts(tokens.lengths)[counted], lengths)]
        idf = inverse_document_frequencies(document_frequencies(flat, lengths))
    weights, fell_back = token_weights(
        ids, tokens.lengths, scoring.vocabulary, idf, listed_specials=isinstance(scoring.idf, IdfTable)
    )
    empty = ragged.sums(plain_weights(ids, scoring.vocabulary.special_ids), tokens.lengths) == 0
    matchable = ~torch.isin(tokens.ids, scoring.settings.unmatchable_ids.to(tokens.ids.dtype))
    lengths = ragged.sums(matchable.double(), tokens.lengths).long().masked_fill(empty, 0)
    return Texts(tokens, numbered, matchable, shares(weights, tokens.lengths), lengths, empty, fell_back)


def embed(scoring: PairScoring, texts: Texts, chosen: Tensor) -> Embedded:
    """Embed the texts `chosen` [text] int64, none twice."""
    with tqdm(total=len(chosen), unit="text", desc="Embedding", disable=not scoring.progress, leave=False) as bar:
        embeddings = embed_texts(texts.tokens, chosen, scoring.encoder, scoring.settings, bar)[0]
    tokens = texts.tokens
    positions = ragged.positions(ragged.starts(tokens.lengths)[chosen], tokens.lengths[chosen])
    kept = texts.matchable[positions]
    first = torch.zeros(len(tokens), dtype=torch.int64)
    first[chosen] = ragged.starts(texts.lengths[chosen])
    return Embedded(embeddings, torch.nonzero(kept).squeeze(1), texts.weights[positions][kept], first, texts.lengths)


def _between(side: Embedded, texts: Tensor, other: Embedded, others: Tensor) -> Iterator[Tile]:
    """Match all of some texts with all of others, group against group: [text] int64 each, none empty."""
    device = side.embeddings.device.type
    for row_texts in plan_groups(texts, side.lengths, device):
        group = make_group(side, row_texts)
        for column_texts in plan_groups(others, other.lengths, device):
            yield row_texts, column_texts, *match_tile(group, make_group(other, column_texts))


def _within(side: Embedded, texts: Tensor) -> Iterator[Tile]:
    """Match texts [text] int64, none empty, with one another: a group with itself, and with every later one."""
    groups = list(plan_groups(texts, side.lengths, side.embeddings.device.type))
    for number, row_texts in enumerate(groups):
        group = make_group(side, row_texts)
        yield row_texts, row_texts, *match_own_tile(group)
        for column_texts in groups[number + 1 :]:
            yield from _both_ways(row_texts, column_texts, *match_tile(group, make_group(side, column_texts)))


def _both_ways(rows: Tensor, columns: Tensor, precision: Tensor, recall: Tensor) -> Iterator[Tile]:
    """Yield a tile and its mirror image: the precision of a pair is the recall of the pair turned round."""
    yield rows, columns, precision, recall
    yield columns, rows, recall.T, precision.T


def tiles(
    scoring: PairScoring, texts: Texts, a: Tensor, b: Tensor | None = None, *, side: Embedded | None = None
) -> Iterator[Tile]:
    """Yield tiles that cover every pair of the distinct texts `a` and `b` once; without `b` of `a` with itself.

    Where the embeddings of all texts exceed the budget, one side (the smaller) is held in blocks, and for each block
    the other side is embedded in pieces: so every text is embedded once if a side fits the budget.

    Args:
        scoring, texts: what `prepare` was given and returned.
        a, b: [text] int64, numbers of texts, each once.
        side: their embeddings, where they are at hand.
    """
    yield from _empty_tiles(texts, a, b)
    a = a[~texts.empty[a]]
    b = None if b is None else b[~texts.empty[b]]
    everything = a if b is None else torch.unique(torch.cat([a, b]))
    bytes_each = texts.tokens.lengths * token_bytes(texts.tokens, scoring.encoder, scoring.settings)
    if side is None and int(bytes_each[everything].sum()) <= scoring.embeddings_bytes:
        side = embed(scoring, texts, everything)
    if side is not None:
        yield from _within(side, a) if b is None else _between(side, a, side, b)
        return
    streamed = min(scoring.embeddings_bytes // _STREAMED, EMBEDDING_BYTES)
    most = scoring.embeddings_bytes - streamed
    turned = b is not None and int(bytes_each[b].sum()) < int(bytes_each[a].sum())
    held, others = (b, a) if turned and b is not None else (a, b)
    blocks = list(_parts(held, bytes_each, most))
    for number, block in enumerate(blocks):
        side = embed(scoring, texts, block)
        if others is None:
            yield from _within(side, block)
        rest = torch.cat([held[:0], *blocks[number + 1 :]]) if others is None else others
        for piece in _parts(rest, bytes_each, streamed):
            other = embed(scoring, texts, piece)
            for tile in _between(other, piece, side, block) if turned else _between(side, block, other, piece):
                yield from _both_ways(*tile) if others is None else [tile]


def _empty_tiles(texts: Texts, a: Tensor, b: Tensor | None) -> Iterator[Tile]:
    """Yield tiles of the pairs with an empty text, which score 0."""
    rows, columns = a[texts.empty[a]], a if b is None else b
    if len(rows):
        if b is None:
            yield _zero_tile(a[~texts.empty[a]], rows)
        yield _zero_tile(rows, columns)
    if b is not None and bool(texts.empty[b].any()):
        yield _zero_tile(a[~texts.empty[a]], b[texts.empty[b]])


def _zero_tile(rows: Tensor, columns: Tensor) -> Tile:
    zero = torch.zeros(len(rows), len(columns), dtype=torch.float64)
    return rows, columns, zero, zero


def _parts(chosen: Tensor, bytes_each: Tensor, most: int) -> Iterator[Tensor]:
    """Split texts into parts of nearly equal length whose embeddings have at most so many bytes, or are one text."""
    order = chosen[torch.argsort(bytes_each[chosen], stable=True)]
    begin = total = 0
    for end, size in enumerate(bytes_each[order].tolist()):
        if end > begin and total + size > most:
            yield order[begin:end]
            begin, total = end, 0
        total += size
    if len(order):
        yield order[begin:]


def warn(scoring: PairScoring, texts: Texts, sides: Mapping[str, Sequence[str]], *, stacklevel: int) -> None:
    """Warn of what a reader of the scores should know about the texts."""
    for message in _notable(scoring, texts, sides):
        warnings.warn(message, BERTScoreWarning, stacklevel=stacklevel)


def _notable(scoring: PairScoring, texts: Texts, sides: Mapping[str, Sequence[str]]) -> Iterator[str]:
    if not any(map(len, texts.sides)):
        return
    numbers = torch.cat(texts.sides)
    empty, fell_back = texts.empty[numbers], texts.fell_back[numbers]
    if empty.any():
        yield (
            f"{int(empty.sum())} of {len(numbers)} texts are empty and score 0 against every text, before rescaling: "
            f"{_places(empty, sides)}."
        )
    if fell_back.any():
        yield (
            f"All idf weights of {int(fell_back.sum())} of {len(numbers)} texts are 0, so they are weighted as without "
            f"idf: {_places(fell_back, sides)}. idf needs a corpus of references; a few are not enough."
        )
    # What is said of segments holds of texts, each a segment with nothing on the other side.
    ids, lengths = texts.tokens.ids, texts.tokens.lengths
    unknown_id = scoring.vocabulary.unknown_id
    unknown = ragged.sums((ids == (-1 if unknown_id is None else unknown_id)).long(), lengths)
    tokens = ragged.sums(plain_weights(ids.long(), scoring.vocabulary.special_ids), lengths).long()
    judged = torch.arange(len(numbers)) < len(texts.sides[0])
    on = torch.stack([judged, ~judged], dim=1).long() if len(texts.sides) == 2 else torch.tensor([1, 0])
    lost, none = texts.tokens.lost[numbers], torch.zeros(len(numbers), dtype=torch.int64)
    row = torch.ones(1, len(numbers))  # no score is low enough to be told
    parts = (unknown[numbers, None] * on, tokens[numbers, None] * on, (lost > 0).long(), lost, none)
    scores = SegmentScores(row, row, row, none[None], none.bool(), none.bool(), *parts)
    yield from warnings_for(scores, limit=scoring.tokenizer.limit)


def _places(marked: Tensor, sides: Mapping[str, Sequence[str]]) -> str:
    """Return where the marked texts stand, [text] bool over all sides."""
    places = [f"{name}[{index}]" for name, side in sides.items() for index in range(len(side))]
    found = torch.nonzero(marked).squeeze(1).tolist()
    named = ", ".join(places[index] for index in found[:NAMED_INDICES])
    return f"{named}, ..." if len(found) > NAMED_INDICES else named
