"""Draws the pictures of README and the card: `python tests/pictures.py`."""

from pathlib import Path

from playwright.sync_api import expect
from space import DESKTOP, ROOT, chromium, running_space

from bertscore_metric import BERTScorer

CANDIDATE = "The bridge was closed because of strong winds."
REFERENCE = "Strong winds forced the bridge to close."
HEAT_MAP = ROOT / "hub_card" / "heat_map.png"
PAGE = ROOT / "hub_card" / "page.png"


def draw_heat_map(file: Path) -> None:
    """Draw the example's similarities."""
    BERTScorer("offline").explain(CANDIDATE, REFERENCE).plot().savefig(file, dpi=90)


def photograph_page(file: Path) -> None:
    """Take a picture of the Space with the example's scores."""
    with running_space() as address, chromium() as browser:
        page = browser.new_page(viewport={**DESKTOP, "height": 1040})
        page.goto(address)
        page.get_by_role("button", name="Score", exact=True).click()
        expect(page.frame_locator("iframe").locator(".token").first).to_be_visible(timeout=60_000)
        page.mouse.move(0, 0)
        page.wait_for_timeout(1_000)  # what is new fades in
        page.screenshot(path=file)


if __name__ == "__main__":
    draw_heat_map(HEAT_MAP)
    photograph_page(PAGE)
