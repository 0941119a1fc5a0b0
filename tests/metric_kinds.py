"""Kinds of settings of the torchmetrics metric, which every rule of its states must hold for, and a corpus for them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch
from fakes import HashEncoder, LayeredEncoder
from torch import Tensor
from transformers import AutoTokenizer

from bertscore_metric import BERTScore, BERTScorer, BERTScoreResult

TESTS = Path(__file__).parent
Segment = tuple[str, list[str]]

CORPUS: list[Segment] = [
    ("the cat sat on the red table.", ["a dog sat on the red table."]),
    ("I like lemons.", ["I love lemons.", "I like it.", "lemons"]),
    ("", ["a dog walked past"]),
    ("a dog", ["the dog walked past", "a dog"]),
    ("Go go go.", ["Numbers: 0 1 2 3, is it?"]),
    ("the cat", ["the cat"]),
    ("the old chef found two bananas.", ["the chef found a banana", "", "two bananas"]),
    ("is it?", ["it is"]),
    ("a dog", ["the dog walked past"]),
]


ALL = tuple(range(len(CORPUS)))


@dataclass(frozen=True, eq=False)
class Kind:
    """Settings of a metric, the encoder for them, and how its rows are numbered."""

    settings: dict[str, Any] = field(default_factory=dict)
    encoder: type[HashEncoder] | None = HashEncoder
    numbered: bool = False
    single: bool = False  # one reference a candidate

    @property
    def corpus(self) -> list[Segment]:
        """The segments to score."""
        return [(c, r[:1]) for c, r in CORPUS] if self.single else CORPUS

    def metric(self, **more: Any) -> BERTScore:
        """Return a metric with an encoder of its own."""
        return BERTScore(**{"reduction": "none", **self._model(), **self.settings, **more})

    @cache  # noqa: B019 - kinds live as long as the tests
    def expected(self, numbers: tuple[int, ...] = ALL) -> BERTScoreResult:
        """Return what the core says in one call about the segments with these numbers."""
        foreign = ("reduction", "keep_embeddings", "embedding_store_bytes", "compute_on_cpu", "truncation")
        settings = {name: value for name, value in self.settings.items() if name not in foreign}
        segments = [self.corpus[number] for number in numbers]
        return BERTScorer(**self._model(), **settings).score([c for c, _ in segments], [r for _, r in segments])

    def _model(self) -> dict[str, Any]:
        if self.encoder is None:
            return {"model_name_or_path": str(TESTS / "tiny_models" / "bert"), "num_layers": 2}
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float32)  # the fake's numbers are to be the same under any default
        encoder = self.encoder()
        torch.set_default_dtype(before)
        return {"encoder": encoder, "tokenizer": tokenizer()}

    def update(self, metric: BERTScore, numbers: Sequence[int], *, step: int = 100) -> None:
        """Give the metric the segments with these numbers, `step` at a time."""
        for begin in range(0, len(numbers), step):
            metric.update(*self.batch(numbers[begin : begin + step]))

    def batch(self, numbers: Sequence[int]) -> tuple[Any, ...]:
        """Return the arguments of `update` for the segments with these numbers."""
        segments = [self.corpus[number] for number in numbers]
        ids = (torch.tensor([10 * number for number in numbers]),) if self.numbered else ()
        return ([c for c, _ in segments], [r for _, r in segments], *ids)


@cache
def tokenizer() -> Any:
    """Return the tokenizer of the tiny BERT."""
    return AutoTokenizer.from_pretrained(TESTS / "tiny_models" / "bert")


KINDS: dict[str, Kind] = {
    "plain": Kind(),
    "corpus idf": Kind({"idf": True}),
    "corpus idf, numbered": Kind({"idf": True}, numbered=True),
    "idf of texts": Kind({"idf": ["the cat sat on the red table.", "a dog", "I like lemons."]}),
    "idf table": Kind({"idf": {"default": 1.0, 5: 0.5, 30: 0.1}}),
    "one reference": Kind(single=True),
    "numbered": Kind(numbered=True),
    "mean": Kind({"reduction": "mean"}),
    "mean, empty skipped": Kind({"reduction": "mean", "empty": "skip", "idf": True}),
    "all layers": Kind({"all_layers": True}, LayeredEncoder),
    "all layers, corpus idf": Kind({"all_layers": True, "idf": True}, LayeredEncoder, numbered=True),
    "embeddings kept": Kind({"keep_embeddings": True}),
    "no special tokens": Kind({"match_special_tokens": False, "idf": True, "compute_on_cpu": True}),
    "long texts cut": Kind({"max_length": 6, "embedding_store_bytes": 0}),
    "long texts in windows": Kind({"max_length": 6, "long_text": "windows"}, encoder=None, numbered=True),
    "long texts in windows, corpus idf": Kind({"max_length": 7, "long_text": "windows", "idf": True}, encoder=None),
    "model by name": Kind({}, encoder=None),
}


def scores(value: Any) -> Tensor:
    """Return precision, recall and F1 of a metric's value, or of a result, as one tensor."""
    if isinstance(value, dict):
        return torch.stack([value[name] for name in ("precision", "recall", "f1")])
    return torch.stack(list(value))


def wanted(kind: Kind, numbers: Sequence[int] = ALL) -> Tensor:
    """Return what a metric of this kind must say about the segments with these numbers."""
    result = kind.expected(tuple(numbers))
    if kind.settings.get("reduction") == "mean":
        return torch.tensor([result.mean.precision, result.mean.recall, result.mean.f1])
    return scores(result)
