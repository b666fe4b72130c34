"""Programs of Python that do in a job whose members change what they had better not, or what looks like it."""

from __future__ import annotations

import pathlib
import re
import subprocess

import pytest
from test_members import run

# A rank's program: `number` is its process's, `model`, `optimizer` and `sampler` may be others by BEFORE, and STEP is
# what happens before each of its steps. It ends with how many batches are applied, unless END says so.
PROGRAM = """
import os, signal, subprocess, sys, time
import torch
import stretto

torch.set_num_threads(1)
number = int(os.environ["STRETTO_MEMBER"].split("/")[1])
SAMPLES = 400


class State:
    asked = 0
    def state_dict(self):
        State.asked += 1
        return give() if State.asked > 1 else {{}}  # the first time it is registered
    def load_state_dict(self, state):
        pass


class Code:
    pass


def give():
    return {{}}


dtype, kind, options = torch.float32, torch.optim.SGD, {{}}
{before}
model = torch.nn.Linear(2, 1, dtype=dtype)
optimizer = stretto.Optimizer(kind(model.parameters(), 0.01), model, **options)
{registered}
sampler = stretto.Sampler(SAMPLES, 4)
step = 0
for batch in sampler:
    optimizer.zero_grad()
    model(torch.ones(4, 2, dtype=dtype)).sum().backward()
    {step}
    optimizer.step()
    step += 1
{end}
os.write(1, f"{{number}} {{optimizer.batches_applied}}\\n".encode())  # at once: ranks share the pipe
"""
APPLIED = "100"  # batches of the pool


def train(
    tmp_path: pathlib.Path,
    ranks: str,
    before: str = "",
    registered: str = "optimizer.register_state('own', State())",
    step: str = "pass",
    end: str = "optimizer.finish()",
) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM.format(before=before, registered=registered, step=step, end=end))
    result = run(ranks, script)
    assert result.returncode == 0, result.stdout + result.stderr
    return result


def finished(result: subprocess.CompletedProcess[str]) -> list[int]:
    """The numbers of those that have come to the end, with all batches applied."""
    lines = [line.split() for line in result.stdout.splitlines()]
    assert all(line[1] == APPLIED for line in lines), result.stdout + result.stderr
    return sorted(int(line[0]) for line in lines)


@pytest.mark.parametrize(
    ("gives", "told"),
    [
        ("raise ValueError('nothing to give')", "cannot give what its loop has beside the model: ValueError: nothing"),
        ("return {'hook': lambda: None}", "cannot give what its loop has beside the model: "),
        ("return {'code': Code()}", "what ranks have registered does not travel"),
    ],
)
def test_a_registered_state_that_cannot_be_given(tmp_path: pathlib.Path, gives: str, told: str) -> None:
    result = train(tmp_path, "1:2", before=f"def give():\n    {gives}")
    assert finished(result) == [0]  # who has it goes on
    assert told in result.stderr, result.stderr


def test_those_that_differ_end_alone(tmp_path: pathlib.Path) -> None:
    registered = """if number == 1: optimizer.register_state('own', State())
for name in 'ba' if number == 2 else 'ab': optimizer.register_state(name, State())"""
    differs = """if number == 3: dtype = torch.float64
if number == 4: kind = torch.optim.Adam
if number == 5: options = {'algorithm': 'eager-solo'}
if number == 6: options = {'max_lag': 7}"""
    result = train(tmp_path, "1:8", before=differs, registered=registered, step="time.sleep(0.05)")
    assert finished(result) == [0, 7]
    named = re.findall(r"UsageError: member (\d) differs from member [07] in its ([a-z ]+): ", result.stderr)
    assert sorted(number for number, _ in named) == list("123456"), result.stderr
    told = [what for _, what in named]
    assert sorted(told) == ["model", "optimizer", *["options"] * 2, *["registered states"] * 2], result.stderr


def test_full_rounds_in_between(tmp_path: pathlib.Path) -> None:
    kill = "if number == 1 and step == 9: os.kill(os.getpid(), signal.SIGKILL)"
    result = train(tmp_path, "1:3", before="options = {'full_every': 10}", step=kill)
    assert finished(result) == [0, 2]


