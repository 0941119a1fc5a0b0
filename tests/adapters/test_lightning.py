"""In Lightning: what is logged is the score of the whole data set, in every run of a trainer, on one process or two."""

import sys
import threading
import types
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch
import training
import transformers
from conftest import MODELS, TOLERANCE, shared_scorer
from lightning.pytorch.callbacks import ModelCheckpoint
from training import SECOND, SETTINGS, Texts

from bertscore_metric import BERTScore
from bertscore_metric.example.lightning_module import Rewriter

pytestmark = pytest.mark.filterwarnings("ignore")  # Lightning's own advice; the metric's warnings are counted


def score(texts: Texts, *, idf: bool = False) -> Any:
    """Score rows in the order of their numbers, in one call."""
    pairs = [texts[number] for number in sorted(texts)]
    scorer = shared_scorer("bert", num_layers=SETTINGS["num_layers"], idf=idf)
    return scorer.score([text for text, _ in pairs], [target for _, target in pairs])


def wanted(texts: Texts) -> dict[str, float]:
    """Return what `training.EveryWay` must log in an epoch that generated these texts."""
    first = {number: pair for number, pair in texts.items() if number < SECOND}
    second = {number: pair for number, pair in texts.items() if number >= SECOND}
    whole, one = score(texts, idf=True).mean, score(first).mean
    return {
        "val_precision": whole.precision, "val_recall": whole.recall, "val_f1": whole.f1,
        "all_precision": one.precision, "all_recall": one.recall, "all_f1": one.f1, "value": one.f1,
        "recall/dataloader_idx_0": one.recall, "recall/dataloader_idx_1": score(second).mean.recall,
    }  # fmt: skip


def joined(ranks: list[dict[str, Any]], run: str) -> list[Texts]:
    """Return what all ranks generated, epoch by epoch."""
    epochs = [rank[run]["epochs"] for rank in ranks]
    return [{number: pair for part in parts for number, pair in part.items()} for parts in zip(*epochs, strict=True)]


def check(ranks: list[dict[str, Any]]) -> None:
    """Compare all that `training.fit` logged on every rank with the core's scores of what was generated."""
    for run, sanity in (("fit", 1), ("resumed", 0), ("validate", 0), ("test", 0)):
        epochs = joined(ranks, run)[sanity:]
        for rank in ranks:
            for texts, logged in zip(epochs, rank[run]["logged"], strict=True):
                assert len(texts) == 19 + 7
                expected = wanted(texts)
                assert {name: logged[name] for name in expected} == pytest.approx(expected, abs=TOLERANCE)
    for rank in ranks:
        fit = rank["fit"]["logged"]
        assert len(rank["sanity"]) == 1
        assert rank["best"] == max(epoch["val_f1"] for epoch in fit)
        assert rank["other"] == min(epoch["all_recall"] for epoch in fit)
        assert rank["resumed"]["stopped"] == 1
        assert len({epoch["val_f1"] for epoch in fit}) == 2
        for run in ("validate", "test"):
            values = {name: value for values in rank[run]["returned"] for name, value in values.items()}
            assert values == pytest.approx(rank[run]["logged"][0])
            assert values["val_f1"] == pytest.approx(rank["best"], abs=1e-5)


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what one process logged."""
    return training.fit(tmp_path_factory.mktemp("one"))


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Return what two processes did, job by job."""
    return training.run(list(training.JOBS), tmp_path_factory.mktemp("two"))


def test_one_process(one: dict[str, Any]) -> None:
    """Fit, resume in mid-epoch, validate and test log the scores of what was generated, and callbacks act on them."""
    check([one])


def test_two_processes(two: list[dict[str, Any]]) -> None:
    """Two ranks, whose sampler repeats a row, log the scores of the whole data set, the same on both."""
    check([rank["fit"] for rank in two])


