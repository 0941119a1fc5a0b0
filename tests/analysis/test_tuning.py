"""Choosing a layer: the right correlations, the right layer, an honest interval, and errors that help."""

import csv
import json
from itertools import combinations
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import DATA, model_path, shared_scorer
from fakes import LayeredEncoder
from torch import Tensor

from bertscore_metric import TokenBatch, cli
from bertscore_metric.analysis.correlation import resampled_pearson
from bertscore_metric.analysis.tuning import SCORES, tune
from bertscore_metric.analysis.tuning_plot import plot_tuning
from bertscore_metric.models.source import load_tokenizer, resolve

CANDIDATES = [
    "the cat sat on the red table.", "Go", "a dog looked at two bananas", "I like lemons.", "the dogs go", "a red cat",
    "two lemons", "the table", "a dog and a cat",
]  # fmt: skip
REFERENCES = [
    "a cat was near the red table.", "Go go go.", "the dog", "I love lemons.", "a dog walked", "a red cat.",
    "bananas", "a red table", "cats and dogs",
]  # fmt: skip
HUMAN = [4, 3.5, 1, 5, 2, 5, 0.5, 3, 4]
GROUPS = ["b", "b", "a", "b", "a", "a", "a", "b", "a"]


def pearson(x: list[float], y: list[float]) -> float:
    """Return Pearson's r from its definition."""
    mx, my = sum(x) / len(x), sum(y) / len(y)
    covariance = sum((a - mx) * (b - my) for a, b in zip(x, y, strict=True))
    return covariance / sqrt(sum((a - mx) ** 2 for a in x) * sum((b - my) ** 2 for b in y))


def ranks(x: list[float]) -> list[float]:
    """Return ranks, equal values sharing the mean of theirs."""
    return [sum(b < a for b in x) + (sum(b == a for b in x) - 1) / 2 for a in x]


def kendall(x: list[float], y: list[float]) -> float:
    """Return tau-b from its definition."""
    pairs = [(np.sign(a - c), np.sign(b - d)) for (a, b), (c, d) in combinations(zip(x, y, strict=True), 2)]
    agreement = sum(s * t for s, t in pairs)
    return float(agreement / sqrt(sum(s != 0 for s, _ in pairs) * sum(t != 0 for _, t in pairs)))


def accuracy(x: list[float], y: list[float]) -> float:
    """Return the pairwise accuracy with ties calibrated, from its definition: every threshold is tried."""
    pairs = [(a - c, b - d) for (a, b), (c, d) in combinations(zip(x, y, strict=True), 2)]
    right = [sum((abs(s) <= limit and t == 0) or (abs(s) > limit and s * t > 0) for s, t in pairs)
             for limit in (0, *(abs(s) for s, _ in pairs))]  # fmt: skip
    return max(right) / len(pairs)


def expected(scores: list[float], groups: list[str]) -> list[float]:
    """Return the three correlations and the pairwise accuracy with `HUMAN`, mean over groups."""
    found = []
    for group in set(groups):
        x, y = ([v[n] for n in range(len(groups)) if groups[n] == group] for v in (scores, HUMAN))
        found.append([pearson(x, y), pearson(ranks(x), ranks(y)), kendall(x, y), accuracy(x, y)])
    return [sum(values) / len(found) for values in zip(*found, strict=True)]


@pytest.mark.parametrize("groups", [None, GROUPS], ids=["one group", "two groups"])
@pytest.mark.parametrize("name", ["bert", "t5"])
def test_correlations(name: str, groups: list[str] | None) -> None:
    """Every number is the correlation, by definition, of what `score` gives at that layer; the best F1 wins."""
    result = tune(CANDIDATES, REFERENCES, HUMAN, model_path(name), groups=groups, resamples=20)
    for weighting, idf in enumerate((False, True)):
        for layer in range(5):
            cut = shared_scorer(name, num_layers=layer, idf=idf).score(CANDIDATES, REFERENCES)
            for number, column in enumerate(cut):
                torch.testing.assert_close(result.scores[weighting, layer, number], column, atol=1e-6, rtol=0)
                wanted = expected(column.double().tolist(), groups or [""] * 9)
                assert result.correlations[weighting, layer, number].tolist() == pytest.approx(wanted, abs=1e-4)
        by_layer = result.correlations[weighting, :, SCORES.index("f1"), 0]
        best = result.best[weighting]
        assert best.layer == int(by_layer.argmax())
        assert best.correlation == float(by_layer.max())
        assert sum(best.times_best) == pytest.approx(1)
    assert result.groups == (("b", "a") if groups else ("",))
    assert (result.signature["layer"], result.signature["idf"]) == ("all", "both")


