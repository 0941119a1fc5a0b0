"""A result is frozen, unpacks to P, R, F1, and says the same in numbers, text and JSON."""

import json
import math
import re
import warnings
from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import numpy as np
import pytest
import torch
from conftest import model_path, shared_scorer
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from bertscore_metric import BERTScorer, BERTScoreResult, BERTScoreWarning, Signature
from bertscore_metric.core.aggregation import SegmentScores, no_scores
from bertscore_metric.core.baseline import Baseline
from bertscore_metric.result import build_result, warnings_for

NAMES = ("precision", "recall", "f1")
SIGNATURE = Signature((("model", "test"), ("layer", "1")))
TOLERANCE = {"atol": 1e-6, "rtol": 0.0}  # float32 sums


def segment_scores(n: int, layers: int = 1, seed: int = 0, **changed: Tensor) -> SegmentScores:
    """Return random scores of segments with 10 known tokens a side; `changed` replaces columns."""
    generator = torch.Generator().manual_seed(seed)
    columns = {name: torch.rand(layers, n, generator=generator) * 2 - 1 for name in NAMES}
    no, zero = torch.zeros(n, dtype=torch.bool), torch.zeros(n, dtype=torch.int64)
    counts = torch.zeros(n, 2, dtype=torch.int64)
    rest = {"empty": no, "fell_back": no, "unknown": counts, "tokens": counts + 10, "truncated": zero, "lost": zero,
            "windows": zero}  # fmt: skip
    best = torch.randint(0, 3, (layers, n), generator=generator)
    return replace(SegmentScores(**columns, best_reference=best, **rest), **changed)


def result_of(scores: SegmentScores, baseline: Baseline | None = None, **rules: bool) -> BERTScoreResult:
    """Build a result; without a layer axis and with the empty segments unless a rule says otherwise."""
    return build_result(scores, baseline, SIGNATURE, **{"by_layer": False, "skip_empty": False, **rules})


def flags(n: int, *marked: int) -> Tensor:
    """Return a mask with some entries set."""
    mask = torch.zeros(n, dtype=torch.bool)
    mask[list(marked)] = True
    return mask


# --- the object -------------------------------------------------------------------------------------------------------


def test_fields() -> None:
    """A result has the fields that scripts rely on."""
    promised = {"precision", "recall", "f1", "raw", "mean", "std", "best_reference", "n_segments", "n_empty",
                "n_zero_f1", "n_truncated", "n_windows", "unk_share", "signature"}  # fmt: skip
    assert promised <= {field.name for field in fields(BERTScoreResult)}


def test_frozen() -> None:
    """Nothing of a result can be replaced."""
    result = result_of(segment_scores(2))
    for name in ("precision", "recall", "f1"):
        with pytest.raises(AttributeError):
            setattr(result.mean, name, 0.0)
    for owner in (result, result.raw, result.unk_share):
        for field in fields(owner):
            with pytest.raises(FrozenInstanceError, match=f"cannot assign to field '{field.name}'"):
                setattr(owner, field.name, None)


def test_unpacks() -> None:
    """A result unpacks to precision, recall, F1, in this order."""
    scores = segment_scores(3)
    precision, recall, f1 = result_of(scores)
    assert torch.equal(precision, scores.precision[0])
    assert torch.equal(recall, scores.recall[0])
    assert torch.equal(f1, scores.f1[0])


def test_results_compare() -> None:
    """Comparing two results is no crash, and a result equals itself."""
    result = result_of(segment_scores(3))
    assert result == result
    assert result != result_of(segment_scores(3, seed=1))


def test_tensors() -> None:
    """Scores are float32 [segment] and best references int64 [segment]; with all layers [layer, segment]."""
    for by_layer, shape in ((False, (4,)), (True, (3, 4))):
        result = result_of(segment_scores(4, layers=3 if by_layer else 1), by_layer=by_layer)
        for name in NAMES:
            for owner in (result, result.raw):
                assert getattr(owner, name).shape == shape
                assert getattr(owner, name).dtype == torch.float32
                assert getattr(owner, name).device.type == "cpu"
        assert result.best_reference.shape == shape
        assert result.best_reference.dtype == torch.int64
        assert result.empty.shape == (4,)


