"""Tokens -> embeddings: the `Encoder` protocol and its Hugging Face implementation, the only caller of a model."""

from __future__ import annotations

import copy
import inspect
import os
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from bertscore_metric.core.tokens import TokenBatch
from bertscore_metric.forks import renew_after_fork
from bertscore_metric.models.architecture import (
    block_list,
    depth,
    identity,
    keep_blocks,
    position_limit,
    text_encoder,
)
from bertscore_metric.models.compiled import CompiledModel
from bertscore_metric.models.given_model import plain_copy
from bertscore_metric.models.numerics import TORCH_DTYPES, own_arithmetic
from bertscore_metric.models.probe import NOISE, padding_changes_embeddings
from bertscore_metric.models.quirks import quirks
from bertscore_metric.models.source import ModelSource, file_stamp, loading


@runtime_checkable
class Encoder(Protocol):
    """What turns tokens into embeddings; anything with this method and property can be passed as `encoder=`.

    Four optional attributes are used where an encoder has them: `special_ids` (ids that carry no text and get weight
    0; by default those of the tokenizer passed along), `dim` (size of an embedding), `num_layers` (for the signature)
    and `device` (where batches are planned for; by default the CPU).

    Example:
        >>> class Lookup:
        ...     fingerprint = "one-hot"
        ...     def embed(self, tokens):
        ...         return torch.nn.functional.one_hot(tokens.ids, 30522).float()
        >>> isinstance(Lookup(), Encoder)
        True
    """

    @property
    def fingerprint(self) -> str:
        """Identity of everything that changes its numbers, for the signature."""
        ...

    def embed(self, tokens: TokenBatch) -> Tensor:
        """Return one vector a token: [text, token, dim], or [layer, text, token, dim] for several layers at once.

        Rows of padding are ignored; the others must not depend on it.
        """
        ...


