"""Outside of Lightning's own runs: the command line of its config, the plain loop, and the launchers of both."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml
from conftest import TESTS, TOLERANCE

from bertscore_metric import BERTScore, score
from bertscore_metric.config import shipped_configs
from bertscore_metric.example import torch_loop
from bertscore_metric.example.rewriting import Rewriting

ROOT = TESTS.parent
CONFIG = ROOT / "configs" / "lightning" / "offline.yaml"
LOOP = "bertscore_metric.example.torch_loop"
quiet = pytest.mark.filterwarnings("ignore::bertscore_metric.BERTScoreWarning")


def run(*command: str, folder: Path) -> str:
    """Run a command as a user would, and return what it said."""
    environment = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    path = os.pathsep.join([str(ROOT), *filter(None, [environment.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env={**environment, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1"},
        capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout + done.stderr


@quiet
def test_plain_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plain loop's numbers are the scores of all that it generated in each epoch."""
    epochs: list[list[str]] = []
    plain = torch_loop.generate

    def watched(tokenizer, model, batch, device):  # type: ignore[no-untyped-def]
        texts = plain(tokenizer, model, batch, device)
        if int(batch["number"][0]) == 0:
            epochs.append([])
        epochs[-1].extend(texts)
        return texts

    monkeypatch.setattr(torch_loop, "generate", watched)
    history = torch_loop.train(epochs=2)
    targets = [target for _, target in Rewriting().pairs]
    expected = [score(texts, targets, "offline").mean.f1 for texts in epochs]
    assert history == pytest.approx(expected, abs=TOLERANCE)
    assert history[0] != history[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "launcher",
    [
        ("torch.distributed.run", "--nproc-per-node", "2"),
        ("accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1",
         "--mixed_precision", "no", "--dynamo_backend", "no"),
    ],
    ids=["torchrun", "accelerate launch"],
)  # fmt: skip
def test_launchers(launcher: tuple[str, ...], tmp_path: Path) -> None:
    """torchrun and `accelerate launch` start the same loop on two processes, of which one reports."""
    said = run("-m", *launcher, "-m", LOOP, folder=tmp_path)
    assert len(re.findall(r"epoch \d: F1 [\d.]+  model:", said)) == 2


def test_the_config_is_one_for_lightning() -> None:
    """Configs of runs are in a folder of their own, are no score configs, and begin with the command that uses them."""
    assert all("lightning" not in str(file.relative_to(ROOT)) for file in shipped_configs().values())
    command = CONFIG.read_text(encoding="utf-8").split("\n")[0]
    assert command == f"# python -m bertscore_metric.example.lightning_module fit --config {CONFIG.relative_to(ROOT)}"
    settings = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))["model"]["init_args"]["bertscore"]["init_args"]
    assert "layer:6|" in str(BERTScore(**settings).signature)


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_lightning_cli(processes: int, tmp_path: Path) -> None:
    """LightningCLI makes the metric from the YAML, options override it, and on two processes Lightning starts both."""
    pytest.importorskip("jsonargparse", reason="LightningCLI needs jsonargparse")
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    command = CONFIG.read_text(encoding="utf-8").split("\n")[0].removeprefix("# python ")
    run(
        *command.split(), "--trainer.max_epochs", "2", "--trainer.devices", str(processes),
        "--model.init_args.bertscore.init_args.num_layers", "5", folder=tmp_path,
    )  # fmt: skip
    version = tmp_path / "lightning_logs" / "version_0"
    rows = (version / "metrics.csv").read_text().splitlines()
    column = rows[0].split(",").index("val_f1")
    logged = [float(row.split(",")[column]) for row in rows[1:] if row.split(",")[column]]
    assert len(logged) == 2
    hyperparameters = yaml.safe_load((version / "hparams.yaml").read_text())
    assert "layer:5|" in hyperparameters["bertscore_signature"]
    saved = torch.load(next((version / "checkpoints").glob("*.ckpt")), weights_only=True)
    best = next(state for name, state in saved["callbacks"].items() if name.startswith("ModelCheckpoint"))
    assert float(best["best_model_score"]) == pytest.approx(max(logged), abs=1e-5)
