"""What is forgotten, and who is killed: training through the package shows it, or ends, on each rank."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import torch
from gpu_cases import AdamW, Plain, prepare, seed_of, through_the_package, why_not

import stretto
from stretto import _device

# ---- planted defects ----


def _hold_up(stream: torch.cuda.Stream | None) -> None:
    """The current stream, where it is none."""
    with torch.cuda.stream(stream):  # type: ignore[arg-type]
        torch.cuda._sleep(50_000_000)  # cycles: some 30 ms


def _without(forgotten: str, base: Any, hold_up: Callable[[Any], None]) -> Any:
    """A Device, as `base` is one, that leaves one of its waits out. `hold_up(stream)` does so with the stream that it
    is about, None: with the current one."""

    class Forgetful(base):  # type: ignore[misc]
        def computed(self) -> None:
            if forgotten != "copy_after":
                super().computed()

        def copy(self, target: torch.Tensor, source: torch.Tensor) -> torch.cuda.Event:
            if forgotten != "copy_after":
                hold_up(self._copies)
            elif target.device.type == "cpu":
                hold_up(None)
            return super().copy(target, source)  # type: ignore[no-any-return]

        def compute_after(self, event: torch.cuda.Event) -> None:
            if forgotten != "compute_after":
                super().compute_after(event)

        def wait(self, event: torch.cuda.Event) -> None:
            if forgotten != "wait to the host":
                super().wait(event)

    return Forgetful


# Those that a device's own methods have; the others, the staging's, are in tests/python/test_device_planted.py.
PLANTED = ("copy_after", "compute_after", "wait to the host")


def run_planted(forgotten: str, made_up: bool) -> str:
    """In a rank of a job: how training shows that this wait is left out; empty where it does not."""
    where = prepare(made_up)
    if made_up:
        import late_device

        _device.KINDS["cpu"] = _without(forgotten, late_device.Late, lambda _: None)  # late by itself
    else:
        _device.KINDS["cuda"] = _without(forgotten, _device.Cuda, _hold_up)
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
