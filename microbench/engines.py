#!/usr/bin/env python3
"""Messages between hosts by UCX beside those by TCP: `stretto bench --over`, on network namespaces, by turns.

    sudo microbench/engines.py [--build build/release] [--repeats 7] [--only late,allreduce,cpu]

late: 32 MB both ways between two hosts of 1 Gbit/s, both at once and one side 5 ms later; the ratio is the time of the
second over that of the first and 5 ms. allreduce: 32 MB on four hosts of 1 Gbit/s, and the part of the wire. cpu: 4 MiB
both ways between two hosts without a limit, and the CPU time of both. Each is an allreduce; medians with the least and
the greatest, and the median of the ratios of neighbouring turns.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
from typing import Any

ENGINES = ("tcp", "ucx")
LATE = 5  # ms
WIRE = 2 * 3 / 4 * 32e6 * 8 / 1e9  # seconds on the wire of an allreduce of 32 MB on four hosts


def bench(program: str, engine: str, *options: str) -> dict[str, Any]:
    """The first row."""
    command = [program, "bench", *options, "--repeats", "1", "--json"]
    ran = subprocess.run(
        command, env={**os.environ, "STRETTO_BETWEEN": engine}, capture_output=True, text=True, check=False
    )
    if ran.returncode != 0:
        raise SystemExit(ran.stderr)
    row: dict[str, Any] = json.loads(ran.stdout)["rows"][0]
    return row


def value(row: dict[str, Any], name: str) -> float:
    found = row[name]
    return float(found["median"] if isinstance(found, dict) else found)


def late(program: str, engine: str) -> dict[str, float]:
    skew = ("skew", "--over", "hosts:2x1", "--rate", "1gbit", "--sizes", "32MB", "--activations", "full")
    times = [
        value(bench(program, engine, *skew, "--rounds", "8", "--skew", f"{ms}ms"), "mean_ms") for ms in (0, LATE)
    ]
    # The mean of both ranks, of which the late one waits so much less.
    whole = times[1] + LATE / 2
    return {"both at once, ms": times[0], "one late, ms": whole, "ratio": whole / (times[0] + LATE)}


def allreduce(program: str, engine: str) -> dict[str, float]:
    row = bench(program, engine, *"allreduce --over hosts:4x1 --rate 1gbit --sizes 32MB --time 2s".split())
    seconds = value(row, "microseconds") / 1e6
    return {"ms": 1e3 * seconds, "% of the wire": 100 * WIRE / seconds}


def cpu(program: str, engine: str) -> dict[str, float]:
    skew = "skew --over hosts:2x1 --sizes 4MiB --activations full --rounds 100 --skew 0ms"
    row = bench(program, engine, *skew.split())
    milliseconds = value(row, "mean_ms")
    return {"ms": milliseconds, "CPU ms": milliseconds * value(row, "cores")}


MEASURES = {"late": late, "allreduce": allreduce, "cpu": cpu}


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.4g} [{min(values):.4g}, {max(values):.4g}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--only", default=",".join(MEASURES))
    asked = parser.parse_args()
    program = str(pathlib.Path(asked.build).resolve() / "bin/stretto")
    print(f"{asked.repeats} turns, load {os.getloadavg()[0]:.1f}")
    for name in asked.only.split(","):
        turns = [{engine: MEASURES[name](program, engine) for engine in ENGINES} for _ in range(asked.repeats)]
        for figure in turns[0]["tcp"]:
            of = {engine: [turn[engine][figure] for turn in turns] for engine in ENGINES}
            ratios = [ucx / tcp for tcp, ucx in zip(of["tcp"], of["ucx"])]
            both = ", ".join(f"{engine} {spread(of[engine])}" for engine in ENGINES)
            print(f"{name}, {figure}: {both}, ucx / tcp {spread(ratios)}", flush=True)
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
