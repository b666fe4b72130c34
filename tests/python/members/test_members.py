"""Python programs under `stretto run --ranks MIN:MAX`: ranks are lost and come, and each sample is in one result an
epoch."""

from __future__ import annotations

import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
from typing import Any

import pytest

COUNTED = pathlib.Path(__file__).parent / "counted.py"
SAMPLES, BATCH = 240, 4  # of counted.py
WATCHDOG = 240  # seconds
LONG = bool(os.environ.get("STRETTO_LONG_TESTS"))


def run(
    ranks: str, *program: object, restarts: int = 0, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    more = ["--restarts", str(restarts)] if restarts else []
    command = [sys.executable, "-m", "stretto", "run", "--ranks", ranks, *more, "--", sys.executable]
    variables = {**os.environ, **(environment or {})}
    return subprocess.run(
        [*command, *map(str, program)], env=variables, capture_output=True, text=True, timeout=WATCHDOG
    )


def assert_counted_once(
    result: subprocess.CompletedProcess[str], epochs: int, drops: bool = False
) -> dict[int, dict[str, Any]]:
    """Each sample is in one result an epoch, and all ranks agree to the bit. `drops`: some batches are in none, and
    count as used. Returns the lines of the ranks by number."""
    assert result.returncode == 0, result.stdout + result.stderr
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert lines, result.stderr
    for line in lines:
        assert line["counts"][-1] == epochs, (lines, result.stderr)
        assert drops or line["counts"] == [epochs], (lines, result.stderr)
        applied = epochs * SAMPLES // BATCH
        assert line["applied"] in (
            range(applied - 3, applied + 1) if drops else [applied]
        )  # the last ones of each rank
        assert line["epochs"] == sorted(line["epochs"])
        assert line["epochs"][-1] == epochs - 1
    for same in ("weights", "rate"):
        assert len({line[same] for line in lines}) == 1, (same, lines)
    last = max(lines, key=lambda line: len(line["found"]))["found"]
    for line in lines:  # one that has come later, or has no batch left, meets the others no less
        assert all(met in last for met in line["found"]), lines
        assert drops or all(total == applied * BATCH for _, applied, total in line["found"])
    return {line["number"]: line for line in lines}


@pytest.mark.parametrize(
    ("algorithm", "workers", "accumulated"), [("eager-quorum", 0, 1), ("sync", 2, 1), ("eager-solo", 2, 2)]
)
def test_a_rank_is_killed_and_another_takes_its_place(algorithm: str, workers: int, accumulated: int) -> None:
    epochs = 20
    dies = f"1:{signal.SIGKILL:d}:31"  # in the second epoch
    result = run("1:3", COUNTED, algorithm, epochs, workers, accumulated, 4, dies, restarts=1)
    members = assert_counted_once(result, epochs, drops=accumulated > 1)
    assert sorted(members) == [0, 2, 3], result.stderr
    for number in 0, 2:
        worlds = members[number]["worlds"]
        assert [sorted(world[2]) for world in worlds if world[2]] == [[0, 1, 2], [3]]  # who has come
        assert [number for world in worlds for number in world[3]] == [1]  # who is lost
    [(rank, size, joined, lost, left)] = members[3]["worlds"]
    assert (size, sorted(joined), joined[rank], lost, left) == (3, [0, 2, 3], 3, [], [])
    assert members[3]["epochs"][0] > 0  # it has begun with the job's


def test_the_first_is_lost_before_the_others_have_its_weights() -> None:
    environment = {"COUNTED_DIES_GIVING": "0"}
    members = assert_counted_once(run("2:3", COUNTED, "sync", 3, 0, 1, 0, environment=environment), 3)
    assert sorted(members) == [1, 2]
    assert all(line["worlds"][0][1] == 2 for line in members.values())  # nobody has begun in the first world


def test_gradients_lie_on_a_device() -> None:
    environment = {"COUNTED_ON_DEVICE": "1", "STRETTO_DEVICE": "stage"}
    kill = f"1:{signal.SIGKILL:d}:7"
    result = run("1:3", COUNTED, "eager-quorum", 20, 0, 1, 4, kill, restarts=1, environment=environment)
    assert sorted(assert_counted_once(result, 20)) == [0, 2, 3], result.stderr


def test_an_exception_ends_its_rank_alone() -> None:
    result = run("1:2", COUNTED, "eager-quorum", 4, 0, 1, 2, "0:raise:9")
    members = assert_counted_once(result, 4)
    assert sorted(members) == [1]
    assert "ValueError: a step that fails" in result.stderr
    # Where its interpreter takes more than five seconds to end it is killed.
    assert re.search("rank 0 is lost: (ended with exit status 1|killed by SIGKILL); the others ", result.stderr)


def test_ranks_leave() -> None:
    result = run("1:4", COUNTED, "eager-quorum", 6, 2, 1, 4, f"1:{signal.SIGTERM:d}:6", "2:leave:9")
    members = assert_counted_once(result, 6)
    assert sorted(members) == [0, 3]
    for line in members.values():
        assert sorted(number for world in line["worlds"] for number in world[4]) == [1, 2]
        assert not any(world[3] for world in line["worlds"])
    assert "rank 1 has left" in result.stderr
    assert "rank 2 has left" in result.stderr
    assert "is lost" not in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("seed", range(1, 13 if LONG else 2))
def test_a_job_drawn_by_a_seed(seed: int) -> None:
    drawn = random.Random(seed)
    ranks, restarts, epochs = drawn.randint(2, 4), drawn.randint(0, 2), drawn.randint(8, 20)
    ends = {  # rank 0 stays; so may a process that comes
        number: drawn.choice([f"{signal.SIGKILL:d}", f"{signal.SIGTERM:d}", "raise", "leave"])
        for number in range(1, ranks + restarts)
        if drawn.random() < 0.6
    }
    lost = sum(number < ranks and end in (f"{signal.SIGKILL:d}", "raise") for number, end in ends.items())
    algorithm, workers = drawn.choice(["sync", "eager-quorum", "eager-solo", "eager-majority"]), drawn.choice([0, 2])
    signals = [f"{number}:{end}:{drawn.randint(0, 40)}" for number, end in ends.items()]
    members = ranks + min(lost, restarts)
    result = run(f"1:{ranks}", COUNTED, algorithm, epochs, workers, 1, members, *signals, restarts=restarts)
    assert 0 in assert_counted_once(result, epochs)


def test_with_local_steps() -> None:
    result = run("1:3", COUNTED, "diloco:quorum", 8, 0, 1, 3, f"2:{signal.SIGKILL:d}:20")
    assert result.returncode == 0, result.stderr
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert sorted(line["number"] for line in lines) == [0, 1]
    assert {line["applied"] for line in lines} == {8 * SAMPLES // BATCH}
    assert len({line["weights"] for line in lines}) == 1


def test_a_pool_of_ranks_that_stay() -> None:
    members = assert_counted_once(run("3", COUNTED, "eager-quorum", 3, 2, 1, 0), 3)
    assert [line["epochs"] for line in members.values()] == [[0, 1, 2]] * 3
    assert sum(line["steps"] for line in members.values()) == 3 * SAMPLES // BATCH


REFUSED = """
import torch
import stretto

def tell(call):
    try:
        call()
        print("nothing was raised")
    except stretto.UsageError as error:
        print(error)

class Code:
    def state_dict(self):
        return {"hook": lambda: None}
    def load_state_dict(self, state):
        pass

model = torch.nn.Linear(2, 1)
sampler = stretto.Sampler(8, 2)
tell(lambda: stretto.init(rank=0, ranks=2))
tell(lambda: next(iter(sampler)))
tell(lambda: stretto.Sampler(0))
tell(lambda: stretto.Sampler(torch.zeros(8, 2)))
try:
    stretto.leave()
except SystemExit as left:
    print(type(left).__name__, left.code)
tell(lambda: stretto.Sampler(8, batch_size=2.5))
tell(lambda: stretto.Sampler(8, lengths=[1, 2]))
tell(lambda: stretto.Optimizer(torch.optim.SGD(model.parameters(), 0.1), model, "sync", overlap=True))
optimizer = stretto.Optimizer(torch.optim.SGD(model.parameters(), 0.1), model)
tell(lambda: optimizer.register_state("code", Code()))
tell(lambda: optimizer.register_state("number", 3))
optimizer.register_state("other", torch.nn.Linear(1, 1))
tell(lambda: optimizer.register_state("other", torch.nn.Linear(1, 1)))
model(torch.ones(1, 2)).sum().backward()
tell(optimizer.step)
tell(optimizer.report)
assert (optimizer.batches_applied, optimizer.rounds) == (0, 0)
optimizer.zero_grad()
tell(lambda: optimizer.register_state("late", torch.nn.Linear(1, 1)))
tell(lambda: stretto.Optimizer(torch.optim.SGD(torch.nn.Linear(1, 1).parameters(), 0.1)))
tell(stretto.barrier)
tell(lambda: stretto.attach(None, optimizer))
for batch in sampler:
    optimizer.zero_grad()
    model(torch.ones(2, 2)).sum().backward()
    optimizer.step()
tell(lambda: next(iter(stretto.Sampler(8, 2))))
optimizer.finish()
print(optimizer.batches_applied, stretto.local_rank(), stretto.size())
try:
    print(len(sampler))
except TypeError as error:
    print(error)
"""

EXPECTED = """
init(rank=0, ranks=2) under `stretto run --ranks MIN:MAX`
draws before there is a stretto.Optimizer
Sampler(samples=0): expected a number of at least 1
Sampler(samples=) of a data set: expected len(dataset)
Left 0
Sampler(batch_size=2.5): expected a number of at least 1
Sampler(lengths=) of 2 samples: expected 8
overlap=True where members of the job change
register_state('code'): its state_dict() does not travel
register_state('number'): int has no state_dict()
register_state('other') a second time
step() before this rank has taken over the weights
the optimizer has not begun
register_state('late') after the first batch
a second optimizer where members of the job change
a collective of one's own where members of the job change
expected a DistributedDataParallel
a second Sampler over one pool
4 0 1
len() of a Sampler where members of the job change
""".strip().splitlines()


def test_what_is_refused(tmp_path: pathlib.Path) -> None:
    script = tmp_path / "refused.py"
    script.write_text(REFUSED)
    result = run("1:1", script)
    assert result.returncode == 0, result.stdout + result.stderr
    told = result.stdout.splitlines()
    assert len(told) == len(EXPECTED), result.stdout
    for line, expected in zip(told, EXPECTED):
        assert expected in line


OTHER = """
import os, torch
import stretto
torch.set_num_threads(1)
number = int(os.environ["STRETTO_MEMBER"].split("/")[1])
model = torch.nn.Linear(2, 1)
optimizer = stretto.Optimizer(torch.optim.SGD(model.parameters(), 0.1), model)
optimizer.register_state(f"average of {number}", torch.nn.Linear(1, 1))
optimizer.finish()
print(number)
"""


def test_registered_states_differ(tmp_path: pathlib.Path) -> None:
    script = tmp_path / "other.py"
    script.write_text(OTHER)
    result = run("1:2", script)
    assert result.returncode == 0, result.stdout + result.stderr
    assert len(result.stdout.split()) == 1  # the other one goes on
    assert "in its registered states: on member " in result.stderr


GROUP = """
import os, sys, torch
import stretto
torch.set_num_threads(1)
model = torch.nn.Linear(2, 1)
optimizer = stretto.Optimizer(torch.optim.SGD(model.parameters(), 0.1), model)
store = f"file://{sys.argv[1]}"
torch.distributed.init_process_group("gloo", init_method=store, rank=stretto.local_rank(), world_size=2)
for batch in stretto.Sampler(64, 2):
    optimizer.zero_grad()
    model(torch.ones(2, 2)).sum().backward()
    optimizer.step()
optimizer.finish()
"""


def test_a_process_group_does_not_follow_the_members(tmp_path: pathlib.Path) -> None:
    script = tmp_path / "group.py"
    script.write_text(GROUP)
    result = run("2:2", script, tmp_path / "store")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "torch.distributed has a process group of 2, which does not change with the members" in result.stderr
