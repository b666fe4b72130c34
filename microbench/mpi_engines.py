#!/usr/bin/env python3
"""Messages between hosts by MPI beside those by TCP, on network namespaces, by turns, under mpirun of Open MPI and mpiexec
of MPICH.

    sudo microbench/mpi_engines.py [--build build/release] [--repeats 7] [--only late,idle]

late: 32 MB both ways between two hosts of 1 Gbit/s, both at once and one side 5 ms later; the ratio is the time of the
second over that of the first and 5 ms. idle: cores of 8 ranks on two hosts that train nothing for five seconds, since
they sleep. Medians with the least and the greatest.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests/hosts"))
import managers
from engines import spread
from hosts import Hosts, ends

ENGINES = ("tcp", "mpi")
MANAGERS = {"Open MPI": managers.mpirun, "MPICH": managers.mpiexec}
LATE = 5  # ms
IDLE = 5  # seconds


def late(folder: str, build: pathlib.Path, manager: str, engine: str) -> dict[str, float]:
    with Hosts(2, "1gbit") as hosts:
        words, environment = MANAGERS[manager](folder, 2, "h1:1,h2:1")
        command = ("env", f"STRETTO_BETWEEN={engine}", build / "bin/launched_rank", "both_ways")
        [(status, out, said)] = ends([hosts.start(0, (*words, *command), {"PYTHONPATH": "", **environment})])
        found = re.search(r"^([\d.]+) ([\d.]+)$", out, re.MULTILINE)
        if status != 0 or found is None:
            raise SystemExit(out + said)
    at_once, one_late = map(float, found.groups())
    return {"both at once, ms": at_once, "one late, ms": one_late, "ratio": one_late / (at_once + LATE)}


def seconds_of_ranks(hosts: Hosts) -> float:
    """What the ranks on both hosts have computed so far."""
    ticks = 0
    for host in ("1", "2"):
        show = "for p in $(pgrep stretto-train); do cut -d ')' -f 2 /proc/$p/stat; done"
        for line in hosts.call("exec", host, "sh", "-c", show).stdout.splitlines():
            ticks += sum(map(int, line.split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def idle(folder: str, build: pathlib.Path, manager: str, engine: str) -> dict[str, float]:
    with Hosts(2) as hosts:
        words, environment = MANAGERS[manager](folder, 8, "h1:4,h2:4")
        command = (build / "bin/stretto", "train", "hyperplane", "--steps", "2", "--pace", f"{3 * IDLE}s")
        command += ("--between", engine, "--out", "/tmp/run")
        job = hosts.start(0, (*words, *command), {"PYTHONPATH": "", **environment})
        while not hosts.has(1, "/tmp/run/records-0.jsonl"):
            if job.poll() is not None:
                raise SystemExit(str(job.communicate()))
            time.sleep(0.1)
        time.sleep(2)
        begin, before = time.monotonic(), seconds_of_ranks(hosts)
        time.sleep(IDLE)
        cores = (seconds_of_ranks(hosts) - before) / (time.monotonic() - begin)
        job.kill()
        job.communicate()
    return {"cores": cores}


MEASURES = {"late": late, "idle": idle}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--only", default=",".join(MEASURES))
    asked = parser.parse_args()
    build = pathlib.Path(asked.build).resolve()
    print(f"{asked.repeats} turns, load {os.getloadavg()[0]:.1f}")
    for name in asked.only.split(","):
        for manager in MANAGERS:
            turns = []
            for _ in range(asked.repeats):
                with tempfile.TemporaryDirectory() as folder:
                    turns.append({engine: MEASURES[name](folder, build, manager, engine) for engine in ENGINES})
            for figure in turns[0]["tcp"]:
                both = ", ".join(f"{engine} {spread([turn[engine][figure] for turn in turns])}" for engine in ENGINES)
                print(f"{name}, {manager}, {figure}: {both}", flush=True)
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
