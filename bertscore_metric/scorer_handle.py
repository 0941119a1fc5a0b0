"""A scorer that copies of a metric share, that pickles without its encoder, and whose encoder can be let go."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import weakref
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from bertscore_metric.config import ScoreConfig
from bertscore_metric.core.pairs import Segments
from bertscore_metric.core.tokens import TokenBatch
from bertscore_metric.forks import renew_after_fork
from bertscore_metric.models.encoder import release_encoders
from bertscore_metric.result import BERTScoreResult
from bertscore_metric.scorer import BERTScorer
from bertscore_metric.state.kept_embeddings import EmbeddingCollector, check_embeddings
from bertscore_metric.state.pending_texts import to_bytes
from bertscore_metric.state.reference_cache import ReferenceCache
from bertscore_metric.state.state_columns import check_columns, digest


class ScorerHandle:
    """A `BERTScorer` with a store of reference embeddings, loaded when it is needed.

    `copy.deepcopy` returns the object itself. Pickling a scorer whose model has a name leaves model and tokenizer out,
    and they are loaded again for texts, not for reports; one around objects (`model=`, `encoder=`) takes them along.

    Args:
        config: every setting that changes a number.
        store_bytes: budget of the store; 0 for none.
        device: where the encoder runs.
        run_settings: `model`, `tokenizer`, `encoder`, `batch_size` and `verbose` of `BERTScorer`.

    Raises:
        TypeError, ValueError, OSError: as for `BERTScorer`.
    """

    def __init__(
        self, config: ScoreConfig, *, store_bytes: int, device: str | int | torch.device | None, **run_settings: Any
    ) -> None:
        self.config = config
        self.store = ReferenceCache(store_bytes)
        self.device = device
        self._run_settings = run_settings
        self._named = run_settings.get("model") is None and run_settings.get("encoder") is None
        self._scorer: BERTScorer | None = self._load()
        self.config, self.signature = self._scorer.config, self._scorer.signature  # what `auto` became stays
        self.latest = SharedBatchCache()
        self.latest_report = SharedBatchCache()
        self._by_device: weakref.WeakValueDictionary[str, ScorerHandle] = weakref.WeakValueDictionary()
        if not self._named:  # the scorer has what it needs of them
            self._run_settings = {}

    @property
    def scorer(self) -> BERTScorer:
        """The scorer with its encoder, loaded again where that is necessary.

        Raises:
            ValueError: what was loaded again is not what it was, so that its scores do not belong with the others.
        """
        if self._scorer is None or isinstance(self._scorer.model.encoder, ReleasedEncoder):
            scorer = self._load()
            if not scorer.signature.comparable_to(self.signature):
                raise ValueError(
                    f"The model was loaded again and has changed since:\n  {self.signature}\n  {scorer.signature}\n"
                    f"Its scores would not belong with the earlier ones."
                )
            self._scorer = scorer
        return self._scorer

    @property
    def reporter(self) -> BERTScorer:
        """The scorer for the compute half, which needs no encoder and so brings back none that was released."""
        return self.scorer if self._scorer is None else self._scorer

    @property
    def explainer(self) -> BERTScorer:
        """The scorer for explanations of embeddings, which need the tokenizer and no encoder."""
        return self.scorer if self.reporter.model.tokenizer is None else self.reporter

    @property
    def columns(self) -> Mapping[str, torch.dtype]:
        """Name and dtype of the columns in which its results are kept until they are reported."""
        return self.reporter.columns

    def match(
        self, segments: Segments, *, user: int | None = None, collector: EmbeddingCollector | None = None
    ) -> dict[str, Tensor]:
        """Embed and match segments, unless another user of this scorer has just done so.

        Args:
            segments: checked texts.
            user: whoever asks, by `id`, where another user's results for the same texts will do.
            collector: is given the embeddings of every text; its columns are then among the result.

        Returns:
            The columns of `BERTScorer.match`.
        """
        store = self.store if self.store.max_bytes else None
        if user is None or not len(segments):
            return self.scorer.match(segments, store=store, collector=collector)
        key = (bytes(digest(to_bytes(segments)).tolist()), collector is not None)
        rows: dict[str, Tensor] | None = self.latest.get(key, user)
        if rows is None:
            rows = self.scorer.match(segments, store=store, collector=collector)
            self.latest.set(key, user, rows)
        return rows

    def report(
        self,
        columns: Mapping[str, Tensor],
        sample_ids: Tensor | None = None,
        *,
        warn: bool = True,
        label: str = "",
        user: int | None = None,
    ) -> BERTScoreResult:
        """Score what `match` returned, joined, without the encoder.

        Args:
            columns, sample_ids, warn, label: as for `BERTScorer.report`.
            user: whoever asks, by `id`, where another user's report of the same rows, and its warnings, will do.

        Raises:
            ValueError: two segments have the same number and different scores.
        """
        if user is None:
            return self.reporter.report(columns, sample_ids, warn=warn, label=label)
        ids = [] if sample_ids is None else [sample_ids]
        key = bytes(digest(*columns.values(), *ids).tolist())
        report: BERTScoreResult | None = self.latest_report.get(key, user)
        if report is None:
            report = self.reporter.report(columns, sample_ids, warn=warn, label=label)
            self.latest_report.set(key, user, report)
        return report

    def check_columns(self, columns: Mapping[str, Sequence[Tensor]]) -> int:
        """Return how many segments there are in columns that come in parts and from elsewhere, if they fit together.

        Raises:
            ValueError: they do not; the message names the column.
        """
        n_segments = check_columns(columns, self.reporter.layers)
        if "kept_vectors" in columns:
            check_embeddings(columns, n_segments, self.reporter.layers)
        return n_segments

    def to_device(self, device: torch.device) -> ScorerHandle:
        """Return a scorer whose encoder runs on another device; this one, and whoever shares it, stays as it is.

        Whoever shares this one and moves to the same device shares that one too.
        """
        known = self._by_device.get(str(device))
        if known is not None:
            return known
        other = copy.copy(self)
        other.device = device
        other.store = ReferenceCache(self.store.max_bytes)
        other.latest = SharedBatchCache()
        other.latest_report = SharedBatchCache()
        if self._scorer is not None:
            other._scorer = _without_encoder(self._scorer) if self._named else self._scorer.to_device(device)
        self._by_device[str(device)] = other
        return other

    def release(self) -> None:
        """Let go of the encoder, where it can be loaded again by its name, and of all stored embeddings."""
        self.store.clear()
        self.forget()
        if self._named and self._scorer is not None:
            self._scorer = _without_encoder(self._scorer)
        release_encoders()

    def forget(self) -> None:
        """Let go of the latest rows and report, which are kept for others of its users."""
        self.latest = SharedBatchCache()
        self.latest_report = SharedBatchCache()

    def _load(self) -> BERTScorer:
        return BERTScorer.from_config(self.config, device=self.device, **self._run_settings)

    def __deepcopy__(self, memo: dict[int, Any]) -> ScorerHandle:
        """Return the same object."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle settings, and the objects that only the user has.

        Raises:
            TypeError: such an object cannot be pickled.
        """
        state = {**self.__dict__, "store": self.store.max_bytes, "_by_device": None}
        state.update(latest=None, latest_report=None)
        if self._named and self._scorer is not None:
            state["_scorer"] = lite = _without_encoder(self._scorer)
            lite.model = dataclasses.replace(lite.model, tokenizer=None)  # type: ignore[arg-type]  # see `explainer`
        try:
            return _restore, (pickle.dumps(state),)
        except Exception as error:
            raise TypeError(
                f"The metric cannot be pickled, because an object it was given cannot: {error} Name a model "
                f"(model_name_or_path=), which is loaded again after unpickling, or make the object picklable."
            ) from error


class SharedBatchCache:
    """What one user of a scorer computed last, for others of its users that ask for the same.

    In `forward` the members of a metric collection get the same batch one after the other, and each would embed it; a
    user never gets its own result back, so that a metric on its own works as if this did not exist. A large result is
    the tensor that the user keeps in its states too, so that it takes memory once.
    """

    def __init__(self) -> None:
        self.after_fork()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Forget the result; another thread may have been setting it."""
        self._key: Hashable = None
        self._users: set[int] = set()
        self._value: Any = None

    def get(self, key: Hashable, user: int) -> Any:
        """Return the result for `key`, unless this user had it already."""
        if key != self._key or user in self._users:
            return None
        self._users.add(user)
        return self._value

    def set(self, key: Hashable, user: int, value: Any) -> None:
        """Remember a result."""
        self._key, self._users, self._value = key, {user}, value


class ReleasedEncoder:
    """Stands where an encoder was that has been released."""

    def __init__(self, fingerprint: str) -> None:
        self.fingerprint = fingerprint

    def embed(self, tokens: TokenBatch) -> Tensor:
        """Refuse.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError("This encoder has been released.")


def _without_encoder(scorer: BERTScorer) -> BERTScorer:
    lite = copy.copy(scorer)
    lite.model = dataclasses.replace(lite.model, encoder=ReleasedEncoder(lite.model.encoder.fingerprint))
    return lite


def _restore(data: bytes) -> ScorerHandle:
    state = pickle.loads(data)
    shared = ScorerHandle.__new__(ScorerHandle)
    shared.__dict__.update(state, store=ReferenceCache(state["store"]))
    shared.latest, shared.latest_report = SharedBatchCache(), SharedBatchCache()
    shared._by_device = weakref.WeakValueDictionary()
    return shared
