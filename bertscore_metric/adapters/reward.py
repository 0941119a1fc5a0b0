"""BERTScore as a reward for reinforcement learning, in TRL's convention: `reward(completions, **columns)`."""

from __future__ import annotations

from typing import Any

from bertscore_metric.config import ScoreConfig
from bertscore_metric.core.pairs import parse_segments
from bertscore_metric.scorer_handle import ScorerHandle

STORE_BYTES = 256 * 2**20


class BERTScoreReward:
    """A reward function for `GRPOTrainer` and its kin: each completion's score against the references of its row.

    The scorer is loaded once, computes without gradients, and leaves torch's settings as they are.

    Args:
        references: the data set's column that holds a text or a group of texts for each row.
        reward: `precision`, `recall` or `f1`.
        device, batch_size, settings: as in `BERTScorer`; `idf=True` would make a reward depend on its batch.

    Raises:
        TypeError, ValueError, OSError: as for `BERTScorer`; when it is called, for a missing column or what is no text.

    Example:
        >>> reward = BERTScoreReward("answer", model_name_or_path="offline", num_layers=5)
        >>> [round(one, 3) for one in reward(["a cat sat", "hello"], answer=["a cat sat", "hi"])]
        [1.0, 0.824]
    """

    def __init__(self, references: str, *, reward: str = "f1", device: Any = None, batch_size: int | None = None,
                 **settings: Any) -> None:  # fmt: skip
        config = ScoreConfig.from_mapping(settings)
        if reward not in ("precision", "recall", "f1"):
            raise ValueError(f"reward must be precision, recall or f1; got {reward!r}.")
        if config.idf is True or config.all_layers:
            raise ValueError(
                "A reward is one number for a text: pass texts as idf= instead of True, and no all_layers."
            )
        self._scorer = ScorerHandle(config, store_bytes=STORE_BYTES, device=device, batch_size=batch_size)
        self._column, self._reward = references, reward
        self.__name__ = f"bertscore_{reward}"  # under which TRL logs it

    def __call__(self, completions: Any, **columns: Any) -> list[float]:
        """Return the rewards [completion]; they are texts, or chats as lists of messages (the last one counts)."""
        if self._column not in columns:
            raise ValueError(
                f"No column {self._column!r} with references; the rows have {', '.join(columns) or 'none'}."
            )
        texts = [one[-1]["content"] if isinstance(one, list) and one else one for one in completions]
        segments = parse_segments(texts, columns[self._column], names=("completions", self._column))
        scorer = self._scorer.scorer
        scorer.check(segments)
        result = scorer.report(self._scorer.match(segments), warn=False)  # a warning a step helps nobody
        rewards: list[float] = getattr(result, self._reward).tolist()
        return rewards
