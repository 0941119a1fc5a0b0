"""A text that is far too long is cut as if all of it had been tokenized, and only a head of it is."""

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from conftest import DATA, MODELS, model_path, shared_scorer
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from bertscore_metric import BERTScorer, BERTScoreWarning
from bertscore_metric.models.cutting import LEAST_HEAD, first_tokens
from bertscore_metric.models.tokenizer import TextTokenizer

THIRD_PARTY = DATA.parent / "tokenizers"
FOLDERS = {
    **{path.name: path for path in sorted(MODELS.iterdir()) if path.is_dir() and (path / "config.json").exists()},
    **{f"real {path.name}": path for path in (sorted(THIRD_PARTY.iterdir()) if THIRD_PARTY.is_dir() else [])},
}
LIMIT = 64
PIECES = st.lists(
    st.one_of(
        st.text(max_size=12),
        st.sampled_from([
            "the cat sat", " ", "\n", "  ", "ha", "a", "no", "e\N{COMBINING ACUTE ACCENT}",
            "\N{COMBINING ACUTE ACCENT}", "你好", "ไทย", "한국어", "\N{WOMAN}\N{ZERO WIDTH JOINER}\N{GIRL}", "ß",
            "\N{LATIN SMALL LIGATURE FI}", "</s>", "[SEP]", "<mask>", "'s", "1234567", "...", "x" * 150,
        ]),
    ),
    min_size=1,
    max_size=12,
)  # fmt: skip


