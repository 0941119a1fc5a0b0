"""Every setting that can change a number, in one frozen object that checks itself."""

from __future__ import annotations

import dataclasses
import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bertscore_metric.checks import boolean, check_choice, is_bool, optional_int, optional_text
from bertscore_metric.core.pairs import check_texts
from bertscore_metric.core.signature_line import signature_settings
from bertscore_metric.io.paths import user_path

DTYPES = ("float32", "tf32", "bfloat16", "float16", "auto")
RUN_SETTINGS = ("batch_size", "device", "verbose")
OBJECTS = ("model", "tokenizer", "encoder")
# What people and other tools call the settings, where spelling alone does not lead to them.
OTHER_NAMES = {
    **dict.fromkeys(("model", "model_type", "model_name", "model_path"), "model_name_or_path"),
    **dict.fromkeys(("layer", "layers"), "num_layers"),
    **dict.fromkeys(("rescale", "rescaled"), "rescale_with_baseline"),
    **dict.fromkeys(("idf_texts", "idf_table", "idf_sents", "idf_dict"), "idf"),
    **dict.fromkeys(("baseline", "baseline_file"), "baseline_path"),
    **dict.fromkeys(("safetensors", "pickled_weights"), "use_safetensors"),
    "language": "lang",
    "truncation": "long_text",
}
# What belongs to one model, and means nothing, or something else, with another.
OF_THE_MODEL = ("num_layers", "revision", "trust_remote_code", "use_safetensors", "baseline_path")
EMPTY_RULES = ("score", "skip")
LONG_TEXT_RULES = ("truncate", "error", "windows")


