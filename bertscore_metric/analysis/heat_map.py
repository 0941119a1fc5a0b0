"""An explanation as a picture: the similarities as a heat map, with the matches marked."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertscore_metric.analysis.figures import new_figure
from bertscore_metric.core.spelling import visible
from bertscore_metric.warnings import BERTScoreWarning

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bertscore_metric.analysis.explained_pair import ExplainedPair

_WRITTEN_CELLS = 400  # beyond that, numbers in the cells are too small to read
_LARGEST_SIDE = 8000  # pixels of a file; what has some 300 tokens on a side is drawn more coarsely
_LONGEST_LABEL = 24  # characters; what is longer is cut, with an ellipsis
_DISC, _RING = "#ffd92f", "#d62728"  # yellow and red: one is seen inside the other, on light cells and on dark ones
_MISSING_MARK = "\N{WHITE SQUARE}"


def draw(explanation: ExplainedPair, ax: Axes | None = None) -> Figure:
    """Draw the similarities [cand, ref]: candidate down, reference across, lighter where they are smaller.

    A disc marks the match of a candidate's token (its row's largest), a ring that of a reference's token (its column's
    largest). Tokens that do not count are grey. Characters that no installed font has are drawn as squares, with a
    warning.

    Args:
        explanation: what to draw.
        ax: axes to draw into; by default those of a new figure, large enough for all tokens.

    Raises:
        ImportError: matplotlib is not installed.
    """
    rows, columns = explanation.similarity.shape
    cell = min(0.55, max(0.22, 18 / max(rows, columns, 1)))  # inches
    if ax is None:
        longest = max((len(token) for token in explanation.candidate_tokens), default=1)
        margin = 1.2 + min(longest, 20) * 0.08
        size = (max(columns * cell + margin + 1, 4.5), max(rows * cell + margin, 3.5))
        ax = new_figure(*size).add_subplot()
    font = min(10.0, cell * 40)
    image = ax.imshow(explanation.similarity.numpy(), cmap="Blues", vmax=1, aspect="auto")
    _label(ax, explanation, font)
    _mark(ax, explanation, cell)
    if rows * columns <= _WRITTEN_CELLS and cell > 0.4:
        _write_values(ax, explanation, font * 0.7)
    figure = ax.figure
    figure.colorbar(image, ax=ax, label="cosine", fraction=0.05, pad=0.02)
    title = f"P {explanation.precision:.4f}   R {explanation.recall:.4f}   F1 {explanation.f1:.4f}"
    ax.set_title(title, fontsize=11, loc="left", pad=24)
    return figure  # type: ignore[return-value]


def write(explanation: ExplainedPair, file: Path) -> None:
    """Draw into a file; its ending (.png, .svg, .pdf) says the format."""
    figure = draw(explanation)
    figure.savefig(file, dpi=min(150, int(_LARGEST_SIDE / max(figure.get_size_inches()))))


def undrawable(explanation: ExplainedPair) -> set[str]:
    """Return the characters of the tokens that no installed font has, and that would be drawn as squares.

    Raises:
        ImportError: matplotlib is not installed.
    """
    new_figure(1, 1)
    tokens = (*explanation.candidate_tokens, *explanation.reference_tokens)
    return _fonts("".join(_short(visible(token)) for token in tokens))[1]


def _label(ax: Axes, explanation: ExplainedPair, font: float) -> None:
    candidate, reference = (
        [_short(visible(token)) for token in side]
        for side in (explanation.candidate_tokens, explanation.reference_tokens)
    )
    families, missing = _fonts("".join(candidate + reference))
    if missing:
        warnings.warn(
            f"No installed font has the characters {''.join(sorted(missing))}; they are drawn as {_MISSING_MARK}. A "
            f"font with them (for instance from Noto) can be installed for the picture.",
            BERTScoreWarning,
            stacklevel=5,
        )
    tables = (
        (ax.set_xticks, ax.get_xticklabels, reference, explanation.reference_weights),
        (ax.set_yticks, ax.get_yticklabels, candidate, explanation.candidate_weights),
    )
    for set_ticks, labels, tokens, weights in tables:
        shown = ["".join(_MISSING_MARK if letter in missing else letter for letter in token) for token in tokens]
        set_ticks(range(len(shown)), shown, fontsize=font, family=families, parse_math=False)
        for label, weight in zip(labels(), weights.tolist(), strict=True):
            label.set_color("black" if weight > 0 else "gray")
    for label in ax.get_xticklabels():
        label.set(rotation=60, ha="right", rotation_mode="anchor")
    ax.set_xlabel("reference")
    ax.set_ylabel("candidate")


def _short(token: str) -> str:
    return token if len(token) <= _LONGEST_LABEL else f"{token[: _LONGEST_LABEL - 1]}…"


def _mark(ax: Axes, explanation: ExplainedPair, cell: float) -> None:
    size = (cell * 24) ** 2
    discs = [(match, row) for row, match in enumerate(explanation.candidate_match.tolist()) if match >= 0]
    rings = [(column, match) for column, match in enumerate(explanation.reference_match.tolist()) if match >= 0]
    styles: tuple[tuple[str, list[tuple[int, int]], dict[str, Any]], ...] = (
        (
            "candidate's match",
            discs,
            {"s": max(size / 4, 9), "color": _DISC, "edgecolors": "black", "linewidths": 0.8, "zorder": 3},
        ),
        (
            "reference's match",
            rings,
            {"s": size, "facecolors": "none", "edgecolors": _RING, "linewidths": 1.8, "zorder": 2},
        ),
    )
    for name, points, style in styles:
        if points:
            ax.scatter(*zip(*points, strict=True), label=name, **style)
    if discs or rings:
        # At the left, where a narrow window shows it, as it shows the candidate's tokens.
        ax.legend(
            loc="lower left",
            bbox_to_anchor=(0, 1),
            borderaxespad=0.2,
            ncols=2,
            fontsize=8,
            frameon=False,
            columnspacing=1.2,
            handletextpad=0.3,
        )


def _write_values(ax: Axes, explanation: ExplainedPair, font: float) -> None:
    similar = explanation.similarity
    middle = (float(similar.min()) + 1) / 2
    for row, values in enumerate(similar.tolist()):
        for column, value in enumerate(values):
            color = "white" if value > middle else "black"
            ax.text(column, row - 0.33, f"{value:.2f}", ha="center", va="center", fontsize=font, color=color)


def _fonts(text: str) -> tuple[list[str], set[str]]:
    """Return font families that together have the characters of a text, and the characters that none has."""
    import matplotlib
    from matplotlib import font_manager

    first = matplotlib.rcParams["font.family"]
    families = [first] if isinstance(first, str) else list(first)
    needed = {letter for letter in text if not letter.isspace()}
    needed -= _covered(font_manager.findfont(font_manager.FontProperties(family=families)), needed)
    if not needed:
        return families, set()
    for entry in font_manager.fontManager.ttflist:
        if not needed or entry.name.startswith("Last Resort"):  # its glyphs say only which script a character is of
            continue
        found = _covered(entry.fname, needed)
        if found:
            families.append(entry.name)
            needed -= found
    return families, needed


def _covered(path: str, letters: Iterable[str]) -> set[str]:
    points = _points(path)
    return {letter for letter in letters if ord(letter) in points}


@cache
def _points(path: str) -> frozenset[int]:
    from matplotlib.ft2font import FT2Font

    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)  # it lists every family it cannot find
    try:
        return frozenset(FT2Font(path).get_charmap())
    except (OSError, RuntimeError):  # fonts of bitmaps, which matplotlib cannot draw either
        return frozenset()
