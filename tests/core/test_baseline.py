"""Baselines are read from files and from the table, missing ones are explained, and rescaling keeps the order."""

import re
from pathlib import Path

import pytest
import torch
from conftest import model_path
from hypothesis import given, settings
from hypothesis import strategies as st

from bertscore_metric import BERTScorer, registry
from bertscore_metric.core.baseline import Baseline, find_baseline, read_baseline, rescale

ROWS = {0: (0.1, 0.2, 0.3), 1: (-0.4, 0.5, 0.6), 12: (0.7, 0.8, 0.9)}
LINES = ["0,0.1,0.2,0.3", "1,-0.4,0.5,0.6", "12,0.7,0.8,0.9"]
HEADER = "LAYER,P,R,F"


def write(folder: Path, *lines: str, encoding: str = "utf-8", end: str = "\n") -> str:
    """Write a baseline file and return its path."""
    file = folder / "baseline.csv"
    file.write_bytes("".join(line + end for line in lines).encode(encoding))
    return str(file)


def find(model: str = "a model", *, lang: str | None = None, layer: int | None = 1, **rest: object) -> Baseline:
    """Find a baseline by what a test is about."""
    return find_baseline(lang=lang, model=model, num_layers=layer, **{"depth": None, "path": None, **rest})  # type: ignore[arg-type]


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("separator", [",", "\t"], ids=["comma", "tab"])
@pytest.mark.parametrize("header", [[], [HEADER], ["layer,p,r,f"], [" Layer ,precision,recall,f1"]], ids=len)
def test_formats(tmp_path: Path, header: list[str], separator: str, encoding: str, end: str) -> None:
    """Commas or tabs, with a header or without, with a byte order mark or without, are the same rows."""
    lines = [line.replace(",", separator) for line in [*header, *LINES]]
    assert read_baseline(write(tmp_path, *lines, encoding=encoding, end=end)) == ROWS


def test_loose_lines(tmp_path: Path) -> None:
    """Blank lines, spaces around numbers and rows in any order make no difference."""
    path = write(tmp_path, HEADER, "", LINES[2], "", " 0, 0.1 ,0.2, 0.3", LINES[1], "")
    assert read_baseline(path) == ROWS


def test_numbers_in_any_notation(tmp_path: Path) -> None:
    """Numbers may be written as Python reads them, without a last line break."""
    file = tmp_path / "one.csv"
    file.write_text("3,1e-1,.5,-0")
    assert read_baseline(str(file)) == {3: (0.1, 0.5, 0.0)}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("2,0.1,0.2", "expected LAYER,P,R,F as numbers, got ['2', '0.1', '0.2']."),
        ("2,0.1,0.2,0.3,0.4", "expected LAYER,P,R,F as numbers, got ['2', '0.1', '0.2', '0.3', '0.4']."),
        ("2,0.1,high,0.3", "expected LAYER,P,R,F as numbers, got ['2', '0.1', 'high', '0.3']."),
        ("two,0.1,0.2,0.3", "expected LAYER,P,R,F as numbers, got ['two', '0.1', '0.2', '0.3']."),
        ("2.5,0.1,0.2,0.3", "expected LAYER,P,R,F as numbers, got ['2.5', '0.1', '0.2', '0.3']."),
        ("2;0.1;0.2;0.3", "expected LAYER,P,R,F as numbers, got ['2;0.1;0.2;0.3']."),
        (HEADER, "expected LAYER,P,R,F as numbers, got ['LAYER', 'P', 'R', 'F']."),
        ("1,0.1,0.2,0.3", "a layer must occur once, with values below 1; got ['1', '0.1', '0.2', '0.3']."),
        ("2,1,0.2,0.3", "a layer must occur once, with values below 1; got ['2', '1', '0.2', '0.3']."),
        ("2,0.1,1.5,0.3", "a layer must occur once, with values below 1; got ['2', '0.1', '1.5', '0.3']."),
        ("2,0.1,0.2,nan", "a layer must occur once, with values below 1; got ['2', '0.1', '0.2', 'nan']."),
        ("2,-inf,0.2,0.3", "a layer must occur once, with values below 1; got ['2', '-inf', '0.2', '0.3']."),
    ],
)
def test_lines_that_are_wrong(tmp_path: Path, line: str, message: str) -> None:
    """A line that is not a row of a baseline is named by file and number, and shown."""
    path = write(tmp_path, HEADER, *LINES, line)
    with pytest.raises(ValueError, match=f"^{re.escape(path)}, line 5: {re.escape(message)}$"):
        read_baseline(path)


def test_negative_layer(tmp_path: Path) -> None:
    """A layer counts from 0."""
    path = write(tmp_path, HEADER, "-1,0.1,0.2,0.3")
    with pytest.raises(ValueError, match=rf"^{re.escape(path)}, line 2: "):
        read_baseline(path)


