"""What people pass instead of texts, and what they are told to pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from conftest import shared_scorer

from bertscore_metric import BERTScorer

TEXTS = ["a cat", "a dog"]
CHAT = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "a cat"}]


@pytest.mark.parametrize(
    ("candidates", "said"),
    [
        ([CHAT, CHAT], r"candidates\[0\] is of type list; .* c\[-1\]\[\"content\"\] of a chat c"),
        (CHAT, r"candidates\[0\] is of type dict; .* c\[\"content\"\] of a message"),
        ([{"generated_text": "a"}, {"generated_text": "b"}], r"Pass c\[\"generated_text\"\] of each such entry c"),
        ([["a", "cat"], ["a", "dog"]], r"candidates\[0\] is of type list; .*Join tokens to a text: \" \"\.join\(c\)"),
        ([["caption"], ["other"]], r"Pass the text itself, c\[0\] of each such entry c"),
        ([[101, 7, 102], [101, 8, 102]], r"Decode token ids first: tokenizer\.batch_decode\(ids, skip_special"),
        (np.array([[101, 7], [101, 8]]), r"Decode token ids first"),
        (torch.tensor([[101, 7], [101, 8]]), r"Decode token ids first"),
        ([101, 7], r"Pass a number as text, str\(value\)\. Decode token ids first"),
        ([None, "a"], r"candidates\[0\] is None; every text must be a str\. Use"),
        ([b"a", b"b"], r"Decode it first\.$"),
        ([object(), object()], r"is of type object; every text must be a str\.$"),
    ],
)
def test_what_to_pass(candidates: Any, said: str) -> None:
    """The message says what the entries are and how their texts are had."""
    with pytest.raises(TypeError, match=said):
        shared_scorer("bert", num_layers=2).score(candidates, TEXTS)


@pytest.mark.parametrize("tensors", [None, "pt"])
def test_batch_encodings(tensors: str | None) -> None:
    """What a tokenizer returns is decoded first."""
    tokenizer = shared_scorer("bert", num_layers=2).model.tokenizer._tokenizer
    batch = tokenizer(TEXTS, padding=True, return_tensors=tensors)
    with pytest.raises(
        TypeError, match=r"got BatchEncoding\. Decode .*batch_decode\(batch\[\"input_ids\"\], skip_special"
    ):
        shared_scorer("bert", num_layers=2).score(batch, TEXTS)


def test_references_of_the_same_kinds() -> None:
    """References are told the same, in their groups too."""
    scorer = shared_scorer("bert", num_layers=2)
    with pytest.raises(TypeError, match=r'references\[0\]\[0\] is of type dict; .*c\[-1\]\["content"\]'):
        scorer.score(TEXTS, [CHAT, CHAT])
    with pytest.raises(TypeError, match=r"references\[0\]\[0\] is of type list; .*Join tokens"):
        scorer.score(TEXTS, [[["a", "cat"]], [["a", "dog"]]])


def test_one_candidate_with_several_references() -> None:
    """One text against a list of references is told the form that means it, which works."""
    scorer: BERTScorer = shared_scorer("bert", num_layers=2)
    with pytest.raises(TypeError, match=r'references are 2; .* pass .*, as in \["a cat"\], \[\["r1", "r2"\]\]\.$'):
        scorer.score("a cat", ["a dog", "a cat"])
    assert scorer.score(["a cat"], [["a dog", "a cat"]]).best_reference.item() == 1
