"""Puts what every command's `--help` prints on the page about the command line, so that it is never out of date."""

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from typer.main import get_command

from bertscore_metric.cli import app


def command_help(width: int = 90) -> dict[str, str]:
    """Return the help texts of all commands by name, `width` characters wide, in the order that `--help` lists them."""
    group: Any = get_command(app)
    root = group.make_context("bertscore-metric", [], resilient_parsing=True, terminal_width=width)
    texts = {}
    for name, command in group.commands.items():
        context = command.make_context(name, [], parent=root, resilient_parsing=True)
        texts[name] = command.get_help(context).rstrip() + "\n"
    return texts


class CommandHelp(SphinxDirective):
    """A section for every command, with its help text."""

    def run(self) -> list[nodes.Node]:
        """Return the sections."""
        lines = [f"### {name}\n\n```text\n{text}```\n" for name, text in command_help().items()]
        return self.parse_text_to_nodes("\n".join(lines), allow_section_headings=True)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive `command-help`."""
    app.add_directive("command-help", CommandHelp)
    return {"parallel_read_safe": True}
