"""A plain training loop that scores what the model generates, on one process or on several.

python -m bertscore_metric.example.torch_loop
torchrun --nproc-per-node 2 -m bertscore_metric.example.torch_loop
accelerate launch --multi_gpu --num_processes 2 -m bertscore_metric.example.torch_loop
"""

import logging
import os
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from bertscore_metric import BERTScore
from bertscore_metric.example.rewriting import Rewriting, generate, tokenizer_and_model, training_arguments

log = logging.getLogger(__name__)


def train(epochs: int = 2, learning_rate: float = 0.01, device: str = "cpu") -> list[float]:
    """Train, and return the F1 of the whole data set after every epoch, the same on all ranks."""
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1
    place = torch.device(device)
    data = Rewriting()
    torch.manual_seed(0)
    tokenizer, model = tokenizer_and_model()
    parallel = DistributedDataParallel(model.to(place)) if several else model.to(place)
    optimizer = torch.optim.AdamW(parallel.parameters(), lr=learning_rate)
    bertscore = BERTScore("offline").to(place)
    loader: DataLoader[Any] = DataLoader(
        data, batch_size=4, sampler=DistributedSampler(data, shuffle=False) if several else None
    )
    history = []
    for epoch in range(epochs):
        parallel.train()
        for batch in loader:
            optimizer.zero_grad()
            parallel(**training_arguments(tokenizer, batch, place)).loss.backward()
            optimizer.step()
        parallel.eval()
        with torch.inference_mode():
            for batch in loader:
                texts = generate(tokenizer, model, batch, place)
                # The numbers let rows that a distributed sampler repeats count once.
                bertscore.update(texts, batch["target"], sample_ids=batch["number"])
        scores = bertscore.compute()  # of all ranks, on every rank
        bertscore.reset()
        history.append(float(scores["f1"]))
        if not several or dist.get_rank() == 0:
            log.info("epoch %d: F1 %.6f  %s", epoch, history[-1], bertscore.signature)
    return history


def main() -> None:
    """Train on the processes that torchrun or accelerate started, or on this one."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1
    if several:
        dist.init_process_group("gloo")
    try:
        train()
    finally:
        if several:
            dist.destroy_process_group()


if __name__ == "__main__":
    main()
