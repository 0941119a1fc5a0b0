"""BERTScore for `evaluate.load`: the class is that of the package `bertscore_metric`."""

from bertscore_metric.adapters.evaluate import BERTScore

__all__ = ["BERTScore"]
