"""What a training loop predicts -> rows of token ids: pure functions on tensors and lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

IGNORED = -100  # what Trainers pad with, and mark with what is not to be learnt

Row = list[int]


@dataclass(frozen=True)
class Prediction:
    """What `transformers.EvalPrediction` holds, for callers that pass a tuple."""

    predictions: Any
    label_ids: Any
    inputs: Any = None


def as_prediction(value: Any) -> Any:
    """Return what a Trainer passes with its parts by name; a tuple is `(predictions, label_ids)`, and maybe the inputs.

    Raises:
        TypeError: neither an `EvalPrediction` nor such a tuple.
    """
    if isinstance(value, tuple) and len(value) in (2, 3):
        return Prediction(*value)
    if not hasattr(value, "predictions") or not hasattr(value, "label_ids"):
        got = f"a tuple of {len(value)}" if isinstance(value, tuple) else type(value).__name__
        raise TypeError(f"Pass an EvalPrediction or a tuple (predictions, label_ids); got {got}.")
    return value


def different_rows(n_rows: int, n_labels: int) -> str:
    """Return what to say where there are not as many predictions as labels."""
    message = f"Got {n_rows} rows of predictions for {n_labels} rows of label_ids."
    if n_labels and n_rows > n_labels and n_rows % n_labels == 0:
        n = n_rows // n_labels
        message += (
            f" If the model generates several texts for each (num_return_sequences={n}), set num_return_sequences=1 in "
            f"its generation_config, for one text of each is scored; to score all, repeat each reference and use "
            f"BERTScorer."
        )
    return message


def first_output(values: Any) -> Any:
    """Return what a model's output begins with, where it is a tuple of several things (logits, encoder states, ...)."""
    while isinstance(values, tuple) and values and not _is_row(values[0]):
        values = values[0]
    return values


def to_batches(values: Any, name: str) -> list[Any]:
    """Return ids or logits as batches.

    Args:
        values: ids [row, token] or logits [row, token, vocabulary] as an array of numpy or torch, a tuple that begins
            with them, a list of batches, or a list of rows of any length.
        name: what the caller calls them, for the messages.

    Returns:
        Tensors [row, token] or [row, token, vocabulary], or lists of rows.

    Raises:
        TypeError, ValueError: something else.
    """
    values = first_output(values)
    if _is_array(values) and not _holds_objects(values):
        read_only = not getattr(getattr(values, "flags", None), "writeable", True)
        tensor = torch.as_tensor(values.copy() if read_only else values)
        if tensor.ndim not in (2, 3):
            raise ValueError(
                f"{name} must be ids [row, token] or logits [row, token, vocabulary], got shape {list(tensor.shape)}."
            )
        return [tensor]
    if not isinstance(values, list | tuple) and not _is_array(values):
        raise TypeError(f"{name} must be arrays or lists of ids, got {type(values).__name__}.")
    if all(_is_row(value) for value in values):
        return [list(values)]
    return [batch for value in values for batch in to_batches(value, name)]


def is_logits(batch: Any) -> bool:
    """Return whether a batch is [row, token, vocabulary]."""
    return isinstance(batch, Tensor) and batch.ndim == 3


def to_rows(batches: Sequence[Any], name: str) -> list[Row]:
    """Return the ids of each row of all batches, also where they are floats; ids below 0 are still there.

    Raises:
        TypeError: fractions, text, or anything else that is not an id.
    """
    rows: list[Row] = []
    for batch in batches:
        if isinstance(batch, Tensor):
            rows += _whole(batch, name).tolist()
        else:
            rows += [_whole(_tensor(row, name), name).tolist() for row in batch]
    return rows


def kept(row: Row) -> Row:
    """Return a row without ids below 0, wherever they stand."""
    return [token for token in row if token >= 0]


def aligned_ids(logits: Tensor, labels: Any, *, shift: bool, pad_id: int | None) -> Tensor:
    """Return the ids that logits choose, in the places of the labels that they predict.

    Args:
        logits: [row, token, vocabulary].
        labels: [row, token]; `None` where there are none, and every place counts.
        shift: the logits of a place predict the label of the next one, as in models without an encoder.
        pad_id: labels that stand for no token, beside those below 0.

    Returns:
        [row, token] int64, -100 where there is no label, and where no logits predict it.

    Raises:
        ValueError: logits and labels are not of the same places.
    """
    ids = logits.argmax(-1)
    if labels is not None:
        labels = torch.as_tensor(labels, device=ids.device)
        if ids.shape != labels.shape:
            raise ValueError(
                f"Got logits of the places {list(ids.shape)} and labels of {list(labels.shape)} [row, token], which "
                f"must be the same; generate instead (predict_with_generate=True), or cut them in "
                f"preprocess_logits_for_metrics."
            )
    if shift:
        ids = ids.roll(1, 1)
        ids[:, :1] = IGNORED
    if labels is None:
        return ids
    unlabelled = labels < 0
    if pad_id is not None:
        unlabelled |= labels == pad_id
    return ids.masked_fill(unlabelled, IGNORED)


def without_prompts(rows: Sequence[Row], prompts: Sequence[Row]) -> list[Row]:
    """Return what follows the prompt in each row.

    Args:
        rows: what a model generated, with the prompt.
        prompts: what it was given, padding included.

    Raises:
        ValueError: a row does not begin with its prompt.
    """
    for index, (row, prompt) in enumerate(zip(rows, prompts, strict=True)):
        if row[: len(prompt)] != prompt:
            raise ValueError(
                f"predictions[{index}] does not begin with its prompt; decoder_only=True is for models that continue a "
                f"prompt and return it."
            )
    return [row[len(prompt) :] for row, prompt in zip(rows, prompts, strict=True)]


def vocabulary_size(tokenizer: Any, largest: int) -> int | None:
    """Return how many ids a tokenizer knows, `None` if it does not say; exact where `largest` is not below its length.

    Some vocabularies have gaps, and then ids above their length.
    """
    vocabulary = getattr(tokenizer, "tokenizer", tokenizer)  # a processor has one
    if not hasattr(vocabulary, "get_vocab") or not hasattr(vocabulary, "__len__"):
        return None
    size = len(vocabulary)
    return size if largest < size else max(size, 1 + max(vocabulary.get_vocab().values(), default=0))


def _is_array(value: Any) -> bool:
    return hasattr(value, "ndim") and hasattr(value, "dtype")


def _holds_objects(array: Any) -> bool:
    return getattr(array.dtype, "kind", "") == "O"


def _is_row(value: Any) -> bool:
    if _is_array(value):
        return bool(value.ndim == 1) and not _holds_objects(value)
    return isinstance(value, list | tuple) and not any(_is_array(v) or isinstance(v, list | tuple) for v in value)


def _tensor(row: Any, name: str) -> Tensor:
    try:
        return torch.as_tensor(row) if len(row) else torch.empty(0, dtype=torch.int64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{name} must be token ids: {error}") from error


def _whole(ids: Tensor, name: str) -> Tensor:
    finite = bool(ids.isfinite().all())
    if not finite or ids.is_complex() or (ids.is_floating_point() and not bool((ids == ids.round()).all())):
        got = "fractions" if finite else "NaN or infinity"
        raise TypeError(
            f"{name} [row, token] must be token ids, got {got}: generate (predict_with_generate=True), or pass logits "
            f"[row, token, vocabulary]."
        )
    return ids.long()
