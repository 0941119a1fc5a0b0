"""`BERTScorer` and `score()`: the update half and the compute half in order."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, overload

import torch
from torch import Tensor

from bertscore_metric import callers
from bertscore_metric.all_pairs import EMBEDDINGS_BYTES, PairScoring
from bertscore_metric.checks import byte_count, optional_int
from bertscore_metric.config import ScoreConfig
from bertscore_metric.core.aggregation import SegmentScores, Vocabulary, counted_references, score_segments
from bertscore_metric.core.baseline import Baseline, find_baseline
from bertscore_metric.core.batches import batch_rule
from bertscore_metric.core.matching import TokenMatches
from bertscore_metric.core.pairs import Segments, check_texts, parse_segments
from bertscore_metric.core.tokens import TokenizedSegments
from bertscore_metric.core.weighting import IdfTable, document_frequencies, inverse_document_frequencies
from bertscore_metric.forks import check_cuda
from bertscore_metric.mbr import MBRResult, consistency, mbr
from bertscore_metric.models.encoder import Encoder, HuggingFaceEncoder
from bertscore_metric.models.given_model import plain_model
from bertscore_metric.models.memory import Heap
from bertscore_metric.models.numerics import own_arithmetic, resolve_dtype
from bertscore_metric.models.scoring_model import ScoringModel, load_model, use_encoder, use_model
from bertscore_metric.models.tokenizer import TextTokenizer, tokenize_ahead, tokenize_segments
from bertscore_metric.pairwise import PairwiseBest, PairwiseScores, pairwise
from bertscore_metric.result import BERTScoreResult, build_result, warnings_for
from bertscore_metric.signature import sign
from bertscore_metric.state.kept_embeddings import EmbeddingCollector, SegmentEmbeddings
from bertscore_metric.state.reference_cache import ReferenceCache
from bertscore_metric.state.sample_ids import SCORE_TOLERANCE, matches_in_sample_order, scores_in_sample_order
from bertscore_metric.state.state_columns import (
    MATCH_COLUMNS,
    SCORE_COLUMNS,
    columns_to_matches,
    columns_to_scores,
    joined_columns,
    to_columns,
)
from bertscore_metric.state.stream import Stream, no_parts
from bertscore_metric.update import EncoderSettings, match_segments
from bertscore_metric.warnings import BERTScoreWarning

if TYPE_CHECKING:
    from bertscore_metric.analysis.explain import By, Explanation

_EXPLAINED_BYTES = 2**32  # embeddings of one segment, far beyond what a picture can show
_PIECE = 2**15  # segments of a call on a GPU that are tokenized at a time: seconds of work for the encoder


def score(candidates: Any, references: Any, model_name_or_path: str | None = None, **settings: Any) -> BERTScoreResult:
    """Score candidates against references in one call.

    Args:
        candidates: texts, [segment].
        references: texts [segment], or groups of texts, one group for each candidate. In a group that has a text,
            `None`, NaN and texts without a token are no references: left out of scores and idf, and the others keep
            their numbers.
        model_name_or_path: as for `BERTScorer`.
        settings: the arguments of `BERTScorer`.

    Returns:
        The scores; unpack them as `P, R, F1 = score(...)`, or read `result.f1` and `result.mean.f1`.

    Raises:
        TypeError, ValueError: wrong settings or texts; the message says what is allowed.

    Example:
        >>> result = score(["a cat sat"], [["the dog", "a cat sat down"]], "offline", num_layers=5)
        >>> round(result.f1.item(), 3), result.best_reference.item()
        (0.888, 1)
    """
    scorer = BERTScorer(model_name_or_path, **settings)
    return scorer.score(candidates, references)


class BERTScorer:
    """BERTScore with a model that is loaded once: in one call, or streamed with `update` and `compute`.

    Args:
        model_name_or_path: a hub name, a folder, or `offline` (the model of the extra `[offline]`).
        model: a transformers model instead of a name, with `tokenizer`; it is copied, never changed.
        tokenizer: a transformers tokenizer, for `model` or `encoder`.
        encoder: your own `Encoder` instead of a model, with `tokenizer`.
        batch_size: most texts in an encoder batch; by default as many as fit the batch's token budget.
        device: `cpu`, `cuda:1`, `mps`, a number, or a `torch.device`; by default the first GPU, else the CPU.
        verbose: show a progress bar on stderr.
        settings: every field of `ScoreConfig`: num_layers, all_layers, lang, idf, rescale_with_baseline,
            baseline_path, max_length, long_text, dtype, compile, match_special_tokens, empty, revision,
            trust_remote_code, use_safetensors, local_files_only.

    Raises:
        TypeError, ValueError: a setting is unknown, or has a wrong type or value.
        OSError: the model cannot be loaded; the message says what to do.

    Example:
        >>> scorer = BERTScorer("offline", num_layers=5)
        >>> scorer.update(["hello"], ["hello"])
        >>> scorer.update(["a cat sat"], ["a cat sat down"])
        >>> scorer.compute().n_segments
        2
    """

    def __init__(
        self,
        model_name_or_path: str | None = None,
        *,
        model: Any = None,
        tokenizer: Any = None,
        encoder: Encoder | None = None,
        batch_size: int | None = None,
        device: str | int | torch.device | None = None,
        verbose: bool = False,
        **settings: Any,
    ) -> None:
        config = ScoreConfig.from_mapping({"model_name_or_path": model_name_or_path, **settings})
        batch_size = optional_int("batch_size", batch_size, at_least=1)
        self.device = _device(getattr(encoder, "device", "cpu") if device is None and encoder is not None else device)
        self.config = config = dataclasses.replace(config, dtype=resolve_dtype(config.dtype, self.device))
        self._verbose = verbose
        self._told_why_uncompiled = False
        self._heap = Heap()
        self.reset()
        with self.own_arithmetic():
            self.model = _model(config, self.device, model, tokenizer, encoder)
            if self._tell_why_uncompiled() and config.compile:
                self.config = config = dataclasses.replace(config, compile=False)  # what the signature then says
            self._settings = _encoder_settings(config, self.model, self.device, batch_size)
            limit = self.model.tokenizer.limit
            if config.max_length is not None and limit is not None and config.max_length > limit:
                callers.warn(
                    f"max_length={config.max_length} is above the model's own limit; using {limit}.",
                    BERTScoreWarning,
                )
            self._limit = limit  # here, for the compute half may be left without a tokenizer
            self.vocabulary = _vocabulary(config, self.model.tokenizer)
            self._idf = _fixed_idf(config, self.model.tokenizer)
            self._baseline = _baseline(config, self.model)
        self.signature = sign(config, self.model, self._idf, self._baseline)

    @classmethod
    def from_config(cls, config: ScoreConfig, **run_settings: Any) -> BERTScorer:
        """Build a scorer from a config; `run_settings` are the arguments that change no number (device, ...)."""
        return cls(**config.to_mapping(), **run_settings)

    def score(self, candidates: Any, references: Any) -> BERTScoreResult:
        """Score candidates against references, apart from what was streamed.

        Args:
            candidates: texts, [segment].
            references: texts [segment], or groups of texts, one group for each candidate.

        Raises:
            TypeError, ValueError: wrong texts; the message names the argument and the index.
        """
        return self.report(self.match(parse_segments(candidates, references)))

    def update(self, candidates: Any, references: Any) -> None:
        """Add segments to the stream. Small updates are gathered until they fill the encoder's batches.

        Args:
            candidates: texts, [segment].
            references: texts [segment], or groups of texts, one group for each candidate.

        Raises:
            TypeError, ValueError: wrong texts; the stream is as it was before.
        """
        segments = parse_segments(candidates, references)
        with self.own_arithmetic():
            self.check(segments)
            stream = self._stream()
            stream.add(segments)
            self._parts = stream.parts

    def compute(self) -> BERTScoreResult:
        """Score everything streamed since the last `reset`; calling it again gives the same result."""
        with self.own_arithmetic():
            rows = self._stream().rows()
        return self.report(*rows)

    def merge(self, other: BERTScorer) -> None:
        """Add what another scorer streamed, after one's own; `other` keeps what it has.

        Raises:
            ValueError: the other scorer has other settings, so that the scores do not belong together.
        """
        if not self.signature.comparable_to(other.signature):
            raise ValueError(f"Cannot merge scores of different settings:\n  {self.signature}\n  {other.signature}")
        with self.own_arithmetic():
            stream = self._stream()
            stream.merge(other._stream())
            self._parts = stream.parts

    def reset(self) -> None:
        """Forget what was streamed."""
        self._parts = no_parts()

    def check(self, segments: Segments) -> None:
        """Refuse texts that would be refused when they are scored, before anything of them is kept; for adapters.

        Raises:
            ValueError: a text that `long_text="error"` refuses, or a token without idf weight.
        """
        if self.config.long_text == "error" or (self._idf is not None and self._idf.default is None):
            self.tokenize_segments(segments)

    def tokenize(self, candidates: Any, references: Any) -> TokenizedSegments:
        """Check texts and turn them into token ids; the first step of the update half, for adapters.

        Raises:
            TypeError, ValueError: wrong texts, a text that `long_text="error"` refuses, or a token without idf weight.
        """
        return self.tokenize_segments(parse_segments(candidates, references))

    def tokenize_segments(self, segments: Segments) -> TokenizedSegments:
        """Turn texts that are checked already into token ids; `tokenize` for adapters that keep the texts.

        Raises:
            ValueError: a text that `long_text="error"` refuses, or a token without idf weight.
        """
        with self.own_arithmetic():
            tokenized = tokenize_segments(segments, self.model.tokenizer)
            if self._idf is not None:
                self._idf.weights(tokenized.texts.ids.long())  # an id without a weight fails before any model work
            return tokenized

    def match(
        self, segments: Segments, *, store: ReferenceCache | None = None, collector: EmbeddingCollector | None = None
    ) -> dict[str, Tensor]:
        """Tokenize, embed and match checked texts; the update half, as a `Stream` and adapters use it.

        On a GPU the next piece of a large call is tokenized while the encoder works on the one before.

        Args:
            segments: checked texts.
            store: embeddings of references that earlier calls left, and room for new ones.
            collector: is given the embeddings of every text; its columns are then among the result.

        Returns:
            Flat columns that can be joined part after part: with idf of the corpus those of `TokenMatches`, which wait
            for it, else those of scores.

        Raises:
            ValueError: as `check`, before any model work.
        """
        with self.own_arithmetic():  # throughout: a tokenizer serves one thread at a time
            if self.device.type == "cpu" or collector is not None or len(segments) <= _PIECE:
                pieces: Iterable[TokenizedSegments] = [self.tokenize_segments(segments)]
            else:
                self.check(segments)
                pieces = tokenize_ahead(segments, self.model.tokenizer, _PIECE)
            parts = []
            for piece in pieces:
                rows = to_columns(self.match_tokens(piece, store=store, collector=collector))
                parts.append(rows if collector is None else {**rows, **collector.columns(piece)})
            return joined_columns(parts)

    def match_tokens(
        self,
        segments: TokenizedSegments,
        *,
        store: ReferenceCache | None = None,
        collector: EmbeddingCollector | None = None,
    ) -> TokenMatches | SegmentScores:
        """Embed and match token ids.

        Args:
            segments: what `tokenize` returned.
            store, collector: as for `match`.

        Returns:
            What has to wait for the whole corpus stays `TokenMatches` (idf of the corpus); all else becomes scores.
        """
        with self.own_arithmetic():
            matches = self.token_matches(segments, store=store, collector=collector)
            self._tell_why_uncompiled()
            return self.scored(matches)

    def token_matches(
        self,
        segments: TokenizedSegments,
        *,
        store: ReferenceCache | None = None,
        collector: EmbeddingCollector | None = None,
    ) -> TokenMatches:
        """Embed and match, as `match`, and return the matches whatever the settings, for those who look at them."""
        with self.own_arithmetic():
            return match_segments(
                segments, self.model.encoder, self._settings, progress=self._verbose, store=store, collector=collector,
                heap=self._heap, spell=self.model.tokenizer.beginning,
            )  # fmt: skip

    def scored(self, matches: TokenMatches) -> TokenMatches | SegmentScores:
        """Return the scores of matches, or the matches themselves where they have to wait for idf of the corpus."""
        with self.own_arithmetic():
            return matches if self.config.idf is True else self._score(matches, self._idf)

    def report(
        self, columns: Mapping[str, Tensor], sample_ids: Tensor | None = None, *, warn: bool = True, label: str = ""
    ) -> BERTScoreResult:
        """Score what `match` returned, joined; the compute half, as a `Stream` and adapters use it.

        Args:
            columns: the columns of `match`.
            sample_ids: [segment] int64, to bring the segments into their order and count each once; or none.
            warn: whether to warn of what is notable; `False` where another process says the same.
            label: whose texts these are, put in front of warnings.

        Raises:
            ValueError: two segments have the same number and different scores.
        """
        with self.own_arithmetic():
            scores = self._scores(columns, sample_ids)
            skip = self.config.empty == "skip"
            rescaled = self._baseline is not None
            for message in warnings_for(scores, skip_empty=skip, limit=self._limit, rescaled=rescaled) if warn else ():
                callers.warn(f"{label}: {message}" if label else message, BERTScoreWarning)
            return build_result(
                scores, self._baseline, self.signature, by_layer=self.config.all_layers, skip_empty=skip
            )

    def _scores(self, columns: Mapping[str, Tensor], sample_ids: Tensor | None) -> SegmentScores:
        if self.config.idf is True:
            matches = self._matches(columns, sample_ids)
            return self._score(matches, self._count_idf(matches))
        scores = columns_to_scores(columns, self.layers)
        if sample_ids is None or not len(sample_ids):
            return scores
        return scores_in_sample_order(scores, sample_ids, SCORE_TOLERANCE[self.config.dtype])

    def _matches(self, columns: Mapping[str, Tensor], sample_ids: Tensor | None) -> TokenMatches:
        matches = columns_to_matches(columns, self.layers)
        if sample_ids is None or not len(sample_ids):
            return matches
        return matches_in_sample_order(matches, sample_ids, SCORE_TOLERANCE[self.config.dtype])

    def explain(
        self, candidate: str, reference: str | Sequence[str], *, by: By = "f1", corpus: Any = None
    ) -> Explanation:
        """Explain the score of one segment, token by token.

        The segment is embedded alone: in bfloat16 and float16, whose rounding depends on the batch, its score may
        differ from the one in a corpus by some 2e-4.

        Args:
            candidate: one text.
            reference: one text, or several, of which the one that decides the number `by` is explained.
            by: `precision`, `recall` or `f1`; each is decided by the reference that is best in it.
            corpus: with `idf=True` the references to count in, or their table (`corpus_table`); by default those that
                were streamed.

        Raises:
            TypeError, ValueError: wrong texts, no corpus to count idf in, or `all_layers`.

        Example:
            >>> pair = BERTScorer("offline", num_layers=5).explain("a cat sat", ["the dog", "a cat sat down"])
            >>> pair.reference_number, round(pair.f1, 3), pair.reference_tokens[4]
            (1, 0.888, 'down')
        """
        if not isinstance(candidate, str):
            raise TypeError(f"candidate must be one text (str), got {type(candidate).__name__}.")
        with self.own_arithmetic():
            segments = self.tokenize([candidate], [reference])
            collector = EmbeddingCollector(_EXPLAINED_BYTES)
            self.match_tokens(segments, collector=collector)
            return self.explain_embeddings(collector.segment(segments, self.layers), self._idf_of(corpus), by=by)

    def explain_embeddings(
        self, segment: SegmentEmbeddings, idf: IdfTable | None = None, *, by: By = "f1"
    ) -> Explanation:
        """Explain a segment whose embeddings are at hand, for adapters; `idf` is the corpus' with `idf=True`."""
        from bertscore_metric.analysis.explain import explain_segment

        if self.config.all_layers:
            raise ValueError("An explanation shows one layer: use a scorer with num_layers=..., without all_layers.")
        with self.own_arithmetic():
            return explain_segment(
                segment, self.model.tokenizer, self.vocabulary, idf if self._idf is None else self._idf,
                listed_specials=self._idf is not None, by=by, signature=str(self.signature),
                baseline=None if self._baseline is None else self._baseline.values[0],
            )  # fmt: skip

    @overload
    def pairwise(self, a: Any, b: Any = None, top: None = None, *, embeddings_bytes: int = ...) -> PairwiseScores: ...

    @overload
    def pairwise(self, a: Any, b: Any, top: int, *, embeddings_bytes: int = ...) -> PairwiseBest: ...

    @overload
    def pairwise(self, a: Any, b: Any = None, *, top: int, embeddings_bytes: int = ...) -> PairwiseBest: ...

    def pairwise(
        self, a: Any, b: Any = None, top: int | None = None, *, embeddings_bytes: int = EMBEDDINGS_BYTES
    ) -> PairwiseScores | PairwiseBest:
        """Score all texts of `a` against all of `b`, as `score` would score every pair.

        Every distinct text is embedded once, as long as the embeddings of all, or of one side, fit `embeddings_bytes`;
        beyond that one side is held in blocks, and the other is embedded once for each.

        Args:
            a: texts; a row each, as candidates.
            b: texts; a column each, as references. By default `a`: then precision of (i, j) is recall of (j, i).
            top: return only so many best texts of `b` for every text of `a`; the memory is then a x top, not a x b.
            embeddings_bytes: most bytes of embeddings that are held at a time.

        Returns:
            `precision`, `recall`, `f1` [a, b]; with `top` `index` and `f1` [a, top], best F1 first. With `idf=True` idf
            is counted in `b`.

        Raises:
            TypeError, ValueError: wrong texts, several references, more than there are in `top`, or `all_layers`.

        Example:
            >>> scorer = BERTScorer("offline", num_layers=5)
            >>> scorer.pairwise(["a cat", "a dog"], ["the cat sat", "a dog", "two dogs"]).f1.shape
            torch.Size([2, 3])
            >>> scorer.pairwise(["a cat", "a dog"], ["the cat sat", "a dog", "two dogs"], top=1).index.tolist()
            [[1], [1]]
        """
        with self.own_arithmetic():
            return pairwise(self._pair_scoring("pairwise", embeddings_bytes), a, b, top)

    def mbr(self, lists: Any, references: Any = None, weights: Any = None, utility: str = "f1") -> MBRResult:
        """Choose from every list the candidate with the highest expected score (minimum Bayes risk decoding).

        Args:
            lists: lists of texts, the candidates of a source each, of any length.
            references: for each list its pseudo-references; by default the list itself, of which no text counts for
                itself.
            weights: for each list how likely its references are, a number each; by default all alike. They need not
                sum to 1.
            utility: what is expected: `f1`, `precision` or `recall`, of the candidate against a reference.

        Returns:
            `index` and `expected` [list], and `scores`, the expected scores of all candidates of each list. One
            candidate alone has index 0 and NaN.

        Raises:
            TypeError, ValueError: wrong texts or weights, an empty list, `all_layers`, or `idf=True`.

        Example:
            >>> scorer = BERTScorer("offline", num_layers=5)
            >>> scorer.mbr([["a cat sat", "the cat sat", "no idea"], ["hello"]]).index.tolist()
            [1, 0]
        """
        with self.own_arithmetic():
            skip = self.config.empty == "skip"
            return mbr(self._pair_scoring("mbr"), lists, references, weights, utility, skip_empty=skip)

    def consistency(self, lists: Any) -> Tensor:
        """Return how well the texts of every list agree: the mean F1 over pairs of different ones.

        Args:
            lists: lists of texts, of any length.

        Returns:
            [list] float32 on the CPU; NaN for a list of one. With `empty="skip"` texts without text are left out.

        Raises:
            TypeError, ValueError: wrong texts, an empty list, `all_layers`, or `idf=True`.
        """
        with self.own_arithmetic():
            return consistency(self._pair_scoring("consistency"), lists, skip_empty=self.config.empty == "skip")

    def _pair_scoring(self, method: str, embeddings_bytes: int = EMBEDDINGS_BYTES) -> PairScoring:
        if self.config.all_layers:
            raise ValueError(f"{method} compares one layer: use a scorer with num_layers=..., without all_layers.")
        return PairScoring(
            self.model.tokenizer,
            self.model.encoder,
            self._settings,
            self.vocabulary,
            self.config.idf is True if self._idf is None else self._idf,
            self._baseline,
            self.signature,
            self._verbose,
            max(1, byte_count("embeddings_bytes", embeddings_bytes)),
        )

    def corpus_table(self, references: Any) -> IdfTable | None:
        """Return the idf weights counted in references (texts); `None` unless `idf=True`."""
        if self.config.idf is not True:
            return None
        texts = self.model.tokenizer(check_texts(references, "corpus"), name="corpus")
        return inverse_document_frequencies(document_frequencies(texts.ids.long(), texts.lengths))

    def corpus_idf(self, columns: Mapping[str, Tensor], sample_ids: Tensor | None = None) -> IdfTable | None:
        """Return the idf weights that `report` counts in these columns; `None` without rows, or unless `idf=True`."""
        if self.config.idf is not True:
            return None
        return self._count_idf(self._matches(columns, sample_ids))

    @property
    def columns(self) -> Mapping[str, torch.dtype]:
        """Name and dtype of the columns that `match` returns."""
        return MATCH_COLUMNS if self.config.idf is True else SCORE_COLUMNS

    @property
    def fixed_idf(self) -> IdfTable | None:
        """The idf table that does not depend on the texts being scored, where the settings hold or count one."""
        return self._idf

    @property
    def layers(self) -> int:
        """How many layers are scored: 1, or all."""
        return self._settings.layers

    def to_device(self, device: str | int | torch.device) -> BERTScorer:
        """Return a scorer of the same settings, without a stream, whose encoder runs on another device.

        The model is copied there, never moved, for others may use it; a custom encoder stays where it is.
        """
        other = copy.copy(self)
        other.reset()
        if not isinstance(self.model.encoder, HuggingFaceEncoder):
            return other
        other.device = _device(device)
        with other.own_arithmetic():
            other.model = dataclasses.replace(self.model, encoder=self.model.encoder.to_device(other.device))
        rule = batch_rule(other.device.type, self._settings.rule.max_texts)
        other._settings = dataclasses.replace(self._settings, rule=rule)
        return other

    def __repr__(self) -> str:
        """Return the signature."""
        return f"BERTScorer({str(self.signature)!r})"

    def _tell_why_uncompiled(self) -> bool:
        error = getattr(self.model.encoder, "compile_error", None)
        if error is not None and not self._told_why_uncompiled:
            self._told_why_uncompiled = True
            callers.warn(
                f"The model could not be compiled and runs as it is: {error}. If a compiler is missing: "
                f"install one for C++ (Debian: apt install g++), on GPUs Triton. Otherwise leave compile out.",
                BERTScoreWarning,
            )
        return error is not None

    def _count_idf(self, matches: TokenMatches) -> IdfTable | None:
        if not len(matches):
            return None
        return inverse_document_frequencies(
            document_frequencies(*counted_references(matches, self.vocabulary.special_ids))
        )

    def _stream(self) -> Stream:
        return Stream(self, self._parts)  # made when needed: two objects that hold each other live on when let go

    def _idf_of(self, corpus: Any) -> IdfTable | None:
        if corpus is not None and self.config.idf is not True:
            raise ValueError("corpus= is for idf=True; this scorer does not count idf in a corpus.")
        if isinstance(corpus, IdfTable):
            return corpus
        if corpus is not None:
            texts = check_texts(corpus, "corpus")
            if not texts:
                raise ValueError("corpus is empty; pass the references to count idf in, as texts.")
            return self.corpus_table(texts)
        if self.config.idf is True and not len(self._stream()):
            raise ValueError(
                "With idf=True a score depends on the corpus: pass its references as corpus=, or stream it with "
                "update() first."
            )
        return self.corpus_idf(*self._stream().rows())

    def _score(self, matches: TokenMatches, idf: IdfTable | None) -> SegmentScores:
        fixed = idf is not None and idf is self._idf  # such a table says what special tokens weigh
        return score_segments(matches, self.vocabulary, idf, listed_specials=fixed, window=self._settings.window)

    def own_arithmetic(self) -> AbstractContextManager[None]:
        """Return the context that this scorer computes in, whatever the caller's settings; for adapters."""
        return own_arithmetic(self.config.dtype, self.device)


