"""A LightningModule that scores what it generates: copy it, and put your model and data in.

python -m bertscore_metric.example.lightning_module fit --config configs/lightning/offline.yaml
"""

from typing import Any

import lightning
import torch
from torch.utils.data import DataLoader

from bertscore_metric import BERTScore
from bertscore_metric.example.rewriting import Batch, Rewriting, generate, tokenizer_and_model, training_arguments


class Rewriter(lightning.LightningModule):
    """Learns to rewrite sentences, and is scored in every validation epoch on the whole data set."""

    def __init__(self, bertscore: BERTScore, learning_rate: float = 0.01) -> None:
        super().__init__()
        self.save_hyperparameters(ignore="bertscore")
        self.save_hyperparameters({"bertscore_signature": str(bertscore.signature)})
        self.tokenizer, self.model = tokenizer_and_model()
        self.bertscore = bertscore  # follows the module's device; adds no parameters and nothing to checkpoints
        self.learning_rate = learning_rate

    def training_step(self, batch: Batch, batch_index: int) -> torch.Tensor:
        loss: torch.Tensor = self.model(**training_arguments(self.tokenizer, batch, self.device)).loss
        self.log("train_loss", loss, batch_size=len(batch["source"]))
        return loss

    def validation_step(self, batch: Batch, batch_index: int) -> None:
        texts = generate(self.tokenizer, self.model, batch, self.device)
        # The numbers let rows that a distributed sampler repeats count once.
        self.bertscore.update(texts, batch["target"], sample_ids=batch["number"])

    def on_validation_epoch_end(self) -> None:
        # The scores are already those of all ranks; sync_dist only says so to Lightning, which would warn.
        self.log_dict({f"val_{name}": value for name, value in self.bertscore.compute().items()}, sync_dist=True)
        self.bertscore.reset()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=self.learning_rate)

    def train_dataloader(self) -> DataLoader[Any]:
        return DataLoader(Rewriting(), batch_size=4, shuffle=True)

    def val_dataloader(self) -> DataLoader[Any]:
        return DataLoader(Rewriting(), batch_size=4)


if __name__ == "__main__":
    from lightning.pytorch.cli import LightningCLI  # needs jsonargparse: pip install 'jsonargparse[signatures]'

    LightningCLI()
