"""bert_score's names and arguments on our core: its snippets run, with its numbers, and errors say what is wrong."""

import inspect
import pickle
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from conftest import MODELS, TESTS, model_path

import bertscore_metric
import bertscore_metric.compat as bert_score
from bertscore_metric import BERTScoreWarning, registry
from bertscore_metric.models import encoder, source

BASELINE = str(TESTS / "golden" / "baseline.csv")
CANDS = [
    "the cat sat on the mat .", "a quick brown fox", "hello there, general kenobi!", "New York is big", "I like it.",
    "The weather is nice today and we will go to the park to play football with friends.",
]  # fmt: skip
REFS = [
    "a cat was sitting on the mat .", "the fast brown fox jumped over the lazy dog", "hello there",
    "Los Angeles is bigger than New York", "I love it!", "It is sunny, so let's play soccer in the park.",
]  # fmt: skip
GROUPS = [[ref, "something else", REFS[0]][: 1 + index % 3] for index, ref in enumerate(REFS)]
RESCALED = {"rescale_with_baseline": True, "baseline_path": BASELINE, "lang": "en"}

# What people call, as bert_score 0.3.13 declares it.
SIGNATURES = {
    "score": "(cands, refs, model_type=None, num_layers=None, verbose=False, idf=False, device=None, batch_size=64, "
    "nthreads=4, all_layers=False, lang=None, return_hash=False, rescale_with_baseline=False, baseline_path=None, "
    "use_fast_tokenizer=False)",
    "plot_example": "(candidate, reference, model_type=None, num_layers=None, lang=None, rescale_with_baseline=False, "
    "baseline_path=None, use_fast_tokenizer=False, fname='')",
    "BERTScorer": "(model_type=None, num_layers=None, batch_size=64, nthreads=4, all_layers=False, idf=False, "
    "idf_sents=None, device=None, lang=None, rescale_with_baseline=False, baseline_path=None, "
    "use_fast_tokenizer=False)",
    "BERTScorer.score": "(self, cands, refs, verbose=False, batch_size=64, return_hash=False)",
    "BERTScorer.compute_idf": "(self, sents)",
    "BERTScorer.plot_example": "(self, candidate, reference, fname='')",
    "utils.get_idf_dict": "(arr, tokenizer, nthreads=4)",
}

# Snippets in the form of bert_score's README and example folder, with its import lines and arguments.
READ = """
with open("hyps.txt") as f:
    cands = [line.strip() for line in f]

with open("refs.txt") as f:
    refs = [line.strip() for line in f]
"""
SNIPPETS = {
    "hash": f"""
from bert_score import score
{READ}
(P, R, F), hashname = score(cands, refs, lang="en", return_hash=True)
print(f"{{hashname}}: P={{P.mean().item():.6f}} R={{R.mean().item():.6f}} F={{F.mean().item():.6f}}")
""",
    "histogram": f"""
import bert_score
bert_score.__version__
from bert_score import score
{READ}
P, R, F1 = score(cands, refs, lang='en', verbose=True)
print(f"System level F1 score: {{F1.mean():.3f}}")
import matplotlib.pyplot as plt
plt.hist(F1, bins=20)
P, R, F1 = score(cands, refs, lang='en', rescale_with_baseline=True)
""",
    "several references": """
from bert_score import score
cands = ['I like lemons.']
refs = [['I am proud of you.', 'I love lemons.', 'Go go go.']]
P_mul, R_mul, F = score(cands, refs, lang="en", rescale_with_baseline=True)
P_best, R_best, F_best = score(cands, [refs[0][1]], lang="en", rescale_with_baseline=True)
assert abs(F - F_best).max() < 1e-5
""",
    "scorer": f"""
from bert_score import BERTScorer
{READ}
scorer = BERTScorer(lang="en", rescale_with_baseline=True)
P, R, F = scorer.score(cands, refs)
scorer.plot_example(cands[0], refs[0])
""",
    "idf": f"""
import bert_score
{READ}
scorer = bert_score.BERTScorer(lang="en", idf=True, idf_sents=refs, batch_size=3)
(P, R, F), hash_code = scorer.score(cands, refs, return_hash=True)
""",
    "plot": f"""
from bert_score import plot_example, score
{READ}
F = score(cands, refs, lang="en")[2]
cand = cands[0]
ref = refs[0]
plot_example(cand, ref, lang="en")
plot_example(cand, ref, lang="en", rescale_with_baseline=True, fname="out.png")
""",
}


