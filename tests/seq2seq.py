"""A tiny model to train with Seq2SeqTrainer, in this process or in several that talk over gloo; no test file."""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
from conftest import MODELS, TESTS, model_path

from bertscore_metric.adapters.trainer import ComputeBERTScore

SOURCES = ["the cat sat", "a dog ran", "birds fly high", "rain fell", "we like music"]
TARGETS = ["the cat sat on a mat", "a dog ran fast", "birds can fly", "it was raining", "all of us like music"]
SETTINGS = {"model_name_or_path": str(MODELS / "bert"), "num_layers": 2}


def tokenizer(name: str = "t5") -> Any:
    """Return the tokenizer of a tiny model."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(model_path(name))


def rows(tok: Any, sources: list[str] = SOURCES, targets: list[str] = TARGETS) -> list[dict[str, list[int]]]:
    """Return sources and targets as ids."""
    return [
        {"input_ids": tok(source).input_ids, "labels": tok(target).input_ids}
        for source, target in zip(sources, targets, strict=True)
    ]


def model() -> Any:
    """Return a T5 with random weights, the same ones every time."""
    from transformers import AutoConfig, T5ForConditionalGeneration

    torch.manual_seed(0)
    net = T5ForConditionalGeneration(AutoConfig.from_pretrained(MODELS / "t5"))
    net.generation_config.max_length = None
    return net


def trainer(
    folder: Path, score: Any, *, callback: bool = True, generate: bool = True, seq2seq: bool = True, **arguments: Any
) -> Any:
    """Return a trainer on the CPU with five rows in batches of two."""
    from transformers import DataCollatorForSeq2Seq, Seq2SeqTrainer, Seq2SeqTrainingArguments, Trainer

    extra = {
        name: arguments.pop(name) for name in ("preprocess_logits_for_metrics", "eval_dataset") if name in arguments
    }
    tok = tokenizer()
    net = model()
    settings = Seq2SeqTrainingArguments(
        output_dir=str(folder / "run"),
        per_device_train_batch_size=2,
        per_device_eval_batch_size=2,
        predict_with_generate=generate,
        generation_max_length=12,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        save_strategy=arguments.pop("save_strategy", "no"),
        dataloader_pin_memory=False,
        seed=0,
        **arguments,
    )
    return (Seq2SeqTrainer if seq2seq else Trainer)(
        model=net,
        args=settings,
        train_dataset=rows(tok),
        eval_dataset=extra.pop("eval_dataset", rows(tok)),
        data_collator=DataCollatorForSeq2Seq(tok, model=net),
        processing_class=tok,
        compute_metrics=score,
        callbacks=[score.callback] if callback else [],
        **extra,
    )


def evaluations(folder: Path) -> dict[str, list[float]]:
    """Evaluate in every way, and return the number of rows and the scores of each."""
    out: dict[str, list[float]] = {}
    for name, batch_eval, distributed, settings in (
        ("callback", False, False, {}),
        ("callback", True, True, {}),
        ("num_samples", True, False, {"num_samples": 5}),
        ("num_samples", False, True, {"num_samples": 5}),
        ("references", True, True, {"references": TARGETS}),
        ("callback", False, True, {"idf": True}),
        ("num_samples", True, True, {"num_samples": 5, "idf": True}),
    ):
        score = ComputeBERTScore(tokenizer(), distributed=distributed, **settings, **SETTINGS)
        run = trainer(folder, score, callback=name == "callback", batch_eval_metrics=batch_eval)
        metrics = run.evaluate()
        scores = [metrics[f"eval_bertscore_{part}"] for part in ("precision", "recall", "f1")]
        idf = " idf" if "idf" in settings else ""
        out[f"{name} {batch_eval} {distributed}{idf}"] = [score.result.n_segments, *scores]
    for batch_eval in (False, True):  # Trainer itself passes logits, and no row twice
        score = ComputeBERTScore(tokenizer(), distributed=True, **SETTINGS)
        helper = {"preprocess_logits_for_metrics": score.preprocess_logits_for_metrics} if batch_eval else {}
        run = trainer(folder, score, generate=False, seq2seq=False, batch_eval_metrics=batch_eval, **helper)
        out[f"logits {batch_eval}"] = [run.evaluate()["eval_bertscore_f1"], score.result.n_segments]
    score = ComputeBERTScore(tokenizer(), **SETTINGS)
    predicted = trainer(folder, score).predict(rows(tokenizer()), metric_key_prefix="test")
    out["predict"] = [score.result.n_segments, predicted.metrics["test_bertscore_f1"]]
    return out


def on_two_processes(folder: Path) -> list[dict[str, Any]]:
    """Evaluate on two processes as torchrun starts them, and return what each of them found."""
    processes = []
    for rank in range(2):
        environment = {
            **os.environ,
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": "2",
            "MASTER_ADDR": "localhost",
            "MASTER_PORT": "0",  # unused: the processes meet in a file
            "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)]),
            "OMP_NUM_THREADS": "1",
        }
        command = [sys.executable, str(Path(__file__)), str(folder)]
        processes.append(subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True))
    errors = [process.communicate(timeout=300)[1] for process in processes]
    assert all(process.returncode == 0 for process in processes), "\n".join(errors)
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    place, rank = Path(sys.argv[1]), int(os.environ["RANK"])
    torch.distributed.init_process_group("gloo", init_method=f"file://{place}/meeting", rank=rank, world_size=2)
    found = evaluations(place)
    (place / f"{rank}.json").write_text(json.dumps(found))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
