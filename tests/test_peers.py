"""Right values where the peers fail: every fault found in them is a test of ours.

Values hold for all-MiniLM-L6-v2 at layer 5, to 1e-5.
"""

import pytest
import torch
from conftest import DATA, model_path, shared_scorer

from bertscore_metric import BERTScorer, BERTScoreWarning, score

CANDIDATES = [
    "the cat sat on the mat .",
    "a quick brown fox",
    "hello there, general kenobi!",
    "The weather is nice today and we will go to the park to play football with friends.",
    "x",
    "the cat sat on the mat .",
    "New York is big",
    "I like it.",
]
REFERENCES = [
    "a cat was sitting on the mat .",
    "the fast brown fox jumped over the lazy dog",
    "hello there",
    "It is sunny, so let's play soccer in the park.",
    "y z w",
    "the cat sat on the mat .",
    "Los Angeles is bigger than New York",
    "I love it!",
]
PRECISION = [0.931639, 0.836850, 0.449452, 0.674377, 0.397950, 1, 0.900710, 0.834624]
RECALL = [0.905306, 0.623932, 0.925012, 0.757504, 0.340551, 1, 0.762015, 0.802649]
F1 = [0.918284, 0.714874, 0.604961, 0.713528, 0.367020, 1, 0.825578, 0.818324]
IDF_PRECISION = [0.918085, 0.829948, 0.409908, 0.628515, 0.397950, 1, 0.893499, 0.830883]
IDF_RECALL = [0.882336, 0.618644, 0.925012, 0.742719, 0.340551, 1, 0.756788, 0.793651]
IDF_F1 = [0.899856, 0.708885, 0.568079, 0.680861, 0.367020, 1, 0.819481, 0.811840]


def close(got: torch.Tensor, expected: object) -> None:
    """Compare to the five decimals that the values are given to."""
    torch.testing.assert_close(got, torch.tensor(expected, dtype=torch.float32), atol=1e-5, rtol=0)


def test_unsorted_corpus() -> None:
    """Every candidate meets its own reference, whatever the lengths; torchmetrics pairs the wrong sentences."""
    precision, recall, f1 = shared_scorer("minilm", num_layers=5).score(CANDIDATES, REFERENCES)
    close(precision, PRECISION)
    close(recall, RECALL)
    close(f1, F1)


def test_unsorted_corpus_idf() -> None:
    """The same with the idf of the references being scored."""
    precision, recall, f1 = shared_scorer("minilm", num_layers=5, idf=True).score(CANDIDATES, REFERENCES)
    close(precision, IDF_PRECISION)
    close(recall, IDF_RECALL)
    close(f1, IDF_F1)


@pytest.mark.parametrize("splits", [[2], [1, 1]], ids=["one update", "two updates"])
def test_several_references(splits: list[int], scorer: BERTScorer) -> None:
    """Ragged groups of references give one score a candidate, in one update or in two."""
    candidates = ["hello there", "a cat sat"]
    references = [["hi there", "hello"], ["the dog", "a cat sat down", "cats"]]
    begin = 0
    for size in splits:
        scorer.update(candidates[begin : begin + size], references[begin : begin + size])
        begin += size
    result = scorer.compute()
    close(result.precision, [0.876246, 0.970696])
    close(result.recall, [0.982889, 0.846598])
    close(result.f1, [0.876246, 0.887840])
    assert result.best_reference.tolist() == [0, 1]


def test_long_text(scorer: BERTScorer) -> None:
    """A text beyond the model's limit is cut, counted and said, where torchmetrics crashes."""
    long = "word " * 700
    scorer = BERTScorer("offline", num_layers=5)
    scorer.update([long], [long + "end"])
    scorer.update(["the cat"], ["a cat"])
    with pytest.warns(BERTScoreWarning, match=r"2 texts are longer than the limit of 512 tokens; 381 tokens"):
        result = scorer.compute()
    close(result.f1, [1.0, 0.837539])
    assert result.n_truncated == 2


def test_empty_texts() -> None:
    """Empty and blank texts score 0, also with idf, where torchmetrics gives NaN and bert_score crashes."""
    plain = shared_scorer("minilm", num_layers=5)
    with pytest.warns(BERTScoreWarning, match=r"3 of 4 segments are empty on a side .* indices 0, 1, 2\."):
        result = plain.score(["", "hello", "  ", "a cat"], ["hello", "", "hello", "a cat"])
    for column in result:
        close(column, [0, 0, 0, 1])
    assert result.n_empty == 3
    with pytest.warns(BERTScoreWarning, match="1 of 3 segments are empty"):
        result = shared_scorer("minilm", num_layers=5, idf=True).score(
            ["", "hello there", "a cat"], ["hello", "hi there", "a cat"]
        )
    close(result.f1, [0, 0.876246, 1])


def test_left_padding_and_missing_special_tokens() -> None:
    """A tokenizer that pads on the left (XLNet) or has neither [CLS] nor [SEP] (GPT-2, Llama, T5) loses no word."""
    for model in ("xlnet", "gpt2", "llama", "t5"):
        scorer = shared_scorer(model, num_layers=2)
        together = scorer.score(["the cat sat on the red table.", "Go"], ["the cat sat on the red table.", "Go"])
        for column in together:
            close(column, [1, 1])
        # the first and the last word count
        different = scorer.score(["the cat sat", "the cat sat"], ["a cat sat", "the cat looked"])
        assert (different.f1 < 0.999).all(), model


