"""All pairs, MBR and consistency: the numbers of `score` on the flattened pairs, whatever the texts and the memory."""

import json
import math
from typing import Any

import pytest
import torch
from conftest import DATA, MODELS, TOLERANCE, model_path, shared_scorer
from fakes import HashEncoder
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from bertscore_metric import BERTScorer, BERTScoreWarning, IdfTable
from bertscore_metric.core.pairwise import (
    best_candidate,
    best_keys,
    expected_scores,
    plan_groups,
    ranking_keys,
    read_keys,
)

A = ["the cat sat on the red table.", "", "I like lemons.", "a dog", "I like lemons.", "dogs and cats and birds " * 9]
B = ["a dog sat on the red table.", "Go go go.", "  ", "I love lemons.", "the dog walked", "a dog", "a dog"]
quiet = pytest.mark.filterwarnings("ignore::bertscore_metric.BERTScoreWarning")


def flattened(scorer: BERTScorer, a: list[str], b: list[str]) -> list[torch.Tensor]:
    """Score every pair as a segment, and return matrices."""
    result = scorer.score([text for text in a for _ in b], b * len(a))
    return [matrix.view(len(a), len(b)) for matrix in result]


def matrices(found: Any) -> list[torch.Tensor]:
    return [found.precision, found.recall, found.f1]


SETTINGS: list[dict[str, Any]] = [
    {},
    {"match_special_tokens": False},
    {"idf": ("a dog", "the cat sat", "I like dogs")},
    {"idf": IdfTable({7: 2.0}, default=0.5)},
    {"idf": IdfTable({7: 2.0}, default=0.0)},  # most sides weigh nothing and fall back
    {"max_length": 6},
    {"max_length": 6, "long_text": "windows"},
    {"empty": "skip"},
]


@quiet
@pytest.mark.parametrize(
    ("model", "setting"),
    [*(("bert", setting) for setting in SETTINGS), ("t5", {}), ("roberta", SETTINGS[1]), ("llama", SETTINGS[3])],
    ids=str,
)
@pytest.mark.parametrize("budget", [2**30, 20_000, 1])
def test_equals_score(model: str, setting: dict[str, Any], budget: int) -> None:
    """Matrices equal `score` of the flattened pairs, also where the embeddings exceed the budget."""
    scorer = BERTScorer(model_path(model), num_layers=2, **setting)
    for b in (None, B):
        found = matrices(scorer.pairwise(A, b, embeddings_bytes=budget))
        for got, expected in zip(found, flattened(scorer, A, A if b is None else b), strict=True):
            torch.testing.assert_close(got, expected, atol=TOLERANCE, rtol=0)
    turned = scorer.pairwise(B, A[:1], embeddings_bytes=budget)  # the second side is the smaller one
    torch.testing.assert_close(turned.f1, flattened(scorer, B, A[:1])[2], atol=TOLERANCE, rtol=0)


@quiet
def test_rescaled(tmp_path: Any) -> None:
    """Scores are rescaled as those of `score`, those of empty texts too."""
    (tmp_path / "base.csv").write_text("LAYER,P,R,F\n2,0.3,0.4,0.5\n")
    scorer = BERTScorer(
        model_path("bert"), num_layers=2, rescale_with_baseline=True, baseline_path=str(tmp_path / "base.csv")
    )
    for got, expected in zip(matrices(scorer.pairwise(A, B)), flattened(scorer, A, B), strict=True):
        torch.testing.assert_close(got, expected, atol=3 * TOLERANCE, rtol=0)
    assert scorer.pairwise(A, B).f1[1, 0] == -1


@quiet
def test_corpus_idf_is_that_of_b() -> None:
    """With `idf=True` idf is counted in `b`, each of its texts once, and without `b` in `a`."""
    scorer = BERTScorer(model_path("bert"), num_layers=2, idf=True)
    for b in (B, A):
        fixed = BERTScorer(model_path("bert"), num_layers=2, idf=b)
        found = scorer.pairwise(A, None if b is A else b)
        for got, expected in zip(matrices(found), flattened(fixed, A, b), strict=True):
            torch.testing.assert_close(got, expected, atol=TOLERANCE, rtol=0)


