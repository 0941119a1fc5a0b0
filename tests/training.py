"""Jobs that train with Lightning, on one process or on several that talk over gloo; children import it, so no test."""

import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lightning
import torch
import torch.multiprocessing
from conftest import MODELS
from lightning.pytorch.callbacks import Callback, EarlyStopping, ModelCheckpoint
from torch.utils.data import DataLoader, Subset

from bertscore_metric import BERTScore, BERTScoreWarning
from bertscore_metric.adapters.torchmetrics import BERTScoreValue, bertscore_collection
from bertscore_metric.example.lightning_module import Rewriter
from bertscore_metric.example.rewriting import Batch, Rewriting, generate

SETTINGS: dict[str, Any] = {"model_name_or_path": str(MODELS / "bert"), "num_layers": 2}
SECOND = 100  # numbers of the second loader's rows begin here
Texts = dict[int, tuple[str, str]]  # number in the data set -> generated text and target


class EveryWay(Rewriter):
    """Scores two validation loaders, logs in every way there is, and remembers what it generated."""

    def __init__(self, bertscore: BERTScore | None = None, **settings: Any) -> None:
        super().__init__(BERTScore(**SETTINGS, idf=True) if bertscore is None else bertscore, **settings)
        self.collection = bertscore_collection(prefix="all_", **SETTINGS)
        self.value = BERTScoreValue("f1", **SETTINGS)
        self.by_loader = torch.nn.ModuleList([BERTScoreValue("recall", **SETTINGS) for _ in range(2)])
        self.epochs: list[Texts] = []

    def on_validation_epoch_start(self) -> None:
        self.epochs.append({})

    def validation_step(self, batch: Batch, batch_index: int, dataloader_idx: int = 0) -> None:
        number = batch["number"] + SECOND * dataloader_idx
        texts = generate(self.tokenizer, self.model, batch, self.device)
        # One text is empty, and no other is, whatever an untrained model makes of it.
        texts = ["" if n == 3 else f"it says {text}" for n, text in zip(number.tolist(), texts, strict=True)]
        self.epochs[-1].update(
            {n: pair for n, *pair in zip(number.tolist(), texts, batch["target"], strict=True)}  # type: ignore[misc]
        )
        for metric in (self.bertscore, self.by_loader[dataloader_idx]):
            metric.update(texts, batch["target"], sample_ids=number)
        self.log("recall", self.by_loader[dataloader_idx])
        if dataloader_idx == 0:
            self.collection.update(texts, batch["target"], sample_ids=number)
            self.value.update(texts, batch["target"], sample_ids=number)
            self.log_dict(self.collection, add_dataloader_idx=False)
            self.log("value", self.value, add_dataloader_idx=False)

    def val_dataloader(self) -> list[DataLoader[Batch]]:  # type: ignore[override]
        return [DataLoader(data, batch_size=4) for data in (Rewriting(), Subset(Rewriting(), range(7)))]

    def on_test_epoch_start(self) -> None:
        self.on_validation_epoch_start()

    def test_step(self, batch: Batch, batch_index: int, dataloader_idx: int = 0) -> None:
        self.validation_step(batch, batch_index, dataloader_idx)

    def on_test_epoch_end(self) -> None:
        self.on_validation_epoch_end()

    test_dataloader = val_dataloader