def test_warnings(one: dict[str, Any], two: list[dict[str, Any]]) -> None:
    """A metric, or a collection, warns once an epoch, also of several steps, and only on the first of several ranks."""
    for warnings in (one["warnings"], two[0]["fit"]["warnings"]):
        empty = [text for text in warnings if "segments are empty on a side" in text]
        # In two epochs four metrics: over both loaders, the collection, the value, the first loader's. Before them the
        # sanity check, in which Lightning computes none of the metrics that it was given to log.
        assert len(empty) == 2 * 4 + 1
    assert two[1]["fit"]["warnings"] == []


def test_sharded_runs_load_whole_weights(two: list[dict[str, Any]]) -> None:
    """Where FSDP's and ZeRO-3's settings would have transformers load a part, both ranks score as one process does."""
    ranks = [rank["sharded"] for rank in two]
    for rank in ranks:
        assert rank["inside"] == [(False, False)] * 2
        for name, layers in (("FSDP", 1), ("ZeRO-3", 3)):
            expected = shared_scorer("bert", num_layers=layers).score(training.PREDS, training.TARGET).f1
            torch.testing.assert_close(rank[name], expected, atol=TOLERANCE, rtol=0)


def test_sharded_hosts(two: list[dict[str, Any]]) -> None:
    """A host that was made on the meta device and is cut over ranks trains, and its metric scores and adds nothing."""
    expected = shared_scorer("bert", num_layers=4).score(training.PREDS, training.TARGET).f1
    for rank in two:
        for host in rank["sharded"]["hosts"]:
            torch.testing.assert_close(host["f1"], expected, atol=TOLERANCE, rtol=0)
            assert host["changed"]
            assert host["device"] == "cpu"
            assert [name.removeprefix("module.") for name in host["state"]] == [
                "layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias"
            ]  # fmt: skip