def test_repr() -> None:
    """A result shows its means, its size and its signature in one line, and no tensor."""
    scores = segment_scores(2, precision=torch.tensor([[0.25, 0.5]]), recall=torch.ones(1, 2), f1=torch.zeros(1, 2))
    assert repr(result_of(scores)) == (
        "BERTScoreResult(mean: precision=0.375000, recall=1.000000, f1=0.000000; n_segments=2, "
        "signature='model:test|layer:1')"
    )
    halves = torch.full((2, 2), 0.5)
    by_layer = result_of(segment_scores(2, layers=2, precision=halves), by_layer=True)
    assert repr(by_layer).startswith("BERTScoreResult(mean: precision=[0.500000, 0.500000], recall=[")


# --- means, spread, rescaling -----------------------------------------------------------------------------------------


@given(st.integers(2, 9), st.integers(1, 3), st.integers(0, 99))
@settings(deadline=None, max_examples=40)
def test_mean_and_std(n: int, layers: int, seed: int) -> None:
    """Mean and standard deviation are numpy's, the latter with n - 1."""
    scores = segment_scores(n, layers, seed)
    result = result_of(scores, by_layer=True)
    for name in NAMES:
        column = getattr(scores, name).double().numpy()
        assert getattr(result.mean, name) == pytest.approx(column.mean(-1), abs=1e-12)
        assert getattr(result.std, name) == pytest.approx(np.std(column, axis=-1, ddof=1), abs=1e-12)
        assert isinstance(getattr(result.mean, name), tuple)
    one = result_of(segment_scores(n, 1, seed))
    assert isinstance(one.mean.f1, float)
    assert isinstance(one.std.f1, float)


def test_one_segment_has_no_spread() -> None:
    """The deviation of one segment is 0, not NaN."""
    result = result_of(segment_scores(1))
    assert (result.std.precision, result.std.recall, result.std.f1) == (0.0, 0.0, 0.0)
    by_layer = result_of(segment_scores(1, layers=3), by_layer=True)
    assert by_layer.std.f1 == (0.0, 0.0, 0.0)


def test_empty_segments_in_the_mean() -> None:
    """Empty segments count in the mean, or are left out of mean and deviation if asked; they stay in the tensors."""
    scores = segment_scores(5, empty=flags(5, 1, 3))
    counted, skipped = result_of(scores), result_of(scores, skip_empty=True)
    kept = scores.f1[0, [0, 2, 4]].double().numpy()
    assert counted.mean.f1 == pytest.approx(scores.f1[0].double().mean().item(), abs=1e-12)
    assert skipped.mean.f1 == pytest.approx(kept.mean(), abs=1e-12)
    assert skipped.std.f1 == pytest.approx(kept.std(ddof=1), abs=1e-12)
    for result in (counted, skipped):
        assert (result.n_segments, result.n_empty, len(result.f1)) == (5, 2, 5)
        assert result.empty.tolist() == [False, True, False, True, False]
    one_left = result_of(segment_scores(2, empty=flags(2, 0)), skip_empty=True)
    assert one_left.std.f1 == 0.0


def test_rescaling() -> None:
    """Each column is rescaled with its own baseline, F1 is not recomputed, and the raw scores stay."""
    scores = segment_scores(4)
    baseline = Baseline(torch.tensor([[0.5, 0.25, -0.5]], dtype=torch.float64), "test")
    result = result_of(scores, baseline)
    for name, b in zip(NAMES, (0.5, 0.25, -0.5), strict=True):
        raw = getattr(scores, name)[0]
        torch.testing.assert_close(getattr(result, name), (raw - b) / (1 - b), **TOLERANCE)
        assert torch.equal(getattr(result.raw, name), raw)
        rescaled = ((raw.double() - b) / (1 - b)).numpy()
        assert getattr(result.mean, name) == pytest.approx(rescaled.mean(), abs=1e-6)
        assert getattr(result.std, name) == pytest.approx(rescaled.std(ddof=1), abs=1e-6)
    assert torch.equal(result.best_reference, scores.best_reference[0])


