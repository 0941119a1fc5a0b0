"""An environment of its own for a program that uses bert_score: the packages of the tests, and what it needs beside."""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
from conftest import TESTS

REPLACED = """
import sys
import bertscore_metric.compat
sys.modules["bert_score"] = bertscore_metric.compat
"""


def environment(package: str, folder: Path) -> Path:
    """Install a package beside those of the tests and return its Python, or skip where no index has it.

    A folder named in a .pth file is searched by pip too, so only what is missing is installed.
    """
    venv.create(folder, with_pip=False, symlinks=os.name != "nt")
    executable = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    ask = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    site = subprocess.run([executable, "-c", ask], capture_output=True, text=True, check=True).stdout.strip()
    (Path(site) / "tests.pth").write_text(sysconfig.get_paths()["purelib"] + "\n", encoding="utf-8")
    install = [sys.executable, "-m", "pip", "--python", str(executable), "install", "-q", package]
    done = subprocess.run(install, capture_output=True, text=True, timeout=600)
    if done.returncode:
        pytest.skip(f"{package} cannot be installed here: {done.stderr.strip().splitlines()[-1]}")
    return executable


def run(executable: Path, code: str, folder: Path) -> str:
    """Run code on the checkout, without a network, and return the last line that it printed."""
    env = {
        **os.environ, "PYTHONPATH": str(TESTS.parent), "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1",
        "DEEPEVAL_TELEMETRY_OPT_OUT": "YES", "UNITXT_USE_ONLY_LOCAL_CATALOGS": "True", "HF_HOME": str(folder / "hub"),
    }  # fmt: skip
    done = subprocess.run([executable, "-c", code], capture_output=True, text=True, cwd=folder, env=env, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip().splitlines()[-1]
