"""A model's compiled form: made at once, or as soon as it pays, and tried before it is used."""

from __future__ import annotations

import inspect
import time
from typing import Any

import torch
from torch import Tensor

from bertscore_metric.models.probe import NOISE, same_embeddings

# Measured with inductor on two cores (`python -m tests.benchmarks`); a smaller gain or a longer wait than expected
# costs a run some of what it would have saved, and a larger one nothing.
SAVED = 0.12  # of the time of the encoder
BASE_SECONDS, SECONDS_A_LAYER = 10.0, 3.0  # of compiling
_TIMED_BATCHES = 8


def pays(seconds_per_token: float, n_tokens: int, depth: int) -> bool:
    """Return whether compiling takes less time than it saves.

    Args:
        seconds_per_token: what the model takes uncompiled.
        n_tokens: how many tokens are still to come.
        depth: blocks of the model.

    Example:
        >>> pays(85e-6, 1_000_000, 6), pays(85e-6, 10_000_000, 6)
        (False, True)
    """
    return SAVED * seconds_per_token * n_tokens > BASE_SECONDS + SECONDS_A_LAYER * depth


class CompiledModel:
    """Calls a model, compiled from when that is wanted on: inductor, weights frozen and packed, sizes left open.

    The first compiled output is compared with the plain one on the same batch. Where compiling fails (no compiler, an
    architecture that inductor cannot take) or the outputs differ by more than rounding, the model runs as it is, and
    `error` says why. A batch of one text always runs as it is: it would need kernels of its own.

    Args:
        model: a transformers model, with its first blocks only.
        when: `True` for the first batch, `"auto"` for when it pays: a run is expected to go on for the tokens that are
            announced, or else for as long as it has lasted.
        depth: how many blocks run.
        dtype: `float32`, `tf32`, `bfloat16` or `float16`; says what counts as rounding.
    """

    def __init__(self, model: Any, *, when: bool | str, depth: int, dtype: str) -> None:
        self.error: str | None = None
        self._model = model
        self._compiled: Any = None
        self._when = when
        self._depth = depth
        self._noise = NOISE[dtype]
        self._past = self._ahead = self._timed_tokens = 0
        self._seconds: list[float] = []

    def expect(self, n_tokens: int) -> None:
        """Be told how many tokens the next calls will bring."""
        self._ahead = n_tokens

    def __call__(self, **arguments: Any) -> Any:
        """Return the model's output for a batch.

        Args:
            arguments: `input_ids` [text, token] and others by name.
        """
        ids = arguments["input_ids"]
        if self.error is not None or len(ids) == 1:
            return self._model(**arguments)
        if self._compiled is None:
            output = self._timed(arguments)
            if self._when is True or self._pays():
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

    def _timed(self, arguments: dict[str, Any]) -> Any:
        n_tokens = arguments["input_ids"].numel()
        begin = time.perf_counter()
        output = self._model(**arguments)
        self._past += n_tokens
        self._ahead -= n_tokens
        if len(self._seconds) < _TIMED_BATCHES:
            if arguments["input_ids"].device.type == "cuda":
                torch.cuda.synchronize(arguments["input_ids"].device)
            self._seconds.append(time.perf_counter() - begin)
            self._timed_tokens += n_tokens
        return output

    def _pays(self) -> bool:
        pace = sum(self._seconds) / self._timed_tokens
        return len(self._seconds) == _TIMED_BATCHES and pays(pace, max(self._ahead, self._past), self._depth)

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
