"""Draws the pictures of README, the card and the documents: `python tests/pictures.py`."""

import io
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, expect
from rich.console import Console
from rich.text import Text
from space import DESKTOP, PHONE, ROOT, chromium, running_space

from bertscore_metric import BERTScorer

CANDIDATE = "The bridge was closed because of strong winds."
REFERENCE = "Strong winds forced the bridge to close."
HEAT_MAP = ROOT / "hub_card" / "heat_map.png"
PAGE = ROOT / "hub_card" / "page.png"
PAGE_ON_A_PHONE = ROOT / "docs" / "page_phone.png"
REPORT = ROOT / "docs" / "report.png"
REPORT_ON_A_PHONE = ROOT / "docs" / "report_phone.png"
TERMINAL = ROOT / "docs" / "terminal.svg"
EXAMPLE = ROOT / "bertscore_metric" / "example"
SCORE = "score -m offline -c candidates.txt -r references.1.txt references.2.txt"


def draw_heat_map(file: Path) -> None:
    """Draw the example's similarities."""
    BERTScorer("offline").explain(CANDIDATE, REFERENCE).plot().savefig(file, dpi=90)


@contextmanager
def scored_page(size: dict[str, int]) -> Iterator[Page]:
    """Open the Space with the example's scores."""
    with running_space() as address, chromium() as browser:
        page = browser.new_page(viewport=size)
        page.goto(address)
        page.get_by_role("button", name="Score", exact=True).click()
        expect(page.frame_locator("iframe").locator(".token").first).to_be_visible(timeout=60_000)
        page.mouse.move(0, 0)
        page.wait_for_timeout(1_000)  # what is new fades in
        yield page


def photograph_page(file: Path, size: dict[str, int]) -> None:
    """Take a picture of the Space with the example's scores."""
    with scored_page(size) as page:
        page.evaluate("scrollTo(0, 0)")
        page.screenshot(path=file)


def photograph_report(file: Path, size: dict[str, int]) -> None:
    """Take a picture of the shipped example's report."""
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        report = Path(folder) / "report.html"
        command_line(f"{SCORE} -q --report {report} --worst 3")
        page = browser.new_page(viewport=size)
        page.goto(report.as_uri())
        page.screenshot(path=file)


def command_line(words: str) -> str:
    """Run the command line in the folder of the example."""
    command = [sys.executable, "-m", "bertscore_metric", *words.split()]
    return subprocess.run(command, cwd=EXAMPLE, check=True, capture_output=True, text=True).stdout


def draw_terminal(file: Path) -> None:
    """Draw what a terminal shows of a few commands."""
    console = Console(record=True, width=112, file=io.StringIO())
    for words in ("score -m offline -c candidates.txt references.2.txt -r references.1.txt -q --digits 4",
                  f"{SCORE} -q --worst 3 --digits 4"):  # fmt: skip
        console.print(Text(f"$ bertscore-metric {words}", style="bold"))
        for line in command_line(words).splitlines():
            dim = re.match(r"model:|# signature", line)
            console.print(Text(line.replace("\t", "  "), style="dim" if dim else ""), overflow="fold")
        console.print()
    file.write_text(console.export_svg(title="bertscore-metric"), encoding="utf-8")


if __name__ == "__main__":
    draw_heat_map(HEAT_MAP)
    photograph_page(PAGE, {**DESKTOP, "height": 1340})
    photograph_page(PAGE_ON_A_PHONE, {**PHONE, "height": 2000})
    photograph_report(REPORT, {**DESKTOP, "height": 1100})
    photograph_report(REPORT_ON_A_PHONE, {**PHONE, "height": 1500})
    draw_terminal(TERMINAL)
