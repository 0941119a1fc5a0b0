"""What is wrong with the files of a model, found after loading them failed."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
_POINTER = b"version https://git-lfs.github.com/spec/"
_JSON_FILES = {
    "model": ("config.json", *INDEXES),
    "tokenizer": ("tokenizer.json", "tokenizer_config.json", "vocab.json", "special_tokens_map.json"),
}
_VOCABULARIES = ("vocab.txt", "merges.txt", "spiece.model", "sentencepiece.bpe.model", "tokenizer.model", "bpe.codes")
_ACTIVATIONS = ("hidden_act", "hidden_activation", "activation_function", "activation", "feed_forward_proj")
_CORRECT = "Correct it, or download the model again."
_AGAIN = "Download it again."


def damage(folder: Path, part: str, *, pickled: bool = False) -> tuple[str, str] | None:
    """Return what is wrong with the files of a model or its tokenizer: (reason, what to do), `None` if all can be read.

    Args:
        folder: the model's folder.
        part: `model` or `tokenizer`.
        pickled: whether weights are read from `.bin` files where there are no others.
    """
    for file in _files(folder, part, pickled):
        found = _of_any_file(file)
        if found is None and file.name.endswith(".json"):
            found = _of_json(file)
        elif found is None and file.suffix == ".safetensors":
            found = _of_safetensors(file)
        elif found is None and file.suffix == ".bin" and not zipfile.is_zipfile(file) and not _is_plain_pickle(file):
            found = "is cut short or damaged", _AGAIN
        if found is not None:
            reason, hint = found
            return f"{file.name} {reason}", hint
    return None


def unreadable_vocabulary(folder: Path) -> tuple[str, str] | None:
    """Return what is wrong with vocabulary files that are lines of text, of which any line would be read as a token."""
    if (folder / "tokenizer.json").is_file():
        return None  # it is read instead
    for name in (*_VOCABULARIES, "vocab.json"):
        if (folder / name).is_file() and (found := _of_any_file(folder / name)) is not None:
            return f"{name} {found[0]}", found[1]
    return None


def explained(folder: Path | None, error: BaseException) -> tuple[str, str] | None:
    """Return what an error says that the files are well-formed and wrong: (reason, what to do), `None` for others."""
    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None and cause not in chain:
        chain.append(cause)
    said = " ".join(" ".join(str(one) for one in chain).split())
    if "Weights only load failed" in said or any(type(one).__name__ == "UnpicklingError" for one in chain):
        name = re.search(r"(?:GLOBAL|class) (?!with)`?([\w.]+\.[\w.]+)", said)
        what = f" ({name[1]})" if name else ""
        there = [] if folder is None else [file for file in weights(folder) if file.endswith(".bin")]
        which = there[0] if len(there) == 1 else "a file of pickled weights"
        return (
            f"{which} holds more than tensors{what}, which could run any code and was not run",
            "Ask its author for safetensors, or convert the weights to safetensors where it was made.",
        )
    for one in chain:
        # huggingface_hub's: "Field 'x' expected int, got str (value: '32')", once for each type that is allowed
        wrong = re.findall(r"Field '(\w+)' expected (\w+), got \w+ \((value: .*?)\)(?:$|;|\n)", str(one))
        if wrong and "Validation" in type(one).__name__:
            allowed = " or ".join(dict.fromkeys("null" if kind == "NoneType" else kind for _, kind, _ in wrong))
            name, _, value = wrong[0]
            return f"{name} in config.json must be {allowed}, got {value.removeprefix('value: ')}", _CORRECT
    if "model type" in said or "Unrecognized model" in said:
        return _model_type(folder)
    if isinstance(error, KeyError) and (setting := _activation(folder, error)) is not None:
        return (
            f"config.json names the activation {error.args[0]!r} ({setting}), which transformers does not know",
            _CORRECT,
        )
    return None


def adapter_base(folder: Path) -> str | None:
    """Return the model that an adapter (peft) in a folder belongs to, "" where it does not say, `None` without one."""
    file = folder / "adapter_config.json"
    if not file.is_file():
        return None
    settings = _read(file)
    base = settings.get("base_model_name_or_path") if isinstance(settings, dict) else None
    return base if isinstance(base, str) else ""


def transformer_subfolder(folder: Path) -> Path | None:
    """Return the subfolder that sentence-transformers' `modules.json` names as the model, `None` if it is the folder.

    Raises:
        FileNotFoundError: it is named, and holds no model.
    """
    config = _read(folder / "config.json")
    modules = _read(folder / "modules.json")
    if not isinstance(modules, list) or (isinstance(config, dict) and "model_type" in config):
        return None
    for module in modules:
        if isinstance(module, dict) and str(module.get("type", "")).endswith("Transformer"):
            path = str(module.get("path") or "")
            if path and not (folder / path / "config.json").is_file():
                raise FileNotFoundError(
                    f"{folder / 'modules.json'} says that the model is in the folder {path!r}, and there is no "
                    f"{path}/config.json. Copy the whole folder again, subfolders included."
                )
            return folder / path if path else None
    return None


def weights(folder: Path) -> list[str]:
    """Return the names of the files in a folder that hold weights in a format that transformers once wrote."""
    patterns = ("*.safetensors", "*.bin", "*.pt", "*.pth", "*.ckpt", "*.h5", "*.msgpack", "*.gguf", "*.onnx")
    names = {file.name for pattern in patterns for file in folder.glob(pattern)}
    return sorted(names - {"training_args.bin", "optimizer.pt", "scheduler.pt", "optimizer.bin", "scheduler.bin"})


def _files(folder: Path, part: str, pickled: bool) -> Iterator[Path]:
    names = list(_JSON_FILES[part])
    if part == "tokenizer":
        names += [] if (folder / "tokenizer.json").is_file() else _VOCABULARIES
    else:
        kind = "*.bin" if pickled and not list(folder.glob("model*.safetensors")) else "*.safetensors"
        prefix = "pytorch_model" if kind == "*.bin" else "model"
        names += sorted(file.name for file in folder.glob(prefix + kind))
    yield from (folder / name for name in names if (folder / name).is_file())


def _of_any_file(file: Path) -> tuple[str, str] | None:
    with file.open("rb") as stream:
        begin = stream.read(64)
    if begin.startswith(_POINTER):
        return (
            "is a git-lfs pointer, not the file itself",
            "Run `git lfs pull` in its folder, or download the file again.",
        )
    if not begin:
        return "is empty", _AGAIN
    if begin.lstrip().lower().startswith((b"<!doctype", b"<html")):
        return "is a web page, not the file itself", _AGAIN
    return None


def _of_json(file: Path) -> tuple[str, str] | None:
    try:
        content = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        return f"is no valid JSON ({error})", _AGAIN
    if not isinstance(content, dict):
        return f"must hold an object, and holds {type(content).__name__}", _AGAIN
    if file.name in INDEXES:
        return _of_index(file, content)
    if file.name == "tokenizer.json":
        return _of_tokenizer(file, content)
    length = content.get("model_max_length")
    if file.name == "tokenizer_config.json" and isinstance(length, str):
        return f"gives model_max_length a wrong value, which must be a number; got {length!r}", _CORRECT
    return None


def _of_index(file: Path, content: dict[str, Any]) -> tuple[str, str] | None:
    names = content.get("weight_map")
    if not isinstance(names, dict) or not names:
        return "has no weight_map, which says where the weights are", _AGAIN
    absent = sorted({str(name) for name in names.values() if not (file.parent / str(name)).is_file()})
    if absent:
        return f"names {', '.join(absent[:3])}, which {'is' if len(absent) == 1 else 'are'} not there", _AGAIN
    return None


def _of_tokenizer(file: Path, content: dict[str, Any]) -> tuple[str, str] | None:
    if not isinstance(content.get("model"), dict):
        return "has no model, the vocabulary", "Download it again, or save the tokenizer anew with save_pretrained."
    from tokenizers import Tokenizer
    from tokenizers import __version__ as version

    try:
        Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises nothing more specific
        return (
            f"cannot be read by tokenizers {version} ({error})",
            "Update tokenizers and transformers, or save the tokenizer anew with save_pretrained.",
        )
    return None


def _of_safetensors(file: Path) -> tuple[str, str] | None:
    try:
        with safe_open(file, framework="pt"):
            return None
    except (SafetensorError, OSError) as error:
        said = str(error).removeprefix("Error while deserializing header: ")
        return f"is cut short or damaged ({said})", _AGAIN


def _is_plain_pickle(file: Path) -> bool:
    with file.open("rb") as stream:
        return stream.read(1) == b"\x80"  # as torch wrote until 1.6


def _model_type(folder: Path | None) -> tuple[str, str] | None:
    config = None if folder is None else _read(folder / "config.json")
    if not isinstance(config, dict) or "auto_map" in config:
        return None
    if "model_type" not in config:
        return (
            "config.json does not say which model_type it is",
            "Download it again, or save the model with save_pretrained.",
        )
    from transformers import __version__ as version

    return (
        f"config.json names the model_type {config['model_type']!r}, which transformers {version} does not know",
        "Update transformers, or correct it.",
    )


def _activation(folder: Path | None, error: KeyError) -> str | None:
    config = None if folder is None else _read(folder / "config.json")
    if not isinstance(config, dict) or not error.args:
        return None
    return next((name for name in _ACTIVATIONS if name in config and config[name] == error.args[0]), None)


def _read(file: Path) -> Any:
    try:
        return json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
