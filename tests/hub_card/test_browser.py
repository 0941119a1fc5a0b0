"""The Space and the pages that explain, in a real browser."""

import csv
import json
import urllib.request
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from conftest import shared_scorer
from playwright.sync_api import Browser, Locator, Page, expect
from space import CHROMIUM, DESKTOP, PHONE, ROOT, chromium, running_space

from bertscore_metric import BERTScorer, score
from bertscore_metric.analysis.report_page import report_page

PINS = (ROOT / ".ci" / "constraints.txt").read_text(encoding="utf-8")

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="needs a browser: apt install chromium"),
    pytest.mark.skipif(f"gradio=={version('gradio')}" not in PINS, reason="the Space runs with the gradio of its card"),
    pytest.mark.xdist_group("browser"),  # one browser and one Space for all of them
]

C = "The bridge was closed because of strong winds."
R = ["They shut the bridge on account of the high wind.", "Strong winds forced the bridge to close."]
HOSTILE = (
    "<script>window.__hacked = 1</script><img src=x onerror='window.__hacked = 1'>"
    '"><svg onload=window.__hacked=1> ${window.__hacked = 1} {{constructor}} </iframe></textarea>'
)
expect.set_options(timeout=30_000)  # the machine may be busy


@pytest.fixture(scope="module")
def space() -> Iterator[str]:
    """Return the address of the Space."""
    with running_space() as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Return the browser."""
    with chromium() as running:
        yield running


@pytest.fixture
def page(browser: Browser, space: str) -> Iterator[Page]:
    """Return the Space as a new user sees it; nothing it asks for is elsewhere."""
    with browser.new_context(viewport=DESKTOP) as context:
        page = context.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(space)
        yield page
        assert [url for url in asked if not url.startswith((space, "data:", "blob:"))] == []


def panel(page: Page) -> Locator:
    """Return the tab that is open."""
    return page.get_by_role("tabpanel")


def fill(page: Page, **texts: str) -> None:
    """Type into the fields of the open tab."""
    for label, text in texts.items():
        panel(page).get_by_label(label.replace("_", " ")).first.fill(text)


def open_settings(page: Page) -> None:
    """Open what most users leave as it is."""
    panel(page).get_by_role("button", name="Settings").click()


def click(page: Page, name: str) -> None:
    """Click on a button of the open tab."""
    panel(page).get_by_role("button", name=name, exact=True).click()


def expect_text(page: Page, label: str, text: str) -> None:
    """Wait for a text in a field of the open tab."""
    expect(panel(page).get_by_label(label, exact=True)).to_have_value(text)


def expect_scores(page: Page, candidate: str, references: list[str], **settings: object) -> None:
    """Wait for the numbers that the package gives for a text, to the printed digit."""
    result = score([candidate], [references], "offline", **settings)
    for label, value in zip(("Precision", "Recall", "F1"), result, strict=True):
        expect_text(page, label, f"{value.item():.6f}")
    number = int(result.best_reference)
    expect_text(page, "Best reference", f"{number + 1}: {references[number]}")
    expect_text(page, "Signature, to be reported with every score", str(result.signature))


def expect_message(page: Page, text: str) -> None:
    """Wait for an error in words, and close it."""
    message = page.get_by_test_id("toast-body")
    expect(message).to_contain_text(text)
    assert "Traceback" not in message.inner_text()
    message.get_by_test_id("toast-close").click()
    expect(message).to_have_count(0)


def hacked(page: Page) -> list[object]:
    """Return what code in a text would have left in the page or in one of its frames."""
    return [frame.evaluate("window.__hacked") for frame in page.frames]


def test_text(page: Page) -> None:
    """What is typed is scored as by the package; heat map, explanation and guide are there."""
    fill(page, Candidate=C, References="\n".join(R))
    click(page, "Score")
    expect_scores(page, C, R)
    picture = panel(page).locator(".heat-map img")
    expect(picture).to_be_visible()
    assert picture.evaluate("image => image.naturalWidth") > 400
    explanation = panel(page).frame_locator("iframe")
    bridge = explanation.locator("[data-side=candidate] .token", has_text="bridge")
    bridge.hover()
    pair = shared_scorer("minilm").explain(C, R)
    row = pair.candidate_tokens.index("bridge")
    cosine = float(pair.similarity[row, pair.candidate_match[row]])
    expect(explanation.locator(".tip")).to_contain_text(f"bridge: matches bridge, cosine {cosine:.4f}")
    expect(explanation.locator(".matched")).to_have_text("bridge")

    open_settings(page)
    fill(page, Layer="5", Texts_to_count_idf_in="strong winds\n\na bridge\nthe wind")
    click(page, "Score")
    expect_scores(page, C, R, num_layers=5, idf=["strong winds", "a bridge", "the wind"])
    page.get_by_role("button", name="How to read it").click()
    expect(page.get_by_role("cell", name="a paraphrase")).to_be_visible()


def test_api(space: str) -> None:
    """Programs find what goes in and what comes out under names of their own."""
    with urllib.request.urlopen(f"{space}/gradio_api/info") as answer:
        described = json.load(answer)["named_endpoints"]
    assert set(described) == {"/score_text", "/score_file"}
    assert [one["label"] for one in described["/score_text"]["returns"]] == [
        "Precision", "Recall", "F1", "Best reference", "Notes", "Heat map", "Explanation",
        "Signature, to be reported with every score",
    ]  # fmt: skip
    names = [one["parameter_name"] for one in described["/score_text"]["parameters"]]
    assert names == ["candidate", "references", "model", "layer", "idf_texts", "rescale", "language"]


def test_bad_input(page: Page, tmp_path: Path) -> None:
    """Errors are sentences; what users wrote stands in them as text."""
    fill(page, Candidate=C, References=" \n")
    click(page, "Score")
    expect_message(page, "Type at least one reference, one a line.")
    open_settings(page)
    fill(page, References=R[0], Layer="99")
    click(page, "Score")
    expect_message(page, "layer 99, but sentence-transformers/all-MiniLM-L6-v2 has 6 layers (0 to 6).")
    fill(page, Layer="<img src=x onerror=window.__hacked=1>")
    click(page, "Score")
    expect_message(page, "or empty for the model's best; got '<\u2060img src=x onerror=window.__hacked=1>'.")
    page.get_by_role("tab", name="Score a file").click()
    click(page, "Score the file")
    expect_message(page, "Upload a file: .tsv, .csv or .jsonl")
    broken = tmp_path / "broken.csv"
    broken.write_text("candidate,reference\na,b,c\n")
    panel(page).get_by_test_id("file-upload").first.set_input_files(broken)
    expect(panel(page).get_by_label("Column of candidates")).to_have_value("candidate")
    click(page, "Score the file")
    expect_message(page, "broken.csv, line 2: 3 cells, but the header has 2 columns.")
    assert not any(hacked(page))


def test_nothing_old_beside_an_error(page: Page, tmp_path: Path) -> None:
    """After an error no result of an earlier run is shown."""
    click(page, "Score")
    expect(panel(page).locator(".heat-map img")).to_be_visible()
    fill(page, Candidate=" ")
    click(page, "Score")
    expect_message(page, "Type a candidate")
    for label in ("Precision", "Recall", "F1", "Best reference", "Signature, to be reported with every score"):
        expect_text(page, label, "")
    expect(panel(page).locator(".heat-map img")).to_have_count(0)
    expect(panel(page).locator("iframe")).to_have_count(0)
    expect(panel(page).get_by_label("Notes")).to_have_count(0)
    page.get_by_role("tab", name="Score a file").click()
    file = tmp_path / "pairs.csv"
    file.write_text("candidate,reference\na cat,a dog\n", encoding="utf-8")
    panel(page).get_by_test_id("file-upload").first.set_input_files(file)
    expect(panel(page).get_by_text("reference", exact=True)).to_be_visible()
    click(page, "Score the file")
    expect(panel(page).get_by_role("gridcell").filter(has_text="a dog").first).to_be_visible()
    open_settings(page)
    fill(page, Layer="x")
    click(page, "Score the file")
    expect_message(page, "The layer must be a whole number")
    expect_text(page, "Mean F1", "")
    expect(panel(page).get_by_role("gridcell").filter(has_text="a dog")).to_have_count(0)
    expect(panel(page).get_by_role("button", name="Download all scores (CSV)")).to_have_count(0)


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_heat_map_is_readable(page: Page, size: dict[str, int]) -> None:
    """A heat map is as wide as its tokens need, and scrolls from its first to its last column."""
    page.set_viewport_size(size)
    for words, width in ((8, 400), (110, 1_800)):
        fill(page, Candidate="a cat", References=" ".join(f"w{number}" for number in range(words // 2)))
        click(page, "Score")
        wide = "width => document.querySelector('.heat-map img')?.getBoundingClientRect().width > width"
        page.wait_for_function(wide, arg=width)
        places = """box => {
            const image = box.querySelector("img"), edges = [];
            for (const left of [0, 1e6]) {
                box.scrollLeft = left;
                const [inner, outer] = [image.getBoundingClientRect(), box.getBoundingClientRect()];
                edges.push(left ? outer.right - inner.right : inner.left - outer.left);
            }
            return edges;
        }"""
        left, right = panel(page).locator(".heat-map").evaluate(places)
        assert left >= 0
        assert right >= 0


def test_file(page: Page, tmp_path: Path) -> None:
    """An uploaded table is scored as by the package, shown, and downloaded."""
    candidates, references = [C, HOSTILE, "a cat"] * 30, [R[0], "a script", HOSTILE] * 30
    file = tmp_path / "pairs.tsv"
    rows = zip(candidates, references, strict=True)
    file.write_text("output\treference\n" + "".join(f"{one}\t{other}\n" for one, other in rows), encoding="utf-8")
    page.set_viewport_size(PHONE)
    page.get_by_role("tab", name="Score a file").click()
    panel(page).get_by_test_id("file-upload").first.set_input_files(file)
    expect(panel(page).get_by_text("reference", exact=True)).to_be_visible()  # chosen, for its name says what it is
    panel(page).get_by_label("Column of candidates").click()
    page.get_by_role("option", name="output").click()
    open_settings(page)
    panel(page).get_by_label("Weigh by idf").check()
    click(page, "Score the file")
    result = score(candidates, references, "offline", idf=True)
    for name in ("precision", "recall", "f1"):
        label = {"precision": "Mean P", "recall": "Mean R", "f1": "Mean F1"}[name]
        expect_text(page, label, f"{getattr(result.mean, name):.6f} ± {getattr(result.std, name):.6f}")
    cells = panel(page).get_by_role("gridcell").filter(visible=True)
    worst = int(result.f1.argmin())
    expect(cells.filter(has_text=f"{round(result.f1[worst].item(), 6)}").first).to_be_visible()
    expect(cells.filter(has_text=HOSTILE).first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    with page.expect_download() as download:
        click(page, "Download all scores (CSV)")
    assert download.value.suggested_filename == "pairs.bertscore.csv"
    with Path(download.value.path()).open(encoding="utf-8", newline="") as stream:
        table = list(csv.DictReader(stream))
    assert [row["row"] for row in table] == [str(number) for number in range(1, 91)]
    for name, values in (("precision", result.precision), ("recall", result.recall), ("f1", result.f1)):
        assert [float(row[name]) for row in table] == pytest.approx(values.tolist(), abs=2e-6)
    assert not any(hacked(page))


def test_hostile_text(page: Page) -> None:
    """Code in a text is text, in every part of the page."""
    fill(page, Candidate=HOSTILE, References=f"{HOSTILE} {HOSTILE}")
    click(page, "Score")
    expect_scores(page, HOSTILE, [f"{HOSTILE} {HOSTILE}"])
    expect(panel(page).frame_locator("iframe").locator("[data-side=candidate]")).to_contain_text("script > window")
    assert len(page.frames) == 2
    assert hacked(page) == [None, None]


def test_pages_of_hostile_text(browser: Browser, tmp_path: Path) -> None:
    """Nothing in a text runs on the page of an explanation or a corpus; pointing at a token shows its match."""
    scorer: BERTScorer = shared_scorer("minilm")
    candidates, references = [HOSTILE, C], [[HOSTILE + " x"], R]
    pages = {
        "explanation.html": scorer.explain(HOSTILE, HOSTILE).to_html(),
        "report.html": report_page(scorer.score(candidates, references), scorer, candidates, references),
    }
    for name, text in pages.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        with browser.new_context() as context:
            page = context.new_page()
            asked: list[str] = []
            page.on("request", lambda request, asked=asked: asked.append(request.url))
            page.goto((tmp_path / name).as_uri())
            pair = page.locator(".pair", has_text="window")
            pair.locator(".token", has_text="script").first.hover()
            expect(pair.locator(".tip")).to_contain_text("script: matches script, cosine")
            assert hacked(page) == [None]
            assert page.locator("script").count() == (2 if name == "report.html" else 1)  # our own
            assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_report(browser: Browser, tmp_path: Path, size: dict[str, int]) -> None:
    """A phone shows the first of the worst segments and a heading of the others; a link opens the one it leads to."""
    scorer: BERTScorer = shared_scorer("minilm")
    candidates, references = [C, "a cat", "a dog ran"], [[C], ["the winds"], ["it rains"]]
    file = tmp_path / "report.html"
    file.write_text(report_page(scorer.score(candidates, references), scorer, candidates, references), encoding="utf-8")
    with browser.new_context(viewport=size) as context:
        page = context.new_page()
        page.goto(file.as_uri())
        shown = page.locator(".worst .originals:visible")
        expect(shown).to_have_count(1 if size == PHONE else 3)
        page.locator('a[href="#segment-0"]').click()
        expect(page.locator("#segment-0 .originals")).to_be_visible()
        expect(shown).to_have_count(2 if size == PHONE else 3)
        assert page.evaluate("document.documentElement.scrollWidth") == size["width"]


def test_two_users(browser: Browser, space: str) -> None:
    """Two users who click at the same time get their own numbers."""
    texts = [(C, R), ("a cat sat on the mat", ["the cat sat on a mat"])]
    with browser.new_context() as first, browser.new_context() as second:
        pages = [context.new_page() for context in (first, second)]
        for page, (candidate, references) in zip(pages, texts, strict=True):
            page.goto(space)
            fill(page, Candidate=candidate, References="\n".join(references))
        for page in pages:
            panel(page).get_by_role("button", name="Score", exact=True).click(no_wait_after=True)
        for page, (candidate, references) in zip(pages, texts, strict=True):
            expect_scores(page, candidate, references)


def without_scroll_bar(page: Page, seconds: float = 20) -> bool:
    """Return whether the explanation's frame, once it is looked at, becomes as high as what is in it.

    A browser does not tell a frame that is out of sight that its size has changed.
    """
    page.locator(".explanation iframe").scroll_into_view_if_needed()
    for _ in range(int(10 * seconds)):
        element = page.locator(".explanation iframe").element_handle()
        frame = element.content_frame() if element else None
        if element and frame:
            heights = "({offsetHeight, scrollHeight}) => [offsetHeight, scrollHeight]"
            inner, scrolled = frame.locator("html").evaluate(heights)
            outer = element.evaluate("frame => frame.clientHeight")
            if abs(outer - inner) < 3 and scrolled <= outer + 1:
                return True
        page.wait_for_timeout(100)
    return False


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_where_results_are(page: Page, size: dict[str, int]) -> None:
    """Results begin beside the inputs, on a phone below the button; nothing of an explanation scrolls on its own."""
    page.set_viewport_size(size)
    click(page, "Score")
    expect(panel(page).frame_locator("iframe").locator(".token").first).to_be_visible()
    button = panel(page).get_by_role("button", name="Score", exact=True).bounding_box()
    result = panel(page).get_by_label("Precision", exact=True).bounding_box()
    examples = panel(page).get_by_text("Examples").bounding_box()
    assert button
    assert result
    assert examples
    assert examples["y"] < button["y"]
    if size == PHONE:
        assert 0 < result["y"] - (button["y"] + button["height"]) < 100
    else:
        assert result["x"] > button["x"] + button["width"]
        assert result["y"] < button["y"]
    assert without_scroll_bar(page)
    box = panel(page).locator(".heat-map").bounding_box()
    image = panel(page).locator(".heat-map img").bounding_box()
    assert box
    assert image
    assert box["x"] <= image["x"]  # its left edge, where tokens and legend are, is in sight


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_widths(page: Page, size: dict[str, int]) -> None:
    """Nothing is wider than the window, before and after there are results."""
    page.set_viewport_size(size)
    click(page, "Score")
    expect(panel(page).frame_locator("iframe").locator(".token").first).to_be_visible()
    for tab in ("Score a text", "Score a file"):
        page.get_by_role("tab", name=tab).click()
        expect(panel(page).get_by_label("Model")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") == size["width"]
