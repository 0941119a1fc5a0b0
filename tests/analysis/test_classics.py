"""Classic metrics beside BERTScore: the numbers of their own libraries, several references, scripts, and p."""

from importlib.util import find_spec

import numpy as np
import pytest
import sacrebleu
from rouge_score.rouge_scorer import RougeScorer

from bertscore_metric.analysis.classics import CLASSICS, classic_scores, corpus_p, rouge, sentence_scores
from bertscore_metric.analysis.comparison import compare
from bertscore_metric.core.significance import mean_interval, randomization_p

CANDIDATES = ["the cat sat on the mat today", "a dog ran in the park", "I like lemons and bananas a lot", "go home now"]
REFERENCES = [["the cat sat on a mat today", "a cat was on the mat"], ["a dog ran through the park"],
              ["I love lemons and bananas a lot", ""], ["go home", "go home right now"]]  # fmt: skip
WORSE = ["cat mat", "the park had a dog in it", "lemons", "go home now"]
STREAMS = [[group[0] for group in REFERENCES], ["a cat was on the mat", None, None, "go home right now"]]


def test_corpus_scores() -> None:
    """BLEU, chrF and TER are sacrebleu's, with every reference there is; empty ones beside others are none."""
    theirs = {"bleu": sacrebleu.BLEU(), "chrf": sacrebleu.CHRF(), "ter": sacrebleu.TER()}
    for found in classic_scores(["bleu", "chrf", "ter"], CANDIDATES, REFERENCES):
        metric = theirs[found.name]
        assert found.score == metric.corpus_score(CANDIDATES, STREAMS).score
        assert found.signature == str(metric.get_signature())
        assert found.interval is None
        sure = classic_scores([found.name], CANDIDATES, REFERENCES, interval=True)[0]
        boot = theirs[found.name].corpus_score(CANDIDATES, STREAMS, n_bootstrap=1000)
        assert sure.score == found.score
        assert sure.interval is not None
        assert [*sure.interval] == pytest.approx([boot._mean - boot._ci, boot._mean + boot._ci])
        assert "seed:12345" in sure.signature
        assert "bs:1000" in sure.signature


def test_rouge() -> None:
    """ROUGE is rouge-score's F with the best reference, a mean over segments with an interval of its own."""
    for name in ("rouge1", "rouge2", "rougeL"):
        scorer = RougeScorer([name])
        groups = [[text for text in group if text] for group in REFERENCES]
        wanted = [max(scorer.score(one, text)[name].fmeasure for one in group)
                  for text, group in zip(CANDIDATES, groups, strict=True)]  # fmt: skip
        assert rouge(name, CANDIDATES, REFERENCES).tolist() == pytest.approx(wanted)
        (found,) = classic_scores([name], CANDIDATES, REFERENCES, interval=True)
        assert (found.score, found.interval) == (pytest.approx(np.mean(wanted)), mean_interval(wanted))
        assert found.signature.startswith(f"{name}|measure:f|stemmer:no|")


@pytest.mark.parametrize(("lang", "module"), [("ko", "mecab_ko"), ("zh", "sacrebleu"), ("ja", "MeCab")])
def test_other_scripts(lang: str, module: str) -> None:
    """Identical texts in other scripts: chrF 100, BLEU 100 with the language's tokenizer, ROUGE refused."""
    text = {"ko": "나는 어제 학교에 갔다", "zh": "我昨天去了学校。", "ja": "私は昨日学校に行きました。"}[lang]
    groups = [[text]] * 3
    assert classic_scores(["chrf"], [text] * 3, groups, lang=lang)[0].score == pytest.approx(100)
    with pytest.raises(ValueError, match=r"100% of the references' letters are outside a-z.*chrf works for any script"):
        classic_scores(["rougeL"], [text] * 3, groups, lang=lang)
    if find_spec(module) is None:
        with pytest.raises(ImportError, match=rf"pip install 'sacrebleu\[{lang}\]'"):
            classic_scores(["bleu"], [text] * 3, groups, lang=lang)
    else:
        assert classic_scores(["bleu"], [text] * 3, groups, lang=lang)[0].score == pytest.approx(100)


def test_half_latin() -> None:
    """Half of the letters may be of another script; accents are other letters, marks and digits are none."""
    assert rouge("rouge1", ["ab 日本"], [["ab 日本"]]).tolist() == [1.0]
    with pytest.raises(ValueError, match="60% of the references' letters"):
        rouge("rouge1", ["ab 日本語"], [["ab 日本語"]])


def test_unknown_name() -> None:
    """An unknown metric names the known ones; nothing is scored for nothing."""
    with pytest.raises(ValueError, match=r"no metric 'meteor' to set beside BERTScore; it is one of bleu, chrf, ter,"):
        classic_scores(["meteor"], CANDIDATES, REFERENCES)
    for name in ("bleu", "rougeL"):
        with pytest.raises(ValueError, match="of no segments is nothing"):
            classic_scores([name], [], [])


def test_corpus_p() -> None:
    """p is that of sacrebleu's test, and 1 for a copy, where that would report its smallest."""
    systems = {"one": CANDIDATES * 5, "two": WORSE * 5, "copy": CANDIDATES * 5}
    groups = REFERENCES * 5
    streams = [stream * 5 for stream in STREAMS]
    found = corpus_p("chrf", systems, groups, [("one", "two"), ("one", "copy")])
    test = sacrebleu.significance.PairedTest([("two", WORSE * 5), ("one", CANDIDATES * 5)], {"m": sacrebleu.CHRF()},
                                             streams, n_samples=10_000)  # fmt: skip
    assert found == [test()[1]["chrF2"][1].p_value, 1.0]


def test_compare_with_classics() -> None:
    """A comparison has each classic beside it: ROUGE with our intervals and p, corpus metrics with sacrebleu's."""
    systems = {"two": WORSE, "one": CANDIDATES}
    found = compare(systems, REFERENCES, "offline", num_layers=1, classics=["rougeL", "chrf", "ter"])
    assert list(found.classics) == ["rougeL", "chrf", "ter"]
    ours = found.classics["rougeL"].pairs[0]
    d = rouge("rougeL", CANDIDATES, REFERENCES) - rouge("rougeL", WORSE, REFERENCES)
    assert (ours.difference, ours.p) == (pytest.approx(d.mean()), randomization_p(d[None])[0])
    corpus = found.classics["chrf"]
    assert corpus.pairs[0].interval is None
    assert corpus.pairs[0].wins is None
    assert "sacrebleu" in corpus.test
    assert corpus.systems[0].mean - corpus.systems[1].mean == corpus.pairs[0].difference > 0
    assert found.classics["ter"].systems[0].name == "one"  # fewer errors come first
    assert found.to_dict()["classics"]["chrf"]["pairs"][0]["p"] == corpus.pairs[0].p
    with pytest.raises(ValueError, match="draws single segments for chrf, not groups"):
        compare(systems, REFERENCES, "offline", classics=["chrf"], groups=[0, 0, 1, 1])
    with pytest.raises(ValueError, match=r"95 % intervals for bleu, got level 0\.9"):
        compare(systems, REFERENCES, "offline", classics=["bleu"], level=0.9)
    with pytest.raises(ValueError, match="are computed from texts: give the candidates"):
        compare({"a": [1, 2], "b": [2, 3]}, classics=["rougeL"])


def test_sentence_scores() -> None:
    """Every classic scores single segments, higher being better, for judging metrics."""
    for name in CLASSICS:
        assert (sentence_scores(name, CANDIDATES, REFERENCES) >= sentence_scores(name, WORSE, REFERENCES)).sum() >= 3
