"""Values that tests compare with: `python tests/write_records.py` writes them anew, from the repository's root.

Without arguments it writes what `bertscore-metric verify` compares with: the shipped values of the embedded model, and
those of the tiny models in `tests/records`. Do that when a change of values is meant.

With `release` it writes `tests/golden/release_scores.json`, the scores that the changelog has to account for from then
on. Do that at a release, and never in between.
"""

import json
import re
import sys
import warnings
from pathlib import Path
from typing import Any

from conftest import MODELS, TESTS, model_path

from bertscore_metric import BERTScorer, __version__
from bertscore_metric.analysis.verification import record
from bertscore_metric.registry.verification import shipped_values

RECORDS = TESTS / "records"
RELEASE = TESTS / "golden" / "release_scores.json"
CHANGELOG = TESTS.parent / "CHANGELOG.md"
BASELINE = "tests/golden/baseline.csv"

# tiny model -> settings beside its layer, so that together they have every kind
SETTINGS: dict[str, dict[str, Any]] = {
    "albert": {"empty": "skip"},
    "bart": {},
    "bert": {"idf": {"default": 2.0, "7": 0.5}},
    "deberta": {"max_length": 32, "long_text": "windows"},
    "deberta-v3-nomax": {"max_length": 64},
    "distilbert": {"rescale_with_baseline": True, "baseline_path": BASELINE},
    "gpt2": {"match_special_tokens": False},
    "llama": {},
    "longformer": {"idf": ["the cat sat", "a dog"]},
    "modernbert": {"dtype": "bfloat16"},
    "roberta": {"idf": True},
    "roberta-prefix": {},
    "t5": {"all_layers": True},
    "xlm-roberta": {},
    "xlnet": {"max_length": 64},
}
# What every release is accounted for, on the texts of the golden values: case -> settings
CASES: dict[str, dict[str, Any]] = {"plain": {}, "idf": {"idf": True}, "all_layers": {"all_layers": True}}
RELEASED_MODELS = [*SETTINGS, "minilm"]


def settings_of(name: str) -> dict[str, Any]:
    """Return the settings under which a tiny model's values are recorded."""
    layer = {} if SETTINGS[name].get("all_layers") else {"num_layers": 2}
    return {**layer, **SETTINGS[name]}


def release_scores(name: str) -> dict[str, list[list[float]]]:
    """Return P, R and F1 of the golden texts, case by case, with one reference each and with several."""
    inputs = json.loads((TESTS / "golden" / "bert_score_transformers4.json").read_text(encoding="utf-8"))["_meta"][
        "inputs"
    ]
    found = {}
    for case, settings in CASES.items():
        layer = {} if "all_layers" in settings else {"num_layers": 2}
        scorer = BERTScorer(model_path(name), **layer, **settings)
        for texts, (candidates, references) in {"": ("C", "R"), ", several references": ("MR_C", "MR_R")}.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = scorer.score(inputs[candidates], inputs[references])
            found[case + texts] = [[round(value, 7) for value in column.flatten().tolist()] for column in result]
    return found


def scores_lines(changelog: str) -> list[str]:
    """Return the entries of a changelog that announce other scores, each in one line."""
    entries = re.findall(r"^- \*\*Scores\*\*.*(?:\n {2,}.*)*", changelog, flags=re.MULTILINE)
    return [" ".join(entry.removeprefix("- ").split()) for entry in entries]


def write_records() -> None:
    """Write the values that `verify` compares with."""
    RECORDS.mkdir(exist_ok=True)
    for name in SETTINGS:
        folder = (MODELS / name).relative_to(Path.cwd())  # a name that is the same on every machine
        values = record(BERTScorer(str(folder), **settings_of(name)))
        (RECORDS / f"{name}.json").write_text(values.to_json(), encoding="utf-8", newline="\n")
    (shipped,) = shipped_values()
    Path(str(shipped)).write_text(record(BERTScorer("offline")).to_json(), encoding="utf-8", newline="\n")


def write_release() -> None:
    """Write the scores of this release, and what the changelog had announced by then."""
    content = {
        "version": __version__,
        "announced": scores_lines(CHANGELOG.read_text(encoding="utf-8")),
        "scores": {name: release_scores(name) for name in RELEASED_MODELS},
    }
    text = json.dumps(content, ensure_ascii=False, indent=1)
    text = re.sub(r"\[\s+(-?\d[^\[\]]*?)\s+\]", lambda row: f"[{' '.join(row[1].split())}]", text)  # a row in a line
    RELEASE.write_text(text + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    write_release() if sys.argv[1:] == ["release"] else write_records()
