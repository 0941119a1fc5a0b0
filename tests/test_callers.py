"""Warnings name the user's line, whichever door is used, and the metric where there are several."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from conftest import model_path, shared_scorer
from torchmetrics import MetricCollection

import bertscore_metric.compat as bert_score
from bertscore_metric import BERTScore, BERTScorer, BERTScoreWarning, score
from bertscore_metric.adapters.evaluate import BERTScore as EvaluateBERTScore
from bertscore_metric.adapters.torchmetrics import BERTScoreValue, bertscore_collection

BERT = model_path("bert")
TEXTS = (["", "a cat"], ["a dog", "the dog"])
EMPTY = "1 of 2 segments are empty on a side and score 0: counted from 0, index 0"


def streamed() -> None:
    """Score a stream."""
    scorer = BERTScorer(BERT, num_layers=2)
    scorer.update(*TEXTS)
    scorer.compute()


def metric() -> None:
    """Score with the metric."""
    one = BERTScore(BERT, num_layers=2)
    one.update(*TEXTS)
    one.compute()


def forward() -> None:
    """Score a batch with the metric."""
    BERTScore(BERT, num_layers=2)(*TEXTS)


def evaluated() -> None:
    """Score with the evaluate module."""
    one = EvaluateBERTScore(model_type=BERT, num_layers=2, keep_in_memory=True)
    one.compute(predictions=TEXTS[0], references=TEXTS[1])


@pytest.mark.parametrize(
    "call",
    [
        lambda: score(*TEXTS, BERT, num_layers=2),
        lambda: shared_scorer("bert", num_layers=2).score(*TEXTS),
        lambda: bert_score.score(*TEXTS, BERT, 2),
        streamed,
        metric,
        forward,
        evaluated,
    ],
)
def test_warnings_name_the_callers_line(call: Callable[[], object]) -> None:
    """The warning is at a line of this file, without a word about rescaling where there is none."""
    with pytest.warns(BERTScoreWarning, match=f"^{EMPTY}") as caught:
        call()
    [warning] = [one for one in caught if "empty on a side" in str(one.message)]
    assert warning.filename == __file__


def test_the_layer_that_was_chosen() -> None:
    """What is warned of when a metric is made names the line that makes it, too."""
    for make in (BERTScorer, BERTScore):
        with pytest.warns(BERTScoreWarning, match="No layer is known to be best for bert") as caught:
            make(BERT)
        assert {one.filename for one in caught} == {__file__}


def test_a_collection_says_which_metric() -> None:
    """In a collection the warning begins with the metric's name, or with the prefix that its three numbers share."""
    members = {"two": BERTScore(BERT, num_layers=2), "one": BERTScore(BERT, num_layers=1)}
    for collection, labels in (
        (MetricCollection(dict(members), prefix="val/"), ["val/one: ", "val/two: "]),
        (bertscore_collection(BERT, prefix="val/", num_layers=2), ["val: "]),
        (bertscore_collection(BERT, num_layers=2).clone(prefix="test/"), ["test: "]),
        (bertscore_collection(BERT, num_layers=2), [""]),
    ):
        collection.update(*TEXTS)
        with pytest.warns(BERTScoreWarning, match=EMPTY) as caught:
            collection.compute()
        assert sorted(str(one.message).partition("1 of 2")[0] for one in caught) == labels
        assert {one.filename for one in caught} == {__file__}
    alone = BERTScoreValue("f1", BERT, num_layers=2)  # the model by position, as in BERTScore
    alone.update(*TEXTS)
    with pytest.warns(BERTScoreWarning, match=f"^{EMPTY}"):
        assert alone.compute().item() > 0
