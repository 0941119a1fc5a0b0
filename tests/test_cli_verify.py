"""`bertscore-metric verify`: a line a stage, the exit code, files of values, and a line for every mistake."""

import json
import shutil
import time
from pathlib import Path

import pytest
import torch
from conftest import model_path
from transformers import AutoModel
from write_records import RECORDS

from bertscore_metric import BERTScorer, cli, update
from bertscore_metric.analysis.verification import record

SAME = ["token ids: same", "weights: same", "embeddings: same", "matches: same", "idf: same", "scores: same"]
BERT = ["--model", model_path("bert"), "--num-layers", "2"]


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """Run `verify` in this process; return what it printed, or the error with exit code 2."""
    with pytest.raises(SystemExit) as stop:
        cli.main(["verify", *arguments])
    output = capsys.readouterr()
    assert stop.value.code == code, output.err
    if code == 2:
        assert output.out == ""
        assert output.err.count("\n") == 1
        return output.err.removeprefix("bertscore-metric: error: ")
    return output.out


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder, as the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_embedded_model(capsys: pytest.CaptureFixture[str]) -> None:
    """Without arguments the embedded model is compared with the shipped values: a line a stage, and nothing else."""
    assert run(capsys).splitlines() == SAME


def test_record_and_verify(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--record` writes a file in which `verify FILE` finds model and settings; recording again writes the same."""
    said = run(capsys, *BERT, "--idf", "--record", "bert.json").splitlines()
    assert said[0].startswith("model:bert|layer:2|idf:corpus|")
    assert said[1:] == ["recorded: 61 pairs in bert.json"]
    assert run(capsys, "bert.json").splitlines() == SAME
    run(capsys, *BERT, "--idf", "--record", "again.json")
    assert (folder / "again.json").read_bytes() == (folder / "bert.json").read_bytes()


def test_shipped_file_under_its_own_settings(capsys: pytest.CaptureFixture[str]) -> None:
    """A file of the tests is verified where the model lies elsewhere: `--model` says where."""
    file = str(RECORDS / "roberta.json")
    assert run(capsys, file, "--model", model_path("roberta")).splitlines() == SAME


def test_changed_weights(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Weights that were trained since are a stage; the last line names the first stage that differs, and only it."""
    shutil.copytree(model_path("bert"), "mine")
    run(capsys, "--model", "mine", "--num-layers", "2", "--record", "mine.json")
    changed = AutoModel.from_pretrained("mine")
    with torch.no_grad():
        changed.encoder.layer[0].output.dense.weight.mul_(1.5)
    changed.save_pretrained("mine")
    lines = run(capsys, "mine.json", code=1).splitlines()
    assert [line.split(": ")[0] for line in lines[:6]] == [line.split(": ")[0] for line in SAME]
    assert lines[0] == SAME[0]
    assert lines[1].startswith("weights: differs by their hash: ")
    assert lines[2].startswith("embeddings: differs by up to ")
    assert lines[4] == SAME[4]
    assert lines[6:] == [
        "The first stage that differs is weights. Likely cause: other weights: the model's files were saved, trained "
        "or downloaded anew."
    ]


def test_broken_matching(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """With the embedded model a maximum that is clamped at 0 is seen at the matches; stages before are the same."""
    match = update.match_pairs
    monkeypatch.setattr(update, "match_pairs", lambda *texts: tuple(side.clamp(min=0) for side in match(*texts)))
    lines = run(capsys, code=1).splitlines()
    assert lines[:3] == SAME[:3]
    assert lines[3].startswith("matches: differs by up to 0.0411 in ")
    assert lines[4] == SAME[4]
    assert lines[6].startswith("The first stage that differs is matches. Likely cause: the best similarities ")


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    """`--json` has the stages, the first that differs and its cause, and whether all values are equal to the hash."""
    file = [str(RECORDS / "roberta.json"), "--model", model_path("roberta"), "--json"]
    data = json.loads(run(capsys, *file))
    assert [row["name"] for row in data["stages"]] == [line.split(": ")[0] for line in SAME]
    assert all(row["same"] and row["difference"] is None for row in data["stages"])
    assert (data["first"], data["cause"]) == (None, None)
    assert data["stages"][2]["exact"] is True
    data = json.loads(run(capsys, *file, "--num-layers", "3", code=1))
    assert (data["first"], data["cause"]) == ("embeddings", "another layer: 3 here, 2 recorded.")
    assert "|layer:3|" in data["signature"]
    assert "|layer:2|" in data["recorded"]


def test_settings_without_shipped_values(capsys: pytest.CaptureFixture[str]) -> None:
    """Where no values are shipped, the error says for what, what is shipped, and what to do."""
    said = run(capsys, "--model", "offline", "--num-layers", "5", code=2)
    assert said == (
        "No values are shipped for model:sentence-transformers/all-MiniLM-L6-v2|layer:5|idf:no|rescale:no|dtype:float32"
        "|special:match|empty:score; they are for model:sentence-transformers/all-MiniLM-L6-v2|layer:6 with default "
        "settings. Write your own with --record FILE, and check them later with verify FILE.\n"
    )
    for settings in (["--max-length", "100"], ["--idf"], ["--dtype", "bfloat16"]):
        assert run(capsys, "-m", "offline", *settings, code=2).startswith("No values are shipped for ")


def test_config(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The settings may come from a config; one that refuses long texts is checked with them cut."""
    (folder / "mine.yaml").write_text(f"model_name_or_path: {model_path('bert')}\nnum_layers: 1\nlong_text: error\n")
    run(capsys, "--config", "mine.yaml", "--record", "mine.json")
    assert run(capsys, "mine.json").splitlines() == SAME
    assert run(capsys, "--config", "offline").splitlines() == SAME


def test_idf_table_and_baseline(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A table is kept in the file; a baseline file is read again, and adds a stage."""
    (folder / "table.json").write_text('{"default": 2.0, "7": 0.5}')
    (folder / "baseline.csv").write_text("LAYER,P,R,F\n2,0.1,0.2,0.3\n")
    options = ["--idf-table", "table.json", "--baseline-path", "baseline.csv"]
    run(capsys, *BERT, *options, "--record", "bert.json")
    (folder / "table.json").unlink()
    assert run(capsys, "bert.json").splitlines() == [*SAME, "rescaled: same"]
    (folder / "baseline.csv").write_text("LAYER,P,R,F\n2,0.1,0.2,0.4\n")
    lines = run(capsys, "bert.json", code=1).splitlines()
    assert lines[:6] == SAME
    assert lines[6].startswith("rescaled: differs by up to ")
    assert lines[7].startswith("The first stage that differs is rescaled. Likely cause: another baseline: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing.json"], "No file 'nothing.json' with recorded values; `verify --record FILE` writes one."),
        (["text.txt"], "text.txt is not a file of `bertscore-metric verify --record`: Expecting value: "),
        (["bytes"], "bytes is not a file of `bertscore-metric verify --record`: 'utf-8' codec can't decode "),
        (["result.json"], "result.json is not a file of `bertscore-metric verify --record`: it does not say that "),
        (["later.json"], "later.json has the format 99, and this version reads formats up to 1; upgrade "),
        (["foreign.json"], "foreign.json: Unknown setting 'colour'. Known: "),
        (["nameless.json"], "nameless.json names no model; say with --model which one it is about."),
        (["moved.json"], "No model folder './elsewhere'. Give a folder with config.json, or a hub name."),
        (["a.json", "--record", "b.json"], "Give FILE to check it, or --record FILE to write one; not both."),
        (["a.json", "--config", "offline"], "FILE says the settings; drop --config, or drop FILE."),
        (["--record", "no/such.json"], "There is no folder 'no' to write such.json to."),
        (["--record", "text.txt", "--config", "text.txt"], "text.txt must hold settings as `name: value` lines, got "),
        (["--num-layers", "9"], "--num-layers 9, but sentence-transformers/all-MiniLM-L6-v2 has 6 layers (0 to 6)."),
    ],
)
def test_mistakes(folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    """What cannot be read, or makes no sense, is one line and exit code 2."""
    content = json.loads((RECORDS / "bert.json").read_text(encoding="utf-8"))
    (folder / "text.txt").write_text("a cat\n")
    (folder / "bytes").write_bytes(b"\xff\xfe\x00")
    (folder / "result.json").write_text('{"mean": {"f1": 1}}')
    (folder / "later.json").write_text(json.dumps({**content, "format": 99}))
    (folder / "foreign.json").write_text(json.dumps({**content, "settings": {"model_name_or_path": "x", "colour": 1}}))
    (folder / "nameless.json").write_text(json.dumps({**content, "settings": {}}))
    (folder / "moved.json").write_text(json.dumps({**content, "settings": {"model_name_or_path": "./elsewhere"}}))
    assert run(capsys, *arguments, code=2).startswith(message)


def test_no_word_of_the_pairs_in_the_output(capsys: pytest.CaptureFixture[str]) -> None:
    """`differs` occurs in lines of stages that differ, and in the one that names the first, and nowhere else."""
    file = [str(RECORDS / "bart.json"), "--model", model_path("bart"), "--num-layers", "1"]
    lines = run(capsys, *file, code=1).splitlines()
    for line in lines:
        name = line.split(":")[0]
        others = [one.split(":")[0] for one in SAME if one.split(":")[0] != name]
        if line.startswith("The first stage"):
            others = [one for one in others if one != "embeddings"]
        assert line == f"{name}: same" or not [one for one in others if one in line], line
    assert [line for line in lines if "differs" not in line] == [
        "token ids: same",
        "weights: same",
        "idf: same",
    ]


def test_seconds() -> None:
    """Recording costs a second or two of one core (counted without what else the machine does), beside the imports."""
    scorer = BERTScorer("offline")
    begin = time.process_time()
    record(scorer)
    assert time.process_time() - begin < 4
