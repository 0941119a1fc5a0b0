"""Damaged files of a model: one sentence that names the file, one that says what to do."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import MODELS, shared_scorer
from safetensors.torch import load_file, save_file

from bertscore_metric import BERTScorer, cli

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 90868376\n"
SETTINGS: dict[str, Any] = {"num_layers": 2}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a copy of the tiny BERT."""
    shutil.copytree(MODELS / "bert", tmp_path / "model")
    return tmp_path / "model"


def edit(file: Path, **changes: Any) -> None:
    """Change entries of a JSON file."""
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def cut(file: Path, n: int) -> None:
    """Keep the first bytes of a file, or leave out the last."""
    file.write_bytes(file.read_bytes()[:n])


def pickled(folder: Path) -> Path:
    """Put pickled weights in place of safetensors."""
    weights = folder / "pytorch_model.bin"
    torch.save(load_file(folder / "model.safetensors"), weights)
    (folder / "model.safetensors").unlink()
    return weights


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("model.safetensors", POINTER, "is a git-lfs pointer, not the file itself. Run `git lfs pull`"),
        ("model.safetensors", b"", "is empty. Download it again."),
        ("model.safetensors", b"<!DOCTYPE html><html>", "is a web page, not the file itself. Download it again."),
        ("model.safetensors", 3000, "is cut short or damaged (invalid header length). Download it again."),
        ("model.safetensors", -100, "is cut short or damaged (incomplete metadata"),
        ("pytorch_model.bin", POINTER, "is a git-lfs pointer"),
        ("pytorch_model.bin", b"", "is empty"),
        ("pytorch_model.bin", 3000, "is cut short or damaged. Download it again."),
        ("tokenizer.json", b"{}", "has no model, the vocabulary. Download it again"),
        ("tokenizer.json", b"[]", "must hold an object, and holds list"),
        ("tokenizer.json", b'{"model": {"type": "Magic"}}', "cannot be read by tokenizers"),
        ("tokenizer.json", POINTER, "is a git-lfs pointer"),
        ("tokenizer.json", 500, "is no valid JSON (Unterminated string"),
        ("tokenizer_config.json", b"", "is empty"),
        ("tokenizer_config.json", b"[]", "must hold an object, and holds list"),
        ("config.json", POINTER, "is a git-lfs pointer"),
        ("config.json", b"[]", "must hold an object"),
        ("config.json", b"{", "is no valid JSON"),
        ("config.json", b"{}", "does not say which model_type it is"),
    ],
)
def test_damaged_files(folder: Path, name: str, content: bytes | int, said: str) -> None:
    """A file that is another thing than its name says is named, with what it is."""
    settings = {**SETTINGS, "use_safetensors": name != "pytorch_model.bin"}
    if name == "pytorch_model.bin":
        pickled(folder)
    if isinstance(content, int):
        cut(folder / name, content)
    else:
        (folder / name).write_bytes(content)
    part = "tokenizer" if name.startswith("tokenizer") else "model"
    whole = rf"^Cannot load the {part} from the folder '.*model': {re.escape(f'{name} {said}')}[^\n]*$"
    with pytest.raises(OSError, match=whole):
        BERTScorer(str(folder), **settings)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"hidden_act": "magic"}, "config.json names the activation 'magic' (hidden_act), which transformers does not"),
        ({"hidden_act": None}, "hidden_act in config.json must be str, got None. Correct it"),
        ({"hidden_size": "32"}, "hidden_size in config.json must be int, got '32'. Correct it"),
        ({"pad_token_id": "0"}, "pad_token_id in config.json must be int or null, got '0'. Correct it"),
        ({"num_attention_heads": 0}, "cannot make a model of config.json and its weights (ZeroDivisionError: "),
        ({"num_attention_heads": 7}, "cannot make a model of config.json and its weights (The hidden size (32)"),
        ({"pad_token_id": 10**9}, "cannot make a model of config.json and its weights (AssertionError: "),
        ({"dtype": "magic", "torch_dtype": "magic"}, "cannot make a model of config.json and its weights ("),
        ({"model_type": "magic"}, "config.json names the model_type 'magic', which transformers "),
    ],
)
def test_wrong_configurations(folder: Path, changes: dict[str, Any], said: str) -> None:
    """A wrong value in config.json is named with its setting; whatever else transformers fails on names the file."""
    edit(folder / "config.json", **changes)
    with pytest.raises(OSError, match=re.escape(said)) as caught:
        BERTScorer(str(folder), **SETTINGS)
    assert "\n" not in str(caught.value)


def test_weights_of_another_shape(folder: Path) -> None:
    """Weights that do not fit the configuration are named, with both shapes."""
    edit(folder / "config.json", vocab_size=17)
    said = (
        r"do not fit its config.json: .*word_embeddings.weight is \[297, 32\] in the weights and \[17, 32\] by config"
    )
    with pytest.raises(ValueError, match=said):
        BERTScorer(str(folder), **SETTINGS)


