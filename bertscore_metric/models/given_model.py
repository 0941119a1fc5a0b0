"""A model object as its owner holds it -> the transformers model in it, and a copy without what was put around it."""

from __future__ import annotations

import copy
import os
from collections import OrderedDict
from collections.abc import Iterator
from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize, prune, remove_spectral_norm, remove_weight_norm
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

# What torch.compile and activation checkpointing call the module that they wrap, wherever it is in a model.
_WRAPPED = ("_orig_mod", "_checkpoint_wrapped_module")
_PARALLEL = (nn.DataParallel, nn.parallel.DistributedDataParallel, torch.optim.swa_utils.AveragedModel)
# Where a module keeps hooks, and what accelerate and transformers note on it when they have set some.
_HOOKS = tuple(name for name in vars(nn.Module()) if "_hooks" in name)
_NOTES = frozenset({"_hf_hook", "_old_forward", "_original_forward", "_output_capturing_hooks_installed"})
# Hooks that compute a weight: their effect is kept as a plain weight.
_WEIGHT_HOOKS = (prune.BasePruningMethod, WeightNorm, SpectralNorm)
_BY_NAME = "or name the model (model_name_or_path=)"


def plain_model(given: Any) -> Any:
    """Return the transformers model in what was given as `model=`, which stays as it is.

    DataParallel, DistributedDataParallel, AveragedModel, compiled models, PEFT models and sentence-transformers are
    unwrapped.

    Raises:
        TypeError: there is no model of transformers in it; the message says what to pass.
        ValueError: its weights are not here as plain numbers: sharded, quantized, or on the meta device.
    """
    if isinstance(given, str | os.PathLike):
        raise TypeError(
            f"model= takes a model object, got {given!r}; to name a model, pass it as "
            f"model_name_or_path={str(given)!r}."
        )
    if isinstance(given, type):
        raise TypeError(
            f"model= takes a model object, got the class {given.__name__}; make one of it: "
            f"{given.__name__}.from_pretrained(...)."
        )
    model = given
    while (inner := _inside(model)) is not None:
        model = inner
    _refuse_kind(model)
    _refuse_weights(model)
    return model


def plain_copy(model: nn.Module) -> Any:
    """Return a copy of a model's structure that shares its weights and runs as its classes say.

    Left out are all hooks, and whatever callable on a module stands before a method of its class: a compiled or
    otherwise wrapped `forward`, accelerate's hooks and the warnings it puts before `to`. What the hooks of pruning and
    weight norm and what parametrizations compute is kept as a plain weight; weights that accelerate has offloaded are
    brought back.

    Raises:
        TypeError: a part of the model cannot be copied; the message names it.
    """
    memo = _shared_weights(model)
    modules = list(model.modules())
    added = {id(module): _added(module) for module in modules}
    for module in modules:
        _leave_out(module, added[id(module)], memo)
    known = dict(memo)
    try:
        for module in reversed(modules):  # what is inside first
            inner = _wrapped(module)
            if inner is not None:
                memo[id(module)] = copy.deepcopy(inner, memo)
        copied = copy.deepcopy(model, memo)
    except Exception as error:  # whatever an attribute raises that is not made to be copied
        raise TypeError(_cannot_copy(model, known, error)) from error
    if {id(module) for module in copied.modules()} & added.keys():
        raise TypeError(
            f"Cannot copy the model: a part of it is not copied by copy.deepcopy. Pass a plain one, {_BY_NAME}."
        )
    for number, names in added.items():
        for name in names:
            vars(memo.get(number)).pop(name, None)
    copied.eval()  # a spectral norm changes its state while it is read in training
    for module in copied.modules():
        _keep_computed_weights(module)
    return copied


