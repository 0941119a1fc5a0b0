"""Checks of single arguments, which return the value as the type it should have or say what is wrong with it."""

from __future__ import annotations

import operator
import os
from typing import Any


def optional_text(name: str, value: object) -> str | None:
    """Return a text or path as `str`, `None` as it is, or say what is wrong with it."""
    if value is None:
        return None
    if not isinstance(value, str | os.PathLike):
        hint = " In YAML, words such as no need quotes." if isinstance(value, bool) else ""
        raise TypeError(f"{name} must be a str, got {type(value).__name__}.{hint}")
    text = os.fspath(value)
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"{name} is empty; leave it out or name one.")
    return text


def optional_int(name: str, value: Any, *, at_least: int) -> int | None:
    """Return a whole number (also numpy's) as `int`, `None` as it is, or say what is wrong with it."""
    if value is None:
        return None
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an int, got {type(value).__name__}.")
    number = operator.index(value)
    if number < at_least:
        raise ValueError(f"{name} must be at least {at_least}, got {number}.")
    return number


def byte_count(name: str, value: Any) -> int:
    """Return a number of bytes as `int`, or say what is wrong with it."""
    number = optional_int(name, value, at_least=0)
    if number is None:
        raise TypeError(f"{name} must be a number of bytes, 0 for none; got None.")
    return number


def is_bool(value: object) -> bool:
    """Return whether a value is True or False, also numpy's."""
    return isinstance(value, bool) or (type(value).__name__ in ("bool", "bool_") and hasattr(value, "dtype"))  # numpy's


def boolean(name: str, value: object) -> bool:
    """Return True or False (also numpy's) as `bool`, or say what is wrong with it."""
    if not is_bool(value):
        raise TypeError(f"{name} must be True or False, got {type(value).__name__}.")
    return bool(value)


def check_choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Refuse what is not one of the allowed values."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}; got {value!r}.")
