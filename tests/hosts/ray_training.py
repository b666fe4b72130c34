"""Ray Train's driver, on a host of a cluster that is there: ray_training.py FOLDER WORKERS PROGRAM. PROGRAM: a script,
or `killed` for kill_and_restore(). Ranks record what they have left (recorded.py).
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time

import ray
import recorded
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

import stretto

EPOCHS, BATCHES = 5, 10


def run_script(told: dict[str, str]) -> None:
    recorded.record(told["folder"], told["program"])


def kill_and_restore(told: dict[str, str]) -> None:
    """Batches that are told apart, as in restarted.py; rank 0 is slow. Rank 1 is killed in the third epoch, unless it
    has begun with a checkpoint."""
    model = torch.nn.ParameterList([torch.zeros(stretto.size(), EPOCHS, BATCHES)])
    first = 0
    saved = ray.train.get_checkpoint()
    if saved is not None:
        with saved.as_directory() as folder:
            state = torch.load(f"{folder}/state", weights_only=True)
        model.load_state_dict(state["model"])
        first = state["epochs"]
    optimizer = stretto.Optimizer(torch.optim.SGD(model.parameters(), lr=1.0), model, "eager-quorum", normalize="ranks")
    for epoch in range(first, EPOCHS):
        for batch in range(BATCHES):
            if stretto.rank() == 1 and first == 0 and (epoch, batch) == (2, 5):
                ray.train.get_all_reported_checkpoints()  # waits until Ray has noted them
                os.kill(os.getpid(), signal.SIGKILL)
            if stretto.rank() == 0:
                time.sleep(0.02)
            optimizer.zero_grad()
            (-model[0][stretto.rank(), epoch, batch]).backward()
            optimizer.step()
        with optimizer.together(), tempfile.TemporaryDirectory() as folder:  # report() waits for all workers
            if stretto.rank() == 0:
                torch.save({"model": model.state_dict(), "epochs": epoch + 1}, f"{folder}/state")
            ray.train.report({}, checkpoint=Checkpoint(folder) if stretto.rank() == 0 else None)
    optimizer.finish()
    recorded.leave(told["folder"], optimizer)


def main(folder: str, workers: str, program: str) -> None:
    ray.init(address="auto")
    trainer = TorchTrainer(
        kill_and_restore if program == "killed" else run_script,
        train_loop_config={"folder": folder, "program": program},
        scaling_config=ScalingConfig(num_workers=int(workers)),
        run_config=RunConfig(storage_path=f"{folder}/ray", failure_config=FailureConfig(max_failures=1)),
    )
    trainer.fit()


if __name__ == "__main__":
    main(*sys.argv[1:])