def test_several_references() -> None:
    """A candidate may have several references, as in `score`."""
    groups = [[first, second] for first, second in zip(REFERENCES, CANDIDATES[::-1], strict=True)]
    result = tune(CANDIDATES, groups, HUMAN, model_path("bert"), resamples=2)
    cut = shared_scorer("bert", num_layers=3).score(CANDIDATES, groups)
    torch.testing.assert_close(result.scores[0, 3, 2], cut.f1, atol=1e-6, rtol=0)


def test_texts_are_embedded_once() -> None:
    """Each distinct text is embedded once, for all layers and both weightings."""
    encoder = LayeredEncoder(vocabulary=30522)
    tokenizer = load_tokenizer(resolve("offline"))
    tune(CANDIDATES, REFERENCES, HUMAN, encoder=encoder, tokenizer=tokenizer, resamples=2)
    assert encoder.n_texts == len({*CANDIDATES, *REFERENCES})


def test_bootstrap_interval() -> None:
    """For normal data the resamples spread as theory says: standard error (1 - r^2) / sqrt(n)."""
    random = np.random.default_rng(1)
    human = random.normal(size=600)
    scores = (0.8 * human + 0.6 * random.normal(size=600))[None]
    r = float(np.corrcoef(scores[0], human)[0, 1])
    drawn = resampled_pearson(scores, human, [np.arange(600)], resamples=1000, seed=0)
    assert drawn.std() == pytest.approx((1 - r**2) / sqrt(600), rel=0.15)
    assert drawn.mean() == pytest.approx(r, abs=0.005)


def test_bootstrap_stays_within_groups() -> None:
    """Each resample has every group in it: one that agrees and one that contradicts give 0 every time."""
    human = np.arange(20.0)
    scores = np.concatenate([human[:10], 100 - human[10:]])[None]
    members = [np.arange(10), np.arange(10, 20)]
    drawn = resampled_pearson(scores, human, members, resamples=60, seed=0)
    assert drawn == pytest.approx(np.zeros((1, 60)), abs=1e-9)


def test_seed() -> None:
    """Equal seeds give equal intervals, other seeds others; the correlations do not depend on it."""
    one, same, other = (
        tune(CANDIDATES, REFERENCES, HUMAN, model_path("bert"), resamples=50, seed=seed) for seed in (0, 0, 1)
    )
    assert one.best == same.best
    assert one.best[0].low != other.best[0].low
    assert torch.equal(one.by_group, other.by_group)


class FlatBelow(LayeredEncoder):
    """Its layer 0 is the same everywhere, so that every score there is 1 and correlates with nothing."""

    def embed(self, tokens: TokenBatch) -> Tensor:
        """Return [layer, text, token, dim]."""
        layers = super().embed(tokens)
        layers[0] = 1
        return layers


