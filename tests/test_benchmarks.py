"""The benchmarks: what they count, what they write, and that they run. Nothing is timed here."""

import json
import sys
from pathlib import Path

import pytest
import torch
from conftest import MODELS, TESTS
from torch.utils.flop_counter import FlopCounterMode
from transformers import BertConfig, BertModel

sys.path.append(str(TESTS.parent))  # the benchmarks are run from there

from tests.benchmarks import gpu
from tests.benchmarks.flops import encoder_flops
from tests.benchmarks.pairwise import plain_matching
from tests.benchmarks.report import Section, Target, markdown, number, write
from tests.benchmarks.rounds import Rounds, in_turn
from tests.benchmarks.texts import distinct_pairs


@pytest.mark.parametrize("lengths", [[7], [3, 12, 1]])
def test_operations_of_a_bert(lengths: list[int]) -> None:
    """The operations that count as useful are those that torch counts for texts without padding."""
    config = BertConfig(
        vocab_size=20, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=48,
        attn_implementation="eager",
    )  # fmt: skip
    model = BertModel(config, add_pooling_layer=False).eval()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        for length in lengths:
            model(torch.arange(length)[None])
    assert encoder_flops(torch.tensor(lengths), 32, 48, 3) == counter.get_total_flops()


def test_rounds_are_in_turn() -> None:
    """Each runs once a round, after what is called between rounds, and ratios are those within a round."""
    said: list[str] = []
    rounds = in_turn({"a": lambda: said.append("a") or 1, "b": lambda: said.append("b")}, 2, lambda: said.append("-"))
    assert "".join(said) == "-ab-ab"
    assert rounds.results["a"] == 1
    rounds = Rounds({"slow": [2.0, 30.0, 8.0], "fast": [1.0, 10.0, 1.0]}, {})
    assert rounds.ratio("slow", "fast") == 3
    assert rounds.median("slow") == 8
    assert rounds.ratio("absent", "fast") is None


def test_distinct_pairs() -> None:
    """No text occurs twice, also where there are more pairs than texts."""
    candidates, references, _ = distinct_pairs(3100)
    assert len(set(candidates[2998:])) == len(set(references[2998:])) == 102
    assert len(candidates) == len(references) == 3100


def test_plain_matching() -> None:
    """The least that matching can be gives the best cosines, and padding gives none."""
    vectors = torch.nn.functional.normalize(torch.randn(3, 4, 8, generator=torch.Generator().manual_seed(0)), dim=-1)
    mask = torch.arange(4)[None] < torch.tensor([4, 2, 3])[:, None]
    candidate_best, reference_best = plain_matching(vectors, mask)
    cosines = vectors[0] @ vectors[1, :2].T
    torch.testing.assert_close(candidate_best[0, :, 1], cosines.amax(1))
    torch.testing.assert_close(reference_best[0, 1, :2], cosines.amax(0))


def test_targets() -> None:
    """A bound is kept from its own side, and what was not measured is neither kept nor missed."""
    assert Target("w", "f", 2.0, 2.0).met
    assert not Target("w", "f", 2.0, 1.9).met
    assert Target("w", "f", 2.0, 1.9, at_least=False).met
    assert not Target("w", "f", 2.0, 2.1, at_least=False).met
    assert Target("w", "f", 2.0, None).met is None
    assert Target("w", "f", 2.0, float("nan")).met is None


@pytest.mark.parametrize(
    ("value", "cell"),
    [(None, ""), (1234, "1,234"), (1234.5, "1,234"), (0.5, "0.5"), (3.4567, "3.46"), (1e-5, "1.0e-05"), (0.0, "0"),
     ("text", "text"), (True, "True")],
)  # fmt: skip
def test_cells(value: object, cell: str) -> None:
    """Numbers are short, and nothing is an empty cell."""
    assert number(value) == cell


