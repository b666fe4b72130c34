"""Whether a change has made anything slower: two builds in turns, and the ratio of their times.

    .cache/python-test/bin/python microbench/no_cost.py BEFORE AFTER [--blocks N] [--only NAME,...] [--json FILE]

BEFORE and AFTER are folders of builds, as build/release is: `bin/stretto` is taken of them, and `package/` for Python.
In a block each measurement is made with both, one right after the other, and which is first alternates. Printed are the
median of the blocks' ratios, after over before, and an interval that has the true median with 95 % or more, whatever
the distribution: two of the ratios in order. A build is said to be within 1 % where the interval reaches below 1.01. A
wide interval reaches there, too: then more blocks tell, or a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
Values = dict[str, float]  # of what was measured: a time, in whatever unit


def rows_of(build: pathlib.Path, *words: str) -> list[dict[str, Any]]:
    """Of a `stretto bench`, once."""
    command = [str(build / "bin" / "stretto"), "bench", *words, "--repeats", "1", "--json"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=300)
    rows: list[dict[str, Any]] = json.loads(done.stdout)["rows"]
    return rows


def allreduce(build: pathlib.Path) -> Values:
    rows = rows_of(build, "allreduce", "--ranks", "2", "--sizes", "8,64KiB,4MiB", "--time", "200ms")
    return {f"bench allreduce, {row['bytes']} bytes": row["microseconds"]["median"] for row in rows}


def skew(build: pathlib.Path) -> Values:
    """The whole latency: what is over the ideal is a small difference of large numbers."""
    policies = ("--activations", "full,quorum:4,solo")
    rows = rows_of(build, "skew", "--ranks", "8", "--sizes", "64", *policies, "--rounds", "32")
    return {f"bench skew, {row['activation']}": row["mean_ms"]["median"] for row in rows}


def overlap(build: pathlib.Path) -> Values:
    [row] = rows_of(build, "overlap", "--ranks", "2", "--sizes", "8MiB", "--steps", "20")
    return {f"bench overlap, {name}": row[f"{name}_ms"]["median"] for name in ("at_once", "blocking", "overlapped")}


def simulated(build: pathlib.Path) -> Values:
    """Seconds of the clock on the wall, of ranks on a virtual one."""
    job = ["hyperplane", "--simulated", "--ranks", "32", "--steps", "120", "--pace", "1ms"]
    command = [str(build / "bin" / "stretto"), "train", *job, "--algorithm", "eager-quorum"]
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=300)
    return {"train --simulated, 32 ranks": time.perf_counter() - begin}


def python(build: pathlib.Path) -> Values:
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = [sys.executable, str(HERE / "python_step.py"), "--only", "small", "--blocks", "5", "--json", out.name]
        path = os.pathsep.join(filter(None, (str(build / "package"), os.environ.get("PYTHONPATH", ""))))
        # Its status says whether promises are kept, which is another question.
        subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, timeout=300)
        rows = json.load(out)["results"]
    return {f"Python, {row['what']}": row["median"] for row in rows if row["what"] == "a step, stretto"}


MEASUREMENTS: dict[str, Callable[[pathlib.Path], Values]] = {
    "allreduce": allreduce,
    "skew": skew,
    "overlap": overlap,
    "simulated": simulated,
    "python": python,
}


def interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Two of the values: their distribution's median lies between them with 95 % or more. None of fewer than six."""
    ordered, number = sorted(values), len(values)
    cut, tail = 0, 1 / 2**number  # how likely it is that at most so many lie below the median
    while tail <= 0.025:
        cut += 1
        tail += math.comb(number, cut) / 2**number
    return (ordered[cut - 1], ordered[number - cut]) if cut > 0 else None


def judged(ratios: Sequence[float]) -> tuple[str, bool]:
    """The words for a row of the table, and whether it is slower."""
    within = interval(ratios)
    if within is None:
        return f"{statistics.median(ratios):.4f} | – | six blocks or more tell", False
    slower = within[0] >= 1.01
    verdict = "SLOWER" if slower else "within 1 %"
    return f"{statistics.median(ratios):.4f} | {within[0]:.4f} to {within[1]:.4f} | {verdict}", slower


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("before", type=lambda word: pathlib.Path(word).resolve())
    parser.add_argument("after", type=lambda word: pathlib.Path(word).resolve())
    parser.add_argument("--blocks", type=int, default=12)
    parser.add_argument("--only", default=",".join(MEASUREMENTS), help=f"some of {', '.join(MEASUREMENTS)}")
    parser.add_argument("--json", help="a file for all values")
    options = parser.parse_args()
    builds = [options.before, options.after]
    for build in builds:
        if not (build / "bin" / "stretto").exists():
            parser.error(f"{build} has no bin/stretto: expected the folder of a build, as build/release is")
    names = options.only.split(",")
    if unknown := [name for name in names if name not in MEASUREMENTS]:
        parser.error(f"no measurement {unknown[0]}: expected some of {', '.join(MEASUREMENTS)}")
    times: dict[str, list[tuple[float, float]]] = {}
    loads = []
    for block in range(options.blocks):
        for name in names:
            loads.append(os.getloadavg()[0])
            found: list[Values] = [{}, {}]
            for which in (block % 2, 1 - block % 2):
                found[which] = MEASUREMENTS[name](builds[which])
            for what, before in found[0].items():
                times.setdefault(what, []).append((before, found[1][what]))
        print(f"# block {block + 1} of {options.blocks}", file=sys.stderr, flush=True)
    print(f"{options.blocks} blocks, {time.strftime('%Y-%m-%d')}, load {min(loads):.1f} to {max(loads):.1f}\n")
    print("| | before | after | after / before | 95 % | |\n|---|---|---|---|---|---|")
    slower = 0
    for what, pairs in times.items():
        words, is_slower = judged([after / before for before, after in pairs])
        slower += is_slower
        medians = [statistics.median(column) for column in zip(*pairs)]
        print(f"| {what} | {medians[0]:.4g} | {medians[1]:.4g} | {words} |")
    if options.json:
        results = {"command": sys.argv, "loads": loads, "times": times}
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1))
    if slower:
        raise SystemExit(f"{slower} slower by more than 1 %")


if __name__ == "__main__":
    main()