def _model(
    config: ScoreConfig, device: torch.device, model: Any, tokenizer: Any, encoder: Encoder | None
) -> ScoringModel:
    given = {"model_name_or_path": config.model_name_or_path, "model": model, "encoder": encoder}
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        raise ValueError(f"{' and '.join(names)} each name a model; give one of them.")
    if model is not None:
        model = plain_model(model)
    if tokenizer is None and (model is not None or encoder is not None):
        raise ValueError(f"{names[0]}= needs tokenizer=, the one whose ids it was made for.")
    if encoder is not None:
        return use_encoder(config, encoder, tokenizer)
    if model is not None:
        return use_model(config, device, model, tokenizer)
    return load_model(config, device, tokenizer)


def _encoder_settings(
    config: ScoreConfig, model: ScoringModel, device: torch.device, batch_size: int | None
) -> EncoderSettings:
    text = model.tokenizer
    unmatchable = () if config.match_special_tokens else sorted(text.special_ids)
    return EncoderSettings(
        pad_id=text.pad_id,
        special_ids=torch.tensor(sorted(text.special_ids), dtype=torch.int64),
        unmatchable_ids=torch.tensor(unmatchable, dtype=torch.int64),
        dim=model.dim,
        layers=(model.depth or 0) + 1 if config.all_layers else 1,
        rule=batch_rule(device.type, batch_size),
        window=text.window,
    )


