"""Arguments of torchmetrics' own `BERTScore` -> ours, or an error that says what to use instead."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from bertscore_metric.config import nearest
from bertscore_metric.models.given_tokenizer import plain_tokenizer

# Those of `torchmetrics.Metric`.
METRIC_ARGUMENTS = (
    "compute_on_cpu", "compute_with_cache", "dist_sync_fn", "dist_sync_on_step", "distributed_available_fn",
    "process_group", "sync_on_compute",
)  # fmt: skip


def one_tokenizer(user_tokenizer: Any, tokenizer: Any) -> Any:
    """Return the tokenizer that was given under either name.

    Raises:
        ValueError: both were given.
        TypeError: it is none of transformers.
    """
    if user_tokenizer is not None and tokenizer is not None:
        raise ValueError("user_tokenizer and tokenizer are two names for one argument; give one of them.")
    if user_tokenizer is not None:
        return plain_tokenizer(user_tokenizer, "user_tokenizer")
    return None if tokenizer is None else plain_tokenizer(tokenizer)


def long_text_rule(long_text: str | None, truncation: bool | None) -> str:
    """Return what `long_text` or torchmetrics' `truncation` asks for.

    Raises:
        ValueError: both were given.
    """
    if long_text is not None and truncation is not None:
        raise ValueError("truncation and long_text say the same; give one of them.")
    if truncation is not None:
        return "truncate" if truncation else "error"
    return "truncate" if long_text is None else long_text


def refuse_arguments(user_forward_fn: Any, baseline_url: Any) -> None:
    """Refuse arguments of torchmetrics' class that cannot be obeyed, and say what to use instead.

    Raises:
        ValueError: one was given.
    """
    if user_forward_fn is not None:
        raise ValueError(
            "user_forward_fn is not supported: pass encoder=, an object with embed(tokens) -> [text, token, dim] and "
            "fingerprint, together with tokenizer= (see bertscore_metric.Encoder)."
        )
    if baseline_url is not None:
        raise ValueError("baseline_url is not supported: download the file and pass baseline_path=FILE.")


def unknown_argument(name: str, constructor: Callable[..., None]) -> str:
    """Return what to say of an argument that the metric does not have."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    own = [one for one, parameter in inspect.signature(constructor).parameters.items() if parameter.kind in kinds]
    known = [one for one in own if one != "self"]
    return (
        f"Unknown setting {name!r}{nearest(name, [*known, *METRIC_ARGUMENTS])} Known: {', '.join(known)}; and those of "
        f"torchmetrics.Metric: {', '.join(METRIC_ARGUMENTS)}."
    )
