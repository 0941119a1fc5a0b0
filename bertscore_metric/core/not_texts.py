"""What people pass instead of texts -> what to pass."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

_TEXT_KEYS = ("generated_text", "summary_text", "translation_text", "text")
_CHAT = 'Of chat messages pass the text: c[-1]["content"] of a chat c, c["content"] of a message.'
_IDS = "Decode token ids first: tokenizer.batch_decode(ids, skip_special_tokens=True)."


def advice(value: Any) -> str:
    """Return a sentence with a space in front that says what to pass instead of `value`, "" where nobody can tell."""
    found = _of_mapping(value) if isinstance(value, Mapping) else _of_entry(value)
    return f" {found}" if found else ""


def _of_mapping(value: Mapping[Any, Any]) -> str:
    if "input_ids" in value:
        return _IDS.replace("ids,", 'batch["input_ids"],')
    if "content" in value:
        return _CHAT
    key = next((key for key in _TEXT_KEYS if isinstance(value.get(key), str)), None)
    return f'Pass c["{key}"] of each such entry c.' if key else ""


def _of_entry(value: Any) -> str:
    if isinstance(value, bytes | bytearray):
        return "Decode it first."
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return 'Use "" for a text that is missing.'
    if isinstance(value, str) or not isinstance(value, Iterable) or getattr(value, "ndim", 1) == 0:
        return f"Pass a number as text, str(value). {_IDS}" if hasattr(value, "__index__") else ""
    if str(getattr(value, "dtype", "")).removeprefix("torch.").startswith(("int", "uint")):
        return _IDS
    entries = value if isinstance(value, list | tuple) else ()
    first = entries[0] if entries else None
    if isinstance(first, Mapping):
        return advice(first).strip()
    if isinstance(first, str) and len(entries) == 1:
        return "Pass the text itself, c[0] of each such entry c."
    if isinstance(first, str):
        return 'Join tokens to a text: " ".join(c) of each such entry c.'
    if hasattr(first, "__index__") and not isinstance(first, bool):
        return _IDS
    return ""
