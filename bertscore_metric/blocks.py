"""What a transformers model is made of: its text encoder, its blocks, and how many positions it knows."""

from __future__ import annotations

import copy
from typing import Any

from torch import Tensor, nn

# Models whose blocks are not a list that can be shortened: the attribute that counts them, and where it is.
BLOCK_COUNTERS = {
    "albert": ("encoder.config", "num_hidden_layers"),
    "flaubert": ("", "n_layers"),
    "xlm": ("", "n_layers"),
}
# Models that cannot run without a block (and have no norm after them): layer 0 is read before the first block.
NEEDS_A_BLOCK = frozenset({"deberta-v2", "xmod"})
# Models whose numbers are no function of the text: this one hashes the tokens of longer texts at random.
UNSUPPORTED = frozenset({"reformer"})
# Names of the table of absolute positions that do not say "position".
POSITION_TABLES = ("wpe", "pos_encoding")


def text_encoder(model: Any) -> Any:
    """Return a copy of the structure of the part of a model that encodes text; it shares the model's tensors.

    That is the model without its head; of one that also has a decoder, the encoder; and of one that also sees or
    hears, the outermost part whose configuration is the text's.
    """
    tensors = {id(tensor): tensor for tensor in [*model.parameters(), *model.buffers()]}
    body = copy.deepcopy(model, tensors)
    body = getattr(body, "base_model", body)
    if getattr(body.config, "is_encoder_decoder", False) and hasattr(body, "encoder"):
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
    if described.model_type in UNSUPPORTED:
        raise NotImplementedError(
            f"A {described.model_type} model gives the same text other embeddings every time; take another model."
        )
    for name in ("encoder_layers", "num_hidden_layers"):
        value = getattr(described, name, None)
        if isinstance(value, int):
            return value
    raise NotImplementedError(
        f"Cannot tell how many layers a {config.model_type} model has; pass an own encoder= instead."
    )


def keep_blocks(body: Any, num_layers: int) -> Any:
    """Shorten a model to its first `num_layers` blocks, in place, and return it.

    The blocks are the one outermost `ModuleList` as long as the configuration says the model is deep; the models
    without such a list are in `BLOCK_COUNTERS`.
    """
    total = depth(body.config)
    model_type = body.config.model_type
    if num_layers > total:
        raise ValueError(f"num_layers={num_layers}, but the {model_type} model has {total} layers (0 to {total}).")
    if model_type in BLOCK_COUNTERS:
        path, counter = BLOCK_COUNTERS[model_type]
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
            f"{total}. Pass an own encoder= instead."
        )
    return str(outermost[0])


def position_limit(body: Any) -> int | None:
    """Return how many tokens the table of absolute positions holds, or `None` where there is no table.

    Tables are embeddings or buffers whose name says position; relative and rotary positions that are computed have
    none. RoBERTa's begin after the padding index, BART's after an offset, and `position_ids` lists the rows in use.
    """
    limits = []
    for name, module in body.named_modules():
        table = getattr(module, "weight", None)
        if isinstance(table, Tensor) and "Embedding" in type(module).__name__ and _is_position_table(name):
            reserved = int(getattr(module, "offset", 0) or 0)
            if getattr(module, "padding_idx", None) is not None:
                reserved = module.padding_idx + 1
            limits.append(len(table) - reserved)
    for name, buffer in body.named_buffers():
        if buffer.dim() == 2 and buffer.is_floating_point() and _is_position_table(name):
            limits.append(buffer.shape[0])
    if limits:  # a model whose positions are relative may list rows of a table that it does not have
        limits += [ids.shape[-1] for name, ids in body.named_buffers() if name.rpartition(".")[2] == "position_ids"]
    return min(limits) if limits else None


def _is_position_table(name: str) -> bool:
    last = name.rpartition(".")[2]
    return "relative" not in last and ("position" in last or last in POSITION_TABLES)


def _submodule(body: Any, path: str) -> Any:
    for name in filter(None, path.split(".")):
        body = getattr(body, name)
    return body
