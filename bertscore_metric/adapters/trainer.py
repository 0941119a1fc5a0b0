"""BERTScore as the `compute_metrics` of `transformers.Trainer` and `Seq2SeqTrainer`.

score = ComputeBERTScore(tokenizer, model_name_or_path="offline")
Seq2SeqTrainer(..., compute_metrics=score, callbacks=[score.callback])
"""

from __future__ import annotations

import hashlib
import inspect
import logging
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from bertscore_metric.config import ScoreConfig
from bertscore_metric.encoder import Encoder
from bertscore_metric.model import BERTScoreWarning
from bertscore_metric.pairs import Segments, parse_segments
from bertscore_metric.report import BERTScoreResult
from bertscore_metric.shared import SharedScorer
from bertscore_metric.signature import Signature

logger = logging.getLogger(__name__)

IGNORED = -100
STORE_BYTES = 256 * 2**20

NumSamples = int | Mapping[str, int] | Callable[..., int]
References = Sequence[Any] | Mapping[str, Sequence[Any]]
Row = list[int]


@dataclass
class _Evaluation:
    """What one evaluation has seen: texts by row, and what tells it from the next one."""

    candidates: list[str] = field(default_factory=list)
    labels: list[Row] = field(default_factory=list)
    dataloader: Any = None  # weak reference to what accelerate iterates, where it does
    length: int | None = None  # of the data set, where it can be known


