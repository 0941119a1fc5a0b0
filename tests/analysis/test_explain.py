"""Explanations: contributions that sum to the score, matches that can be followed, and what is drawn of them."""

import re
import warnings
from pathlib import Path
from typing import Any

import pytest
from architectures import ARCHITECTURES, model_of
from conftest import MODELS, TESTS, TOLERANCE, model_path, shared_scorer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bertscore_metric import BERTScorer, BERTScoreWarning
from bertscore_metric.analysis.explain import Explanation

C = ["the cat sat on the mat .", "a quick brown fox", "hello there, general kenobi!", "x"]
R = [
    ["a cat was sitting on the mat ."],
    ["the lazy dog", "some quick foxes", "a brown fox ran"],
    ["hello there"],
    ["x"],
]
CORPUS = [reference for group in R for reference in group]
BASELINE = str(TESTS / "golden" / "baseline.csv")
MODELS_OF_THE_TESTS = sorted(folder.parent.name for folder in MODELS.glob("*/config.json"))
ROUNDING = 2**-24  # of a score to float32
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "corpus idf": {"idf": True},
    "idf of texts": {"idf": ["hello there", "a cat"]},
    "idf table": {"idf": {101: 2.0, "default": 0.5}},
    "no special tokens": {"match_special_tokens": False},
    "rescaled": {"rescale_with_baseline": True, "baseline_path": BASELINE},
    "rescaled idf": {"rescale_with_baseline": True, "baseline_path": BASELINE, "idf": True},
}
hostile = '<script>alert("x")</script> & <b>bold</b> $\\frac{1}{2}$'


def explain(kind: dict[str, Any], candidate: str, reference: str | list[str], **arguments: Any) -> Explanation:
    """Explain a pair with the embedded model at layer 5."""
    corpus = CORPUS if kind.get("idf") is True else None
    return shared(kind).explain(candidate, reference, corpus=corpus, **arguments)


def shared(kind: dict[str, Any]) -> BERTScorer:
    """Return a scorer of a kind; loading is cheap, for the process shares the encoder."""
    return BERTScorer("offline", num_layers=5, **kind)


def check_sums(pair: Explanation) -> None:
    """Contributions sum to the scores, in tokens and in words, and matches are where the similarities say."""
    for view in (pair, pair.words()):
        for contributions, score in (
            (view.precision_contributions, pair.precision), (view.recall_contributions, pair.recall)
        ):  # fmt: skip
            assert float(contributions.sum()) == pytest.approx(score, rel=ROUNDING, abs=1e-15)
        assert view.similarity.shape == (len(view.candidate_tokens), len(view.reference_tokens))
        for matches, similar in ((view.candidate_match, view.similarity), (view.reference_match, view.similarity.T)):
            for row, match in enumerate(matches.tolist()):
                allowed = similar[row].clone()
                allowed[[other for other in range(len(allowed)) if (matches is view.candidate_match and
                         view.reference_match[other] < 0) or (matches is view.reference_match and
                         view.candidate_match[other] < 0)]] = -2  # fmt: skip
                assert match < 0 or similar[row, match] == allowed.max()


@pytest.mark.filterwarnings("ignore::bertscore_metric.BERTScoreWarning")
@pytest.mark.parametrize("by", ["precision", "recall", "f1"])
@pytest.mark.parametrize("kind", KINDS)
def test_contributions_sum_to_the_score(kind: str, by: Any) -> None:
    """The explained reference is the one that decided the number, whatever the settings."""
    scores = getattr(shared(KINDS[kind]).score(C, R), by)
    for candidate, references, score in zip(C, R, scores.tolist(), strict=True):
        pair = explain(KINDS[kind], candidate, references, by=by)
        assert getattr(pair, by) == pytest.approx(score, abs=TOLERANCE)
        check_sums(pair)


