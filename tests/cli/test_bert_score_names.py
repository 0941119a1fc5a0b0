"""What people type who come from bert-score: each of its options leads to ours, or says why there is none."""

import json
from pathlib import Path

import pytest
from conftest import TESTS, model_path

from bertscore_metric import cli

BERT, ROBERTA = model_path("bert"), model_path("roberta")
BASELINE = str(TESTS / "golden" / "baseline.csv")
TEXT = ["--text", "-c", "a cat", "-r", "the cat", "-m", BERT, "-l", "2"]


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """Run the command line in this process and return what it said."""
    with pytest.raises(SystemExit) as stop:
        cli.main([*arguments])
    output = capsys.readouterr()
    assert stop.value.code == code, output.err
    return output.err if code else output.out


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--num_layers", "Here it is --num-layers N (-l)."),
        ("--batch_size", "Here it is --batch-size N (-b)."),
        ("--baseline_path", "Here it is --rescale --baseline-path FILE."),
        ("--rescale_with_baseline", "Here it is --rescale."),
        ("--seg_level", "Here it is --segments (-s)."),
        ("--cand", "Here it is --candidates FILE (-c)."),
        ("--cands", "Here it is --candidates FILE (-c)."),
        ("--ref", "Here it is --references FILE ... (-r)."),
        ("--refs", "Here it is --references FILE ... (-r)."),
        ("--nthreads", "there is one tokenizer, with the ids of the slow one, and it uses all cores; leave it out."),
        ("--use_fast_tokenizer", "there is one tokenizer, with the ids of the slow one"),
        ("-v", "progress is shown on a terminal, and --quiet (-q) leaves it out."),
        ("--verbose", "progress is shown on a terminal"),
        ("--max_length", "Here it is --max-length."),
    ],
)
def test_options_of_bert_score(option: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An option that is spelled otherwise here is one line with the right one."""
    message = run(capsys, "score", option, "4", code=2)
    assert message.startswith(f"bertscore-metric: error: No such option: {option}")
    assert said in message
    assert message.count("\n") == 1


def test_other_unknown_options(capsys: pytest.CaptureFixture[str]) -> None:
    """What nobody has is said as before, and options without a command ask for it."""
    assert "No such option: --frobnicate" in run(capsys, "score", "--frobnicate", code=2)
    assert "Here it is" not in run(capsys, "models", "--num_layers", "4", code=2)
    message = run(capsys, "-r", "refs.txt", "-c", "hyps.txt", code=2)
    assert "Name the command first: bertscore-metric score -r ..." in message


@pytest.mark.parametrize("command", ["score", "explain"])
def test_baseline_path_asks_for_rescale(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A baseline without `--rescale` is an error, where bert_score ignores it; with it scores are rescaled."""
    message = run(capsys, command, *TEXT[command == "explain" :], "--baseline-path", BASELINE, code=2)
    assert "--baseline-path is only used with --rescale; set it, or drop the path." in message


def test_rescaled_with_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    """With both options the signature names the file's baseline."""
    assert "|rescale:no|" not in run(capsys, "score", *TEXT, "--rescale", "--baseline-path", BASELINE)
    assert "|rescale:no|" in run(capsys, "score", *TEXT)


@pytest.fixture
def judged(tmp_path: Path) -> Path:
    """Return a table of texts with human scores."""
    rows = [("a cat sat", "the cat sat", 3), ("hello", "hi there", 1), ("I like it", "I like it", 5), ("no", "go", 2)]
    lines = ["candidate\treference\tscore", *("\t".join(map(str, row)) for row in rows)]
    (tmp_path / "judged.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path / "judged.tsv"


def test_tune_several_models(judged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`-m A B` tunes both, and their best layers stand side by side; JSON has one object a model."""
    words = ["tune", "--data", str(judged), "--resamples", "20"]
    text = run(capsys, *words, "-m", BERT, ROBERTA)
    assert text.count("Correlation with human scores: 4 segments") == 2
    lines = [line for line in text.split("side by side")[1].splitlines() if not line.startswith("model:")]
    assert [line.split(", ")[0] for line in lines[1:]] == [BERT, BERT, ROBERTA, ROBERTA]
    models = json.loads(run(capsys, *words, "--json", "-m", BERT, "-m", ROBERTA))["models"]
    assert models[1] == json.loads(run(capsys, *words, "--json", "-m", ROBERTA))
    message = run(capsys, *words, "-m", BERT, ROBERTA, "--plot", "x.png", code=2)
    assert "--plot draws the layers of one model, and got 2; call it once for each." in message


def test_baselines_of_several_models(judged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`baseline -m A B` makes both, each with the values of a call of its own, and writes them into a folder."""
    folder = judged.parent / "made"
    words = ["baseline", "--texts", str(judged), "--column", "candidate"]
    message = run(capsys, *words, "-m", BERT, ROBERTA, "-o", str(folder), code=2)
    assert "--output of several models must be a folder that exists" in message
    folder.mkdir()
    text = run(capsys, *words, "-m", BERT, ROBERTA, "-o", str(folder))
    assert text.count("2 random pairs of 4 different texts") == 2
    assert len(list(folder.glob("*.csv"))) == 2
    run(capsys, *words, "-m", BERT, "-o", str(judged.parent / "one.csv"))
    (own,) = folder.glob("*_bert.csv")
    assert own.read_text(encoding="utf-8") == (judged.parent / "one.csv").read_text(encoding="utf-8")
    assert "A model is named twice." in run(capsys, *words, "-m", BERT, BERT, "-o", str(folder), code=2)


def test_one_model_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    """Where one model is meant, a second one is an error, not its silent replacement."""
    assert "unexpected extra argument" in run(capsys, "score", *TEXT[:-2], ROBERTA, code=2)
