"""Making a baseline: the right pairs and means, honest errors, and the way back through `--baseline-path`."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import TOLERANCE, model_path, shared_scorer

from bertscore_metric import BERTScorer, BERTScoreWarning, cli
from bertscore_metric.analysis import baseline as room
from bertscore_metric.analysis.baseline import draw_pairs, make_baseline
from bertscore_metric.core.baseline import read_baseline

WORDS = ("cat", "dog", "table", "lemon", "banana", "red", "two", "near", "walked", "sat", "go", "like")
TEXTS = [f"the {a} {b} {c}." for a in WORDS for b in WORDS[:4] for c in WORDS[4:6]]

pytestmark = pytest.mark.filterwarnings("ignore:The largest standard error:bertscore_metric.BERTScoreWarning")


def test_pairs_are_disjoint_and_seeded() -> None:
    """No text is in two pairs, blank ones and repetitions are left out, and the seed says which pairs there are."""
    first, second, n_texts = draw_pairs([*TEXTS, "", "  ", f" {TEXTS[0]} "], None, seed=0)
    assert n_texts == len(TEXTS) == 96
    assert sorted([*first, *second]) == sorted(TEXTS)
    assert len(first) == len(second) == 48
    assert draw_pairs(TEXTS, None, seed=0)[:2] == (first, second)
    assert draw_pairs(TEXTS, None, seed=1)[:2] != (first, second)
    few = draw_pairs(TEXTS, 5, seed=0)
    assert len({*few[0], *few[1]}) == 10


@pytest.mark.parametrize("name", ["bert", "t5", "gpt2"])
def test_values_and_errors(name: str) -> None:
    """The row of layer k is the mean of what `num_layers=k` scores, its error the deviation over the root of n."""
    made = make_baseline(TEXTS, model_path(name), seed=7)
    first, second, _ = draw_pairs(TEXTS, None, seed=7)
    for layer in range(5):
        columns = torch.stack(list(shared_scorer(name, num_layers=layer).score(first, second))).double().numpy()
        np.testing.assert_allclose(made.values[layer], columns.mean(1), atol=TOLERANCE)
        np.testing.assert_allclose(made.standard_errors[layer], columns.std(1, ddof=1) / np.sqrt(48), atol=TOLERANCE)
    assert made.largest_error == float(made.standard_errors.max())
    assert (made.n_pairs, made.signature["layer"], made.signature["idf"]) == (48, "all", "no")


def test_there_and_back(tmp_path: Path) -> None:
    """Rescaled with the file, the pairs it was made of have mean 0, and other random pairs nearly."""
    file = tmp_path / "out.csv"
    made = make_baseline(TEXTS[::2], model_path("bert"))
    file.write_text(made.to_csv(), encoding="utf-8")
    assert [list(row) for row in read_baseline(str(file)).values()] == [
        pytest.approx(row, abs=1e-8) for row in made.values.tolist()
    ]
    scorer = BERTScorer(model_path("bert"), num_layers=3, rescale_with_baseline=True, baseline_path=str(file))
    first, second, _ = draw_pairs(TEXTS[::2], None, seed=0)
    mean = scorer.score(first, second).mean
    assert [mean.precision, mean.recall, mean.f1] == pytest.approx([0, 0, 0], abs=1e-5)
    other = scorer.score(*draw_pairs(TEXTS[1::2], None, seed=1)[:2])
    room_for_chance = 5 * float(made.standard_errors[3, 2]) / (1 - float(made.values[3, 2]))
    assert abs(float(other.mean.f1)) < room_for_chance
    assert abs(float(other.raw.f1.mean())) > room_for_chance


def test_large_errors_are_said(monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder) -> None:
    """Above .002 a warning says how many pairs would do; below there is none."""
    monkeypatch.setattr(room, "LARGEST_ERROR", 1.0)
    made = make_baseline(TEXTS, model_path("bert"))
    assert not recwarn.list
    monkeypatch.setattr(room, "LARGEST_ERROR", made.largest_error / 2)
    with pytest.warns(
        BERTScoreWarning, match=r"largest standard error of this baseline is 0\.\d{5}, above .* 19[23] pairs"
    ):
        make_baseline(TEXTS, model_path("bert"))


@pytest.mark.parametrize(
    ("texts", "settings", "message"),
    [
        (
            TEXTS,
            {"pairs": 49},
            "49 pairs of 96 different texts .* of these texts there are 48 at most. Give more texts.",
        ),
        (TEXTS, {"pairs": 0}, "0 pairs of 96 different texts"),
        (["a", "b", "", "a"], {}, "1 pairs of 2 different texts .* a baseline needs at least 2 pairs"),
        (["a", 3], {}, r"texts\[1\]"),
        (TEXTS, {"idf": True}, r"idf= is not for make_baseline\(\), which scores all layers without idf."),
    ],
)
def test_errors(texts: list[Any], settings: dict[str, Any], message: str) -> None:
    """What is wrong is said with what is allowed."""
    with pytest.raises((TypeError, ValueError), match=message):
        make_baseline(texts, model_path("bert"), **settings)


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[str, str]:
    """Run the command line in this process and return stdout and stderr."""
    with pytest.raises(SystemExit) as stop:
        cli.main([*arguments])
    output = capsys.readouterr()
    assert stop.value.code == code, output.err
    return output.out, output.err


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The command writes the file, shows the errors, says when they are large, and `score` takes the file."""
    monkeypatch.chdir(tmp_path)
    Path("texts.txt").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    Path("texts.tsv").write_text("\n".join(["id\ttext", *(f"1\t{text}" for text in TEXTS)]) + "\n", encoding="utf-8")
    made = make_baseline(TEXTS, model_path("bert"), pairs=30, seed=2)
    options = ["-m", model_path("bert"), "--pairs", "30", "--seed", "2"]
    out, err = run(capsys, "baseline", "--texts", "texts.txt", *options, "-o", "out.csv")
    assert Path("out.csv").read_text(encoding="utf-8") == made.to_csv()
    lines = out.splitlines()
    assert (lines[0], lines[-1]) == ("30 random pairs of 96 different texts, seed 2", str(made.signature))
    for layer, line in enumerate(lines[2:-1]):
        values = zip(made.values[layer].tolist(), made.standard_errors[layer].tolist(), strict=True)
        assert line.split("  ")[-3:] == [f"{value:.6f} ± {error:.6f}" for value, error in values]
    assert err.startswith("bertscore-metric: The largest standard error of this baseline is ")
    assert err.count("\n") == 1
    out, err = run(capsys, "baseline", "--texts", "texts.tsv", "--column", "text", *options, "--json", "--quiet")
    assert json.loads(out) == made.to_dict()
    assert err == ""
    first, second, _ = draw_pairs(TEXTS, 30, seed=2)
    Path("c.txt").write_text("\n".join(first) + "\n", encoding="utf-8")
    Path("r.txt").write_text("\n".join(second) + "\n", encoding="utf-8")
    words = ["-c", "c.txt", "-r", "r.txt", "-m", model_path("bert"), "-l", "3", "--json"]
    out, _ = run(capsys, "score", *words, "--rescale", "--baseline-path", "out.csv")
    assert list(json.loads(out)["mean"].values()) == pytest.approx([0, 0, 0], abs=1e-5)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--texts", "texts.txt", "--pairs", "3"], "3 pairs of 4 different texts"),
        (["--texts", "texts.txt", "-o", "texts.txt"], "--output texts.txt would overwrite an input"),
        (["--texts", "nothing.txt"], "No file 'nothing.txt'"),
    ],
)
def test_command_mistakes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    """A user's mistake is one line that says what to do."""
    monkeypatch.chdir(tmp_path)
    Path("texts.txt").write_text("a cat\na dog\ntwo dogs\nred\n", encoding="utf-8")
    out, err = run(capsys, "baseline", "-m", model_path("bert"), *words, code=2)
    assert out == ""
    assert err.startswith("bertscore-metric: error: ")
    assert message in err