def test_without_baseline_raw_scores_are_the_scores() -> None:
    """Without rescaling the raw scores are the scores."""
    result = result_of(segment_scores(4))
    assert all(torch.equal(getattr(result, name), getattr(result.raw, name)) for name in NAMES)


def test_counts() -> None:
    """Texts that were cut are counted, and unknown tokens are a share of all tokens of their side."""
    scores = segment_scores(
        3,
        truncated=torch.tensor([0, 2, 1]),
        lost=torch.tensor([0, 30, 7]),
        unknown=torch.tensor([[1, 0], [0, 0], [2, 5]]),
        tokens=torch.tensor([[4, 0], [2, 8], [6, 2]]),
    )
    result = result_of(scores)
    assert result.n_truncated == 3
    assert result.n_windows == 0
    assert result.unk_share.candidates == pytest.approx(3 / 12)
    assert result.unk_share.references == pytest.approx(5 / 10)
    none = result_of(segment_scores(2, tokens=torch.zeros(2, 2, dtype=torch.int64)))
    assert (none.unk_share.candidates, none.unk_share.references) == (0.0, 0.0)


def test_segments_without_f1() -> None:
    """Segments with text whose F1 is 0 in some layer are counted and named; empty ones are not among them."""
    f1 = torch.tensor([[0.0, 0.5, 0.0, 0.25], [0.5, 0.5, 0.0, 0.0]])
    scores = replace(segment_scores(4, layers=2, empty=flags(4, 2)), f1=f1)
    assert result_of(scores, by_layer=True).n_zero_f1 == 2
    told = "In 2 of 4 segments no reference has both precision and recall above 0, so F1 is 0 before rescaling: counted"
    assert [message for message in warnings_for(scores) if message.startswith(f"{told} from 0, indices 0, 3.")]
    assert not any("above 0" in message for message in warnings_for(replace(scores, f1=f1 + 0.1)))
    assert result_of(replace(scores, f1=f1 + 0.1), by_layer=True).n_zero_f1 == 0


# --- dictionaries and JSON --------------------------------------------------------------------------------------------

KEYS = ["signature", "mean", "std", "n_segments", "n_empty", "n_truncated", "unk_share"]


def strict(text: str) -> Any:
    """Read JSON as the standard has it, without NaN and infinities."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_keys() -> None:
    """The dictionary has the promised keys, and the segments only when asked for."""
    result = result_of(segment_scores(2))
    plain, full = result.to_dict(), result.to_dict(segments=True)
    assert list(plain) == KEYS
    assert list(full) == [*KEYS, "segments"]
    assert all(list(data) == list(NAMES) for data in (plain["mean"], plain["std"]))
    assert list(plain["unk_share"]) == ["candidates", "references"]
    assert all(list(row) == [*NAMES, "best_reference"] for row in full["segments"])
    assert {key: full[key] for key in KEYS} == plain


def test_windows() -> None:
    """The windows of long texts are counted; the dictionary says how many where the signature says there may be any."""
    scores = segment_scores(3, windows=torch.tensor([0, 5, 2]))
    assert result_of(scores).n_windows == 7
    assert "n_windows" not in result_of(scores).to_dict()
    signature = Signature((*SIGNATURE.items, ("long", "windows")))
    data = build_result(scores, None, signature, by_layer=False, skip_empty=False).to_dict()
    assert list(data) == [*KEYS[:-1], "n_windows", KEYS[-1]]
    assert type(data["n_windows"]) is int
    assert data["n_windows"] == 7


def test_values() -> None:
    """The dictionary holds the result's own numbers, as plain Python values."""
    result = result_of(segment_scores(3, empty=flags(3, 1), truncated=torch.tensor([1, 0, 1])))
    data = result.to_dict(segments=True)
    assert data["signature"] == "model:test|layer:1"
    assert data["mean"] == {name: getattr(result.mean, name) for name in NAMES}
    assert data["std"] == {name: getattr(result.std, name) for name in NAMES}
    assert (data["n_segments"], data["n_empty"], data["n_truncated"]) == (3, 1, 2)
    assert type(data["n_empty"]) is type(data["n_truncated"]) is int
    assert data["segments"] == result.to_rows()


