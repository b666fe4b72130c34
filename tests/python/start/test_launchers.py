"""README's five lines as each launcher starts them, how such jobs end, and that nothing of them is left."""

from __future__ import annotations

import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time

import pytest

from traces import Traces

FIVE_LINES = pathlib.Path(__file__).parents[3] / "examples" / "python" / "five_lines.py"
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "STRETTO_JOB")
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
RUN = [sys.executable, "-m", "stretto", "run", "--ranks"]
LONG = bool(os.environ.get("STRETTO_LONG_TESTS"))

# What the five lines leave, as a line that names rank, replica and batches.
HASHED = f"""
import hashlib, os, runpy, sys
found = runpy.run_path({str(FIVE_LINES)!r})
bits = b"".join(p.detach().numpy().tobytes() for p in found["model"].parameters())
line = f"bits {{hashlib.sha256(bits).hexdigest()}} {{found['optimizer'].batches_applied}}\\n"
os.write(1, line.encode())  # at once: ranks share the pipe
"""

# Three ranks train for ever, but for one that ends.
ENDLESS = """
import os, pathlib, signal, sys
import stretto
import torch

def train(rank, folder, end):
    torch.set_num_threads(1)
    model = torch.nn.Linear(10, 2)
    optimizer = stretto.Optimizer(torch.optim.SGD(model.parameters(), lr=0.001), model)
    step = 0
    while True:
        optimizer.zero_grad()
        model(torch.randn(8, 10)).square().mean().backward()
        optimizer.step()
        step += 1
        if step == 20:
            (pathlib.Path(folder) / str(rank)).write_text(str(os.getpid()))
        if step > 20 and rank == 2 and (pathlib.Path(folder) / "end").exists():
            if end == "raises":
                raise LookupError
            if end == "exits":
                sys.exit(3)

"""
BY_SPAWN = "stretto.spawn(train, (sys.argv[1], sys.argv[2]), 3)\n"
BY_LAUNCHER = "train(stretto.rank(), sys.argv[1], sys.argv[2])\n"


class Started:
    """A job, in a process group of its own. As a context manager it leaves no process behind."""

    def __init__(self, folder: pathlib.Path, launcher: str, text: str, *arguments: str, ranks: int = 3) -> None:
        self.traces = Traces()
        script = folder / "script.py"
        script.write_text(text)
        kept = {name: value for name, value in os.environ.items() if name not in LAUNCHERS}
        before = {
            "torchrun": [*TORCHRUN, str(ranks)],
            "run": [*RUN, str(ranks), "--", sys.executable],
            "spawn": [sys.executable],
        }
        self.process = subprocess.Popen(
            [*before[launcher], str(script), *arguments],
            env={**kept, **self.traces.environment, "OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> Started:
        return self

    def __exit__(self, *_: object) -> None:
        for pid in self.traces.processes():
            os.kill(pid, signal.SIGKILL)
        self.process.communicate()

    def end(self, timeout: float = 300) -> tuple[int, str, str]:
        """Status, and what it has written, when it has ended and nothing is left."""
        out, errors = self.process.communicate(timeout=timeout)
        assert self.traces.left() == []
        return self.process.returncode, out, errors


@pytest.mark.parametrize("launcher", ["torchrun", "run", "spawn"])
def test_five_lines_leave_equal_replicas_and_lose_nothing(tmp_path: pathlib.Path, launcher: str) -> None:
    by_spawn = f"import stretto\nHASHED = {HASHED!r}\nstretto.spawn(lambda rank: exec(HASHED, {{}}), ranks=4)\n"
    with Started(tmp_path, launcher, by_spawn if launcher == "spawn" else HASHED, ranks=4) as job:
        job.traces.look_until(lambda: job.traces.num_memories >= 1 or job.process.poll() is not None)
        status, out, errors = job.end()
    assert status == 0, out + errors
    replicas = re.findall(r"bits (\w+) (\d+)", out)
    assert len(replicas) == 4 and set(replicas) == {(replicas[0][0], "400")}, out
    assert sorted(re.findall(r"rank (\d) of 4: 400 batches", out)) == list("0123"), out


ENDS = [
    *(("torchrun", "killed"), ("torchrun", "interrupted"), ("spawn", "exits"), ("spawn", "killed")),
    *(("run", "killed"), ("run", "launcher_killed")),
]
LONG_ENDS = [("torchrun", "raises"), ("spawn", "interrupted"), ("run", "exits"), ("run", "interrupted")]


@pytest.mark.parametrize("launcher, end", [*ENDS, *(LONG_ENDS if LONG else [])])
def test_nothing_is_left_of_a_job(tmp_path: pathlib.Path, launcher: str, end: str) -> None:
    text = ENDLESS + (BY_SPAWN if launcher == "spawn" else BY_LAUNCHER)
    with Started(tmp_path, launcher, text, str(tmp_path), end) as job:
        under_way = [tmp_path / str(rank) for rank in range(3)]
        job.traces.look_until(lambda: all(path.exists() for path in under_way), seconds=300)
        assert job.traces.num_memories >= 1  # spawn() hands its call over in a piece of its own
        if end == "killed":
            os.kill(int(under_way[2].read_text()), signal.SIGKILL)
        elif end == "launcher_killed":
            job.process.kill()
        elif end == "interrupted":  # as by Ctrl-C at a terminal, which the ranks of spawn() are kept from
            os.kill(job.process.pid, signal.SIGINT)
        else:
            (tmp_path / "end").touch()
        status, out, errors = job.end()
    assert status != 0
    if launcher == "spawn":
        said = {
            "exits": "stretto._errors.Error: rank 2: sys.exit(3)",
            "killed": "stretto._errors.RankLost: rank 2 was killed by SIGKILL",
            "interrupted": "KeyboardInterrupt",
        }
        assert said[end] in errors, errors
    if launcher == "run":
        ended = {"killed": 137, "launcher_killed": -9, "exits": 3, "interrupted": 130}
        assert status == ended[end], errors
        said = {"killed": "stretto run: rank 2 of 3: killed by SIGKILL; the others are ended\n"}
        assert said.get(end, "") in errors, errors
        assert "torchrun" not in errors, errors


@pytest.mark.parametrize("launcher", ["torchrun", "run", "spawn"])
def test_nothing_is_left_of_a_job_that_is_killed_while_it_starts(tmp_path: pathlib.Path, launcher: str) -> None:
    """One process of it, be it a rank or not, at a random moment: while it is started, loads Torch, or ranks meet."""
    seed = int(time.time())
    print(f"seed {seed}")
    random_moments = random.Random(seed)
    for _ in range(10 if LONG else 1):
        text = ENDLESS + (BY_SPAWN if launcher == "spawn" else BY_LAUNCHER)
        with Started(tmp_path, launcher, text, str(tmp_path), "killed") as job:
            job.traces.look_until(lambda: len(job.traces.processes()) >= 4 or job.process.poll() is not None)
            moment = time.monotonic() + random_moments.uniform(0, 4)
            job.traces.look_until(lambda: time.monotonic() >= moment)
            guard = "stretto run" if launcher == "run" else None  # what ends the ranks of a launcher that is killed
            found = job.traces.processes().items()
            ranks = sorted(pid for pid, command in found if pid != job.process.pid and not (guard and guard in command))
            os.kill(random_moments.choice(ranks), signal.SIGKILL)
            status, out, errors = job.end()
        assert status != 0, out + errors
