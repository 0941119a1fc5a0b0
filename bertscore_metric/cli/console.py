"""What the commands say: results on stdout or into a file, warnings and progress on stderr."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from bertscore_metric.cli.option_names import translated
from bertscore_metric.io import files


@contextmanager
def voice(quiet: bool) -> Iterator[None]:
    """Say warnings in a line each on stderr, and keep the chatter of the libraries away."""
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "0" if show_progress(quiet) else "1")
    for library in ("HF_HUB_VERBOSITY", "TRANSFORMERS_VERBOSITY"):  # read when the libraries are imported
        os.environ.setdefault(library, "error")
    with heard(quiet), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not quiet:
            from bertscore_metric.warnings import BERTScoreWarning

            warnings.simplefilter("always", BERTScoreWarning)
            warnings.showwarning = lambda message, *_: _say(str(message))
        yield


@contextmanager
def heard(quiet: bool) -> Iterator[None]:
    """Say what the package logs, a line each on stderr; `voice` for work that needs no torch, such as reading."""
    ours = logging.getLogger("bertscore_metric")
    handler = _Lines(logging.CRITICAL if quiet else logging.WARNING)
    ours.addHandler(handler)
    try:
        yield
    finally:
        ours.removeHandler(handler)


class _Lines(logging.Handler):
    """Says what the package logs."""

    def emit(self, record: logging.LogRecord) -> None:
        _say(record.getMessage())


def _say(message: str) -> None:
    typer.echo(f"bertscore-metric: {translated(message)}", err=True)


def show_progress(quiet: bool) -> bool:
    """Return whether a progress bar is wanted: on a terminal only."""
    return not quiet and sys.stderr is not None and sys.stderr.isatty()


def say_loading(model: str, quiet: bool) -> None:
    """Say on a terminal what takes the time until something else is to be seen: importing torch, loading the model."""
    if show_progress(quiet):
        typer.echo(f"bertscore-metric: loading {model} ...", err=True)


def to_terminal(output: str | None) -> bool:
    """Return whether a result is read on a terminal, and not by a program or from a file."""
    return output in (None, files.STDOUT) and sys.stdout is not None and sys.stdout.isatty()


def in_color(output: str | None = None) -> bool:
    """Return whether a result may have the codes that terminals know; `NO_COLOR` forbids them."""
    return to_terminal(output) and not os.environ.get("NO_COLOR")


def put(text: str, output: str | None, *, signature: object = None) -> None:
    """Write a result into a file, or to stdout; what UTF-8 cannot hold is written as an escape.

    The signature is the last line, dimmed on a terminal.
    """
    if signature is not None:
        text += f"\x1b[2m{signature}\x1b[0m\n" if in_color(output) else f"{signature}\n"
    if output is not None and output != files.STDOUT:
        files.write_text(output, text)
        return
    if sys.stdout is None:
        raise OSError("Standard output is closed; nothing can be printed.")
    if hasattr(sys.stdout, "reconfigure"):  # a notebook's stream, or a StringIO, has no encoding to set
        sys.stdout.reconfigure(encoding="utf-8", errors=files.ESCAPED)
    try:
        sys.stdout.write(text.encode("utf-8", files.ESCAPED).decode("utf-8"))
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(f"Cannot write to standard output: {error.strerror}.") from error