def test_those_that_come_to_a_meeting_which_is_over_hear_so(tmp_path: pathlib.Path) -> None:
    """One rank after the other is killed as soon as it has met the others, of which some have not seen so: it stops
    them before, and they go on when its launcher has heard of it."""
    meet = """
open(f"{sys.path[0]}/process{number}", "w").write(str(os.getpid()))
for meeting in range(5):
    with optimizer.together() as all_met:
        with optimizer.together() as again:
            assert again is all_met
        os.write(2, f"meeting {meeting} {number} {all_met} {optimizer.batches_applied}\\n".encode())
        if number == meeting + 1:
            others = [open(f"{sys.path[0]}/process{other}").read() for other in (0, *range(number + 1, 6))]
            for other in others:
                os.kill(int(other), signal.SIGSTOP)
            go_on = f"while kill -0 {os.getpid()}; do :; done 2> /dev/null; sleep 0.2; kill -CONT {' '.join(others)}"
            subprocess.Popen(["setsid", "sh", "-c", go_on])
            os.kill(os.getpid(), signal.SIGKILL)
optimizer.finish()
"""
    for _ in range(10):
        result = train(tmp_path, "1:6", end=meet)
        assert finished(result) == [0]
        lines = [line.split()[1:] for line in result.stderr.splitlines() if line.startswith("meeting")]
        for meeting in range(5):
            met = {int(number): all_met for of, number, all_met, _ in lines if int(of) == meeting}
            assert sorted(met) == [0, *range(meeting + 1, 6)], result.stderr
            assert "True" in met.values(), result.stderr
        assert {applied for *_, applied in lines} == {APPLIED}
        if any(all_met == "False" for _, _, all_met, _ in lines):
            return
    pytest.fail("in each of 50 meetings all saw that they had met")


def test_a_program_with_an_action_of_its_own_for_sigterm(tmp_path: pathlib.Path) -> None:
    own = "signal.signal(signal.SIGTERM, lambda *_: (print('told', file=sys.stderr), stretto.leave()))"
    tells = "if number == 1 and step == 5: os.kill(os.getpid(), signal.SIGTERM)"
    slow = "time.sleep(0.05)\n    "  # a rank that leaves waits for a round: the others have not come to the end by then
    result = train(tmp_path, "1:3", before=own, step=slow + tells)
    assert finished(result) == [0, 2]
    assert result.stderr.count("told\n") == 1
    assert "rank 1 has left" in result.stderr


def test_a_program_that_ignores_sigterm(tmp_path: pathlib.Path) -> None:
    own = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    tells = "if number == 1 and step == 5: os.kill(os.getpid(), signal.SIGTERM)"
    assert finished(train(tmp_path, "1:2", before=own, step=tells)) == [0, 1]


@pytest.mark.parametrize("ends", ["os._exit(0)", "sys.exit(0)"])
def test_a_fork_in_between(tmp_path: pathlib.Path, ends: str) -> None:
    forks = f"""if number == 1 and step == 5:
        child = os.fork()
        if child == 0:
            try:
                optimizer.step()
            except stretto.UsageError as error:
                print(error, file=sys.stderr, flush=True)
            {ends}
        assert os.waitpid(child, 0)[1] == 0
        subprocess.run(["true"], check=True)"""
    result = train(tmp_path, "2:2", step=forks)
    assert finished(result) == [0, 1]
    assert "fork" in result.stderr, result.stderr


def test_a_program_that_ends_without_finish(tmp_path: pathlib.Path) -> None:
    result = train(tmp_path, "2:2", registered="optimizer.on_round(lambda _: stretto.size())", end="")
    assert result.stdout.count("\n") == 2
    assert "is lost" not in result.stderr, result.stderr
    assert "Traceback" not in result.stderr, result.stderr
    assert "UsageError" not in result.stderr, result.stderr  # from the hook of the last rounds


def test_an_iterable_dataset(tmp_path: pathlib.Path) -> None:
    script = tmp_path / "iterable.py"
    script.write_text(
        """
import torch, stretto
class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(range(8))
try:
    stretto.Sampler(Stream(), 2)
except stretto.UsageError as error:
    print(error)
"""
    )
    result = run("1:1", script)
    assert "as an IterableDataset, there is no Sampler" in result.stdout, result.stderr
    assert "Sampler(len(shards))" in result.stdout, result.stdout


SHARDS = """
import os, torch
import stretto
torch.set_num_threads(1)
model = torch.nn.Linear(2, 1)
optimizer = stretto.Optimizer(torch.optim.SGD(model.parameters(), 0.01), model)
shards = [range(first, first + 10) for first in range(0, 400, 10)]

class Shards(torch.utils.data.Dataset):
    def __len__(self):
        return len(shards)
    def __getitem__(self, index):
        return list(shards[index])  # reads all of it, from its beginning

read = []
for shard in torch.utils.data.DataLoader(Shards(), batch_sampler=stretto.Sampler(len(shards)), collate_fn=lambda x: x):
    read += shard[0]
    optimizer.zero_grad()
    model(torch.ones(10, 2)).sum().backward()
    optimizer.step()
optimizer.finish()
os.write(1, (" ".join(map(str, read)) + "\\n").encode())  # at once: ranks share the pipe
"""


def test_the_recipe_for_a_stream(tmp_path: pathlib.Path) -> None:
    script = tmp_path / "shards.py"
    script.write_text(SHARDS)
    result = run("2:2", script)
    assert result.returncode == 0, result.stdout + result.stderr
    assert sorted(map(int, result.stdout.split())) == list(range(400))
