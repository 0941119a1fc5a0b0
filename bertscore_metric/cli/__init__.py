"""The command line: arguments -> settings -> core -> report. No arithmetic; torch is imported when there is work."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from bertscore_metric import __version__
from bertscore_metric.cli import (
    baseline,
    calibrate,
    compare,
    explain,
    mbr,
    models,
    pairwise,
    score,
    tune,
    verify,
)
from bertscore_metric.cli.bert_score_names import instead_of
from bertscore_metric.cli.option_names import FileError, phrased, translated
from bertscore_metric.io.opened import STDIN

# Options that take several values after one name, as in `--references a.txt b.txt`.
_SPREADING = ("--references", "-r", "--candidates", "-c", "--reference-column", "--scores", "--systems", "--add")
_MODELS = ("--model", "-m")
_OF_SEVERAL_MODELS = ("tune", "baseline")  # elsewhere a second model would silently replace the first

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    help="BERTScore for generated text: precision, recall and F1 by greedy matching of contextual embeddings.",
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; a user's error is one line on stderr and exit code 2."""
    words = spread(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    try:
        code = app(args=words, prog_name="bertscore-metric", standalone_mode=False)
    except Exception as error:
        if hasattr(error, "format_message"):  # typer's own usage errors know how to say themselves in a line
            message = _unknown_option(error) or error.format_message()
        elif isinstance(error, _user_errors()):
            message = phrased(str(error)) if isinstance(error, FileError) else translated(str(error))
        else:
            raise
        typer.echo(f"bertscore-metric: error: {' '.join(message.split())}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(code if isinstance(code, int) else 0)


def _unknown_option(error: Any) -> str | None:
    """Return what to use instead of an option that there is not, where that is known."""
    option, context = getattr(error, "option_name", None), getattr(error, "ctx", None)
    if not isinstance(option, str) or context is None:
        return None
    if context.parent is None and option in _SPREADING:
        return f"Name the command first: bertscore-metric score {option} ..."
    return instead_of(option, {name for parameter in context.command.params for name in parameter.opts})


def _user_errors() -> tuple[type[Exception], ...]:
    torch = sys.modules.get("torch")
    memory = (torch.OutOfMemoryError,) if torch else ()
    return (TypeError, ValueError, OSError, ImportError, NotImplementedError, *memory)


def spread(arguments: Sequence[str]) -> list[str]:
    """Repeat an option before each of its values: `-r a b` becomes `-r a -r b`."""
    spreading = (*_SPREADING, *_MODELS) if arguments and arguments[0] in _OF_SEVERAL_MODELS else _SPREADING
    words: list[str] = []
    option, values = "", 0
    for word in arguments:
        if word.startswith("-") and word != STDIN:
            option, values = (word if word in spreading else ""), 0
        elif option:
            values += 1
            if values > 1:
                words.append(option)
        words.append(word)
    return words


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"bertscore-metric {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    pass


for command in (
    score.score,
    compare.compare,
    calibrate.calibrate,
    pairwise.pairwise,
    mbr.mbr,
    explain.explain,
    tune.tune,
    baseline.baseline,
    verify.verify,
    models.models,
):
    app.command()(command)
