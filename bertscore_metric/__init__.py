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
    from bertscore_metric.core.matching import TokenMatches
    from bertscore_metric.core.pairs import parse_segments
    from bertscore_metric.core.tokens import TokenBatch
    from bertscore_metric.core.weighting import IdfTable
    from bertscore_metric.models.encoder import Encoder, release_encoders
    from bertscore_metric.result import BERTScoreResult
    from bertscore_metric.scorer import BERTScorer, score
    from bertscore_metric.signature import Signature
    from bertscore_metric.warnings import BERTScoreWarning

__version__ = "0.1.0"

_HOMES = {
    "BERTScore": "adapters.torchmetrics",
    "BERTScoreResult": "result",
    "BERTScoreWarning": "warnings",
    "BERTScorer": "scorer",
    "Encoder": "models.encoder",
    "IdfTable": "core.weighting",
    "ScoreConfig": "config",
    "Signature": "signature",
    "TokenBatch": "core.tokens",
    "TokenMatches": "core.matching",
    "parse_segments": "core.pairs",
    "release_encoders": "models.encoder",
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
    "parse_segments",
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