@quiet
@pytest.mark.parametrize("dtype", ["float32", "tf32", "bfloat16", "float16"])
def test_dtypes(dtype: str) -> None:
    """Every arithmetic of the encoder; in half precision embeddings move with the composition of a batch."""
    scorer = BERTScorer(model_path("bert"), num_layers=2, dtype=dtype)
    bound = TOLERANCE if dtype in ("float32", "tf32") else 1e-2
    torch.testing.assert_close(scorer.pairwise(A, B).f1, flattened(scorer, A, B)[2], atol=bound, rtol=0)


words = st.lists(st.sampled_from(["the", "cat", "dog", "sat", "lemons", "go", "table"]), max_size=9).map(" ".join)


@quiet
@settings(max_examples=10, deadline=None)
@given(a=st.lists(words, min_size=1, max_size=6), b=st.lists(words, min_size=1, max_size=6), data=st.data())
def test_properties(a: list[str], b: list[str], data: st.DataObject) -> None:
    """Scores are those of the flattened pairs; turning sides round turns P and R; the best k are the sorted matrix'."""
    scorer = shared_scorer("bert", num_layers=2)
    found, budget = scorer.pairwise(a, b), data.draw(st.sampled_from([1, 4000, 2**30]))
    for got, expected in zip(matrices(found), flattened(scorer, a, b), strict=True):
        torch.testing.assert_close(got, expected, atol=TOLERANCE, rtol=0)
    turned = scorer.pairwise(b, a, embeddings_bytes=budget)
    torch.testing.assert_close(turned.recall.T, found.precision, atol=TOLERANCE, rtol=0)
    own = scorer.pairwise(a, embeddings_bytes=budget)
    assert torch.equal(own.precision, own.recall.T)
    assert torch.equal(own.f1, own.f1.T)
    k = data.draw(st.integers(1, len(b)))
    best = scorer.pairwise(a, b, k)
    scores, index = found.f1.sort(dim=1, descending=True, stable=True)
    assert torch.equal(best.f1, scores[:, :k])
    assert torch.equal(best.index, index[:, :k])


@quiet
def test_every_text_is_embedded_once() -> None:
    """Texts that stand on both sides are embedded once; beyond the budget those of the smaller side still are."""
    tokenizer = AutoTokenizer.from_pretrained(MODELS / "bert")
    encoder = HashEncoder(vocabulary=len(tokenizer))
    scorer = BERTScorer(encoder=encoder, tokenizer=tokenizer)
    scorer.pairwise(A, B)
    assert encoder.n_texts == len({text for text in A + B if text.strip()})
    encoder.batches.clear()
    few = ["a dog", "the cat"]
    scorer.pairwise(B, few, embeddings_bytes=1500)
    assert encoder.n_texts == len({text for text in B if text.strip()}) + len(few)


def test_no_texts() -> None:
    """No rows and no columns are no error."""
    scorer = shared_scorer("bert", num_layers=2)
    assert scorer.pairwise([]).f1.shape == (0, 0)
    assert scorer.pairwise(["a dog"], []).f1.shape == (1, 0)
    assert scorer.mbr([]).index.shape == (0,)
    assert scorer.consistency([]).shape == (0,)


def test_warnings() -> None:
    """What is empty or cut is said once, with its place."""
    scorer = shared_scorer("bert", num_layers=2, max_length=6)
    with pytest.warns(BERTScoreWarning) as caught:
        scorer.pairwise(["", "a dog"], ["a " * 20, "a cat", "  "])
    said = [str(one.message) for one in caught]
    assert said[0].startswith("2 of 5 texts are empty and score 0 against every text, before rescaling: a[0], b[2].")
    assert said[1].startswith("1 text is longer than the limit of 6 tokens")
    assert {one.filename for one in caught} == {__file__}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["a"], [["a", "b"]]), r"b\[0\] is a list; pairwise compares single texts, not segments with several ref"),
        (("a dog",), r"a must be a sequence of texts, got str"),
        ((["a"], ["b"], 2), r"top=2 asks for more than there is: b has 1 texts"),
        ((["a"], ["b"], 0), r"top must be at least 1, got 0"),
        ((["a", None],), r"a\[1\] is None"),
    ],
)
def test_pairwise_refuses(arguments: tuple[Any, ...], message: str) -> None:
    """What cannot be compared is named."""
    with pytest.raises((TypeError, ValueError), match=message):
        shared_scorer("bert", num_layers=2).pairwise(*arguments)


