"""The core's words -> the command line's: settings become options, in errors and in warnings."""

from __future__ import annotations

import re

# Settings whose option has another name than they; all others are spelled alike, with dashes.
_OPTIONS = {
    "model_name_or_path": "--model",
    "rescale_with_baseline": "--rescale",
    **{
        name: "--" + name.replace("_", "-")
        for name in (
            "num_layers", "lang", "idf", "baseline_path", "max_length", "long_text", "dtype", "compile",
            "match_special_tokens", "empty", "revision", "trust_remote_code", "batch_size", "device", "resamples",
            "pairs", "by", "top", "utility",
        )
    },
}  # fmt: skip
_FLAGS = {
    "idf=True": "--idf",
    "rescale_with_baseline=True": "--rescale",
    "trust_remote_code=True": "--trust-remote-code",
    "match_special_tokens=False": "--no-match-special-tokens",
    "use_safetensors=False": "--pickled-weights",
}
# What only a program can do has no option; what is said instead of it.
_PHRASES = {
    ", or pass model= and tokenizer= objects": "",
    "give it one: IdfTable(weights, default=...), or a collections.defaultdict": 'give it one under the key "default"',
    "leave device out": "leave --device out",
    "give the texts or the table as idf": "give the texts with --idf-texts or the table with --idf-table",
    ", or pass your own encoder=.": ".",
    "Pass your own encoder= instead.": "Only a program can pass an encoder of its own instead.",
    "an argument of BERTScorer and not a setting": "an option, where the command has it, and not a setting",
}
_WORDS = {name for name in _OPTIONS if "_" not in name}  # also plain English, so not options wherever they stand
_NAMES = "|".join(sorted(_OPTIONS, key=len, reverse=True))
_PATTERN = re.compile(
    r"(?P<quoted>(?<!\w)(?:'[^']*'|\"[^\"]*\")(?!\w))"
    rf"|(?P<flag>\b(?:{'|'.join(_FLAGS)})\b)"
    rf"|(?<![\w./-])(?P<name>{_NAMES})(?:=(?P<value>'[^']*'|\.\.\.|\w+)|(?P<bare>(?![\w/=-]|\.\w)))"
)


class FileError(ValueError):
    """What is wrong in a file of settings, whose words are those of the settings."""


def translated(message: str) -> str:
    """Return a message of the core in the words of the command line; quoted names and texts stay as they are.

    Example:
        >>> translated("Name a model (model_name_or_path='offline'), or set long_text='windows'.")
        'Name a model (--model offline), or set --long-text windows.'
        >>> translated("No file 'num_layers.txt'.")
        "No file 'num_layers.txt'."
    """
    return _PATTERN.sub(_option, phrased(message))


def phrased(message: str) -> str:
    """Return a message without what only a program can do; names of settings stay."""
    for phrase, instead in _PHRASES.items():
        message = message.replace(phrase, instead)
    return message


def _option(match: re.Match[str]) -> str:
    name = match["name"]
    if match["quoted"]:
        return match[0]
    if match["flag"]:
        return _FLAGS[match["flag"]]
    if match["value"] is not None:
        return f"{_OPTIONS[name]} {match['value'].strip(chr(39))}"
    begins = match.start() == 0 and re.match(r" (must|is|needs)\b", match.string[match.end() :])
    return match[0] if name in _WORDS and not begins else _OPTIONS[name]
