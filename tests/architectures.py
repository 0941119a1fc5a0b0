"""Every supported architecture as a tiny random model: 4 blocks, 32 dimensions, 64 positions where it has a table.

A model is built from its configuration, seeded, with the tokenizer of one of the folders in
`tests/tiny_models`. Its weights
are large (0.2), so that layers differ and negative cosines occur.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from typing import Any
from zlib import crc32

import pytest
import torch
import transformers
from conftest import MODELS

BERT = {"hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 64,
        "max_position_embeddings": 64}  # fmt: skip
ROBERTA = {**BERT, "max_position_embeddings": 66, "type_vocab_size": 1, "pad_token_id": 1}
BART = {"d_model": 32, "encoder_layers": 4, "decoder_layers": 2, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 64,
        "pad_token_id": 1}  # fmt: skip
T5 = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 4, "num_decoder_layers": 2, "num_heads": 4}
LLAMA = {**BERT, "num_key_value_heads": 2, "pad_token_id": 0}
DEBERTA = {**BERT, "relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_biased_input": False,
           "type_vocab_size": 0}  # fmt: skip
DEBERTA_2 = {**DEBERTA, "position_buckets": 16, "norm_rel_ebd": "layer_norm", "share_att_key": True}


@dataclass(frozen=True)
class Architecture:
    """A tiny model of an architecture, and what is special about it.

    Args:
        config: name of its configuration's class in transformers.
        settings: of that configuration, without the vocabulary's size.
        tokenizer: the folder in `tests/tiny_models` whose tokenizer it takes; `byt5` has no files.
        norm: the norm that follows the blocks, within the encoder; empty without one.
        limit: how many positions it has; `None` where they are relative or rotary.
        before_5: whether it is tested with transformers 4.57, where the same numbers are asked for.
    """

    config: str
    settings: Mapping[str, Any] = field(hash=False)
    tokenizer: str = "bert"
    norm: str = ""
    limit: int | None = 64
    before_5: bool = False


ARCHITECTURES = {
    "albert": Architecture("AlbertConfig", {**BERT, "embedding_size": 32}, "albert", before_5=True),
    "bart": Architecture("BartConfig", BART, "bart", before_5=True),
    "bert": Architecture("BertConfig", BERT, before_5=True),
    "bert-generation": Architecture("BertGenerationConfig", BERT, "xlm-roberta"),
    "big_bird": Architecture("BigBirdConfig", {**BERT, "block_size": 4, "num_random_blocks": 1}),
    "byt5": Architecture("T5Config", {**T5, "feed_forward_proj": "gated-gelu"}, "byt5", "final_layer_norm", None),
    "camembert": Architecture("CamembertConfig", ROBERTA, "xlm-roberta"),
    "convbert": Architecture("ConvBertConfig", {**BERT, "embedding_size": 32}),
    "deberta": Architecture("DebertaConfig", DEBERTA, "deberta", limit=None, before_5=True),
    "deberta-v2": Architecture(
        "DebertaV2Config", {**DEBERTA_2, "conv_kernel_size": 3, "conv_act": "gelu"}, "deberta-v3-nomax", limit=None,
        before_5=True,
    ),
    "deberta-v3": Architecture("DebertaV2Config", DEBERTA_2, "deberta-v3-nomax", limit=None, before_5=True),
    "distilbert": Architecture(
        "DistilBertConfig",
        {"dim": 32, "n_layers": 4, "n_heads": 4, "hidden_dim": 64, "max_position_embeddings": 64},
        before_5=True,
    ),
    "electra": Architecture("ElectraConfig", {**BERT, "embedding_size": 16}, before_5=True),
    "eurobert": Architecture("EuroBertConfig", LLAMA, "llama", "norm", None),
    "gemma3_text": Architecture(
        "Gemma3TextConfig", {**LLAMA, "head_dim": 8, "sliding_window": 8}, "llama", "norm", None
    ),
    "gpt2": Architecture(
        "GPT2Config", {"n_positions": 64, "n_embd": 32, "n_layer": 4, "n_head": 4}, "gpt2", "ln_f"
    ),
    "led": Architecture(
        "LEDConfig",
        {**{name: value for name, value in BART.items() if name != "max_position_embeddings"}, "attention_window": 8,
         "max_encoder_position_embeddings": 64, "max_decoder_position_embeddings": 64},
        "bart",
    ),
    "llama": Architecture("LlamaConfig", LLAMA, "llama", "norm", None),
    "longformer": Architecture("LongformerConfig", {**ROBERTA, "attention_window": 8}, "longformer"),
    "mbart": Architecture("MBartConfig", BART, "xlm-roberta", "layer_norm"),
    "modernbert": Architecture(
        "ModernBertConfig",
        {**BERT, "global_attn_every_n_layers": 2, "local_attention": 16, "pad_token_id": 3, "cls_token_id": 1,
         "sep_token_id": 2, "bos_token_id": 1, "eos_token_id": 2},
        "modernbert", "final_norm", None,
    ),
    "mpnet": Architecture("MPNetConfig", {**BERT, "max_position_embeddings": 66}, before_5=True),
    "mt5": Architecture("MT5Config", T5, "t5", "final_layer_norm", None),
    "nomic_bert": Architecture("NomicBertConfig", BERT, limit=None),
    "opt": Architecture(
        "OPTConfig",
        {"hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4, "ffn_dim": 64, "word_embed_proj_dim": 32,
         "max_position_embeddings": 64},
        "gpt2", "decoder.final_layer_norm",
    ),
    "pegasus": Architecture("PegasusConfig", {**BART, "pad_token_id": 0}, "t5", "layer_norm"),
    "qwen3": Architecture("Qwen3Config", {**LLAMA, "head_dim": 8}, "gpt2", "norm", None),
    "roberta": Architecture("RobertaConfig", ROBERTA, "roberta", before_5=True),
    "squeezebert": Architecture("SqueezeBertConfig", {**BERT, "embedding_size": 32}),
    "t5": Architecture("T5Config", T5, "t5", "final_layer_norm", None),
    "xlm": Architecture(
        "XLMConfig",
        {"emb_dim": 32, "n_layers": 4, "n_heads": 4, "max_position_embeddings": 64, "n_langs": 1, "pad_index": 0},
    ),
    "xlm-roberta": Architecture("XLMRobertaConfig", ROBERTA, "xlm-roberta", before_5=True),
    "xlnet": Architecture(
        "XLNetConfig", {"d_model": 32, "n_layer": 4, "n_head": 4, "d_inner": 64}, "xlnet",
        limit=None,
    ),
}  # fmt: skip


def build(config_name: str, settings: Mapping[str, Any]) -> Any:
    """Return a random model, the same every time and with every version of transformers; biases and norms matter."""
    if not hasattr(transformers, config_name):
        pytest.skip(f"transformers {version('transformers')} has no {config_name}")
    model = transformers.AutoModel.from_config(getattr(transformers, config_name)(**settings))
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(crc32(name.encode())))
        if parameter.dim() == 1:
            parameter.data = 0.1 * noise + (1.0 if name.endswith("weight") else 0.0)
        else:
            parameter.data = 0.2 * noise
    return model.eval()


def tokenizer_of(folder: str) -> Any:
    """Return a fresh tokenizer."""
    if folder == "byt5":
        return transformers.ByT5Tokenizer(extra_ids=0, model_max_length=64)
    return transformers.AutoTokenizer.from_pretrained(MODELS / folder)


@cache
def model_of(name: str) -> tuple[Any, Any]:
    """Return the tiny model of an architecture and its tokenizer, which tests share and do not change."""
    one = ARCHITECTURES[name]
    if not one.before_5 and version("transformers") < "5":
        pytest.skip(f"{name} is not tested with transformers 4")
    tokenizer = tokenizer_of(one.tokenizer)
    vocabulary = 300 if one.tokenizer == "byt5" else len(tokenizer)
    return build(one.config, {**one.settings, "vocab_size": vocabulary}), tokenizer
