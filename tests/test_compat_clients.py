"""Programs that import bert_score run on `compat` after one line; those that can be installed do it here."""

import functools
import json
from pathlib import Path

import pytest
from clients import REPLACED, environment, run
from conftest import TOLERANCE, model_path

import bertscore_metric
import bertscore_metric.compat as bert_score
from bertscore_metric import registry, score

BERT = model_path("bert")
BASELINE = str(Path(__file__).parent / "golden" / "baseline.csv")
CANDS = ["the cat sat on the mat .", "I like it."]
REFS = ["a cat was sitting on the mat .", "I love it!"]


def test_names_of_utils() -> None:
    """What programs read of `bert_score.utils` is there, and is what the tables say."""
    assert bert_score.utils.model2layers is bert_score.model2layers
    assert bert_score.utils.lang2model["en"] == "roberta-large"
    assert bert_score.utils.model_types == list(registry.known_models())
    assert bert_score.utils.get_idf_dict is bert_score.get_idf_dict


@pytest.mark.parametrize(
    ("settings", "begin", "rescaled"),
    [
        ((False, False, False), "tiny_L2_no-idf_version=0.3.13(hug_trans=", ")_bert"),
        ((True, True, False), "tiny_L2_idf_version=0.3.13(hug_trans=", ")-rescaled_bert"),
        (({1: 2.0}, True, True), "tiny_L2_idf_version=0.3.13(hug_trans=", ")-custom-rescaled_bert"),
    ],
)
def test_hash_code_in_their_form(settings: tuple[object, bool, bool], begin: str, rescaled: str) -> None:
    """`get_hash` has bert_score's form and says whose numbers they are."""
    code = bert_score.utils.get_hash("tiny", 2, *settings, use_fast_tokenizer=True)
    assert code.startswith(begin)
    assert f"{rescaled}score_metric={bertscore_metric.__version__}" in code


def test_tokenizer_is_read_only() -> None:
    """unitxt reads and sets `_tokenizer.model_max_length`: what it reads is right, and what it sets changes nothing."""
    scorer = bert_score.BERTScorer(model_type=BERT, num_layers=2)
    tokenizer = scorer._tokenizer
    assert tokenizer.model_max_length == scorer._core.model.tokenizer.limit
    before = scorer.score(CANDS, REFS)[2]
    tokenizer.model_max_length = 3
    assert scorer._tokenizer.model_max_length != 3
    assert scorer.score(CANDS, REFS)[2].tolist() == before.tolist()
    with pytest.raises(AttributeError):
        scorer._tokenizer = tokenizer  # type: ignore[misc]


def test_calls_of_the_hub_module() -> None:
    """What evaluate's own `bertscore` does with bert_score works, and its second corpus has its own idf."""
    get_hash = functools.partial(bert_score.utils.get_hash, use_fast_tokenizer=False)
    make = functools.partial(bert_score.BERTScorer, use_fast_tokenizer=False)
    cached = None
    cands = [*CANDS, "hello there", "is it?"]
    for refs in ([*REFS, "hello", "it is"], ["I love it!", "the cat", "no", "a cat was here"]):
        code = get_hash(model=BERT, num_layers=2, idf=True, rescale_with_baseline=False, use_custom_baseline=False)
        if cached is None or cached.hash != code:
            cached = make(
                model_type=BERT, num_layers=2, batch_size=64, nthreads=4, all_layers=False, idf=True, idf_sents=refs,
                device=None, lang=None, rescale_with_baseline=False, baseline_path=None,
            )  # fmt: skip
        scores = cached.score(cands=cands, refs=[[ref] for ref in refs], verbose=False, batch_size=64)
        wanted = score(cands, refs, BERT, num_layers=2, idf=True).f1
        assert scores[2].tolist() == pytest.approx(wanted.tolist(), abs=TOLERANCE)


DEEPEVAL = f"""
{REPLACED}
import functools, json
inner = bertscore_metric.compat.BERTScorer
bertscore_metric.compat.BERTScorer = functools.partial(inner, num_layers=2, baseline_path={BASELINE!r})  # tiny model
from deepeval.scorer import Scorer
found = Scorer.bert_score({REFS!r}, {CANDS!r}, model={BERT!r}, lang="en")
print(json.dumps(found["bert-f1"]))
"""
UNITXT = f"""
{REPLACED}
import json
from unitxt.metrics import BertScore
metric = BertScore(model_name={BERT!r}, model_layer=2, device="cpu")
metric._requirements_list = []
rows = [(c, [r], {{}}) for c, r in zip({CANDS!r}, {REFS!r})]
print(json.dumps([row["f1"] for row in metric.map_stream(iter(rows))]))
"""
LIGHTEVAL = f"""
import functools, json
import bertscore_metric.compat as bert_score
from lighteval.metrics import metrics_sample
from lighteval.models.model_output import ModelResponse
from lighteval.tasks.requests import Doc
metrics_sample.BERTScorer = bert_score.BERTScorer  # the one line
metric = metrics_sample.BertScore()
metric.bert_scorer = metrics_sample.BERTScorer(model_type={BERT!r}, num_layers=2)  # else it takes deberta-large-mnli
rows = []
for cand, ref in zip({CANDS!r}, {REFS!r}):
    doc = Doc(query="", choices=[ref], gold_index=0)
    rows.append(metric.compute(doc, ModelResponse(text=[cand]))["BERTScore-F"])
print(json.dumps(rows))
"""
LM_EVAL = f"""
{REPLACED}
import json
from lm_eval.tasks.cnn_dailymail import utils
inner, tiny = utils.bert_score, dict(model_type={BERT!r}, num_layers=2)
utils.bert_score = lambda cands, refs, **given: inner(cands, refs, **{{**given, **tiny}})  # else distilbert
print(json.dumps([utils.calculate_bertscore([c], [r])["bertscore_f1"] for c, r in zip({CANDS!r}, {REFS!r})]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("package", "code", "settings"),
    [
        ("deepeval", DEEPEVAL, {"rescale_with_baseline": True, "baseline_path": BASELINE, "lang": "en"}),
        ("unitxt", UNITXT, {}),
        ("lighteval", LIGHTEVAL, {}),
        ("lm-eval", LM_EVAL, {}),
    ],
)
def test_clients(package: str, code: str, settings: dict[str, object], tmp_path: Path) -> None:
    """The program itself, installed in an environment of its own, gives this package's numbers after its one line."""
    found = json.loads(run(environment(package, tmp_path / "env"), code, tmp_path))
    wanted = score(CANDS, REFS, BERT, num_layers=2, **settings).f1
    assert found == pytest.approx(wanted.tolist(), abs=TOLERANCE)
