"""In a notebook: a cell that is interrupted, or fails, can be run again, and nothing of a job is left."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

pytest.importorskip("ipykernel")

from notebooks import Kernel

LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "STRETTO_JOB")

MODEL = """
import hashlib, os, signal
import stretto
import torch

torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(10, 20), torch.nn.Tanh(), torch.nn.Linear(20, 2))
sgd = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
"""

LOOP = """
optimizer = stretto.Optimizer(sgd, model)
for step in range(STEPS):
    optimizer.zero_grad()
    model(torch.randn(4, 10)).square().mean().backward()
    optimizer.step()
    if step == 20:
        print("under way", flush=True)
optimizer.finish()
optimizer.batches_applied
"""

TRAIN = """
def train(rank, steps, end=None):
    torch.manual_seed(rank)
    model = torch.nn.Linear(10, 2)
    optimizer = stretto.Optimizer(torch.optim.SGD(model.parameters(), lr=0.01), model)
    for step in range(steps):
        optimizer.zero_grad()
        model(torch.randn(4, 10)).square().mean().backward()
        optimizer.step()
        if step == 20 and rank == 0:
            print("under way", flush=True)
        if step == 50 and rank == 2 and end == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if step == 50 and rank == 2 and end == "raises":
            raise LookupError("no such word")
    optimizer.finish()
    return hashlib.sha256(model.weight.detach().numpy().tobytes()).hexdigest(), optimizer.batches_applied
"""

LEARN = "outcome = stretto.spawn(train, (60,), 3)\n(len({bits for bits, _ in outcome}), [n for _, n in outcome])"


@pytest.fixture
def kernel() -> Iterator[Kernel]:
    kept = {name: value for name, value in os.environ.items() if name not in LAUNCHERS}
    with Kernel({**kept, "OMP_NUM_THREADS": "1"}) as started:
        yield started
        started.traces.look()
    assert started.traces.left() == []


def test_a_cell_that_is_interrupted_can_be_run_again(kernel: Kernel) -> None:
    """One rank, whose optimizer has not finished when another one takes the same parameters."""
    assert kernel.run(MODEL).error == ""
    for _ in range(3):
        ran = kernel.run_and_interrupt(LOOP.replace("STEPS", "10**9"), at="under way")
        assert ran.error == "KeyboardInterrupt", ran
    ran = kernel.run(LOOP.replace("STEPS", "30"))
    assert (ran.error, ran.result) == ("", "30"), ran


# In step() itself, in what it calls, and in the loop's own code.
PLACES = {
    "before_step": "optimizer.before_step(lambda: signal.raise_signal(signal.SIGINT))",
    "on_round": "optimizer.on_round(lambda done: signal.raise_signal(signal.SIGINT))",
    "the wrapped optimizer": "sgd.register_step_pre_hook(lambda *_: signal.raise_signal(signal.SIGINT))",
    "together()": "optimizer.together().__enter__(); signal.raise_signal(signal.SIGINT)",
}


def test_an_interrupt_may_come_anywhere(kernel: Kernel) -> None:
    first, rest = LOOP.split("\n", 2)[1:]
    for place, code in PLACES.items():
        assert kernel.run(MODEL).error == ""
        cell = "\n".join([first, "handle = " + code.replace("; ", "\n"), rest])
        ran = kernel.run(cell.replace("STEPS", "100"))
        assert ran.error == "KeyboardInterrupt", (place, ran)
        kernel.run("handle.remove()")
        ran = kernel.run(LOOP.replace("STEPS", "30"))
        assert (ran.error, ran.result) == ("", "30"), (place, ran)


def test_optimizers_of_cells_that_were_run_again_are_not_kept(kernel: Kernel) -> None:
    kernel.run(MODEL + "\nimport gc, weakref\nseen = []")
    for _ in range(3):
        cell = "model = torch.nn.Linear(10, 2)\nsgd = torch.optim.SGD(model.parameters(), 0.01)" + LOOP
        cell = cell.replace("STEPS", "30").replace("optimizer.finish()", "seen.append(weakref.ref(optimizer))")
        assert kernel.run(cell).result == "30"
    assert kernel.run("gc.collect()\n[it() is None for it in seen]").result == "[True, True, False]"


def test_ranks_of_a_cell_end_with_it(kernel: Kernel) -> None:
    kernel.run(MODEL + TRAIN)
    for end, error, said in (
        ("killed", "RankLost", "rank 2 was killed by SIGKILL"),
        ("raises", "LookupError", "no such word"),
    ):
        ran = kernel.run(f"stretto.spawn(train, (10**9, {end!r}), 3)")
        assert (ran.error, ran.said) == (error, said)


def test_ranks_of_a_cell_are_interrupted_with_it_and_it_can_be_run_again(kernel: Kernel) -> None:
    kernel.run(MODEL + TRAIN)
    before = set(kernel.traces.processes())
    ran = kernel.run_and_interrupt("stretto.spawn(train, (10**9,), 3)", at="under way")
    assert ran.error == "KeyboardInterrupt", ran
    assert set(kernel.traces.processes()) == before  # the kernel's
    assert kernel.run(LEARN).result == "(1, [180, 180, 180])"
