#!/usr/bin/env python3
"""What each launcher of ranks on several hosts costs, and what it does when a rank is lost: two hosts of two ranks
(tests/hosts/hosts.sh).

    sudo microbench/launchers.py [--build build/release] [--repeats 5] [--only mpirun,srun]

start: from the start of the launcher to the first record of a step on rank 0's host. SIGTERM: to the launcher, until it
has ended. kill: of one rank, until a line has named it, and until the launcher has ended. left: processes of the job on
the two hosts a tenth of a second behind that, of both. Seconds; medians with the least and the greatest.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "tests/hosts"))
import managers  # noqa: E402
import slurm  # noqa: E402
from hosts import HOSTS, WATCHDOG, Hosts, Output  # noqa: E402

POLL = 0.005  # seconds
RECORDS = "/tmp/run/records-0.jsonl"
Words = tuple[str, ...]
Job = tuple[Words, dict[str, str]]  # what starts ranks of what follows, and its environment


@contextlib.contextmanager
def by_mpirun(_: Hosts) -> Iterator[Job]:
    with tempfile.TemporaryDirectory() as folder:
        yield managers.mpirun(folder)


@contextlib.contextmanager
def by_mpiexec(_: Hosts) -> Iterator[Job]:
    with tempfile.TemporaryDirectory() as folder:
        yield managers.mpiexec(folder)


def by_srun(mpi: str) -> Callable[[Hosts], contextlib.AbstractContextManager[Job]]:
    @contextlib.contextmanager
    def started(hosts: Hosts) -> Iterator[Job]:
        with slurm.slurm_on(hosts, 2) as environment:
            yield (*managers.SRUN, f"--mpi={mpi}", "-N2", "-n4"), environment

    return started


def by_run(program: str) -> Callable[[Hosts], contextlib.AbstractContextManager[Job]]:
    @contextlib.contextmanager
    def started(_: Hosts) -> Iterator[Job]:
        yield (program, "run", "--rsh", f"{HOSTS} rsh", "--hosts", "h1:2,h2:2", "--"), {}

    return started


def seconds_until(condition: Callable[[], bool], what: str) -> float:
    begin = time.monotonic()
    while not condition():
        if time.monotonic() - begin > WATCHDOG:
            raise SystemExit(f"no {what} within {WATCHDOG} s")
        time.sleep(POLL)
    return time.monotonic() - begin


def processes(hosts: Hosts) -> list[str]:
    """Those of ranks, on both hosts."""
    return [pid for host in ("1", "2") for pid in hosts.call("exec", host, "pgrep", "stretto-train").stdout.split()]


def once(way: Callable[[Hosts], contextlib.AbstractContextManager[Job]], program: str, kill: bool) -> dict[str, float]:
    train = (program, "train", "hyperplane", "--epochs", "1000000", "--out", "/tmp/run")
    with Hosts(2) as hosts, way(hosts) as (words, environment):
        begin = time.monotonic()
        launcher = Output(hosts.start(0, (*words, *train), environment))
        seconds_until(lambda: hosts.has(1, RECORDS) or launcher.process.poll() is not None, "step")
        measured = {"start": time.monotonic() - begin}
        if kill:
            hosts.call("exec", "2", "sh", "-c", "kill -KILL $(pgrep stretto-train | head -n 1)")
            is_named = re.compile(r"rank \d.* is lost|rank \d.*killed|signal 9|Killed|KILLED")
            begin = time.monotonic()
            seconds_until(
                lambda: (
                    is_named.search(launcher.said + launcher.printed) is not None or launcher.process.poll() is not None
                ),
                "name",
            )
            measured["kill, named"] = time.monotonic() - begin
        else:
            begin = time.monotonic()
            launcher.process.terminate()
        seconds_until(lambda: launcher.process.poll() is not None, "end")
        measured["kill, ended" if kill else "SIGTERM"] = time.monotonic() - begin
        time.sleep(0.1)
        measured["left"] = float(len(processes(hosts)))
        launcher.end()
        return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    program = str(pathlib.Path(asked.build).resolve() / "bin/stretto")
    ways = {
        "stretto run --hosts": by_run(program),
        "mpirun": by_mpirun,
        "mpiexec": by_mpiexec,
        "srun --mpi=pmix": by_srun("pmix"),
        "srun --mpi=none": by_srun("none"),
    }
    print(f"{asked.repeats} times, load {os.getloadavg()[0]:.1f}")
    columns = ("start", "SIGTERM", "kill, named", "kill, ended", "left")
    print("| | " + " | ".join(columns) + " |\n|" + "---|" * (1 + len(columns)))
    for name, way in ways.items():
        if asked.only and name.split()[0] not in asked.only.split(","):
            continue
        runs = [once(way, program, kill) for _ in range(asked.repeats) for kill in (False, True)]
        cells = []
        for column in columns:
            values = [run[column] for run in runs if column in run]
            spread = f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"
            cells.append(f"{max(values):.0f}" if column == "left" else spread)
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
