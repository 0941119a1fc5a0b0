"""The page about a scored corpus."""

import csv
import datetime
import html
import re
from pathlib import Path

import pytest
import torch
from conftest import TOLERANCE, shared_scorer

from bertscore_metric import BERTScorer
from bertscore_metric.analysis.figures import new_figure
from bertscore_metric.analysis.report_page import (
    check_sample,
    draw_distribution,
    drawn_segments,
    lowest_segments,
    report_page,
    write_sample,
)
from bertscore_metric.state.kept_embeddings import check_index

HOSTILE = '<script>alert("x")</script>'
C = ["the cat sat", "a dog ran", "", HOSTILE, "bananas", "the red table"] * 5
R = [["the cat sat down", "a cat"], ["a dog"], ["x"], [HOSTILE, "&amp;"], ["the committee"], ["the red table"]] * 5


@pytest.fixture
def scorer() -> BERTScorer:
    """Return a scorer with idf of the corpus, on a tiny model."""
    return shared_scorer("bert", num_layers=2, idf=True)


@pytest.mark.filterwarnings("ignore::bertscore_metric.BERTScoreWarning")
def test_page(scorer: BERTScorer) -> None:
    """The page says what the result says, explains the lowest segments, and takes texts as text."""
    result = scorer.score(C, R)
    page = report_page(result, scorer, C, R, worst=4, sample=3, seed=1)
    assert f"{result.mean.f1:.6f}" in page
    assert str(result.signature) in page
    assert "5 segments are empty on a side" in page
    assert page.count('class="pair"') == 4
    assert page.count("data:image/png;base64,") == 3
    assert page.count("<script>") == 2  # our own
    assert "http" not in page
    assert page.count("Point at a token") == 1
    assert "standard deviation" in page
    for index in lowest_segments(result, 4):
        assert page.count(f"F1 {result.f1[index]:.6f}") >= 2  # in the heading and in the explanation
        assert f'id="segment-{index}"' in page
        assert f'<dd dir="auto">{html.escape(C[index], quote=False).replace(chr(34), "&#34;")}</dd>' in page


@pytest.mark.filterwarnings("ignore::bertscore_metric.BERTScoreWarning")
def test_sources_date_and_links(scorer: BERTScorer) -> None:
    """The page names files and day, and the sample leads to the segments that are explained, and to no others."""
    result = scorer.score(C, R)
    day = datetime.date(2024, 5, 17)
    page = report_page(result, scorer, C, R, worst=9, sample=30, sources=["a<b>.txt", "r.txt", "s.txt"], date=day)
    assert "a&lt;b&gt;.txt against r.txt, s.txt, 2024-05-17" in page
    assert re.findall(r'href="#segment-(\d+)"', page)
    assert set(re.findall(r'href="#(segment-\d+)"', page)) == set(re.findall(r'id="(segment-\d+)"', page))
    assert datetime.date.today().isoformat() in report_page(result, scorer, C, R, worst=0, sample=0)


@pytest.mark.filterwarnings("ignore::bertscore_metric.BERTScoreWarning")
def test_lowest(scorer: BERTScorer) -> None:
    """The lowest come first; empty segments are none of them."""
    result = scorer.score(C, R)
    lowest = lowest_segments(result, 100)
    assert len(lowest) == 25
    assert not result.empty[lowest].any()
    assert result.f1[lowest].diff().min() >= 0
    assert result.f1[lowest[0]] == result.f1[~result.empty].min()


@pytest.mark.filterwarnings("ignore::bertscore_metric.BERTScoreWarning")
def test_sample(scorer: BERTScorer, tmp_path: Path) -> None:
    """A seed draws the same segments again, each once; the CSV holds them without their scores."""
    result = scorer.score(C, R)
    drawn = drawn_segments(result, 7, seed=3)
    assert drawn == drawn_segments(result, 7, seed=3) != drawn_segments(result, 7, seed=4)
    assert len(set(drawn)) == 7
    assert sorted(drawn_segments(result, 99, seed=0)) == list(range(30))
    write_sample(tmp_path / "sample.csv", result, C, R, sample=7, seed=3)
    with (tmp_path / "sample.csv").open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    assert header[:2] == ["segment", "candidate"]
    assert header[-2:] == ["judgement", "comment"]
    assert [int(row[0]) for row in rows] == drawn
    assert [row[1] for row in rows] == [C[index] for index in drawn]
    assert not re.search(r"0\.\d{4}", (tmp_path / "sample.csv").read_text(encoding="utf-8"))


