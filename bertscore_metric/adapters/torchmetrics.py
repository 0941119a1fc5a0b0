"""BERTScore as a `torchmetrics.Metric`: exact in a stream, exact over ranks.

from bertscore_metric import BERTScore

metric = BERTScore("offline")
metric.update(preds, target)
metric.compute()                # {"precision": ..., "recall": ..., "f1": ...}
"""

from __future__ import annotations

import copy
import hashlib
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from bertscore_metric.adapters.torchmetrics_arguments import (
    METRIC_ARGUMENTS,
    long_text_rule,
    one_tokenizer,
    refuse_arguments,
    unknown_argument,
)
from bertscore_metric.checks import boolean, byte_count
from bertscore_metric.config import ScoreConfig
from bertscore_metric.core.pairs import Segments, parse_segments
from bertscore_metric.core.weighting import IdfTable
from bertscore_metric.optional import explained
from bertscore_metric.result import BERTScoreResult
from bertscore_metric.scorer_handle import ScorerHandle
from bertscore_metric.signature import Signature
from bertscore_metric.state.kept_embeddings import (
    EMBEDDING_COLUMNS,
    EmbeddingCollector,
    SegmentEmbeddings,
    check_index,
    check_room,
    segment_embeddings,
)
from bertscore_metric.state.pending_texts import from_bytes
from bertscore_metric.state.sample_ids import check_sample_ids, parse_sample_ids, sample_order
from bertscore_metric.state.state_columns import check_size, joined
from bertscore_metric.state.stream import SegmentScorer, Stream

try:
    from torchmetrics import Metric, MetricCollection
    from torchmetrics.utilities.distributed import gather_all_tensors

    from bertscore_metric.adapters.ragged_metric import RaggedMetric
except ImportError as error:
    raise explained(
        error,
        ("torchmetrics",),
        "The torchmetrics metric needs torchmetrics, which is not installed: pip install 'bertscore_metric[lightning]'",
    ) from error

if TYPE_CHECKING:
    from bertscore_metric.analysis.explain import By, Explanation

Reduction = Literal["mean", "none"]
SCORES = ("precision", "recall", "f1")
STORE_BYTES = 256 * 2**20
KEPT_BYTES = 2**30