def _vocabulary(config: ScoreConfig, tokenizer: TextTokenizer) -> Vocabulary:
    return Vocabulary(
        special_ids=tokenizer.special_ids,
        unweighted_ids=tokenizer.unweighted_ids,
        unmatchable_ids=frozenset() if config.match_special_tokens else tokenizer.special_ids,
        unknown_id=tokenizer.unknown_id,
    )


def _fixed_idf(config: ScoreConfig, tokenizer: TextTokenizer) -> IdfTable | None:
    if isinstance(config.idf, bool):
        return None
    if isinstance(config.idf, IdfTable):
        return config.idf
    if isinstance(config.idf, Mapping):
        return IdfTable(config.idf)
    texts = tokenizer(config.idf, name="idf")
    counts = document_frequencies(texts.ids.long(), texts.lengths)
    return inverse_document_frequencies(counts, tokenizer.unweighted_ids)


def _baseline(config: ScoreConfig, model: ScoringModel) -> Baseline | None:
    if not config.rescale_with_baseline:
        return None
    layer = None if config.all_layers else model.num_layers
    if layer is None and not config.all_layers:
        raise ValueError("rescale_with_baseline with your own encoder= needs its num_layers, to find the baseline.")
    return find_baseline(
        lang=config.lang, model=model.name, num_layers=layer, depth=model.depth, path=config.baseline_path
    )


