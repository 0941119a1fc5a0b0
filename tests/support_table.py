"""The table of supported architectures in the hub card: `python tests/support_table.py` writes it anew.

A cell says yes where `test_architectures.py` runs that check for that architecture, so it holds as long as tests pass.
"""

import json

import test_architectures as checks
from architectures import ARCHITECTURES, Architecture
from conftest import TESTS

CARD = TESTS.parent / "hub_card" / "README.md"
BEGIN, END = "<!-- supported architectures: begin -->\n", "<!-- supported architectures: end -->\n"
# column -> the test that checks it
PROPERTIES = {
    "layers": checks.test_layers,
    "all layers": checks.test_all_layers,
    "batches": checks.test_batches,
    "odd texts": checks.test_odd_texts,
    "odd tokenizers": checks.test_odd_tokenizers,
    "from a folder": checks.test_folder,
}


def table() -> str:
    """Return the table in Markdown."""
    header = ["architecture", *PROPERTIES, "cut at", "bert_score's values", "transformers 4.57"]
    lines = [header, ["---"] * len(header)]
    lines += [row(name, one, with_golden_values()) for name, one in ARCHITECTURES.items()]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def row(name: str, one: Architecture, golden: set[str]) -> list[str]:
    """Return the cells of an architecture."""
    checked = ["yes" if name in checked_by(test) else "" for test in PROPERTIES.values()]
    both = "same numbers" if name in checks.VERSIONS else "untested"
    return [
        name,
        *checked,
        "never" if one.limit is None else "its table",
        "yes" if name in golden else "",
        both,
    ]


def checked_by(test: object) -> list[str]:
    """Return the architectures over which a test is parametrized."""
    marks = [mark for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize" and mark.args[0] == "name"]
    return [name for mark in marks for name in mark.args[1]]


def with_golden_values() -> set[str]:
    """Return the architectures for which `tests/golden` has values of bert_score."""
    files = [json.loads((TESTS / "golden" / f"bert_score_transformers{v}.json").read_text()) for v in (4, 5)]
    return {name for file in files for name in file} & set(ARCHITECTURES)


def in_card() -> str:
    """Return the table as it stands in the card."""
    return CARD.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]


if __name__ == "__main__":
    before, _, rest = CARD.read_text(encoding="utf-8").partition(BEGIN)
    CARD.write_text(before + BEGIN + table() + END + rest.partition(END)[2], encoding="utf-8")
