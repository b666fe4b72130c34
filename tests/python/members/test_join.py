"""Processes of Python that come to a running job, and go, by `stretto join` and by other launchers."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest
import stretto
from test_members import COUNTED, LONG, WATCHDOG, assert_counted_once

STRETTO = [sys.executable, "-m", "stretto"]
SCRIPT = pathlib.Path(stretto.__file__).parent / "bin" / "stretto"  # what that becomes
CHURN = pathlib.Path(__file__).parents[2] / "members" / "churn.py"
EPOCHS = 20


def wait_until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + WATCHDOG
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@contextlib.contextmanager
def job(
    tmp_path: pathlib.Path, members: int, epochs: int = EPOCHS, ranks: str = "1:4"
) -> Iterator[tuple[str, Callable[[str], subprocess.Popen[str]]]]:
    """A job to which all come from elsewhere; the address of its master, and how a rank of counted.py is started."""
    running: list[subprocess.Popen[str]] = []
    environment = {**os.environ, "STRETTO_TOKEN": f"of {tmp_path}"}
    program = [sys.executable, str(COUNTED), "eager-quorum", str(epochs), "0", "1", str(members)]

    def start(*command: str, **more: str) -> subprocess.Popen[str]:
        variables = {**environment, **more}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        running.append(subprocess.Popen(command, env=variables, **pipes))  # type: ignore[call-overload]
        return running[-1]

    master = start(*STRETTO, "run", "--ranks", ranks, "--here", "0", "--listen", "127.0.0.1:0", "--", *program)
    assert master.stderr is not None
    said = re.search(r"stretto join (\S+)", master.stderr.readline())
    assert said

    def start_rank(by: str) -> subprocess.Popen[str]:
        if by == "join":
            return start(*STRETTO, "join", said[1])
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "1"]
        return start(*torchrun, "--max-restarts", "3", *program[1:], STRETTO_REGISTER=said[1])

    try:
        yield said[1], start_rank
        assert master.wait(WATCHDOG) == 0
    finally:
        for process in running:
            if process.poll() is None:
                process.terminate()
            process.communicate(timeout=WATCHDOG)


def lines_of(ranks: list[subprocess.Popen[str]]) -> subprocess.CompletedProcess[str]:
    """What they have printed, together."""
    ended = [(rank, *rank.communicate(timeout=WATCHDOG)) for rank in ranks]
    for rank, _, said in ended:
        assert rank.returncode == 0, said
    return subprocess.CompletedProcess([], 0, "".join(end[1] for end in ended), "".join(end[2] for end in ended))


def members_at(address: str, tmp_path: pathlib.Path) -> list[int]:
    environment = {**os.environ, "STRETTO_TOKEN": f"of {tmp_path}"}
    told = subprocess.run([SCRIPT, "members", address, "--json"], env=environment, capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    return sorted(member["member"] for member in json.loads(told.stdout)["members"])  # seats are taken as they come


def rank_of(launcher: subprocess.Popen[str]) -> int:
    """The process of Python that a launcher has started."""
    children = pathlib.Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
    [rank] = [child for child in children if str(COUNTED) in pathlib.Path(f"/proc/{child}/cmdline").read_text()]
    return int(rank)


def test_ranks_come_one_after_the_other_and_one_is_sent_away(tmp_path: pathlib.Path) -> None:
    epochs = 15
    with job(tmp_path, members=4, epochs=epochs) as (address, start_rank):  # so steps stay slow
        ranks = [start_rank("join")]
        wait_until(lambda: members_at(address, tmp_path) == [0])
        ranks += [start_rank("join"), start_rank("join")]
        wait_until(lambda: members_at(address, tmp_path) == [0, 1, 2])
        ranks[1].send_signal(signal.SIGTERM)
        members = assert_counted_once(lines_of(ranks), epochs)
        assert len(members) == 2  # which one leaves is not known: numbers are given as they come


def test_each_rank_has_a_torchrun_of_its_own(tmp_path: pathlib.Path) -> None:
    with job(tmp_path, members=3) as (address, start_rank):
        ranks = [start_rank("torchrun")]
        wait_until(lambda: members_at(address, tmp_path) == [0])  # it has the model, and stays
        ranks.append(start_rank("torchrun"))
        wait_until(lambda: members_at(address, tmp_path) == [0, 1])
        os.kill(rank_of(ranks[1]), signal.SIGKILL)  # torchrun starts another one, which comes in
        members = assert_counted_once(lines_of(ranks), EPOCHS)
        assert 2 in members and len(members) == 2


def test_the_first_is_lost_before_the_others_have_its_weights(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    epochs = 10
    monkeypatch.setenv("COUNTED_DIES_GIVING", "0")
    with job(tmp_path, members=3, epochs=epochs, ranks="2:3") as (_, start_rank):
        ranks = [start_rank("torchrun"), start_rank("torchrun")]
        members = assert_counted_once(lines_of(ranks), epochs)  # torchrun has started another one
        assert sorted(members) == [1, 2]


@pytest.mark.parametrize(("seed", "algorithm"), [(1, "eager-quorum")] + [(2, "sync"), (3, "eager-solo")] * LONG)
def test_churn(seed: int, algorithm: str) -> None:
    changes, seconds = (30, 600) if LONG else (6, 20)
    program = [sys.executable, str(pathlib.Path(__file__).parent / "churned.py")]
    options = ["--changes", str(changes), "--seconds", str(seconds), "--seed", str(seed), "--algorithm", algorithm]
    result = subprocess.run(
        [sys.executable, CHURN, SCRIPT, *options, "--step", "100", "--", *program], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr
