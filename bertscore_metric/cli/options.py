"""Options that several commands share."""

from typing import Annotated

import typer

from bertscore_metric.config import DTYPES, LONG_TEXT_RULES

Model = Annotated[str, typer.Option("--model", "-m", metavar="NAME", help="Hub name, folder, or 'offline'.")]
MaxLength = Annotated[
    int | None, typer.Option(metavar="N", help="Longest text in tokens; at most the model's own limit.")
]
LongText = Annotated[str | None, typer.Option(metavar="|".join(LONG_TEXT_RULES), help="What to do with longer texts.")]
MatchSpecialTokens = Annotated[
    bool | None, typer.Option(help="Whether tokens may be matched to special tokens.", show_default=False)
]
Dtype = Annotated[str | None, typer.Option(metavar="|".join(DTYPES), help="Arithmetic of the encoder.")]
BatchSize = Annotated[
    int | None, typer.Option("--batch-size", "-b", metavar="N", help="Most texts in an encoder batch.")
]
Device = Annotated[str | None, typer.Option(metavar="NAME", help="cpu, cuda, cuda:1, mps.")]
Revision = Annotated[str | None, typer.Option(metavar="REV", help="Branch, tag or commit on the hub.")]
TrustRemoteCode = Annotated[
    bool | None, typer.Option("--trust-remote-code", help="Allow model code from the hub to run.")
]
Seed = Annotated[int, typer.Option(metavar="N", help="Seed of the random numbers.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no warnings.")]


def given(**settings: object) -> dict[str, object]:
    """Return the settings that were given; the others keep their defaults."""
    return {name: value for name, value in settings.items() if value is not None}
