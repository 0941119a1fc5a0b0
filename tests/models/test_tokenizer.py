"""Tokens: prefix space, limits, truncation, special and unknown ids, ragged batches."""

from importlib.metadata import version
from typing import Any

import pytest
import torch
from conftest import MODELS, TESTS, model_path
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from bertscore_metric.core.pairs import parse_segments
from bertscore_metric.core.tokens import TokenizedSegments
from bertscore_metric.models.quirks import QUIRKS
from bertscore_metric.models.tokenizer import TextTokenizer, tokenize_segments

REAL_TOKENIZERS = TESTS.parent.parent / "shared" / "tokenizers"
BERT = TextTokenizer(AutoTokenizer.from_pretrained(MODELS / "bert"), model_type="bert")
words = st.lists(st.sampled_from(["the", "cat", "Go", "😀", "lemons."]), max_size=6).map(" ".join)

PREFIX_SPACE_MODEL_TYPES = {name for name, quirks in QUIRKS.items() if quirks.prefix_space}


def load(name: str, **settings: Any) -> TextTokenizer:
    """Return a tiny model's tokenizer under our rules."""
    return TextTokenizer(AutoTokenizer.from_pretrained(model_path(name)), **settings)


def one(tokenizer: TextTokenizer, text: str) -> list[str]:
    """Return the token strings of a text."""
    return tokenizer.tokens(tokenizer([text]).ids.tolist())


def test_text_is_stripped() -> None:
    """Spaces around a text are no part of it."""
    assert one(BERT, "  the cat \n") == one(BERT, "the cat")


@pytest.mark.parametrize("folder", ["roberta", "roberta-prefix"])
def test_prefix_space(folder: str) -> None:
    """RoBERTa's first word gets the space it has inside a sentence, once, and an empty text gets none."""
    tokenizer = load(folder, model_type="roberta")
    assert one(tokenizer, "the cat")[1:3] == ["Ġthe", "Ġcat"]
    assert one(tokenizer, "") == ["<s>", "</s>"]


@pytest.mark.parametrize(("folder", "model_type"), [("bart", "bart"), ("longformer", "longformer")])
def test_no_prefix_space_for_aliases_of_the_roberta_tokenizer(folder: str, model_type: str) -> None:
    """BART and Longformer share RoBERTa's tokenizer class in transformers 5, and must not get the space."""
    assert one(load(folder, model_type=model_type), "the cat")[1] != "Ġthe"


def test_no_prefix_space_without_a_byte_level_vocabulary() -> None:
    """A RoBERTa model with a WordPiece or SentencePiece tokenizer gets none."""
    for folder in ("bert", "xlm-roberta"):
        tokenizer, plain = load(folder, model_type="roberta"), load(folder, model_type=folder)
        assert tokenizer(["the cat"]).ids.tolist() == plain(["the cat"]).ids.tolist()


@pytest.mark.skipif(not REAL_TOKENIZERS.is_dir(), reason="needs real tokenizer files, not part of the project")
def test_real_roberta_tokenizer() -> None:
    """The real RoBERTa vocabulary: known ids of a sentence with the prefix space."""
    tokenizer = TextTokenizer(AutoTokenizer.from_pretrained(REAL_TOKENIZERS / "roberta"), model_type="roberta")
    assert tokenizer(["Hello world"]).ids.tolist() == [0, 20920, 232, 2]


@pytest.mark.skipif(version("transformers") >= "5", reason="transformers 5 has no slow tokenizers to compare with")
def test_prefix_list_is_that_of_the_slow_tokenizers() -> None:
    """The list is every model type whose slow tokenizer in transformers 4 was RoBERTa's or GPT-2's."""
    from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING_NAMES

    slow = {name for name, classes in TOKENIZER_MAPPING_NAMES.items()
            if classes[0] in ("RobertaTokenizer", "GPT2Tokenizer")}  # fmt: skip
    assert slow == PREFIX_SPACE_MODEL_TYPES


def test_prefix_list_is_by_model_type() -> None:
    """The list names model types of transformers, not paths, and not those that only share the tokenizer's code."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    assert PREFIX_SPACE_MODEL_TYPES - set(CONFIG_MAPPING_NAMES) <= {"mega"}  # dropped in transformers 5
    assert not PREFIX_SPACE_MODEL_TYPES & {"bart", "longformer", "led", "deberta", "xlm-roberta", "codegen"}


@pytest.mark.parametrize(
    ("folder", "model_type", "unweighted", "special"),
    [
        ("bert", "bert", {"[CLS]", "[SEP]"}, {"[CLS]", "[SEP]", "[PAD]"}),
        ("roberta", "roberta", {"<s>", "</s>"}, {"<s>", "</s>", "<pad>"}),
        ("xlnet", "xlnet", {"<cls>", "<sep>"}, {"<cls>", "<sep>", "<s>", "</s>", "<pad>"}),
        ("t5", "t5", set(), {"</s>", "<pad>"}),
        ("llama", "llama", {"<s>", "</s>"}, {"<s>", "</s>"}),
        ("gpt2", "gpt2", {"<|endoftext|>"}, {"<|endoftext|>"}),
    ],
)
def test_special_ids(folder: str, model_type: str, unweighted: set[str], special: set[str]) -> None:
    """[CLS] and [SEP] weigh nothing, T5's `</s>` counts, and without any of them every special token is out."""
    tokenizer = load(folder, model_type=model_type)
    assert set(tokenizer.tokens(sorted(tokenizer.unweighted_ids))) == unweighted
    assert set(tokenizer.tokens(sorted(tokenizer.special_ids))) == special


