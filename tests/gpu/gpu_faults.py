"""What is forgotten, and who is killed: training through the package shows it, or ends, on each rank."""

from __future__ import annotations

import itertools
import os
import pathlib
import signal
import sys
import threading
import time
from typing import Any

import torch
from gpu_cases import AdamW, LocalSteps, Plain
from gpu_training import prepare, seed_of, through_the_package, why_not

import stretto
from stretto import _cuda, _device

sys.path.append(str(pathlib.Path(__file__).parent.parent / "python" / "device"))
import leaving_out  # noqa: E402

# ---- planted defects ----


def _slow(late: str) -> type[_cuda.Cuda]:
    """CUDA, on which what is computed, or what is copied, comes late."""

    class Slow(_cuda.Cuda):
        def copy(self, target: torch.Tensor, source: torch.Tensor) -> torch.cuda.Event:
            if late == "copies" or target.device.type == "cpu":
                with torch.cuda.stream(self._copies if late == "copies" else None):  # type: ignore[arg-type]
                    torch.cuda._sleep(50_000_000)  # cycles: some 30 ms
            return super().copy(target, source)

    return Slow


class Overlapping(Plain):
    overlap = True


# What is left out: which call, of whom, from within what; the case that shows it, and what comes late in it. All that
# a made-up device can show as well is in tests/python/device/test_device_planted.py.
PLANTED: dict[str, tuple[str, str, str, str, type[Plain | LocalSteps], str]] = {
    "copy() waits for what is computed": ("Stream", "wait_stream", "Cuda", "copy", Plain, "computing"),
    "copy() records its event": ("Event", "record", "Cuda", "copy", Plain, "copies"),
    "wait() waits": ("Event", "synchronize", "Cuda", "wait", Plain, "copies"),
    "bring() waits": ("Staging", "_wait", "Staging", "bring", Plain, "copies"),
    "arrived() waits": ("Cuda", "wait", "Staging", "arrived", Overlapping, "copies"),
    "compute_after() waits": ("Stream", "wait_event", "Cuda", "compute_after", Plain, "copies"),
    "take() has what is computed wait": ("Cuda", "compute_after", "Staging", "take", Plain, "copies"),
    "weights are waited for": ("Cuda", "wait", "Weights", "show", LocalSteps, "copies"),
    "what is computed waits for weights": ("Cuda", "compute_after", "Weights", "take_back", LocalSteps, "copies"),
}


def run_planted(name: str, made_up: bool) -> str:
    """In a rank of a job: how training shows that this is left out; empty where it does not."""
    where = prepare(made_up)
    part, method, whole, within, case, late = PLANTED[name]
    cuda: Any = torch.cuda
    if made_up:
        import late_device

        cuda = late_device.Runtime  # late by itself
    else:
        _device.KINDS["cuda"] = _slow(late)
    owners = {
        "Stream": cuda.Stream,
        "Event": cuda.Event,
        "Cuda": _cuda.Cuda,
        "Staging": _device.Staging,
        "Weights": _device.Weights,
    }
    leaving_out.call(owners[part], method, (owners[whole], within))()
    try:
        weights, applied = through_the_package(case(), where)
    except (stretto.Error, AssertionError) as error:
        return f"{type(error).__name__}: {error}"
    return why_not(case(), weights, applied, where)


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
