"""The category of the package's warnings."""

from __future__ import annotations


class BERTScoreWarning(UserWarning):
    """Something about the texts or the model that a reader of the scores should know."""
