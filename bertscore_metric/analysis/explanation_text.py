"""An explanation for a terminal."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text
from torch import Tensor

from bertscore_metric.core.spelling import bare, visible

if TYPE_CHECKING:
    from bertscore_metric.analysis.explained_pair import ExplainedPair

_WIDTH = 100
# From a token that contributes nothing to the one that contributes most: backgrounds that black text can be read on.
_SHADES = ("#ffffff", "#e5f5e0", "#c7e9c0", "#a1d99b", "#74c476", "#41ab5d")


def to_text(explanation: ExplainedPair, *, color: bool = False) -> str:
    """Return both texts and, for each side, a table of its tokens: match, cosine, weight, contribution.

    Args:
        explanation: what to show.
        color: colour the texts by contribution, with the codes that terminals know.
    """
    e = explanation
    stream = io.StringIO()
    console = Console(
        file=stream,
        width=_WIDTH,
        force_terminal=color,
        force_jupyter=False,  # in a notebook rich would show the table and write nothing
        no_color=not color,
        color_system="truecolor" if color else None,
    )
    console.print(Text(f"P {e.precision:.6f}  R {e.recall:.6f}  F1 {e.f1:.6f}  (reference {e.reference_number + 1})"))
    cosines = e.similarity
    sides = (
        ("candidate", e.candidate_tokens, e.candidate_words, e.candidate_match, cosines, e.candidate_weights,
         e.precision_contributions, e.reference_tokens),
        ("reference", e.reference_tokens, e.reference_words, e.reference_match, cosines.T, e.reference_weights,
         e.recall_contributions, e.candidate_tokens),
    )  # fmt: skip
    for name, tokens, words, matches, similar, weights, contributions, others in sides:
        console.print()
        console.print(_line([bare(token, e.word_mark) for token in tokens], words, weights, contributions, color))
        table = Table("token", "match", box=None, title=None)
        for column in ("cosine", "weight", "contribution to " + ("P" if name == "candidate" else "R")):
            table.add_column(column, justify="right")
        for row, (token, match) in enumerate(zip(tokens, matches.tolist(), strict=True)):
            shown = (others[match], f"{similar[row, match]:.4f}") if match >= 0 else ("", "")
            table.add_row(
                Text(visible(token)),
                Text(visible(shown[0])),
                shown[1],
                f"{weights[row]:.4g}",
                f"{contributions[row]:.4f}",
            )
        console.print(table)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


def _line(tokens: list[str], words: tuple[int, ...], weights: Tensor, contributions: Tensor, color: bool) -> Text:
    """Return a text of tokens [token] that is coloured by contribution; tokens without weight are dim."""
    line = Text()
    largest = max(float(contributions.max()), 1e-9) if len(contributions) else 1.0
    for index, token in enumerate(tokens):
        if index and words[index] != words[index - 1]:
            line.append(" ")
        share = max(float(contributions[index]) / largest, 0.0)
        shade = _SHADES[min(round(share * (len(_SHADES) - 1)), len(_SHADES) - 1)]
        style = f"black on {shade}" if float(weights[index]) > 0 else "dim"
        line.append(visible(token), style=style if color else "")
    return line
