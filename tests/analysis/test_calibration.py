"""What a difference means to people: the curve, the pairs, pooling, and judging whole systems."""

import json
import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from conftest import DATA, model_path, shared_scorer
from scipy import stats
from scipy.optimize import minimize_scalar

from bertscore_metric import Signature
from bertscore_metric.analysis.calibration import Calibration, calibrate, calibrate_scores, calibrate_texts, pool
from bertscore_metric.analysis.comparison import compare
from bertscore_metric.analysis.judging import judge_segments, judge_systems, system_agreement
from bertscore_metric.analysis.systems import SystemScores, score_systems
from bertscore_metric.io import files

SIGNATURE = Signature.parse("layer:1|rescale:no")
MEANS = {"a": 0.90, "b": 0.894, "c": 0.87, "d": 0.86, "e": 0.80}
HUMAN = {"a": 0.4, "b": 0.5, "c": 0.1, "d": 0.1, "e": -1}


def saved(values: list[float], signature: Signature = SIGNATURE) -> SystemScores:
    """Return the scores of a system."""
    return SystemScores(np.array(values), np.ones(len(values), dtype=bool), signature)


def likelihood(slope: float, pairs: list[tuple[float, float]]) -> float:
    """Return the negative log likelihood of the logistic curve."""
    return -sum(y * math.log(1 / (1 + math.exp(-slope * x))) + (1 - y) * math.log(1 / (1 + math.exp(slope * x)))
                for x, y in pairs)  # fmt: skip


def test_curve() -> None:
    """The slope is the most likely one; ties of people count half; the limits leave a system out."""
    found = calibrate(MEANS, HUMAN, SIGNATURE, "de-en")
    pairs = []
    for first, second in combinations(MEANS, 2):
        agree = (1 + np.sign(HUMAN[first] - HUMAN[second])) / 2
        pairs.append((MEANS[first] - MEANS[second], float(agree)))
    assert sorted((pair.difference, pair.agree) for pair in found.pairs) == sorted(pairs)
    assert sorted(agree for _, agree in pairs)[:2] == [0, 0.5]
    best = minimize_scalar(lambda slope: likelihood(slope, pairs), bracket=(1, 100)).x
    assert found.slope == pytest.approx(best, rel=1e-4)
    assert found.n_systems == 5
    assert found.limits[0] < found.slope < found.limits[1]
    agreement = found.agreement(-0.03)
    assert agreement is not None
    assert agreement.share == pytest.approx(1 / (1 + math.exp(-0.03 * best)), rel=1e-4)
    assert agreement.n_pairs == sum(0.015 <= x <= 0.06 for x, _ in pairs)
    assert str(agreement) == f"people agree in {100 * agreement.share:.0f} % ({agreement.n_pairs} pairs)"
    assert found.agreement(0).share == 0.5  # type: ignore[union-attr]
    assert found.agreement(0.11) is None  # above the largest difference seen


def test_file() -> None:
    """A file gives the calibration back, and says what others rely on."""
    found = calibrate(MEANS, HUMAN, SIGNATURE, "de-en")
    assert Calibration.from_json(found.to_json()) == found
    data = json.loads(found.to_json())
    assert (data["signature"], data["n_pairs"], data["n_systems"]) == (str(SIGNATURE), 10, 5)
    assert sum(row["n_pairs"] for row in data["by_size"]) == 10
    with pytest.raises(ValueError, match=r"c\.json is not a file of `bertscore-metric calibrate`"):
        Calibration.from_json('{"signature": "a:b"}', "c.json")


def test_pooling() -> None:
    """Pairs are formed within a language pair; only the same target language is pooled, and nothing twice."""
    one = calibrate(MEANS, HUMAN, SIGNATURE, "de-en")
    other = calibrate(MEANS, {**HUMAN, "e": 2}, SIGNATURE, "cs-en")
    both = pool([one, other])
    assert (len(both.pairs), both.n_systems, both.language_pairs) == (20, 10, ("de-en", "cs-en"))
    assert other.slope < both.slope < one.slope
    with pytest.raises(ValueError, match="same target language are pooled, got de, en"):
        pool([one, calibrate(MEANS, HUMAN, SIGNATURE, "en-de")])
    with pytest.raises(
        ValueError, match="needs the language pair of every calibration, such as de-en, and one has None"
    ):
        pool([one, calibrate(MEANS, HUMAN, SIGNATURE)])
    with pytest.raises(ValueError, match="The calibration is of other settings"):
        pool([one, calibrate(MEANS, HUMAN, Signature.parse("layer:2"), "cs-en")])
    with pytest.raises(ValueError, match="in two of the calibrations; add each once"):
        pool([one, one])
    with pytest.raises(ValueError, match="at least two calibrations, got 1"):
        pool([one])


