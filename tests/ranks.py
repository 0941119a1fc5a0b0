"""Jobs for real processes that talk over gloo; children import this module by its name, so it is not a test file."""

import os
import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing
from fakes import HashEncoder, WordCount
from metric_kinds import KINDS, Kind, scores, tokenizer

from bertscore_metric import parse_segments
from bertscore_metric.adapters.torchmetrics import bertscore_collection
from bertscore_metric.state.exchange import gather
from bertscore_metric.state.state_columns import digest, joined_columns
from bertscore_metric.state.stream import Stream

SPLITS = {  # which segments each of two ranks has
    "even": ([0, 1, 2, 3], [4, 5, 6, 7, 8]),
    "uneven": ([0], [1, 2, 3, 4, 5, 6, 7, 8]),
    "empty rank": ([0, 1, 2, 3, 4, 5, 6, 7, 8], []),
    "first rank empty": ([], [0, 1, 2, 3, 4, 5, 6, 7, 8]),
}


def run(job: str, folder: Path, world: int = 2, timeout: float = 60) -> list[Any]:
    """Run a job on every rank and return what each of them did."""
    context = torch.multiprocessing.start_processes(
        _rank, (job, str(folder), world, timeout), nprocs=world, start_method="spawn", join=False
    )
    assert context is not None
    while not context.join():
        pass
    return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(world)]


def _rank(rank: int, job: str, folder: str, world: int, timeout: float) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world, timeout=timedelta(seconds=timeout)
    )
    result = JOBS[job](rank)
    result["death"] = _death(rank, Path(folder), result)
    torch.save(result, Path(folder) / f"{rank}.pt")


def every_kind(rank: int) -> dict[Any, Any]:
    """Score every split of the corpus with every kind of settings, under two default dtypes."""
    out: dict[Any, Any] = {}
    for dtype in (torch.float32, torch.bfloat16):
        torch.set_default_dtype(dtype)
        for name, kind in KINDS.items():
            for split, shares in SPLITS.items():
                if dtype == torch.bfloat16 and split != "empty rank":
                    continue
                out[name, split, str(dtype)] = _score(kind, shares[rank])
    torch.set_default_dtype(torch.float32)
    out["more"] = more(rank)
    return out


def _score(kind: Kind, share: list[int]) -> dict[str, Any]:
    metric = kind.metric()
    kind.update(metric, share, step=2)
    encoder = metric._shared.scorer.model.encoder
    value = scores(metric.compute())
    rows = int(metric.n_segments)
    again = scores(metric.compute())
    return {
        "scores": value,
        "again": again,
        "best": metric.best_reference,
        "rows": rows,
        "windows": metric._result.n_windows,
        "texts": getattr(encoder, "n_texts", None),
        "synced": metric._is_synced,
    }


def more(rank: int) -> dict[str, Any]:
    """Return what is tested on two ranks once, not for every kind."""
    return {name: check(rank) for name, check in CHECKS.items()}


def _error(function: Callable[[], Any]) -> str:
    try:
        function()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def _duplicates(rank: int) -> Any:
    # Seven segments over two ranks: a distributed sampler interleaves them and repeats the first to fill up.
    out = {}
    for name in ("numbered", "corpus idf, numbered", "all layers, corpus idf", "long texts in windows"):
        kind = KINDS[name]
        metric = kind.metric()
        kind.update(metric, [0, 2, 4, 6] if rank == 0 else [1, 3, 5, 0], step=3)
        out[name] = scores(metric.compute()), metric.result().n_windows
        if name == "numbered":
            out["interval"] = *metric.result().interval("recall"), metric.result().n_segments
    return out


def _conflict(rank: int) -> Any:
    metric = KINDS["numbered"].metric()
    metric.update(["the cat" if rank == 0 else "a dog"], ["the cat"], torch.tensor([3]))
    error = _error(metric.compute)
    rows = int(metric.n_segments)
    metric.reset()
    metric.update(["the cat"], ["the cat"], torch.tensor([rank]))
    return error, rows, metric._is_synced, scores(metric.compute())


def _numbers_on_one_rank(rank: int) -> Any:
    metric = KINDS["plain"].metric()
    metric.update(["the cat"], ["the cat"], *([torch.tensor([3])] if rank == 0 else []))
    return _error(metric.compute)


def _other_settings(rank: int) -> Any:
    metric = KINDS["plain" if rank == 0 else "corpus idf"].metric()
    metric.update(["the cat"], ["the cat"])
    return _error(metric.compute), metric._is_synced, int(metric.n_segments)


def _by_hand(rank: int) -> Any:
    kind = KINDS["corpus idf"]
    metric = kind.metric()
    kind.update(metric, SPLITS["uneven"][rank])
    metric.sync()
    update = _error(lambda: metric.update(["a"], ["a"]))
    synced = scores(metric.compute())
    metric.persistent(True)
    saved = metric.state_dict()
    metric.unsync()
    refused = _error(metric.state_dict)
    loaded = kind.metric()
    loaded.load_state_dict(saved)
    local = kind.metric(sync_on_compute=False)
    kind.update(local, SPLITS["uneven"][rank])
    return update, synced, refused, scores(loaded.compute()), scores(local.compute())


