"""Missing references of a group are left out of scores and idf, whichever door they come through."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import TOLERANCE, model_path, shared_scorer
from torch import Tensor

import bertscore_metric.compat as bert_score
from bertscore_metric import BERTScore, BERTScoreResult, cli
from bertscore_metric.adapters.evaluate import BERTScore as EvaluateBERTScore
from bertscore_metric.adapters.trainer import ComputeBERTScore

CANDIDATES = ["the cat sat on the red table.", "I like lemons.", "Go go go."]
WHOLE = [["a dog sat on the red table.", "the dog walked past"], ["I love lemons."], ["Go on.", "go go", "lemons"]]
GAPS: list[list[Any]] = [
    ["a dog sat on the red table.", None, "the dog walked past"],
    ["", "I love lemons.", math.nan],
    [None, "Go on.", " ", "go go", "lemons"],
]
NAMES = ("precision", "recall", "f1")


def expected(idf: bool = True) -> BERTScoreResult:
    """Return the scores of the references that are there."""
    return shared_scorer("bert", num_layers=2, idf=idf).score(CANDIDATES, WHOLE)


def same(found: Any, wanted: BERTScoreResult) -> None:
    """Compare P, R, F1."""
    columns = torch.stack([torch.as_tensor(column, dtype=torch.float32) for column in found])
    torch.testing.assert_close(columns, torch.stack(list(wanted)), atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("idf", [False, True])
def test_core(idf: bool) -> None:
    """The scores are those without the missing ones, and the best reference keeps the user's number."""
    result = shared_scorer("bert", num_layers=2, idf=idf).score(CANDIDATES, GAPS)
    wanted = expected(idf)
    same(result, wanted)
    there = [[0, 2], [1], [1, 3, 4]]
    best = [numbers[number] for numbers, number in zip(there, wanted.best_reference.tolist(), strict=True)]
    assert result.best_reference.tolist() == best
    assert (result.n_empty, result.unk_share) == (0, wanted.unk_share)


def test_text_without_a_token() -> None:
    """A text that the tokenizer leaves nothing of (a soft hyphen) is missing, too, and T5's `</s>` alone is no text."""
    for model, nothing in (("bert", "\N{SOFT HYPHEN}"), ("t5", " "), ("gpt2", "\n")):
        scorer = shared_scorer(model, num_layers=2, idf=True)
        same(scorer.score(CANDIDATES, [[*group, nothing] for group in WHOLE]), scorer.score(CANDIDATES, WHOLE))


@pytest.mark.filterwarnings("ignore::bertscore_metric.BERTScoreWarning")
def test_groups_without_text_count_as_before() -> None:
    """Where a group has no text at all, its blank ones score 0 and are documents."""
    scorer = shared_scorer("bert", num_layers=2, idf=True)
    blank, one = scorer.score(CANDIDATES, [["", " "], *WHOLE[1:]]), scorer.score(CANDIDATES, [[""], *WHOLE[1:]])
    assert blank.n_empty == one.n_empty == 1
    assert blank.f1[0] == one.f1[0] == 0
    flat = scorer.score([*CANDIDATES, CANDIDATES[0]], [["", "x"], *WHOLE[1:], [""]])
    assert flat.n_empty == 1
    assert not torch.equal(blank.f1[1:], one.f1[1:])  # two documents, and one


@pytest.mark.parametrize("split", [1, 3])
def test_torchmetrics(split: int) -> None:
    """The metric, in one update or several."""
    metric = BERTScore(model_path("bert"), num_layers=2, idf=True, reduction="none")
    for begin in range(0, 3, split):
        metric.update(CANDIDATES[begin : begin + split], GAPS[begin : begin + split])
    scores: dict[str, Tensor] = metric.compute()
    same([scores[name] for name in NAMES], expected())
    assert metric.best_reference.tolist() == expected_best()


def expected_best() -> list[int]:
    """Return the best references in the user's numbering."""
    return shared_scorer("bert", num_layers=2, idf=True).score(CANDIDATES, GAPS).best_reference.tolist()


