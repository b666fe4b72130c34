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
from told_apart import BATCHES, EPOCHS, FATAL, Training

import stretto


def run_script(told: dict[str, str]) -> None:
    recorded.record(told["folder"], told["program"])


def kill_and_restore(told: dict[str, str]) -> None:
    """What told_apart.py trains; rank 0 is slow. Rank 1 is killed in the third epoch, unless it has begun with a
    checkpoint."""
    state = None
    saved = ray.train.get_checkpoint()
    if saved is not None:
        with saved.as_directory() as folder:
            state = torch.load(f"{folder}/state", weights_only=True)
    training = Training(state)
    for epoch in range(training.first, EPOCHS):
        for batch in range(BATCHES):
            if stretto.rank() == 1 and training.first == 0 and (epoch, batch) == FATAL:
                ray.train.get_all_reported_checkpoints()  # waits until Ray has noted them
                os.kill(os.getpid(), signal.SIGKILL)
            if stretto.rank() == 0:
                time.sleep(0.02)
            training.step(epoch, batch)
        # report() waits for all workers.
        with training.optimizer.together(), tempfile.TemporaryDirectory() as folder:
            if stretto.rank() == 0:
                torch.save(training.state(epoch), f"{folder}/state")
            ray.train.report({}, checkpoint=Checkpoint(folder) if stretto.rank() == 0 else None)
    training.optimizer.finish()
    recorded.leave(told["folder"], training.optimizer)


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
