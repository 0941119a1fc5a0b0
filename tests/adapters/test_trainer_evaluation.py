"""Which rows of an evaluation are samples, however they are split into batches."""

import pytest
from fakes import WordCount
from hypothesis import given
from hypothesis import strategies as st

from bertscore_metric.adapters.trainer_evaluation import Evaluation
from bertscore_metric.state.stream import Stream

TEXTS = st.lists(st.sampled_from("abc"), min_size=1, max_size=12)


def evaluation(processes: int) -> Evaluation:
    """Return an evaluation on so many processes."""
    return Evaluation(Stream(WordCount()), processes=processes)


@given(TEXTS, st.integers(0, 9), st.integers(1, 5))
def test_filled_batches_are_cut(texts: list[str], more: int, batch: int) -> None:
    """Rows that repeat the first ones, once or several times, are no samples; all others are, in any batches."""
    rows = (texts * (more + 1))[: len(texts) + more]
    seen = evaluation(2)
    parts = [rows[begin : begin + batch] for begin in range(0, len(rows), batch)]
    samples = [part[number] for part in parts for number in seen.samples(part, len(texts))]
    seen.check_complete(len(texts))
    assert samples == texts


@given(TEXTS)
def test_others_are_refused(texts: list[str]) -> None:
    """A row beyond the samples that repeats nothing is an error, as any is on one process, and so is a missing one."""
    with pytest.raises(ValueError, match="rows, which cannot be"):
        evaluation(2).samples([*texts, "other"], len(texts))
    with pytest.raises(ValueError, match="rows, which cannot be"):
        evaluation(1).samples([*texts, texts[0]], len(texts))
    seen = evaluation(2)
    seen.samples(texts, len(texts) + 1)
    with pytest.raises(ValueError, match="rows, which cannot be"):
        seen.check_complete(len(texts) + 1)
