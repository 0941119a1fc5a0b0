"""Gather the folder to upload as a Space: `python .ci/space.py build/space/bertscore`.

A Space installs its requirements before it sees any other file, and the package is on no index yet. So the package lies
beside app.py as source, and the requirements are those of pyproject.toml, with the torch of the tests in its build for
CPUs: the other one brings gigabytes of CUDA. The folder is named after the metric, so that a copy of it loads as
`evaluate.load("./bertscore")`.
"""

import shutil
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
CPU_BUILDS = "https://download.pytorch.org/whl/cpu"  # of one version, pip prefers `+cpu`


def requirements() -> list[str]:
    """Return what the package needs from indexes, with the extras that hub_card/requirements.txt names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = (ROOT / "hub_card" / "requirements.txt").read_text(encoding="utf-8").splitlines()
    (own,) = [line for line in lines if line.startswith(".[")]
    extras = [name.strip() for name in own[2:].rstrip("]").split(",")]
    pins = (ROOT / ".ci" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    (torch,) = [line for line in pins if line.startswith("torch==")]
    needed = [line for line in project["dependencies"] if not line.startswith("torch>")]
    optional = [line for name in extras for line in project["optional-dependencies"][name]]
    return [f"--extra-index-url {CPU_BUILDS}", torch, *needed, *optional]


def gather(folder: Path) -> None:
    """Write the Space into a folder, which is made anew."""
    shutil.rmtree(folder, ignore_errors=True)
    unwanted = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "hub_card", folder, ignore=unwanted)
    shutil.copy(ROOT / "LICENSE", folder)
    shutil.copytree(ROOT / "bertscore_metric", folder / "bertscore_metric", ignore=unwanted)
    shutil.copytree(ROOT / "configs", folder / "bertscore_metric" / "configs")
    (folder / "requirements.txt").write_text("\n".join(requirements()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    gather(Path(sys.argv[1]))
