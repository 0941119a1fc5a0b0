"""`Signature`: every setting that changes a number, in one line to print beside a score."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import yaml

from bertscore_metric import __version__
from bertscore_metric.config import ScoreConfig
from bertscore_metric.core.baseline import Baseline
from bertscore_metric.core.weighting import IdfTable
from bertscore_metric.models.scoring_model import ScoringModel

# Versions within a group give the same numbers (to 1e-6 in float32); `comparable_to` does not tell them apart.
NUMBER_NEUTRAL_VERSIONS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "transformers": (("5.",),),
    "bertscore_metric": (("0.1.",),),
}


def write_as(plain: type, kind: type) -> None:
    """Let YAML write objects of a class as the plain type it is a kind of; PyYAML asks for exact types."""
    for writer in (yaml.representer.SafeRepresenter, yaml.representer.Representer):
        writer.add_representer(kind, lambda dumper, value: dumper.represent_data(plain(value)))


class Signature(str):
    """Every setting that changes a number, in sacrebleu's grammar: `key:value|key:value|...`, versions last.

    It is that line, a `str`, so that JSON, YAML, databases and loggers take it as it is, and knows its parts.

    Args:
        items: key and value of each part, in their order.

    Example:
        >>> one, other = Signature.parse("layer:6|idf:no"), Signature.parse("layer:5|idf:no")
        >>> other["layer"], one.comparable_to(other), one.comparable_to(other.with_value("layer", "6"))
        ('5', False, True)
        >>> one
        'layer:6|idf:no'
    """

    _items: tuple[tuple[str, str], ...]

    def __new__(cls, items: tuple[tuple[str, str], ...]) -> Signature:
        """Make the line of its parts."""
        line = super().__new__(cls, "|".join(f"{key}:{value}" for key, value in items))
        line._items = items
        return line

    @property
    def items(self) -> tuple[tuple[str, str], ...]:
        """Key and value of each part, in their order."""
        return self._items

    def __getnewargs__(self) -> tuple[Any, ...]:
        """Return what copies and pickles are made of."""
        return (self.items,)

    def __getitem__(self, key: Any) -> str:
        """Return the value of a key; a number or a slice gives characters, as of every `str`."""
        return dict(self.items)[key] if isinstance(key, str) else super().__getitem__(key)

    def with_value(self, key: str, value: str) -> Signature:
        """Return the signature with another value at a key."""
        return Signature(tuple((name, value if name == key else old) for name, old in self.items))

    @classmethod
    def parse(cls, text: str) -> Signature:
        """Read a signature back from its line.

        Raises:
            ValueError: a part has no `:`.
        """
        parts = [part.partition(":") for part in text.strip().split("|")]
        if not all(colon and key for key, colon, _ in parts):
            raise ValueError(f"Not a signature: {text!r}; expected key:value|key:value|...")
        return cls(tuple((key, value) for key, _, value in parts))

    def comparable_to(self, other: Signature) -> bool:
        """Return whether scores under both signatures may stand side by side.

        Everything must be equal but the model's name (its weights, layer and tokens are named by hashes) and versions
        that `NUMBER_NEUTRAL_VERSIONS` declares to give the same numbers.
        """
        return self.comparable_key == other.comparable_key

    def differences(self, other: Signature) -> dict[str, tuple[str, str]]:
        """Return what keeps two signatures from being comparable: key -> (value here, value there).

        Only keys that both have count, so that a part of a signature can be compared.
        """
        there = dict(other.items)
        return {
            key: (value, there[key])
            for key, value in self.items
            if key != "model" and key in there and _version_group(key, value) != _version_group(key, there[key])
        }

    @property
    def comparable_key(self) -> str:
        """What comparable signatures have in common and no others, for states that are stored or sent."""
        return "|".join(f"{key}:{_version_group(key, value)}" for key, value in self.items if key != "model")


write_as(str, Signature)


def _version_group(key: str, value: str) -> str:
    for number, group in enumerate(NUMBER_NEUTRAL_VERSIONS.get(key, ())):
        if value.startswith(group):
            return f"group {number}"
    return value


def sign(config: ScoreConfig, model: ScoringModel, idf: IdfTable | None, baseline: Baseline | None) -> Signature:
    """Return the signature of a scorer: its settings as they took effect, nothing that depends on the machine.

    Args:
        config: the settings.
        model: encoder and tokenizer in use.
        idf: the fixed table, if there is one.
        baseline: the baseline rows, if scores are rescaled.
    """
    # Raw hidden states of all layers differ from cut models where a final norm follows the blocks.
    layer = "all-raw" if config.all_layers else "own" if model.num_layers is None else str(model.num_layers)
    limit = model.tokenizer.limit
    items = (
        ("model", model.name),
        ("layer", layer),
        ("idf", idf.fingerprint if idf is not None else "corpus" if config.idf else "no"),
        ("rescale", "no" if baseline is None else baseline.name),
        ("dtype", config.dtype),
        *([("compiled", "yes")] if config.compile else []),
        ("maxlen", "no" if limit is None else str(limit)),
        *([] if model.tokenizer.window is None else [("long", "windows")]),  # then maxlen is the window
        ("special", "match" if config.match_special_tokens else "skip"),
        ("empty", config.empty),
        ("weights", model.encoder.fingerprint),
        ("tokens", model.tokenizer.fingerprint),
        ("transformers", version("transformers")),
        ("bertscore_metric", __version__),
    )
    return Signature(tuple((key, _one_word(value)) for key, value in items))


def _one_word(value: str) -> str:
    """Return a value without what ends a value or a line: names of folders and custom encoders may hold anything."""
    return "".join(f"%{ord(c):02X}" if c == "|" or not c.isprintable() else c for c in value)
