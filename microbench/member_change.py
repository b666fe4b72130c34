"""Measures how long ranks wait for a change of members: from a kill to the next complete round, beyond the rest of the longest step.

member_change.py STRETTO [--moments N] [--ranks P] [--algorithm A] [--seed S]

Each moment is a run of `stretto train hyperplane` whose steps are paced at 100 ms, and of whose ranks one is killed at a moment drawn by the
seed. The records say when each rank that is left ended its step (`last`), and when the first of them had the round (`done`); the wait is done −
max(kill, last). The start of a run by the clock of this script is known by when the last line of a record was written, to a jiffy (4 ms).
"""

import argparse
import json
import os
import pathlib
import random
import signal
import subprocess
import tempfile
import time

STEPS = 14  # of 100 ms


def records_of(folder, number):
    return [json.loads(line) for line in (folder / f"records-{number}.jsonl").read_text().splitlines()]


def end_of(record):
    """Of the computation of a step, in seconds since the start of the run."""
    return record["begin"] + record["computed"] + record["paced"] + record["delayed"]


def wait_of(program, ranks, algorithm, draw, folder):
    """The wait after one kill, in seconds; nothing where the kill came too late."""
    command = [program, "train", "hyperplane", "--ranks", f"2:{ranks}", "--algorithm", algorithm, "--steps", str(STEPS)]
    job = subprocess.Popen(command + ["--batch", "4", "--pace", "25ms", "--out", folder], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    children = pathlib.Path(f"/proc/{job.pid}/task/{job.pid}/children")
    first = folder / "records-0.jsonl"
    while job.poll() is None and (not first.exists() or first.stat().st_size == 0):
        time.sleep(0.001)  # the first step of rank 0 is over
    time.sleep(draw.uniform(0, 0.1 * (STEPS - 6)))
    victim = draw.choice(children.read_text().split())
    kill = time.time()
    os.kill(int(victim), signal.SIGKILL)
    if job.wait(60) != 0:
        raise SystemExit(f"a run ended with status {job.returncode}: {' '.join(command)}")
    worlds = json.loads((folder / "summary.json").read_text())["members"]["worlds"]
    if len(worlds) != 2:
        return None
    left = worlds[1]["members"]
    crossing = [next((record for record in records_of(folder, number) if record["round"] >= worlds[1]["rounds"]), None) for number in left]
    if None in crossing:
        return None
    last_record = records_of(folder, left[0])[-1]
    start = (folder / f"records-{left[0]}.jsonl").stat().st_mtime - (end_of(last_record) + last_record["waited"])
    done = min(end_of(record) + record["waited"] for record in crossing)
    last = max(end_of(record) for record in crossing)
    return done - max(kill - start, last)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--moments", type=int, default=100)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--algorithm", default="sync")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    waits = []
    for moment in range(options.moments):
        with tempfile.TemporaryDirectory() as scratch:
            draw = random.Random(f"{options.seed} {moment}")
            wait = wait_of(options.program, options.ranks, options.algorithm, draw, pathlib.Path(scratch) / "run")
            if wait is not None:
                waits.append(1000 * wait)
    waits.sort()
    at = lambda share: waits[min(len(waits) - 1, int(share * len(waits)))]  # noqa: E731
    print(
        f"{options.algorithm}, {options.ranks} ranks, {len(waits)} kills, load {os.getloadavg()[0]:.1f}: "
        f"median {at(0.5):.1f} ms, p90 {at(0.9):.1f} ms, p99 {at(0.99):.1f} ms, longest {waits[-1]:.1f} ms"
    )


if __name__ == "__main__":
    main()
