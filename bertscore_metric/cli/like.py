"""`--like SIGNATURE`: what of an old result cannot be repeated."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bertscore_metric.scorer import BERTScorer


@contextmanager
def model_of(like: str | None, model: str | None) -> Iterator[None]:
    """Say of a model that cannot be loaded that its name is all that a signature has of a folder."""
    try:
        yield
    except OSError as error:
        if like is None or model is not None:
            raise
        said = str(error)
        raise OSError(f"{said} A signature has only the last name of a folder: give its path with --model.") from error


def say_what_differs(like: str | None, scorer: BERTScorer) -> None:
    """Warn of what keeps the scores from being those of the old result: other weights, tokens, versions, settings."""
    if like is None:
        return
    from bertscore_metric.signature import Signature
    from bertscore_metric.warnings import BERTScoreWarning

    found = Signature.parse(like).differences(scorer.signature)
    if found:
        listed = "; ".join(f"{key} is {here}, and was {then}" for key, (then, here) in found.items())
        warnings.warn(f"These scores do not repeat the signature: {listed}.", BERTScoreWarning, stacklevel=2)
