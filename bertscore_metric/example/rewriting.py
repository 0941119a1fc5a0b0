"""The task of the example loops: rewrite a sentence. Its texts, and a model small enough to train anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypedDict

import torch
from torch.utils.data import Dataset

from bertscore_metric.models.source import load_tokenizer, resolve


class Batch(TypedDict):
    """What torch's own collate function makes of examples: their numbers in the data set, and texts."""

    number: torch.Tensor
    source: list[str]
    target: list[str]


class Rewriting(Dataset[dict[str, Any]]):
    """Nineteen sentences and how someone else has put them; an odd number, so that two ranks share one."""

    def __init__(self) -> None:
        sources, targets = (
            (Path(__file__).with_name(name)).read_text(encoding="utf-8").splitlines()
            for name in ("candidates.txt", "references.1.txt")
        )
        self.pairs = [(source, target) for source, target in zip(sources, targets, strict=True) if source]

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, number: int) -> dict[str, Any]:
        source, target = self.pairs[number]
        return {"number": number, "source": source, "target": target}


def tokenizer_and_model() -> tuple[Any, Any]:
    """Return the embedded model's tokenizer, and a T5 of 1.0 M parameters with its vocabulary, which knows nothing."""
    from transformers import T5Config, T5ForConditionalGeneration

    tokenizer = load_tokenizer(resolve("offline"))
    settings: dict[str, Any] = {
        "vocab_size": len(tokenizer), "d_model": 32, "d_ff": 64, "d_kv": 8, "num_layers": 2, "num_heads": 4,
        "dropout_rate": 0.0, "pad_token_id": tokenizer.pad_token_id, "decoder_start_token_id": tokenizer.pad_token_id,
        "eos_token_id": tokenizer.sep_token_id,
    }  # fmt: skip
    return tokenizer, T5ForConditionalGeneration(T5Config(**settings))


def training_arguments(tokenizer: Any, batch: Batch, device: torch.device) -> dict[str, torch.Tensor]:
    """Return the ids of sources and targets [text, token]; the loss ignores labels of -100."""
    inputs = tokenizer(batch["source"], return_tensors="pt", padding=True).to(device)
    labels = tokenizer(batch["target"], return_tensors="pt", padding=True).input_ids.to(device)
    labels[labels == tokenizer.pad_token_id] = -100
    return {"input_ids": inputs.input_ids, "attention_mask": inputs.attention_mask, "labels": labels}


def generate(tokenizer: Any, model: Any, batch: Batch, device: torch.device) -> list[str]:
    """Return the texts that the model makes of the sources."""
    inputs = tokenizer(batch["source"], return_tensors="pt", padding=True).to(device)
    ids = model.generate(inputs.input_ids, attention_mask=inputs.attention_mask, max_new_tokens=8, do_sample=False)
    return list(tokenizer.batch_decode(ids, skip_special_tokens=True))
