"""What a user says about evaluation sets: their references and their numbers of samples, of all of them or by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bertscore_metric.checks import optional_int
from bertscore_metric.core.pairs import check_references

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
            for name in _names(self._references, self._num_samples) or (None,):
                self.n_samples(name, None, None)

    @property
    def by_row(self) -> bool:
        """Whether there are references, which belong to rows."""
        return self._references is not None

    def references(self, name: str | None) -> list[list[str]] | None:
        """Return the references of a data set, a group for each row; `None` where its labels are used."""
        found: list[list[str]] | None = _of(self._references, name)
        return found

    def n_samples(self, name: str | None, length: int | None, eval_prediction: Any) -> int | None:
        """Return how many rows of a data set are samples, `None` where nobody has said it.

        Args:
            name: of the data set, as `select` was told; `None` where it has none.
            length: of the data set, where the callback has looked it up.
            eval_prediction: what a function that was given as `num_samples` may take.

        Raises:
            ValueError: the data sets have names and none of them was selected, or what is said does not agree.
        """
        said = self._num_samples
        if callable(said):
            said = _checked_sizes(said(eval_prediction) if inspect.signature(said).parameters else said())
        names = _names(self._references, said)
        if names and name not in names:
            selected = "None of them was selected" if name is None else f"select({name!r}) names none of them"
            raise ValueError(
                f"references or num_samples are given by name, for {', '.join(names)}. {selected}: call "
                f"select(name) before evaluating one. For a Trainer that evaluates several itself "
                f"(eval_dataset={{...}}), call it in the Trainer's get_eval_dataloader, which is given the name."
            )
        number, texts = _of(said, name), _of(self._references, name)
        known = {
            "num_samples says": number,
            "there are references for": None if texts is None else len(texts),
            "the data set has": length,
        }
        numbers = [n for n in known.values() if n is not None]
        if len(set(numbers)) > 1:
            parts = ", ".join(f"{what} {n}" for what, n in known.items() if n is not None)
            raise ValueError(f"The number of samples is not clear: {parts} rows; they must agree.")
        return numbers[0] if numbers else None


def _names(*said: Any) -> list[str]:
    return list(dict.fromkeys(name for value in said if isinstance(value, Mapping) for name in value))


def _of(value: Any, name: str | None) -> Any:
    """Return what is said about a data set: what is said about all, or what stands under its name."""
    return value.get(name) if isinstance(value, Mapping) else value


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
