"""What is forgotten, and who is killed: training through the package shows it, or ends, on each rank."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from typing import Any

import torch
from gpu_cases import AdamW, Plain, prepare, seed_of, through_the_package, why_not

import stretto

# ---- planted defects ----


def _without(forgotten: str, where: torch.device) -> Any:
    """A Device by CUDA that leaves one of its waits out, while the stream that it is about is held up."""
    from stretto import _device

    held_up = 50_000_000  # cycles: some 30 ms

    class Forgetful(_device.Cuda):
        def computed(self) -> None:
            if forgotten != "copy_after":
                super().computed()

        def copy(self, target: torch.Tensor, source: torch.Tensor) -> torch.cuda.Event:
            if forgotten != "copy_after":
                with torch.cuda.stream(self._copies):
                    torch.cuda._sleep(held_up)
            elif target.device.type == "cpu":
                torch.cuda._sleep(held_up)
            return super().copy(target, source)

        def compute_after(self, event: torch.cuda.Event) -> None:
            if forgotten != "compute_after":
                super().compute_after(event)

        def wait(self, event: torch.cuda.Event) -> None:
            if forgotten != "wait to the host":
                super().wait(event)

    return Forgetful(where)


# With sync what a rank's next gradients wait for covers the copies to the device: tests/python/test_device.py.
PLANTED = ("copy_after", "compute_after", "wait to the host")


def planted_in(made_up: bool) -> list[str]:
    return [name for name in PLANTED if not (made_up and name == "copy_after")]  # there is one stream alone


def run_planted(forgotten: str, made_up: bool) -> str:
    """In a rank of a job: how training shows that this wait is left out; empty where it does not."""
    where = prepare(made_up)
    from stretto import _device

    if made_up:
        import late_device

        late_device.Late.forgets = forgotten
    else:
        _device.KINDS["cuda"] = lambda where: _without(forgotten, where)
    case = Plain()
    try:
        weights, applied = through_the_package(case, where)
    except (stretto.Error, AssertionError) as error:
        return f"{type(error).__name__}: {error}"
    return why_not(case, weights, applied, where)


# ---- ends ----


def train_until_killed(victim: int, seconds: float, made_up: bool, folder: str) -> None:
    """In a rank of a job of which one is killed: leaves in `folder` how and when it heard of that."""
    where = prepare(made_up)
    rank = stretto.rank()
    torch.manual_seed(1)
    case = AdamW()
    model = case.model().to(where)
    optimizer = stretto.Optimizer(case.optimizer(model.parameters()), model, "sync")

    def note(said: str) -> None:
        with open(os.path.join(folder, str(rank)), "w", encoding="utf-8") as file:
            file.write(f"{time.monotonic()} {said}")

    def die() -> None:
        note("is killed")
        os.kill(os.getpid(), signal.SIGKILL)

    if rank == victim:
        threading.Timer(seconds, die).start()
    try:
        for step in itertools.count():
            case.step(model, optimizer, where, seed_of(rank, step), step)
    except stretto.RankLost as error:
        if not made_up:
            torch.cuda.synchronize()  # nothing that was launched waits for the lost rank
        note(f"has lost rank {error.rank}")
        raise