@dataclass(frozen=True, kw_only=True)
class ScoreConfig:
    """What is measured: model, layer and every rule that can change a score.

    How fast it is measured (batch size, device, progress bar) is not part of it: those are arguments of
    `BERTScorer`, and changing them leaves the scores as they are.

    Args:
        model_name_or_path: a hub name, a folder, or `offline` (the model of the extra `[offline]`).
        num_layers: how many blocks of the model to run, from 0 (the embedding output) to its depth; `None`
            takes the layer of the table, or about 0.7 of the depth for a model that is not in it.
        all_layers: score the embedding output and every block instead of one layer.
        lang: language code; chooses the model where none is named, and the baseline.
        idf: `False`, `True` (document frequencies of the references being scored), a sequence of texts to
            count them in, or a mapping from token id to weight (an `IdfTable`, or a plain mapping).
        rescale_with_baseline: report (x - b) / (1 - b) with the baseline b of model and layer.
        baseline_path: a baseline file in bert_score's format; used when `rescale_with_baseline` is set.
        max_length: longest text in tokens, special tokens included; never above the model's own limit.
        long_text: `truncate` cuts longer texts on the right, counts them and warns; `error` refuses them; `windows`
            loses nothing: it embeds them in overlapping windows of `max_length`, and counts the windows.
        dtype: arithmetic of the encoder: `float32` (IEEE), `tf32`, `bfloat16` or `float16`; `auto` is `bfloat16` where
            the device has hardware for it, else `float32`, decided when a scorer is made and named in the signature.
        compile: `True` compiles the model when it is loaded (torch's inductor, which needs a C++ compiler, on GPUs
            Triton): a long run is then faster, and in float32 a score differs by up to 1e-5. Where it cannot be
            compiled it runs as it is, with a warning.
        match_special_tokens: whether tokens may be matched to special tokens ([CLS], [SEP]), as in bert_score.
        empty: `score` counts a segment without text as 0; `skip` leaves it out of the mean.
        revision: branch, tag or commit of a hub model.
        trust_remote_code: allow model code from the hub to run.
        use_safetensors: load weights only from safetensors files; `False` also accepts pickled ones.
        local_files_only: take a hub model from the cache alone, and ask no network.

    Raises:
        TypeError, ValueError: a setting has a wrong type or value; the message says what is allowed.

    Example:
        >>> config = ScoreConfig(model_name_or_path="offline", num_layers=5, idf=True)
        >>> print(config.to_yaml(), end="")
        model_name_or_path: offline
        num_layers: 5
        idf: true
        >>> ScoreConfig.from_mapping({"rescale": True})
        Traceback (most recent call last):
        ...
        ValueError: Unknown setting 'rescale'; did you mean 'rescale_with_baseline'? Known: ...
    """

    model_name_or_path: str | None = None
    num_layers: int | None = None
    all_layers: bool = False
    lang: str | None = None
    idf: Any = False
    rescale_with_baseline: bool = False
    baseline_path: str | None = None
    max_length: int | None = None
    long_text: str = "truncate"
    dtype: str = "float32"
    compile: bool = False
    match_special_tokens: bool = True
    empty: str = "score"
    revision: str | None = None
    trust_remote_code: bool = False
    use_safetensors: bool = True
    local_files_only: bool = False

    def __post_init__(self) -> None:
        for name in ("model_name_or_path", "lang", "baseline_path", "revision"):
            self._normalize(name, optional_text(name, getattr(self, name)))
        for name in ("all_layers", "rescale_with_baseline", "compile", "match_special_tokens", "trust_remote_code"):
            self._normalize(name, boolean(name, getattr(self, name)))
        for name in ("use_safetensors", "local_files_only"):
            self._normalize(name, boolean(name, getattr(self, name)))
        self._normalize("num_layers", optional_int("num_layers", self.num_layers, at_least=0))
        self._normalize("max_length", optional_int("max_length", self.max_length, at_least=1))
        self._normalize("dtype", str(self.dtype).removeprefix("torch."))
        check_choice("dtype", self.dtype, DTYPES)
        check_choice("empty", self.empty, EMPTY_RULES)
        check_choice("long_text", self.long_text, LONG_TEXT_RULES)
        self._normalize("idf", _check_idf(self.idf))
        if self.all_layers and self.num_layers is not None:
            raise ValueError(
                f"all_layers scores every layer, so num_layers={self.num_layers} has no meaning; drop one."
            )
        if self.baseline_path is not None and not self.rescale_with_baseline:
            raise ValueError("baseline_path is only used with rescale_with_baseline=True; set it, or drop the path.")

    def _normalize(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    @classmethod
    def from_mapping(cls, settings: Mapping[str, Any]) -> ScoreConfig:
        """Build a config from names and values; an unknown name is a `ValueError` naming the nearest known one."""
        known = [field.name for field in dataclasses.fields(cls)]
        for name in settings:
            if name not in known:
                if name in OBJECTS and not isinstance(settings[name], str):
                    raise ValueError(f"{name!r} is an object, so it is an argument of BERTScorer and not a setting.")
                if name in RUN_SETTINGS:
                    raise ValueError(
                        f"{name!r} changes no score, so it is an argument of BERTScorer and not a setting."
                    )
                raise ValueError(
                    f"Unknown setting {name!r}{nearest(str(name), [*known, *RUN_SETTINGS, *OBJECTS])} "
                    f"Known: {', '.join(known)}; "
                    f"and for BERTScorer {', '.join([*RUN_SETTINGS, *OBJECTS])}."
                )
        return cls(**settings)

    @classmethod
    def from_yaml(cls, path: str | os.PathLike[str], *, trust_remote_code: bool = False) -> ScoreConfig:
        """Read a config from a YAML file, or from the shipped config of that name (`en`, `offline`, ...).

        Args:
            path: the file, or the name of a shipped config.
            trust_remote_code: whether the file may set `trust_remote_code: true`, which a file does not decide alone.

        Raises:
            FileNotFoundError: neither a file nor a shipped config; the message lists the shipped ones.
            ValueError: not a mapping, an unknown setting, or code to be trusted without the argument.
        """
        file = _find_config(path)
        try:
            settings = yaml.load(file.read_text(encoding="utf-8-sig"), _UniqueKeys)  # a SafeLoader
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            said = " ".join(str(error).split()).replace('in "<unicode string>", ', "in ")
            raise ValueError(f"{file} is not valid YAML: {said}") from error
        except RecursionError:
            raise ValueError(f"{file} holds no settings: it is nested too deeply.") from None
        if settings is None:
            settings = {}
        if not isinstance(settings, dict):
            raise ValueError(f"{file} must hold settings as `name: value` lines, got {type(settings).__name__}.")
        try:
            config = cls.from_mapping(settings)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{file}: {error}") from error
        if config.trust_remote_code and not boolean("trust_remote_code", trust_remote_code):
            raise ValueError(
                f"{file} says trust_remote_code: true, which runs code that comes with the model. If you trust that "
                f"code, after reading it, pass trust_remote_code=True to from_yaml as well."
            )
        return config

    @classmethod
    def from_signature(cls, signature: object, **settings: Any) -> ScoreConfig:
        """Build the config of an old result from its signature, as far as that says all.

        A signature names a model's weights and tokens, an idf table and a baseline by their hashes, and a folder by its
        last name. A baseline is found by its hash where the tables have it; compare the new scorer's `signature` with
        the old one to see whether weights and tokens are those of then.

        Args:
            signature: a `Signature`, or its line; parts that are left out name no setting.
            settings: what is known beside it, or should be another: `model_name_or_path` of a folder, `idf`, `lang`.

        Raises:
            ValueError: no signature, or something that it cannot tell; the message says what to give.

        Example:
            >>> ScoreConfig.from_signature("model:offline|layer:6|idf:corpus|special:match").to_mapping()
            {'model_name_or_path': 'offline', 'num_layers': 6, 'idf': True}
        """
        return cls.from_mapping({**signature_settings(str(signature), settings), **settings})

    def to_mapping(self) -> dict[str, Any]:
        """Return the settings that differ from the defaults."""
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != field.default
        }

    def to_yaml(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the settings that differ from the defaults as YAML, and write them to `path` if given."""
        settings = {name: _plain(value) for name, value in self.to_mapping().items()}
        text = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True) if settings else "{}\n"
        if yaml.safe_load(text) != settings:  # YAML folds some control characters that are written as they are
            text = yaml.safe_dump(settings, sort_keys=False)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text


class _UniqueKeys(yaml.SafeLoader):
    """Reads YAML in which a key that occurs twice is an error, as YAML has it, and not silently the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue  # no name; as a setting it is refused later
            if key.value in keys:
                raise yaml.MarkedYAMLError(problem=f"{key.value!r} occurs twice", problem_mark=key.start_mark)
            keys.add(key.value)
        return super().construct_mapping(node, deep)


def shipped_configs() -> dict[str, Path]:
    """Return the shipped configs as name -> file, from the installed package or from the checkout."""
    package = Path(__file__).parent
    for folder in (package / "configs", package.parent / "configs"):
        if folder.is_dir():
            return {file.stem: file for file in sorted(folder.glob("*.yaml"))}
    return {}


def _find_config(path: str | os.PathLike[str]) -> Path:
    file = user_path(path)
    if file.is_file():
        return file
    shipped = shipped_configs()
    if str(path) in shipped:
        return shipped[str(path)]
    raise FileNotFoundError(
        f"No config {str(path)!r}: not a file{nearest(str(path), list(shipped)).rstrip('.')}; "
        f"shipped configs: {', '.join(shipped) or 'none'}."
    )


def nearest(name: str, known: list[str]) -> str:
    """Return the end of a sentence: what a setting may have been meant to be, or a full stop."""
    name = name.lower().replace("-", "_")
    near = [OTHER_NAMES[name]] if name in OTHER_NAMES else difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else "."


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        weights = {int(token): float(weight) for token, weight in value.items()}
        default = getattr(value, "default", None)
        return weights if default is None else {"default": float(default), **weights}
    return list(value) if isinstance(value, tuple) else value


def _check_idf(idf: Any) -> Any:
    if is_bool(idf):
        return bool(idf)
    if isinstance(idf, Mapping):
        from bertscore_metric.core.weighting import (
            IdfTable,  # imports torch, which settings without a table do not need
        )

        return IdfTable(idf)
    if idf is None or isinstance(idf, str | bytes):
        raise TypeError(
            f"idf must be True, False, a sequence of texts, or a mapping from token id to weight; "
            f"got {type(idf).__name__}. A saved table is read with IdfTable.load(path)."
        )
    texts = tuple(check_texts(idf, "idf"))
    if not texts:
        raise ValueError(
            "idf is an empty sequence of texts; pass at least one text, or idf=True for the corpus scored."
        )
    return texts