def test_rows() -> None:
    """Each segment is a row, in order."""
    result = result_of(segment_scores(3))
    rows = result.to_rows()
    assert len(rows) == 3
    for number, row in enumerate(rows):
        assert [row[name] for name in NAMES] == [getattr(result, name)[number].item() for name in NAMES]
        assert row["best_reference"] == result.best_reference[number].item()
        assert type(row["best_reference"]) is int


def test_rows_by_layer() -> None:
    """With all layers a row's values are lists with one entry a layer."""
    result = result_of(segment_scores(3, layers=2), by_layer=True)
    rows = result.to_rows()
    assert len(rows) == 3
    assert rows[1]["f1"] == [result.f1[0, 1].item(), result.f1[1, 1].item()]
    assert rows[2]["best_reference"] == result.best_reference[:, 2].tolist()
    assert strict(result.to_json(segments=True)) == result.to_dict(segments=True) | {
        part: {name: list(getattr(getattr(result, part), name)) for name in NAMES} for part in ("mean", "std")
    }


def test_json() -> None:
    """JSON is the dictionary, in one line unless indented, with its characters as they are."""
    result = replace(result_of(segment_scores(2)), signature=Signature((("model", "日本"),)))
    assert strict(result.to_json(segments=True)) == result.to_dict(segments=True)
    assert strict(result.to_json(indent=2)) == result.to_dict()
    assert "\n" not in result.to_json(segments=True)
    assert '"signature": "model:日本"' in result.to_json()
    assert result.to_json(indent=2).count("\n") > len(KEYS)


@pytest.mark.parametrize("by_layer", [False, True])
def test_json_of_no_segments(by_layer: bool) -> None:
    """A mean over nothing is NaN in Python and null in JSON, which has no NaN."""
    result = result_of(no_scores(2 if by_layer else 1), by_layer=by_layer)
    assert np.isnan(result.mean.f1).all()
    assert np.isnan(result.std.f1).all()
    data = strict(result.to_json(segments=True))
    nothing = [None, None] if by_layer else None
    assert data["mean"] == data["std"] == dict.fromkeys(NAMES, nothing)
    assert data["segments"] == []
    assert data["n_segments"] == 0
    assert data["unk_share"] == {"candidates": 0.0, "references": 0.0}
    assert result.to_rows() == []


def test_no_pairs() -> None:
    """Scoring nothing is an empty result with a warning, not a crash."""
    with pytest.warns(BERTScoreWarning, match=r"^No segments were scored; the means are NaN\.$"):
        result = shared_scorer("bert", num_layers=2).score([], [])
    assert result.n_segments == 0
    assert math.isnan(result.mean.f1)
    assert [len(column) for column in result] == [0, 0, 0]


# --- what a reader should know ----------------------------------------------------------------------------------------


def test_nothing_notable() -> None:
    """Ordinary scores come without a word."""
    assert warnings_for(segment_scores(3)) == []


def test_notable_empty() -> None:
    """Empty segments are counted and named."""
    [message] = warnings_for(segment_scores(3, empty=flags(3, 1)))
    assert message.startswith("1 of 3 segments are empty on a side and score 0: counted from 0, index 1. ")
    assert message.endswith("empty='skip' leaves them out of the mean.")
    [rescaled] = warnings_for(segment_scores(3, empty=flags(3, 1)), rescaled=True)
    assert "and score 0 before rescaling: counted" in rescaled
    [message] = warnings_for(segment_scores(30, empty=~flags(30, 1)))
    assert "29 of 30 segments" in message
    assert ": counted from 0, indices 0, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 19 more. " in message


