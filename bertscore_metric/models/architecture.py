"""What a transformers model is made of: its text encoder, its blocks, its positions, and the identity of it all."""

from __future__ import annotations

import copy
import hashlib
import json
from typing import Any

import torch
from torch import Tensor, nn

from bertscore_metric.models.quirks import quirks

# Names of the table of absolute positions that do not say "position".
POSITION_TABLES = ("wpe", "pos_encoding")
# Settings of a configuration that change no embedding, or that the signature has elsewhere.
_NEUTRAL_CONFIG = frozenset({
    "_attn_implementation", "_commit_hash", "_name_or_path", "architectures", "bos_token_id", "decoder_start_token_id",
    "dtype", "eos_token_id", "finetuning_task", "forced_eos_token_id", "gradient_checkpointing", "id2label", "label2id",
    "max_length", "num_hidden_layers", "num_labels", "output_attentions", "output_hidden_states", "problem_type",
    "return_dict", "task_specific_params", "tie_word_embeddings", "tokenizer_class", "torch_dtype",
    "transformers_version", "use_cache",
})  # fmt: skip
# Values that mean the same as no value: which of them a configuration lists differs between versions of transformers.
_UNSAID = frozenset({"None", "False", "absolute"})


def text_encoder(model: Any) -> Any:
    """Return a copy of the structure of the part of a model that encodes text; it shares the model's tensors.

    That is the model without its head; of one that also has a decoder, the encoder; and of one that also sees or
    hears, the outermost part whose configuration is the text's.
    """
    tensors = {id(tensor): tensor for tensor in [*model.parameters(), *model.buffers()]}
    body = copy.deepcopy(model, tensors)
    body = getattr(body, "base_model", body)
    two_stacks = getattr(body.config, "is_encoder_decoder", False) or hasattr(body, "decoder")
    if two_stacks and hasattr(body, "encoder"):
        config, body = body.config, body.encoder
        if not hasattr(body, "config"):  # FSMT's
            body.config = config
    wanted = text_config(body.config)
    if type(wanted) is type(body.config):
        return body
    towers = (part for part in body.modules() if type(getattr(part, "config", None)) is type(wanted))
    tower = next(towers, body)
    return getattr(tower, "base_model", tower)


def text_config(config: Any) -> Any:
    """Return the part of a configuration that describes the text encoder: the whole of it, for most models."""
    if getattr(config, "is_encoder_decoder", False) and hasattr(getattr(config, "encoder", None), "model_type"):
        config = config.encoder
    return config.get_text_config() if hasattr(config, "get_text_config") else config


def depth(config: Any) -> int:
    """Return the number of blocks that a configuration describes (those of the encoder, where it has two stacks)."""
    described = text_config(config)
    if quirks(described.model_type).random:
        raise NotImplementedError(
            f"A {described.model_type} model gives the same text other embeddings every time; take another model."
        )
    for name in ("encoder_layers", "num_hidden_layers"):
        value = getattr(described, name, None)
        if isinstance(value, int):
            return value
    raise NotImplementedError(
        f"Cannot tell how many layers a {config.model_type} model has; pass your own encoder= instead."
    )


def keep_blocks(body: Any, num_layers: int) -> Any:
    """Shorten a model to its first `num_layers` blocks, in place, and return it.

    The blocks are the one outermost `ModuleList` as long as the configuration says the model is deep; the models
    without such a list have a `block_counter` in `quirks.QUIRKS`.
    """
    total = depth(body.config)
    model_type = body.config.model_type
    if num_layers > total:
        raise ValueError(f"num_layers={num_layers}, but the {model_type} model has {total} layers (0 to {total}).")
    block_counter = quirks(model_type).block_counter
    if block_counter is not None:
        path, counter = block_counter
        setattr(_submodule(body, path), counter, num_layers)
        return body
    path, _, name = block_list(body).rpartition(".")
    parent = body.get_submodule(path)
    setattr(parent, name, getattr(parent, name)[:num_layers])
    return body


def block_list(body: Any) -> str:
    """Return the name of the list of a model's blocks.

    Raises:
        NotImplementedError: there is no such list, or more than one.
    """
    total = depth(body.config)
    lists = [
        name for name, module in body.named_modules() if isinstance(module, nn.ModuleList) and len(module) == total
    ]
    outermost = [name for name in lists if not any(name.startswith(f"{other}.") for other in lists if other != name)]
    if len(outermost) != 1:
        raise NotImplementedError(
            f"Cannot tell the blocks of a {body.config.model_type} model: found {outermost or 'no list'} of length "
            f"{total}. Pass your own encoder= instead."
        )
    return str(outermost[0])


def position_limit(body: Any) -> int | None:
    """Return how many tokens the table of absolute positions holds, or `None` where there is no table.

    Tables are embeddings or plain tensors whose name says position; relative positions, and rotary ones that are
    computed, have none. RoBERTa's begin after the padding index, BART's after an offset, and `position_ids` lists the
    rows in use.
    """
    limits = []
    for path, module in body.named_modules():
        table = getattr(module, "weight", None)
        if isinstance(table, Tensor) and "Embedding" in type(module).__name__ and _is_position_table(path):
            reserved = int(getattr(module, "offset", 0) or 0)
            if getattr(module, "padding_idx", None) is not None:
                reserved = module.padding_idx + 1
            limits.append(len(table) - reserved)
        for name, value in {**module._buffers, **vars(module)}.items():  # a buffer, or in transformers 4 a plain tensor
            if (
                isinstance(value, Tensor)
                and value.dim() == 2
                and value.is_floating_point()
                and _is_position_table(name)
            ):
                limits.append(len(value))
    if limits:  # a model whose positions are relative may list rows of a table that it does not have
        limits += [ids.shape[-1] for name, ids in body.named_buffers() if name.rpartition(".")[2] == "position_ids"]
    if not limits:
        return None
    limit = min(limits)
    if quirks(body.config.model_type).positions_in_windows:
        window = body.config.attention_window
        limit -= limit % (window if isinstance(window, int) else max(window))
    return limit


def identity(body: Any) -> str:
    """Return a hash of all weights and of the configuration: the same for a name, a copy and an object.

    Of every tensor it takes name, shape, the sum of its float32 bit patterns and 64 sampled values.
    """
    listed = body.config.to_diff_dict().items()
    settings = {key: value for key, value in listed if key not in _NEUTRAL_CONFIG and str(value) not in _UNSAID}
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode())
    for name, tensor in sorted(body.state_dict().items()):
        flat = tensor.detach().reshape(-1).to(torch.float32)
        total = int(flat.view(torch.int32).sum(dtype=torch.int64)) if flat.numel() else 0
        digest.update(f"{name}{tuple(tensor.shape)}{total}".encode())
        if flat.numel():
            sample = flat[torch.linspace(0, flat.numel() - 1, 64, dtype=torch.float64).long().to(flat.device)]
            digest.update(sample.cpu().numpy().tobytes())
    return digest.hexdigest()[:12]


def _is_position_table(name: str) -> bool:
    last = name.rpartition(".")[2]
    return "relative" not in last and ("position" in last or last in POSITION_TABLES)


def _submodule(body: Any, path: str) -> Any:
    for name in filter(None, path.split(".")):
        body = getattr(body, name)
    return body
