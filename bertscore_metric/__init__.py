"""BERTScore for training and evaluating text generation.

    >>> from bertscore_metric import score
    >>> result = score(["a cat sat"], ["a cat sat"], "offline")
    >>> round(result.mean.f1, 6)
    1.0

Names are loaded on first use, so that importing the package costs nothing.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bertscore_metric.adapters.torchmetrics import BERTScore
    from bertscore_metric.config import ScoreConfig
    from bertscore_metric.encoder import Encoder, release_encoders
    from bertscore_metric.matching import TokenMatches
    from bertscore_metric.model import BERTScoreWarning
    from bertscore_metric.report import BERTScoreResult
    from bertscore_metric.scorer import BERTScorer, score
    from bertscore_metric.signature import Signature
    from bertscore_metric.tokens import TokenBatch
    from bertscore_metric.weighting import IdfTable

__version__ = "0.1.0"

_HOMES = {
    "BERTScore": "adapters.torchmetrics",
    "BERTScoreResult": "report",
    "BERTScoreWarning": "model",
    "BERTScorer": "scorer",
    "Encoder": "encoder",
    "IdfTable": "weighting",
    "ScoreConfig": "config",
    "Signature": "signature",
    "TokenBatch": "tokens",
    "TokenMatches": "matching",
    "release_encoders": "encoder",
    "score": "scorer",
}

__all__ = [
    "BERTScore",
    "BERTScoreResult",
    "BERTScoreWarning",
    "BERTScorer",
    "Encoder",
    "IdfTable",
    "ScoreConfig",
    "Signature",
    "TokenBatch",
    "TokenMatches",
    "__version__",
    "release_encoders",
    "score",
]
# So that `import *` and help() work without the extra; asking for it says which.
if not TYPE_CHECKING and find_spec("torchmetrics") is None:
    __all__.remove("BERTScore")


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
