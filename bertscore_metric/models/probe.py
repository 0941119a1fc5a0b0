"""A model is tried on two short texts before it is used: what it was not made for is an error, not a wrong score."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from bertscore_metric.core.tokens import TokenBatch

# Largest mean difference of an embedding, relative to its length, that arithmetic alone makes: other batches are other
# matrix products. Padding that leaks into a text moves its embeddings by a tenth or more.
NOISE = {"float32": 1e-3, "tf32": 0.03, "bfloat16": 0.1, "float16": 0.1}


def padding_changes_embeddings(
    embed: Callable[[TokenBatch], Tensor],
    *,
    model_type: str,
    vocabulary: int,
    pad_id: int,
    noise: float,
    n_layers: int | None = None,
    first_block: nn.Module | None = None,
) -> bool:
    """Return whether a text's embeddings change when the batch pads it.

    Args:
        embed: tokens -> [text, token, dim], or [layer, text, token, dim] for several layers.
        model_type: for messages.
        vocabulary: number of ids.
        pad_id: an id that is not a text.
        noise: largest relative difference that counts as none.
        n_layers: how many layers `embed` returns; `None` for one, without that axis.
        first_block: what the first of several layers must enter; `None` if that cannot be told.

    Raises:
        NotImplementedError: the model needs more than text, gives no embedding per token and layer, or gives a text
            other embeddings at random or because of its neighbours.
    """

    def unsupported(reason: str) -> NotImplementedError:
        instead = "Take" if n_layers is None else "Score one of its layers (num_layers=...), take"
        return NotImplementedError(
            f"A {model_type} model is not supported: it {reason}. {instead} another model, or pass your own encoder=."
        )

    ids = torch.linspace(vocabulary // 5, vocabulary * 4 // 5, 10).long()
    ids = torch.where(ids == pad_id, ids + 1, ids)
    short, long = ids[:3].tolist(), ids[3:].tolist()
    try:
        with _inputs_of(first_block) as entering:
            alone = embed(_batch([short], pad_id))
        padded = embed(_batch([long, short], pad_id))
        twice = embed(_batch([short, short], pad_id))
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # whatever a model that is not made for this raises
        reason = (" ".join(str(error).split()) or type(error).__name__).split(". ")[0].rstrip(".")
        what = "plain texts of every length" + ("" if n_layers is None else " with all_layers")
        raise unsupported(f"cannot encode {what} ({reason})") from error
    if tuple(alone.shape[:-1]) != ((1, 3) if n_layers is None else (n_layers, 1, 3)):
        raise unsupported(f"gives {list(alone.shape)} for one text of 3 tokens, not one embedding per token and layer")
    if entering and not any(same_embeddings(form, alone[0], noise) for form in _forms(entering, like=alone[0])):
        raise unsupported("does not say what enters its first block, so all_layers has no layer 0")
    if not same_embeddings(alone[..., 0, :, :], twice[..., 1, :, :], noise):
        raise unsupported("gives a text other embeddings in another batch, or at random")
    return not same_embeddings(alone[..., 0, :, :], padded[..., 1, :3, :], noise)


@contextmanager
def _inputs_of(block: nn.Module | None) -> Iterator[list[Tensor]]:
    """Collect the tensors that a block is called with."""
    inputs: list[Tensor] = []

    def note(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        inputs.extend(value for value in (*args, *kwargs.values()) if isinstance(value, Tensor))

    hook = None if block is None else block.register_forward_pre_hook(note, with_kwargs=True)
    try:
        yield inputs
    finally:
        if hook is not None:
            hook.remove()


def _forms(inputs: list[Tensor], like: Tensor) -> list[Tensor]:
    """Return the tensors of a shape, also with axes exchanged (XLNet, SqueezeBERT) or with tokens added (LED)."""
    forms = [form for x in inputs if x.dim() == 3 for form in (x, x.transpose(0, 1), x.transpose(1, 2))]
    return [form[:, : like.shape[1]] for form in forms if form[:, : like.shape[1]].shape == like.shape]


def _batch(texts: list[list[int]], pad_id: int) -> TokenBatch:
    longest = max(len(text) for text in texts)
    ids = torch.tensor([text + [pad_id] * (longest - len(text)) for text in texts])
    mask = torch.tensor([[position < len(text) for position in range(longest)] for text in texts])
    return TokenBatch(ids, mask, ~mask)


def same_embeddings(one: Tensor, other: Tensor, noise: float) -> bool:
    """Return whether two sets of embeddings [..., dim] differ by no more than `noise`, relative and on average.

    What is not finite counts as the same: it is told later, with the text in which it occurs.
    """
    if not bool(torch.isfinite(one).all() & torch.isfinite(other).all()):
        return True
    difference = (one.double() - other.double()).norm(dim=-1)
    relative = difference / one.double().norm(dim=-1).clamp(min=1e-12)
    return bool(relative.mean() <= noise)