def long(pieces: list[str], length: int) -> str:
    """Return a text of so many characters in which the pieces repeat."""
    text = "".join(pieces) or "a"
    return "x" + (text * (length // len(text) + 1))[: length - 2] + "x"  # nothing to strip


@cache
def tokenizer(name: str, limit: int = LIMIT) -> TextTokenizer:
    """Return a tokenizer under our rules; a folder with a configuration says what model it is of."""
    if (FOLDERS[name] / "spiece.model").exists() and not (FOLDERS[name] / "tokenizer.json").exists():
        pytest.importorskip("sentencepiece", reason="needs sentencepiece, to read a model of it")
    one = AutoTokenizer.from_pretrained(str(FOLDERS[name]))
    return TextTokenizer(one, model_type=name.split()[-1].split("-")[0], max_length=limit)


def check(text: str, name: str) -> bool:
    """Compare with the whole text's ids, and return whether a head sufficed."""
    one = tokenizer(name)
    assert one.limit is not None
    found = one([text])
    whole, cut = one._encode([text])[0], one._encode([text], one.limit)[0]
    assert found.ids.tolist() == cut
    lost, truth = int(found.lost), len(whole) - len(cut)
    assert lost == truth or -truth <= lost < 0, (lost, truth)
    return lost < 0


SHAPES = {
    "words": ["the cat sat on the red table near the river bank. "],
    "one letter": ["a"],
    "two letters": ["ha"],
    "three letters": ["abc"],
    "no spaces": ["去年今日此门中人面桃花相映红"],
    "marks": ["e", "\N{COMBINING ACUTE ACCENT}" * 3, "👩‍👩‍👧 "],
    "spaces": ["a", " " * 500],
    "long words": ["x" * 150, " "],
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["bert", "roberta", "xlm-roberta"])
def test_shapes(name: str, shape: str) -> None:
    """Ids are those of the whole text, whatever repeats in it and whatever remains at its end."""
    for length in (5 * LEAST_HEAD, 5 * LEAST_HEAD + 7):
        sufficed = check(long(SHAPES[shape], length), name)
        assert sufficed or shape != "words"


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", FOLDERS)
def test_shapes_with_every_tokenizer(name: str, shape: str) -> None:
    """The same for all kinds of tokenizers."""
    for length in (5 * LEAST_HEAD, 5 * LEAST_HEAD + 7):
        check(long(SHAPES[shape], length), name)


@pytest.mark.slow
@pytest.mark.parametrize("name", FOLDERS)
def test_any_text(name: str) -> None:
    """Ids are those of the whole text for any text."""

    @given(PIECES, st.integers(5 * LEAST_HEAD, 6 * LEAST_HEAD))
    @settings(deadline=None, max_examples=25, database=None)
    def compare(pieces: list[str], length: int) -> None:
        check(long(pieces, length), name)

    compare()


def counting(encode: Callable[[str], list[int]], seen: list[int]) -> Callable[[str, int | None], list[int]]:
    """Return an encoder of one text that notes how long its texts are."""

    def one(text: str, limit: int | None) -> list[int]:
        seen.append(len(text))
        return encode(text)[:limit]

    return one


def test_short_texts_are_left_alone() -> None:
    """A text that is shorter than the heads together is not looked at."""
    seen: list[int] = []
    assert first_tokens("a " * (5 * LEAST_HEAD // 2 - 1), 100, counting(lambda text: [*text.encode()], seen)) is None
    assert seen == []


def test_heads_that_differ_are_doubled() -> None:
    """A tokenizer whose first ids depend on what comes at character 20,000 is asked for heads until they agree."""
    seen: list[int] = []

    def encode(text: str) -> list[int]:
        return [len(text[:20_000]), *text.encode()[:1000]]

    text = "a" * 100_000
    found = first_tokens(text, 100, counting(encode, seen))
    assert found is not None
    assert found[0] == encode(text)[:100]
    assert found[1] == 1001 - 100
    assert seen == [4096, 8192, 8193, 8192, 16384, 16385, 16384, 32768, 32769, 32768, 65536, 65537, 32768]


@pytest.mark.parametrize("period", [2, 3, 4, 7, 8, 4096])
def test_remainders_are_seen(period: int) -> None:
    """A tokenizer that puts what remains of a repetition first never has heads that agree by chance."""

    def encode(text: str, limit: int | None = None) -> list[int]:
        return [len(text) % period, *[period] * (len(text) // period)][:limit]

    assert first_tokens("a" * 100_001, 5, encode) is None


def test_only_a_head_is_tokenized(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of five million characters some twenty thousand are tokenized, and the warning says "at least"."""
    scorer = BERTScorer(model_path("bert"), num_layers=2)
    text = scorer.model.tokenizer
    lengths: list[int] = []
    encode = text._encode

    def noting(texts: list[str], limit: int | None = None) -> Any:
        lengths.extend(map(len, texts))
        return encode(texts, limit)

    monkeypatch.setattr(text, "_encode", noting)
    with pytest.warns(BERTScoreWarning, match=r"1 text is longer than the limit of 64 tokens; at least \d+ tokens"):
        result = scorer.score(["the cat sat. " * 400_000], ["the cat sat."])
    assert result.n_truncated == 1
    assert sum(lengths) < 7 * LEAST_HEAD


@pytest.mark.parametrize("idf", [False, True])
def test_streams_know_that_more_was_lost(idf: bool) -> None:
    """The metric's columns keep the difference between some tokens and at least some."""
    from bertscore_metric import BERTScore

    for words, told in ((100, r"; \d+ tokens"), (10_000, r"; at least \d+ tokens")):
        metric = BERTScore(model_path("bert"), num_layers=2, idf=idf)
        metric.update(["the cat sat. " * words, "go"], ["the cat sat.", "the dog walked."])
        with pytest.warns(BERTScoreWarning, match=told):
            metric.compute()


def test_refusing_long_texts() -> None:
    """An error about such a text says that it has at least so many tokens."""
    with pytest.raises(ValueError, match=r"^candidates\[1\] is a text of at least \d+ tokens, and the limit is 64:"):
        shared_scorer("bert", num_layers=2, long_text="error").score(["a", "the cat sat. " * 9000], ["a", "b"])


def test_windows_keep_the_whole_text() -> None:
    """Windows need all tokens."""
    one = BERTScorer(model_path("bert"), num_layers=2, long_text="windows").model.tokenizer
    found = one(["the cat sat. " * 2000])
    assert found.lost.tolist() == [0]
    assert len(found.ids) > 6000
    torch.testing.assert_close(found.ids[:4], one(["the cat sat."]).ids[:4])
