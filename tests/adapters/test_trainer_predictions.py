"""What a training loop predicts, as rows of ids."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bertscore_metric.adapters.trainer_predictions import (
    aligned_ids,
    kept,
    to_batches,
    to_rows,
    vocabulary_size,
    without_prompts,
)


@given(st.lists(st.lists(st.integers(-100, 300), max_size=5), max_size=5))
def test_rows_survive(rows: list[list[int]]) -> None:
    """Ragged rows come out as they went in, whatever they are made of; dropping is another step."""
    for form in (list, np.array, torch.tensor):
        assert to_rows(to_batches([form(row) for row in rows], "rows"), "rows") == rows
    assert all(min(kept(row), default=0) >= 0 for row in rows)


def test_aligned_ids() -> None:
    """Ids stand where their label is; shifted ones one place later, and none in the first place."""
    logits = torch.nn.functional.one_hot(torch.tensor([[5, 6, 7, 3]]), 9).float()
    labels = torch.tensor([[1, -100, 2, 0]])
    assert aligned_ids(logits, labels, shift=False, pad_id=None).tolist() == [[5, -100, 7, 3]]
    assert aligned_ids(logits, labels, shift=False, pad_id=0).tolist() == [[5, -100, 7, -100]]
    assert aligned_ids(logits, labels, shift=True, pad_id=None).tolist() == [[-100, -100, 6, 7]]
    assert labels.tolist() == [[1, -100, 2, 0]]
    assert aligned_ids(logits, None, shift=False, pad_id=0).tolist() == [[5, 6, 7, 3]]
    assert aligned_ids(logits, None, shift=True, pad_id=0).tolist() == [[-100, 5, 6, 7]]


def test_vocabulary_size() -> None:
    """A vocabulary with gaps knows ids above its length; who has no vocabulary is not asked."""

    class Gaps(dict[str, int]):
        def get_vocab(self) -> dict[str, int]:
            return self

    gaps = Gaps(a=0, b=1, c=7)
    assert [vocabulary_size(gaps, largest) for largest in (2, 3, 7, 8)] == [3, 8, 8, 8]
    assert vocabulary_size(type("Processor", (), {"tokenizer": gaps})(), 8) == 8
    assert vocabulary_size(object(), 8) is None


def test_without_prompts() -> None:
    """The prompt is cut where it is, and nothing else."""
    assert without_prompts([[0, 1, 2, 1, 2], [3]], [[0, 1], [3]]) == [[2, 1, 2], []]
    with pytest.raises(ValueError, match=r"predictions\[1\] does not begin with its prompt"):
        without_prompts([[0], [1]], [[0], [2]])