class BERTScore(RaggedMetric):
    """BERTScore of texts that arrive in batches, on one or several ranks, as if they were scored in one call.

    Arguments that torchmetrics' own `BERTScore` has mean the same here, the others are those of `ScoreConfig`.
    In float32 a split changes a score by less than 1e-6; in bfloat16 and float16 the encoder's rounding depends on the
    batch.

    Args:
        model_name_or_path: a hub name, a folder, or `offline`; without it and without `lang`, English (roberta-large).
        num_layers, all_layers, idf, lang, rescale_with_baseline, baseline_path, max_length, long_text, dtype,
            compile, match_special_tokens, empty, revision, trust_remote_code, use_safetensors,
            local_files_only: as in `ScoreConfig`.
        model: a transformers model instead of a name, with `tokenizer`; it is copied, never changed.
        user_tokenizer, tokenizer: a transformers tokenizer, under torchmetrics' name and under ours.
        num_threads: accepted, and without effect: no DataLoader is involved.
        user_forward_fn, baseline_url: torchmetrics has them; here they are errors that say what to use.
        verbose: show a progress bar on stderr.
        device: where the encoder runs; by default where the metric is, so that it follows `.to(device)`.
        batch_size: most texts in an encoder batch; by default as many as fit the batch's token budget.
        return_hash: put the signature into the result, under `hash`.
        truncation: `True` cuts long texts, as by default; `False` refuses them (`long_text="error"`).
        reduction: `mean` for numbers (over segments, so right for uneven ranks), `none` for vectors [segment], or
            [layer, segment] with `all_layers`, which needs it.
        encoder: your own `Encoder` instead of a model, with `tokenizer`.
        keep_embeddings: keep the embeddings of all tokens (`kept_embeddings`). They are large: 1.5 kB a token with 384
            dimensions. Updates are then encoded at once, not gathered.
        kept_embeddings_bytes: most bytes that they may take; an update beyond it is an error.
        embedding_store_bytes: budget, in the memory of the encoder's device, for embeddings of references: so later
            epochs embed only the candidates. 0 for none.
        kwargs: the arguments of `torchmetrics.Metric`.

    Raises:
        TypeError, ValueError: a setting is unknown or wrong; the message says what is allowed.
        OSError: the model cannot be loaded.

    Example:
        >>> metric = BERTScore("offline", num_layers=5, reduction="none")
        >>> metric.update(["hello there"], [["hi there", "hello"]])
        >>> metric.update(["a cat sat"], [["the dog", "a cat sat down", "cats"]])
        >>> [round(f1, 3) for f1 in metric.compute()["f1"].tolist()], metric.best_reference.tolist()
        ([0.876, 0.888], [0, 1])
    """

    is_differentiable = False
    higher_is_better = True
    plot_upper_bound = 1.0
    sample_ids: list[Tensor]
    _shares_reports = False

    def __init__(
        self,
        model_name_or_path: str | None = None,
        num_layers: int | None = None,
        all_layers: bool = False,
        model: Any = None,
        user_tokenizer: Any = None,
        user_forward_fn: Any = None,
        verbose: bool = False,
        idf: Any = False,
        device: str | int | torch.device | None = None,
        max_length: int | None = None,
        batch_size: int | None = None,
        num_threads: int = 0,
        return_hash: bool = False,
        lang: str | None = None,
        rescale_with_baseline: bool = False,
        baseline_path: str | None = None,
        baseline_url: str | None = None,
        truncation: bool | None = None,
        *,
        reduction: Reduction = "mean",
        dtype: str = "float32",
        compile: bool = False,
        match_special_tokens: bool = True,
        empty: str = "score",
        long_text: str | None = None,
        revision: str | None = None,
        trust_remote_code: bool = False,
        use_safetensors: bool = True,
        local_files_only: bool = False,
        tokenizer: Any = None,
        encoder: Any = None,
        keep_embeddings: bool = False,
        kept_embeddings_bytes: int = KEPT_BYTES,
        embedding_store_bytes: int = STORE_BYTES,
        **kwargs: Any,
    ) -> None:
        refuse_arguments(user_forward_fn, baseline_url)
        keep_embeddings = boolean("keep_embeddings", keep_embeddings)
        if reduction not in ("mean", "none"):
            raise ValueError(f"reduction must be 'mean' or 'none', got {reduction!r}.")
        if all_layers and reduction != "none":
            raise ValueError(
                "all_layers gives a row of scores for each layer, which cannot be one number: pass reduction='none', "
                "or one num_layers."
            )
        if model is None and encoder is None and model_name_or_path is None and lang is None:
            lang = "en"
        config = ScoreConfig(
            model_name_or_path=model_name_or_path,
            num_layers=None if all_layers else num_layers,  # as torchmetrics documents it
            all_layers=all_layers,
            lang=lang,
            idf=idf,
            rescale_with_baseline=rescale_with_baseline,
            baseline_path=baseline_path,
            max_length=max_length,
            long_text=long_text_rule(long_text, truncation),
            dtype=dtype,
            compile=compile,
            match_special_tokens=match_special_tokens,
            empty=empty,
            revision=revision,
            trust_remote_code=trust_remote_code,
            use_safetensors=use_safetensors,
            local_files_only=local_files_only,
        )
        if unknown := [name for name in kwargs if name not in METRIC_ARGUMENTS]:
            raise ValueError(unknown_argument(unknown[0], BERTScore.__init__))
        super().__init__(**kwargs)
        self.reduction = reduction
        self.return_hash = return_hash
        self.keep_embeddings = keep_embeddings
        self.kept_embeddings_bytes = byte_count("kept_embeddings_bytes", kept_embeddings_bytes)
        self._follows_device = device is None
        self._shared = ScorerHandle(
            config,
            store_bytes=embedding_store_bytes,
            device=self.device if device is None and encoder is None else device,
            model=model,
            tokenizer=one_tokenizer(user_tokenizer, tokenizer),
            encoder=encoder,
            batch_size=batch_size,
            verbose=verbose,
        )
        self._gathered: dict[str, list[Tensor]] | None = None  # embeddings of all ranks, of the rows seen by then
        self._corpus_idf: IdfTable | None = None
        self.add_columns(
            self._shared.columns,
            hashlib.sha256(self.signature.comparable_key.encode()).digest()[:16],
            local=EMBEDDING_COLUMNS if keep_embeddings else {},
        )

    @classmethod
    def from_config(cls, config: ScoreConfig, **metric_settings: Any) -> BERTScore:
        """Build a metric from a config; `metric_settings` are the arguments that change no score."""
        return cls(**config.to_mapping(), **metric_settings)

    @property
    def signature(self) -> Signature:
        """Every setting that changes a score, in one line to print beside it."""
        return self._shared.signature

    @property
    def store_hit_rate(self) -> float:
        """Share of references, from 0 to 1, that did not have to be embedded because the store had them."""
        return self._shared.store.hit_rate

    @property
    def best_reference(self) -> Tensor:
        """Number of the reference with the best F1, [segment] int64 ([layer, segment] with `all_layers`).

        In the order of `compute`, which is called where that has not happened; on several ranks all must then do so.
        """
        self._compute_once()
        best: Tensor = self._result.best_reference
        return best.to(self.device)

    def result(self) -> BERTScoreResult:
        """Return everything about what was accumulated, on all ranks: scores by segment, intervals, counts, signature.

        It is that of `compute`, which is called where that has not happened; on several ranks all must then do so.

        Example:
            >>> metric = BERTScore("offline", num_layers=5)
            >>> metric.update(["a cat sat", "hello", "a dog"], ["a cat sat", "hi", "the dog"])
            >>> low, high = metric.result().interval("f1")
            >>> low < metric.result().mean.f1 < high
            True
        """
        self._compute_once()
        result: BERTScoreResult = self._result
        return result

    def update(
        self,
        preds: str | Sequence[str],
        target: str | Sequence[str] | Sequence[Sequence[str]],
        sample_ids: Tensor | Sequence[int] | None = None,
    ) -> None:
        """Add segments. Small updates are gathered until they fill the encoder's batches.

        Args:
            preds: texts, [segment].
            target: texts [segment], or groups of texts, one group for each of `preds`.
            sample_ids: numbers of the samples in the data set, [segment]: results come in their order, and samples that
                a distributed sampler repeated count once.

        Raises:
            TypeError, ValueError: wrong texts or ids; the metric is as it was before.
        """
        segments = parse_segments(preds, target, names=("preds", "target"))
        ids = None if sample_ids is None else parse_sample_ids(sample_ids, len(segments))
        if not len(segments):
            return
        stream = self.stream()
        self._shared.scorer.check(segments)
        stream.add(segments, ids, wait=not (self.keep_embeddings or self._in_step))
        self.keep(stream)

    def compute(self) -> dict[str, Any]:
        """Score everything since the last `reset`, on all ranks; calling it again gives the same result.

        Returns:
            `precision`, `recall` and `f1`: float32 numbers, or with `reduction="none"` [segment].

        Raises:
            ValueError: `sample_ids` do not name one sample each, or for some segments only.
        """
        self._check_rows(self.stream())
        columns = {name: self.column(name) for name in self._shared.columns}
        ids = self.column("sample_ids")
        result = self._shared.report(
            columns,
            ids,
            warn=self._speaks(),
            label=self._label(),
            user=id(self) if self._shares_reports else None,
        )
        self._result = result
        self._corpus_idf = self._shared.reporter.corpus_idf(columns, ids) if self.keep_embeddings else None
        values = {name: self._value(result, name) for name in SCORES}
        return {**values, "hash": str(result.signature)} if self.return_hash else values

    def release(self) -> None:
        """Let go of the encoder and of stored embeddings; they come back when the metric is used again.

        What was accumulated stays, and is computed without the encoder; only texts that still wait for a full batch
        bring it back, so call `compute` first. A model object cannot be loaded again, so it stays.
        """
        self._shared.release()

    def kept_embeddings(self, index: int) -> SegmentEmbeddings:
        """Return the token embeddings of a segment and its token ids, kept with `keep_embeddings=True`.

        Args:
            index: number of the segment in the order of `compute`; on several ranks first call `gather_embeddings`,
                else it counts this rank's segments.

        Raises:
            ValueError: nothing was kept, or what was gathered from other ranks is not up to date.
            TorchMetricsUserError: the metric is synced, so that its rows are those of all ranks.
            IndexError: there is no such segment.
        """
        self._check_keeps("kept_embeddings")
        columns: Mapping[str, list[Tensor]] = self.stream().parts
        n_kept, n_rows = sum(part.numel() for part in columns["kept_text_counts"]), int(self.n_segments)
        if n_kept != n_rows:
            raise ValueError(
                f"Embeddings of {n_kept} of {n_rows} segments were kept. In a MetricCollection, compute_groups must "
                f"not put metrics with and without keep_embeddings into one group."
            )
        if self._gathered is not None:
            if not torch.equal(self._gathered["seen"][0], self.seen):
                raise ValueError(
                    "Segments were added since gather_embeddings(), so that it does not know them; call it again, on "
                    "every rank."
                )
            columns = self._gathered
        ids = joined(columns["sample_ids"], torch.int64)
        n_kept = sum(part.numel() for part in columns["kept_text_counts"])
        order = sample_order(ids)[0] if len(ids) else torch.arange(n_kept)
        return segment_embeddings(columns, int(order[check_index(index, len(order))]), self._shared.reporter.layers)

    def explain(self, index: int, *, by: By = "f1") -> Explanation:
        """Explain the score of a segment from the embeddings kept with `keep_embeddings=True`, without the encoder.

        Args:
            index: number of the segment, as for `kept_embeddings`.
            by: `precision`, `recall` or `f1`; with several references each is decided by the one that is best in it.

        Raises:
            ValueError: nothing was kept, or the metric has `all_layers`.
            IndexError: there is no such segment.
        """
        segment = self.kept_embeddings(index)
        self._compute_once()  # on several ranks idf counts the references of all
        return self._shared.explainer.explain_embeddings(segment, self._corpus_idf, by=by)

    def gather_embeddings(self) -> None:
        """Give every rank the kept embeddings of all ranks; to be called on all of them.

        Segments that are added later make it necessary again.

        Raises:
            ValueError: nothing was kept, or together they exceed `kept_embeddings_bytes`; then no rank has them.
            TorchMetricsUserError: the metric is synced.
        """
        self._check_keeps("gather_embeddings")
        gather = self.dist_sync_fn or gather_all_tensors
        if not self.distributed_available_fn():
            return
        sizes = torch.tensor([self._kept_bytes(self.stream())], device=self.device)
        check_room(int(sum(gather(sizes, group=self.process_group))), self.kept_embeddings_bytes)
        gathered = {
            name: [part.cpu() for part in gather(self.column(name).to(self.device), group=self.process_group)]
            for name in (*EMBEDDING_COLUMNS, "sample_ids")
        }
        self._gathered = {**gathered, "seen": [self.seen]}

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Plot one value or several, as every metric of torchmetrics can; vectors by their mean, layer by layer."""
        return self._plot(_plottable(self.compute() if val is None else val), ax)

    def _compute_once(self) -> None:
        if self._computed is None or self._result is None:
            self._computed = None
            self.compute()

    def _speaks(self) -> bool:
        """Whether to warn: ranks that are synced have the same rows, and the first one says what is notable."""
        return not (self._is_synced and torch.distributed.is_initialized()) or self._rank() == 0

    def _label(self) -> str:
        """Return what the collection that is computing calls this metric, "" outside of one."""
        frame = sys._getframe(1)
        while frame is not None:  # a metric does not know its collections
            owner = frame.f_locals.get("self")
            if isinstance(owner, MetricCollection):
                names = [n for n, one in owner.items(keep_base=False, copy_state=False) if one is self]
                if names:
                    return self._label_of(names[0], str(owner.prefix or owner.postfix or ""))
            frame = frame.f_back  # type: ignore[assignment]
        return ""

    def _label_of(self, name: str, affix: str) -> str:
        """Return the label of a metric that a collection calls `name`."""
        return name

    def _value(self, result: BERTScoreResult, name: str) -> Tensor:
        if self.reduction == "none":
            return getattr(result, name).to(self.device)  # type: ignore[no-any-return]
        return torch.tensor(getattr(result.mean, name), dtype=torch.float32, device=self.device)

    def _segment_scorer(self) -> SegmentScorer:
        return _Rows(self)

    def _check_keeps(self, what: str) -> None:
        if not self.keep_embeddings:
            raise ValueError("No embeddings were kept; pass keep_embeddings=True to the metric.")
        self._check_not_synced(what)

    def _kept_bytes(self, stream: Stream) -> int:
        return sum(part.nbytes for part in stream.parts.get("kept_vectors", ()))

    def _check_rows(self, stream: Stream) -> None:
        if not torch.equal(self.settings, self._defaults["settings"]):  # type: ignore[arg-type]
            raise ValueError(
                "The metric holds the state of one with other settings; in a MetricCollection, compute_groups must not "
                "put them into one group."
            )
        check_sample_ids(sum(part.numel() for part in stream.parts["sample_ids"]), len(stream))
        if self.keep_embeddings:
            check_room(self._kept_bytes(stream), self.kept_embeddings_bytes)

    def _check_foreign(self, stream: Stream) -> None:
        pending = joined(stream.parts["pending_texts"], torch.uint8)
        n_segments = self._shared.check_columns(stream.parts) + len(from_bytes(pending))
        check_size("n_segments", len(stream), n_segments)

    def reset(self) -> None:
        """Forget all segments; the encoder stays, and so do stored embeddings of references."""
        super().reset()
        self._gathered = None
        self._shared.forget()

    def _moved(self, device: torch.device) -> None:
        if self._follows_device:
            self._shared = self._shared.to_device(device)

    def _describe(self) -> str:
        return str(self.signature)

    def extra_repr(self) -> str:
        """Return the signature."""
        return str(self.signature)


class _Rows:
    """What the stream of a metric asks: the shared scorer's results, and embeddings where they are kept."""

    def __init__(self, metric: BERTScore) -> None:
        self._metric = metric

    def match(self, segments: Segments) -> Mapping[str, Tensor]:
        metric, collector = self._metric, None
        held = metric._kept_bytes(metric.stream())
        if metric.keep_embeddings:
            collector = EmbeddingCollector(metric.kept_embeddings_bytes, held=held)
        rows = metric._shared.match(segments, user=id(metric), collector=collector)
        if metric.keep_embeddings:
            check_room(held + rows["kept_vectors"].nbytes, metric.kept_embeddings_bytes)
        return rows

    def report(self, columns: Mapping[str, Tensor], sample_ids: Tensor) -> BERTScoreResult:
        return self._metric._shared.report(columns, sample_ids)


