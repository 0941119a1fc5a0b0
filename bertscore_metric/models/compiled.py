"""A model's compiled form, tried before it is used."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor

from bertscore_metric.models.probe import NOISE, same_embeddings


class CompiledModel:
    """Calls a model, compiled at the first batch: inductor, weights frozen and packed, sizes left open.

    The first compiled output is compared with the plain one on the same batch. Where compiling fails (no compiler, an
    architecture that inductor cannot take) or the outputs differ by more than rounding, the model runs as it is, and
    `error` says why. A batch of one text always runs as it is: it would need kernels of its own.

    Args:
        model: a transformers model, with its first blocks only.
        dtype: `float32`, `tf32`, `bfloat16` or `float16`; says what counts as rounding.
    """

    def __init__(self, model: Any, *, dtype: str) -> None:
        self.error: str | None = None
        self._model = model
        self._compiled: Any = None
        self._noise = NOISE[dtype]

    def __call__(self, **arguments: Any) -> Any:
        """Return the model's output for a batch.

        Args:
            arguments: `input_ids` [text, token] and others by name.
        """
        ids = arguments["input_ids"]
        if self.error is not None or len(ids) == 1:
            return self._model(**arguments)
        if self._compiled is None:
            output = self._model(**arguments)
            self._compile(arguments, output)
            return output
        try:
            return self._run(self._compiled, arguments)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # whatever inductor raises at sizes that it did not see before
            output = self._model(**arguments)  # raises what is the model's own fault
            self._give_up(error)
            return output

    def _compile(self, arguments: dict[str, Any], plain: Any) -> None:
        # Models of one class share code, and torch counts how often code is compiled, unless told to keep them apart.
        settings: dict[str, Any] = {"dynamic": True}
        if "isolate_recompiles" in inspect.signature(torch.compile).parameters:
            settings["isolate_recompiles"] = True
        try:
            compiled = torch.compile(self._model, backend="inductor", **settings)
            output = self._run(compiled, arguments)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            self._give_up(error)
            return
        mask = arguments.get("attention_mask")
        kept = slice(None) if mask is None else mask.bool()
        for one, other in zip(_embeddings(plain), _embeddings(output), strict=True):
            if not same_embeddings(one[kept], other[kept], self._noise):
                self._give_up(ArithmeticError("compiled, it gives other embeddings"))
                return
        self._compiled = compiled

    @staticmethod
    def _run(compiled: Any, arguments: dict[str, Any]) -> Any:
        from torch._inductor import config

        # Dynamo asks this global setting, and not the options of `torch.compile`, when it makes weights constants.
        with config.patch(freezing=True):
            return compiled(**arguments)

    def _give_up(self, error: Exception) -> None:
        self._compiled = None
        said = " ".join(str(error).split()) or type(error).__name__
        self.error = said.partition(" Set TORCHDYNAMO_VERBOSE")[0][:200].rstrip(". ")


def _embeddings(output: Any) -> tuple[Tensor, ...]:
    hidden = getattr(output, "hidden_states", None)
    return (output.last_hidden_state,) if hidden is None else tuple(hidden)
