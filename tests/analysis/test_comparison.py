"""Comparing systems: right differences and p, every text embedded once, and errors that help."""

import math
import re
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import DATA, TOLERANCE, model_path, shared_scorer
from fakes import HashEncoder
from metric_kinds import tokenizer

from bertscore_metric import BERTScorer
from bertscore_metric.analysis.comparison import compare
from bertscore_metric.analysis.comparison_page import comparison_page
from bertscore_metric.analysis.saved_scores import read_saved
from bertscore_metric.analysis.systems import score_systems
from bertscore_metric.core.significance import Interval, holm, mean_interval

REFERENCES = [["the cat sat on the red table."], ["Go go go.", "go"], ["I love lemons."], ["a dog walked"], ["bananas"]]
SYSTEMS = {
    "one": ["the cat sat on a red table.", "Go go go.", "I love lemons", "a dog walked", "two bananas"],
    "two": ["a dog", "Go", "lemons I like.", "the dog walked", "the table"],
    "three": ["the table", "I", "lemons I like.", "a dog and a cat", "bananas"],
}
quiet = pytest.mark.filterwarnings("ignore::bertscore_metric.BERTScoreWarning")


def exact_p(differences: list[float]) -> float:
    """Return the exact two-sided p by its definition."""
    sums = [abs(sum(s * d for s, d in zip(signs, differences, strict=True)))
            for signs in product((1, -1), repeat=len(differences))]  # fmt: skip
    return sum(one >= abs(sum(differences)) - 1e-9 for one in sums) / len(sums)


def test_texts() -> None:
    """Texts are scored as `score` does it, and every number is what its definition says."""
    scorer = shared_scorer("bert", num_layers=2)
    found = compare(SYSTEMS, REFERENCES, scorer=scorer, level=0.9)
    f1 = {name: scorer.score(texts, REFERENCES).f1.double().numpy() for name, texts in SYSTEMS.items()}
    assert [system.name for system in found.systems] == sorted(f1, key=lambda name: -f1[name].mean())
    assert [(pair.first, pair.second) for pair in found.pairs] == [
        (a.name, b.name) for number, a in enumerate(found.systems) for b in found.systems[number + 1 :]
    ]
    for system in found.systems:
        assert system.mean == pytest.approx(f1[system.name].mean(), abs=TOLERANCE)
        assert [*system.interval] == pytest.approx([*mean_interval(f1[system.name], level=0.9)], abs=1e-5)
    for pair in found.pairs:
        d = f1[pair.first] - f1[pair.second]
        assert pair.difference == pytest.approx(d.mean(), abs=TOLERANCE)
        assert pair.interval is not None
        assert [*pair.interval] == pytest.approx([*mean_interval(d, level=0.9)], abs=1e-5)
        assert (pair.wins, pair.ties, pair.losses) == ((d > 1e-6).sum(), (abs(d) <= 1e-6).sum(), (d < -1e-6).sum())
        assert pair.p == exact_p(d.tolist())
        assert pair.detectable == pytest.approx(2.8 * d.std(ddof=1) / math.sqrt(5), abs=1e-5)
        assert pair.most_different[0] == abs(d).argmax()
    assert [pair.p_holm for pair in found.pairs] == holm([pair.p for pair in found.pairs]).tolist()
    assert found.signature == str(scorer.signature)
    assert "all 32 signs" in found.test


@quiet
@pytest.mark.parametrize("idf", [False, True])
def test_each_text_is_embedded_once(idf: bool) -> None:
    """Three systems embed every distinct text once, and each result is that of its own call."""
    fake = HashEncoder()
    scorer = BERTScorer(encoder=fake, tokenizer=tokenizer(), idf=idf)
    fake.batches.clear()
    results = score_systems(scorer, SYSTEMS, REFERENCES)
    distinct = {text for texts in (*SYSTEMS.values(), *REFERENCES) for text in texts}
    assert fake.n_texts == len(distinct)
    for name, texts in SYSTEMS.items():
        alone = scorer.score(texts, REFERENCES)
        torch.testing.assert_close(results[name].f1, alone.f1, atol=TOLERANCE, rtol=0)
        assert results[name].to_dict()["unk_share"] == alone.to_dict()["unk_share"]
        assert torch.equal(results[name].best_reference, alone.best_reference)


