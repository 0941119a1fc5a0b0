"""The update half: texts -> `TokenMatches`. Everything that needs the model happens here, once, when texts arrive."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import NoReturn

import torch
from torch import Tensor
from tqdm import tqdm

from bertscore_metric.core import ragged
from bertscore_metric.core.batches import BatchRule, plan_batches, plan_chunks
from bertscore_metric.core.matching import TokenMatches, match_pairs, unit
from bertscore_metric.core.tokens import TokenizedSegments, TokenizedTexts
from bertscore_metric.core.windows import WindowRule, plan_windows
from bertscore_metric.models.encoder import Encoder
from bertscore_metric.models.memory import Heap
from bertscore_metric.state.kept_embeddings import EmbeddingCollector
from bertscore_metric.state.reference_cache import ReferenceCache

EMBEDDING_BYTES = 48 * 2**20  # embeddings of a chunk, which are in memory at a time
KEPT_BYTES = 256 * 2**20  # embeddings of texts that a later chunk needs again


@dataclass(frozen=True)
class EncoderSettings:
    """What the update half knows about an encoder beside its `embed`.

    Args:
        pad_id: id of the padding token.
        special_ids: ids that carry no text; for the batch's `special_tokens_mask`.
        unmatchable_ids: ids that no token may be matched to.
        dim: size of an embedding, to plan memory by; `None` to find out by embedding the shortest text.
        layers: how many layers `embed` returns.
        rule: when a batch is full.
        window: how texts that are too long for the encoder are cut; `None` where none is.
    """

    pad_id: int
    special_ids: Tensor
    unmatchable_ids: Tensor
    dim: int | None
    layers: int
    rule: BatchRule
    window: WindowRule | None = None


def match_segments(
    segments: TokenizedSegments,
    encoder: Encoder,
    settings: EncoderSettings,
    *,
    progress: bool = False,
    store: ReferenceCache | None = None,
    collector: EmbeddingCollector | None = None,
    heap: Heap | None = None,
    spell: Callable[[list[int]], str] | None = None,
) -> TokenMatches:
    """Embed every distinct text once and match every pair.

    Args:
        segments: the segments of a call.
        encoder: embeds batches; called with texts of nearly equal length, longest first.
        settings: what is known about it.
        progress: show a progress bar over the texts on stderr.
        store: holds embeddings of references from earlier calls, and admits new ones.
        collector: is given the embeddings of every text.
        heap: of the scorer, whose calls add up; by default this one stands alone.
        spell: returns how a text of token ids begins, for a message; `None` where nobody can tell.

    Returns:
        The matches of all pairs in the order of the segments. Memory beyond them is bounded by `EMBEDDING_BYTES` and
        `KEPT_BYTES`: where texts that are needed again exceed the latter, some are embedded again.

    Raises:
        torch.OutOfMemoryError: a text that does not fit alone; the message says which.
    """
    try:
        return _match_segments(
            segments, encoder, settings, progress, store, collector, Heap() if heap is None else heap
        )
    except _TooLargeError as error:
        raise torch.OutOfMemoryError(
            f"A text does not fit into the memory of the encoder's device: {_place(segments, error.text, spell)}. "
            f"Lower max_length, or use another device. ({error.__cause__})"
        ) from error.__cause__


def _match_segments(
    segments: TokenizedSegments,
    encoder: Encoder,
    settings: EncoderSettings,
    progress: bool,
    store: ReferenceCache | None,
    collector: EmbeddingCollector | None,
    heap: Heap,
) -> TokenMatches:
    texts = segments.texts
    candidate_lengths, reference_lengths = texts.lengths[segments.candidates], texts.lengths[segments.references]
    candidate_to, reference_to = ragged.starts(candidate_lengths), ragged.starts(reference_lengths)
    candidate_best = torch.zeros(settings.layers, int(candidate_lengths.sum()))
    reference_best = torch.zeros(settings.layers, int(reference_lengths.sum()))
    uses = _count(segments.candidates, segments.references, len(texts))
    held = {} if store is None else _look_up(store, segments)
    from_store, stored = frozenset(held), set(held)
    dim = settings.dim or _find_dim(texts, encoder, settings)
    max_tokens = max(1, EMBEDDING_BYTES // (4 * dim * settings.layers))
    buffer: list[Tensor] = []  # one piece of memory for all chunks: many of changing size would fragment the heap
    with _progress(len(texts) - len(held)) if progress else nullcontext() as bar:
        for pairs in plan_chunks(segments.candidates, segments.references, texts.lengths, max_tokens):
            c, r = segments.candidates[pairs], segments.references[pairs]
            here = torch.unique(torch.cat([c, r]))
            first = torch.zeros(len(texts), dtype=torch.int64)
            first[here] = ragged.starts(texts.lengths[here])
            embeddings = _embed_texts(texts, here, first, held, encoder, settings, bar, buffer, dim, heap)
            ids = texts.ids[ragged.positions(ragged.starts(texts.lengths)[here], texts.lengths[here])]
            matchable = ~torch.isin(ids, settings.unmatchable_ids)
            c_lengths, r_lengths = candidate_lengths[pairs], reference_lengths[pairs]
            c_best, r_best = match_pairs(
                embeddings, matchable.to(embeddings.device), first[c], c_lengths, first[r], r_lengths
            )
            candidate_best[:, ragged.positions(candidate_to[pairs], c_lengths)] = c_best
            reference_best[:, ragged.positions(reference_to[pairs], r_lengths)] = r_best
            if store is not None:
                _admit(store, texts, torch.unique(r), first, embeddings, stored)
            if collector is not None:
                _collect(collector, segments, here, first, embeddings)
            uses -= _count(c, r, len(texts))
            _hold(held, from_store, here, first, texts.lengths, uses, embeddings)
    text_starts = ragged.starts(texts.lengths)
    return TokenMatches(
        texts.ids[ragged.positions(text_starts[segments.candidates], candidate_lengths)].long(),
        candidate_best,
        candidate_lengths,
        texts.lost[segments.candidates],
        texts.ids[ragged.positions(text_starts[segments.references], reference_lengths)].long(),
        reference_best,
        reference_lengths,
        texts.lost[segments.references],
        segments.reference_counts,
    )


def embed_texts(
    texts: TokenizedTexts, chosen: Tensor, encoder: Encoder, settings: EncoderSettings, bar: tqdm[NoReturn] | None
) -> Tensor:
    """Return the unit embeddings of the texts `chosen` [text], one after the other: [layer, token, dim]."""
    first = torch.zeros(len(texts), dtype=torch.int64)
    first[chosen] = ragged.starts(texts.lengths[chosen])
    dim = settings.dim or _find_dim(texts, encoder, settings)
    return _embed_texts(texts, chosen, first, {}, encoder, settings, bar, [], dim, Heap())


def token_bytes(texts: TokenizedTexts, encoder: Encoder, settings: EncoderSettings) -> int:
    """Return the bytes that the embeddings of a token take."""
    return 4 * settings.layers * (settings.dim or _find_dim(texts, encoder, settings))


class _TooLargeError(Exception):
    """A text, by its number, that does not fit into memory; its cause is what the encoder raised."""

    def __init__(self, text: int) -> None:
        super().__init__(text)
        self.text = text


def _place(segments: TokenizedSegments, text: int, spell: Callable[[list[int]], str] | None) -> str:
    """Return where a text stands first among the segments that are scored together, its length and its beginning."""
    texts, counts = segments.texts, segments.reference_counts
    segment_of = ragged.owners(counts)
    pairs = torch.nonzero(segments.candidates == text).squeeze(1).tolist()
    if pairs:
        where = f"candidate {int(segment_of[pairs[0]])}"
    else:
        pair = int(torch.nonzero(segments.references == text)[0])
        segment = int(segment_of[pair])
        number = f" {pair - int(ragged.starts(counts)[segment])}" if counts[segment] > 1 else ""
        where = f"reference{number} of candidate {segment}"
    first, length = int(ragged.starts(texts.lengths)[text]), int(texts.lengths[text])
    ids = texts.ids[first : first + length].tolist()
    begins = "" if spell is None else f", which begins {spell(ids)!r}"
    return f"{where} (of {len(counts)} that are scored together, counted from 0), {length} tokens{begins}"


def _progress(total: int) -> tqdm[NoReturn]:
    # Only where it is shown: every bar takes a lock of tqdm's, which a child forked meanwhile would wait for.
    return tqdm(total=total, unit="text", desc="BERTScore")


def _look_up(store: ReferenceCache, segments: TokenizedSegments) -> dict[int, Tensor]:
    """Return the stored embeddings of the references by the numbers of their texts."""
    texts = torch.unique(segments.references).tolist()
    found = {text: store.get(key) for text, key in zip(texts, _keys(segments.texts, texts), strict=True)}
    return {text: rows for text, rows in found.items() if rows is not None}


def _admit(
    store: ReferenceCache, texts: TokenizedTexts, chosen: Tensor, first: Tensor, embeddings: Tensor, stored: set[int]
) -> None:
    new = [text for text in chosen.tolist() if text not in stored]
    stored.update(new)
    for text, key in zip(new, _keys(texts, new), strict=True):
        store.admit(key, embeddings[:, first[text] : first[text] + texts.lengths[text]])


def _keys(texts: TokenizedTexts, chosen: list[int]) -> list[bytes]:
    ids, first, lengths = texts.ids.numpy(), ragged.starts(texts.lengths).tolist(), texts.lengths.tolist()
    return [ids[first[text] : first[text] + lengths[text]].tobytes() for text in chosen]


def _collect(
    collector: EmbeddingCollector, segments: TokenizedSegments, here: Tensor, first: Tensor, embeddings: Tensor
) -> None:
    heads = segments.candidates[ragged.starts(segments.reference_counts)]  # a candidate counts once a segment
    uses = _count(heads, segments.references, len(segments.texts))
    for text in here.tolist():
        rows = embeddings[:, first[text] : first[text] + segments.texts.lengths[text]]
        collector.add(text, rows, int(uses[text]))


def _count(candidates: Tensor, references: Tensor, n_texts: int) -> Tensor:
    return torch.bincount(torch.cat([candidates, references]), minlength=n_texts)


def _embed_texts(
    texts: TokenizedTexts,
    here: Tensor,
    first: Tensor,
    held: dict[int, Tensor],
    encoder: Encoder,
    settings: EncoderSettings,
    bar: tqdm[NoReturn] | None,
    buffer: list[Tensor],
    dim: int,
    heap: Heap,
) -> Tensor:
    """Return the unit embeddings of the texts `here` as one flat tensor [layer, token, dim], until the next call."""
    total = int(texts.lengths[here].sum())
    flat: Tensor | None = None
    known = torch.tensor([text in held for text in here.tolist()], dtype=torch.bool)
    new = here[~known & (texts.lengths[here] > 0)]
    windows = plan_windows(texts.lengths[new], settings.window)
    for chosen in plan_batches(windows.lengths, settings.rule):
        rows = _embed_batch(texts, new[windows.texts[chosen]], windows.starts[chosen], encoder, settings)
        if flat is None:
            flat = _room(buffer, rows, total, EMBEDDING_BYTES, int(texts.lengths.sum()))
        if int(windows.kept[chosen].sum()) < rows.shape[1]:
            rows = rows[:, windows.kept_rows(chosen).to(rows.device)]
        flat[:, windows.kept_positions(first[new], chosen).to(flat.device)] = rows
        if bar is not None:
            bar.update(int(windows.last[chosen].sum()))
        n_tokens = rows.shape[1]
        del rows
        heap.passed(n_tokens)
    for text in here[known].tolist():
        rows = held[text]
        if flat is None:
            flat = _room(buffer, rows, total, EMBEDDING_BYTES, int(texts.lengths.sum()))
        flat[:, first[text] : first[text] + rows.shape[1]] = rows
    return torch.zeros(settings.layers, total, dim) if flat is None else flat


def _room(buffer: list[Tensor], rows: Tensor, total: int, most_bytes: int, all_tokens: int) -> Tensor:
    """Return memory for `total` tokens like `rows` [layer, token, dim], out of the buffer that the first call makes."""
    if not buffer or buffer[0].shape[1] < total:
        fits = most_bytes // (rows.element_size() * len(rows) * rows.shape[-1])
        size = max(total, min(fits, all_tokens))
        buffer[:] = [rows.new_empty((len(rows), size, rows.shape[-1]))]
    return buffer[0][:, :total]


def _find_dim(texts: TokenizedTexts, encoder: Encoder, settings: EncoderSettings) -> int:
    some = torch.nonzero(texts.lengths > 0).squeeze(1)
    if not len(some):
        return 1
    shortest = some[texts.lengths[some].argmin()][None]
    return int(_embed_batch(texts, shortest, torch.zeros_like(shortest), encoder, settings).shape[-1])


def _embed_batch(
    texts: TokenizedTexts, chosen: Tensor, starts: Tensor, encoder: Encoder, settings: EncoderSettings
) -> Tensor:
    """Return the unit embeddings of windows, one after the other: [layer, token, dim].

    The windows are those of the texts `chosen` [window] that begin at `starts` [window]; of short texts the whole text.
    """
    windows = None if settings.window is None else (starts, settings.window)
    batch = texts.batch(chosen, settings.pad_id, settings.special_ids, windows=windows)
    try:
        output = encoder.embed(batch)
    except RuntimeError as error:
        if not _is_out_of_memory(error):
            raise
        if len(chosen) == 1:
            raise _TooLargeError(int(chosen[0])) from error
        output = None
    if output is None:  # outside the handler, whose traceback would keep the failed batch alive
        half = (len(chosen) + 1) // 2
        parts = ((chosen[:half], starts[:half]), (chosen[half:], starts[half:]))
        halves = (_embed_batch(texts, *part, encoder, settings) for part in parts)
        return torch.cat(list(halves), dim=1)
    if not isinstance(output, Tensor):
        raise TypeError(f"The encoder must return a torch.Tensor, got {type(output).__name__}.")
    if output.ndim not in (3, 4) or output.shape[-3:-1] != batch.ids.shape:
        raise ValueError(
            f"The encoder returned a tensor of shape {tuple(output.shape)} for ids of shape "
            f"{tuple(batch.ids.shape)}; expected [text, token, dim] or [layer, text, token, dim]."
        )
    layers = output if output.ndim == 4 else output[None]
    if len(layers) != settings.layers:
        raise ValueError(
            f"The encoder returned {len(layers)} layers where {settings.layers} was expected; for several layers set "
            f"all_layers=True, and num_layers of the encoder to one less than it returns."
        )
    if bool(batch.attention_mask.all()):
        return unit(layers.flatten(1, 2))
    return unit(layers[:, batch.attention_mask.to(layers.device)])


def _is_out_of_memory(error: RuntimeError) -> bool:
    # On a CPU torch has no type for it.
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def _hold(
    held: dict[int, Tensor],
    from_store: frozenset[int],
    here: Tensor,
    first: Tensor,
    lengths: Tensor,
    uses: Tensor,
    embeddings: Tensor,
) -> None:
    """Keep what a later chunk needs again, as far as it fits, and let the rest go."""
    for text in [text for text in held if not uses[text]]:
        del held[text]
    used = sum(rows.nbytes for text, rows in held.items() if text not in from_store)
    for text in here[uses[here] > 0].tolist():
        rows = embeddings[:, first[text] : first[text] + lengths[text]]
        if text not in held and used + rows.nbytes <= KEPT_BYTES:
            held[text] = rows.clone()
            used += rows.nbytes