def _forward(rank: int) -> Any:
    kind = KINDS["corpus idf"]
    out = []
    for sync in (False, True):
        metric = kind.metric(dist_sync_on_step=sync)
        steps = [scores(metric(*kind.batch([a, b]))) for a, b in (((0, 1), (4, 5)) if rank == 0 else ((2, 3), (6, 7)))]
        out.append((steps, scores(metric.compute()), metric.update_count, metric._shared.scorer.model.encoder.n_texts))
    return out


def _subgroup(rank: int) -> Any:
    groups = [dist.new_group([0]), dist.new_group([1])]
    kind = KINDS["plain"]
    metric = kind.metric(process_group=groups[rank])
    kind.update(metric, SPLITS["even"][rank])
    return scores(metric.compute()), scores(metric.clone().compute())


def _embeddings(rank: int) -> Any:
    kind = KINDS["embeddings kept"]
    metric = kind.metric()
    kind.update(metric, SPLITS["uneven"][rank])
    metric.gather_embeddings()
    kept = metric.kept_embeddings(6)
    return [(kept.candidate.ids, kept.candidate.embeddings), *((one.ids, one.embeddings) for one in kept.references)]


def _embeddings_while_synced(rank: int) -> Any:
    kind = KINDS["embeddings kept"]
    metric = kind.metric()
    kind.update(metric, SPLITS["uneven"][rank])
    metric.persistent(True)
    with metric.sync_context():
        return _error(metric.state_dict), _error(lambda: metric.kept_embeddings(0))


def _checkpoints_of_ranks_apart(rank: int) -> Any:
    kind = KINDS["embeddings kept"]
    metric, own = (kind.metric(sync_on_compute=False) for _ in range(2))
    kind.update(metric, SPLITS["uneven"][rank])
    metric.persistent(True)
    own.load_state_dict(metric.state_dict())
    kind = KINDS["plain"]
    together, loaded = (kind.metric(sync_on_compute=False) for _ in range(2))
    kind.update(together, SPLITS["uneven"][rank])
    together.persistent(True)
    together.sync()
    loaded.load_state_dict(together.state_dict())
    return scores(own.compute()), own.kept_embeddings(0).candidate.ids, scores(loaded.compute())


def _collection(rank: int) -> Any:
    kind = KINDS["mean"]
    encoder = HashEncoder()
    collection = bertscore_collection(prefix="val_", encoder=encoder, tokenizer=tokenizer())
    for number in SPLITS["uneven"][rank]:
        collection.update(*kind.batch([number]))
    return collection.compute(), encoder.n_texts


def _nothing(rank: int) -> Any:
    metric = KINDS["plain"].metric()
    return scores(metric.compute()).shape


def exchange(rank: int) -> dict[str, Any]:
    """Return what a rank sees of every exchange, with a count of what was pickled meanwhile."""
    pickled = 0

    def refuse(*_: Any, **__: Any) -> Any:
        nonlocal pickled
        pickled += 1
        raise AssertionError("pickled")

    dist.distributed_c10d._pickler = refuse  # type: ignore[attr-defined]
    columns = {
        "ids": torch.tensor([1, 2, 3] if rank == 0 else [], dtype=torch.int64),
        "scores": torch.tensor([0.5] if rank == 0 else [0.25, 0.75]),
        "flags": torch.tensor([] if rank == 0 else [1], dtype=torch.uint8),
    }
    stream = Stream(WordCount())
    if rank == 0:
        texts = ["a", "a b", "a b c", "a"]
        stream.add(parse_segments(texts, texts))
    out = {
        "columns": gather(columns if rank == 0 else dict(reversed(columns.items()))),
        "failure": _error(lambda: gather({}, KeyError("lost")) if rank else gather(columns)),
        "other rows": _error(lambda: gather(columns, digest=digest(torch.tensor([rank])))),
        "other columns": _error(lambda: gather({f"ids {rank}": columns["ids"]})),
        "stream": Stream.from_columns(WordCount(), joined_columns(gather(stream.columns()))).report(),
    }
    return {**out, "pickled": pickled}


CHECKS: dict[str, Callable[[int], Any]] = {
    "duplicates": _duplicates,
    "conflict": _conflict,
    "numbers on one rank": _numbers_on_one_rank,
    "other settings": _other_settings,
    "by hand": _by_hand,
    "forward": _forward,
    "subgroup": _subgroup,
    "embeddings": _embeddings,
    "embeddings while synced": _embeddings_while_synced,
    "checkpoints of ranks apart": _checkpoints_of_ranks_apart,
    "collection": _collection,
    "nothing": _nothing,
}


def _death(rank: int, folder: Path, result: Any) -> Any:
    """One rank dies before it computes; return what the other one gets."""
    metric = KINDS["corpus idf"].metric()
    metric.update(["the cat"], ["a dog"])
    if rank == 1:
        torch.save(result, folder / "1.pt")
        os._exit(0)
    error = _error(metric.compute)
    return error, metric._is_synced, int(metric.n_segments)


JOBS: dict[str, Callable[[int], Any]] = {"every kind": every_kind, "exchange": exchange}
