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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from bertscore_metric.config import ScoreConfig, optional_int
from bertscore_metric.encoder import Encoder
from bertscore_metric.model import BERTScoreWarning
from bertscore_metric.pairs import parse_segments
from bertscore_metric.predictions import (
    Row,
    aligned_ids,
    first_output,
    is_logits,
    kept,
    repeated_end,
    repeats_beginning,
    to_batches,
    to_rows,
    without_prompts,
)
from bertscore_metric.report import BERTScoreResult
from bertscore_metric.shared import SharedScorer
from bertscore_metric.signature import Signature

logger = logging.getLogger(__name__)

STORE_BYTES = 256 * 2**20

NumSamples = int | Mapping[str, int] | Callable[..., int]
References = Sequence[Any] | Mapping[str, Sequence[Any]]


@dataclass
class _Evaluation:
    """What one evaluation has seen: texts by row, and what tells it from the next one."""

    candidates: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    dataloader: Callable[[], Any] | None = None  # weak reference to what is iterated, where that can be known
    length: int | None = None  # of its data set
    told: bool = False  # by the callback


class ComputeBERTScore:
    """Score what a Trainer predicts: pass it as `compute_metrics`.

    Predictions may be generated ids or logits; labels are decoded with the same tokenizer. Ids below 0 are dropped
    wherever they stand. It serves `batch_eval_metrics=True` and False, `evaluate` and `predict`, one process and
    several. `result` holds the scores of the last evaluation by row.

    Args:
        tokenizer: the tokenizer (or processor) of the model that is trained.
        references: texts to use instead of the labels: by row in the order of the data set, a text or a group of texts
            each; or such sequences by name of the data set.
        num_samples: how many rows are samples: a number, numbers by name of the data set, or a function that returns
            one (it may take the `EvalPrediction`). On several processes `Seq2SeqTrainer` repeats the first rows at the
            end to fill batches; they are cut. Not needed with `references`, nor with `callback`, which looks it up.
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

        It forgets an evaluation that was broken off, of which the Trainer tells `compute_metrics` nothing, and looks up
        how many samples the data set has.
        """
        return _callback(self)

    def __call__(self, eval_prediction: Any, compute_result: bool = True) -> dict[str, float]:
        """Take rows, and score everything since the evaluation began if `compute_result` is set.

        Args:
            eval_prediction: `predictions` are ids [row, token], logits [row, token, vocabulary], a tuple that begins
                with them, or a list of batches or rows; `label_ids` likewise ids. Arrays of numpy or torch.
            compute_result: whether these are the last rows, as the Trainer says with `batch_eval_metrics=True`.

        Returns:
            `bertscore_precision`, `bertscore_recall` and `bertscore_f1`, or nothing before the last rows.

        Raises:
            TypeError, ValueError: rows that are no ids, or rows, references and samples that do not fit; the evaluation
                is then forgotten, and the next one begins anew.
        """
        ended = True
        try:
            if not self._evaluation.told:
                self._look(compute_result)
            self._evaluation.told = False  # until the callback tells of the next rows
            self._take(eval_prediction)
            ended = compute_result
            if not compute_result:
                return {}
            self.result = result = self._score(eval_prediction)
        finally:
            if ended:
                self.reset()
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
        first: Tensor = first_output(logits)
        if not is_logits(first):
            return first
        self._aligned = True
        return self._aligned_ids(first, labels)

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
        return {**self.__dict__, "_evaluation": _Evaluation(), "_aligned": False}

    def _see(self, dataloader: Any, *, told: bool) -> None:
        """Note what is iterated now; rows from anything else are of an evaluation that was broken off."""
        self._forget_rows_of_others(dataloader)
        if dataloader is not None:
            self._evaluation.dataloader = weakref.ref(dataloader)
            self._evaluation.length = _length(dataloader)
        self._evaluation.told = told

    def _look(self, ended: bool) -> None:
        """Find out what is iterated, where no callback tells."""
        dataloader = _active_dataloader(at_end=ended)
        if ended:  # without batch_eval_metrics the evaluation's is closed by now, and this may be the training's
            self._forget_rows_of_others(dataloader)
        else:
            self._see(dataloader, told=False)

    def _forget_rows_of_others(self, dataloader: Any) -> None:
        known = self._evaluation.dataloader
        if self._evaluation.candidates and (None if known is None else known()) is not dataloader:
            logger.warning("Forgetting %d rows of an evaluation that was broken off.", len(self._evaluation.candidates))
            self._evaluation = _Evaluation()

    def _take(self, eval_prediction: Any) -> None:
        """Decode rows and keep their texts."""
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
            raise ValueError(f"Got {len(rows)} rows of predictions for {len(labels)} rows of label_ids.")
        if self.decoder_only and (logits or self._aligned):
            labels = [row[1:] for row in labels]  # no logits predict the first token
        elif self.decoder_only:
            rows = self._without_prompts(rows, eval_prediction)
        self._evaluation.candidates += self._decode(rows)
        self._evaluation.labels += self._decode(labels)

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

    def _decode(self, rows: list[Row]) -> list[str]:
        if not rows:
            return []
        return list(self.tokenizer.batch_decode([kept(row) for row in rows], skip_special_tokens=True))

    def _score(self, eval_prediction: Any) -> BERTScoreResult:
        scorer = self._shared.scorer
        if not (self.distributed and dist.is_available() and dist.is_initialized()):
            return scorer.report(self._match(*self._segments(eval_prediction)))
        world, rank = dist.get_world_size(), dist.get_rank()
        digest, parts, failure = "", [], None
        try:
            candidates, references = self._segments(eval_prediction)
            digest = hashlib.sha256(repr((candidates, references)).encode()).hexdigest()
            share = torch.arange(len(candidates)).tensor_split(world)[rank].tolist()
            parts = self._match([candidates[row] for row in share], [references[row] for row in share])
        except Exception as error:  # told to the others, which would wait
            failure = error
        found: list[Any] = [None] * world
        dist.all_gather_object(found, (digest, parts, None if failure is None else repr(failure)))
        if failure is not None:
            raise failure
        for other, (other_digest, _, message) in enumerate(found):
            if message is not None:
                raise RuntimeError(f"Process {other} failed to score its share: {message}")
            if other_digest != digest:
                raise ValueError(
                    f"Processes {rank} and {other} have different rows; distributed=True needs rows that the Trainer "
                    f"has gathered."
                )
        return scorer.report([part for _, shared, _ in found for part in shared])

    def _match(self, candidates: list[str], references: list[Any]) -> list[Any]:
        """Embed and match; the update half of the core."""
        segments = parse_segments(candidates, references, names=("predictions", "references"))
        if not len(segments):
            return []
        scorer, store = self._shared.scorer, self._shared.store
        return [scorer.match(scorer.tokenize_segments(segments), store=store if store.max_bytes else None)]

    def _segments(self, eval_prediction: Any) -> tuple[list[str], list[Any]]:
        """Return the candidates and references of the samples, without rows that fill batches."""
        evaluation = self._evaluation
        name, n = self._dataset(eval_prediction)
        references = _of(self.references, name)
        return evaluation.candidates[:n], (evaluation.labels if references is None else references)[:n]

    def _dataset(self, eval_prediction: Any) -> tuple[str | None, int]:
        """Return the name of the data set, where there are names, and its number of samples.

        Raises:
            ValueError: none of them, or several, can be what these rows are.
        """
        sizes = self._sizes(eval_prediction)
        labels, length = self._evaluation.labels, self._evaluation.length
        if self.dataset is not None and None not in sizes:
            if self.dataset not in sizes:
                raise ValueError(f"select({self.dataset!r}) names none of the data sets {', '.join(map(str, sizes))}.")
            sizes = {self.dataset: sizes[self.dataset]}
        elif len(sizes) > 1 and length in sizes.values():
            sizes = {name: size for name, size in sizes.items() if size == length}
        fitting = {name: size for name, size in sizes.items() if size is None or repeats_beginning(labels, size)}
        if not fitting:
            said = ", ".join(f"{size}" if name is None else f"{size} ({name})" for name, size in sizes.items())
            raise ValueError(
                f"The Trainer passed {len(labels)} rows, which cannot be {said} samples: none may be missing "
                f"(dataloader_drop_last, other data), and beyond them only the first rows may be repeated."
            )
        if len(fitting) > 1 and (isinstance(self.references, Mapping) or len(set(fitting.values())) > 1):
            raise ValueError(
                f"The Trainer passed {len(labels)} rows, which may be any of the data sets "
                f"{', '.join(map(str, fitting))}; call select(name) before evaluating one."
            )
        name, size = next(iter(fitting.items()))
        return name, self._size_seen() if size is None else size

    def _sizes(self, eval_prediction: Any) -> dict[str | None, int | None]:
        """Return what is said about the number of samples, by name of the data set."""
        said = self.num_samples
        if callable(said):
            said = said(eval_prediction) if inspect.signature(said).parameters else said()
        named: dict[str, Any] = {}
        for value in (self.references, said):
            if isinstance(value, Mapping):
                named |= value
        sizes: dict[str | None, int | None] = {}
        for name in named or (None,):
            number = optional_int("num_samples", _of(said, name), at_least=1)
            texts = _of(self.references, name)
            if number is not None and texts is not None and number != len(texts):
                raise ValueError(f"num_samples is {number}, but there are references for {len(texts)} rows.")
            sizes[name] = number if texts is None else len(texts)
        return sizes

    def _size_seen(self) -> int:
        """Return the number of samples where nobody has said it."""
        labels, length = self._evaluation.labels, self._evaluation.length
        if length is not None and length < len(labels):
            if repeats_beginning(labels, length):
                return length
            _warn(
                f"The data set has {length} samples and the Trainer passed {len(labels)} rows, the last of which do "
                f"not repeat the first; all are scored. num_samples= says what is right."
            )
        elif length is None and dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
            repeated = repeated_end(labels)
            if repeated:
                _warn(
                    f"The last {repeated} of {len(labels)} rows repeat the first, as on several processes "
                    f"Seq2SeqTrainer does to fill batches; all are scored. num_samples= says how many samples there "
                    f"are, or add the callback to the Trainer."
                )
        return len(labels)