def _device(device: str | int | torch.device | None) -> torch.device:
    if device is None:
        check_cuda()
        device = "cuda" if torch.cuda.is_available() else "cpu"
    given = int(device) if isinstance(device, str) and device.isdigit() else device
    try:
        chosen = torch.device("cuda", given) if isinstance(given, int) else torch.device(given)
    except (RuntimeError, TypeError) as error:
        raise ValueError(_unknown_device(device)) from error
    if isinstance(device, str) and chosen.type == "meta":  # no numbers; modules may be moved there, as an object
        raise ValueError(_unknown_device(device))
    if chosen.type not in ("cpu", "cuda", "mps", "meta"):
        try:
            torch.empty(0, device=chosen)
        except (RuntimeError, AssertionError, ImportError) as error:  # what torch raises for what it was built without
            raise ValueError(_unknown_device(device)) from error
    available = {"cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}
    if (chosen.index or 0) >= available.get(chosen.type, 1):
        raise ValueError(
            f"There is no device {device!r} here: {available['cuda']} GPUs"
            f"{', and mps' if available['mps'] else ''}; use 'cpu', or leave device out."
        )
    return chosen


def _unknown_device(device: object) -> str:
    return f"Unknown device {device!r}; use 'cpu', 'cuda', 'cuda:1', 'mps', or the number of a GPU."
