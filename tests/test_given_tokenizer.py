"""Tokenizer objects as people hold them; what is not a tokenizer is a sentence."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from conftest import MODELS, shared_scorer
from transformers import AutoModel, AutoTokenizer, BertTokenizer, pipeline

from bertscore_metric import BERTScorer
from bertscore_metric.models.given_tokenizer import plain_tokenizer
from bertscore_metric.models.tokenizer import TextTokenizer

TEXTS = ["the cat sat on the red table."], ["a dog looked at two bananas"]


def load() -> Any:
    return AutoTokenizer.from_pretrained(MODELS / "bert")


class Processor:
    """What holds a tokenizer and something for pictures, as the processors of transformers do."""

    def __init__(self) -> None:
        self.tokenizer, self.image_processor = load(), object()


def test_what_holds_a_tokenizer() -> None:
    """Of a processor and of a pipeline the tokenizer is used."""
    model = AutoModel.from_pretrained(MODELS / "bert")
    expected = shared_scorer("bert", num_layers=2).score(*TEXTS).f1.tolist()
    for given in (Processor(), pipeline("feature-extraction", model, tokenizer=load(), device="cpu")):
        assert BERTScorer(model=model, tokenizer=given, num_layers=2).score(*TEXTS).f1.tolist() == expected


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "name": (lambda: "bert", r"got 'bert'; load it: AutoTokenizer.from_pretrained\('bert'\)"),
    "path": (lambda: MODELS / "bert", r"got PosixPath.*load it: AutoTokenizer.from_pretrained\('/"),
    "class": (lambda: BertTokenizer, r"got the class BertTokenizer; make one of it: BertTokenizer.from_pretrained\("),
    "backend": (
        lambda: load().backend_tokenizer,
        r"got a Tokenizer of tokenizers, which .* wrap it: PreTrainedTokenizerFast\(tokenizer_object=",
    ),
    "function": (lambda: str.split, r"got a method_descriptor; load one with AutoTokenizer.*For another kind pass enc"),
    "model": (
        lambda: AutoModel.from_pretrained(MODELS / "bert"),
        r"takes a tokenizer of transformers, got a BertModel",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_no_tokenizer(kind: str) -> None:
    """Each is one sentence that says what to pass, wherever it was given."""
    make, message = REFUSED[kind]
    model = AutoModel.from_pretrained(MODELS / "bert")
    with pytest.raises(TypeError, match=f"^tokenizer= .*{message}"):
        BERTScorer(model=model, tokenizer=make(), num_layers=1)
    with pytest.raises(TypeError, match=f"^tokenizer= .*{message}"):
        TextTokenizer(make())
    with pytest.raises(TypeError, match=f"^user_tokenizer= .*{message}"):
        plain_tokenizer(make(), "user_tokenizer")


def test_the_name_that_torchmetrics_gives_it() -> None:
    """The metric's message has the argument that was used."""
    torchmetrics = pytest.importorskip("bertscore_metric.adapters.torchmetrics")
    with pytest.raises(TypeError, match=r"^user_tokenizer= takes a tokenizer of transformers, got 'bert'"):
        torchmetrics.BERTScore(str(MODELS / "bert"), user_tokenizer="bert")
    with pytest.raises(TypeError, match=r"^tokenizer= takes a tokenizer of transformers, got 'bert'"):
        torchmetrics.BERTScore(str(MODELS / "bert"), tokenizer="bert")


def test_tokenizers_that_cannot_be_copied() -> None:
    """A lock on a tokenizer is said in words."""
    tokenizer = load()
    tokenizer.busy = threading.Lock()
    with pytest.raises(
        TypeError, match=r"Cannot copy the tokenizer, a \w+ \(cannot pickle.*Take off what was put on it"
    ):
        TextTokenizer(tokenizer)
