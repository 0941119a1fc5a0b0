"""Tokens as people read them."""

from itertools import pairwise

import pytest
from conftest import TOLERANCE, model_path, shared_scorer
from hypothesis import given
from hypothesis import strategies as st

from bertscore_metric import BERTScorer
from bertscore_metric.core.spelling import bare, join, spell_bytes, word_mark, word_numbers

WORDS = "hello there naïve 你好 🙂 e\u0301"


def decode(tokens: list[str]) -> str:
    """Decode tokens that are bytes in hexadecimal."""
    return b"".join(bytes.fromhex(token) for token in tokens).decode(errors="replace")


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\ufffd ▁\n\t"), max_size=20))
def test_bytes_spell_the_text(text: str) -> None:
    """One token a byte: the characters come out whole, in order, and a token for every byte."""
    tokens = [f"{byte:02x}" for byte in text.encode()]
    spelled = spell_bytes(tokens, decode)
    assert len(spelled) == len(tokens)
    assert "".join(spelled) == text


def test_bytes_that_are_no_character() -> None:
    """What is cut in the middle of a character is shown as such, and the rest is still read."""
    assert spell_bytes(["f0", "9f", "61"], decode) == ["\ufffd", "\ufffd", "a"]


@pytest.mark.parametrize(
    ("vocabulary", "mark"),
    [
        (["a", "##b", "##c", "▁d"], "##"),
        (["Ġa", "Ġb", "##"], "▁"),
        (["▁a", "b"], "▁"),
        (["a</w>", "b"], "</w>"),
        (["a@@", "b"], "@@"),
        (["a", "b"], ""),
    ],
)
def test_marks(vocabulary: list[str], mark: str) -> None:
    """The most frequent mark is the vocabulary's."""
    assert word_mark(vocabulary) == mark


@pytest.mark.parametrize(
    ("tokens", "mark", "words"),
    [
        (["the", "em", "##bed", "##s", "!"], "##", ["the", "embeds", "!"]),
        (["▁the", "▁em", "beds", "!"], "▁", ["the", "embeds!"]),
        (["the</w>", "em", "beds</w>"], "</w>", ["the", "embeds"]),
        (["the", "em@@", "beds"], "@@", ["the", "embeds"]),
        (["▁你", "好", "吗"], "▁", ["你", "好", "吗"]),
        (["你", "##好"], "##", ["你", "好"]),
        (["▁🙂", "", "", "▁a"], "▁", ["🙂", "a"]),
        (["▁", "🙂", "", "", "▁a"], "▁", ["🙂", "a"]),
        (["▁", "東", "", "京", "▁", "▁a", "▁"], "▁", ["東", "京", "a", "▁"]),
        (["a", "⋯", "##", "@@", "</w>"], "▁", ["a⋯##@@</w>"]),
        (["a", "b"], "", ["a", "b"]),
    ],
)
def test_words(tokens: list[str], mark: str, words: list[str]) -> None:
    """Pieces join to words, whatever marks them."""
    numbers = word_numbers(tokens, [False] * len(tokens), mark)
    joined = [
        join([t for t, n in zip(tokens, numbers, strict=True) if n == word], mark) for word in range(numbers[-1] + 1)
    ]
    assert joined == words


def test_bare_tokens() -> None:
    """A token of nothing but a mark stays visible."""
    given = {"##": "##", "▁": "▁", "##a": "##", "▁a": "▁", "a</w>": "</w>", "##b": "▁"}
    assert [bare(token, mark) for token, mark in given.items()] == ["##", "▁", "a", "a", "a", "##b"]


