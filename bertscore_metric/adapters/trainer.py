"""BERTScore as the `compute_metrics` of `transformers.Trainer` and `Seq2SeqTrainer`.

score = ComputeBERTScore(tokenizer, model_name_or_path="offline")
Seq2SeqTrainer(..., compute_metrics=score, callbacks=[score.callback])
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from bertscore_metric import callers
from bertscore_metric.adapters.trainer_datasets import DataSets, NumSamples, References
from bertscore_metric.adapters.trainer_evaluation import Evaluation, dataset_length, distributed
from bertscore_metric.adapters.trainer_predictions import (
    IGNORED,
    Row,
    aligned_ids,
    as_prediction,
    different_rows,
    first_output,
    is_logits,
    kept,
    to_batches,
    to_rows,
    vocabulary_size,
    without_prompts,
)
from bertscore_metric.checks import optional_int
from bertscore_metric.config import ScoreConfig
from bertscore_metric.core.pairs import parse_segments
from bertscore_metric.models.encoder import Encoder
from bertscore_metric.result import BERTScoreResult
from bertscore_metric.scorer_handle import ScorerHandle
from bertscore_metric.signature import Signature
from bertscore_metric.state.exchange import gather
from bertscore_metric.state.pending_texts import to_bytes
from bertscore_metric.state.state_columns import digest, joined_columns
from bertscore_metric.state.stream import Stream
from bertscore_metric.warnings import BERTScoreWarning

logger = logging.getLogger(__name__)

STORE_BYTES = 256 * 2**20


class ComputeBERTScore:
    """Score what a Trainer predicts: pass it as `compute_metrics`.

    Predictions may be generated ids or logits; labels are decoded with the same tokenizer. Ids below 0 are dropped
    wherever they stand. It serves `batch_eval_metrics=True` and False, `evaluate` and `predict`, one process and
    several. `result` holds the scores of the last evaluation by row.

    Args:
        tokenizer: the tokenizer (or processor) of the model that is trained.
        references: texts to use instead of the labels: by row in the order of the data set, a text or a group of texts
            each; or such sequences by name of the data set, of which `select` says which comes next. Labels of some
            kind must be there all the same, or a Trainer never calls this.
        num_samples: how many rows are samples: a number, numbers by name of the data set, or a function that returns
            one (it may take the `EvalPrediction`). On several processes `Seq2SeqTrainer` repeats the first rows at the
            end to fill batches, so that this must be known there: from here, from `references`, or from `callback`,
            which looks it up.
        distributed: with several processes, score a share of the rows on each and exchange the scores; every process
            must then call it, as Trainers do. `False` scores all rows on every process and exchanges nothing.
        decoder_only: the model continues a prompt. Logits are moved by one place against the labels, and generated ids
            lose their prompt, for which the Trainer must pass the inputs (`include_for_metrics=["inputs"]`).
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
        self._datasets = DataSets(references, num_samples)
        self.distributed = distributed
        self.decoder_only = decoder_only
        self.prompt_length = optional_int("prompt_length", prompt_length, at_least=0)
        self.release_encoder = release_encoder
        self.dataset: str | None = None
        self.result: BERTScoreResult | None = None
        self._asked = False
        self._shared = ScorerHandle(
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

        It forgets an evaluation that was broken off, of which the Trainer tells `compute_metrics` nothing, and looks up
        how many samples the data set has.
        """
        return _callback(self)

    def __call__(self, eval_prediction: Any, compute_result: bool = True) -> dict[str, float]:
        """Take rows, and score everything since the evaluation began if `compute_result` is set.

        Args:
            eval_prediction: `predictions` are ids [row, token], logits [row, token, vocabulary], a tuple that begins
                with them, or a list of batches or rows; `label_ids` likewise ids. Arrays of numpy or torch. A plain
                tuple of the two will do.
            compute_result: whether these are the last rows, as the Trainer says with `batch_eval_metrics=True`.

        Returns:
            `bertscore_precision`, `bertscore_recall` and `bertscore_f1`, or nothing before the last rows.

        Raises:
            TypeError, ValueError: rows that are no ids, or rows, references and samples that do not fit; the evaluation
                is then forgotten, and the next one begins anew.
        """
        ended = True
        try:
            if not compute_result and self._evaluation.dataloader is None:
                self._ask_for_callback()
            eval_prediction = as_prediction(eval_prediction)
            n_samples = self._n_samples(eval_prediction)
            self._take(eval_prediction, n_samples)
            ended = compute_result
            if not compute_result:
                return {}
            self._evaluation.check_complete(n_samples)
            self.result = result = self._score()
        finally:
            if ended:
                self.reset()
                if self.release_encoder:
                    self.release()
        return {f"bertscore_{name}": float(getattr(result.mean, name)) for name in ("precision", "recall", "f1")}

    def preprocess_logits_for_metrics(self, logits: Any, labels: Tensor | None) -> Tensor:
        """Turn logits into ids before the Trainer collects them: pass it as `preprocess_logits_for_metrics`.

        Otherwise the logits of the whole data set are kept, [row, token, vocabulary].

        Args:
            logits: [row, token, vocabulary], or a tuple that begins with them; ids pass unchanged.
            labels: [row, token], or `None` in `predict` on a data set without labels.

        Returns:
            Ids [row, token] that stand where the labels do, -100 where there is no label.
        """
        first: Tensor = first_output(logits)
        return self._aligned_ids(first, labels) if is_logits(first) else first

    def select(self, dataset: str | None) -> None:
        """Say which data set comes next, for `references` and `num_samples` by name."""
        self.dataset = dataset

    def reset(self) -> None:
        """Forget the rows of an evaluation that has not ended."""
        self._evaluation = Evaluation(Stream(self._shared))

    def release(self) -> None:
        """Let go of the encoder and of stored embeddings; they come back with the next evaluation."""
        self._shared.release()

    def __getstate__(self) -> dict[str, Any]:
        """Pickle everything but an evaluation that has not ended."""
        return {name: value for name, value in self.__dict__.items() if name != "_evaluation"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore, with nothing evaluated."""
        self.__dict__.update(state)
        self.reset()

    def _see(self, dataloader: Any, processes: int | None) -> None:
        """Note what is iterated now; rows from anything else are of an evaluation that was broken off."""
        seen = self._evaluation.dataloader
        if self._evaluation.labels and (seen is None or seen() is not dataloader):
            logger.warning("Forgetting %d rows of an evaluation that was broken off.", len(self._evaluation.labels))
            self.reset()
        self._evaluation.dataloader = weakref.ref(dataloader)
        self._evaluation.length = dataset_length(dataloader)
        self._evaluation.processes = processes

    def _ask_for_callback(self) -> None:
        if not self._asked:
            self._asked = True
            callers.warn(
                "The Trainer passes rows batch by batch (batch_eval_metrics=True). Add this object's callback to its "
                "callbacks: without it rows of an evaluation that was broken off would count in the next one.",
                BERTScoreWarning,
            )

    def _n_samples(self, eval_prediction: Any) -> int | None:
        """Return how many rows are samples; `None` where all are.

        Raises:
            ValueError: on several processes nobody has said it, so that repeated rows would count.
        """
        evaluation = self._evaluation
        number = self._datasets.n_samples(self.dataset, evaluation.length, eval_prediction)
        if number is None and evaluation.repeats:
            raise ValueError(
                "On several processes a Trainer may repeat the first rows at the end, which must not count. Say how "
                "many samples there are: add this object's callback to the Trainer's callbacks, or pass num_samples= "
                "or references=."
            )
        return number

    def _take(self, eval_prediction: Any, n_samples: int | None) -> None:
        """Decode rows, and add the samples among them to the stream."""
        if eval_prediction.label_ids is None:
            raise ValueError("There are no label_ids; also with references= they tell which rows are repeated.")
        batches = to_batches(eval_prediction.predictions, "predictions")
        label_batches = to_batches(eval_prediction.label_ids, "label_ids")
        logits = any(is_logits(batch) for batch in batches)
        if logits:
            if len(batches) != len(label_batches):
                raise ValueError(f"Got {len(batches)} batches of logits for {len(label_batches)} batches of label_ids.")
            batches = [self._aligned_ids(*pair) for pair in zip(batches, label_batches, strict=True)]
        rows, labels = to_rows(batches, "predictions"), to_rows(label_batches, "label_ids")
        if len(rows) != len(labels):
            raise ValueError(different_rows(len(rows), len(labels)))
        # With shifted logits nothing predicts the first token; what is generated begins with a prompt.
        if self.decoder_only and (logits or (rows and all(row[:1] == [IGNORED] for row in rows))):
            labels = [row[1:] for row in labels]
        elif self.decoder_only:
            rows = self._without_prompts(rows, eval_prediction)
        candidates, references = self._decode(rows, "predictions"), self._decode(labels, "label_ids")
        first = len(self._evaluation.labels)
        samples = self._evaluation.samples(references, n_samples)
        texts = self._datasets.references(self.dataset)
        groups = references if texts is None else texts[first : first + len(candidates)]
        self._add(candidates[: len(samples)], groups[: len(samples)], first)

    def _aligned_ids(self, logits: Tensor, labels: Any) -> Tensor:
        pad_id = getattr(self.tokenizer, "pad_token_id", None)
        if pad_id == getattr(self.tokenizer, "eos_token_id", None):
            pad_id = None  # the end of a text is a label as well
        return aligned_ids(logits, labels, shift=self.decoder_only, pad_id=pad_id)

    def _without_prompts(self, rows: list[Row], eval_prediction: Any) -> list[Row]:
        """Return what was generated after each prompt.

        Raises:
            ValueError: the prompts are not known, or rows do not begin with them.
        """
        if self.prompt_length is not None:
            return [row[self.prompt_length :] for row in rows]
        inputs = getattr(eval_prediction, "inputs", None)
        if inputs is None:
            raise ValueError(
                "decoder_only=True needs the prompts to cut them from what was generated: set "
                "include_for_metrics=['inputs'] in the TrainingArguments, or prompt_length. (If these are logits, pass "
                "preprocess_logits_for_metrics of this object to the Trainer, or nothing.)"
            )
        if isinstance(inputs, Mapping):  # with batch_eval_metrics, what this process gave to the model
            inputs = inputs["input_ids"]
        prompts = [kept(row) for row in to_rows(to_batches(inputs, "inputs"), "inputs")]
        if len(prompts) != len(rows):
            raise ValueError(
                f"Got {len(rows)} rows of predictions and {len(prompts)} prompts: on several processes the Trainer "
                f"passes only its own inputs with batch_eval_metrics=True. Switch it off, or set prompt_length."
            )
        return without_prompts(rows, prompts)

    def _decode(self, rows: list[Row], name: str) -> list[str]:
        """Return the texts of ids.

        Raises:
            ValueError: a label that the tokenizer does not know. A prediction is mentioned: a model may have more
                places than its tokenizer has tokens.
        """
        rows = [kept(row) for row in rows]
        largest = max((max(row) for row in rows if row), default=-1)
        size = vocabulary_size(self.tokenizer, largest)
        if size is not None and largest >= size:
            message = (
                f"{name} hold the id {largest}, but the tokenizer knows {size} ids; is it that of the model that is "
                f"trained? Unknown ids are decoded to nothing."
            )
            if name == "label_ids":
                raise ValueError(message)
            callers.warn(message, BERTScoreWarning)
        return list(self.tokenizer.batch_decode(rows, skip_special_tokens=True)) if rows else []

    def _add(self, candidates: list[str], references: list[Any], first: int) -> None:
        """Add samples to the stream, of several processes each its share."""
        evaluation = self._evaluation
        names = ("predictions", "references")
        everything = parse_segments(candidates, references, names=names)
        if not (self.distributed and distributed()):
            self._shared.scorer.check(everything)
            evaluation.stream.add(everything)
            return
        evaluation.digest = digest(evaluation.digest, to_bytes(everything))
        world, rank = dist.get_world_size(), dist.get_rank()
        own = [number for number in range(len(candidates)) if (first + number) % world == rank]
        if not own or evaluation.failure is not None:
            return
        share = parse_segments([candidates[row] for row in own], [references[row] for row in own], names=names)
        try:
            self._shared.scorer.check(share)
            evaluation.stream.add(share, torch.tensor(own) + first)
        except Exception as error:  # told to the others at the end, where they would wait
            evaluation.failure = error

    def _score(self) -> BERTScoreResult:
        evaluation = self._evaluation
        if not (self.distributed and distributed()):
            return self._shared.report(*evaluation.stream.rows())
        columns: dict[str, Tensor] = {}
        if evaluation.failure is None:
            try:
                columns = evaluation.stream.columns()
            except Exception as error:
                evaluation.failure = error
        ranks = gather(columns, evaluation.failure, digest=evaluation.digest)
        return self._shared.report(*Stream.from_columns(self._shared, joined_columns(ranks)).rows())


def _callback(owner: ComputeBERTScore) -> Any:
    from transformers import TrainerCallback

    class ForgetBrokenEvaluations(TrainerCallback):
        """Resets when training goes on, and notes what is evaluated."""

        def on_prediction_step(
            self, args: Any, state: Any, control: Any, eval_dataloader: Any = None, **kwargs: Any
        ) -> None:
            """Note the data loader; another one is another evaluation."""
            if eval_dataloader is not None:
                owner._see(eval_dataloader, getattr(args, "world_size", None))
            if owner._datasets.by_row and owner._evaluation.length is not None:
                _refuse_other_orders(args)

        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            """Reset, and refuse what the first evaluation would."""
            owner.reset()
            if owner._datasets.by_row and getattr(args, "eval_strategy", "no") != "no":
                _refuse_other_orders(args)

        def _reset(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            owner.reset()

        on_step_begin = on_train_end = on_evaluate = on_predict = _reset  # type: ignore[assignment]

    return ForgetBrokenEvaluations()


def _refuse_other_orders(args: Any) -> None:
    """Raise a `ValueError` if evaluation sets are sorted by length, as Trainers then do."""
    by_length = "group_by_length"  # the name of the setting until transformers 5, and of a strategy since
    if getattr(args, by_length, False) or getattr(args, "train_sampling_strategy", None) == by_length:
        raise ValueError(
            "group_by_length changes the order of evaluation sets as well, so that references= would belong to other "
            "rows; switch it off, or use the labels."
        )
