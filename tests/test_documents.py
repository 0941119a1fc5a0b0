"""Documents are tests: what README and the configs show is run, and what they print is compared."""

import contextlib
import io
import re
import shlex
import shutil
import sys
from importlib.metadata import version
from pathlib import Path

import datasets
import evaluate
import pytest
from conftest import TESTS

from bertscore_metric import BERTScorer, ScoreConfig, cli
from bertscore_metric.config import shipped_configs

ROOT = TESTS.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PINS = (ROOT / ".ci" / "constraints.txt").read_text(encoding="utf-8")
NUMBER = re.compile(r"\d+\.\d{4,}")


def blocks(language: str, text: str = README) -> list[str]:
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
    """Return a folder with the files that README's commands make and read, as the current one."""
    made = re.findall(r"^printf '(.*)' > (\S+)$", README, flags=re.MULTILINE)
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
def test_readme_python(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """README's Python runs from top to bottom in one session."""
    code = blocks("python")
    assert len(code) >= 12
    session: dict[str, object] = {}
    for block in code:
        exec(compile(block, "README.md", "exec"), session)
    output = capsys.readouterr().out
    assert "tensor([0.6667])" in output  # the word-piece overlap that the text promises


PAGES = [(ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("command_line.md",)]
CONSOLE = [block for page in (README, *PAGES) for block in blocks("console", page)]


@pytest.mark.parametrize("block", CONSOLE, ids=lambda block: block.split("\n")[0][2:60])
def test_readme_console(folder: Path, block: str) -> None:
    """README's commands print what README shows; versions may differ, and numbers in the fifth digit."""
    command, shown = block.split("\n", 1)
    words = shlex.split(command.removeprefix("$ bertscore-metric "))
    printed = command_line(words)

    def neutral(text: str) -> str:
        return NUMBER.sub("#", re.sub(r"(transformers|bertscore_metric):[^|\"\n]+", r"\1:#", text))

    assert neutral(printed) == neutral(shown)
    got, expected = ([float(number) for number in NUMBER.findall(text)] for text in (printed, shown))
    assert got == pytest.approx(expected, abs=5e-5)


@pytest.mark.skipif(f"typer=={version('typer')}" not in PINS, reason="the layout of --help is that of the pinned typer")
def test_readme_help(monkeypatch: pytest.MonkeyPatch) -> None:
    """The options in README are those that `--help` prints."""
    monkeypatch.setenv("COLUMNS", "100")
    commands = ("score", "explain", "tune", "baseline", "models")
    assert blocks("help") == [command_line([command, "--help"]) for command in commands]


def test_readme_names_every_setting() -> None:
    """Every field of `ScoreConfig` stands in README's table."""
    for name in ScoreConfig.__dataclass_fields__:
        assert f"`{name}`" in README or f"`{name}=" in README or name == "lang", name


def test_readme_links_exist() -> None:
    """Files that README links to are there."""
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


@pytest.mark.parametrize("name", shipped_configs())
def test_configs(name: str) -> None:
    """Every shipped config loads by name, round-trips, and begins with the command that uses it."""
    file = ROOT / "configs" / f"{name}.yaml"
    config = ScoreConfig.from_yaml(name)
    assert ScoreConfig.from_yaml(file) == config
    command = file.read_text(encoding="utf-8").split("\n")[0]
    assert command.startswith(f"# bertscore-metric score --config {name} ")
    assert config.num_layers is not None
    assert f"`{name}`" in README


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


@pytest.mark.filterwarnings("ignore::bertscore_metric.BERTScoreWarning")
def test_torchmetrics_page() -> None:
    """The code of the page about torchmetrics' wrappers runs."""
    code = blocks("python", (ROOT / "docs" / "torchmetrics.md").read_text(encoding="utf-8"))
    assert len(code) == 2
    for block in code:
        exec(compile(block, "torchmetrics.md", "exec"), {})
