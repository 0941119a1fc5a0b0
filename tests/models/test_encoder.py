"""Encoders: what is kept, limits, loading, sources and their errors; `test_architectures.py` has the layers."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import MODELS, model_path, shared_scorer
from huggingface_hub.errors import (
    GatedRepoError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from safetensors.torch import load_file, save_file
from transformers import AutoModel, BertConfig, BertModel

from bertscore_metric import BERTScorer, Encoder
from bertscore_metric.models import encoder, source
from bertscore_metric.models.architecture import depth, keep_blocks, position_limit, text_encoder
from bertscore_metric.models.encoder import HuggingFaceEncoder
from bertscore_metric.warnings import BERTScoreWarning

TEXTS = ["the cat sat on the red table.", "Go", "a dog looked at two bananas", "the cat " * 100]
CPU = torch.device("cpu")


def load(name: str) -> Any:
    """Return a tiny model."""
    return AutoModel.from_pretrained(model_path(name))


@pytest.mark.parametrize("name", ["bert", "t5", "gpt2", "albert", "bart"])
def test_only_what_is_used_is_kept(name: str) -> None:
    """No pooler, no decoder and no later blocks stay in memory."""
    two, four = (shared_scorer(name, num_layers=n).model.encoder for n in (2, 4))
    count = [sum(p.numel() for p in enc._model.parameters()) for enc in (two, four)]  # type: ignore[attr-defined]
    whole = sum(p.numel() for p in load(name).parameters())
    assert count[0] <= count[1] <= whole
    assert (count[0] < count[1]) == (name != "albert")  # its blocks share their weights
    assert getattr(four._model, "pooler", None) is None  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "limit"),
    [("bert", 64), ("roberta", 64), ("longformer", 64), ("bart", 64), ("gpt2", 64), ("distilbert", 64),
     ("albert", 64), ("deberta", None), ("deberta-v3-nomax", None), ("t5", None), ("xlnet", None), ("llama", None),
     ("modernbert", None)],
)  # fmt: skip
def test_position_limit(name: str, limit: int | None) -> None:
    """The table of absolute positions holds 64 tokens, after RoBERTa's and BART's reserved rows; others have none."""
    assert position_limit(text_encoder(load(name))) == limit


def test_blocks_that_cannot_be_told() -> None:
    """A model without a list as long as its depth is a clear error, not a guess."""

    class Strange(BertModel):
        pass

    model = Strange(BertConfig(hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=8))
    model.config.num_hidden_layers = 3
    with pytest.raises(NotImplementedError, match="Cannot tell the blocks of a bert model: found no list of length 3"):
        keep_blocks(model, 1)


def test_depth_counts_the_encoder() -> None:
    """Where a model has two stacks, the depth is the encoder's."""
    config = load("bart").config
    config.decoder_layers = 9
    assert depth(config) == 4


def test_hugging_face_encoder_is_an_encoder() -> None:
    """The built-in implementation follows the public protocol."""
    made = HuggingFaceEncoder(load("bert"), num_layers=2, dtype="float32", device=CPU)
    assert isinstance(made, Encoder)
    assert made.dim == 32


def copy_model(target: Path, name: str = "bert") -> Path:
    """Copy a tiny model's folder."""
    shutil.copytree(MODELS / name, target)
    return target


def test_missing_weights_in_kept_blocks_are_an_error(tmp_path: Path) -> None:
    """A checkpoint without weights of the layers in use is refused; weights of later blocks may be missing."""
    folder = copy_model(tmp_path / "broken")
    weights = load_file(folder / "model.safetensors")
    kept = {key: value for key, value in weights.items() if "encoder.layer.2." not in key and "pooler" not in key}
    assert len(kept) < len(weights)
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    assert BERTScorer(str(folder), num_layers=2).signature["layer"] == "2"
    with pytest.raises(
        ValueError, match=r"The weights of broken lack 16 of the tensors of the layers that are used \(encoder"
    ):
        BERTScorer(str(folder), num_layers=3)