def _callback(owner: ComputeBERTScore) -> Any:
    from transformers import TrainerCallback

    class ForgetBrokenEvaluations(TrainerCallback):
        """Resets when training goes on, and notes what is evaluated."""

        def on_prediction_step(
            self, args: Any, state: Any, control: Any, eval_dataloader: Any = None, **kwargs: Any
        ) -> None:
            """Note the data loader; another one is another evaluation."""
            owner._see(eval_dataloader, told=True)

        def _reset(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            owner.reset()

        on_train_begin = on_step_begin = on_train_end = on_evaluate = on_predict = _reset  # type: ignore[assignment]

    return ForgetBrokenEvaluations()


def _active_dataloader(*, at_end: bool) -> Any:
    """Return what accelerate iterates now: each evaluation with `batch_eval_metrics` has a data loader of its own.

    At its end the Trainer says so because accelerate does; otherwise it is one that was broken off, or the training's.
    """
    kind = getattr(sys.modules.get("accelerate.state"), "GradientState", None)
    state = None if kind is None else kind()
    if at_end and not getattr(state, "end_of_dataloader", False):
        return None
    return getattr(state, "active_dataloader", None)


def _length(dataloader: Any) -> int | None:
    dataset = getattr(dataloader, "dataset", None)
    if isinstance(dataset, torch.utils.data.IterableDataset) or not hasattr(dataset, "__getitem__"):
        return None
    try:
        return len(dataset)  # type: ignore[arg-type]
    except (TypeError, NotImplementedError):
        return None


def _of(value: Any, name: str | None) -> Any:
    """Return what is said about a data set: what is said about all, or what stands under its name."""
    return value.get(name) if isinstance(value, Mapping) else value


def _checked_references(references: Any) -> Any:
    """Return references as lists that can be counted; what they hold is checked when they are scored."""
    if references is None:
        return None
    if isinstance(references, Mapping):
        return {str(name): list(texts) for name, texts in references.items()}
    if isinstance(references, str):
        raise TypeError("references must be a sequence with an entry for each row, got one str.")
    return list(references)


def _warn(message: str) -> None:
    warnings.warn(message, BERTScoreWarning, stacklevel=6)
