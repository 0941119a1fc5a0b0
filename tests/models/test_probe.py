"""A model is tried before it is used: what padding does to it, and which models are refused."""

from pathlib import Path
from typing import Any

import pytest
import torch
from architectures import BART, BERT, LLAMA, T5, build, tokenizer_of
from conftest import TOLERANCE
from torch import Tensor
from transformers import T5Config, T5EncoderModel

from bertscore_metric import BERTScorer, TokenBatch
from bertscore_metric.models.architecture import depth, position_limit, text_encoder
from bertscore_metric.models.encoder import HuggingFaceEncoder
from bertscore_metric.models.probe import padding_changes_embeddings

CPU = torch.device("cpu")
TABLE = torch.randn(50, 8, generator=torch.Generator().manual_seed(0))
SMALL = {**BERT, "vocab_size": 297}


def of_the_text(tokens: TokenBatch) -> Tensor:
    """Embed every token by itself."""
    return TABLE[tokens.ids]


def of_the_row(tokens: TokenBatch) -> Tensor:
    """Mix the whole row in, padding too."""
    return TABLE[tokens.ids] + TABLE[tokens.ids].mean(dim=1, keepdim=True)


def of_the_batch(tokens: TokenBatch) -> Tensor:
    """Mix the neighbours in."""
    return TABLE[tokens.ids] * len(tokens.ids)


def of_chance(tokens: TokenBatch) -> Tensor:
    """Embed otherwise every time."""
    return torch.randn(*tokens.ids.shape, 8)


def in_bfloat16(tokens: TokenBatch) -> Tensor:
    """Round by the batch's size, as matrix products do."""
    return (TABLE[tokens.ids] * (1 + 1e-4 * len(tokens.ids))).bfloat16()


def pooled(tokens: TokenBatch) -> Tensor:
    """Give one embedding for two tokens."""
    return TABLE[tokens.ids][:, ::2]


def of_images(tokens: TokenBatch) -> Tensor:
    """Ask for something else."""
    raise TypeError("forward() missing 1 argument: 'pixel_values'. And more")


def out_of_memory(tokens: TokenBatch) -> Tensor:
    """Run out of memory."""
    raise torch.OutOfMemoryError("CUDA out of memory")


def try_out(embed: Any, noise: float = 1e-3, **settings: Any) -> bool:
    """Return whether padding matters to a fake."""
    return padding_changes_embeddings(embed, model_type="fake", vocabulary=50, pad_id=0, noise=noise, **settings)


@pytest.mark.parametrize(("embed", "noise", "matters"), [
    (of_the_text, 0.0, False), (of_the_row, 1e-3, True), (in_bfloat16, 0.1, False),
])  # fmt: skip
def test_padding(embed: Any, noise: float, matters: bool) -> None:
    """Padding that leaks into a text is noticed; rounding is not taken for it."""
    assert try_out(embed, noise) is matters


@pytest.mark.parametrize(("embed", "reason"), [
    (of_the_batch, "gives a text other embeddings in another batch, or at random. Take another model"),
    (of_chance, "gives a text other embeddings in another batch, or at random"),
    (pooled, r"gives \[1, 2, 8\] for one text of 3 tokens, not one embedding per token and layer"),
    (of_images, r"cannot encode plain texts of every length \(forward\(\) missing 1 argument: 'pixel_values'\)"),
])  # fmt: skip
def test_refused(embed: Any, reason: str) -> None:
    """What cannot give every token of a text its embedding is refused with what it did."""
    with pytest.raises(NotImplementedError, match=f"^A fake model is not supported: it {reason}"):
        try_out(embed)


def test_memory_is_no_fault_of_the_model() -> None:
    """Running out of memory stays what it is."""
    with pytest.raises(torch.OutOfMemoryError):
        try_out(out_of_memory)


def test_layers_are_counted_and_begin_before_the_first_block() -> None:
    """With all layers, their number and the first of them are checked."""
    block = torch.nn.Identity()

    def embed(tokens: TokenBatch) -> Tensor:
        first = TABLE[tokens.ids]
        second = block(first) + 1
        return torch.stack([first, second])

    def shifted(tokens: TokenBatch) -> Tensor:
        return embed(tokens)[[1, 1]]

    assert not try_out(embed, n_layers=2, first_block=block)
    with pytest.raises(NotImplementedError, match=r"gives \[2, 1, 3, 8\] for one text of 3 tokens"):
        try_out(embed, n_layers=3)
    with pytest.raises(NotImplementedError, match=r"so all_layers has no layer 0\. Score one of its layers"):
        try_out(shifted, n_layers=2, first_block=block)


def encoder(model: Any, num_layers: int | None = 2) -> HuggingFaceEncoder:
    """Return the encoder of a model."""
    return HuggingFaceEncoder(model, num_layers=num_layers, dtype="float32", device=CPU)


@pytest.mark.parametrize("num_layers", [2, None])
def test_a_model_that_mixes_padding_in_runs_without(num_layers: int | None) -> None:
    """FNet's Fourier transform ignores the mask, so texts of equal length run together; order and places stay."""
    made = encoder(build("FNetConfig", {**SMALL, "use_tpu_fourier_optimizations": False}), num_layers)
    lengths = [5, 2, 5, 1]
    mask = torch.arange(5) < torch.tensor(lengths)[:, None]
    ids = torch.arange(20).reshape(4, 5) + 100
    together = made.embed(TokenBatch(ids, mask, ~mask))
    for row, length in enumerate(lengths):
        one = ids[row : row + 1, :length]
        alone = made.embed(TokenBatch(one, torch.ones_like(one).bool(), torch.zeros_like(one).bool()))
        torch.testing.assert_close(together[..., row : row + 1, :length, :], alone, atol=TOLERANCE, rtol=1e-5)
        assert not together[..., row, length:, :].any()
    assert made._equal_lengths
    assert not encoder(build("BertConfig", SMALL), num_layers)._equal_lengths