def test_baseline() -> None:
    """With a baseline the others are compared with it, and Holm corrects for these comparisons only."""
    scores = {"a": [0.9, 0.8, 0.7, 0.9, 0.5], "b": [0.7, 0.6, 0.7, 0.5, 0.4], "c": [0.9, 0.9, 0.8, 0.9, 0.6]}
    found = compare(scores, baseline="a")
    assert [(pair.first, pair.second, round(pair.difference, 3)) for pair in found.pairs] == [
        ("c", "a", 0.06), ("b", "a", -0.18),
    ]  # fmt: skip
    assert [pair.p for pair in found.pairs] == [0.25, 0.125]
    assert [pair.p_holm for pair in found.pairs] == [0.25, 0.25]
    with pytest.raises(ValueError, match=r"baseline must be one of the systems \(a, b, c\), got 'd'"):
        compare(scores, baseline="d")


def test_own_copy() -> None:
    """A system against its own copy: no difference, p = 1."""
    values = np.random.default_rng(0).uniform(size=300)
    (pair,) = compare({"a": values, "b": torch.from_numpy(values)}).pairs
    assert (pair.difference, pair.interval, pair.p, pair.p_holm, pair.ties) == (0, Interval(0, 0), 1, 1, 300)
    assert pair.most_different == ()


def test_detect() -> None:
    """`detect` says how many segments would show a difference: four times as many for half of it."""
    random = np.random.default_rng(0)
    scores = {"a": random.uniform(size=50), "b": random.uniform(size=50)}
    smallest = compare(scores).pairs[0].detectable
    assert smallest is not None
    found = compare(scores, detect=smallest / 2)
    assert found.pairs[0].needed == 200
    assert found.to_dict()["pairs"][0]["needed"] == 200
    with pytest.raises(ValueError, match=r"must be above 0, got -1"):
        compare(scores, detect=-1)


