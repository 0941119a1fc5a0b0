"""`python -m tests.benchmarks.lightning [PAIRS]`: what five validation epochs cost in Lightning, beside torchmetrics.

The same texts, in turn, in one run: candidates change from epoch to epoch, references stay. Every kind runs in
processes of its own, on one and on two, with one thread each.
"""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import json
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import lightning
import torch
from torch.utils.data import DataLoader

from bertscore_metric import BERTScore
from bertscore_metric.models.source import resolve
from tests.benchmarks.counted import Encoded, counted
from tests.benchmarks.texts import pairs

LAYER = 6
EPOCHS = 5
KINDS = ("torchmetrics", "torchmetrics, model=", "bertscore_metric", "nothing")


def main() -> None:
    """Print the table, a row for each kind and number of processes."""
    if sys.argv[1:2] == ["rank"]:
        run(sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
        return
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    print(f"{EPOCHS} epochs of {n} pairs of {pairs(1)[2]}, all-MiniLM-L6-v2, layer {LAYER}, batches of 16\n")
    print("| | processes | parameters | bytes in a checkpoint | texts encoded by a rank, first and later epochs "
          "| seconds, first and later epochs | mean F1 |")  # fmt: skip
    print("|---|---|---|---|---|---|---|")
    for world in (1, 2):
        found = {kind: measure(kind, n, world) for kind in KINDS}
        bare = found.pop("nothing")
        for kind, ranks in found.items():
            first = ranks[0]
            texts = [max(rank["texts"][epoch] for rank in ranks) for epoch in range(EPOCHS)]
            print(
                f"| {kind} | {world} | {first['parameters'] - bare[0]['parameters']:,} "
                f"| {first['bytes'] - bare[0]['bytes']:,} | {texts[0]:,.0f}, {statistics.median(texts[1:]):,.0f} "
                f"| {first['seconds'][0]:.2f}, {statistics.median(first['seconds'][1:]):.2f} | {first['f1'][-1]:.6f} |",
                flush=True,
            )


def measure(kind: str, n: int, world: int) -> list[dict[str, Any]]:
    """Run a kind on that many processes, and return what each of them found."""
    with tempfile.TemporaryDirectory() as folder:
        processes = []
        for rank in range(world):
            names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world, "GROUP_RANK": 0}
            environment = {**os.environ, **{name: str(value) for name, value in names.items()}}
            environment.update(TORCHELASTIC_RUN_ID="bench", MASTER_ADDR="localhost", MASTER_PORT="0")
            command = [sys.executable, "-m", "tests.benchmarks.lightning", "rank", kind, str(n), folder]
            errors = (Path(folder) / f"{rank}.log").open("w")
            processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=errors))
        for rank, code in enumerate([process.wait() for process in processes]):
            if code:
                said = (Path(folder) / f"{rank}.log").read_text()
                raise RuntimeError(f"{kind} on {world} processes failed:\n{said}")
        return [json.loads((Path(folder) / f"{rank}.json").read_text()) for rank in range(world)]


class Host(lightning.LightningModule):
    """A model of one weight, so that the time of a validation epoch is the metric's."""

    def __init__(self, metric: Any, candidates: list[str], references: list[str]) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.metric = metric
        self.candidates, self.references = candidates, references
        self.found: dict[str, list[float]] = {"texts": [], "seconds": [], "f1": []}
        self.encoded = Encoded()

    def training_step(self, batch: Any, batch_index: int) -> torch.Tensor:
        return self.layer(torch.ones(1)).sum()  # type: ignore[no-any-return]

    def on_validation_epoch_start(self) -> None:
        self.before, self.begin = self.encoded.texts, time.perf_counter()

    def validation_step(self, batch: torch.Tensor, batch_index: int) -> None:
        if self.metric is not None:
            numbers = batch.tolist()
            texts = [f"{self.candidates[number]} Epoch {self.current_epoch}." for number in numbers]
            more = {"sample_ids": batch} if isinstance(self.metric, BERTScore) else {}
            self.metric.update(texts, [self.references[number] for number in numbers], **more)

    def on_validation_epoch_end(self) -> None:
        f1 = torch.zeros(1) if self.metric is None else self.metric.compute()["f1"]
        if self.metric is not None:
            self.metric.reset()
        texts = self.encoded.texts - self.before
        for name, value in (("texts", texts), ("seconds", time.perf_counter() - self.begin), ("f1", f1.mean())):
            self.found[name].append(float(value))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters())

    def train_dataloader(self) -> DataLoader[Any]:
        return DataLoader(range(2))  # type: ignore[arg-type]

    def val_dataloader(self) -> DataLoader[Any]:
        return DataLoader(range(len(self.references)), batch_size=16)  # type: ignore[arg-type]


def metric_of(kind: str) -> Any:
    """Return the metric of that kind."""
    from torchmetrics.text import BERTScore as Theirs
    from transformers import AutoModel, AutoTokenizer

    place = resolve("offline").location
    if kind == "torchmetrics":
        return Theirs(place, num_layers=LAYER, truncation=True)
    if kind == "torchmetrics, model=":
        model, tokenizer = AutoModel.from_pretrained(place), AutoTokenizer.from_pretrained(place)

        def forward(model: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
            return model(  # type: ignore[no-any-return]
                batch["input_ids"], batch["attention_mask"], output_hidden_states=True
            ).hidden_states[LAYER]

        def tokenize(texts: list[str], length: int) -> Any:
            return tokenizer(texts, padding="max_length", max_length=length, truncation=True, return_tensors="pt")

        return Theirs(model=model, user_tokenizer=tokenize, user_forward_fn=forward, truncation=True, max_length=128)
    return BERTScore("offline", num_layers=LAYER) if kind == "bertscore_metric" else None


def run(kind: str, n: int, folder: Path) -> None:
    """Validate for five epochs on this rank, and write down what was found."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    world, rank = int(os.environ["WORLD_SIZE"]), os.environ["RANK"]
    if world > 1:
        meeting = f"file://{folder}/meeting"
        torch.distributed.init_process_group("gloo", init_method=meeting, rank=int(rank), world_size=world)
    candidates, references, _ = pairs(n)
    module = Host(metric_of(kind), candidates, references)
    strategy = "auto" if world == 1 else "ddp_find_unused_parameters_true" if kind.endswith("model=") else "ddp"
    trainer = lightning.Trainer(
        accelerator="cpu", devices=world, strategy=strategy, max_epochs=EPOCHS, num_sanity_val_steps=0, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, default_root_dir=folder,
    )  # fmt: skip
    with counted() as module.encoded:
        trainer.fit(module)
    file = folder / f"{rank}.ckpt"
    torch.save(module.state_dict(), file)
    parameters = sum(parameter.numel() for parameter in module.parameters())
    found = {**module.found, "parameters": parameters, "bytes": file.stat().st_size}
    (folder / f"{rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