TEXT = st.text(st.sampled_from("ab ,.é你🙂\u0301-"), min_size=1, max_size=20).filter(str.strip)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(candidate=TEXT, reference=TEXT)
def test_sums_for_any_text(candidate: str, reference: str) -> None:
    """As a property, on a tiny model."""
    scorer = shared_scorer("bert", num_layers=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = scorer.score([candidate], [reference])
        pair = scorer.explain(candidate, reference)
    assert (pair.precision, pair.recall, pair.f1) == pytest.approx([x.item() for x in result], abs=TOLERANCE)
    if not int(result.n_empty):
        check_sums(pair)


@pytest.mark.filterwarnings("ignore::bertscore_metric.BERTScoreWarning")
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_special_tokens_of_every_architecture(name: str) -> None:
    """Special tokens are shown, weigh what they weigh in the score, and the sums hold."""
    model, tokenizer = model_of(name)
    scorer = BERTScorer(model=model, tokenizer=tokenizer, num_layers=2)
    score = scorer.score(["the cat sat"], ["the dog sat down"]).f1.item()
    pair = scorer.explain("the cat sat", "the dog sat down")
    assert pair.f1 == pytest.approx(score, abs=TOLERANCE)
    check_sums(pair)
    uncounted = {
        token for token, weight in zip(pair.candidate_tokens, pair.candidate_weights, strict=True) if not weight
    }
    special = set(scorer.model.tokenizer.tokens(sorted(scorer.model.tokenizer.unweighted_ids)))
    assert uncounted == special & set(pair.candidate_tokens)


@pytest.mark.filterwarnings("ignore::bertscore_metric.BERTScoreWarning")
@pytest.mark.parametrize("idf", [False, ["the cat", "a dog"]], ids=["plain", "idf"])
@pytest.mark.parametrize("name", MODELS_OF_THE_TESTS)
def test_sums_of_every_folder(name: str, idf: Any) -> None:
    """With several references, rescaling, windows and special tokens left out, at once, on every kind of model."""
    settings = {"baseline_path": BASELINE, "rescale_with_baseline": True, "match_special_tokens": False}
    scorer = BERTScorer(model_path(name), num_layers=1, idf=idf, max_length=8, long_text="windows", **settings)
    candidate, references = "the cat sat on the mat and 東京 it was happy", ["a dog", "the cat sat there for an hour"]
    result = scorer.score([candidate], [references])
    for by in ("precision", "recall", "f1"):
        pair = scorer.explain(candidate, references, by=by)  # type: ignore[arg-type]
        assert getattr(pair, by) == pytest.approx(getattr(result, by).item(), abs=TOLERANCE)
        check_sums(pair)


@pytest.mark.parametrize(("candidate", "reference"), [("", "a cat"), ("a cat", " "), ("", "")])
def test_empty_texts(candidate: str, reference: str) -> None:
    """A pair with an empty side scores 0, and nothing contributes to it."""
    pair = explain({}, candidate, reference)
    assert (pair.precision, pair.recall, pair.f1) == (0, 0, 0)
    assert not pair.precision_contributions.any()
    assert not pair.recall_contributions.any()
    assert "P 0.000000" in pair.to_text()
    assert set(pair.candidate_match.tolist()) | set(pair.reference_match.tolist()) <= {-1}


def test_words_add_up() -> None:
    """Pieces join to words, with the sums of their weights and the match of the most similar piece."""
    pair = explain({}, "word embeddings", "an embedding of words").words()
    assert pair.candidate_tokens == ("[CLS]", "word", "embeddings", "[SEP]")
    assert pair.candidate_weights.tolist() == [0, 1, 4, 0]
    assert pair.reference_tokens[pair.candidate_match[2]] == "embedding"
    assert pair.words().similarity.equal(pair.similarity)


def test_streamed_corpus() -> None:
    """With idf=True the corpus is what was streamed; without one it is asked for."""
    scorer = shared({"idf": True})
    with pytest.raises(ValueError, match="pass its references as corpus="):
        scorer.explain(C[0], R[0])
    scorer.update(C, R)
    assert scorer.explain(C[0], R[0]).f1 == pytest.approx(scorer.compute().f1[0].item(), abs=TOLERANCE)
    for nothing in ([], ()):
        with pytest.raises(ValueError, match="corpus is empty; pass the references to count idf in"):
            shared({"idf": True}).explain(C[0], R[0], corpus=nothing)
    with pytest.raises(ValueError, match=r"corpus= is for idf=True"):
        shared({}).explain(C[0], R[0], corpus=CORPUS)


def test_what_cannot_be_explained() -> None:
    """Errors say what to do."""
    scorer = shared({})
    with pytest.raises(TypeError, match=r"candidate must be one text \(str\), got list"):
        scorer.explain(["a"], "b")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="by must be 'precision', 'recall' or 'f1', got 'F'"):
        scorer.explain("a", "b", by="F")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="without all_layers"):
        BERTScorer(model_path("bert"), all_layers=True).explain("a", "b")
    with pytest.raises(ValueError, match=r"Cannot write an explanation to 'x.doc'; use .html"):
        scorer.explain("a", "b").save("x.doc")
    with pytest.raises(ValueError, match=r"There is no folder 'nowhere' to write pair\.html to"):
        scorer.explain("a", "b").save("nowhere/pair.html")


def test_text() -> None:
    """The terminal shows match, cosine, weight and contribution; colours only if asked for."""
    pair = explain({}, hostile, "the [red]cat[/red]")
    plain = pair.to_text()
    assert "\x1b" not in plain
    assert "\x1b[" in pair.to_text(color=True)
    assert re.search(r"script +\S+ +0\.\d{4} +1 +0\.\d{4}", plain)
    assert "contribution to P" in plain
    assert "contribution to R" in plain
    assert "[ red ] cat [ / red ]" in plain  # text, not markup


def test_html_escapes_everything() -> None:
    """Tokens are text whatever they say, and nothing is fetched from elsewhere."""
    html = explain({}, hostile, hostile).to_html()
    assert html.count("<script>") == 1  # our own
    assert "<b>" not in html
    assert "&lt;" in html
    assert "http" not in html
    assert 'data-match="' in html