@pytest.mark.parametrize(
    ("means", "human", "message"),
    [
        ({"a": 1, "b": 2}, {"a": 1, "b": 2}, "at least three judged systems, got 2"),
        (MEANS, {"a": 1, "b": 2}, "People's scores lack c, d, e; both sides must name the same systems"),
        ({"a": 1}, HUMAN, "There are no texts or scores of b, c, d, e"),
        (MEANS, dict(zip("abcde", (5, 4, 3, 2, 1), strict=True)), "People agree about every one of 10 pairs"),
        (MEANS, dict(zip("abcde", (1, 2, 3, 4, 5), strict=True)), "People disagree about every one of 10 pairs"),
    ],
)
def test_what_cannot_be_calibrated(means: dict[str, float], human: dict[str, float], message: str) -> None:
    """What no curve fits is an error in words."""
    with pytest.raises(ValueError, match=message):
        calibrate(means, human, SIGNATURE)


def test_compare_with_calibration() -> None:
    """A comparison says how often people agree, and refuses a calibration of other settings."""
    random = np.random.default_rng(0)
    systems = {name: saved((mean + 0.01 * random.normal(size=20)).tolist()) for name, mean in MEANS.items()}
    calibration = calibrate_scores(systems, HUMAN, "de-en")
    found = compare(systems, calibration=calibration)
    assert [pair.agreement for pair in found.pairs] == [calibration.agreement(pair.difference) for pair in found.pairs]
    data = found.to_dict()["pairs"][0]["agreement"]
    assert data["limits"][0] <= data["share"] <= data["limits"][1]
    other = Calibration.from_json(calibration.to_json().replace("layer:1", "layer:2"))
    with pytest.raises(ValueError, match=r"other settings.*\n.*layer:2.*\n.*layer:1"):
        compare(systems, calibration=other)
    with pytest.raises(ValueError, match="these numbers have none"):
        compare({"a": [1, 2], "b": [3, 4]}, calibration=calibration)
    with pytest.raises(ValueError, match="pass results or saved scores, not bare numbers"):
        calibrate_scores({name: [1.0, 2.0] for name in HUMAN}, HUMAN)


TEXTS = {"a": ["the cat sat", "a dog", "bananas"], "b": ["a cat", "the dog", "two"], "c": ["go", "I", "a"]}
TRUSTED = ["the cat sat", "a dog", "two bananas"]


def test_calibrate_texts() -> None:
    """Texts are scored, and then it is the same."""
    scorer = shared_scorer("bert", num_layers=2)
    results = score_systems(scorer, TEXTS, [[text] for text in TRUSTED])
    human = {"a": 1.0, "b": 2.0, "c": 0.0}
    assert calibrate_texts(scorer, TEXTS, TRUSTED, human) == calibrate_scores(results, human)


def test_judged_systems() -> None:
    """Every layer is judged by the means that `score` gives at it, idf being that of the references."""
    human = {"a": 3.0, "b": 1.0, "c": 2.0}
    at_hand = {name: saved([value]) for name, value in (("a", 0.9), ("b", 0.5), ("c", 0.6))}
    found = judge_systems(TEXTS, TRUSTED, human, model_path("bert"), others=["chrf", "ter"], saved=at_hand)
    rows = {row.name: row for row in found.metrics}
    assert len(rows) == 2 * 5 + 3
    for name, settings in (("layer 2", {}), ("layer 2, idf", {"idf": True})):
        scorer = shared_scorer("bert", num_layers=2, **settings)
        means = [scorer.score(TEXTS[system], TRUSTED).f1.double().mean().item() for system in "abc"]
        assert rows[name].pearson == pytest.approx(np.corrcoef(means, [3, 1, 2])[0, 1], abs=1e-4)
        assert rows[name].kendall == pytest.approx(stats.kendalltau(means, [3, 1, 2]).statistic)
    assert rows["saved"].accuracy == 1
    assert rows["ter"].pearson * rows["chrf"].pearson > 0  # both rise with quality
    assert json.loads(found.to_json())["metrics"][0]["n_pairs"] == 3
    assert set(found.signatures) == {"layers", "saved", "chrf", "ter"}