@pytest.mark.filterwarnings("ignore::bertscore_metric.BERTScoreWarning")
def test_many_segments(scorer: BERTScorer) -> None:
    """The size of a page does not grow with the corpus."""
    few = scorer.score(C[3:5] * 2, R[3:5] * 2)
    many = scorer.score(C[3:5] * 2500, R[3:5] * 2500)
    pages = [report_page(result, scorer, C[3:5] * n, R[3:5] * n, worst=2, sample=2)
             for result, n in ((few, 2), (many, 2500))]  # fmt: skip
    assert len(pages[1]) < 1.5 * len(pages[0])
    assert few.mean.f1 == pytest.approx(few.f1.double().mean().item(), abs=TOLERANCE)
    assert torch.isfinite(many.f1).all()


def test_no_segments(scorer: BERTScorer) -> None:
    """An empty corpus has a page too."""
    with pytest.warns(UserWarning, match="No segments"):
        result = scorer.score([], [])
    assert "BERTScore of 0 segments" in report_page(result, scorer, [], [])


@pytest.mark.filterwarnings("ignore::bertscore_metric.BERTScoreWarning")
@pytest.mark.parametrize("n", [1, 4, 2500])
def test_equal_scores(scorer: BERTScorer, n: int) -> None:
    """A corpus against itself, whose scores are 1 or one float away from it, has its pictures."""
    texts = ["the cat sat", "a dog ran", "the red table", "bananas"][: min(n, 4)] * max(1, n // 4)
    result = scorer.score(texts, texts)
    assert result.f1.min() > 1 - TOLERANCE
    assert report_page(result, scorer, texts, [[text] for text in texts]).count("data:image/png;base64,") == 3


def test_the_distribution_ends_at_one_and_counts_whole_segments() -> None:
    """Every F1 is in a bar, rescaled ones below 0 too; the marks of the counts are whole numbers."""
    for values, low in (([0.95, 1.0, 1.0000001], 0.9), ([0.31, 0.5], 0.3), ([-1.25, 0.2, 1.0], -1.3), ([], 0.0)):
        axes = new_figure(4, 3).add_subplot()
        draw_distribution(axes, torch.tensor(values))
        assert sum(bar.get_height() for bar in axes.patches) == len(values)
        assert axes.get_xlim() == (pytest.approx(low), 1)
        assert all(mark == round(mark) for mark in axes.get_yticks())


def test_turns_and_control_characters_are_spelled_out(scorer: BERTScorer) -> None:
    """A text can neither turn the direction of what follows it nor put control characters into a page."""
    hostile = "a \u202ecat\u2066 \x1b[2J\x07 \x9b sat"
    texts = [[hostile, "a dog"], [[hostile + " down"], ["it rains"]]]
    explained = scorer.explain(hostile, hostile + " down", corpus=["a cat"]).to_html()
    for page in (explained, report_page(scorer.score(*texts), scorer, *texts)):
        assert not set("\u202e\u2066\x1b\x07\x9b") & set(page)
        assert 'dir="auto"' in page
    assert "\\u202ecat\\u2066 \\x1b[2J\\x07" in page


def test_number_is_no_bool() -> None:
    """`True` is not segment 1."""
    with pytest.raises(TypeError, match="number \\(int\\), got bool"):
        check_index(True, 2)


@pytest.mark.filterwarnings("ignore::bertscore_metric.BERTScoreWarning")
def test_sample_runs_nothing_in_a_spreadsheet(scorer: BERTScorer, tmp_path: Path) -> None:
    """Texts that begin like formulas get an apostrophe, and what acts unseen is spelled out."""
    candidates = ['=HYPERLINK("http://x")', "+1+1", "@SUM(A1)", "-2+3", "a\0b \u202e", "two\nlines"]
    references = [[text] for text in candidates]
    result = scorer.score(candidates, references)
    write_sample(tmp_path / "s.csv", result, candidates, references, sample=6)
    with (tmp_path / "s.csv").open(encoding="utf-8", newline="") as file:
        cells = {int(row["segment"]): (row["candidate"], row["reference_1"]) for row in csv.DictReader(file)}
    shown = [f"'{text}" for text in candidates[:4]] + ["a\\x00b \\u202e", "two\nlines"]
    assert [cells[number] for number in range(6)] == [(text, text) for text in shown]


@pytest.mark.filterwarnings("ignore::bertscore_metric.BERTScoreWarning")
def test_judgements_are_not_written_over(scorer: BERTScorer, tmp_path: Path) -> None:
    """A sample that somebody worked on, or a file of another kind, is refused; an untouched one is not."""
    file = tmp_path / "s.csv"
    check_sample(file)
    write_sample(file, scorer.score(["a"], ["b"]), ["a"], [["b"]], sample=1)
    check_sample(file)
    file.write_text(file.read_text(encoding="utf-8").replace(",,", ",,good"), encoding="utf-8")
    with pytest.raises(ValueError, match=r"would be written over .*s\.csv, which holds judgements; move it away"):
        check_sample(file)
    file.write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"which is not a sample of an earlier report; move it away"):
        check_sample(file)
