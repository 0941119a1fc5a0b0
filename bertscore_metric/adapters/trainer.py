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
from itertools import cycle, islice
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from bertscore_metric.config import ScoreConfig, optional_int
from bertscore_metric.encoder import Encoder
from bertscore_metric.model import BERTScoreWarning
from bertscore_metric.pairs import parse_segments
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
    labels: list[str] = field(default_factory=list)
    dataloader: Callable[[], Any] = lambda: None  # weak reference to what accelerate iterates, where it does
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
        ended = True
        try:
            self._forget_stale_rows()
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
        return {**self.__dict__, "_evaluation": _Evaluation(), "_aligned": False}

    def _see(self, dataloader: Any) -> None:
        """Note what is iterated now; rows from anything else are of an evaluation that was broken off."""
        evaluation = self._evaluation
        if evaluation.candidates and evaluation.dataloader() is not dataloader:
            logger.warning("Forgetting %d rows of an evaluation that was broken off.", len(evaluation.candidates))
            self._evaluation = evaluation = _Evaluation()
        if dataloader is not None:
            evaluation.dataloader = weakref.ref(dataloader)
            evaluation.length = _length(dataloader)

    def _forget_stale_rows(self) -> None:
        if self._evaluation.candidates or self._evaluation.length is None:
            self._see(_active_dataloader())

    def _take(self, eval_prediction: Any) -> None:
        """Decode rows and keep their texts."""
        batches = _batches(eval_prediction.predictions, "predictions")
        if eval_prediction.label_ids is None:
            label_batches: list[Any] = []
        else:
            label_batches = _batches(eval_prediction.label_ids, "label_ids")
        logits = any(isinstance(batch, Tensor) and batch.ndim == 3 for batch in batches)
        if logits:
            if len(batches) != len(label_batches):
                raise ValueError(f"Got {len(batches)} batches of logits for {len(label_batches)} batches of label_ids.")
            batches = [self._align(*pair) for pair in zip(batches, label_batches, strict=True)]
        rows = [row for batch in batches for row in _rows(batch, "predictions")]
        labels = [row for batch in label_batches for row in _rows(batch, "label_ids")]
        if not label_batches:
            labels = [[] for _ in rows]
        if len(rows) != len(labels):
            raise ValueError(f"Got {len(rows)} rows of predictions for {len(labels)} rows of label_ids.")
        if self.decoder_only and (logits or self._aligned):
            labels = [row[1:] for row in labels]  # no logits predict the first token
        elif self.decoder_only:
            rows = self._without_prompts(rows, eval_prediction)
        self._evaluation.candidates += self._decode(rows)
        self._evaluation.labels += self._decode(labels)

    def _align(self, logits: Tensor, labels: Any) -> Tensor:
        """Return the ids that logits choose, in the place of the labels they predict; -100 where there is no label."""
        labels = torch.as_tensor(labels, device=logits.device)
        ids = logits.argmax(-1)
        if ids.shape != labels.shape:
            raise ValueError(
                f"Got logits for {list(ids.shape)} [row, token] and labels {list(labels.shape)}, which must be the same "
                f"places; generate instead (predict_with_generate=True), or cut the logits in "
                f"preprocess_logits_for_metrics."
            )
        if self.decoder_only:
            ids = ids.roll(1, 1)
            ids[:, :1] = IGNORED
        unlabelled = labels < 0
        pad = getattr(self.tokenizer, "pad_token_id", None)
        if pad is not None and pad != getattr(self.tokenizer, "eos_token_id", None):
            unlabelled |= labels == pad
        return ids.masked_fill(unlabelled, IGNORED)

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
        prompts = [_kept(row) for batch in _batches(inputs, "inputs") for row in _rows(batch, "inputs")]
        if len(prompts) != len(rows):
            raise ValueError(
                f"Got {len(rows)} rows of predictions and {len(prompts)} prompts: on several processes the Trainer passes "
                f"only its own inputs with batch_eval_metrics=True. Switch it off, or set prompt_length."
            )
        for index, (row, prompt) in enumerate(zip(rows, prompts, strict=True)):
            if row[: len(prompt)] != prompt:
                raise ValueError(
                    f"predictions[{index}] does not begin with its prompt; decoder_only=True is for models that continue "
                    f"a prompt and return it."
                )
        return [row[len(prompt) :] for row, prompt in zip(rows, prompts, strict=True)]

    def _decode(self, rows: list[Row]) -> list[str]:
        if not rows:
            return []
        return list(self.tokenizer.batch_decode([_kept(row) for row in rows], skip_special_tokens=True))

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
                    f"Processes {rank} and {other} have different rows; distributed=True needs rows that the Trainer has "
                    f"gathered."
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
        references = self.references[name] if isinstance(self.references, Mapping) else self.references  # type: ignore[index]
        if references is None:
            references = evaluation.labels
        return evaluation.candidates[:n], list(islice(references, n))

    def _dataset(self, eval_prediction: Any) -> tuple[str | None, int]:
        """Return the name of the data set, where there are names, and its number of samples.

        Raises:
            ValueError: none of them, or several, can be what these rows are.
        """
        sizes = self._sizes(eval_prediction)
        n_rows, length = len(self._evaluation.labels), self._evaluation.length
        if self.dataset is not None and self.dataset in sizes:
            sizes = {self.dataset: sizes[self.dataset]}
        elif len(sizes) > 1 and length in sizes.values():
            sizes = {name: size for name, size in sizes.items() if size == length}
        fitting = {name: size for name, size in sizes.items() if size is None or self._is_whole(size)}
        if not fitting:
            said = ", ".join(f"{size}" if name is None else f"{size} ({name})" for name, size in sizes.items())
            raise ValueError(
                f"The Trainer passed {n_rows} rows, which cannot be {said} samples: beyond them the first rows must be "
                f"repeated, and none may be missing (dataloader_drop_last, an evaluation that was broken off)."
            )
        if len(fitting) > 1 and (isinstance(self.references, Mapping) or len(set(fitting.values())) > 1):
            raise ValueError(
                f"The Trainer passed {n_rows} rows, which may be the data sets {', '.join(map(str, fitting))}; call "
                f"select(name) before evaluating one, or use a ComputeBERTScore for each."
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
            counts = [self.references[name] if isinstance(self.references, Mapping) else self.references]  # type: ignore[index]
            numbers = [optional_int("num_samples", said.get(name) if isinstance(said, Mapping) else said, at_least=1)]
            numbers += [len(texts) for texts in counts if texts is not None]
            known = {number for number in numbers if number is not None}
            if len(known) > 1:
                raise ValueError(f"num_samples is {numbers[0]}, but there are references for {numbers[1]} rows.")
            sizes[name] = next(iter(known), None)
        return sizes

    def _is_whole(self, n: int) -> bool:
        """Return whether rows are so many samples, and the first ones again to fill batches."""
        labels = self._evaluation.labels
        if n > len(labels) or (n == 0 and labels):
            return False
        return all(row == first for row, first in zip(labels[n:], cycle(labels[:n]), strict=False))

    def _size_seen(self) -> int:
        """Return the number of samples where nobody has said it."""
        labels, length = self._evaluation.labels, self._evaluation.length
        if length is not None and length < len(labels):
            if self._is_whole(length):
                return length
            _warn(
                f"The data set has {length} samples and the Trainer passed {len(labels)} rows, the last of which do not "
                f"repeat the first; all are scored. num_samples= says what is right."
            )
        elif length is None and dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
            last = next((n for n in range(1, len(labels) // 2 + 1) if labels[-n:] == labels[:n]), None)
            if last is not None:
                _warn(
                    f"The last {last} of {len(labels)} rows repeat the first, as on several processes Seq2SeqTrainer does "
                    f"to fill batches; all are scored. num_samples= says how many samples there are, or add the "
                    f"callback to the Trainer."
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
            owner._see(eval_dataloader)

        def _reset(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            owner.reset()

        on_train_begin = on_step_begin = on_train_end = on_evaluate = on_predict = _reset

    return ForgetBrokenEvaluations()


def _active_dataloader() -> Any:
    """Return what accelerate iterates now: each evaluation with `batch_eval_metrics` has a data loader of its own."""
    state = getattr(sys.modules.get("accelerate.state"), "GradientState", None)
    return None if state is None else getattr(state(), "active_dataloader", None)


def _length(dataloader: Any) -> int | None:
    dataset = getattr(dataloader, "dataset", None)
    if isinstance(dataset, torch.utils.data.IterableDataset) or not hasattr(dataset, "__getitem__"):
        return None
    try:
        return len(dataset)  # type: ignore[arg-type]
    except (TypeError, NotImplementedError):
        return None


def _first(values: Any) -> Any:
    """Return what a model's output begins with, where it is several things."""
    while isinstance(values, tuple) and values and not _is_row(values[0]):
        values = values[0]
    return values


def _batches(values: Any, name: str) -> list[Any]:
    """Return batches: tensors [row, token] or [row, token, vocabulary], or lists of rows of any length."""
    values = _first(values)
    if _is_array(values) and getattr(values, "dtype", None) != object:
        tensor = torch.as_tensor(values)
        if tensor.ndim not in (2, 3):
            raise ValueError(
                f"{name} must be ids [row, token] or logits [row, token, vocabulary], got shape {list(tensor.shape)}."
            )
        return [tensor]
    if not isinstance(values, list | tuple) and not _is_array(values):
        raise TypeError(f"{name} must be arrays or lists of ids, got {type(values).__name__}.")
    if all(_is_row(value) for value in values):
        return [list(values)]
    return [batch for value in values for batch in _batches(value, name)]


def _is_array(value: Any) -> bool:
    return hasattr(value, "ndim") and hasattr(value, "dtype")


def _is_row(value: Any) -> bool:
    if _is_array(value):
        return bool(value.ndim == 1 and value.dtype != object)
    return isinstance(value, list | tuple) and not any(_is_array(v) or isinstance(v, list | tuple | str) for v in value)


def _rows(batch: Any, name: str) -> list[Row]:
    """Return the ids of each row, also where they are floats; ids below 0 are still there."""
    if isinstance(batch, Tensor):
        return _whole(batch, name).tolist()  # type: ignore[no-any-return]
    return [_whole(torch.as_tensor(row), name).tolist() if len(row) else [] for row in batch]


def _whole(ids: Tensor, name: str) -> Tensor:
    if ids.is_complex() or (ids.is_floating_point() and not bool((ids == ids.round()).all())):
        raise TypeError(
            f"{name} [row, token] must be token ids, got fractions: generate (predict_with_generate=True), or pass logits "
            f"[row, token, vocabulary]."
        )
    return ids.long()


def _kept(row: Row) -> Row:
    return [token for token in row if token >= 0]


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
