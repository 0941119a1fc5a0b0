"""Optimal matching: known plans, what it shares with greedy matching, and the numbers on judged texts."""

import sys

import pytest
import torch
from conftest import DATA, MODELS, TOLERANCE, model_path, shared_scorer
from fakes import HashEncoder
from transformers import AutoTokenizer

from bertscore_metric import BERTScorer, BERTScoreWarning, IdfTable
from bertscore_metric.analysis.transport import optimal_scores

pytest.importorskip("ot", reason="POT is not installed")


def test_equals_greedy_where_sides_have_one_token() -> None:
    """There is one plan, so greedy and optimal are the same cosine."""
    tokenizer = AutoTokenizer.from_pretrained(MODELS / "bert")
    scorer = BERTScorer(encoder=HashEncoder(vocabulary=len(tokenizer)), tokenizer=tokenizer, match_special_tokens=False)
    words = [word for word in ("a", "b", "the", "go", "cat") if len(tokenizer(word)["input_ids"]) == 3]
    assert len(words) >= 2
    a, b = [x for x in words for _ in words], words * len(words)
    torch.testing.assert_close(optimal_scores(scorer, a, b), scorer.score(a, b).precision, atol=TOLERANCE, rtol=0)


def test_known_plan() -> None:
    """Two against two tokens of equal mass: the better of the two pairings, and idf moves mass."""
    tokenizer = AutoTokenizer.from_pretrained(MODELS / "bert")
    encoder = HashEncoder(vocabulary=len(tokenizer))
    (a, b), (c, d) = (tokenizer(text, add_special_tokens=False)["input_ids"][:2] for text in ("a b", "c d"))
    vectors = torch.nn.functional.normalize(encoder.table, dim=-1)
    cosines = vectors[[a, b]] @ vectors[[c, d]].T
    plain = BERTScorer(encoder=encoder, tokenizer=tokenizer)
    best = max(cosines.diagonal().mean(), cosines.flip(1).diagonal().mean())
    assert optimal_scores(plain, "a b", "c d").item() == pytest.approx(best.item(), abs=TOLERANCE)
    specials = dict.fromkeys(tokenizer.all_special_ids, 0.0)
    weighted = BERTScorer(encoder=encoder, tokenizer=tokenizer, idf=IdfTable({**specials, b: 0.0}, default=1.0))
    alone = cosines[0].mean()
    assert optimal_scores(weighted, "a b", "c d").item() == pytest.approx(alone.item(), abs=TOLERANCE)


def test_groups_empty_texts_and_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    """The best reference counts; an empty side scores 0 with a warning; what has no meaning is refused."""
    scorer = shared_scorer("bert", num_layers=2)
    found = optimal_scores(scorer, ["the cat sat", "a dog"], [["go", "the cat sat"], ["a dog"]])
    torch.testing.assert_close(found, torch.ones(2), atol=3 * TOLERANCE, rtol=0)
    with pytest.warns(BERTScoreWarning, match=r"1 of 2 segments are empty on a side and score 0, the first at index 1"):
        assert optimal_scores(scorer, ["a", ""], ["a", "b"])[1] == 0
    with pytest.raises(ValueError, match="Optimal scores are of one layer"):
        optimal_scores(shared_scorer("bert", all_layers=True), "a", "a")
    rescaled = BERTScorer(model_path("bert"), num_layers=2)
    rescaled.config = rescaled.config.__class__(rescale_with_baseline=True, lang="en")
    with pytest.raises(ValueError, match="Optimal scores have no baseline to be rescaled with"):
        optimal_scores(rescaled, "a", "a")
    monkeypatch.setitem(sys.modules, "ot", None)
    with pytest.raises(ImportError, match=r"Optimal scores need POT: pip install 'bertscore_metric\[stats\]'"):
        optimal_scores(scorer, "a", "a")


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="reads ../shared/data")
def test_judged_texts() -> None:
    """How greedy and optimal matching agree with people, a mean over seven language pairs."""
    from scipy.stats import pearsonr

    lines = (DATA / "human" / "wmt17_da_seg_to_en.tsv").read_text(encoding="utf-8").rstrip("\n").split("\n")
    rows = [dict(zip(lines[0].split("\t"), line.split("\t"), strict=True)) for line in lines[1:]]
    scorer = shared_scorer("minilm", num_layers=6, match_special_tokens=False)
    texts = [row["hypothesis"] for row in rows], [row["reference"] for row in rows]
    for scores, expected in ((scorer.score(*texts).f1, 0.6387), (optimal_scores(scorer, *texts), 0.6454)):
        found = []
        for pair in sorted({row["lp"] for row in rows}):
            chosen = [index for index, row in enumerate(rows) if row["lp"] == pair]
            people = [float(rows[index]["human_da_z"]) for index in chosen]
            found.append(pearsonr(scores[chosen].numpy(), people)[0])
        assert sum(found) / len(found) == pytest.approx(expected, abs=1e-4)