def test_agreement_on_systems() -> None:
    """A tie on a side counts half; a metric that gives every system the same has no correlation."""
    assert system_agreement("x", {"a": 1, "b": 1, "c": 0}, {"a": 3, "b": 2, "c": 1}).accuracy == pytest.approx(2.5 / 3)
    flat = system_agreement("x", {"a": 1, "b": 1, "c": 1}, {"a": 3, "b": 2, "c": 1})
    assert flat.accuracy == 0.5
    assert flat.to_dict()["pearson"] is None


@pytest.mark.parametrize(
    ("human", "message"),
    [
        ({"a": 1, "b": 2}, "People's scores lack c"),
        ({"a": 1, "b": 1, "c": 1}, "People gave every system the same score"),
        ({"a": 1, "b": 2, "c": 1, "d": 3}, "There are no texts or scores of d"),
    ],
)
def test_wrong_judgements(human: dict[str, float], message: str) -> None:
    """Judgements must belong to the systems and differ."""
    with pytest.raises(ValueError, match=message):
        judge_systems(TEXTS, TRUSTED, human, others=["chrf"])
    with pytest.raises(ValueError, match="at least 3, got 2"):
        judge_systems({"a": ["x"], "b": ["y"]}, ["x"], {"a": 1, "b": 2}, others=["chrf"])
    with pytest.raises(TypeError, match="num_layers= is not for judging systems"):
        judge_systems(TEXTS, TRUSTED, {"a": 1, "b": 2, "c": 3}, model_path("bert"), num_layers=1)


def test_segments_beside() -> None:
    """Other metrics are correlated with people within groups, as layers are."""
    random = np.random.default_rng(0)
    human, scores = random.normal(size=20), random.normal(size=20)
    groups = ["x"] * 8 + ["y"] * 12
    found = judge_segments({"m": scores}, human.tolist(), groups)["m"]
    wanted = [np.corrcoef(human[part], scores[part])[0, 1] for part in (slice(0, 8), slice(8, 20))]
    assert [*found["pearson"]["groups"].values()] == pytest.approx(wanted)
    assert found["pearson"]["mean"] == pytest.approx(np.mean(wanted))
    assert list(found) == ["pearson", "spearman", "kendall", "accuracy"]


def judged_systems() -> Any:
    """Return the judged systems of WMT18 de-en: texts, references and people's scores."""
    folder = DATA / "wmt18_systems" / "de-en"
    texts = {file.stem: files.read_candidates(str(file)) for file in sorted(folder.glob("*.txt"))}
    trusted, human = texts.pop("ref"), str(folder / "human.tsv")
    names = files.read_candidates(human, "system")
    return texts, trusted, dict(zip(names, files.read_numbers(human, "score"), strict=True))


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="the judged systems are not here")
def test_right_values() -> None:
    """Sixteen judged systems: the agreement by size of the difference, and that of the metric as a whole."""
    texts, trusted, human = judged_systems()
    results = score_systems(shared_scorer("minilm", num_layers=6), texts, [[text] for text in trusted])
    found = calibrate_scores(results, human, "de-en")
    rows = found.by_size()
    assert [row["n_pairs"] for row in rows] == [13, 11, 31, 65]
    assert [round(row["agree"], 2) for row in rows] == [0.77, 0.91, 0.94, 1.0]
    whole = system_agreement("f1", {name: result.mean.f1 for name, result in results.items()}, human)
    assert (whole.accuracy * whole.n_pairs, whole.n_pairs) == (114, 120)
    assert whole.pearson == pytest.approx(0.9747, abs=5e-5)
    assert whole.kendall == pytest.approx(0.9, abs=5e-3)