@pytest.mark.parametrize(("config", "settings", "message"), [
    ("NystromformerConfig", {**SMALL, "num_landmarks": 8, "segment_means_seq_len": 64},
     r"A nystromformer model is not supported: it cannot encode plain texts of every length"),
    ("ReformerConfig", {"vocab_size": 297, "axial_pos_embds_dim": [16, 16], "axial_pos_shape": [8, 8],
                        "hidden_size": 32, "feed_forward_size": 64, "num_attention_heads": 2,
                        "attention_head_size": 8, "is_decoder": True},
     "A reformer model gives the same text other embeddings every time; take another model."),
    ("FunnelConfig", {"vocab_size": 297, "block_sizes": [2, 2], "d_model": 32, "n_head": 4, "d_head": 8,
                      "d_inner": 64, "architectures": ["FunnelModel"]}, "Cannot tell the blocks of a funnel model"),
    ("ViTConfig", {**{k: v for k, v in BERT.items() if "position" not in k}, "image_size": 28, "patch_size": 14},
     "A vit model is not supported: it cannot encode plain texts"),
])  # fmt: skip
def test_models_that_are_refused(config: str, settings: Any, message: str) -> None:
    """What is not made for texts of any length is an error when it is loaded, not a wrong score."""
    with pytest.raises(NotImplementedError, match=message):
        encoder(build(config, settings))


def test_hidden_states_that_are_not_the_layers() -> None:
    """Mamba's hidden states begin after its first block: one layer works, all_layers is refused."""
    model = build("MambaConfig", {"vocab_size": 297, "hidden_size": 32, "num_hidden_layers": 4, "state_size": 4})
    assert encoder(model).num_layers == 2
    with pytest.raises(NotImplementedError, match=r"A mamba model .* does not say what enters its first block"):
        encoder(model, None)


@pytest.mark.parametrize(("config", "settings", "limit"), [
    ("GPTJConfig", {"vocab_size": 297, "n_positions": 48, "n_embd": 32, "n_layer": 4, "n_head": 4, "rotary_dim": 4},
     48),
    ("CTRLConfig", {"vocab_size": 297, "n_positions": 48, "n_embd": 32, "n_layer": 4, "n_head": 4, "dff": 64}, 48),
    ("MraConfig", {**SMALL, "max_position_embeddings": 48}, 48),
    ("IBertConfig", {**SMALL, "max_position_embeddings": 50, "pad_token_id": 1}, 48),
    ("LEDConfig", {**BART, "vocab_size": 297, "attention_window": 8, "max_encoder_position_embeddings": 53}, 48),
    ("BloomConfig", {"vocab_size": 297, "hidden_size": 32, "n_layer": 4, "n_head": 4}, None),
])  # fmt: skip
def test_where_positions_come_from(config: str, settings: Any, limit: int | None) -> None:
    """Tables of positions are embeddings of any class or buffers, and may have rows that are not used."""
    made = encoder(build(config, settings))
    assert made.position_limit == limit
    longest = torch.full((1, limit or 100), 150)
    assert made.embed(TokenBatch(longest, torch.ones_like(longest).bool(), torch.zeros_like(longest).bool())).any()


def test_the_text_side_of_a_model() -> None:
    """Of a model that also sees, has a decoder or a head, the part that encodes text is taken, with its own depth."""
    small = {name: value for name, value in SMALL.items() if name != "initializer_range"}
    vision = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
              "image_size": 28, "patch_size": 14}  # fmt: skip
    clip = build("CLIPConfig", {"text_config": small, "vision_config": vision, "projection_dim": 8})
    assert type(text_encoder(clip)).__name__ in ("CLIPTextModel", "CLIPTextTransformer")
    assert depth(clip.config) == 4
    assert position_limit(text_encoder(clip)) == 64
    sizes = {**LLAMA, "vocab_size": 297, "head_dim": 8}
    two_stacks = build("T5GemmaConfig", {"encoder": sizes, "decoder": {**sizes, "num_hidden_layers": 3}})
    assert type(text_encoder(two_stacks)).__name__ == "T5GemmaEncoder"
    assert depth(two_stacks.config) == 4
    assert encoder(two_stacks).depth == 4
    t5 = build("T5Config", {**T5, "vocab_size": 297})
    assert type(text_encoder(t5)).__name__ == "T5Stack"


def test_a_saved_encoder_of_two_stacks(tmp_path: Path) -> None:
    """transformers loads the encoder that was saved alone with a decoder of random weights, which is not used."""
    config = T5Config(**T5, vocab_size=300)
    alone = T5EncoderModel(config).eval()
    alone.save_pretrained(tmp_path)
    loaded = BERTScorer(str(tmp_path), tokenizer=tokenizer_of("byt5"), num_layers=2)
    in_memory = BERTScorer(model=alone, tokenizer=tokenizer_of("byt5"), num_layers=2)
    for scorer in (loaded, in_memory):
        assert scorer.score(["the cat"], ["the cat"]).f1.item() == pytest.approx(1)
    other = [scorer.score(["the cat"], ["a dog"]).f1.item() for scorer in (loaded, in_memory)]
    assert other[0] == pytest.approx(other[1], abs=TOLERANCE)


def test_the_trial_leaves_nothing_behind() -> None:
    """An encoder that was tried with all layers has no hook of ours left."""
    model = build("BertConfig", SMALL)
    made = encoder(model, None)
    assert not any(module._forward_pre_hooks for module in made._model.modules())
