#!/usr/bin/env python3
"""How large jobs on several hosts grow on this machine: how long ranks take to meet, what a rank holds in memory, and
how many connections they have between hosts (tests/hosts/hosts.sh).

    sudo microbench/hosts_scale.py [--build build/release] [--repeats 3] [--of 2x2,4x4,4x16,16x1]

start: from the start of `stretto run --hosts` until all ranks have met; the ranks know no Torch. memory: of a rank
then, its share of what several hold counted (Pss), the greatest of all. connections: of rank 0's host, and of another
one, the most, with other hosts, in a job that has trained for some steps (hyperplane, eager-quorum). Medians over the
repetitions.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import sys
import time
from collections.abc import Callable

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "tests/hosts"))
from engines import spread  # noqa: E402
from hosts import HOSTS, WATCHDOG, Hosts, Output  # noqa: E402

POLL = 0.005  # seconds


def wait_for(condition: Callable[[], bool], launcher: Output, what: str) -> None:
    end = time.monotonic() + 4 * WATCHDOG
    while not condition():
        if time.monotonic() > end or launcher.process.poll() is not None:
            raise SystemExit(f"no {what}: {launcher.said[-500:]}")
        time.sleep(POLL)


def memory_of_ranks(hosts: Hosts, number: int, name: str) -> float:
    """MiB, the greatest of all."""
    shares = []
    for host in range(1, number + 1):
        script = f"for p in $(pgrep -f {name}); do cat /proc/$p/smaps_rollup; done"
        shares += re.findall(r"^Pss: +(\d+) kB", hosts.call("exec", str(host), "sh", "-c", script).stdout, re.MULTILINE)
    return max(map(int, shares)) / 1024


def connections(hosts: Hosts, number: int) -> list[int]:
    """Of each host with other ones. Host 0 has the launcher."""
    counts = []
    for host in range(1, number + 1):
        lines = hosts.call("exec", str(host), "ss", "-Htn", "state", "established").stdout.splitlines()
        peers = [line.split()[-1].rsplit(":", 1)[0] for line in lines]
        own = f"10.77.0.{host}"
        counts.append(sum(peer.startswith("10.77.0.") and peer not in (own, "10.77.0.254") for peer in peers))
    return counts


def started(hosts: Hosts, program: str, number: int, each: int, command: tuple[str, ...]) -> Output:
    places = ",".join(f"h{host}:{each}" for host in range(1, number + 1))
    words = (program, "run", "--rsh", f"{HOSTS} rsh", "--hosts", places, "--", *command)
    return Output(hosts.start(0, words, {}))


def once(build: pathlib.Path, number: int, each: int) -> dict[str, float]:
    program = str(build / "bin/stretto")
    measured: dict[str, float] = {}
    with Hosts(number) as hosts:
        begin = time.monotonic()
        launcher = started(hosts, program, number, each, (str(build / "bin/launched_rank"), "count_on"))
        wait_for(lambda: hosts.has(1, "/tmp/begun"), launcher, "meeting")
        measured["start, s"] = time.monotonic() - begin
        measured["memory, MiB"] = memory_of_ranks(hosts, number, "launched_rank")
        hosts.call("exec", "1", "touch", "/tmp/end")
        if launcher.end() != 0:
            raise SystemExit(launcher.said)
    with Hosts(number) as hosts:
        train = (program, "train", "hyperplane", "--algorithm", "eager-quorum", "--epochs", "1000000", "--out", "/tmp/run")
        launcher = started(hosts, program, number, each, train)
        records = "/tmp/run/records-0.jsonl"
        has_steps = ("exec", "1", "sh", "-c", f"test $(wc -l < {records}) -gt 20")
        wait_for(lambda: hosts.call(*has_steps).returncode == 0, launcher, "step")
        measured["connections of the first"], *of_others = connections(hosts, number)
        measured["of another"] = max(of_others)
        launcher.process.terminate()
        launcher.end()
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--of", default="2x2,4x4,4x16,16x1")
    asked = parser.parse_args()
    build = pathlib.Path(asked.build).resolve()
    columns = ("start, s", "memory, MiB", "connections of the first", "of another")
    print(f"{asked.repeats} times, load {os.getloadavg()[0]:.1f}")
    print("| hosts | ranks on each | " + " | ".join(columns) + " |\n|" + "---|" * (2 + len(columns)))
    for job in asked.of.split(","):
        number, each = map(int, job.split("x"))
        runs = [once(build, number, each) for _ in range(asked.repeats)]
        cells = [spread([run[column] for run in runs]) for column in columns]
        print(f"| {number} | {each} | " + " | ".join(cells) + " |", flush=True)
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
