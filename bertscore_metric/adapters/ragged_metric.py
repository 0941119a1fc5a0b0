"""A `torchmetrics.Metric` whose states are the parts of a `Stream`: what its base class does, without its traps.

Rows stay in host memory, where the compute half runs, and go to the metric's device only to be gathered over ranks.
States are lists of one-dimensional tensors, which are never changed in place. Nor are the lists, whoever else may hold
them, but for one thing: what waits is scored in place, so that all members of a compute group see it. That is right
because rows are added by giving the metric new lists for all its columns at once, so that those who share the list of
pending texts share the others too.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar, cast

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities.distributed import gather_all_tensors
from torchmetrics.utilities.exceptions import TorchMetricsUserError

from bertscore_metric.adapters.ragged_states import foreign_columns, same_settings
from bertscore_metric.models.numerics import own_arithmetic
from bertscore_metric.state.state_columns import digest, joined
from bertscore_metric.state.stream import STREAM_COLUMNS, Parts, SegmentScorer, Stream

_TENSOR_STATES = {"n_segments": "n_segments", "digest": "seen"}  # columns of a stream that are no lists here
_NOT_COPIED = ("update", "compute", "_update_signature", "_forward_uncompiled")
Function = TypeVar("Function", bound=Callable[..., Any])


class RaggedMetric(Metric):
    """Rows in columns, exact in a stream and over ranks. Threads that share a metric take turns.

    A subclass declares its columns with `add_columns` and provides `update` (which changes `stream()` and hands it to
    `keep`), `compute`, `_segment_scorer`, `_check_rows` (refuse rows that do not belong together) and `_check_foreign`
    (more thoroughly, for those that come from elsewhere).

    The methods below replace those of torchmetrics' `Metric`, under its names. They lean on these private names of it:
    `_defaults`, `_persistent`, `_reductions` (through `add_state`), `_update_count`, `_computed`, `_forward_cache`,
    `_cache`, `_is_synced`, `_to_sync`, `_should_unsync`, `_device`, and on its calling `_wrap_update`, `_wrap_compute`,
    `_reduce_states`, `_sync_dist`, `_copy_state_dict` and `_move_list_states_to_cpu`.

    Args:
        kwargs: the arguments of `torchmetrics.Metric`. `compute_on_cpu` changes nothing: rows are on the CPU anyway.
    """

    full_state_update = False
    settings: Tensor
    updates: Tensor
    n_segments: Tensor
    seen: Tensor

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._forward_uncompiled = _uncompiled(self._forward)
        self._column_types: dict[str, torch.dtype] = {}
        self._local: frozenset[str] = frozenset()
        self._in_step = False  # whether `forward` is scoring a batch, which then need not wait for others
        self._result: Any = None  # what the last `compute` found beside its value; good as long as that is kept

    def add_columns(
        self, columns: Mapping[str, torch.dtype], settings: bytes, *, local: Mapping[str, torch.dtype]
    ) -> None:
        """Declare the states.

        Args:
            columns: name -> dtype of the results, gathered over ranks.
            settings: what rows must have in common to be mixed.
            local: name -> dtype of columns that are not gathered by `sync`.
        """
        own = {name: dtype for name, dtype in STREAM_COLUMNS.items() if name not in _TENSOR_STATES}
        with _arithmetic():
            for name, dtype in {**columns, **local, **own}.items():
                self.add_state(name, [], dist_reduce_fx="cat")
                self._column_types[name] = dtype
            # One byte an entry: torchmetrics compares states to a relative tolerance, which large numbers would pass.
            self.add_state("settings", torch.tensor(list(settings), dtype=torch.uint8), dist_reduce_fx=same_settings)
            self.add_state("updates", torch.zeros(1, dtype=torch.int64), dist_reduce_fx="sum")
            # These two are no lists, for a collection compares lists only as far as the shorter one goes, so that rows
            # which wait in one metric and are scored in another would look equal.
            self.add_state("n_segments", torch.zeros(1, dtype=torch.int64), dist_reduce_fx="sum")
            self.add_state("seen", torch.zeros(16, dtype=torch.uint8), dist_reduce_fx=digest)
        self._local = frozenset({*local, "pending_texts"})

    def stream(self) -> Stream:
        """Return the states as a stream, which shares their lists."""
        return Stream(self._segment_scorer(), self._parts({name: getattr(self, name) for name in self._defaults}))

    def keep(self, stream: Stream) -> None:
        """Make a stream the state of the metric."""
        self._set_states(self._states(stream))

    def column(self, name: str) -> Tensor:
        """Return a column as one tensor."""
        return joined(getattr(self, name), self._column_types[name])

    def drain(self) -> None:
        """Score what waits, in place; if that fails, it goes on waiting."""
        with _arithmetic():
            if not self._is_synced:
                self.stream().drain()

    def _parts(self, states: Mapping[str, Any]) -> Parts:
        lists = {name: states[name] for name in self._column_types}
        return {**lists, **{name: [states[state]] for name, state in _TENSOR_STATES.items()}}

    def _states(self, stream: Stream) -> dict[str, Any]:
        lists = {name: stream.parts[name] for name in self._column_types}
        return {**lists, **{state: stream.parts[name][0] for name, state in _TENSOR_STATES.items()}}

    def _segment_scorer(self) -> SegmentScorer:
        raise NotImplementedError

    def _check_rows(self, stream: Stream) -> None:
        raise NotImplementedError

    def _check_foreign(self, stream: Stream) -> None:
        raise NotImplementedError

    def _forget_results(self) -> None:
        self._computed = None

    # What follows replaces methods of the base class, under its names.

    def _wrap_update(self, update: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(update)
        def wrapped(*args: Any, **kwargs: Any) -> None:
            with _arithmetic():
                self._check_not_synced("update")
                update(*args, **kwargs)
                self.updates = self.updates + 1
                self._forget_results()  # only now: an update that failed changes nothing
                self._update_count += 1

        return _uncompiled(wrapped)

    def _wrap_compute(self, compute: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(compute)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with _arithmetic():
                if self._computed is not None:
                    return self._computed
                by_hand = self._is_synced
                self.drain()  # before any collective, so that a failure here leaves no rank behind in one
                with self.sync_context(
                    dist_sync_fn=self.dist_sync_fn,
                    should_sync=self._to_sync and not by_hand,
                    should_unsync=self._should_unsync and not by_hand,
                ):
                    value = compute(*args, **kwargs)  # not squeezed: one segment is a vector of length 1
                if self.compute_with_cache:
                    self._computed = value
                return value

        return _uncompiled(wrapped)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Add a batch, and return its own value."""
        return self._forward_uncompiled(*args, **kwargs)

    def _forward(self, *args: Any, **kwargs: Any) -> Any:
        with _arithmetic():  # throughout, so that no other thread meets the metric without its rows
            return self._step(*args, **kwargs)

    def _step(self, *args: Any, **kwargs: Any) -> Any:
        self._check_not_synced("forward")
        self.drain()  # its rows come before those of the batch
        held = {name: getattr(self, name) for name in self._defaults}
        count, to_sync = self._update_count, self._to_sync
        computed, result = self._computed, self._result
        try:
            # The states are put aside, not copied: the cost of a step does not grow with what came before.
            self._clear_states()
            self._to_sync, self._in_step = self.dist_sync_on_step, True
            self.update(*args, **kwargs)
            value = self.compute()
            batch = self.stream()
            self._set_states(held)
            self._add(batch, updates=1)
        except BaseException:
            self._set_states(held)
            self._cache, self._is_synced = None, False
            self._update_count, self._computed, self._result = count, computed, result
            raise
        finally:
            self._to_sync, self._in_step = to_sync, False
        self._forget_results()
        self._update_count = count + 1
        self._forward_cache = value
        return value

    def merge_state(self, incoming_state: dict[str, Any] | Metric) -> None:
        """Add the rows of another metric, or of its `metric_state`, behind one's own.

        Raises:
            ValueError: it is not such a state, or one of other settings; nothing is changed.
        """
        if isinstance(incoming_state, Metric) and not isinstance(incoming_state, RaggedMetric):
            raise ValueError(
                f"Cannot merge a {type(incoming_state).__name__} into a {type(self).__name__}; pass a metric of the "
                f"same settings, or its metric_state."
            )
        if not isinstance(incoming_state, dict | Metric):
            raise ValueError(f"merge_state takes a metric or its metric_state, got {type(incoming_state).__name__}.")
        self._reduce_states(incoming_state.metric_state if isinstance(incoming_state, Metric) else incoming_state)

    def _reduce_states(self, incoming_state: dict[str, Any]) -> None:
        with _arithmetic():
            self._check_not_synced("merge_state")
            count = int(incoming_state["updates"]) if isinstance(incoming_state.get("updates"), Tensor) else 0
            self._add(self._checked(incoming_state), updates=count)
            self._update_count += count
            self._forget_results()

    def sync(
        self,
        dist_sync_fn: Callable[..., Any] | None = None,
        process_group: Any = None,
        should_sync: bool = True,
        distributed_available: Callable[..., bool] | None = None,
    ) -> None:
        """Gather the rows of all ranks; if that fails, this rank's are as they were."""
        if not should_sync:
            return
        with _arithmetic():
            if self._is_synced:
                raise TorchMetricsUserError("The metric has already been synced; call unsync() first.")
            self.drain()
            try:
                super().sync(dist_sync_fn, process_group, should_sync, distributed_available)
            except BaseException:
                if self._cache is not None:
                    self._set_states(self._cache)
                self._cache, self._is_synced = None, False
                raise
            if self._is_synced:
                self._computed = None

    def unsync(self, should_unsync: bool = True) -> None:
        """Go back to the rows of this rank."""
        super().unsync(should_unsync)
        if should_unsync:
            self._computed = None

    @contextmanager
    def sync_context(
        self,
        dist_sync_fn: Callable[..., Any] | None = None,
        process_group: Any = None,
        should_sync: bool = True,
        should_unsync: bool = True,
        distributed_available: Callable[..., bool] | None = None,
    ) -> Iterator[None]:
        """Gather the rows of all ranks for a block; afterwards, also after an error, this rank has its own again."""
        self.sync(dist_sync_fn, process_group, should_sync, distributed_available)
        try:
            yield
        finally:
            self.unsync(should_unsync=self._is_synced and should_unsync)

    def _sync_dist(self, dist_sync_fn: Callable[..., Any] = gather_all_tensors, process_group: Any = None) -> None:
        group = process_group or self.process_group
        # First of all, and alone: ranks of other settings may have other columns.
        same_settings(torch.stack([rank.cpu() for rank in dist_sync_fn(self.settings.to(self.device), group=group)]))
        gathered: dict[str, Any] = {}
        for name in ("updates", "n_segments", "seen"):
            ranks = torch.stack([rank.cpu() for rank in dist_sync_fn(getattr(self, name).to(self.device), group=group)])
            gathered[name] = digest(*ranks) if name == "seen" else ranks.sum(0)
        for name in self._column_types:
            if name not in self._local:
                # A rank without rows sends an empty tensor of the right type, where torch aborts over another.
                parts = dist_sync_fn(self.column(name).to(self.device), group=group)
                gathered[name] = [part.cpu() for part in parts if part.numel()]
        self._set_states(gathered)

    def _copy_state_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._defaults}  # nothing is changed in place while it is kept

    def reset(self) -> None:
        """Forget all rows."""
        with _arithmetic():
            self._forget_results()
            self._update_count = 0
            self._forward_cache = None
            self._cache, self._is_synced = None, False
            self._clear_states()

    def state_dict(  # type: ignore[override]
        self, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Return what a checkpoint holds: nothing, unless `persistent(True)` was called.

        With `sync_on_compute=False` every rank saves its own rows.

        Raises:
            TorchMetricsUserError: persistent states of one of several ranks, which would lose the rows of the others,
                or kept embeddings of one with the scores of all.
        """
        if any(self._persistent.values()) and self._is_synced:
            try:
                self._check_foreign(self.stream())
            except ValueError as error:
                own = ", ".join(sorted(self._local - {"pending_texts"}))
                raise TorchMetricsUserError(
                    f"The rows of all ranks are here, but {own} of this rank only, so that a checkpoint would put them "
                    f"with the wrong rows. Call metric.persistent(False), or keep no embeddings; or let every rank "
                    f"save and load a checkpoint of its own, with sync_on_compute=False."
                ) from error
        elif any(self._persistent.values()):
            if self.sync_on_compute and self._ranks() > 1:
                raise TorchMetricsUserError(
                    "The states are persistent, and a checkpoint of this rank would lose the rows of the others. Call "
                    "metric.sync() on every rank, save, then metric.unsync(); or metric.persistent(False)."
                )
            self.drain()
        return super().state_dict(destination, prefix, keep_vars)

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        names = [name for name in self._defaults if prefix + name in state_dict]
        state = {name: state_dict.pop(prefix + name) for name in names}
        if state:
            try:
                with _arithmetic():
                    rows = self._states(self._checked(state))
            except ValueError as error:
                error_msgs.append(str(error))
            else:
                # A checkpoint has the rows of all ranks; every rank loads it, so one of them takes them, but for
                # metrics that never meet.
                takes = not self.sync_on_compute or self._rank() == 0
                self.reset()
                self._set_states({**rows, "updates": state["updates"].cpu()} if takes else {})
                self._update_count = int(self.updates)
        torch.nn.Module._load_from_state_dict(
            self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    def set_dtype(self, dst_type: str | torch.dtype) -> RaggedMetric:
        """Change nothing: ids are integers, and scores are float32 whatever the model around the metric is."""
        return self

    def _apply(  # type: ignore[override]  # torchmetrics put `exclude_state` where torch has `recurse`
        self, fn: Callable[[Tensor], Tensor], exclude_state: Any = "", recurse: bool = True
    ) -> torch.nn.Module:
        try:
            device = fn(torch.zeros(1, device=self.device)).device
        except NotImplementedError:  # nothing leads back from the meta device
            device = fn(torch.zeros(1, device="cpu")).device
        torch.nn.Module._apply(self, fn, recurse)  # type: ignore[no-untyped-call]
        if device != self._device:
            self._device = device
            self._moved(device)
            self._forget_results()
        return self

    def _moved(self, device: torch.device) -> None:
        """Take note that the metric has another device."""

    def _move_list_states_to_cpu(self) -> None:
        pass  # they are there

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled; waiting texts are encoded first."""
        self.drain()
        return self._plain_state()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore what was pickled or copied."""
        super().__setstate__(state)
        self._forward_uncompiled = _uncompiled(self._forward)

    def __deepcopy__(self, memo: dict[int, Any]) -> RaggedMetric:
        """Copy the rows and share the rest."""
        other = type(self).__new__(type(self))
        memo[id(self)] = other
        if self.process_group is not None:
            memo[id(self.process_group)] = self.process_group
        other.__setstate__(copy.deepcopy(self._plain_state(), memo))
        return other

    def _plain_state(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in _NOT_COPIED}

    def _clear_states(self) -> None:
        # New lists, not emptied ones: others may hold the old.
        self._set_states({**self._defaults, **{name: [] for name in self._column_types}})

    def _set_states(self, states: Mapping[str, Any]) -> None:
        for name, value in states.items():
            setattr(self, name, value)

    def _add(self, other: Stream, *, updates: int) -> None:
        """Put the rows of a stream behind one's own, if they belong together."""
        stream = self.stream()
        stream.merge(other)
        self._check_rows(stream)
        self.keep(stream)
        self.updates = self.updates + updates

    def _checked(self, state: Mapping[str, Any]) -> Stream:
        """Return a state that comes from elsewhere as a stream, or refuse it."""
        columns, tensors = foreign_columns(
            state, self._column_types, ("updates", *_TENSOR_STATES.values()), self.settings, self._describe()
        )
        stream = Stream(self._segment_scorer(), self._parts({**columns, **tensors}))
        self._check_foreign(stream)
        self._check_rows(stream)
        return stream

    def _describe(self) -> str:
        return type(self).__name__

    def _check_not_synced(self, what: str) -> None:
        if self._is_synced:
            raise TorchMetricsUserError(f"The metric is synced; call unsync() before {what}.")

    def _ranks(self) -> int:
        return torch.distributed.get_world_size(self.process_group) if self._meets_others() else 1

    def _rank(self) -> int:
        return torch.distributed.get_rank(self.process_group) if self._meets_others() else 0

    def _meets_others(self) -> bool:
        # With a custom `dist_sync_fn` the others need not be torch's; how many they are is then for the user to know.
        return bool(self.distributed_available_fn()) and torch.distributed.is_initialized()


def _uncompiled(function: Function) -> Function:
    return cast(Function, torch.compiler.disable(function))  # type: ignore[no-untyped-call]


def _arithmetic() -> AbstractContextManager[None]:
    return own_arithmetic("float32", torch.device("cpu"))