@pytest.mark.parametrize("real", [False, True])
def test_loading_inside_zero_init(real: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """DeepSpeed's `zero.Init`, in which modules are cut up as they are made, is off while ours is loaded."""
    if real:
        pytest.importorskip("deepspeed", reason="DeepSpeed is not installed; the fake shows what is asked of it")
        from deepspeed.runtime.zero import partition_parameters

        assert callable(partition_parameters.shutdown_init_context)
        assert callable(partition_parameters.restore_init_context)
        assert partition_parameters.top_level_context is None
        return

    class Context:
        patched = True

    context = Context()
    module = types.ModuleType("deepspeed.runtime.zero.partition_parameters")
    module.top_level_context = context  # type: ignore[attr-defined]
    module.shutdown_init_context = lambda: setattr(context, "patched", False)  # type: ignore[attr-defined]
    module.restore_init_context = lambda: setattr(context, "patched", True)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    seen = []
    load = transformers.AutoModel.from_pretrained

    def watched(*args: Any, **settings: Any) -> Any:
        seen.append(context.patched)
        return load(*args, **settings)

    monkeypatch.setattr(transformers.AutoModel, "from_pretrained", watched)
    BERTScore(str(MODELS / "roberta"), num_layers=3)
    assert seen == [False]
    assert context.patched
    context.patched = False  # shut down by DeepSpeed itself: left as it is
    BERTScore(str(MODELS / "roberta"), num_layers=4)
    assert not context.patched


class Nothing:
    """Stands where the metric is, and is none."""

    signature = BERTScore(**SETTINGS).signature

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Take what the metric takes."""

    def compute(self) -> dict[str, torch.Tensor]:
        """Return what the metric returns."""
        return {name: torch.tensor(0.5) for name in ("precision", "recall", "f1")}

    def reset(self) -> None:
        """Do nothing."""


def trained(folder: Path, bertscore: Any, *, checkpointing: bool = False) -> tuple[Rewriter, lightning.Trainer, Path]:
    """Train for an epoch with validation, and save a checkpoint."""
    lightning.seed_everything(0)
    module = Rewriter(bertscore)
    if checkpointing:
        module.model.gradient_checkpointing_enable()
    run = training.trainer(folder, max_epochs=1, limit_train_batches=2, limit_val_batches=2)
    run.fit(module)
    folder.mkdir(exist_ok=True)
    file = folder / "saved.ckpt"
    run.save_checkpoint(file)
    return module, run, file


@pytest.mark.parametrize("checkpointing", [False, True])
def test_nothing_leaks(checkpointing: bool, tmp_path: Path) -> None:
    """A metric adds no parameter, key, byte, optimizer entry or gradient to its host, nor changes what is learnt.

    So it is in a host that keeps its activations and in one that recomputes them.
    """
    metric = BERTScore(**SETTINGS)
    module, run, file = trained(tmp_path / "with", metric, checkpointing=checkpointing)
    bare, bare_run, bare_file = trained(tmp_path / "without", Nothing(), checkpointing=checkpointing)
    assert list(module.state_dict()) == list(bare.state_dict())
    for (name, mine), (_, theirs) in zip(module.named_parameters(), bare.named_parameters(), strict=True):
        assert torch.equal(mine, theirs), name
        assert (mine.grad is None) == (theirs.grad is None)
        assert mine.grad is None or torch.equal(mine.grad, theirs.grad)  # type: ignore[arg-type]
    assert file.stat().st_size == bare_file.stat().st_size
    saved, bare_saved = (torch.load(path, weights_only=True) for path in (file, bare_file))
    assert saved.keys() == bare_saved.keys()
    for one, other in zip(saved["optimizer_states"], bare_saved["optimizer_states"], strict=True):
        assert one["param_groups"] == other["param_groups"]
        assert one["state"].keys() == other["state"].keys()
    assert saved["hyper_parameters"]["bertscore_signature"] == str(metric.signature)
    again = Rewriter.load_from_checkpoint(file, bertscore=metric)
    assert torch.equal(again.model.shared.weight, module.model.shared.weight)
    assert run.callback_metrics["val_f1"] != bare_run.callback_metrics["val_f1"]
    encoder = metric._shared.scorer.model.encoder
    assert not any(part.training for part in encoder._model.modules())  # type: ignore[attr-defined]
    assert all(parameter.grad is None for parameter in encoder._model.parameters())  # type: ignore[attr-defined]
    assert all(part.training for part in module.modules())


def test_compiled_host(tmp_path: Path) -> None:
    """A compiled module trains, scores in its steps, and logs."""

    class Compiled(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)
            self.bertscore = BERTScore(**SETTINGS)

        def training_step(self, batch: torch.Tensor, batch_index: int) -> torch.Tensor:
            return self.layer(batch.float()[:, None]).sum()  # type: ignore[no-any-return]

        def validation_step(self, batch: torch.Tensor, batch_index: int) -> None:
            numbers = batch.tolist()
            texts, targets = ([texts[n] for n in numbers] for texts in (training.PREDS, training.TARGET))
            self.bertscore.update(texts, targets, sample_ids=batch)

        def on_validation_epoch_end(self) -> None:
            self.log_dict(self.bertscore.compute())
            self.bertscore.reset()

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

        def train_dataloader(self) -> Any:
            return torch.utils.data.DataLoader(range(3), batch_size=2)  # type: ignore[arg-type]

        val_dataloader = train_dataloader

    module = Compiled()
    before = module.layer.weight.item()
    run = training.trainer(tmp_path, max_epochs=1)
    run.fit(torch.compile(module, backend="eager"))  # type: ignore[arg-type]
    expected = shared_scorer("bert", num_layers=2).score(training.PREDS, training.TARGET).mean.f1
    assert run.callback_metrics["f1"].item() == pytest.approx(expected, abs=TOLERANCE)
    assert module.layer.weight.item() != before


class InOwnPrecision(training.EveryWay):
    """Makes its metric where Lightning has set the run's dtype, and notes the settings of a step."""

    def __init__(self, dtype: str) -> None:
        super().__init__()
        self.dtype_of_scores = dtype
        self.settings: set[Any] = set()

    def configure_model(self) -> None:
        self.bertscore = BERTScore(**{**SETTINGS, "num_layers": 3}, dtype=self.dtype_of_scores)

    def validation_step(self, batch: Any, batch_index: int, dataloader_idx: int = 0) -> None:
        super().validation_step(batch, batch_index, dataloader_idx)
        self.settings.add((torch.is_autocast_enabled("cpu"), torch.get_default_dtype(), self.model.shared.weight.dtype))


@pytest.mark.parametrize(
    ("precision", "settings", "dtype"),
    [
        ("bf16-mixed", (True, torch.float32, torch.float32), "float32"),
        ("16-mixed", (True, torch.float32, torch.float32), "float32"),
        ("bf16-true", (False, torch.bfloat16, torch.bfloat16), "float32"),
        ("64-true", (False, torch.float64, torch.float64), "float32"),
        ("64-true", (False, torch.float64, torch.float64), "bfloat16"),
    ],
)
def test_precision(precision: str, settings: Any, dtype: str, tmp_path: Path) -> None:
    """In a run of any precision the scores are those of the metric's own dtype, and the run's settings stay."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        module, history = InOwnPrecision(dtype), training.History()
        training.trainer(tmp_path, history, precision=precision, limit_val_batches=2).validate(module, verbose=False)
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision(before)
    assert module.settings == {settings}
    texts = module.epochs[0]
    pairs = [texts[number] for number in sorted(texts)]
    scorer = shared_scorer("bert", num_layers=3, dtype=dtype)
    expected = scorer.score([text for text, _ in pairs], [target for _, target in pairs]).mean.f1
    assert history.logged[0]["val_f1"] == pytest.approx(expected, abs=TOLERANCE)
    assert history.logged[0]["all_f1"] == pytest.approx(wanted(texts)["all_f1"], abs=TOLERANCE)


def test_persistent_rows_survive_a_resume_in_mid_epoch(tmp_path: Path) -> None:
    """With `persistent(True)` a checkpoint in mid-epoch has the rows so far, and after the resume they count."""

    class InTraining(Rewriter):
        def __init__(self) -> None:
            super().__init__(BERTScore(**SETTINGS))
            self.bertscore.persistent(True)
            self.rows: Texts = {}

        def training_step(self, batch: Any, batch_index: int) -> torch.Tensor:
            self.bertscore.update(batch["source"], batch["target"], sample_ids=batch["number"])
            rows = zip(batch["number"].tolist(), batch["source"], batch["target"], strict=True)
            self.rows.update({number: pair for number, *pair in rows})  # type: ignore[misc]
            return super().training_step(batch, batch_index)

        def on_train_epoch_end(self) -> None:
            self.log("train_f1", self.bertscore.compute()["f1"])
            self.bertscore.reset()

    lightning.seed_everything(0)
    module = InTraining()
    steps = ModelCheckpoint(tmp_path, every_n_train_steps=2, save_top_k=-1, filename="{step}")
    training.trainer(tmp_path, steps, max_steps=2, limit_val_batches=0).fit(module)
    assert len(module.rows) == 8
    resumed = InTraining()
    run = training.trainer(tmp_path, max_epochs=1, limit_val_batches=0)
    run.fit(resumed, ckpt_path=tmp_path / "step=2.ckpt")
    assert 0 < len(resumed.rows) < 19
    expected = score({**module.rows, **resumed.rows}).mean.f1
    assert run.callback_metrics["train_f1"].item() == pytest.approx(expected, abs=TOLERANCE)


def test_data_parallel() -> None:
    """The replicas that DataParallel makes of a metric hand their rows, from threads, to the one metric there is."""
    metric = BERTScore(**SETTINGS, reduction="none")
    replicas = [metric._replicate_for_data_parallel() for _ in range(3)]
    threads = [
        threading.Thread(target=replica.update, args=([pred], [target], [number]))
        for number, (replica, pred, target) in enumerate(
            zip(replicas, training.PREDS, training.TARGET, strict=True)
        )
    ]  # fmt: skip
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = shared_scorer("bert", num_layers=2).score(training.PREDS, training.TARGET).f1
    torch.testing.assert_close(metric.compute()["f1"], expected, atol=TOLERANCE, rtol=0)
    host = torch.nn.DataParallel(training.Host())
    assert host(torch.ones(2, 4)).shape == (2, 4)
    assert len(list(host.parameters())) == 4
