"""The programs that run one loop under several frameworks: that they run, and what they read out of a log."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

PEERS = Path(__file__).parents[3] / "microbench" / "peers"
LONG = bool(os.environ.get("STRETTO_LONG_TESTS"))


def rows_of(program: str, *arguments: str) -> list[list[str]]:
    """Of the tables that it prints, without their heads."""
    command = [sys.executable, str(PEERS / program), "--times", "1", "--watchdog", "40", *arguments]
    done = subprocess.run(command, check=True, timeout=300, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("| ") and not line.startswith("|  |")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert rows, done.stdout + done.stderr
    return rows


def test_loops_run_once() -> None:
    names = "ddp,post-local,accelerate,stretto-quorum,stretto-local" if LONG else "ddp,stretto-quorum"
    rows = rows_of("living.py", "--only", names, "--kinds", "balanced", "--batches", "64")
    number = len(names.split(","))
    assert len(rows) == 2 * number
    for row in rows[:number]:  # batches a second, and the loss of a model that has learned little
        assert float(row[1]) > 0
        assert 0.5 < float(row[4]) < 5
    assert all(int(row[1]) > 2 for row in rows[number:])  # lines beside plain PyTorch


def test_a_kill_costs_no_batch() -> None:
    [row] = rows_of("restarts.py", "--only", "stretto-restarts", "--batches", "600")
    assert row[4:] == ["0", "1"]


@pytest.fixture
def story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(PEERS)
    import jobs_of_loops

    def told(*lines: Sequence[Any]) -> Any:
        (tmp_path / "log").write_text("".join(" ".join(map(str, line)) + "\n" for line in lines))
        return jobs_of_loops.Story(tmp_path, "", False, 8)

    return told


def step(begin: float, end: float, pid: int, rank: int, number: int) -> list[Sequence[Any]]:
    return [(begin, pid, rank, "computes", number), (end, pid, rank, "stepped", number)]


def test_next_step_is_begun_after_the_kill_by_a_process_that_lives_on(story: Any) -> None:
    lines = [*step(1, 2, 10, 0, 0), (2, 11, 1, "computes", 1), (2.5, 10, 0, "computes", 2), (3, 11, 1, "killed")]
    lines += [(4, 10, 0, "stepped", 2), *step(4.5, 5, 12, 1, 1), *step(6, 7, 10, 0, 3), (8, 10, 0, "ended", 0)]
    told = story(*lines)
    assert told.next_step() == 4  # not the step under way, nor that of the process that came
    assert told.standstill(3, but=1) == 3
    assert told.computed_again() == 0  # batch 1 was not completed before
    assert told.applied() == 4
    assert not told.ended()  # the one that came has not


def test_next_step_of_a_job_that_begins_anew(story: Any) -> None:
    lines = [*step(1, 2, 10, 0, 0), (2, 11, 1, "computes", 1), (3, 11, 1, "killed")]
    lines += [*step(9, 10, 20, 0, 0), *step(9, 11, 21, 1, 1), (12, 20, 0, "ended", 0), (12, 21, 1, "ended", 0)]
    told = story(*lines)
    assert told.next_step() == 7
    assert told.standstill(3, but=1) == 8
    assert told.computed_again() == 1  # batch 0, by all that had completed it
    assert told.ended()


def test_no_step_after_the_kill(story: Any) -> None:
    told = story(*step(1, 2, 10, 0, 0), (2, 11, 1, "computes", 1), (3, 11, 1, "killed"))
    assert told.next_step() is None
    assert not told.ended()
