"""Pairwise accuracy with calibrated ties, beside its definition and on real judgements."""

from itertools import combinations

import numpy as np
import pytest
from conftest import DATA, shared_scorer

from bertscore_metric.analysis import correlation
from bertscore_metric.analysis.correlation import correlations, pairwise_accuracy
from bertscore_metric.io import files


def every_threshold(scores: np.ndarray, human: np.ndarray) -> tuple[float, float]:
    """Return the best accuracy and the smallest threshold that gives it, trying the difference of every pair."""
    pairs = [(scores[i] - scores[j], human[i] - human[j]) for i, j in combinations(range(len(scores)), 2)]
    right = {limit: sum((abs(s) <= limit) == (t == 0) and (t == 0 or s * t > 0) for s, t in pairs) / len(pairs)
             for limit in sorted({0.0, *(abs(s) for s, _ in pairs)})}  # fmt: skip
    best = max(right.values())
    return best, min(limit for limit, share in right.items() if share == best)


@pytest.mark.parametrize("pairs_at_once", [5, 2**22])
def test_definition(monkeypatch: pytest.MonkeyPatch, pairs_at_once: int) -> None:
    """It is the best over all thresholds, however many pairs are looked at together."""
    monkeypatch.setattr(correlation, "_PAIRS_AT_ONCE", pairs_at_once)
    random = np.random.default_rng(0)
    for n in [2, 3, 5, 9, 12] * 5:
        scores, human = random.normal(size=n).round(1), random.normal(size=n).round()
        found = pairwise_accuracy(scores, human)
        assert (found.accuracy, found.threshold) == pytest.approx(every_threshold(scores, human))
        assert found.accuracy >= found.uncalibrated
        assert found.n_pairs == n * (n - 1) / 2


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="the human judgements are not here")
def test_right_values() -> None:
    """WMT17: the mean correlations over seven language pairs, and the accuracy with scores of people in halves."""
    data = str(DATA / "human" / "wmt17_da_seg_to_en.tsv")
    human, pair = np.array(files.read_numbers(data, "human_da_z")), np.array(files.read_candidates(data, "lp"))
    texts = files.read_candidates(data, "hypothesis"), files.read_references([data], ["reference"])
    f1 = shared_scorer("minilm", num_layers=5).score(*texts).f1.double().numpy()
    members = [np.flatnonzero(pair == name) for name in dict.fromkeys(pair)]
    pearson, _, kendall, _ = correlations(f1[None], human, members)[0].mean(-1)
    assert pearson == pytest.approx(0.59283, abs=1e-5)
    assert kendall == pytest.approx(0.41967, abs=1e-5)
    czech = members[list(dict.fromkeys(pair)).index("cs-en")]
    halves = np.round(2 * human[czech]) / 2
    assert correlations(f1[None, czech], halves, [np.arange(560)])[0, 2, 0] == pytest.approx(0.364094, abs=2e-6)
    found = pairwise_accuracy(f1[czech], halves)
    assert found.accuracy == pytest.approx(0.545036, abs=1e-6)
    # Scores that are equal but for rounding (three texts like their references) move it by a pair or two.
    assert found.uncalibrated == pytest.approx(0.544991, abs=2 / found.n_pairs)
    assert found.threshold == pytest.approx(3.87e-6, abs=2e-7)
