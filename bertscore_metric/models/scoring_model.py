"""A name, objects or a custom encoder -> the encoder and the tokenizer that belong together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from bertscore_metric import callers, registry
from bertscore_metric.config import ScoreConfig
from bertscore_metric.models import source
from bertscore_metric.models.architecture import depth
from bertscore_metric.models.encoder import Encoder, HuggingFaceEncoder, load_encoder
from bertscore_metric.models.tokenizer import TextTokenizer
from bertscore_metric.warnings import BERTScoreWarning


@dataclass(frozen=True)
class ScoringModel:
    """What texts are embedded with.

    Args:
        encoder: turns tokens into embeddings.
        tokenizer: turns texts into the encoder's tokens.
        name: hub name, name of the folder, or class of a custom encoder.
        num_layers: the layer in use; `None` for all of them, or a custom encoder that does not say.
        depth: how many layers there are; `None` for a custom encoder that does not say.
        dim: size of an embedding; `None` for a custom encoder that does not say.
    """

    encoder: Encoder
    tokenizer: TextTokenizer
    name: str
    num_layers: int | None
    depth: int | None
    dim: int | None


def load_model(config: ScoreConfig, device: torch.device, tokenizer: Any = None) -> ScoringModel:
    """Load what the config names; the process shares encoders with equal settings.

    Args:
        config: names the model or the language.
        device: where the encoder runs.
        tokenizer: a transformers tokenizer to use instead of the model's own.

    Raises:
        OSError, ValueError, ImportError: the model cannot be had or lacks layers; the message says what to do.
    """
    place = source.resolve(
        config.model_name_or_path,
        config.lang,
        revision=config.revision,
        trust_remote_code=config.trust_remote_code,
        use_safetensors=config.use_safetensors,
        local_files_only=config.local_files_only,
    )
    model_config = source.load_config(place)
    names = _names(place.name, place.location, *source.base_models(place))
    num_layers = _choose_layer(config, names, depth(model_config))
    encoder = load_encoder(
        place, model_config, num_layers=num_layers, dtype=config.dtype, device=device, compile=config.compile
    )
    rules = (model_config.model_type, encoder.position_limit, config.max_length, config.long_text)
    if tokenizer is None:
        text_tokenizer = _named_tokenizer(place, source.file_stamp(place), *rules)
    else:
        text_tokenizer = _text_tokenizer(tokenizer, *rules)
    return ScoringModel(encoder, text_tokenizer, place.name, encoder.num_layers, encoder.depth, encoder.dim)


def use_model(config: ScoreConfig, device: torch.device, model: Any, tokenizer: Any) -> ScoringModel:
    """Use a model that is already in memory; a copy of what is kept of it, as it is now.

    Raises:
        ValueError, NotImplementedError: `num_layers` is above its depth, or its blocks cannot be told.
    """
    path = str(getattr(model.config, "_name_or_path", "") or type(model).__name__)
    num_layers = _choose_layer(config, _names(path), depth(model.config))
    encoder = HuggingFaceEncoder(
        model, num_layers=num_layers, dtype=config.dtype, device=device, compile=config.compile
    )
    name = Path(path).name if Path(path).is_dir() else path
    text_tokenizer = _text_tokenizer(
        tokenizer, model.config.model_type, encoder.position_limit, config.max_length, config.long_text
    )
    return ScoringModel(encoder, text_tokenizer, name, encoder.num_layers, encoder.depth, encoder.dim)


def use_encoder(config: ScoreConfig, encoder: Encoder, tokenizer: Any) -> ScoringModel:
    """Use a custom encoder.

    Raises:
        TypeError: it lacks `embed` or `fingerprint`.
        ValueError: a setting is given that only a Hugging Face model can obey.
    """
    if isinstance(encoder, type):
        raise TypeError(
            f"encoder= takes an object, got the class {encoder.__name__}; make one of it: {encoder.__name__}()."
        )
    if not isinstance(encoder, Encoder) or not isinstance(encoder.fingerprint, str):
        raise TypeError(
            f"encoder= needs a method embed(tokens) and a property fingerprint (str), which {type(encoder).__name__} "
            f"lacks; see bertscore_metric.Encoder."
        )
    if config.num_layers is not None:
        raise ValueError("num_layers chooses a layer of a named model; your own encoder= has chosen its layer.")
    if config.compile:
        raise ValueError("compile is for a named model or model=; your own encoder= compiles itself, if it can.")
    layers = getattr(encoder, "num_layers", None)
    if config.all_layers and layers is None:
        raise ValueError("all_layers with your own encoder= needs its num_layers: embed returns num_layers + 1 layers.")
    text_tokenizer = TextTokenizer(
        tokenizer,
        position_limit=getattr(encoder, "max_length", None),
        max_length=config.max_length,
        long_text=config.long_text,
        special_ids=getattr(encoder, "special_ids", None),
    )
    dim = getattr(encoder, "dim", None)
    return ScoringModel(encoder, text_tokenizer, type(encoder).__name__, layers, layers, dim)


@lru_cache(maxsize=8)
def _named_tokenizer(place: source.ModelSource, stamp: object, *rules: Any) -> TextTokenizer:
    """Return a model's tokenizer; the process keeps the last few, by the state of their files."""
    return _text_tokenizer(source.load_tokenizer(place), *rules)


def _text_tokenizer(
    tokenizer: Any, model_type: str, position_limit: int | None, max_length: int | None, long_text: str
) -> TextTokenizer:
    return TextTokenizer(
        tokenizer, model_type=model_type, position_limit=position_limit, max_length=max_length, long_text=long_text
    )


def _names(*names: str) -> list[str]:
    """Return the names under which the tables may know a model: those given, and the ends of those that are paths."""
    found = []
    for name in names:
        parts = Path(name).parts
        found += [name, "/".join(parts[-2:]), parts[-1]] if len(parts) > 2 else [name]
    return found


def _choose_layer(config: ScoreConfig, names: list[str], total: int) -> int | None:
    if config.all_layers:
        return None
    if config.num_layers is not None:
        return config.num_layers
    for name in names:
        layer = registry.default_layer(name)
        if layer is not None and layer <= total:
            return layer
    layer = round(0.7 * total)
    callers.warn(
        f"No layer is known to be best for {names[0]}; using {layer} of {total} (0.7 of its depth). Set num_layers; "
        f"`bertscore-metric tune` compares the layers with human judgements of your kind of text.",
        BERTScoreWarning,
    )
    return layer
