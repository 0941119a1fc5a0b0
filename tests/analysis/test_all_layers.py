"""All layers in one pass are those of the cut models, whatever a model does after its blocks."""

from typing import Any

import pytest
import torch
from conftest import MODELS, TOLERANCE, model_path
from fakes import LayeredEncoder
from torch import nn
from transformers import AutoModel, AutoTokenizer, BertConfig, BertModel

from bertscore_metric import BERTScorer
from bertscore_metric.analysis.all_layers import following, score_every_layer
from bertscore_metric.models.encoder import HuggingFaceEncoder
from bertscore_metric.models.source import load_tokenizer, resolve

ARCHITECTURES = sorted(folder.name for folder in MODELS.iterdir() if folder.is_dir())
NORM_AFTER_BLOCKS = {"gpt2": "LayerNorm", "llama": "LlamaRMSNorm", "modernbert": "LayerNorm", "t5": "T5LayerNorm"}
CANDIDATES = ["the cat sat on the red table.", "Go", "a dog looked at two bananas"]
REFERENCES = [CANDIDATES[2], CANDIDATES[0], "a dog " * 10]


def uneven_model(name: str) -> Any:
    """Return a tiny model whose norms scale each dimension differently, as trained ones do; they were built as 1."""
    model = AutoModel.from_pretrained(model_path(name))
    generator = torch.Generator().manual_seed(0)
    for module in model.modules():
        weight = getattr(module, "weight", None)
        if "norm" in type(module).__name__.lower() and isinstance(weight, nn.Parameter):
            weight.data = torch.rand(weight.shape, generator=generator) * 3
    return model


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_layer_is_the_cut_model(name: str) -> None:
    """Layer k of the one pass is `num_layers=k`, also where a norm follows the blocks; raw hidden states are not."""
    loaded = {"model": uneven_model(name), "tokenizer": AutoTokenizer.from_pretrained(model_path(name))}
    raw = BERTScorer(**loaded, all_layers=True)
    scorer, encoder = score_every_layer(raw)
    together = torch.stack(list(scorer.score(CANDIDATES, REFERENCES)), dim=1)
    for layer, scores in enumerate(together):
        cut = torch.stack(list(BERTScorer(**loaded, num_layers=layer).score(CANDIDATES, REFERENCES)))
        torch.testing.assert_close(scores, cut, atol=TOLERANCE, rtol=0)
    expected = [NORM_AFTER_BLOCKS[name]] if name in NORM_AFTER_BLOCKS else []
    assert [type(module).__name__ for module in encoder._following] == expected
    raw_scores = torch.stack(list(raw.score(CANDIDATES, REFERENCES)), dim=1)
    assert ((raw_scores - together).abs().max() > 1e-3) == (name in NORM_AFTER_BLOCKS)
    assert (raw.signature["layer"], scorer.signature["layer"]) == ("all-raw", "all")


def test_what_cannot_be_told_is_an_error() -> None:
    """A model that changes its output behind the blocks, but not in a module, is refused and not scored wrongly."""

    class Shifted(BertModel):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            output = super().forward(*args, **kwargs)
            output.last_hidden_state = output.last_hidden_state + 1
            return output

    model = Shifted(BertConfig(hidden_size=8, num_hidden_layers=3, num_attention_heads=2, intermediate_size=8))
    encoder = HuggingFaceEncoder(model, num_layers=None, dtype="float32", device=torch.device("cpu"))
    with pytest.raises(NotImplementedError, match="Cannot tell what a bert model does after its blocks: at layer 0"):
        following(encoder)


def test_norms() -> None:
    """Norms are means over the tokens of every distinct text, special tokens left out; of the vectors that are used."""
    encoder = LayeredEncoder(vocabulary=30522)
    tokenizer = load_tokenizer(resolve("offline"))
    scorer, meter = score_every_layer(BERTScorer(encoder=encoder, tokenizer=tokenizer, all_layers=True))
    scorer.score(["the cat sat", "a dog", "a dog"], ["the cat sat", "cats", "dogs bark"])
    ids = [n for text in ("the cat sat", "a dog", "cats", "dogs bark") for n in tokenizer(text).input_ids[1:-1]]
    vectors = encoder.table[ids]
    layers = (vectors, vectors.roll(1, -1) + vectors, vectors.square())
    assert meter.norms == pytest.approx([layer.norm(dim=-1).mean().item() for layer in layers], abs=1e-5)
