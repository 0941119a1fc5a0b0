"""A library that is missing and one that is there and broken are told apart."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import shared_scorer

from bertscore_metric.analysis.correlation import require_scipy
from bertscore_metric.analysis.explanation_html import render
from bertscore_metric.analysis.figures import new_figure


def plot() -> Any:
    """Draw with the compatibility module."""
    from bertscore_metric.compat import _pyplot

    return _pyplot()


DOORS = [
    ("matplotlib", lambda: new_figure(1, 1)),
    ("matplotlib", plot),
    ("jinja2", lambda: render("explanation.html")),
    ("scipy", require_scipy),
]


@pytest.mark.parametrize(("library", "call"), DOORS)
def test_missing_and_broken(monkeypatch: pytest.MonkeyPatch, library: str, call: Any, tmp_path: Path) -> None:
    """What is missing is named with the command; what cannot be imported is not called missing."""
    for name in [name for name in sys.modules if name.partition(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf"{library}: pip install 'bertscore_metric\[\w+\]'"):
        call()
    monkeypatch.delitem(sys.modules, library)
    (tmp_path / library).mkdir()
    (tmp_path / library / "__init__.py").write_text("import no_such_library\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    broken = rf"^{library} is installed, but cannot be imported: No module named 'no_such_library'\. Install again"
    with pytest.raises(ImportError, match=broken):
        call()


@pytest.mark.parametrize(("room", "library"), [("torchmetrics", "torchmetrics"), ("evaluate", "evaluate")])
def test_rooms(room: str, library: str, tmp_path: Path) -> None:
    """The same holds for the library of a room."""
    (tmp_path / library).mkdir()
    (tmp_path / library / "__init__.py").write_text("import no_such_library\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport bertscore_metric.adapters.{room}"
    broken = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "installed, but cannot be imported: No module named 'no_such_library'. Install" in broken.stderr
    code = f"import sys; sys.modules[{library!r}] = None\nimport bertscore_metric.adapters.{room}"
    missing = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "not installed: pip install 'bertscore_metric[" in missing.stderr


def test_they_work_where_nothing_is_wrong() -> None:
    """The doors that the tests above close are open otherwise."""
    assert new_figure(1, 1) is not None
    assert require_scipy() is not None
    assert shared_scorer("bert", num_layers=2).explain("a cat", "a dog").to_html().startswith("<!")