@pytest.mark.parametrize("lines", [[], [HEADER], ["", ""]], ids=len)
def test_file_without_rows(tmp_path: Path, lines: list[str]) -> None:
    """A file without rows is named, with what it should hold."""
    path = write(tmp_path, *lines)
    with pytest.raises(ValueError, match=rf"^{re.escape(path)} holds no baseline rows \(LAYER,P,R,F\)\.$"):
        read_baseline(path)


def test_missing_file(tmp_path: Path) -> None:
    """A file that is not there, or is a folder, is named."""
    for path in (str(tmp_path / "no.csv"), str(tmp_path)):
        with pytest.raises(FileNotFoundError, match=f"^No baseline file {re.escape(repr(path))}\\.$"):
            find(path=path)


def test_file_that_is_not_text(tmp_path: Path) -> None:
    """A file in another encoding is named."""
    path = write(tmp_path, "0,0.1,0.2,0.3", "é", encoding="latin-1")
    with pytest.raises(ValueError, match=re.escape(path)):
        read_baseline(path)


# --- finding ----------------------------------------------------------------------------------------------------------


def test_row_of_a_file(tmp_path: Path) -> None:
    """A file's row of the layer is used, without a language."""
    baseline = find(path=write(tmp_path, HEADER, *LINES), layer=12)
    assert baseline.values.tolist() == [[0.7, 0.8, 0.9]]
    assert baseline.values.dtype == torch.float64


def test_file_goes_before_the_table(tmp_path: Path) -> None:
    """A file is used also where the table has a baseline."""
    path = write(tmp_path, HEADER, *LINES)
    assert find("roberta-large", lang="en", path=path).values.tolist() == [[-0.4, 0.5, 0.6]]


@pytest.mark.parametrize("model", ["roberta-large", "FacebookAI/roberta-large"])
@pytest.mark.parametrize("lang", ["en", "EN", "en-US", "en_GB"])
def test_row_of_the_table(model: str, lang: str) -> None:
    """The table is asked under today's hub name or the older one, and with or without a region."""
    assert find(model, lang=lang, layer=17).values.tolist() == [[0.83150584, 0.8314941, 0.83122575]]


def test_row_of_every_layer() -> None:
    """With all layers each has its own row, from the embedding output on."""
    rows = registry.baseline("en", "roberta-large")
    assert rows is not None
    values = find("roberta-large", lang="en", layer=None, depth=24).values
    assert values.tolist() == [list(rows[layer]) for layer in range(25)]
    assert len({tuple(row) for row in values.tolist()}) == 25


def test_name_is_of_the_values(tmp_path: Path) -> None:
    """The name for the signature differs where the values do, and only there."""
    one = find(path=write(tmp_path, HEADER, *LINES)).name
    other_layout = find(path=write(tmp_path, *[line.replace(",", "\t") for line in reversed(LINES)])).name
    other_layer = find(path=write(tmp_path, HEADER, *LINES), layer=0).name
    other_value = find(path=write(tmp_path, "1,-0.4,0.5,0.60001")).name
    assert one == other_layout
    assert len({one, other_layer, other_value}) == 3
    assert find("xlm-roberta-base", lang="de").name != find("xlm-roberta-base", lang="cs").name


@pytest.mark.parametrize("lang", ["EN", "en-US", "en_GB"])
def test_name_of_the_same_row(lang: str) -> None:
    """The same row has the same name however the language was written, so that equal scores compare."""
    assert find("roberta-large", lang=lang).name == find("roberta-large", lang="en").name
    assert find("FacebookAI/roberta-large", lang=lang).name == find("roberta-large", lang="en").name


# --- what is not there ------------------------------------------------------------------------------------------------


def test_no_language() -> None:
    """Without a language and without a file there is nothing to look for."""
    message = r"^rescale_with_baseline needs the language \(lang='en'\), or a file \(baseline_path=\.\.\.\)\.$"
    with pytest.raises(ValueError, match=message):
        find("roberta-large")


HOW_TO = (
    r"Pass one with baseline_path=FILE \(LAYER,P,R,F\); `bertscore-metric baseline` "
    r"makes one of sentences of the language\.$"
)


def test_no_baseline_of_the_model() -> None:
    """A model without a baseline: the nearest three that have one, where the others are listed, how to make one."""
    with pytest.raises(
        ValueError, match=rf"^No baseline for my/roberta-larg in 'en': for 'en' there is one for .*{HOW_TO}"
    ) as caught:
        find("my/roberta-larg", lang="en")
    n = len(registry.baselines_for(language="en"))
    near = re.search(r"there is one for (.*) and (\d+) more models \(`bertscore-metric models`", str(caught.value))
    assert near is not None
    assert int(near[2]) == n - 3
    assert near[1].split(", ")[0] == "roberta-large"
    assert len(near[1].split(", ")) == 3
    with pytest.raises(ValueError, match="No baseline for my/model") as caught:
        find("my/model", lang="en")
    assert "for my/model there is one" not in str(caught.value)