class ComputeBERTScore:
    """Score what a Trainer predicts: pass it as `compute_metrics`.

    Predictions may be generated ids or logits, labels are decoded with the same tokenizer. Ids below 0 are dropped wherever
    they stand. It serves `batch_eval_metrics=True` and False, `evaluate` and `predict`, one process and several.

    Args:
        tokenizer: the tokenizer (or processor) of the model that is trained.
        references: texts to use instead of the labels: by row in the order of the data set, a text or a group of texts
            each; or such sequences by name of the data set.
        num_samples: how many rows are samples: a number, numbers by name of the data set, or a function that returns one
            (it may take the `EvalPrediction`). On several processes `Seq2SeqTrainer` repeats the first rows at the end to
            fill batches; they are cut. Not needed with `references`, nor with `callback`, which looks it up.
        distributed: with several processes, score a share of the rows on each and exchange the scores; every process must
            then call it, as Trainers do. `False` scores all rows on every process and exchanges nothing.
        decoder_only: the model continues a prompt. Logits are moved by one place against the labels, and generated ids lose
            their prompt, for which the Trainer must pass the inputs (`include_for_metrics=["inputs"]`).
        prompt_length: with `decoder_only`, number of ids that every prompt was padded to, instead of the inputs.
        release_encoder: let go of the encoder after each evaluation, so that its memory is free for the training.
        embedding_store_bytes: budget for embeddings of references, which later evaluations need again.
        device: where the encoder runs; by default the first GPU, else the CPU, wherever the trained model is.
        batch_size, verbose: as in `BERTScorer`.
        model, encoder: as in `BERTScorer`, with `scorer_tokenizer` for its `tokenizer`.
        settings: every field of `ScoreConfig`, such as `model_name_or_path` and `idf`.

    Raises:
        TypeError, ValueError: a setting is unknown or wrong; the message says what is allowed.
        OSError: the model cannot be loaded.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        references: References | None = None,
        num_samples: NumSamples | None = None,
        distributed: bool = False,
        decoder_only: bool = False,
        prompt_length: int | None = None,
        release_encoder: bool = False,
        embedding_store_bytes: int = STORE_BYTES,
        device: str | int | torch.device | None = None,
        batch_size: int | None = None,
        verbose: bool = False,
        model: Any = None,
        encoder: Encoder | None = None,
        scorer_tokenizer: Any = None,
        **settings: Any,
    ) -> None:
        if not hasattr(tokenizer, "batch_decode"):
            raise TypeError(
                f"tokenizer must be the tokenizer of the model that is trained, got {type(tokenizer).__name__}; the "
                f"model that scores is named by model_name_or_path=."
            )
        if prompt_length is not None and not decoder_only:
            raise ValueError("prompt_length is only used with decoder_only=True; set it, or drop the length.")
        config = ScoreConfig.from_mapping(settings)
        if config.all_layers:
            raise ValueError("A Trainer logs numbers, and all_layers gives a vector; choose one layer with num_layers.")
        self.tokenizer = tokenizer
        self.references = _checked_references(references)
        self.num_samples = num_samples
        self.distributed = distributed
        self.decoder_only = decoder_only
        self.prompt_length = prompt_length
        self.release_encoder = release_encoder
        self.dataset: str | None = None
        self.result: BERTScoreResult | None = None
        self._shared = SharedScorer(
            config,
            store_bytes=embedding_store_bytes,
            device=device,
            batch_size=batch_size,
            verbose=verbose,
            model=model,
            encoder=encoder,
            tokenizer=scorer_tokenizer,
        )
        self.reset()

    @property
    def signature(self) -> Signature:
        """Every setting that changes a score, in one line to print beside it."""
        return self._shared.signature

    @property
    def callback(self) -> Any:
        """A `TrainerCallback` for the Trainer's `callbacks=`.

        It forgets an evaluation that was broken off, of which the Trainer tells `compute_metrics` nothing, and looks up how
        many samples the data set has.
        """
        return _callback(self)

    def __call__(self, eval_prediction: Any, compute_result: bool = True) -> dict[str, float]:
        """Take rows, and score everything since the evaluation began if `compute_result` is set.

        Args:
            eval_prediction: `predictions` are ids [row, token], logits [row, token, vocabulary], a tuple that begins with
                them, or a list of batches or rows; `label_ids` likewise ids. Arrays of numpy or torch.
            compute_result: whether these are the last rows, as the Trainer says with `batch_eval_metrics=True`.

        Returns:
            `bertscore_precision`, `bertscore_recall` and `bertscore_f1`, or nothing before the last rows.

        Raises:
            TypeError, ValueError: rows that are no ids, or rows, references and samples that do not fit; the evaluation is
                then forgotten, and the next one begins anew.
        """
        try:
            self._begin_if_new()
            self._take(eval_prediction)
            if not compute_result:
                return {}
            segments = self._segments(eval_prediction)
        except BaseException as error:
            self.reset()
            if not isinstance(error, Exception) or not self._ranks():
                raise
            segments = error
        self.reset()
        try:
            self.result = result = self._score(segments)
        finally:
            if self.release_encoder:
                self.release()
        return {f"bertscore_{name}": float(getattr(result.mean, name)) for name in ("precision", "recall", "f1")}

    def preprocess_logits_for_metrics(self, logits: Any, labels: Tensor) -> Tensor:
        """Turn logits into ids before the Trainer collects them: pass it as `preprocess_logits_for_metrics`.

        Otherwise the logits of the whole data set are kept, [row, token, vocabulary].

        Args:
            logits: [row, token, vocabulary], or a tuple that begins with them; ids pass unchanged.
            labels: [row, token].

        Returns:
            Ids [row, token] that stand where the labels do, -100 where there is no label.
        """
        first = _first(logits)
        if first.ndim != 3:
            return first  # type: ignore[no-any-return]
        self._aligned = True
        return self._align(first, labels)

    def select(self, dataset: str | None) -> None:
        """Say which data set comes next, for `references` and `num_samples` by name; `None` finds it by its size."""
        self.dataset = dataset

    def reset(self) -> None:
        """Forget the rows of an evaluation that has not ended."""
        self._evaluation = _Evaluation()
        self._aligned = False

    def release(self) -> None:
        """Let go of the encoder and of stored embeddings; they come back with the next evaluation."""
        self._shared.release()

    def __getstate__(self) -> dict[str, Any]:
        """Pickle everything but an evaluation that has not ended."""
        return {**self.__dict__, "_evaluation": _Evaluation()}