@pytest.mark.parametrize("n", [1, 40, 118])
def test_picture(n: int) -> None:
    """A heat map has a labelled row and column for every token, and a mark for every match."""
    pair = explain({}, "cat " * n, "$x$ dog " * ((n + 3) // 4))
    axes = pair.plot().axes[0]
    assert tuple(label.get_text() for label in axes.get_yticklabels()) == pair.candidate_tokens
    assert tuple(label.get_text() for label in axes.get_xticklabels()) == pair.reference_tokens
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("reference", "candidate")
    discs, rings = axes.collections
    assert [(int(x), int(y)) for x, y in discs.get_offsets()] == [
        (match, row) for row, match in enumerate(pair.candidate_match.tolist())
    ]
    assert len(rings.get_offsets()) == len(pair.reference_tokens)


def test_long_labels() -> None:
    """A word that would not fit beside the picture is cut."""
    axes = explain({}, "x" * 90, "a cat").words().plot().axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["[CLS]", "x" * 23 + "…", "[SEP]"]


def test_picture_without_a_font() -> None:
    """Characters that no font has are said to be missing and drawn as squares."""
    pair = BERTScorer(model_path("roberta"), num_layers=1).explain("a \U000a0001 b", "a b")  # a private character
    with pytest.warns(BERTScoreWarning, match="No installed font has the characters"):
        labels = [label.get_text() for label in pair.plot().axes[0].get_yticklabels()]
    assert "▁□" in labels or "□" in labels


def test_missing_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """What draws is an extra, and the message says how to install it."""
    pair = explain({}, "a", "b")
    for module in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(ImportError, match=r"pip install 'bertscore_metric\[plot\]'"):
        pair.plot()
    monkeypatch.setitem(__import__("sys").modules, "jinja2", None)
    with pytest.raises(ImportError, match=r"pip install 'bertscore_metric\[plot\]'"):
        pair.to_html()


def test_formats(tmp_path: Path) -> None:
    """The ending of the file says the format."""
    pair = explain({}, "a cat", "the cat")
    for ending, begin in {
        ".png": b"\x89PNG",
        ".html": b"<!DOCTYPE html>",
        ".txt": b"P 0.",
        ".svg": b"<?xml",
        ".pdf": b"%PDF",
    }.items():
        pair.save(tmp_path / f"pair{ending}")
        assert (tmp_path / f"pair{ending}").read_bytes().lstrip().startswith(begin)


@pytest.mark.filterwarnings("ignore::bertscore_metric.BERTScoreWarning")
@pytest.mark.parametrize(("candidate", "reference"), [("", "b"), ("b", ""), ("", "")])
def test_empty_text_without_any_token(candidate: str, reference: str) -> None:
    """A tokenizer without special tokens gives an empty text no token at all; it is explained as the 0 it scores."""
    pair = shared_scorer("gpt2", num_layers=2).explain(candidate, [reference, ""])
    assert pair.f1 == 0
    assert pair.words().similarity.shape == pair.similarity.shape
    assert "F1 0.000000" in pair.to_text()


def test_no_control_characters_reach_a_terminal() -> None:
    """What a text would do to a terminal is spelled out."""
    pair = shared_scorer("roberta", num_layers=2).explain("\x1b]0;x\x07 hi\x1b[2J\x9b31m \u202eevil", "ok")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        labels = "".join(label.get_text() for label in pair.plot().axes[0].get_yticklabels())
    for shown in (pair.to_text(), labels, "".join(str(warning.message) for warning in caught)):
        assert not set("\x1b\x9b\x07\u202e") & set(shown)
    assert "\\x1b" in pair.to_text()
    assert "\\x1b" in labels


def test_characters_of_several_tokens() -> None:
    """Where tokens are bytes, the first has the character; the others are empty, and drawn as dots."""
    pair = shared_scorer("roberta", num_layers=2).explain("a", "€")
    assert pair.reference_tokens == ("<s>", "▁", "€", "", "", "</s>")
    assert [label.get_text() for label in pair.plot().axes[0].get_xticklabels()] == ["<s>", "▁", "€", "⋯", "⋯", "</s>"]
    assert "⋯" in pair.to_text()
    assert "⋯" in pair.to_html()


def test_large_pictures_are_bounded(tmp_path: Path) -> None:
    """A picture of very long texts has no more pixels on a side than can be opened."""
    from PIL import Image

    from bertscore_metric.analysis.heat_map import _LARGEST_SIDE

    text = "the cat sat on the mat and then it " * 40
    pair = shared_scorer("minilm", num_layers=0).explain(text, text)
    pair.save(tmp_path / "large.png")
    with Image.open(tmp_path / "large.png") as picture:
        assert _LARGEST_SIDE * 0.9 < max(picture.size) <= _LARGEST_SIDE