def test_weights_identity(tmp_path: Path) -> None:
    """The signature tells weights apart, and names a copy of them alike wherever it lies."""
    first, second = copy_model(tmp_path / "a" / "model"), copy_model(tmp_path / "b" / "model")
    signature = BERTScorer(str(first), num_layers=2).signature
    assert signature == BERTScorer(str(second), num_layers=2).signature
    weights = load_file(second / "model.safetensors")
    weights["embeddings.word_embeddings.weight"] += 0.01
    save_file(weights, second / "model.safetensors", metadata={"format": "pt"})
    assert BERTScorer(str(second), num_layers=3).signature["weights"] != signature["weights"]


@pytest.mark.parametrize(
    ("name", "identity"),
    [("minilm", "31c830c0f7aa"), ("albert", "e0c5c9e3edec"), ("bart", "8cff6071ed69"), ("bert", "99322665ff35"),
     ("deberta", "a0aecd9d4275"), ("distilbert", "a0edf725f597"), ("roberta", "571e4610b4b0"),
     ("xlm-roberta", "e915c9115b78")],
)  # fmt: skip
def test_weights_identity_in_every_version(name: str, identity: str) -> None:
    """The identity is the same in transformers 4 and 5, whose configurations list different defaults."""
    signature = str(BERTScorer(model_path(name), num_layers=1).signature)
    assert f"|weights:{identity}|" in signature


def test_a_fine_tuned_copy_finds_its_base_model(tmp_path: Path) -> None:
    """A folder whose configuration names its base model takes that model's layer."""
    folder = copy_model(tmp_path / "mine")
    config = json.loads((folder / "config.json").read_text())
    config["_name_or_path"] = "google/bert_uncased_L-4_H-128_A-2"
    (folder / "config.json").write_text(json.dumps(config))
    assert BERTScorer(str(folder)).signature["layer"] == "3"


def test_pickled_weights_only_when_asked(tmp_path: Path) -> None:
    """A folder with pickled weights alone is refused with the setting that accepts them."""
    folder = copy_model(tmp_path / "pickled")
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(OSError, match="Pass use_safetensors=False if you trust"):
        BERTScorer(str(folder), num_layers=2)
    made = BERTScorer(str(folder), num_layers=2, use_safetensors=False)
    expected = shared_scorer("bert", num_layers=2).score(TEXTS[:2], TEXTS[1:3])
    torch.testing.assert_close(made.score(TEXTS[:2], TEXTS[1:3]).f1, expected.f1)


def test_folder_without_tokenizer(tmp_path: Path) -> None:
    """A folder that holds a model alone says what is missing."""
    folder = copy_model(tmp_path / "bare")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    with pytest.raises(OSError, match=r"Cannot load the tokenizer from the folder .*save_pretrained"):
        BERTScorer(str(folder), num_layers=2)


def test_tokenizer_of_another_model() -> None:
    """Ids beyond the model's vocabulary are said in words, instead of an index error or a crash of the device."""
    from transformers import AutoTokenizer

    made = BERTScorer(model=load("bert"), tokenizer=AutoTokenizer.from_pretrained(MODELS / "roberta"), num_layers=1)
    with pytest.raises(ValueError, match=r"gives the id \d+, but the model's vocabulary has only 297 entries"):
        made.score(["the cat sat"], ["a dog"])


def test_a_fine_tuned_copy_finds_its_base_model_in_its_card(tmp_path: Path) -> None:
    """transformers no longer writes the base model into the configuration; a model card names it. Prose does not."""
    folder = copy_model(tmp_path / "mine")
    (folder / "README.md").write_text("---\nbase_model:\n- google/bert_uncased_L-4_H-128_A-2\n---\n# Mine\n")
    assert BERTScorer(str(folder)).signature["layer"] == "3"
    for text in ("base_model: google/bert_uncased_L-2_H-128_A-2", "---\n: [\n---\n", "---\nbase_model: 7\n---\n"):
        (folder / "README.md").write_text(text)
        with pytest.warns(BERTScoreWarning, match="No layer is known to be best for mine; using 3 of 4"):
            BERTScorer(str(folder))


