"""A tokenizer object as its owner holds it -> the transformers tokenizer in it, and a copy."""

from __future__ import annotations

import copy
import os
from typing import Any


def plain_tokenizer(given: Any, name: str = "tokenizer") -> Any:
    """Return the transformers tokenizer in what was given; of a processor or a pipeline, its `.tokenizer`.

    Args:
        given: a tokenizer, or an object that holds one.
        name: the argument's name, for the message.

    Raises:
        TypeError: there is no tokenizer of transformers in it; the message says what to pass.
    """
    kind = type(given)
    if isinstance(given, type):
        problem = f"the class {given.__name__}; make one of it: {given.__name__}.from_pretrained(...)."
    elif isinstance(given, str | os.PathLike):
        problem = f"{given!r}; load it: AutoTokenizer.from_pretrained({str(given)!r})."
    elif _is_tokenizer(given):
        return given
    elif _is_tokenizer(held := getattr(given, "tokenizer", None)):
        return held
    elif kind.__module__.partition(".")[0] == "tokenizers" or hasattr(given, "id_to_token"):
        problem = (
            f"a {kind.__name__} of tokenizers, which does not say which tokens are special; wrap it: "
            f"PreTrainedTokenizerFast(tokenizer_object=..., cls_token=..., sep_token=..., pad_token=...)."
        )
    else:
        problem = (
            f"a {kind.__name__}; load one with AutoTokenizer.from_pretrained. For another kind pass encoder= with a "
            f"transformers tokenizer that gives its ids."
        )
    raise TypeError(f"{name}= takes a tokenizer of transformers, got {problem}")


def tokenizer_copy(given: Any) -> Any:
    """Return a copy of the tokenizer in what was given, so that the owner's changes and ours do not meet.

    Raises:
        TypeError: as for `plain_tokenizer`, or it cannot be copied.
    """
    tokenizer = plain_tokenizer(given)
    try:
        return copy.deepcopy(tokenizer)
    except Exception as error:  # whatever an attribute raises that is not made to be copied
        raise TypeError(
            f"Cannot copy the tokenizer, a {type(tokenizer).__name__} ({error}). Take off what was put on it, or load "
            f"another one with AutoTokenizer.from_pretrained."
        ) from error


def _is_tokenizer(given: Any) -> bool:
    return hasattr(given, "all_special_ids")