@pytest.mark.parametrize("name", ["minilm", "roberta", "xlm-roberta", "t5", "xlnet", "llama", "gpt2", "albert", "bart"])
def test_every_family_of_tokenizers(name: str) -> None:
    """Texts come out readable: words that are in the vocabulary or made of bytes, special tokens apart."""
    tokenizer = BERTScorer(model_path(name), num_layers=1).model.tokenizer
    ids = tokenizer([WORDS]).ids.tolist()
    numbers, spelled = tokenizer.words(ids), tokenizer.spelled(ids)
    assert len(numbers) == len(spelled) == len(ids)
    assert numbers[0] == 0
    assert all(later - earlier in (0, 1) for earlier, later in pairwise(numbers))
    words = [
        join([t for t, n in zip(spelled, numbers, strict=True) if n == word], tokenizer.word_mark)
        for word in range(numbers[-1] + 1)
    ]
    assert words.index("hello") < words.index("there")
    assert not any("Ġ" in token for token in spelled)
    for index, token in enumerate(ids):
        if token in tokenizer.special_ids:
            assert numbers.count(numbers[index]) == 1


@pytest.mark.parametrize("name", ["roberta", "gpt2"])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a⋯b", ("a⋯b",)),
        ("x ##y@@ z</w>", ("x", "##y@@", "z</w>")),
        ("東京 🙂 é a", ("東", "京", "🙂", "é", "a")),
        ("hello\nworld one\t\ttwo", ("hello", "\\n", "world", "one", "\\t", "\\t", "two")),
        ("word\xa0space", ("word", "\xa0", "space")),
    ],
)
def test_nothing_of_a_text_is_lost(name: str, text: str, words: tuple[str, ...]) -> None:
    """What looks like the mark of a vocabulary is text where it stands in one, and a lone space joins its word."""
    pair = shared_scorer(name, num_layers=1).explain(text, "a").words()
    assert tuple(token for token in pair.candidate_tokens if token not in ("<s>", "</s>")) == words
    assert float(pair.precision_contributions.sum()) == pytest.approx(pair.precision, abs=TOLERANCE)


@pytest.mark.parametrize(
    ("tokens", "own", "words"),
    [
        (["안", "##녕", "하", "##세요"], None, ["안녕", "하세요"]),
        (["don", "'", "t", "say", "it", "’", "s", "'", "a"], None, ["don't", "say", "it’s", "'", "a"]),
        (["x", "'", "tail", "'", "s"], None, ["x", "'", "tail's"]),
        (["ひ", "##ら", "がな"], [0, 0, 1], ["ひら", "がな"]),
        (["u", ".", "s", "."], [0, 0, 0, 0], ["u.s."]),
    ],
)
def test_words_of_the_tokenizer(tokens: list[str], own: list[int | None] | None, words: list[str]) -> None:
    """Korean has spaces, English contractions are one word, and what the tokenizer joins stays joined."""
    numbers = word_numbers(tokens, [False] * len(tokens), "##", own)
    joined = [
        join([t for t, n in zip(tokens, numbers, strict=True) if n == word], "##") for word in range(numbers[-1] + 1)
    ]
    assert joined == words


@pytest.mark.parametrize("name", ["minilm", "bert", "roberta", "gpt2", "llama", "albert", "deberta"])
@pytest.mark.parametrize(
    "text", ["the embeddings of unhappiness", "한국어 문장입니다 안녕하세요", "I don't say it's [SEP] re-used."]
)
def test_what_word_ids_join_is_joined(name: str, text: str) -> None:
    """No word of the tokenizer's own numbering is torn, as `word_ids` of the text itself tell."""
    tokenizer = BERTScorer(model_path(name), num_layers=1).model.tokenizer
    encoded = tokenizer._tokenizer(tokenizer._prefix + text)
    numbers = tokenizer.words(encoded["input_ids"])
    by_word: dict[int, set[int]] = {}
    for number, word, token in zip(numbers, encoded.word_ids(), encoded["input_ids"], strict=True):
        if word is not None and token not in tokenizer.special_ids:
            by_word.setdefault(word, set()).add(number)
    assert by_word
    assert all(len(group) == 1 for group in by_word.values())
