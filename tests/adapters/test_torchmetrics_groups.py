"""References that mix texts and groups, which torchmetrics takes: a lone text is a group of one."""

import pytest
from fakes import HashEncoder
from metric_kinds import tokenizer

from bertscore_metric import BERTScore

PREDS = ["a", "c", "e"]
MIXED = (["a", "b"], "c", ("d", "e"))
GROUPS = [["a", "b"], ["c"], ["d", "e"]]


def metric() -> BERTScore:
    """Return a metric with a made-up encoder."""
    return BERTScore(encoder=HashEncoder(), tokenizer=tokenizer(), reduction="none")


@pytest.mark.parametrize("mixed", [MIXED, list(MIXED)])
@pytest.mark.parametrize("call", ["update", "forward"])
def test_a_text_among_groups_is_a_group_of_one(mixed: object, call: str) -> None:
    """Texts and groups side by side score as if every text were in a list."""
    ours, wanted = metric(), metric()
    getattr(ours, call)(PREDS, mixed)
    wanted.update(PREDS, GROUPS)
    assert ours.compute()["f1"].tolist() == wanted.compute()["f1"].tolist()
    assert ours.best_reference.tolist() == [0, 0, 1]


def test_batches_of_either_kind_follow_each_other() -> None:
    """Flat, grouped and mixed updates may follow each other."""
    ours, wanted = metric(), metric()
    for target in (["a", "c", "e"], GROUPS, MIXED):
        ours.update(PREDS, target)
    wanted.update(PREDS * 3, [["a"], ["c"], ["e"], *GROUPS, *GROUPS])
    assert ours.compute()["f1"].tolist() == wanted.compute()["f1"].tolist()


@pytest.mark.parametrize(
    ("preds", "target", "message"),
    [
        (["a"], "b", r"^target is one str but preds is not; put it in a list \(\[target\]\)"),
        (["a", "b"], [["x"], None], r"^target\[1\] is None"),
        (["a", "b", "c"], ["x", ["y"], 3], r"^target\[2\] is of type int"),
        (["a", "b"], ["x", []], r"^target\[1\] is an empty group"),
    ],
)
def test_what_stays_an_error(preds: object, target: object, message: str) -> None:
    """One text for a list of candidates, what is no text, and empty groups are refused in torchmetrics' words."""
    with pytest.raises((TypeError, ValueError), match=message):
        metric().update(preds, target)  # type: ignore[arg-type]