def _inside(model: Any) -> Any:
    """Return what a wrapper holds, or `None` where there is no wrapper, or none that is known."""
    if not isinstance(model, nn.Module):
        return None
    libraries = {kind.__module__.partition(".")[0] for kind in type(model).__mro__}
    if "sentence_transformers" in libraries:
        first = model if hasattr(model, "auto_model") else next(iter(model.children()), None)
        return getattr(first, "auto_model", None)
    if "peft" in libraries:
        if getattr(getattr(model, "active_peft_config", None), "is_prompt_learning", False):
            raise TypeError(
                f"A {type(model).__name__} with a learned prompt is not supported: the prompt would be part of every "
                f"text. Pass the model without it (model.get_base_model())."
            )
        get_base_model: Any = getattr(model, "get_base_model", None)
        return None if get_base_model is None else get_base_model()
    inner = _wrapped(model)
    if inner is None and not _is_transformers(model):  # the engines and wrappers of training libraries
        inner = dict(model.named_children()).get("module")
    return inner


def _wrapped(module: nn.Module) -> nn.Module | None:
    names = (*_WRAPPED, "module") if isinstance(module, _PARALLEL) else _WRAPPED
    children = dict(module.named_children())
    return next((children[name] for name in names if name in children), None)


def _is_transformers(model: Any) -> bool:
    return hasattr(getattr(model, "config", None), "to_diff_dict")


def _refuse_kind(model: Any) -> None:
    kind = type(model).__name__
    if isinstance(model, torch.jit.ScriptModule | torch.fx.GraphModule) or kind == "ExportedProgram":
        raise TypeError(
            f"model= got a traced model ({kind}), whose blocks cannot be told; pass the model that was traced, "
            f"{_BY_NAME}."
        )
    if isinstance(model, nn.Module):
        if any("FullyShardedDataParallel" in type(module).__name__ for module in model.modules()):
            raise TypeError(_sharded("FSDP"))
        if _is_transformers(model):
            return
        held = next((name for name, child in model.named_modules() if _is_transformers(child)), None)
        instead = f"pass the one it holds, its .{held}," if held else "pass your own encoder=,"
    elif isinstance(getattr(model, "model", None), nn.Module):  # a pipeline, a trainer
        instead = "pass the one it holds, its .model, with tokenizer= its .tokenizer,"
    elif hasattr(model, "embed") and hasattr(model, "fingerprint"):
        instead = "pass this as encoder=,"
    else:
        instead = "load one with AutoModel.from_pretrained,"
    raise TypeError(f"model= takes a model of transformers, got a {kind}; {instead} {_BY_NAME}.")


def _refuse_weights(model: nn.Module) -> None:
    if getattr(model, "hf_quantizer", None) is not None:
        raise ValueError(_quantized(type(model).__name__))
    for name, module in model.named_modules():
        if ".quantized." in type(module).__module__:  # torch's, which packs its weights
            raise ValueError(_quantized(f"{name} is a {type(module).__name__} of {type(module).__module__}"))
    offloaded = _offloaded(model)
    for name, value in [*model.named_parameters(), *model.named_buffers()]:
        kind = type(value.data).__name__
        if kind == "DTensor":
            raise ValueError(_sharded("DTensor"))
        if getattr(value, "ds_numel", value.numel()) != value.numel():
            raise ValueError(_sharded("DeepSpeed ZeRO"))
        integer = isinstance(value, nn.Parameter) and not value.is_floating_point()
        if value.is_quantized or integer or (kind != "Tensor" and kind != "Parameter"):
            raise ValueError(_quantized(f"{name} is a {kind} of {value.dtype}"))
        if value.is_meta and id(value) not in offloaded:
            raise ValueError(
                f"The weights of the model are not here: {name} is on the meta device, which has shapes and no numbers "
                f"(init_empty_weights, torch.device('meta')). Load them first (from_pretrained), {_BY_NAME}."
            )


def _sharded(by: str) -> str:
    return (
        f"The weights of the model are sharded ({by}), so that no process has them all. Save the whole model and pass "
        f"its folder as model_name_or_path=, or pass the model as it was before."
    )


def _quantized(what: str) -> str:
    return (
        f"The model is quantized ({what}), and a scorer takes plain weights, which it can bring to dtype=. Pass the "
        f"model as it was before, {_BY_NAME}."
    )