def test_no_baseline_in_the_language() -> None:
    """A model that has baselines in other languages: the message says in which."""
    with pytest.raises(ValueError, match=rf"^No baseline for roberta-large in 'de': .*{HOW_TO}") as caught:
        find("roberta-large", lang="de")
    assert "; for roberta-large there is one in en (" in str(caught.value)
    assert "bert-base-multilingual-cased" in str(caught.value)


def test_no_baseline_of_an_unknown_language() -> None:
    """A language without any baseline is said to have none."""
    with pytest.raises(
        ValueError, match=rf"^No baseline for my/model in 'qq': there is none for 'qq' \(.*\)\. {HOW_TO}"
    ):
        find("my/model", lang="qq")


def test_missing_layer(tmp_path: Path) -> None:
    """A layer without a row is named, with the place that was asked."""
    path = write(tmp_path, HEADER, *LINES[:2])
    with pytest.raises(
        ValueError, match=rf"^The baseline file {re.escape(path)} has no row for layer 2; it has 0 to 1\.$"
    ):
        find(path=path, layer=2)
    message = r"^The baseline of roberta-large for 'en' has no row for layer 25; it has 0 to 24\.$"
    with pytest.raises(ValueError, match=message):
        find("roberta-large", lang="en", layer=25)
    with pytest.raises(ValueError, match=r" has no row for layer 25; it has 0 to 24\.$"):
        find("roberta-large", lang="en", layer=None, depth=30)


def test_missing_layer_between_others(tmp_path: Path) -> None:
    """Where a layer between others is missing, the message does not claim that the file has them all."""
    path = write(tmp_path, HEADER, *LINES)
    with pytest.raises(ValueError, match=r" has no row for layer 5; it has ") as caught:
        find(path=path, layer=5)
    assert "0 to 12" not in str(caught.value)
    assert re.search(r"it has .*0, 1.* 12\.$", str(caught.value))


# --- rescaling --------------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=8), st.floats(-1, 0.999))
@settings(deadline=None, max_examples=60)
def test_rescale(scores: list[float], baseline: float) -> None:
    """Scores become (x - b) / (1 - b) in float32, in the same order; the input is as it was."""
    raw = torch.tensor([scores])
    before = raw.clone()
    found = rescale(raw, torch.tensor([baseline], dtype=torch.float64))
    assert found.dtype == torch.float32
    assert found[0].tolist() == pytest.approx([(x - baseline) / (1 - baseline) for x in scores], rel=1e-6, abs=1e-6)
    ordered = found[0, raw[0].argsort()]
    assert bool((ordered[1:] >= ordered[:-1]).all())
    assert torch.equal(raw, before)


@given(st.floats(-1, 0.75, width=32))
@settings(deadline=None, max_examples=60)
def test_fixed_points_of_rescaling(baseline: float) -> None:
    """The baseline itself becomes 0, and 1 stays 1."""
    found = rescale(torch.tensor([[baseline, 1.0]]), torch.tensor([baseline], dtype=torch.float64))
    assert found.tolist() == [[0.0, 1.0]]


def test_every_layer_is_rescaled_with_its_own_row(tmp_path: Path) -> None:
    """With all layers every layer's P, R and F1 are rescaled with that layer's own row."""
    rows = [[0.05 * layer + 0.01 * column for column in range(3)] for layer in range(5)]
    path = write(tmp_path, HEADER, *[",".join(map(str, [layer, *row])) for layer, row in enumerate(rows)])
    scorer = BERTScorer(model_path("bert"), all_layers=True, rescale_with_baseline=True, baseline_path=path)
    result = scorer.score(["the cat sat", "hello"], ["a cat sat on the mat .", "a cat"])
    for column, name in enumerate(("precision", "recall", "f1")):
        raw, final = getattr(result.raw, name), getattr(result, name)
        for layer in range(5):
            b = rows[layer][column]
            torch.testing.assert_close(final[layer], (raw[layer] - b) / (1 - b), atol=1e-6, rtol=0)
    one = BERTScorer(model_path("bert"), num_layers=3, rescale_with_baseline=True, baseline_path=path)
    alone = one.score(["the cat sat", "hello"], ["a cat sat on the mat .", "a cat"])
    torch.testing.assert_close(alone.f1, result.f1[3], atol=1e-6, rtol=0)