def test_evaluate() -> None:
    """evaluate's metric, with references of its own and added one by one."""
    metric = EvaluateBERTScore(model_type=model_path("bert"), num_layers=2, idf=True, keep_in_memory=True)
    scores = metric.compute(predictions=CANDIDATES, references=GAPS)
    same([scores[name] for name in NAMES], expected())
    for candidate, group in zip(CANDIDATES, GAPS, strict=True):
        metric.add(prediction=candidate, reference=group)
    scores = metric.compute()
    same([scores[name] for name in NAMES], expected())


def test_trainer() -> None:
    """The Trainer's callback, whose references are checked before there are candidates."""

    class Words:
        """Decodes a row of one id to the candidate with that number."""

        def batch_decode(self, rows: list[list[int]], skip_special_tokens: bool) -> list[str]:
            return [CANDIDATES[row[0]] for row in rows]

    class Rows:
        """What a Trainer passes."""

        predictions = label_ids = torch.tensor([[0], [1], [2]])

    compute = ComputeBERTScore(
        Words(), model_name_or_path=model_path("bert"), num_layers=2, idf=True, references=GAPS, num_samples=3
    )
    found = compute(Rows())
    mean = expected().mean
    assert [found[f"bertscore_{name}"] for name in NAMES] == pytest.approx(
        [getattr(mean, name) for name in NAMES], abs=TOLERANCE
    )


def test_compat() -> None:
    """bert_score's names."""
    same(bert_score.score(CANDIDATES, GAPS, model_type=model_path("bert"), num_layers=2, idf=True), expected())


def test_explain() -> None:
    """The reference that is explained is never a missing one, and has the user's number."""
    scorer = shared_scorer("bert", num_layers=2)
    for by in NAMES:
        assert scorer.explain("Go go go.", ["", None, "lemons"], by=by).reference_number == 2  # type: ignore[list-item, arg-type]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[list[float]]:
    """Score files with the command and return P, R, F1."""
    command = ["score", *arguments, "--model", model_path("bert"), "--num-layers", "2", "--idf", "--json", "--segments"]
    with pytest.raises(SystemExit) as stop:
        cli.main(command)
    output = capsys.readouterr()
    assert stop.value.code == 0, output.err
    segments = json.loads(output.out)["segments"]
    return [[segment[name] for segment in segments] for name in NAMES]


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Blank lines of further files, empty cells of a table, and nulls of JSON lines."""
    (tmp_path / "c.txt").write_text("\n".join(CANDIDATES) + "\n")
    width = max(map(len, GAPS))
    cells = [
        [text if isinstance(text, str) else "" for text in [*group, *[""] * (width - len(group))]] for group in GAPS
    ]
    files = []
    for number in range(width):
        file = tmp_path / f"r{number}.txt"
        file.write_text("".join(row[number] + "\n" for row in cells))
        files.append(str(file))
    candidates = ["-c", str(tmp_path / "c.txt")]
    same(run(capsys, *candidates, "-r", files[0], *[part for file in files[1:] for part in ("-r", file)]), expected())
    table = tmp_path / "r.tsv"
    names = [f"r{number}" for number in range(width)]
    table.write_text("\n".join("\t".join(row) for row in [names, *cells]) + "\n")
    columns = [part for name in names for part in ("--reference-column", name)]
    same(run(capsys, *candidates, "-r", str(table), *columns), expected())
    lines = tmp_path / "r.jsonl"
    lines.write_text("".join(json.dumps({"r": group}) + "\n" for group in GAPS))
    same(run(capsys, *candidates, "-r", str(lines), "--reference-column", "r"), expected())


def test_nulls_without_a_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line of JSON with nulls alone is an error that names it."""
    (tmp_path / "c.txt").write_text("a\nb\n")
    (tmp_path / "r.jsonl").write_text('{"r": ["x", null]}\n{"r": [null, " "]}\n')
    command = ["score", "-c", str(tmp_path / "c.txt"), "-r", str(tmp_path / "r.jsonl"), "--reference-column", "r"]
    with pytest.raises(SystemExit) as stop:
        cli.main([*command, "--model", model_path("bert"), "--num-layers", "2"])
    assert stop.value.code == 2
    assert "r.jsonl, line 2: column 'r' holds [None, ' '], not a text or a list of texts." in capsys.readouterr().err
