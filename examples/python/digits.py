"""Handwritten digits of 8×8 pixels: `torchrun --nproc-per-node 4 digits.py`. A whole program: data for each rank, a
scheduler, clipping, evaluation, a checkpoint.

The digits are a file in scikit-learn's package, which is not imported; without it made-up ones take their place.
"""

import gzip
import importlib.util
import pathlib
import sys

import torch

import stretto

EPOCHS = 5


def load() -> tuple[torch.Tensor, torch.Tensor]:
    """Pixels (n, 64) in 0 … 1, and digits (n)."""
    found = importlib.util.find_spec("sklearn")
    if found is None or found.origin is None:
        torch.manual_seed(0)
        prototypes, y = torch.rand(10, 64), torch.randint(10, (1797,))
        return (prototypes[y] + 0.2 * torch.randn(1797, 64)).clamp(0, 1), y
    file = pathlib.Path(found.origin).parent / "datasets" / "data" / "digits.csv.gz"
    with gzip.open(file, "rt") as lines:
        rows = torch.tensor([[float(word) for word in line.split(",")] for line in lines])
    return rows[:, :64] / 16, rows[:, 64].long()


def main(checkpoint: str | None) -> float:
    x, y = load()
    train, test = torch.arange(0, 1500), torch.arange(1500, len(x))
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    adam = torch.optim.Adam(model.parameters(), lr=0.003)
    optimizer = stretto.Optimizer(adam, model, "eager-quorum")
    optimizer.before_step(lambda: torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0))
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.8)
    mine = train[stretto.rank() :: stretto.size()]
    accuracy = 0.0
    with optimizer.join():  # ranks need not have equally many batches
        for _ in range(EPOCHS):
            for batch in mine[torch.randperm(len(mine))].split(32):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
                optimizer.step()
            scheduler.step()
            with optimizer.together():  # all ranks are at the same round, with equal replicas
                with torch.no_grad():
                    accuracy = (model(x[test]).argmax(1) == y[test]).float().mean().item()
                if stretto.rank() == 0:
                    print(f"{optimizer.batches_applied} batches: accuracy {accuracy:.3f}")
                    if checkpoint is not None:
                        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, checkpoint)
    return accuracy


if __name__ == "__main__":
    result = main(sys.argv[1] if len(sys.argv) > 1 else None)