def test_one_pair_is_a_vector() -> None:
    """One pair gives tensors of shape [1]."""
    result = shared_scorer("minilm", num_layers=5).score("a cat", "a cat")
    assert [tuple(column.shape) for column in result] == [(1,)] * 3
    close(result.f1, [1])


def test_tokenizer_without_limit() -> None:
    """A tokenizer that claims a limit of 1e30 does not overflow, and relative positions need no cut."""
    result = shared_scorer("deberta-v3-nomax", num_layers=2).score(["the cat " * 100], ["the cat " * 100])
    close(result.f1, [1])
    assert result.n_truncated == 0


def test_position_table_is_consulted() -> None:
    """A tokenizer that says 512 over a table of 64 positions does not crash; the table's size is the limit."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model_path("bert"), model_max_length=512)
    scorer = BERTScorer(model=AutoModel.from_pretrained(model_path("bert")), tokenizer=tokenizer, num_layers=2)
    assert scorer.model.tokenizer.limit == 64
    with pytest.warns(BERTScoreWarning, match="2 texts are longer"):
        close(scorer.score(["the cat " * 100], ["the cat " * 100]).f1, [1])


def test_negative_similarity_does_not_depend_on_padding() -> None:
    """A token whose best similarity is negative scores the same alone and in a padded batch."""
    scorer = shared_scorer("modernbert", num_layers=2)
    candidates = ["Go go go.", "the cat sat on the red table near the river bank."]
    references = ["Numbers: 0 1 2 3, is it?", "a dog sat on the red table."]
    together = scorer.score(candidates, references)
    for k in range(2):
        alone = scorer.score(candidates[k], references[k])
        for both, one in zip(together, alone, strict=True):
            torch.testing.assert_close(both[k : k + 1], one, atol=1e-6, rtol=0)


def test_idf_with_one_reference() -> None:
    """With one reference every idf is 0; that side falls back to plain weights instead of giving NaN."""
    scorer = shared_scorer("minilm", num_layers=5, idf=True)
    with pytest.warns(BERTScoreWarning, match="1 of 1 segments all idf weights of a side are 0"):
        result = scorer.score(["a cat sat down"], ["the cat sat"])
    plain = shared_scorer("minilm", num_layers=5).score(["a cat sat down"], ["the cat sat"])
    assert torch.isfinite(result.f1).all()
    torch.testing.assert_close(result.recall, plain.recall)


@pytest.mark.filterwarnings("ignore::bertscore_metric.BERTScoreWarning")
def test_one_token_t5_text() -> None:
    """A one-token T5 text against itself scores 1, with idf too; bert_score takes it for an empty one."""
    for idf in (False, True):
        for column in shared_scorer("t5", num_layers=2, idf=idf).score(["Go"], ["Go"]):
            close(column, [1])


def test_empty_t5_text() -> None:
    """An empty T5 text is `</s>` alone, and still empty."""
    with pytest.warns(BERTScoreWarning, match="2 of 2 segments are empty"):
        result = shared_scorer("t5", num_layers=2).score(["", "Go"], ["", " "])
    for column in result:
        close(column, [0, 0])


def test_second_corpus_has_its_own_idf() -> None:
    """A used scorer counts idf anew for every corpus; evaluate's module keeps the first one's."""
    scorer = shared_scorer("minilm", num_layers=5, idf=True)
    scorer.score(CANDIDATES, REFERENCES)
    result = scorer.score(
        ["graph neural networks", "the cat sat here"], ["neural networks on graphs", "the cat is here now"]
    )
    close(result.f1, [0.897373, 0.731544])


def test_strings_are_not_split_into_characters() -> None:
    """Two strings are one pair, and a string among groups is an error."""
    assert score("I love lemons.", "I like apples.", "offline", num_layers=5).n_segments == 1
    with pytest.raises(TypeError, match=r"references mixes single texts \(references\[1\]\) and groups"):
        score(["Hi", "Hey"], [["I love lemons."], "Hey"], "offline", num_layers=5)


@pytest.mark.skipif(not DATA.is_dir(), reason="needs the WMT18 texts, which are not part of the project")
def test_newstest() -> None:
    """A thousand WMT18 segments, without and with idf."""
    folder = DATA / "newstest2018_deen"
    candidates, references = (
        (folder / name).read_text(encoding="utf-8").split("\n")[:1000] for name in ("hyp.RWTH.5636.en", "ref.en")
    )
    for idf, expected in ((False, [0.916745, 0.906209, 0.911119]), (True, [0.893921, 0.884686, 0.888703])):
        mean = BERTScorer("offline", num_layers=5, idf=idf).score(candidates, references).mean
        assert [mean.precision, mean.recall, mean.f1] == pytest.approx(expected, abs=1e-5)


@pytest.mark.hub
def test_known_answer_of_roberta_large() -> None:
    """The rescaled example of bert_score's discussion, with the prefix space."""
    result = score(["This is a cat"], ["A cat sat on a mat"], lang="en", num_layers=17, rescale_with_baseline=True)
    assert [column.item() for column in result] == pytest.approx([0.3927, 0.2578, 0.3255], abs=1e-3)