def rows() -> list[dict[str, object]]:
    """Return a table as the sections make it."""
    return [
        {
            "package": "bertscore_metric",
            "settings": "float32",
            "pairs": 8,
            "seconds": 1.5,
            "empty": None,
            "rounds": [1.4, 1.5, 1.6],
        },
        {"package": "bert_score", "settings": "float32", "pairs": 8, "seconds": 3.0, "ratio": 2.0},
    ]


def test_markdown() -> None:
    """Targets stand beside what was reached, a table has every row's columns, and rounds are left out."""
    text = markdown(
        {"threads": 2}, {"passes": Section("a pass", rows(), [Target("pass", "times", 1.35, 2.0)], ["Note."])}
    )
    assert "| pass | times | >= 1.35 | 2 | yes |" in text
    assert "| package | settings | pairs | seconds | ratio |" in text
    assert "| bertscore_metric | float32 | 8 | 1.5 |  |" in text
    assert "Note." in text
    assert "threads 2" in text


def test_what_is_written(tmp_path: Path) -> None:
    """Results are JSON with every round, a table, and a picture of each kind that the sections are enough for."""
    costs = [{"pairs": n, "microseconds a token": 30.0, "peak MB": 600.0} for n in (10, 100)]
    sections = {"passes": Section("a pass", rows(), [Target("pass", "times", 1.35, 1.0)])}
    write(tmp_path, {"threads": 2}, sections)
    assert {file.name for file in tmp_path.iterdir()} == {"results.json", "results.md", "seconds.png"}
    write(tmp_path, {"threads": 2}, {**sections, "curve": Section("a curve", costs)})
    found = json.loads((tmp_path / "results.json").read_text())
    assert found["sections"]["passes"]["rows"][0]["rounds"] == [1.4, 1.5, 1.6]
    assert found["sections"]["passes"]["targets"][0]["met"] is False
    for name in ("seconds.png", "costs.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def run_gpu(folder: Path, *more: str) -> int:
    """Run the GPU's benchmark in miniature on the CPU."""
    return gpu.main([
        "--device", "cpu", "--quick", "--no-compile", "--model", str(MODELS / "bert"), "--layer", "2",
        "--output", str(folder), *more,
    ])  # fmt: skip


@pytest.mark.filterwarnings("ignore")  # bert_score's
def test_gpu_benchmark_in_miniature(tmp_path: Path) -> None:
    """Every part runs, is right within its bound, and says what it took."""
    assert run_gpu(tmp_path) == 0
    sections = json.loads((tmp_path / "results.json").read_text())["sections"]
    assert [target["met"] for target in sections["correctness"]["targets"]] == [True] * 4
    speed = {(row["package"], row["settings"]): row for row in sections["speed"]["rows"]}
    assert {settings for _, settings in speed} == {"float32", "tf32", "bfloat16", "float16"}
    row = speed["bertscore_metric", "float32"]
    assert row["hours for 100 M pairs"] == pytest.approx(1e8 / row["pairs/s"] / 3600)
    assert row["share of it"] == pytest.approx(row["TFLOP/s"] / row["matrix rate"])


def test_gpu_benchmark_without_time(tmp_path: Path) -> None:
    """What there is no time for is counted and said, and what was found before is kept."""
    assert run_gpu(tmp_path, "--seconds", "0") == 9
    rows = json.loads((tmp_path / "results.json").read_text())["sections"]["correctness"]["rows"]
    assert {row["note"] for row in rows} == {"OutOfTimeError: not done in the 0 s that were left for it"}


def test_gpu_benchmark_without_a_gpu() -> None:
    """Where there is no GPU it says so, and what can be done."""
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(SystemExit, match=r"torch sees no GPU here\. `--device cpu --quick` shows in miniature"):
        gpu.main([])
    with pytest.raises(SystemExit, match=r"No model folder '\./nowhere'"):
        gpu.main(["--device", "cpu", "--model", "./nowhere"])