class BERTScoreValue(BERTScore):
    """One of the three numbers of a `BERTScore` on its own, as loggers and trackers want it.

    Args:
        score: `precision`, `recall` or `f1`.
        model_name_or_path: as in `BERTScore`.
        settings: the other arguments of `BERTScore`.
    """

    _shares_reports = True  # a logger computes the members of a collection one after the other

    def __init__(self, score: str, model_name_or_path: str | None = None, **settings: Any) -> None:
        if score not in SCORES:
            raise ValueError(f"score must be one of {', '.join(SCORES)}; got {score!r}.")
        super().__init__(model_name_or_path, **settings)
        self.score = score

    def compute(self) -> Any:
        """Return the number."""
        return super().compute()[self.score]

    def _label_of(self, name: str, affix: str) -> str:
        return affix.strip("/_ ")  # said once for the members that share a report


def bertscore_collection(
    model_name_or_path: str | None = None, *, prefix: str | None = None, **settings: Any
) -> MetricCollection:
    """Return precision, recall and F1 as three metrics that share everything.

    `self.log_dict(collection)`, `MetricTracker(collection).best_metric()` and arithmetic with metrics need metrics that
    are one number each. The texts are embedded once for all three.

    Args:
        model_name_or_path: as in `BERTScore`.
        prefix: put in front of `precision`, `recall` and `f1`.
        settings: the other arguments of `BERTScore`.

    Example:
        >>> collection = bertscore_collection("offline", prefix="val/", num_layers=5)
        >>> collection.update(["a cat sat"], ["a cat sat"])
        >>> {name: round(value.item(), 3) for name, value in collection.compute().items()}
        {'val/f1': 1.0, 'val/precision': 1.0, 'val/recall': 1.0}
    """
    metrics: dict[str, Metric | MetricCollection] = {}
    first = BERTScoreValue(SCORES[0], model_name_or_path=model_name_or_path, **settings)
    for name in SCORES:
        metrics[name] = metric = copy.deepcopy(first)
        metric.score = name
    return MetricCollection(metrics, prefix=prefix, compute_groups=[list(SCORES)])


def _plottable(value: Any) -> Any:
    """Return what `compute` gave, once or several times, as torchmetrics can plot it: numbers only."""
    if isinstance(value, Tensor):
        return value.mean(-1)  # over segments; of a number it is the number
    if isinstance(value, Mapping):
        return {name: one.mean(-1) for name, one in value.items() if isinstance(one, Tensor)}
    return [_plottable(one) for one in value]