def test_constant_scores() -> None:
    """A layer without a correlation is never the best, NaN in the result and null in JSON."""
    tokenizer = load_tokenizer(resolve("offline"))
    result = tune(CANDIDATES, REFERENCES, HUMAN, encoder=FlatBelow(30522), tokenizer=tokenizer, resamples=20)
    assert bool(result.correlations[:, 0].isnan().all())
    assert result.best[0].layer > 0
    assert result.best[0].times_best[0] == 0
    assert json.loads(result.to_json())["layers"][0]["f1"]["pearson"] == {"mean": None}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"human": HUMAN[:-1]}, "There are 9 candidates, but 8 judgements; each candidate needs one."),
        ({"groups": GROUPS[:-1]}, "There are 9 candidates, but 8 groups; each candidate needs one."),
        ({"human": [*HUMAN[:-1], float("nan")]}, "Judgements must be finite numbers; the one at index 8 is nan."),
        ({"groups": ["a"] * 7 + ["b"] * 2}, "Group 'b' has 2 segments; a correlation needs at least 3."),
        ({"human": [1] * 9}, "The data has the same judgement, 1.0, everywhere; nothing correlates."),
        ({"candidates": [""] * 9}, "Every layer gives all segments of a group the same score; nothing correlates."),
        ({"resamples": 0}, "resamples must be at least 1, got 0."),
        ({"num_layers": 2}, r"num_layers= is not for tune\(\), which compares all layers, with and without idf."),
        ({"idf": True}, r"idf= is not for tune\(\)"),
        ({"candidates": []}, "different lengths|The data has 0 segments|9 references|0 candidates"),
    ],
)
@pytest.mark.filterwarnings("ignore::bertscore_metric.BERTScoreWarning")
def test_errors(change: dict[str, Any], message: str) -> None:
    """What is wrong is said with what is allowed."""
    arguments: dict[str, Any] = {"candidates": CANDIDATES, "references": REFERENCES, "human": HUMAN, "resamples": 5}
    with pytest.raises((TypeError, ValueError), match=message):
        tune(**{**arguments, "model_name_or_path": model_path("bert"), **change})


def test_plot(tmp_path: Path) -> None:
    """The picture has the format of its suffix; a suffix that is none is an error."""
    result = tune(CANDIDATES, REFERENCES, HUMAN, model_path("bert"), resamples=5)
    plot_tuning(result, tmp_path / "out.png")
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")
    plot_tuning(result, tmp_path / "out.svg")
    assert "<svg" in (tmp_path / "out.svg").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="xyz"):
        plot_tuning(result, tmp_path / "out.xyz")


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[str, str]:
    """Run the command line in this process and return stdout and stderr."""
    with pytest.raises(SystemExit) as stop:
        cli.main([*arguments])
    output = capsys.readouterr()
    assert stop.value.code == code, output.err
    return output.out, output.err


def write(path: Path, names: tuple[str, str, str, str]) -> str:
    """Write the texts with their judgements and groups as a table under the given column names."""
    rows = list(zip(CANDIDATES, REFERENCES, HUMAN, GROUPS, strict=True))
    with path.open("w", encoding="utf-8", newline="") as file:
        if path.suffix == ".jsonl":
            file.writelines(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)
        else:
            writer = csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",")
            writer.writerows([names, *rows])
    return str(path)


@pytest.mark.parametrize("suffix", ["tsv", "csv", "jsonl"])
def test_command_json(tmp_path: Path, capsys: pytest.CaptureFixture[str], suffix: str) -> None:
    """The command gives the function's result, from any kind of table, with default names of columns or others."""
    options = ["-m", model_path("bert"), "--resamples", "30", "--seed", "3", "--json"]
    result = tune(CANDIDATES, REFERENCES, HUMAN, model_path("bert"), groups=GROUPS, resamples=30, seed=3)
    usual = write(tmp_path / f"usual.{suffix}", ("candidate", "reference", "score", "group"))
    out, err = run(capsys, "tune", "--data", usual, *options)
    assert json.loads(out) == result.to_dict()
    assert err == ""  # no progress bar, for this is no terminal
    other = write(tmp_path / f"other.{suffix}", ("hyp", "ref", "human", "lp"))
    columns = ["--candidate-column", "hyp", "--reference-column", "ref", "--score-column", "human"]
    out, _ = run(capsys, "tune", "--data", other, *columns, "--group-column", "lp", *options)
    assert json.loads(out) == result.to_dict()
    out, _ = run(capsys, "tune", "--data", other, *columns, *options)
    assert json.loads(out)["groups"] == [""]