class HuggingFaceEncoder:
    """The first blocks of a transformers model.

    Args:
        model: a model of transformers; it is copied as far as it is kept, never cut, moved or switched in place. Hooks
            and methods replaced on the object are left out (see `plain_copy`).
        num_layers: how many blocks run (0 is the embedding output); what follows the blocks (a final norm) still runs.
            `None` for `all_layers`.
        dtype: `float32`, `tf32`, `bfloat16` or `float16`.
        device: where it runs.
        owned: the model is nobody else's, so its tensors need no copy.
        compile: whether to compile it.

    Raises:
        ValueError: `num_layers` is above the model's depth.
        NotImplementedError: the model's blocks cannot be told, or it does not give every token of a text an embedding
            that depends on this text alone.
    """

    def __init__(
        self,
        model: Any,
        *,
        num_layers: int | None,
        dtype: str,
        device: torch.device,
        owned: bool = False,
        compile: bool = False,
    ) -> None:
        body = _without_pooler(text_encoder(model if owned else plain_copy(model)))
        self.fingerprint = identity(body)
        self.depth = depth(body.config)
        self.num_layers = num_layers
        self._embeddings_only = num_layers == 0 and quirks(body.config.model_type).needs_a_block
        if num_layers is not None:
            body = keep_blocks(body, 1 if self._embeddings_only else num_layers)
        if quirks(body.config.model_type).full_attention:
            body.set_attention_type("original_full")
        if not owned:  # until here the skeleton shares its tensors with the caller's model
            body = copy.deepcopy(body)
        self._model = body.to(device=device, dtype=TORCH_DTYPES[dtype]).eval().requires_grad_(False)
        self._dtype = dtype
        self.dim = int(getattr(body.config, "hidden_size", 1024))
        self.device = device
        self.position_limit = position_limit(body)
        self._vocabulary = _vocabulary_size(body)
        accepted = inspect.signature(body.forward).parameters
        self._optional = {name: False for name in ("use_cache", "use_mems") if name in accepted}  # they save work
        # A model that takes no mask cannot bear padding, as its trial will show.
        self._takes_mask = "attention_mask" in accepted or any(p.kind is p.VAR_KEYWORD for p in accepted.values())
        self._lock = threading.Lock()
        renew_after_fork(self)
        self._compile = compile
        self._compiled: CompiledModel | None = None
        self._equal_lengths = False  # for the trial
        self._equal_lengths = self._padding_changes_embeddings()
        self._prepare_compiling()
        if compile and device.type != "meta":
            self._compile_now()

    @property
    def compile_error(self) -> str | None:
        """Why the model runs uncompiled where it should be compiled; `None` where all is as it should be."""
        return None if self._compiled is None else self._compiled.error

    def _prepare_compiling(self) -> None:
        self._compiled = CompiledModel(self._model, dtype=self._dtype) if self._compile else None

    def _compile_now(self) -> None:
        ids = torch.arange(14).reshape(2, 7) % (self._vocabulary or 14)
        whole = torch.ones_like(ids, dtype=torch.bool)
        with own_arithmetic(self._dtype, self.device):
            self.embed(TokenBatch(ids, whole, ~whole))

    def _padding_changes_embeddings(self) -> bool:
        if self.device.type == "meta":  # which has shapes and no numbers
            return False
        config = self._model.config
        pad_id = getattr(config, "pad_token_id", None)
        blocks = None
        if self.num_layers is None and quirks(config.model_type).block_counter is None:
            blocks = self._model.get_submodule(block_list(self._model))
        with own_arithmetic(self._dtype, self.device):
            return padding_changes_embeddings(
                self.embed,
                model_type=config.model_type,
                vocabulary=self._vocabulary or 100,
                pad_id=pad_id if isinstance(pad_id, int) else 0,
                n_layers=None if self.num_layers is not None else self.depth + 1,
                noise=NOISE[self._dtype],
                first_block=blocks[0] if blocks else None,
            )

    def embed(self, tokens: TokenBatch) -> Tensor:
        """Return embeddings [text, token, dim], or [depth + 1, text, token, dim] for all layers.

        Raises:
            ValueError: an id is not in the model's vocabulary.
        """
        if self._vocabulary is not None and tokens.ids.numel() and int(tokens.ids.max()) >= self._vocabulary:
            raise ValueError(
                f"The tokenizer gives the id {int(tokens.ids.max())}, but the model's vocabulary has only "
                f"{self._vocabulary} entries; use the tokenizer that belongs to the model."
            )
        if self._equal_lengths and not bool(tokens.attention_mask.all()):
            return self._embed_by_length(tokens)
        arguments: dict[str, Any] = dict(self._optional)
        compiled = self._compiled is not None  # then always with a mask, for without one it is another graph
        if self._takes_mask and (compiled or not bool(tokens.attention_mask.all())):
            arguments["attention_mask"] = tokens.attention_mask.to(self.device, torch.int64)
        with self._lock, torch.inference_mode():
            output = (self._compiled or self._model)(
                input_ids=tokens.ids.to(self.device),
                output_hidden_states=self.num_layers is None or self._embeddings_only,
                return_dict=True,
                **arguments,
            )
        if self.num_layers is None:
            return torch.stack(output.hidden_states)
        embeddings: Tensor = output.hidden_states[0] if self._embeddings_only else output.last_hidden_state
        return embeddings

    def _embed_by_length(self, tokens: TokenBatch) -> Tensor:
        """Return the embeddings of a model that padding would change: texts of equal length together, 0 elsewhere."""
        lengths = tokens.attention_mask.sum(1)
        values = (tokens.ids, tokens.attention_mask, tokens.special_tokens_mask)
        groups = [(lengths == length).nonzero()[:, 0] for length in sorted(set(lengths.tolist()))]
        parts = [self.embed(TokenBatch(*(value[rows, : lengths[rows[0]]] for value in values))) for rows in groups]
        shape = (*parts[0].shape[:-3], *tokens.ids.shape, parts[0].shape[-1])
        together = parts[0].new_zeros(shape)
        for rows, part in zip(groups, parts, strict=True):
            together[..., rows.to(part.device), : part.shape[-2], :] = part
        return together

    def to_device(self, device: torch.device) -> HuggingFaceEncoder:
        """Return the same encoder on another device; this one stays where it is, for others may use it."""
        if device == self.device:
            return self
        other = copy.copy(self)
        other._model = copy.deepcopy(self._model).to(device)
        other.device = device
        other._prepare_compiling()
        return other

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what cannot be pickled: lock, compiled code, and the hooks by which transformers notes states."""
        state = {name: value for name, value in self.__dict__.items() if name not in ("_lock", "_compiled")}
        tensors = {id(tensor): tensor for tensor in [*self._model.parameters(), *self._model.buffers()]}
        state["_model"] = model = copy.deepcopy(self._model, tensors)
        for module in model.modules():
            hooks = module._forward_hooks
            for key in [key for key, hook in hooks.items() if "output_capturing_hook" in hook.__qualname__]:
                del hooks[key]  # transformers installs it again
            module.__dict__.pop("_output_capturing_hooks_installed", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore, with a lock of its own."""
        self.__dict__.update(state)
        self._lock = threading.Lock()
        renew_after_fork(self)
        self._prepare_compiling()

    def after_fork(self) -> None:
        """Have a lock of one's own, for another thread may have held it."""
        self._lock = threading.Lock()


_shared: weakref.WeakValueDictionary[tuple[Any, ...], HuggingFaceEncoder] = weakref.WeakValueDictionary()
_latest: list[HuggingFaceEncoder] = []  # keeps the last one alive, so that repeated score() calls load once


