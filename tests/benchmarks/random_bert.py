"""A BERT of roberta-large's size with random weights, where there are no weights to download: its work is the same."""

from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoTokenizer, BertConfig, BertModel

from bertscore_metric.models.source import quiet


@dataclass(frozen=True)
class Size:
    """The sizes of a BERT, and the layer at which it is cut."""

    dim: int = 1024
    layers: int = 24
    heads: int = 16
    inner: int = 4096
    cut: int = 17


def save_random_bert(folder: Path, vocabulary: str, size: Size) -> str:
    """Save a BERT with random weights and the tokenizer of the folder `vocabulary`, and return where."""
    tokenizer = AutoTokenizer.from_pretrained(vocabulary)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=size.dim,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        intermediate_size=size.inner,
    )
    with quiet(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        BertModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)
