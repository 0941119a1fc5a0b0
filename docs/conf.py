"""How Sphinx builds these pages: `make docs`."""

import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import bertscore_metric  # noqa: E402

project = "bertscore_metric"
author = "The bertscore_metric authors"
version = release = bertscore_metric.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton", "command_help"]

default_role = "code"  # docstrings mark code as Markdown does
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings say types, shapes and ranges
napoleon_preprocess_types = False
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # the tests run the notebook; the page shows what it printed
copybutton_prompt_text = "$ "
suppress_warnings = ["config.cache"]

html_theme = "furo"
html_title = f"bertscore_metric {release}"


def name_other_pages(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put pages that no section of the index names into its section of more topics."""
    if docname == "index":
        named = set(re.findall(r"^(\w+)$", source[0], flags=re.MULTILINE))
        others = sorted(app.env.found_docs - named - {"index"})
        source[0] = source[0].replace("OTHER PAGES", "\n".join(others))


def join_names(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Put names of arguments that share a description on one line: napoleon reads no others."""
    text = "\n".join(lines)
    while (joined := re.sub(r"^( {4}\w[\w, ]*,)\n {5,}(?=\w+(, \w+)*[:,])", r"\1 ", text, flags=re.MULTILINE)) != text:
        text = joined
    lines[:] = text.split("\n")


def setup(app: Sphinx) -> None:
    """Register them."""
    app.connect("source-read", name_other_pages)
    app.connect("autodoc-process-docstring", join_names, priority=400)