def test_by_and_groups() -> None:
    """Domains are compared as if alone; with groups their number decides."""
    random = np.random.default_rng(0)
    scores = {name: random.uniform(size=40) for name in "ab"}
    domains = ["news", "talk"] * 20
    found = compare(scores, by=domains, groups=[number // 4 for number in range(40)])
    assert list(found.by) == ["news", "talk"]
    alone = compare({name: values[::2] for name, values in scores.items()}, groups=[n // 2 for n in range(20)])
    assert found.by["news"].pairs[0].p == alone.pairs[0].p
    assert found.by["news"].systems == alone.systems
    assert found.by["talk"].pairs[0].most_different[0] % 2 == 1  # numbers of the whole
    assert (found.n_groups, found.by["news"].n_segments) == (10, 20)
    assert "10 groups, two-sided, all 1024 signs" in found.test
    with pytest.raises(ValueError, match="rare: An interval needs at least 2 segments, got 1"):
        compare(scores, by=["rare", *domains[1:]])
    with pytest.raises(ValueError, match="There are 40 segments, but 2 groups"):
        compare(scores, groups=[1, 2])
    with pytest.raises(ValueError, match="40 segments, but 1 entries of by="):
        compare(scores, by=["x"])


@quiet
def test_skipped_for_all() -> None:
    """A segment that is empty for one system is left out for all."""
    systems = {"one": SYSTEMS["one"], "two": ["", *SYSTEMS["two"][1:]]}
    scorer = BERTScorer(model_path("bert"), num_layers=2, empty="skip")
    found = compare(systems, REFERENCES, scorer=scorer)
    assert (found.n_segments, found.n_left_out) == (4, 1)
    wanted = scorer.score(SYSTEMS["one"], REFERENCES).f1[1:].double().mean().item()
    assert found.systems[0].mean == pytest.approx(wanted, abs=TOLERANCE)


@pytest.mark.parametrize(
    ("systems", "error", "message"),
    [
        ({"a": [0.1, 0.2]}, ValueError, "needs at least two systems, got 1"),
        ({"a": [0.1, 0.2], "b": [0.1]}, ValueError, "a has 2 scores, b has 1"),
        ({"a": [0.1, 0.2], "b": [0.1, math.nan]}, ValueError, r"b has nan at index 1 \(counted from 0\)"),
        ({"a": [0.1, 0.2], "b": [[0.1], [0.2]]}, ValueError, r"systems\['b'\] must hold one score for each segment"),
        ({"a": [0.1, 0.2], "b": [None, object()]}, TypeError, r"systems\['b'\] must hold texts, a BERTScoreResult or"),
        ({"a": ["x", "y"], "b": ["x", "y"]}, ValueError, r"systems\['a'\] holds texts, which are scored against"),
        ({"a": [0.1], "b": [0.2]}, ValueError, "needs at least 2 segments, got 1"),
    ],
)
def test_wrong_systems(systems: dict[str, Any], error: type[Exception], message: str) -> None:
    """What cannot be compared is an error in words."""
    with pytest.raises(error, match=message):
        compare(systems)


def test_wrong_texts() -> None:
    """Errors name the system; scores of other settings, or without any, are refused beside results."""
    with pytest.raises(ValueError, match=r"got 1 systems\['b'\] and 2 references"):
        compare({"a": ["x", "y"], "b": ["x"]}, ["x", "y"], model_path("bert"))
    one = shared_scorer("bert", num_layers=1).score(["a", "cat"], ["a", "dog"])
    two = shared_scorer("bert", num_layers=2).score(["a", "cat"], ["a", "dog"])
    with pytest.raises(ValueError, match=r"different settings cannot be compared.*\n.*layer:1.*\n.*layer:2"):
        compare({"a": one, "b": two})
    with pytest.raises(ValueError, match="b has numbers without a signature"):
        compare({"a": one, "b": [0.1, 0.2]})
    with pytest.raises(ValueError, match="a model and its settings are for texts"):
        compare({"a": one, "b": one}, idf=True)
    layers = shared_scorer("bert", all_layers=True).score(["a", "cat"], ["a", "dog"])
    with pytest.raises(ValueError, match="a has the scores of all layers; compare one"):
        compare({"a": layers, "b": layers})


def test_p_holds_what_it_promises() -> None:
    """Of ten equal systems some pair is below .05 in at most 6 % of the trials with Holm, and mostly without."""
    random = np.random.default_rng(0)
    false_alarms, uncorrected, trials = 0, 0, 60
    for _ in range(trials):
        pool = random.beta(8, 2, size=(10, 40))
        p = compare({str(number): row for number, row in enumerate(pool)}).pairs
        false_alarms += any(pair.p_holm < 0.05 for pair in p)
        uncorrected += any(pair.p < 0.05 for pair in p)
    assert false_alarms <= 6  # 3 % are 2 of 60; above 6 in one of a thousand runs of an honest test
    assert uncorrected > 20


def test_page() -> None:
    """The page shows every number, explains both candidates where they differ most, and takes names as text."""
    scorer = shared_scorer("bert", num_layers=2)
    systems = {f"<{name}>": texts for name, texts in SYSTEMS.items()}
    found = compare(systems, REFERENCES, scorer=scorer, by=["x", "x", "x", "y", "y"], detect=0.01)
    page = comparison_page(found, scorer, systems, REFERENCES)
    for pair in found.pairs:
        assert f"{pair.difference:.6f}" in page
        assert f"<h3>Segment {pair.most_different[0]}, &lt;{pair.first[1:-1]}&gt;</h3>" in page
    assert page.count("data:image/png;base64,") == 6
    assert page.count('class="pair"') == 18
    assert "<one>" not in page
    assert "http" not in page
    assert 'class="pair"' not in comparison_page(found)


def test_saved(tmp_path: Path) -> None:
    """Saved scores compare as the results do, from JSON and from lines."""
    scorer = shared_scorer("bert", num_layers=2)
    results = score_systems(scorer, SYSTEMS, REFERENCES)
    for name, result in results.items():
        (tmp_path / f"{name}.json").write_text(result.to_json(segments=True), encoding="utf-8")
        lines = [f"# signature\t{result.signature}", "# mean\t1\t2\t3", "# segment\tP\tR\tF1\tbest reference"]
        lines += [f"{k}\t{p:.6f}\t{r:.6f}\t{f:.6f}\t0" for k, (p, r, f) in enumerate(zip(*result, strict=True))]
        (tmp_path / f"{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    wanted = compare(results)
    for suffix, digits in (("json", 1e-12), ("tsv", 1e-6)):
        found = compare(read_saved([str(tmp_path / f"{name}.{suffix}") for name in SYSTEMS]))
        assert found.signature == wanted.signature
        for one, other in zip(found.pairs, wanted.pairs, strict=True):
            assert (one.first, one.second, one.p, one.wins) == (other.first, other.second, other.p, other.wins)
            assert one.difference == pytest.approx(other.difference, abs=digits)


@quiet
@pytest.mark.parametrize("suffix", ["json", "tsv"])
def test_saved_skipped(tmp_path: Path, suffix: str) -> None:
    """Saved scores know which segments `empty="skip"` leaves out."""
    scorer = BERTScorer(model_path("bert"), num_layers=2, empty="skip")
    result = scorer.score(["", "a cat", "a dog"], ["x", "the cat", "the dog"])
    lines = [f"# signature\t{result.signature}",
             *(f"{k}\t{p:.6f}\t{r:.6f}\t{f:.6f}" for k, (p, r, f) in enumerate(zip(*result, strict=True)))]  # fmt: skip
    text = result.to_json(segments=True) if suffix == "json" else "\n".join(lines)
    (tmp_path / f"a.{suffix}").write_text(text, encoding="utf-8")
    assert read_saved([str(tmp_path / f"a.{suffix}")])["a"].counted.tolist() == [False, True, True]


SIGNED = "# signature\tlayer:1|rescale:no\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0\t1\t1\t1\n", "does not begin with '# signature', so it holds no saved scores; save them with `bertscore"),
        ("", "does not begin with '# signature'"),
        (SIGNED + "1\t1\t1\t1\n", "line 2: expected segment 0 with precision, recall and F1, tab-separated, got"),
        (SIGNED + "0\t1\t1\n", "line 2: expected segment 0"),
        (SIGNED + "a.txt\t0\t1\t1\t1\n", "line 2: expected segment 0 .*save each system into a file of its own"),
        ("{", "is not JSON"),
        ('{"signature": "a:b"}', "holds no scores of segments"),
        ('{"signature": "a:b", "segments": [{"f1": 1}]}', "segments without precision, recall and F1"),
        ('{"signature": "layer:all-raw", "segments": []}', "has the scores of all layers"),
        (
            SIGNED.replace("rescale:no", "rescale:x|empty:skip") + "0\t1\t1\t1\n",
            "does not say which segments are empty",
        ),
    ],
)
def test_wrong_files(tmp_path: Path, text: str, message: str) -> None:
    """A file that holds no saved scores is an error that names it."""
    (tmp_path / "x.tsv").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"x\.tsv.*" + message):
        read_saved([str(tmp_path / "x.tsv")])


def test_names_of_saved(tmp_path: Path) -> None:
    """Two files of one name are refused."""
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.tsv").write_text(SIGNED + "0\t1\t1\t1\n", encoding="utf-8")
    with pytest.raises(ValueError, match="Two systems are named 'x'; names come from file names"):
        read_saved([str(tmp_path / folder / "x.tsv") for folder in ("a", "b")])


def lines(name: str, begin: int, end: int) -> list[str]:
    """Return lines of a file of newstest2018 de-en."""
    text = (DATA / "newstest2018_deen" / name).read_text(encoding="utf-8")
    return re.split("\n", text)[begin:end]


NEWSTEST = {"RWTH": "hyp.RWTH.5636.en", "online-F": "hyp.online-F.0.en", "LMU": "hyp.LMU-unsup.5650.en"}


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="the translations are not here")
def test_right_values() -> None:
    """On real translations means, differences and intervals are those of two independent computations."""
    scorer = shared_scorer("minilm", num_layers=5)
    systems = {name: lines(file, 1000, 1200) for name, file in NEWSTEST.items()}
    found = compare(systems, lines("ref.en", 1000, 1200), scorer=scorer)
    assert {system.name: round(system.mean, 6) for system in found.systems} == {
        "RWTH": 0.906241, "online-F": 0.857693, "LMU": 0.791035,
    }  # fmt: skip
    assert [pair.difference for pair in found.pairs] == pytest.approx([0.048548, 0.115206, 0.066658], abs=2e-6)
    assert found.pairs[0].interval is not None
    assert [*found.pairs[0].interval] == pytest.approx([0.0415, 0.0561], abs=2e-4)


@pytest.mark.skipif(not DATA.is_dir(), reason="the translations are not here")
def test_right_exact_p() -> None:
    """Of twelve real segments the p is exact."""
    systems = {name: lines(NEWSTEST[name], 1000, 1012) for name in ("RWTH", "online-F")}
    (pair,) = compare(systems, lines("ref.en", 1000, 1012), scorer=shared_scorer("minilm", num_layers=5)).pairs
    assert pair.difference == pytest.approx(0.070444, abs=2e-6)
    assert pair.p == 2 / 4096