def test_unknown_id() -> None:
    """The unknown token has an id of its own, except where it is GPT-2's end of text."""
    assert BERT.tokens([BERT.unknown_id or -1]) == ["[UNK]"]
    assert load("gpt2", model_type="gpt2").unknown_id is None


def test_limit_is_the_smaller_one() -> None:
    """The tokenizer's limit, the position table's and `max_length` are combined; 1e30 is none."""
    assert load("bert").limit == 64
    assert load("bert", position_limit=32).limit == 32
    assert load("bert", position_limit=100).limit == 64
    assert load("bert", max_length=10).limit == 10
    assert load("deberta-v3-nomax").limit is None
    assert load("deberta-v3-nomax", max_length=10).limit == 10


@pytest.mark.parametrize("folder", ["bert", "roberta", "xlnet", "t5", "gpt2", "llama"])
def test_truncation_keeps_special_tokens_and_counts(folder: str) -> None:
    """A long text loses tokens on the right, keeps its special ones, and the loss is counted."""
    tokenizer, free = load(folder, max_length=8), load(folder)
    cut, whole = tokenizer(["the cat sat on the red table again"]), free(["the cat sat on the red table again"])
    assert cut.lengths.tolist() == [8]
    assert cut.lost.tolist() == [len(whole.ids) - 8]
    n_special = len(free([""]).ids)
    kept = [token for token in cut.ids.tolist() if token not in tokenizer.special_ids]
    assert len(kept) == 8 - n_special
    assert kept == [token for token in whole.ids.tolist() if token not in tokenizer.special_ids][: len(kept)]


def test_many_texts_are_encoded_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slicing the tokenizer's calls changes nothing."""
    texts = ["the cat", "", "Go go", "a dog sat", "the cat " * 60]
    whole = BERT(texts)
    monkeypatch.setattr("bertscore_metric.models.tokenizer._TEXTS_PER_CALL", 2)
    sliced = BERT(texts)
    for name in ("ids", "lengths", "lost"):
        assert torch.equal(getattr(whole, name), getattr(sliced, name))


def test_no_texts() -> None:
    """No texts are no tokens."""
    assert len(BERT([])) == 0


def test_batch_is_padded_on_the_right() -> None:
    """A batch holds the chosen texts in order, padded with masked special tokens."""
    batch = BERT(["the cat", "Go", "a dog sat"]).batch(torch.tensor([2, 1]), BERT.pad_id, torch.tensor([0, 2, 3]))
    assert batch.ids.shape == (2, 5)
    assert batch.attention_mask.tolist() == [[True] * 5, [True] * 3 + [False] * 2]
    assert batch.special_tokens_mask.tolist() == [[True, False, False, False, True], [True, False, True, True, True]]
    assert BERT.tokens(batch.ids[1].tolist()) == ["[CLS]", "go", "[SEP]", "[PAD]", "[PAD]"]


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(words, st.lists(words, min_size=1, max_size=3)), min_size=1, max_size=6), st.integers(1, 3))
def test_concatenate_equals_tokenizing_at_once(corpus: list[tuple[str, list[str]]], size: int) -> None:
    """Joined parts hold the pairs of one call, every distinct text once."""
    whole = tokenize_segments(parse_segments([c for c, _ in corpus], [r for _, r in corpus]), BERT)
    parts = [corpus[begin : begin + size] for begin in range(0, len(corpus), size)]
    joined = TokenizedSegments.concatenate(
        [tokenize_segments(parse_segments([c for c, _ in part], [r for _, r in part]), BERT) for part in parts]
    )

    def texts(segments: TokenizedSegments, numbers: torch.Tensor) -> list[list[int]]:
        split = [part.tolist() for part in segments.texts.ids.split(segments.texts.lengths.tolist())]
        return [split[number] for number in numbers.tolist()]

    assert texts(joined, joined.candidates) == texts(whole, whole.candidates)
    assert texts(joined, joined.references) == texts(whole, whole.references)
    assert torch.equal(joined.reference_counts, whole.reference_counts)
    distinct = {tuple(ids) for numbers in (joined.candidates, joined.references) for ids in texts(joined, numbers)}
    assert len(parts) == 1 or len(joined.texts) == len(distinct)