def test_notable_fallback() -> None:
    """Segments that were weighted as without idf are counted and named."""
    [message] = warnings_for(segment_scores(4, fell_back=flags(4, 0, 3)))
    assert message.startswith("In 2 of 4 segments all idf weights of a side are 0, so that side is weighted as without")
    assert ": counted from 0, indices 0, 3. idf needs a corpus of references" in message


def test_notable_truncation() -> None:
    """The number of texts that were cut, and of tokens that were lost, is said."""
    [message] = warnings_for(
        segment_scores(3, truncated=torch.tensor([2, 0, 1]), lost=torch.tensor([9, 0, 4])), limit=7
    )
    assert message.startswith("3 texts are longer than the limit of 7 tokens; 13 tokens were cut off and not scored")
    [one] = warnings_for(segment_scores(1, truncated=torch.tensor([1]), lost=torch.tensor([1])), limit=7)
    assert one.startswith("1 text is longer than the limit of 7 tokens; 1 token was cut off and not scored")
    assert "long_text='error'" in message
    assert "long_text='windows'" in message


def test_notable_unknown() -> None:
    """More than a tenth of unknown tokens is said of the side that has them; a tenth is not."""
    [message] = warnings_for(segment_scores(2, unknown=torch.tensor([[1, 1], [1, 2]])))
    assert message.startswith("15% of the tokens of the references are unknown to the model")
    assert "choose a model that knows their language" in message
    both = warnings_for(segment_scores(2, unknown=torch.tensor([[5, 3], [5, 3]])))
    assert [re.sub(r" are unknown.*", "", one) for one in both] == [
        "50% of the tokens of the candidates",
        "30% of the tokens of the references",
    ]


@pytest.fixture
def skipping() -> BERTScorer:
    """Return a scorer that leaves empty segments out of the mean."""
    return BERTScorer(model_path("bert"), num_layers=2, empty="skip")


def test_skipped_segments_are_said_to_be_skipped(skipping: BERTScorer) -> None:
    """Who already skips empty segments is told how many, and not advised to skip them."""
    with pytest.warns(BERTScoreWarning, match=r"^1 of 2 segments are empty on a side") as caught:
        result = skipping.score(["", "the cat"], ["the cat", "the cat"])
    assert result.mean.f1 == pytest.approx(1.0, abs=1e-6)
    assert not any("empty='skip' leaves them out" in str(one.message) for one in caught)


def test_mean_over_skipped_segments_only(skipping: BERTScorer) -> None:
    """Where every segment is skipped, the warning says that the mean is NaN."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", BERTScoreWarning)
        result = skipping.score(["", ""], ["the cat", "the cat"])
    assert math.isnan(result.mean.f1)
    assert any("NaN" in str(one.message) for one in caught)
    assert strict(result.to_json())["mean"]["f1"] is None


def test_interval() -> None:
    """An interval is that of the segments that the mean is over, by name; wrong arguments are errors in words."""
    result = shared_scorer("bert", num_layers=2, empty="skip")
    with pytest.warns(BERTScoreWarning, match="empty"):
        scored = result.score(["a cat", "", "a dog", "cats"], ["the cat", "x", "dogs", "a cat"])
    kept = scored.recall[[0, 2, 3]].double().numpy()
    reach = 4.302652729749464 * kept.std(ddof=1) / math.sqrt(3)  # Student's t with two degrees of freedom
    assert [*scored.interval("recall")] == pytest.approx([kept.mean() - reach, kept.mean() + reach])
    assert [*scored.interval(groups=["a", "b", "c", "d"])] == pytest.approx([*scored.interval()])
    assert scored.to_dict(interval=True)["interval"]["recall"] == [*scored.interval("recall")]
    assert [row["empty"] for row in scored.to_rows()] == [False, True, False, False]
    with pytest.raises(ValueError, match="name must be one of precision, recall, f1; got 'f2'"):
        scored.interval("f2")
    with pytest.raises(ValueError, match="There are 4 segments, but 2 groups; each segment needs one"):
        scored.interval(groups=["a", "b"])
    with pytest.raises(ValueError, match="choose one with num_layers"):
        shared_scorer("bert", all_layers=True).score(["a"], ["b"]).interval()
