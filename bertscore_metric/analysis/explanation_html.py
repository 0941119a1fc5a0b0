"""An explanation as an HTML page that needs nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from bertscore_metric.core.spelling import bare, visible, visible_text
from bertscore_metric.optional import explained

if TYPE_CHECKING:
    from bertscore_metric.analysis.explained_pair import ExplainedPair


def to_html(explanation: ExplainedPair, *, framed: bool = False) -> str:
    """Return a self-contained page; every text in it is escaped.

    Args:
        explanation: what to show.
        framed: for a frame inside a page that has a heading and the signature of its own. The frame posts the message
            `{explanationHeight: pixels}` to that page whenever its height changes.

    Raises:
        ImportError: jinja2 is not installed.
    """
    return render("explanation.html", explanation=view(explanation), framed=framed)


def render(template: str, **values: Any) -> str:
    """Fill a template of this folder with values, escaped; control characters and turns of direction are spelled out.

    Raises:
        ImportError: jinja2 is not installed.
    """
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise explained(error, ("jinja2",), "HTML pages need jinja2: pip install 'bertscore_metric[plot]'.") from error
    loader = PackageLoader("bertscore_metric.analysis", "templates")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=_shown
    )
    return environment.get_template(template).render(**values)


def _shown(value: Any) -> Any:
    # What has `__html__` was made by a macro from values that were shown already.
    return value if hasattr(value, "__html__") else visible_text(str(value))


def view(explanation: ExplainedPair) -> dict[str, Any]:
    """Return what the templates show of an explanation: numbers, and both texts token by token."""
    e = explanation
    return {
        "precision": f"{e.precision:.6f}",
        "recall": f"{e.recall:.6f}",
        "f1": f"{e.f1:.6f}",
        "reference_number": e.reference_number + 1,
        "signature": e.signature,
        "sides": [
            {"name": "candidate", "number": "precision", "tokens": _tokens(
                e.candidate_tokens, e.candidate_words, e.candidate_match, e.similarity, e.candidate_weights,
                e.precision_contributions, e.reference_tokens, e.word_mark)},
            {"name": "reference", "number": "recall", "tokens": _tokens(
                e.reference_tokens, e.reference_words, e.reference_match, e.similarity.T, e.reference_weights,
                e.recall_contributions, e.candidate_tokens, e.word_mark)},
        ],
    }  # fmt: skip


def _tokens(
    tokens: tuple[str, ...],
    words: tuple[int, ...],
    matches: Tensor,
    similar: Tensor,
    weights: Tensor,
    contributions: Tensor,
    others: tuple[str, ...],
    mark: str,
) -> list[dict[str, Any]]:
    largest = max(float(contributions.max()), 1e-9) if len(contributions) else 1.0
    rows = []
    for index, (token, match) in enumerate(zip(tokens, matches.tolist(), strict=True)):
        matched = "no match"
        if match >= 0:
            matched = f"matches {visible(bare(others[match], mark))}, cosine {similar[index, match]:.4f}"
        rows.append(
            {
                "text": visible(bare(token, mark)),
                "space": bool(index) and words[index] != words[index - 1],
                "match": match,
                "counts": float(weights[index]) > 0,
                "shade": round(max(float(contributions[index]) / largest, 0.0), 3),
                "tip": f"{matched}, weight {weights[index]:.4g}, contributes {contributions[index]:.4f}",
            }
        )
    return rows
