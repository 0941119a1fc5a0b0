"""Documents are tests: what README, the pages and the configs show is run, and what they print is compared."""

import contextlib
import io
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import datasets
import evaluate
import pytest
from conftest import TESTS

from bertscore_metric import BERTScorer, ScoreConfig, cli
from bertscore_metric.config import shipped_configs

ROOT = TESTS.parent
DOCS = ROOT / "docs"
PAGES = {file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8")
         for file in [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]}  # fmt: skip
NUMBER = re.compile(r"\d+\.\d{4,}")


def blocks(language: str, text: str) -> list[str]:
    """Return the fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


def command_line(arguments: list[str]) -> str:
    """Run the command line in this process and return what it printed."""
    output = io.StringIO()
    output.reconfigure = lambda **_: None  # type: ignore[attr-defined]
    with contextlib.redirect_stdout(output), pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    assert stop.value.code == 0
    return output.getvalue()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the files that the commands make and read, as the current one."""
    made = re.findall(r"^printf '(.*)' > (\S+)$", PAGES["docs/command_line.md"], flags=re.MULTILINE)
    assert [name for _, name in made] == ["candidates.txt", "references.txt", "pairs.tsv"]
    for text, name in made:  # as printf does it, also where there is no shell
        (tmp_path / name).write_text(text.replace("\\n", "\n").replace("\\t", "\t"), encoding="utf-8")
    shutil.copytree(ROOT / "hub_card", tmp_path / "hub_card")
    monkeypatch.chdir(tmp_path)
    for name in ("HF_METRICS_CACHE", "HF_MODULES_CACHE"):  # what evaluate writes
        monkeypatch.setattr(evaluate.config, name, str(tmp_path / name))
    monkeypatch.setattr(sys, "path", [*sys.path])  # its loader adds a folder
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "datasets")
    return tmp_path


@pytest.mark.filterwarnings("ignore::bertscore_metric.BERTScoreWarning")
@pytest.mark.filterwarnings("ignore::lightning.fabric.utilities.warnings.PossibleUserWarning")  # its advice on speed
@pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec:FutureWarning")  # Lightning with a newer torch
@pytest.mark.parametrize("page", [page for page, text in PAGES.items() if blocks("python", text)])
def test_python(folder: Path, page: str) -> None:
    """A page's Python runs from top to bottom in one session."""
    session: dict[str, object] = {}
    for block in blocks("python", PAGES[page]):
        exec(compile(block, page, "exec"), session)


def test_numbers_that_the_text_promises() -> None:
    """The encoder of the page on extending gives the word-piece overlap that its comment says."""
    session: dict[str, Any] = {}
    exec(blocks("python", PAGES["docs/extending.md"])[0], session)
    assert session["exact"].score("the cat sat", "the cat stood").f1.item() == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    "block",
    sorted({block for text in PAGES.values() for block in blocks("console", text)}),
    ids=lambda block: block.split("\n")[0][2:60],
)
def test_console(folder: Path, block: str) -> None:
    """Commands print what the pages show; versions may differ, and numbers in the fifth digit."""
    command, shown = block.split("\n", 1)
    words = shlex.split(command.removeprefix("$ bertscore-metric "))
    printed = command_line(words)

    def neutral(text: str) -> str:
        return NUMBER.sub("#", re.sub(r"(transformers|bertscore_metric):[^|\"\n]+", r"\1:#", text))

    assert neutral(printed) == neutral(shown)
    got, expected = ([float(number) for number in NUMBER.findall(text)] for text in (printed, shown))
    assert got == pytest.approx(expected, abs=5e-5)