def load_encoder(
    source: ModelSource,
    config: Any,
    *,
    num_layers: int | None,
    dtype: str,
    device: torch.device,
    compile: bool = False,
) -> HuggingFaceEncoder:
    """Load an encoder, or return the one that the process already has for the same settings.

    Raises:
        OSError: the files cannot be had; the message says what to do.
        ValueError: the checkpoint lacks weights of the layers that are used, or `num_layers` is above the depth.
    """
    key = (source, file_stamp(source), num_layers, dtype, device, compile)
    with own_arithmetic(dtype, device):  # which also lets one thread load at a time
        encoder = _shared.get(key)
        if encoder is None:
            model = _load_model(source, config, dtype, num_layers)
            encoder = HuggingFaceEncoder(
                model, num_layers=num_layers, dtype=dtype, device=device, owned=True, compile=compile
            )
            _shared[key] = encoder
        _latest[:] = [encoder]
        return encoder


def release_encoders() -> None:
    """Drop the encoder that the process keeps for the next call; those still in use stay until their users go.

    Example:
        >>> from bertscore_metric import score
        >>> result = score("a cat", "a dog", "offline")
        >>> release_encoders()                            # the next call loads the model again
    """
    _latest.clear()


def _load_model(source: ModelSource, config: Any, dtype: str, num_layers: int | None) -> Any:
    from transformers import AutoModel

    if num_layers is not None and num_layers > depth(config):
        raise ValueError(
            f"num_layers={num_layers}, but {source.name} has {depth(config)} layers (0 to {depth(config)})."
        )
    with loading(source), _whole_weights():
        model, report = AutoModel.from_pretrained(
            source.location,
            config=copy.deepcopy(config),
            dtype=TORCH_DTYPES[dtype],
            use_safetensors=source.use_safetensors or None,
            ignore_mismatched_sizes=True,  # refused below, by name
            output_loading_info=True,
            **source.hub_arguments,
        )
    if report["mismatched_keys"]:
        name, found, expected = sorted(report["mismatched_keys"])[0]
        raise ValueError(
            f"The weights of {source.name} do not fit its config.json: {name} is {list(found)} in the weights and "
            f"{list(expected)} by config.json. Take both files from the same checkpoint."
        )
    _check_complete(source, model, set(report["missing_keys"]), num_layers)
    return model


def _check_complete(source: ModelSource, model: Any, missing: set[str], num_layers: int | None) -> None:
    if any(tensor.is_meta for tensor in model.parameters()):
        raise RuntimeError(
            f"{source.name} was loaded without its weights, onto the meta device, because it was loaded inside "
            f"init_empty_weights(); make the scorer outside of it."
        )
    body = text_encoder(model)
    if num_layers is not None:
        body = keep_blocks(body, num_layers)
    kept = {id(tensor) for tensor in _without_pooler(body).state_dict(keep_vars=True).values()}
    used = [name for name, tensor in model.state_dict(keep_vars=True).items() if name in missing and id(tensor) in kept]
    if used:
        raise ValueError(
            f"The weights of {source.name} lack {len(used)} of the tensors of the layers that are used "
            f"({', '.join(used[:3])}{', ...' if len(used) > 3 else ''}); they would be random. "
            f"Is this a checkpoint of another architecture?"
        )
    tensors = model.state_dict(keep_vars=True).items()
    broken = [name for name, tensor in tensors if id(tensor) in kept and not bool(torch.isfinite(tensor).all())]
    if broken:
        raise ValueError(
            f"The weights of {source.name} are not finite in {len(broken)} of their tensors ({', '.join(broken[:3])}); "
            f"the files are damaged, or their numbers are too large for this dtype."
        )


@contextmanager
def _whole_weights() -> Iterator[None]:
    """Load whole weights also inside a training run that is set up to load each rank a part of its own model.

    transformers asks the environment (FSDP: ranks above 0 would keep random weights) and a global of its DeepSpeed
    integration (ZeRO-3: every rank would hold a slice). Inside DeepSpeed's own `zero.Init`, in which Lightning calls
    `configure_model`, every module that is made is cut up at once.
    """
    from transformers.integrations import deepspeed

    settings: Any = deepspeed  # untyped, and the global is private
    fsdp = os.environ.pop("ACCELERATE_USE_FSDP", None)
    zero, settings._hf_deepspeed_config_weak_ref = settings._hf_deepspeed_config_weak_ref, None
    partition: Any = sys.modules.get("deepspeed.runtime.zero.partition_parameters")
    cutting = bool(getattr(getattr(partition, "top_level_context", None), "patched", False))
    if cutting:
        partition.shutdown_init_context()
    try:
        yield
    finally:
        if cutting:
            partition.restore_init_context()
        settings._hf_deepspeed_config_weak_ref = zero
        if fsdp is not None:
            os.environ["ACCELERATE_USE_FSDP"] = fsdp


def _without_pooler(body: Any) -> Any:
    if "add_pooling_layer" in inspect.signature(type(body).__init__).parameters:
        body.pooler = None  # classes with this argument run without one
    return body


def _vocabulary_size(body: Any) -> int | None:
    try:
        return int(body.get_input_embeddings().num_embeddings)
    except (AttributeError, NotImplementedError):
        return None
