"""What a user says about evaluation sets, and which of them the rows of an evaluation are."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bertscore_metric import callers
from bertscore_metric.adapters.trainer_evaluation import Evaluation
from bertscore_metric.adapters.trainer_predictions import repeated_end, repeats_beginning
from bertscore_metric.checks import optional_int
from bertscore_metric.core.pairs import check_references
from bertscore_metric.warnings import BERTScoreWarning

NumSamples = int | Mapping[str, int] | Callable[..., Any]
References = Sequence[Any] | Mapping[str, Sequence[Any]]


class DataSets:
    """References and sizes of evaluation sets: said about all of them, or by name.

    Args:
        references: texts by row, a text or a group of texts each; or such sequences by name.
        num_samples: a number, numbers by name, or a function that returns one (it may take the `EvalPrediction`).

    Raises:
        TypeError, ValueError: no texts, no numbers, or numbers that are not those of the references.
    """

    def __init__(self, references: References | None, num_samples: NumSamples | None) -> None:
        self._references = _checked_references(references)
        self._num_samples = num_samples if callable(num_samples) else _checked_sizes(num_samples)
        if not callable(self._num_samples):
            self._sizes(None)

    @property
    def by_row(self) -> bool:
        """Whether there are references, which belong to rows."""
        return self._references is not None

    def references(self, name: str | None) -> list[list[str]] | None:
        """Return the references of a data set, a group for each row; `None` where its labels are used."""
        found: list[list[str]] | None = _of(self._references, name)
        return found

    def find(self, evaluation: Evaluation, selected: str | None, eval_prediction: Any) -> tuple[str | None, int]:
        """Return the name of the data set, where there are names, and its number of samples.

        Raises:
            ValueError: none of them, or several, can be what these rows are.
        """
        sizes = self._sizes(eval_prediction)
        rows, length = len(evaluation.labels), evaluation.length
        if selected is not None and None not in sizes:
            if selected not in sizes:
                raise ValueError(f"select({selected!r}) names none of the data sets {_listed(sizes)}.{_OTHERS}")
            sizes = {selected: sizes[selected]}
        elif len(sizes) > 1 and length in sizes.values():
            sizes = {name: size for name, size in sizes.items() if size == length}
        fitting = {name: size for name, size in sizes.items() if _fits(evaluation, size)}
        if not fitting:
            said = ", ".join(f"{size}" if name is None else f"{size} ({name})" for name, size in sizes.items())
            raise ValueError(
                f"The Trainer passed {rows} rows{'' if length is None else f' of a data set of {length}'}, which "
                f"cannot be {said} samples: none may be missing (dataloader_drop_last, other data), and only several "
                f"processes repeat rows, the first ones at the end.{'' if None in sizes else _OTHERS}"
            )
        if len(fitting) > 1 and (isinstance(self._references, Mapping) or len(set(fitting.values())) > 1):
            raise ValueError(
                f"The Trainer passed {rows} rows, which may be any of the data sets {_listed(fitting)}; call "
                f"select(name) before evaluating one. For a Trainer that evaluates several itself "
                f"(eval_dataset={{...}}), call it in the Trainer's get_eval_dataloader, which is given the name."
            )
        name, size = next(iter(fitting.items()))
        return name, _size_seen(evaluation) if size is None else size

    def _sizes(self, eval_prediction: Any) -> dict[str | None, int | None]:
        """Return what is said about the number of samples, by name of the data set."""
        said = self._num_samples
        if callable(said):
            said = _checked_sizes(said(eval_prediction) if inspect.signature(said).parameters else said())
        named: dict[str, Any] = {}
        for value in (self._references, said):
            if isinstance(value, Mapping):
                named |= value
        sizes: dict[str | None, int | None] = {}
        for name in named or (None,):
            number, texts = _of(said, name), _of(self._references, name)
            if number is not None and texts is not None and number != len(texts):
                raise ValueError(f"num_samples is {number}, but there are references for {len(texts)} rows.")
            sizes[name] = number if texts is None else len(texts)
        return sizes


_OTHERS = " Sets that are scored against their labels are named with their sizes in num_samples={name: size}."


def _fits(evaluation: Evaluation, size: int | None) -> bool:
    """Return whether so many samples can be these rows, without one that is left out."""
    rows = len(evaluation.labels)
    if size is None or size == rows:
        return True
    return evaluation.repeats and evaluation.length in (None, size) and repeats_beginning(evaluation.labels, size)


def _size_seen(evaluation: Evaluation) -> int:
    """Return the number of samples where nobody has said it."""
    labels, length = evaluation.labels, evaluation.length
    if length is not None and length < len(labels):
        if _fits(evaluation, length):
            return length
        warn(
            f"The data set has {length} samples and the Trainer passed {len(labels)} rows, the last of which do "
            f"not repeat the first to fill batches; all are scored. num_samples= says what is right."
        )
    elif length is None and evaluation.repeats:
        repeated = repeated_end(labels)
        if repeated:
            warn(
                f"The last {repeated} of {len(labels)} rows repeat the first, as on several processes "
                f"Seq2SeqTrainer does to fill batches; all are scored. num_samples= says how many samples there "
                f"are, or add the callback to the Trainer."
            )
    return len(labels)


def _of(value: Any, name: str | None) -> Any:
    """Return what is said about a data set: what is said about all, or what stands under its name."""
    return value.get(name) if isinstance(value, Mapping) else value


def _listed(sizes: Mapping[str | None, int | None]) -> str:
    return ", ".join(map(str, sizes))


def _checked_references(references: Any) -> Any:
    """Return references as groups of texts, a group for each row."""
    if references is None:
        return None
    if isinstance(references, Mapping):
        return {str(name): _groups(texts, f"references[{str(name)!r}]") for name, texts in references.items()}
    return _groups(references, "references")


def _groups(texts: Any, name: str) -> list[list[str]]:
    if isinstance(texts, str):
        raise TypeError(f"{name} must be a sequence with an entry for each row, got one str.")
    return check_references(texts, name)


def _checked_sizes(said: Any) -> Any:
    """Return numbers of samples as `int`, by name or not."""
    if isinstance(said, Mapping):
        return {str(name): optional_int(f"num_samples[{str(name)!r}]", size, at_least=1) for name, size in said.items()}
    return optional_int("num_samples", said, at_least=1)


def warn(message: str) -> None:
    """Warn the user of a Trainer."""
    callers.warn(message, BERTScoreWarning)