class History(Callback):
    """Keeps what was logged after every epoch of validation or test, and the warnings of the metric."""

    def __init__(self) -> None:
        self.logged: list[dict[str, float]] = []
        self.sanity: list[dict[str, float]] = []

    def on_validation_end(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
        values = {name: value.item() for name, value in trainer.callback_metrics.items()}
        (self.sanity if trainer.sanity_checking else self.logged).append(values)

    on_test_end = on_validation_end


def trainer(folder: Path, *callbacks: Callback, **settings: Any) -> lightning.Trainer:
    """Return a quiet trainer on as many CPU processes as there are."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    return lightning.Trainer(**{
        "accelerator": "cpu", "devices": world, "strategy": "ddp" if world > 1 else "auto", "default_root_dir": folder,
        "callbacks": list(callbacks), "logger": False, "enable_progress_bar": False, "enable_model_summary": False,
        "max_epochs": 2, "enable_checkpointing": any(isinstance(c, ModelCheckpoint) for c in callbacks), **settings,
    })  # fmt: skip


def fit(folder: Path) -> dict[str, Any]:
    """Fit with sanity check, checkpoints and early stopping; resume in mid-epoch; validate and test."""
    lightning.seed_everything(0)
    history, module = History(), EveryWay()
    best = ModelCheckpoint(folder / "best", monitor="val_f1", mode="max", filename="{epoch}")
    other = ModelCheckpoint(folder / "other", monitor="all_recall", mode="min", filename="{epoch}")
    steps = ModelCheckpoint(
        folder / "steps", every_n_train_steps=2, save_top_k=-1, filename="{step}", save_on_train_epoch_end=False
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer(folder, history, best, other, steps).fit(module)
    out = {
        "fit": {"epochs": module.epochs, "logged": history.logged},
        "sanity": history.sanity,
        "best": float(best.best_model_score),  # type: ignore[arg-type]
        "other": float(other.best_model_score),  # type: ignore[arg-type]
        "warnings": [str(w.message) for w in caught if issubclass(w.category, BERTScoreWarning)],
    }
    history, module = History(), EveryWay()
    stop = EarlyStopping("val_f1", mode="max", min_delta=10, patience=1)
    trainer(folder, history, stop, max_epochs=4).fit(module, ckpt_path=folder / "steps" / "step=2.ckpt")
    out["resumed"] = {"epochs": module.epochs, "logged": history.logged, "stopped": stop.stopped_epoch}
    for name in ("validate", "test"):
        history, module = History(), EveryWay()
        values = getattr(trainer(folder, history), name)(module, ckpt_path=best.best_model_path, verbose=False)
        out[name] = {"epochs": module.epochs, "logged": history.logged, "returned": values}
    return out


PREDS, TARGET = ["the cat sat", "a dog", "I like lemons."], ["a cat sat", "the dog", "I love lemons."]


def f1(**settings: Any) -> torch.Tensor:
    """Return what a new metric says about three pairs, the same ones on every rank."""
    metric = BERTScore(**{**SETTINGS, **settings}, reduction="none")
    metric.update(PREDS, TARGET, sample_ids=range(3))
    return metric.compute()["f1"]


def sharded(folder: Path) -> dict[str, Any]:
    """Load weights, each time of another layer and so anew, where a run is set up to load each rank a part."""
    from transformers import AutoModel
    from transformers.integrations import deepspeed
    from transformers.integrations.fsdp import is_fsdp_enabled

    load, inside = AutoModel.from_pretrained, []

    def watched(*args: Any, **settings: Any) -> Any:
        inside.append((is_fsdp_enabled(), deepspeed.is_deepspeed_zero3_enabled()))
        return load(*args, **settings)

    AutoModel.from_pretrained = watched
    out: dict[str, Any] = {"inside": inside}
    os.environ.update(ACCELERATE_USE_FSDP="true", FSDP_CPU_RAM_EFFICIENT_LOADING="true")
    assert is_fsdp_enabled()
    out["FSDP"] = f1(num_layers=1)
    assert is_fsdp_enabled()
    del os.environ["ACCELERATE_USE_FSDP"], os.environ["FSDP_CPU_RAM_EFFICIENT_LOADING"]

    class Zero3:  # as accelerate's HfDeepSpeedConfig, which DeepSpeed itself is needed for
        def is_zero3(self) -> bool:
            return True

    setting = Zero3()
    deepspeed.set_hf_deepspeed_config(setting)
    assert deepspeed.is_deepspeed_zero3_enabled()
    out["ZeRO-3"] = f1(num_layers=3)
    assert deepspeed.is_deepspeed_zero3_enabled()
    deepspeed.unset_hf_deepspeed_config()
    AutoModel.from_pretrained = load

    with torch.device("meta"):  # where FSDP strategies make modules
        host = Host()
    host.to_empty(device="cpu")
    out["hosts"] = [train_sharded(host, kind) for kind in ("FSDP", "fully_shard", "DDP")]
    return out


class Host(torch.nn.Module):
    """A model that has a metric among its modules."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
        self.metric = BERTScore(**{**SETTINGS, "num_layers": 4}, reduction="none")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)  # type: ignore[no-any-return]


def train_sharded(host: Host, kind: str) -> dict[str, Any]:
    """Train a copy of the host for a step, cut over the ranks, and score inside."""
    import copy

    from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

    host = copy.deepcopy(host)
    for parameter in host.parameters():
        torch.nn.init.ones_(parameter)
    if kind == "fully_shard":
        net: Any = fully_shard(host, mesh=torch.distributed.init_device_mesh("cpu", (2,)))
    elif kind == "FSDP":
        net = FullyShardedDataParallel(host, device_id=torch.device("cpu"), use_orig_params=True)
    else:
        net = torch.nn.parallel.DistributedDataParallel(host)
    net(torch.ones(2, 4)).sum().backward()
    torch.optim.SGD(net.parameters(), lr=0.1).step()
    host.metric.update(PREDS, TARGET, sample_ids=range(3))
    weights = [getattr(parameter, "_local_tensor", parameter) for parameter in net.parameters()]
    return {
        "f1": host.metric.compute()["f1"],
        "device": host.metric.device.type,
        "state": list(net.state_dict()),
        "changed": all(bool(weight.ne(1).all()) for weight in weights),
    }


JOBS: dict[str, Callable[[Path], Any]] = {"fit": fit, "sharded": sharded}


def run(jobs: Sequence[str], folder: Path, world: int = 2) -> list[dict[str, Any]]:
    """Run jobs one after the other on every rank, and return what each rank found."""
    context = torch.multiprocessing.start_processes(
        _rank, (list(jobs), str(folder), world), nprocs=world, start_method="spawn", join=False
    )
    assert context is not None
    while not context.join():
        pass
    return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(world)]


def _rank(rank: int, jobs: list[str], folder: str, world: int) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    # What torchrun sets, by which Lightning and accelerate know that it has started the processes.
    names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world, "GROUP_RANK": 0}
    os.environ.update({name: str(value) for name, value in names.items()})
    os.environ.update(TORCHELASTIC_RUN_ID="tests", MASTER_ADDR="localhost", MASTER_PORT="0")
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=world)
    found = {}
    for job in jobs:
        (Path(folder) / job).mkdir(exist_ok=True)
        found[job] = JOBS[job](Path(folder) / job)
    torch.save(found, Path(folder) / f"{rank}.pt")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
