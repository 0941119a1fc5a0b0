"""The line of a signature -> the settings that it names."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping
from typing import Any

from bertscore_metric import registry

# What a signature says about what was found, and not about what was chosen.
_FOUND = ("weights", "tokens", "transformers", "bertscore_metric")


def signature_settings(line: str, given: Collection[str] = ()) -> dict[str, Any]:
    """Return the settings that a signature names, by the names of `ScoreConfig`'s fields.

    Args:
        line: `key:value|key:value|...`; keys that are left out name no setting.
        given: settings that somebody knows in another way. What decides about them is then not read, so that a hash
            need not be understood; `lang` or `baseline_path` stands for the baseline.

    Raises:
        ValueError: no signature, an unknown key or value, or one from which the setting cannot be told (the hash of an
            idf table, of a baseline that no table has, a custom encoder); the message says what to give.
    """
    settings: dict[str, Any] = {}
    parts = _parts(line)
    for key, value in parts.items():
        if key in _READERS:
            name, read = _READERS[key]
            if name not in given:
                settings[name] = read(value)
    if not {"num_layers", "all_layers"} & {*given}:
        settings.update(_layer(parts.get("layer")))
    if "rescale_with_baseline" not in given:
        settings.update(_rescaling(parts, given))
    return settings


def _parts(line: str) -> dict[str, str]:
    known = [*_READERS, "layer", "rescale", *_FOUND]
    parts: dict[str, str] = {}
    for part in line.strip().split("|"):
        key, colon, value = part.partition(":")
        if not (colon and key and value):
            raise ValueError(f"Not a signature: {line!r}; expected key:value|key:value|...")
        if key in parts:
            raise ValueError(f"The signature {line!r} has {key!r} twice.")
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else "."
            raise ValueError(f"Unknown part {key!r} of a signature{hint} Known: {', '.join(known)}.")
        parts[key] = value
    return parts


def _idf(value: str) -> bool:
    if value in ("no", "corpus"):
        return value == "corpus"
    raise ValueError(
        f"idf:{value} in the signature is the hash of a table, from which its weights cannot be told; "
        f"give the texts or the table as idf."
    )


def _number(key: str) -> Callable[[str], int]:
    def read(value: str) -> int:
        if not value.isdecimal():
            raise ValueError(f"{key}:{value} in the signature is not a whole number.")
        return int(value)

    return read


def _limit(value: str) -> int | None:
    return None if value == "no" else _number("maxlen")(value)


def _one_of(key: str, meanings: Mapping[str, Any]) -> Callable[[str], Any]:
    def read(value: str) -> Any:
        if value not in meanings:
            raise ValueError(f"{key}:{value} in the signature is not known; it may be {', '.join(meanings)}.")
        return meanings[value]

    return read


def _layer(value: str | None) -> dict[str, Any]:
    if value is None:
        return {}
    if value == "own":
        raise ValueError(
            "layer:own in the signature is an encoder of somebody's own, which no setting names; a program can pass it "
            "as encoder= to BERTScorer."
        )
    return {"all_layers": True} if value == "all-raw" else {"num_layers": _number("layer")(value)}


def _rescaling(parts: Mapping[str, str], given: Collection[str]) -> dict[str, Any]:
    value = parts.get("rescale")
    if value is None:
        return {}
    if value == "no":
        return {"rescale_with_baseline": False}
    if {"lang", "baseline_path"} & {*given}:
        return {"rescale_with_baseline": True}
    model = parts.get("model", "a model without a name")
    lang = _language_of(value, model, **_layer(parts.get("layer")))
    if lang is None:
        raise ValueError(
            f"rescale:{value} in the signature is the hash of a baseline that the tables do not have for {model}; give "
            f"its file (baseline_path=...) or its language (lang=...)."
        )
    return {"rescale_with_baseline": True, "lang": lang}


def _language_of(value: str, model: str, num_layers: int | None = None, all_layers: bool = False) -> str | None:
    """Return the language whose baseline of this model and layer has the hash `value`."""
    from bertscore_metric.core.baseline import find_baseline  # imports torch

    for lang, _ in registry.baselines_for(model=model):
        rows = registry.baseline(lang, model) or {}
        depth = max(rows) if all_layers else None
        if not all_layers and num_layers not in rows:
            continue
        if find_baseline(lang=lang, model=model, num_layers=num_layers, depth=depth, path=None).name == value:
            return lang
    return None


_READERS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "model": ("model_name_or_path", str),
    "idf": ("idf", _idf),
    "dtype": ("dtype", str),
    "compiled": ("compile", _one_of("compiled", {"yes": True, "auto": "auto"})),
    "maxlen": ("max_length", _limit),
    "long": ("long_text", _one_of("long", {"windows": "windows"})),
    "special": ("match_special_tokens", _one_of("special", {"match": True, "skip": False})),
    "empty": ("empty", str),
}