def test_all_layers_are_refused() -> None:
    """Matrices are of one layer."""
    with pytest.raises(ValueError, match=r"pairwise compares one layer: use a scorer with num_layers"):
        shared_scorer("bert", all_layers=True).pairwise(["a"])


def test_long_text_is_refused_by_place() -> None:
    """A text that the setting refuses is named by side and number."""
    scorer = shared_scorer("bert", num_layers=2, max_length=6, long_text="error")
    with pytest.raises(ValueError, match=r"^b\[1\] is a text of \d+ tokens"):
        scorer.pairwise(["a dog"], ["a dog", "a " * 20])


LISTS = [
    ["the cat sat", "a cat sat down", "a dog", "the cat sat"],
    ["a"],
    ["x y", "z"],
    ["the red table", "", "a table"],
]


@quiet
@pytest.mark.parametrize("utility", ["f1", "precision", "recall"])
def test_mbr(utility: str) -> None:
    """The expected score is the mean over the others; ties go to the lowest number, one alone has no number."""
    scorer = shared_scorer("bert", num_layers=2)
    found = scorer.mbr(LISTS, utility=utility)
    for number, texts in enumerate(LISTS):
        n = len(texts)
        matrix = flattened(scorer, texts, texts)[("precision", "recall", "f1").index(utility)].double()
        expected = torch.where(torch.eye(n).bool(), 0.0, matrix).sum(1) / (n - 1)
        torch.testing.assert_close(found.scores[number].double(), expected, atol=TOLERANCE, rtol=0, equal_nan=True)
        assert found.scores[number][found.index[number]] == found.expected[number] or n == 1
    assert found.index[1] == 0
    assert math.isnan(found.expected[1])
    if utility == "f1":
        assert found.index[2] == 0  # two texts are always equally good
    data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert data["lists"][1] == {"index": 0, "expected": None, "scores": [None]}


@quiet
def test_mbr_with_references_and_weights() -> None:
    """Pseudo-references of their own count all; probabilities weigh them, and are normalised without self."""
    scorer = shared_scorer("bert", num_layers=2)
    lists, references = [["a cat", "a dog"], ["lemons"]], [["the cat", "cats", "dogs"], ["a lemon"]]
    weights = [[0.5, 0.1, 0.4], [3.0]]
    found = scorer.mbr(lists, references, weights)
    matrix = flattened(scorer, lists[0], references[0])[2].double()
    torch.testing.assert_close(
        found.scores[0].double(), matrix @ torch.tensor(weights[0], dtype=torch.float64), atol=TOLERANCE, rtol=0
    )
    assert found.expected[1] == pytest.approx(scorer.score(["lemons"], ["a lemon"]).f1.item(), abs=TOLERANCE)
    own = scorer.mbr([LISTS[0]], weights=[[0.2, 0.0, 0.4, 0.4]])
    row = flattened(scorer, LISTS[0], LISTS[0])[2][1]
    assert own.scores[0][1] == pytest.approx((0.2 * row[0] + 0.4 * row[2] + 0.4 * row[3]).item(), abs=TOLERANCE)
    assert math.isnan(scorer.mbr([["a cat", "a dog"]], weights=[[1.0, 0.0]]).scores[0][0])


