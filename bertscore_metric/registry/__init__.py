"""The data tables (layers per model, model per language, baselines) and their lookup.

A table is read on its first lookup and then kept; importing this module reads nothing. Where each number comes from is
written at the top of its table.
"""

import csv
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from types import MappingProxyType

__all__ = [
    "baseline",
    "baselines_for",
    "canonical_name",
    "default_layer",
    "known_languages",
    "known_models",
    "language_code",
    "model_for_language",
]

# Below difflib's own 0.6, because people write short codes for long names: "jp" and "japanese" reach 0.4. Codes keep
# 0.6: two two-letter codes that share a letter reach 0.5 and have nothing to do with each other.
_NEAREST_NAME = 0.4


def default_layer(model: str) -> int | None:
    """Return the layer whose scores agree best with human judgements for this model, None if nobody measured it.

    Args:
        model: hub name, of today or without its namespace.

    >>> default_layer("roberta-large"), default_layer("FacebookAI/roberta-large"), default_layer("unknown")
    (17, 17, None)
    """
    return known_models().get(canonical_name(model))


def canonical_name(model: str) -> str:
    """Return the name under which the tables know this model, the name itself if it is not an alias.

    Args:
        model: hub name or path.

    >>> canonical_name("google-bert/bert-base-uncased")
    'bert-base-uncased'
    """
    return _aliases().get(model, model)


def model_for_language(language: str) -> str:
    """Return the default model of a language.

    Args:
        language: ISO 639 code of two or three letters in any case, with or without a region: "en", "eng", "pt-BR",
            "zh_TW"; "en-sci" is English scientific text.

    Raises:
        TypeError: language is not a str.
        ValueError: the language is not in the table; the message names the nearest languages and codes.

    >>> model_for_language("pt-BR")
    'bert-base-multilingual-cased'
    """
    code = language_code(language)
    if code is None:
        raise ValueError(
            f"There is no default model for the language {language!r}{_nearest(language)}. Pass a code that "
            f"`bertscore-metric models` lists, or name the model yourself."
        )
    return known_languages()[code]


@cache
def known_languages() -> Mapping[str, str]:
    """Return the default model of every language in the table: language code -> model."""
    return MappingProxyType({code: model for code, (model, _) in _languages().items()})


@cache
def known_models() -> Mapping[str, int]:
    """Return the default layer of every model in the table: canonical model name -> layer."""
    return MappingProxyType({row["model"]: int(row["layer"]) for row in _rows("layers.tsv")})


def baseline(language: str, model: str) -> Mapping[int, tuple[float, float, float]] | None:
    """Return the baseline of a model for texts of a language, None if there is none.

    Args:
        language: as in `model_for_language`; a language that is not in the table has no baseline.
        model: as in `default_layer`.

    Returns:
        Layer -> (precision, recall, F1) of random pairs, for every layer from 0, the embedding output, to the last.

    Raises:
        TypeError: language is not a str.

    >>> baseline("en", "roberta-large")[17]
    (0.83150584, 0.8314941, 0.83122575)
    """
    code = language_code(language)
    return None if code is None else _baselines().get((code, canonical_name(model)))


def baselines_for(language: str | None = None, model: str | None = None) -> list[tuple[str, str]]:
    """Return the (language, model) pairs that have a baseline, sorted.

    Args:
        language: only those of this language, given as in `model_for_language`; None for all.
        model: only those of this model, given as in `default_layer`; None for all.

    Raises:
        TypeError: language is neither a str nor None.
    """
    pairs: Iterable[tuple[str, str]] = _baselines()
    if language is not None:
        wanted_code = language_code(language)
        pairs = [pair for pair in pairs if pair[0] == wanted_code]
    if model is not None:
        wanted_model = canonical_name(model)
        pairs = [pair for pair in pairs if pair[1] == wanted_model]
    return sorted(pairs)


def language_code(language: object) -> str | None:
    """Return the code under which the tables know a language, in any case and with or without a region; else None."""
    if not isinstance(language, str):
        raise TypeError(
            f"language must be a str, got {type(language).__name__} ({language!r}); pass a code such as 'en' or 'pt-BR'"
        )
    code = language.lower().replace("_", "-")
    while code and code not in _languages() and code not in _language_codes():
        code = code.rpartition("-")[0]
    return _language_codes().get(code, code) or None


def _nearest(language: str) -> str:
    languages = _languages()
    wanted = language.lower()
    code_of = {name.lower(): code for code, (_, name) in languages.items()}
    names = [wanted] if wanted in code_of else get_close_matches(wanted, code_of, cutoff=_NEAREST_NAME)
    codes = get_close_matches(wanted, languages)
    found = ""
    if names:
        found += "; nearest names: " + ", ".join(f"{languages[code_of[n]][1]} is {code_of[n]!r}" for n in names)
    if codes:
        found += "; nearest codes: " + ", ".join(f"{code!r} is {languages[code][1]}" for code in codes)
    return found


@cache
def _aliases() -> Mapping[str, str]:
    return MappingProxyType({row["alias"]: row["model"] for row in _rows("aliases.tsv")})


@cache
def _language_codes() -> Mapping[str, str]:
    return MappingProxyType({row["code"]: row["language"] for row in _rows("language_codes.tsv")})


@cache
def _languages() -> Mapping[str, tuple[str, str]]:
    return MappingProxyType({row["language"]: (row["model"], row["name"]) for row in _rows("languages.tsv")})


@cache
def _baselines() -> Mapping[tuple[str, str], Mapping[int, tuple[float, float, float]]]:
    layers: dict[tuple[str, str], dict[int, tuple[float, float, float]]] = {}
    for row in _rows("baselines.tsv"):
        values = float(row["precision"]), float(row["recall"]), float(row["f1"])
        layers.setdefault((row["language"], row["model"]), {})[int(row["layer"])] = values
    return MappingProxyType({pair: MappingProxyType(by_layer) for pair, by_layer in layers.items()})


def _rows(table: str) -> list[dict[str, str]]:
    text = files(__name__).joinpath(table).read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