def original() -> ModuleType:
    """Return bert_score itself, or skip the test."""
    return pytest.importorskip("bert_score")


def declared(module: ModuleType, name: str) -> str:
    """Return the signature of a name without its annotations."""
    target: Any = module
    for part in name.removeprefix("utils.").split(".") if module is bert_score else name.split("."):
        target = getattr(target, part)
    signature = inspect.signature(target)
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))


@pytest.fixture
def pyplot() -> Iterator[Any]:
    """Yield pyplot with a backend that draws without a screen."""
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


@pytest.mark.parametrize("name", SIGNATURES)
def test_arguments(name: str) -> None:
    """Names, order and defaults of all arguments are bert_score's."""
    assert declared(bert_score, name) == SIGNATURES[name]


@pytest.mark.parametrize("name", SIGNATURES)
def test_arguments_are_still_those(name: str) -> None:
    """The list above says what the installed bert_score declares."""
    assert declared(original(), name) == SIGNATURES[name]


def test_tables() -> None:
    """Models and languages of bert_score's tables have its layers and models, and the tables are read-only."""
    utils = original().utils
    assert {name: bert_score.model2layers[name] for name in utils.model2layers} == utils.model2layers
    assert {lang: bert_score.lang2model[lang] for lang in utils.lang2model} == utils.lang2model
    with pytest.raises(TypeError, match="item assignment"):
        bert_score.model2layers["mine"] = 3  # type: ignore[index]
    assert bert_score.__version__ == bertscore_metric.__version__


