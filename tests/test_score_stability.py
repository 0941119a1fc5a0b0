"""Scores stay: where one is another than at the last release, the changelog has a new **Scores** line for it."""

import json
import math

import pytest
from conftest import TOLERANCE
from write_records import CHANGELOG, RELEASE, RELEASED_MODELS, SETTINGS, release_scores, scores_lines

RELEASED = json.loads(RELEASE.read_text(encoding="utf-8"))


def changed(then: dict[str, list[list[float]]], now: dict[str, list[list[float]]]) -> list[str]:
    """Return the cases of which a number is another than it was, or is missing."""
    return [
        case
        for case in then.keys() | now.keys()
        if [len(row) for row in then.get(case, [])] != [len(row) for row in now.get(case, [])]
        or any(
            not math.isclose(a, b, rel_tol=0, abs_tol=TOLERANCE)
            for rows in zip(then[case], now[case], strict=True)
            for a, b in zip(*rows, strict=True)
        )
    ]


def unannounced(cases: list[str], changelog: str, announced: list[str]) -> str:
    """Return what a change of scores lacks: nothing, where the changelog has a line that it did not have then."""
    if not cases or set(scores_lines(changelog)) - set(announced):
        return ""
    return (
        f"The scores of {', '.join(sorted(cases))} are others than at release {RELEASED['version']}. If that is meant, "
        f"say in CHANGELOG.md, in a line that begins with **Scores**, which scores change and why."
    )


@pytest.mark.parametrize("name", RELEASED_MODELS)
def test_scores_of_the_last_release(name: str) -> None:
    """The scores of every golden model are those of the last release, or the changelog says otherwise."""
    cases = changed(RELEASED["scores"][name], release_scores(name))
    lacking = unannounced(cases, CHANGELOG.read_text(encoding="utf-8"), RELEASED["announced"])
    assert not lacking, f"{name}: {lacking}"


def test_every_model_is_in_the_release() -> None:
    """Every tiny model and the embedded one has scores at the last release."""
    assert list(RELEASED["scores"]) == [*SETTINGS, "minilm"]


def test_announcements_stay() -> None:
    """Lines that announced other scores are never taken out of the changelog again."""
    assert RELEASED["announced"]
    assert set(RELEASED["announced"]) <= set(scores_lines(CHANGELOG.read_text(encoding="utf-8")))


ONE = {"plain": [[0.5, 0.25], [0.5, 0.25], [0.5, 0.25]]}
LOG = "# Changelog\n\n## 0.2.0\n\n- **Scores** of T5 are\n  higher.\n- Faster.\n\n## 0.1.0\n\n- **Scores** are those.\n"


def test_a_changed_score_is_seen() -> None:
    """A change beyond the tolerance, a missing number and a missing case are changes; rounding is not."""
    assert changed(ONE, ONE) == []
    assert changed(ONE, {"plain": [[0.5, 0.2500005], *ONE["plain"][1:]]}) == []
    assert changed(ONE, {"plain": [[0.5, 0.250002], *ONE["plain"][1:]]}) == ["plain"]
    assert changed(ONE, {"plain": [[0.5], [0.5], [0.5]]}) == ["plain"]
    assert changed(ONE, {}) == ["plain"]
    assert changed(ONE, {"plain": [[math.nan, 0.25], *ONE["plain"][1:]]}) == ["plain"]


def test_a_change_needs_a_new_line() -> None:
    """A change passes with a line that was not there at the release, and with no other."""
    assert scores_lines(LOG) == ["**Scores** of T5 are higher.", "**Scores** are those."]
    assert unannounced(["plain"], LOG, ["**Scores** are those."]) == ""
    assert unannounced([], LOG, scores_lines(LOG)) == ""
    lacking = unannounced(["plain"], LOG, scores_lines(LOG))
    assert lacking.endswith("in a line that begins with **Scores**, which scores change and why.")
    assert unannounced(["plain"], "- faster, and **Scores** are better", [])
