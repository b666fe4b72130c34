"""A rank of a job that counts how often each sample is in a result, for test_members.py.

counted.py ALGORITHM EPOCHS WORKERS ACCUMULATED MEMBERS [NUMBER:SIGNAL:STEP…]: before its step STEP the process of that
number gets the signal; "raise" raises an exception, "leave" calls stretto.leave(). Steps are slow until so many members
have come in all. With COUNTED_DIES_GIVING=NUMBER that member is killed when another one first asks for what it has
registered. Prints a line of JSON at the end.
"""

import hashlib
import json
import os
import pathlib
import signal
import sys
import time

import torch

import stretto
from stretto import _job

SAMPLES, BATCH = 240, 4


class Counts:
    """In how many results each sample is: the same on every rank, so a state to be registered."""

    def __init__(self) -> None:
        self.of_samples = torch.zeros(SAMPLES, dtype=torch.int64)
        self._asked = 0

    def state_dict(self) -> dict[str, torch.Tensor]:
        self._asked += 1
        if self._asked == 2 and os.environ.get("COUNTED_DIES_GIVING") == str(_job.number()):  # 1: by register_state()
            os.kill(os.getpid(), signal.SIGKILL)
        return {"of samples": self.of_samples}

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        self.of_samples.copy_(state["of samples"])


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.of_samples = torch.nn.Parameter(torch.randn(SAMPLES, dtype=torch.float64))
        self.norm = torch.nn.BatchNorm1d(3)


def main() -> None:
    algorithm, epochs, workers, accumulated, members = sys.argv[1], *map(int, sys.argv[2:6])
    number = int(os.environ.get("STRETTO_MEMBER", "/0").split("/")[1])
    signals = {int(step): sent for who, sent, step in (word.split(":") for word in sys.argv[6:]) if int(who) == number}
    torch.set_num_threads(1)
    if os.environ.get("COUNTED_ON_DEVICE"):
        sys.path.append(str(pathlib.Path(__file__).parents[1] / "device"))
        from late_device import stage

        stage()  # one that is made up
    torch.manual_seed(number)  # all begin with the weights of one
    model, counts, worlds = Model(), Counts(), []
    optimizer = stretto.Optimizer(torch.optim.SGD(model.parameters(), 0.5, momentum=0.9), model, algorithm)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5, 0.9)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=2, factor=0.5)
    optimizer.register_state("counts", counts)
    optimizer.on_members(lambda rank, size, joined, lost, left: worlds.append([rank, size, joined, lost, left]))

    def count() -> None:
        ranks = worlds[-1][1] if worlds else stretto.size()  # the divisor of the sum
        counts.of_samples += (model.of_samples.grad * ranks).round().to(torch.int64)

    optimizer.before_step(count)
    sampler = stretto.Sampler(SAMPLES, BATCH, epochs=epochs)
    loader = torch.utils.data.DataLoader(range(SAMPLES), batch_sampler=sampler, num_workers=workers)
    steps, seen, found = 0, [], []
    for epoch in sampler.epochs():
        seen.append(epoch)
        for batch, indices in enumerate(loader):
            if batch % accumulated == 0:
                optimizer.zero_grad()
            model.of_samples[indices].sum().backward()
            if batch % accumulated == accumulated - 1:
                if (sent := signals.pop(steps, "")) == "raise":
                    raise ValueError("a step that fails")
                if sent == "leave":
                    stretto.leave()
                elif sent:
                    os.kill(os.getpid(), int(sent))
                come = 1 + max(number for world in worlds for number in world[2]) if worlds else 0
                time.sleep(0.002 if come >= members else 0.1)  # an import takes seconds
                optimizer.step(batches=accumulated)
                assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())  # its memory is there
                scheduler.step()
                steps += 1
        with optimizer.together():  # the counts of all ranks are those of the same round
            found.append([optimizer.rounds, optimizer.batches_applied, int(counts.of_samples.sum())])
            plateau.step(1.0)
    optimizer.finish()
    weights = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()
    result = {
        "number": _job.number(),
        "steps": steps,
        "epochs": seen,
        "found": found,
        "worlds": worlds,
        "counts": sorted(set(counts.of_samples.tolist())),
        "applied": optimizer.batches_applied,
        "rate": optimizer.param_groups[0]["lr"],
        "weights": weights,
    }
    os.write(1, (json.dumps(result) + "\n").encode())  # at once: ranks share the pipe


main()