def _shared_weights(model: nn.Module) -> dict[int, Any]:
    """Return what stands for tensors in a copy that shares them: themselves, or where they are offloaded, their values.

    A tensor that is not a leaf (what a hook of pruning or weight norm computed) cannot be copied, and is detached.
    """
    shared: dict[int, Any] = {id(tensor): tensor for tensor in [*model.parameters(), *model.buffers()]}
    for module in model.modules():
        shared.update((id(value), value.detach()) for value in vars(module).values() if isinstance(value, Tensor))
    for number, (tensor, values, name) in _offloaded(model).items():
        here = values[name].detach()
        shared[number] = nn.Parameter(here, requires_grad=False) if isinstance(tensor, nn.Parameter) else here
    return shared


def _offloaded(model: nn.Module) -> dict[int, tuple[Tensor, Any, str]]:
    """Return, by `id`, tensors that accelerate has left on the meta device, with the map that has each, and its key."""
    found = {}
    for module in model.modules():
        for hook in _accelerate_hooks(getattr(module, "_hf_hook", None)):
            if getattr(hook, "weights_map", None) is None:
                continue
            deep = bool(hook.place_submodules)
            for name, tensor in [*module.named_parameters(recurse=deep), *module.named_buffers(recurse=deep)]:
                if tensor.is_meta:
                    found[id(tensor)] = (tensor, hook.weights_map, name)
    return found


def _accelerate_hooks(hook: Any) -> Iterator[Any]:
    for part in getattr(hook, "hooks", [] if hook is None else [hook]):
        yield from _accelerate_hooks(part) if hasattr(part, "hooks") else [part]


def _added(module: nn.Module) -> list[str]:
    """Return the names of what was put on a module from outside: it stands before a method of the module's class."""
    return [
        name
        for name, value in vars(module).items()
        if name in _NOTES or (callable(value) and callable(getattr(type(module), name, None)))
    ]


def _leave_out(module: nn.Module, added: list[str], memo: dict[int, Any]) -> None:
    """Let a copy have no hooks, and nothing that was added: `memo` says what stands for an object in the copy."""
    for name in _HOOKS:
        memo[id(vars(module)[name])] = OrderedDict()
    hooks = module._forward_pre_hooks
    memo[id(hooks)] = OrderedDict((key, hook) for key, hook in hooks.items() if isinstance(hook, _WEIGHT_HOOKS))
    for name in added:
        value = vars(module)[name]
        if not isinstance(value, FunctionType | BuiltinFunctionType | type | bool):  # copied as they are, at no cost
            memo[id(value)] = object()


def _keep_computed_weights(module: nn.Module) -> None:
    """Make plain weights of those that are computed whenever the module runs; in a copy, whose weights are shared."""
    hooks: list[Any] = list(module._forward_pre_hooks.values())
    with torch.no_grad():
        if hooks:  # what follows writes into the weights
            own = [(name, nn.Parameter(p.detach().clone())) for name, p in module._parameters.items() if p is not None]
            module._parameters = {**module._parameters, **dict(own)}
        for hook in hooks:
            if isinstance(hook, prune.BasePruningMethod):
                prune.remove(module, hook._tensor_name)  # type: ignore[no-untyped-call]
            elif isinstance(hook, WeightNorm):
                remove_weight_norm(module, hook.name)
            else:
                remove_spectral_norm(module, hook.name)
        if parametrize.is_parametrized(module):
            names = [name for name, _ in module.get_submodule("parametrizations").named_children()]
            computed = {name: getattr(module, name).detach().clone() for name in names}
            module.__class__ = type(module).__bases__[0]  # of which torch made one for this module alone
            del module._modules["parametrizations"]
            for name, value in computed.items():
                module.register_parameter(name, nn.Parameter(value))


def _cannot_copy(model: nn.Module, memo: dict[int, Any], error: Exception) -> str:
    """Return a message that names the attribute that cannot be copied."""
    where = "a part of it"
    for path, module in model.named_modules():
        own = [item for item in vars(module).items() if item[0] not in ("_modules", "_parameters", "_buffers")]
        for name, value in own:
            try:
                copy.deepcopy(value, dict(memo))
            except Exception as reason:
                where, error = f"its {path}.{name}".replace("its .", "its ") + f" ({type(value).__name__})", reason
    return f"Cannot copy the model: {where} cannot be copied ({error}). Take it off the model, {_BY_NAME}."
