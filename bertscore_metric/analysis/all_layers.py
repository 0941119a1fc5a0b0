"""All layers in one pass, each as the model cut to it gives it: what follows the blocks is applied to every layer."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from bertscore_metric.core.tokens import TokenBatch
from bertscore_metric.models.architecture import keep_blocks
from bertscore_metric.models.encoder import Encoder, HuggingFaceEncoder
from bertscore_metric.models.quirks import quirks
from bertscore_metric.scorer import BERTScorer

# What follows from scoring every layer, and is not for the callers of `score_every_layer` to choose.
OWN_SETTINGS = ("num_layers", "all_layers", "idf", "rescale_with_baseline", "baseline_path", "empty")
_PROBE_TOKENS = 8
_SAME = 1e-3  # of the largest value: both sides are the same computation, so only rounding may tell them apart


class EveryLayer:
    """An `Encoder` of all layers in which layer k is what `num_layers=k` gives, and which measures the embeddings.

    The hidden states of a transformers model are raw below the last layer, while a cut model still runs what follows
    its blocks (the final norm of T5, Llama, ModernBERT and others), which is therefore applied here to every layer.

    Args:
        encoder: a `HuggingFaceEncoder` of all layers (`num_layers=None`), or a custom encoder of several layers, which
            are taken as they are.

    Raises:
        NotImplementedError: what follows the blocks cannot be told; the layers would not be those of cut models.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._following = following(encoder) if isinstance(encoder, HuggingFaceEncoder) else []
        self.fingerprint = encoder.fingerprint
        self._norm_sums = torch.zeros((), dtype=torch.float64)
        self._n_tokens = 0

    def embed(self, tokens: TokenBatch) -> Tensor:
        """Return embeddings [layer, text, token, dim]."""
        layers = self._encoder.embed(tokens)
        if self._following:
            layers = torch.stack([*(run(self._following, layer) for layer in layers[:-1]), layers[-1]])
        counted = layers[:, ~tokens.special_tokens_mask.to(layers.device)]
        self._norm_sums = self._norm_sums + torch.linalg.vector_norm(counted.float(), dim=-1).double().sum(-1).cpu()
        self._n_tokens += counted.shape[1]
        return layers

    @property
    def norms(self) -> tuple[float, ...]:
        """Mean L2 norm of the embeddings by layer, over the tokens embedded so far, special tokens left out."""
        return tuple((self._norm_sums / max(self._n_tokens, 1)).tolist())


def score_every_layer(scorer: BERTScorer) -> tuple[BERTScorer, EveryLayer]:
    """Return a scorer of all layers, each as `num_layers` of its number gives it, and the encoder that measures norms.

    Args:
        scorer: a scorer with `all_layers=True`; it stays as it is.
    """
    other = copy.copy(scorer)
    other.reset()
    with scorer.own_arithmetic():
        encoder = EveryLayer(scorer.model.encoder)
    other.model = dataclasses.replace(scorer.model, encoder=encoder)
    other.signature = scorer.signature.replace("layer", "all")
    return other, encoder


def following(encoder: HuggingFaceEncoder) -> list[nn.Module]:
    """Return the modules that a model runs after its blocks, in order; none for most.

    They are found in the model without blocks: the chain of modules that leads from the embedding output (the first
    hidden state) to the output. The chain is then tried on the hidden states of three layers, which must become the
    outputs of the models cut there.

    Args:
        encoder: of all layers; its weights are shared with the modules returned.

    Raises:
        NotImplementedError: there is no such chain, or it gives other numbers than the cut models.
    """
    depth, body = encoder.depth, encoder._model
    ids = torch.arange(min(_PROBE_TOKENS, encoder._vocabulary or _PROBE_TOKENS))[None]
    everywhere = torch.ones_like(ids, dtype=torch.bool)
    probe = TokenBatch(ids, everywhere, ~everywhere)
    hidden = encoder.embed(probe)
    needs_a_block = quirks(body.config.model_type).needs_a_block
    chain = [] if needs_a_block else _chain(_cut(encoder, 0), probe, hidden[0])
    for layer in sorted({int(needs_a_block), depth // 2, depth - 1} - {depth}):
        if not _same(run(chain, hidden[layer]), _cut(encoder, layer).embed(probe)):
            raise NotImplementedError(
                f"Cannot tell what a {body.config.model_type} model does after its blocks: at layer {layer} the hidden "
                f"state of the whole model does not lead to the output of the model cut there. Score its layers one "
                f"by one with num_layers."
            )
    return chain


def run(modules: Sequence[nn.Module], layer: Tensor) -> Tensor:
    """Apply modules in order to hidden states [text, token, dim]."""
    with torch.inference_mode():
        for module in modules:
            layer = module(layer)
    return layer


def _cut(encoder: HuggingFaceEncoder, num_layers: int) -> HuggingFaceEncoder:
    """Return the encoder cut to its first blocks, with the same tensors."""
    other = copy.copy(encoder)  # copies the model's structure and shares its tensors
    other.num_layers = num_layers
    other._compiled = None  # it is that of the whole model
    keep_blocks(other._model, num_layers)
    return other


def _chain(bare: HuggingFaceEncoder, probe: TokenBatch, embeddings: Tensor) -> list[nn.Module]:
    """Return the innermost modules that lead from the embedding output to the output of a model without blocks."""
    calls: list[tuple[nn.Module, Any, Any]] = []
    leaves = [module for module in bare._model.modules() if not any(True for _ in module.children())]
    hooks = [leaf.register_forward_hook(lambda *call: calls.append(call)) for leaf in leaves]
    try:
        output = bare.embed(probe)
    finally:
        for hook in hooks:
            hook.remove()
    chain: list[nn.Module] = []
    reached = 0
    value = embeddings
    for module, inputs, result in calls:
        if inputs and isinstance(result, Tensor) and _same(inputs[0], value):
            chain.append(module)
            value = result
            if _same(value, output):
                reached = len(chain)
    return [module for module in chain[:reached] if not isinstance(module, nn.Dropout)]  # which is off


def _same(one: Any, other: Tensor) -> bool:
    if not isinstance(one, Tensor) or one.shape != other.shape:
        return False
    return bool((one.float() - other.float()).abs().max() <= _SAME * other.float().abs().max())