def test_command_help(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page on the command line has every command's `--help`, as it is printed."""
    monkeypatch.syspath_prepend(str(DOCS))
    from command_help import command_help

    monkeypatch.setenv("COLUMNS", "92")  # two are left free at the edge
    helps = command_help(90)
    assert len(helps) >= 8
    assert helps == {command: command_line([command, "--help"]) for command in helps}
    assert "```{command-help}\n```" in PAGES["docs/command_line.md"]


def test_settings_page_names_every_setting() -> None:
    """Every field of `ScoreConfig` stands in the table of settings."""
    page = PAGES["docs/settings.md"]
    for name in ScoreConfig.__dataclass_fields__:
        assert f"`{name}`" in page or f"`{name}=" in page, name


@pytest.mark.parametrize("page", PAGES)
def test_links_exist(page: str) -> None:
    """Files that a page links to are there."""
    for target in re.findall(r"\]\(([^)#:]+)\)", PAGES[page]):
        assert ((ROOT / page).parent / target).exists(), target


def test_readme_is_short_and_links_to_every_page() -> None:
    """README is read in five minutes, and leads to all of the pages that belong to it."""
    assert len(PAGES["README.md"].splitlines()) <= 250
    assert "python-3.11_|_3.12_|_3.13_|_3.14-" in PAGES["README.md"]  # as in the workflow: test_metadata
    generated = {"index", "api", "changelog", "contributing"}
    mine = {page.removesuffix(".md") for page in re.findall(r"\]\(docs/(\w+\.md)\)", PAGES["README.md"])}
    index = set(re.findall(r"^(\w+)$", PAGES["docs/index.md"], flags=re.MULTILINE)) - {"first_steps"}
    assert index - generated <= mine


@pytest.mark.slow
def test_notebook() -> None:
    """The notebook runs, and prints what it shows."""
    import nbclient
    import nbformat

    shown = nbformat.read(DOCS / "first_steps.ipynb", as_version=4)
    run = nbformat.from_dict(shown)
    nbclient.NotebookClient(run, timeout=120, kernel_name="python3").execute()

    def printed(notebook: Any) -> list[str]:
        outputs = (output for cell in notebook.cells for output in cell.get("outputs", []))
        return [o["text"] if "text" in o else o["data"]["text/plain"] for o in outputs if o.get("name") != "stderr"]

    assert printed(run) == printed(shown)
    assert len(printed(shown)) >= 5


@pytest.mark.slow
def test_pages_build(tmp_path: Path) -> None:
    """Sphinx builds the pages without a warning, and the page on the command line has all commands."""
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "-d", str(tmp_path / "doctrees"), str(DOCS), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "command_line.html").read_text(encoding="utf-8")
    for name in ("score", "compare", "verify"):
        assert f"Usage: bertscore-metric {name}" in page


@pytest.mark.parametrize("name", shipped_configs())
def test_configs(name: str) -> None:
    """Every shipped config loads by name, round-trips, and begins with the command that uses it."""
    file = ROOT / "configs" / f"{name}.yaml"
    config = ScoreConfig.from_yaml(name)
    assert ScoreConfig.from_yaml(file) == config
    command = file.read_text(encoding="utf-8").split("\n")[0]
    assert command.startswith(f"# bertscore-metric score --config {name} ")
    assert config.num_layers is not None
    assert f"`{name}`" in PAGES["docs/settings.md"]


def test_config_signature() -> None:
    """The config that needs no network shows its signature."""
    signature = BERTScorer.from_config(ScoreConfig.from_yaml("offline")).signature
    assert str(signature).startswith("model:sentence-transformers/all-MiniLM-L6-v2|layer:6|idf:no|")


def test_configs_agree_with_the_tables() -> None:
    """The configs' models use the layers of the table, so a config and a bare model name give the same scores."""
    from bertscore_metric import registry

    for name in set(shipped_configs()) - {"offline"}:
        config = ScoreConfig.from_yaml(name)
        assert config.num_layers == registry.default_layer(str(config.model_name_or_path)), name


def test_changelog_names_this_version() -> None:
    """The changelog has a section for the version that is released."""
    from bertscore_metric import __version__

    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