@pytest.mark.usefixtures("pyplot")
@pytest.mark.parametrize("name", SNIPPETS)
def test_snippets(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code written for bert_score runs after changing the import (and, without a network, the model)."""
    monkeypatch.chdir(tmp_path)
    for file, texts in (("hyps.txt", CANDS), ("refs.txt", REFS)):
        Path(file).write_text("\n".join(texts) + "\n", encoding="utf-8")
    code = SNIPPETS[name].replace("from bert_score import", "from bertscore_metric.compat import")
    code = code.replace("import bert_score\n", "import bertscore_metric.compat as bert_score\n")
    code = code.replace("lang='en'", 'lang="en"').replace('lang="en"', 'lang="en", model_type="offline"')
    code = code.replace("rescale_with_baseline=True", f"rescale_with_baseline=True, baseline_path={BASELINE!r}")
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["F1" if "F1" in names else "F"].shape == (len(names["cands"]),)
    assert Path("out.png").exists() == (name == "plot")


CASES: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "plain": (REFS, {}),
    "idf": (REFS, {"idf": True}),
    "several references": (GROUPS, {}),
    "several references, idf": (GROUPS, {"idf": True}),
    "all layers": (REFS, {"all_layers": True}),
    "rescaled": (REFS, RESCALED),
    "rescaled, all layers": (REFS, {"all_layers": True, **RESCALED}),
    "idf, rescaled": (GROUPS, {"idf": True, **RESCALED}),
}


@pytest.mark.parametrize("case", CASES)
def test_equals_core(case: str) -> None:
    """Results are plain tuples with exactly the core's numbers, also with arguments that have no effect."""
    refs, settings = CASES[case]
    layer = {} if "all_layers" in settings else {"num_layers": 5}
    expected = bertscore_metric.score(CANDS, refs, "offline", **layer, **settings)
    scores, code = bert_score.score(
        CANDS, refs, "offline", 5, return_hash=True, nthreads=0, use_fast_tokenizer=True, **settings
    )
    assert type(scores) is tuple
    assert all(torch.equal(mine, core) for mine, core in zip(scores, expected, strict=True))
    assert code == str(expected.signature)


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")  # bert_score's
@pytest.mark.parametrize("case", CASES)
def test_equals_bert_score(case: str) -> None:
    """Both packages give the same numbers to 1e-5."""
    refs, settings = CASES[case]
    model = source.resolve("offline").location
    expected = original().score(CANDS, refs, model, 5, nthreads=0, **settings)
    scores = bert_score.score(CANDS, refs, model, 5, **settings)
    torch.testing.assert_close(torch.stack(scores), torch.stack(expected), atol=1e-5, rtol=0)


def test_idf_dict() -> None:
    """`get_idf_dict` gives bert_score's weights, which both packages take as `idf`."""
    utils, model = original().utils, source.resolve("offline").location
    tokenizer = utils.get_tokenizer(model)
    expected = utils.get_idf_dict(REFS, tokenizer, nthreads=0)
    weights = bert_score.get_idf_dict(REFS, tokenizer, nthreads=0)
    assert weights == pytest.approx(expected)
    assert weights[30000] == pytest.approx(expected[30000])
    theirs = torch.stack(original().score(CANDS, REFS, model, 5, idf=expected))
    for scores in (
        bert_score.score(CANDS, REFS, model, 5, idf=weights),
        bert_score.BERTScorer(model, 5, idf=weights).score(CANDS, REFS),
        bert_score.score(CANDS, REFS, model, 5, idf=True),
    ):
        torch.testing.assert_close(torch.stack(scores), theirs, atol=1e-5, rtol=0)


def test_idf_dict_puts_the_space_in_front() -> None:
    """The ids that `get_idf_dict` weighs are those that are scored, also for models that get a space in front."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model_path("roberta"))
    weights = bert_score.get_idf_dict(REFS, tokenizer)
    counted = bert_score.score(CANDS, REFS, model_path("roberta"), 2, idf=True)
    assert all(map(torch.equal, bert_score.score(CANDS, REFS, model_path("roberta"), 2, idf=weights), counted))
    tokenizer.name_or_path = ""
    with pytest.raises(ValueError, match="needs a tokenizer whose name_or_path names its model"):
        bert_score.get_idf_dict(REFS, tokenizer)


@pytest.mark.parametrize("idf", [None, False, {}])
def test_nothing_means_no_idf(idf: Any) -> None:
    """What is false in bert_score's eyes is no idf."""
    plain = bert_score.score(CANDS, REFS, "offline")
    assert all(map(torch.equal, bert_score.score(CANDS, REFS, "offline", idf=idf), plain))


def test_scorer_idf() -> None:
    """Weights come from `idf_sents` or `compute_idf`, are needed before scoring, and are replaced with a warning."""
    sents, model = REFS[:4], source.resolve("offline").location
    scorer = bert_score.BERTScorer(model, 5, idf=True)
    with pytest.raises(
        ValueError, match=r"IDF weights are not computed: call compute_idf\(sents\) first, or pass idf_"
    ):
        scorer.score(CANDS, REFS)
    scorer.compute_idf(CANDS)
    other, code = scorer.score(CANDS, REFS, return_hash=True)
    with pytest.warns(BERTScoreWarning, match="Overwriting the previous importance weights"):
        scorer.compute_idf(sents)
    scores = scorer.score(CANDS, REFS)
    assert not torch.equal(scores[0], other[0])
    assert code != scorer.hash == bert_score.BERTScorer(model, 5, idf=True, idf_sents=sents).hash
    theirs = original().BERTScorer(model, 5, nthreads=0, idf=True, idf_sents=sents).score(CANDS, REFS)
    torch.testing.assert_close(torch.stack(scores), torch.stack(theirs), atol=1e-5, rtol=0)


def test_scorer_ignores_idf_sents_without_idf() -> None:
    """As in bert_score, `idf_sents` alone does not switch idf on."""
    scorer = bert_score.BERTScorer("offline", idf_sents=REFS)
    assert all(map(torch.equal, scorer.score(CANDS, REFS), bert_score.score(CANDS, REFS, "offline")))


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")  # bert_score's
@pytest.mark.parametrize("all_layers", [False, True])
def test_properties(all_layers: bool) -> None:
    """A scorer's properties say what bert_score's say, but for the hash code, which is the signature."""
    model = source.resolve("offline").location
    settings = {"all_layers": all_layers, "use_fast_tokenizer": True, **RESCALED}
    mine, theirs = bert_score.BERTScorer(model, 5, **settings), original().BERTScorer(model, 5, **settings)
    for name in ("lang", "idf", "model_type", "num_layers", "rescale_with_baseline", "use_fast_tokenizer"):
        assert getattr(mine, name) == getattr(theirs, name)
    torch.testing.assert_close(mine.baseline_vals, theirs.baseline_vals)
    assert "rescale:no" not in mine.hash
    assert repr(mine) == str(mine) == f"BERTScorer(hash={mine.hash}, batch_size=64, nthreads=4)"
    assert bert_score.BERTScorer("offline").num_layers == 6


def test_batch_size_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches hold as many texts as `score` is told, else as the constructor was told, whatever the number is."""
    rows: list[int] = []
    embed = encoder.HuggingFaceEncoder.embed
    monkeypatch.setattr(
        encoder.HuggingFaceEncoder, "embed", lambda self, tokens: rows.append(len(tokens.ids)) or embed(self, tokens)
    )
    cands, refs = [f"a {n}" for n in range(10, 99)], ["a 9"] * 89
    scorer = bert_score.BERTScorer(model_path("bert"), 2, batch_size=3)
    for arguments, most in (({}, 3), ({"batch_size": 7}, 7), ({"batch_size": 64}, 64), ({}, 3)):
        rows.clear()
        scorer.score(cands, refs, **arguments)
        assert max(rows) == most
    for _ in range(2):  # a refused number is not remembered
        with pytest.raises(ValueError, match="batch_size must be at least 1, got 0"):
            scorer.score(cands, refs, batch_size=0)
    rows.clear()
    bert_score.score(cands, refs, model_path("bert"), 2, batch_size=5)
    assert max(rows) == 5


def test_loads_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A scorer loads its model once, whatever it is asked afterwards, and nothing is printed."""
    loaded = []
    load = encoder._load_model
    monkeypatch.setattr(encoder, "_load_model", lambda *arguments: loaded.append(1) or load(*arguments))
    scorer = bert_score.BERTScorer(model_path("bart"), 1, idf=True, idf_sents=REFS)
    scorer.score(CANDS, REFS, verbose=True)
    scorer.score(CANDS, REFS, batch_size=2)
    assert len(loaded) == 1
    printed = capsys.readouterr()
    assert (printed.out, "BERTScore" in printed.err) == ("", True)


def test_language_in_any_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A language chooses model and baseline however it is written."""
    folder = tmp_path / "distilbert-base-uncased"  # the tables know the name
    shutil.copytree(MODELS / "distilbert", folder)
    monkeypatch.setattr(registry, "known_languages", lambda: {"en": str(folder)})
    scorers = [bert_score.BERTScorer(None, 2, lang=lang, rescale_with_baseline=True) for lang in ("en", "EN")]
    assert [scorer.lang for scorer in scorers] == ["en", "EN"]
    assert scorers[0].model_type == scorers[1].model_type == str(folder)
    assert scorers[0].hash == scorers[1].hash
    assert all(map(torch.equal, scorers[0].score(CANDS, REFS), scorers[1].score(CANDS, REFS)))


def test_baseline_file_without_rescaling() -> None:
    """As in bert_score, a baseline file alone rescales nothing."""
    scores = bert_score.score(CANDS, REFS, "offline", baseline_path=BASELINE)
    assert all(map(torch.equal, scores, bert_score.score(CANDS, REFS, "offline")))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((CANDS, REFS), ValueError, "Either lang or model_type should be specified"),
        ((CANDS, REFS[1:], "offline"), ValueError, "cands and refs must have the same number .* 6 cands and 5 refs"),
        ((["a", None], ["a", "b"], "offline"), TypeError, r"cands\[1\] is None; every text must be a str"),
        ((["a"], [[]], "offline"), ValueError, r"refs\[0\] is an empty group"),
        ((CANDS, REFS, "offline", 7), ValueError, r"has 6 layers \(0 to 6\)"),
    ],
)
def test_errors(arguments: tuple[Any, ...], error: type[Exception], message: str) -> None:
    """Wrong input is an error in the words of the caller's arguments."""
    with pytest.raises(error, match=message):
        bert_score.score(*arguments)


def test_missing_baselines() -> None:
    """Where there is no baseline, rescaling is an error, and so is asking for its values."""
    with pytest.raises(ValueError, match="No baseline for sentence-transformers/all-MiniLM-L6-v2 in 'en'"):
        bert_score.score(CANDS, REFS, "offline", lang="en", rescale_with_baseline=True)
    with pytest.raises(ValueError, match="needs the language"):
        bert_score.score(CANDS, REFS, "offline", rescale_with_baseline=True)
    with pytest.raises(ValueError, match="No baseline for"):
        _ = bert_score.BERTScorer("offline", lang="en").baseline_vals


def test_plot(tmp_path: Path, pyplot: Any) -> None:
    """The picture has the candidate's tokens as rows and cosines in the cells; it is saved, returned and let go."""
    file = tmp_path / "out.png"
    scorer = bert_score.BERTScorer("offline", 5)
    figure = scorer.plot_example("two bananas", "There are two bananas on $5 or $6", str(file))
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["two", "bananas"]
    columns = [label.get_text() for label in axes.get_xticklabels()]
    assert columns == ["there", "are", "two", "bananas", "on", "$", "5", "or", "$", "6"]
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("Candidate (tokenized)", "Reference (tokenized)")
    cosines = torch.tensor(axes.images[0].get_array())
    assert cosines.argmax(1).tolist() == [2, 3]
    assert [text.get_text() for text in axes.texts] == [f"{value:.3f}" for value in cosines.flatten().tolist()]
    swapped = scorer.plot_example("There are two bananas on $5 or $6", "two bananas").axes[0].images[0].get_array()
    torch.testing.assert_close(torch.tensor(swapped).T, cosines)
    assert pyplot.imread(file).shape[2] == 4
    assert pyplot.get_fignums() == []
    pickle.dumps(figure)


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable", "ignore:__array__ implementation")  # its
def test_plot_equals_bert_score(pyplot: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cells hold what bert_score's hold, rescaled or not."""
    monkeypatch.setattr(pyplot, "show", lambda: None)
    model = source.resolve("offline").location
    for settings in ({}, RESCALED):
        original().plot_example(CANDS[0], REFS[0], model, 5, **settings)
        theirs = pyplot.gcf().axes[0]
        mine = bert_score.plot_example(CANDS[0], REFS[0], model, 5, **settings).axes[0]
        torch.testing.assert_close(
            torch.tensor(mine.images[0].get_array()), torch.tensor(theirs.images[0].get_array()), atol=1e-5, rtol=0
        )
        assert mine.get_title() == theirs.get_title()
        for axis in ("get_xticklabels", "get_yticklabels"):
            assert [t.get_text() for t in getattr(mine, axis)()] == [t.get_text() for t in getattr(theirs, axis)()]
        pyplot.close("all")


@pytest.mark.usefixtures("pyplot")
def test_plot_keeps_words_of_models_without_framing() -> None:
    """T5 has one special token, at the end, so no word is lost at the beginning."""
    axes = bert_score.plot_example("the cat", "the", model_path("t5"), 2).axes[0]
    scorer = bertscore_metric.BERTScorer(model_path("t5"), num_layers=2)
    ids = scorer.model.tokenizer(["the cat"]).ids.tolist()
    assert [label.get_text() for label in axes.get_yticklabels()] == scorer.model.tokenizer.tokens(ids[:-1])


@pytest.mark.usefixtures("pyplot")
def test_plot_errors() -> None:
    """What cannot be drawn is an error that says why."""
    scorer = bert_score.BERTScorer(model_path("bert"), 2)
    with pytest.raises(TypeError, match=r"candidate must be one text \(str\), got list"):
        scorer.plot_example(["a"], "a")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="reference has no tokens to show: ' '"):
        scorer.plot_example("a", " ")
    with pytest.raises(
        ValueError, match=r"plot_example shows one layer: use a BERTScorer with num_layers=\.\.\., with"
    ):
        bert_score.BERTScorer(model_path("bert"), all_layers=True).plot_example("a", "a")


def test_plot_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where matplotlib is missing, the error says how to install it."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'bertscore_metric\[plot\]'"):
        bert_score.plot_example("a", "a", model_path("bert"), 2)


def test_import_needs_no_matplotlib() -> None:
    """The module loads matplotlib only to draw."""
    code = "import sys, bertscore_metric.compat; assert not {'matplotlib', 'pandas'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
