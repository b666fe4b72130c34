"""Lightning: `torchrun --nproc-per-node 2 lightning_fit.py`. Each rank has a Trainer of its own, of one device."""

import torch
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import stretto
from stretto.lightning import StrettoCallback


class Classifier(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(10, 2)

    def training_step(self, batch: list[torch.Tensor]) -> torch.Tensor:
        (x,) = batch
        return torch.nn.functional.cross_entropy(self.layer(x), (x.sum(1) > 0).long())

    def validation_step(self, batch: list[torch.Tensor]) -> None:
        (x,) = batch
        self.log("accuracy", (self.layer(x).argmax(1) == (x.sum(1) > 0)).float().mean())

    def configure_optimizers(self) -> stretto.Optimizer:
        optimizer = stretto.Optimizer(torch.optim.SGD(self.parameters(), lr=0.1), self, "eager-quorum")
        optimizer.before_step(lambda: torch.nn.utils.clip_grad_norm_(self.parameters(), 1.0))
        return optimizer


torch.manual_seed(0)
data = TensorDataset(torch.randn(64, 10))
train = DataLoader(data, batch_size=4, sampler=DistributedSampler(data, stretto.size(), stretto.rank()))
test = DataLoader(data, batch_size=16)
gpus = torch.cuda.device_count()
trainer = Trainer(
    accelerator="gpu" if gpus else "cpu",
    devices=[stretto.rank() % gpus] if gpus else 1,
    max_epochs=2,
    callbacks=[StrettoCallback()],
    logger=False,  # and checkpoints: on rank 0 alone, where they are wanted
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(Classifier(), train, test)
print(f"rank {stretto.rank()} of {stretto.size()}: accuracy {float(trainer.callback_metrics['accuracy']):.2f}")