def test_command_table(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The table has a line a layer with what the result holds; `--output` writes it; a terminal gets a progress bar."""
    data = write(tmp_path / "data.tsv", ("candidate", "reference", "score", "group"))
    options = ["--data", data, "-m", model_path("bert"), "--resamples", "30"]
    out, _ = run(capsys, "tune", *options)
    result = tune(CANDIDATES, REFERENCES, HUMAN, model_path("bert"), groups=GROUPS, resamples=30)
    lines = out.splitlines()
    assert (lines[0], lines[-1]) == (
        "Correlation with human scores: 9 segments, mean of 2 groups", str(result.signature)
    )  # fmt: skip
    for weighting, start in enumerate((5, 15)):
        for layer in range(5):
            cells = [f"{value:.4f}" for value in result.correlations[weighting, layer].flatten().tolist()]
            share = f"{result.best[weighting].times_best[layer]:.0%}"
            assert lines[start + layer].split() == [str(layer), f"{result.norms[layer]:.2f}", *cells, share]
        best = result.best[weighting]
        assert lines[start + 5].startswith(
            f"best: layer {best.layer}, F1 Pearson {best.correlation:.4f} (95 % interval"
        )
    picture, report = tmp_path / "out.png", tmp_path / "out.txt"
    assert run(capsys, "tune", *options, "--plot", str(picture), "-o", str(report)) == ("", "")
    assert report.read_text(encoding="utf-8") == out
    assert picture.stat().st_size > 1000
    for words, bar in (([], True), (["--quiet"], False)):
        monkeypatch.setattr("sys.stderr.isatty", lambda: True)
        assert ("18/18" in run(capsys, "tune", *options, *words)[1]) == bar


def test_the_table_comes_before_the_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A picture that cannot be drawn loses no numbers."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "data.tsv", ("candidate", "reference", "score", "group"))
    options = ["--data", "data.tsv", "-m", model_path("bert"), "--resamples", "2"]
    out, err = run(capsys, "tune", *options, "--plot", "p.doc", code=2)
    assert "best: layer" in out
    assert "Format 'doc' is not supported" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--score-column", "scor"],
            "data.tsv has no column 'scor' (--score-column); did you mean 'score'?",
        ),
        (
            ["--score-column", "candidate"],
            "line 2: column 'candidate' holds 'the cat sat on the red table.', not a fin",
        ),
        (["--group-column", "lp"], "data.tsv has no column 'lp'"),
        (["--reference-column", "ref"], "data.tsv has no column 'ref'"),
        (["--plot", "nowhere/out.png"], "There is no folder 'nowhere' to write out.png to"),
        (["--plot", ""], "--plot must name a file"),
        (["--output", "data.tsv"], "--output data.tsv would overwrite an input"),
        (["--data", "data.txt"], "Columns (score) are named in tables"),
        (["--data", "nothing.tsv"], "No file 'nothing.tsv'"),
        (["--resamples", "0"], "resamples must be at least 1, got 0."),
    ],
)
def test_command_mistakes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    """A user's mistake is one line that says what to do."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "data.tsv", ("candidate", "reference", "score", "group"))
    out, err = run(capsys, "tune", "--data", "data.tsv", "-m", model_path("bert"), *words, code=2)
    assert out == ""
    assert err.startswith("bertscore-metric: error: ")
    assert message in err


@pytest.mark.skipif(not DATA.is_dir(), reason="the human judgements are not here")
def test_human_judgements() -> None:
    """On judged translations, with the embedded model, the numbers are those of numpy on each layer's scores."""
    with (DATA / "human" / "wmt17_da_seg_to_en.tsv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    rows = [row for pair in ("de-en", "zh-en") for row in [row for row in rows if row["lp"] == pair][:40]]
    candidates, references, pairs = ([row[name] for row in rows] for name in ("hypothesis", "reference", "lp"))
    human = np.array([float(row["human_da_z"]) for row in rows])
    result = tune(candidates, references, human.tolist(), "offline", groups=pairs, resamples=100)
    for weighting, idf in enumerate((False, True)):
        f1 = shared_scorer("minilm", num_layers=6, idf=idf).score(candidates, references).f1.numpy()
        wanted = np.mean([np.corrcoef(f1[half], human[half])[0, 1] for half in (slice(0, 40), slice(40, 80))])
        assert float(result.correlations[weighting, 6, 2, 0]) == pytest.approx(wanted, abs=1e-5)