@quiet
def test_consistency() -> None:
    """The mean over pairs of different texts; `empty="skip"` leaves empty ones out."""
    found = shared_scorer("bert", num_layers=2).consistency(LISTS)
    for value, texts in zip(found.tolist(), LISTS, strict=True):
        matrix = flattened(shared_scorer("bert", num_layers=2), texts, texts)[2]
        n = len(texts)
        mean = (matrix.sum() - matrix.diagonal().sum()).item() / (n * (n - 1)) if n > 1 else math.nan
        assert value == pytest.approx(mean, abs=TOLERANCE, nan_ok=True)
    skipped = shared_scorer("bert", num_layers=2, empty="skip").consistency([LISTS[3], ["a", ""]])
    rest = shared_scorer("bert", num_layers=2).consistency([LISTS[3][::2]])
    torch.testing.assert_close(skipped[:1], rest, atol=TOLERANCE, rtol=0)
    assert math.isnan(skipped[1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([["a"], []],), r"lists\[1\] is an empty list; every list needs at least one text"),
        ((["a", "b"],), r"lists\[0\] must be a sequence of texts, got str"),
        (([["a"]], [["b"], ["c"]]), r"references must have a list for each of lists; got 2 for 1"),
        (([["a"]], None, [[1, 2]]), r"weights\[0\] must have a number for each of lists\[0\], 1"),
        (([["a"]], None, [[-1]]), r"weights\[0\] must be finite and at least 0"),
        (([["a"]], None, [["x"]]), r"weights\[0\] must be a list of numbers"),
        (([["a"]], None, [[1]], "f2"), r"utility must be one of precision, recall, f1; got 'f2'"),
    ],
)
def test_mbr_refuses(arguments: tuple[Any, ...], message: str) -> None:
    """What is wrong is named."""
    with pytest.raises((TypeError, ValueError), match=message):
        shared_scorer("bert", num_layers=2).mbr(*arguments)


def test_mbr_refuses_corpus_idf() -> None:
    """A list of samples is no corpus."""
    scorer = shared_scorer("bert", num_layers=2, idf=True)
    for method in (scorer.mbr, scorer.consistency):
        with pytest.raises(ValueError, match=r"no corpus to count idf in, so idf=True is refused; fix the weights"):
            method([["a", "b"]])


def test_ranking_keys() -> None:
    """Keys sort as scores do, negative ones and both zeros too; equal ones by their column, whatever the order."""
    scores = torch.tensor([[0.5, -1.0, 0.0, -0.0, 0.5, -0.25]])
    keys = ranking_keys(scores, torch.arange(6))
    none = torch.full((1, 4), torch.iinfo(torch.int64).min)
    for parts in ((keys,), (keys[:, 3:], keys[:, :3])):
        best = none
        for part in parts:
            best = best_keys(best, part)
        columns, values = read_keys(best)
        assert columns.tolist() == [[0, 4, 2, 3]]
        assert values.tolist() == [[0.5, 0.5, 0.0, 0.0]]


def test_groups() -> None:
    """Every text is in one group; groups are of nearly equal length, and long texts are few."""
    lengths = torch.tensor([3, 900, 5, 4, 40, 41, 700, 5] * 20)
    groups = list(plan_groups(torch.arange(len(lengths)), lengths))
    assert sorted(torch.cat(groups).tolist()) == list(range(len(lengths)))
    for group in groups:
        sizes = lengths[group]
        assert len(group) == 1 or int(sizes.max()) * len(group) <= 2048
        assert int((sizes.max() - sizes).sum()) <= max(int(sizes.max()), 0.08 * int(sizes.max()) * len(group))


def test_expected_scores() -> None:
    """The mean leaves self out; what has no other text to count has no number."""
    utilities = torch.tensor([[1.0, 0.5], [0.25, 1.0]], dtype=torch.float64)
    assert expected_scores(utilities, torch.ones(2).double(), exclude_self=True).tolist() == [0.5, 0.25]
    assert best_candidate(torch.tensor([math.nan, 0.1, 0.1])) == 1
    assert best_candidate(torch.tensor([math.nan])) == 0


@pytest.mark.skipif(not DATA.is_dir(), reason="reads ../shared/data")
def test_known_choice() -> None:
    """Sixty-four lines of a weak system: the choice, and how much they agree."""
    texts = (DATA / "newstest2018_deen" / "hyp.LMU-unsup.5650.en").read_text(encoding="utf-8").split("\n")[1700:1764]
    scorer = shared_scorer("minilm", num_layers=5)
    assert scorer.mbr([texts]).index.tolist() == [51]
    assert scorer.consistency([texts]).item() == pytest.approx(0.518227, abs=2e-6)
