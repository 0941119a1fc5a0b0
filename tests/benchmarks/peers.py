"""The others on the same weights: bert_score and torchmetrics, where they are installed."""

import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from bertscore_metric import BERTScorer
from bertscore_metric.models.source import quiet

OURS, BERT_SCORE, TORCHMETRICS = "bertscore_metric", "bert_score", "torchmetrics"


def ours(model: str, layer: int, **settings: Any) -> BERTScorer:
    """Return this package's scorer on the CPU; settings are those of `BERTScorer`."""
    return BERTScorer(model, num_layers=layer, **{"device": "cpu", **settings})


def bert_score_scorer(folder: str, layer: int, device: str = "cpu", **settings: Any) -> Any:
    """Return bert_score's scorer, or `None` where it is not installed."""
    if find_spec("bert_score") is None:
        return None
    from bert_score import BERTScorer as Peer

    with quiet():
        return Peer(model_type=folder, num_layers=layer, use_fast_tokenizer=True, device=device, **settings)


def torchmetrics_pass(folder: str, layer: int) -> Callable[[list[str], list[str]], Tensor] | None:
    """Return a function from candidates and references to torchmetrics' F1, or `None` where it is not installed."""
    if find_spec("torchmetrics") is None:
        return None
    from torchmetrics.functional.text import bert_score

    def run(candidates: list[str], references: list[str]) -> Tensor:
        with warnings.catch_warnings(), quiet():
            warnings.simplefilter("ignore")
            scores = bert_score(candidates, references, folder, num_layers=layer, truncation=True, device="cpu")
        return torch.as_tensor(scores["f1"])

    return run


def torchmetrics_metric(folder: str, layer: int) -> Any:
    """Return torchmetrics' own metric, or `None` where it is not installed."""
    if find_spec("torchmetrics") is None:
        return None
    from torchmetrics.text import BERTScore

    with quiet():
        return BERTScore(folder, num_layers=layer, truncation=True)


def difference(f1: Tensor, exact: Tensor | None) -> float | None:
    """Return the largest difference of F1 from what it is compared with; `None` without that."""
    return None if exact is None else float((torch.as_tensor(f1).double() - exact.double()).abs().max())