def split(folder: Path) -> None:
    """Put the weights into two files of which the second is missing."""
    tensors = load_file(folder / "model.safetensors")
    names = list(tensors)
    first, second = names[: len(names) // 2], names[len(names) // 2 :]
    save_file({name: tensors[name] for name in first}, folder / "model-00001-of-00002.safetensors", {"format": "pt"})
    places = {**dict.fromkeys(first, "model-00001-of-00002.safetensors"),
              **dict.fromkeys(second, "model-00002-of-00002.safetensors")}  # fmt: skip
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    (folder / "model.safetensors").unlink()


def split_with_a_pointer(folder: Path) -> None:
    """The second file is a pointer."""
    split(folder)
    (folder / "model-00002-of-00002.safetensors").write_bytes(POINTER)


def empty_index(folder: Path) -> None:
    """The index says nothing."""
    split(folder)
    (folder / "model.safetensors.index.json").write_text("{}")


def no_weights(folder: Path) -> None:
    """There are only weights of TensorFlow."""
    (folder / "model.safetensors").rename(folder / "tf_model.h5")


def no_config(folder: Path) -> None:
    """There are only weights."""
    (folder / "config.json").unlink()


def no_tokens(folder: Path) -> None:
    """The vocabulary is a pointer, of which every line would be a token."""
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").write_bytes(POINTER)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (split, "model.safetensors.index.json names model-00002-of-00002.safetensors, which is not there"),
        (split_with_a_pointer, "model-00002-of-00002.safetensors is a git-lfs pointer"),
        (empty_index, "model.safetensors.index.json has no weight_map"),
        (no_weights, "there is no model.safetensors; tf_model.h5 cannot be used. Save the model there with"),
        (no_config, "there is no config.json (there is model.safetensors). Name the folder that save_pretrained wrote"),
        (pickled, "there is no model.safetensors, but pickled weights. Pass use_safetensors=False if you trust"),
        (no_tokens, "vocab.txt is a git-lfs pointer"),
    ],
)
def test_missing_files(folder: Path, damage: Callable[[Path], object], said: str) -> None:
    """What a folder lacks is named, with what is there instead."""
    damage(folder)
    with pytest.raises(OSError, match=re.escape(said)):
        BERTScorer(str(folder), **SETTINGS)


class _Hostile:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.mark),)


def test_hostile_pickles_are_not_run(folder: Path, tmp_path: Path) -> None:
    """Code in pickled weights does not run, and nothing tells the user how to let it."""
    torch.save({"x": _Hostile(tmp_path / "owned")}, pickled(folder))
    with pytest.raises(OSError, match=r"pytorch_model.bin holds more than tensors .* and was not run\. Ask") as caught:
        BERTScorer(str(folder), use_safetensors=False, **SETTINGS)
    assert not (tmp_path / "owned").exists()
    assert "weights_only" not in str(caught.value)
    torch.load(folder / "pytorch_model.bin", weights_only=False)  # it is hostile
    assert (tmp_path / "owned").exists()


def test_lack_of_memory_is_not_a_damaged_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading passes on that there is not enough memory, which callers handle."""

    def fail(*_: Any, **__: Any) -> None:
        raise torch.OutOfMemoryError("too much")

    monkeypatch.setattr("transformers.AutoModel.from_pretrained", fail)
    with pytest.raises(torch.OutOfMemoryError, match="too much"):
        BERTScorer(str(folder), **SETTINGS)


def test_sentence_transformers_subfolder(folder: Path) -> None:
    """The model that modules.json names is used, under the folder's name; a missing one is said to be."""
    inner = folder / "0_Transformer"
    shutil.copytree(folder, inner)
    for file in [file for file in folder.iterdir() if file.is_file()]:
        file.unlink()
    (folder / "config.json").write_text('{"__version__": "0.3.2"}')
    modules = [
        {"idx": 0, "name": "0", "path": "0_Transformer", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    scorer = BERTScorer(str(folder), **SETTINGS)
    plain = shared_scorer("bert", num_layers=2)
    assert scorer.signature["model"] == "model"
    assert torch.equal(scorer.score(["a cat"], ["the dog"]).f1, plain.score(["a cat"], ["the dog"]).f1)
    shutil.rmtree(inner)
    with pytest.raises(FileNotFoundError, match=r"modules.json says that the model is in the folder '0_Transformer'"):
        BERTScorer(str(folder), **SETTINGS)


@pytest.mark.parametrize("whole", [False, True])
def test_adapters(folder: Path, whole: bool) -> None:
    """A folder with an adapter is refused, whether peft is installed or not, and says how to merge it."""
    edit_file = folder / "adapter_config.json"
    edit_file.write_text('{"base_model_name_or_path": "bert-base-uncased", "peft_type": "LORA"}')
    if not whole:
        (folder / "config.json").unlink()
    with pytest.raises(OSError, match=r"adapter \(peft\) for 'bert-base-uncased'\. .*merge_and_unload"):
        BERTScorer(str(folder), **SETTINGS)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("https://huggingface.co/roberta-large", "pass the model's name: 'roberta-large'."),
        ("huggingface.co/FacebookAI/roberta-large/", "pass the model's name: 'FacebookAI/roberta-large'."),
        ("https://hf.co/a/b/tree/main", "pass the model's name: 'a/b'."),
        ("https://huggingface.co/a/b/tree/v2", "pass the model's name: 'a/b' with revision='v2'."),
        ("https://example.org/model.zip", "download the model and pass its folder, or pass its hub name."),
    ],
)
def test_web_addresses(name: str, said: str) -> None:
    """A web address is answered with the name in it."""
    with pytest.raises(ValueError, match=f"^{re.escape(repr(name))} is a web address; {re.escape(said)}$"):
        BERTScorer(name)


def test_names_that_the_hub_does_not_allow() -> None:
    """What can be neither a folder nor a hub name is told so."""
    for name in ("C:\\models\\bert", "roberta large", "models--a--b"):
        with pytest.raises(OSError, match=r"there is no such folder, and it is no name of a model on the hub\. Give a"):
            BERTScorer(name, num_layers=2)


def test_the_command_line_says_it_in_a_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 2 and the error one line."""
    cut(folder / "model.safetensors", 3000)
    with pytest.raises(SystemExit) as ended:
        cli.main(["score", "-m", str(folder), "-l", "2", "--text", "-c", "a", "-r", "b"])
    assert ended.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "model.safetensors is cut short or damaged" in line