@pytest.mark.parametrize("path", ["roberta-large", "/home/me/models/google/bert_uncased_L-2_H-128_A-2"])
def test_a_model_in_memory_finds_its_base_model(path: str) -> None:
    """A model object remembers where it came from, be it a folder; a layer it does not have is not taken."""
    model = load("bert")
    model.config._name_or_path = path
    tokenizer = shared_scorer("bert", num_layers=2).model.tokenizer._tokenizer
    if path == "roberta-large":  # its 17 are more than this model's 4
        with pytest.warns(BERTScoreWarning, match=r"Set num_layers; `bertscore-metric tune` compares the layers"):
            assert BERTScorer(model=model, tokenizer=tokenizer).signature["layer"] == "3"
    else:
        assert BERTScorer(model=model, tokenizer=tokenizer).signature["layer"] == "1"


def test_missing_models() -> None:
    """A mistyped folder, an unreachable hub name and an unknown language are one sentence each."""
    with pytest.raises(FileNotFoundError, match=r"No model folder './nowhere'. Give a folder with config.json"):
        BERTScorer("./nowhere")
    with pytest.raises(OSError, match=r"Cannot load the model 'roberta-large': .*without a network use a folder"):
        BERTScorer(lang="en")
    with pytest.raises(OSError, match=r"it is not in the hub cache, and local_files_only=True\. Load it once with"):
        BERTScorer("roberta-large", local_files_only=True)
    with pytest.raises(ValueError, match="There is no default model for the language 'enn'"):
        BERTScorer(lang="enn")


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (
            GatedRepoError,
            r"Cannot load the model 'x/y': it is gated. Ask for access at https://huggingface.co/x/y",
        ),
        (
            RepositoryNotFoundError,
            r"the hub has no such model, or it is private. Check the name at https://huggingface",
        ),
        (RevisionNotFoundError, r"it has no revision 'v9'. Take one of https://huggingface.co/x/y/commits/main."),
        (OfflineModeIsEnabled, r"it is not in the hub cache, and there is no network. Load it once with a network;"),
    ],
)
def test_what_the_hub_answers(monkeypatch: pytest.MonkeyPatch, kind: type[Exception], message: str) -> None:
    """Every refusal of the hub is a reason and what to do about it."""

    def refuse(*_: object, **__: object) -> None:
        cause = kind.__new__(kind)
        Exception.__init__(cause, "403 Client Error")
        raise OSError("We had a problem.\nIt has lines.") from cause

    monkeypatch.setattr("transformers.AutoConfig.from_pretrained", refuse)
    with pytest.raises(OSError, match=message):
        BERTScorer("x/y", revision="v9")


def test_no_network_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the hub's name does not resolve, only the cache is asked; behind a proxy that cannot be told."""
    asked: list[object] = []

    def unresolved(*address: object) -> None:
        asked.append(address)
        raise OSError("Name or service not known")

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "https://hub.invalid:8443")
    monkeypatch.setattr("socket.getaddrinfo", unresolved)
    for variable in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    hub = source.resolve("roberta-large")
    assert hub.hub_arguments["local_files_only"]
    assert asked == [("hub.invalid", 8443)]
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    assert not hub.hub_arguments["local_files_only"]
    assert len(asked) == 1


def test_loading_inside_inference_mode() -> None:
    """A model loaded inside inference mode still works outside, and the process shares it."""
    encoder.release_encoders()
    with torch.inference_mode():
        inside = BERTScorer(str(MODELS / "distilbert"), num_layers=1)
        inside.update(TEXTS[:2], TEXTS[:2])
    outside = BERTScorer(str(MODELS / "distilbert"), num_layers=1)
    assert inside.model.encoder is outside.model.encoder
    parameter = next(outside.model.encoder._model.parameters())  # type: ignore[attr-defined]
    assert not parameter.is_inference()
    assert inside.compute().mean.f1 == pytest.approx(1)
