"""What a rank that is stopped costs the others of an elastic grid: `stretto train digits --ranks 8 --algorithm easgd-grid`, one
process stopped for some seconds and continued, with thresholds by which its lines go on, and with those of the paper, which wait
for it. Printed, by the records of the run: steps a second of the others meanwhile, as a share of those before, each rank on its
own; and messages a step, by which one sees whether its lines go on, and those of the others.

grid_stopped.py STRETTO [--seconds T] [--times N]
"""

import argparse
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import tempfile
import time

RANKS, STEP = 8, 0.04  # seconds, paced
WAYS = {
    "shares 0.5, 20 ms": ["--reduce-share", "0.5", "--complete-share", "0.5", "--advance-share", "0.5", "--line-patience", "20ms"],
    "shares 1": [],
}


def children_of(process):
    return [int(child) for child in pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def ranks_of(process):
    """The processes of the ranks: those below that have no others."""
    below = children_of(process)
    return [rank for child in below for rank in ranks_of(child)] if below else [process]


def steps_of(folder):
    return [[json.loads(line) for line in (folder / f"records-{rank}.jsonl").read_text().splitlines()] for rank in range(RANKS)]


def run(stretto, options, seconds):
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary, "run")
        steps = int((10 + seconds) / STEP) + 250
        command = [stretto, "train", "digits", "--ranks", str(RANKS), "--algorithm", "easgd-grid", "--batch", "1", "--pace",
                   f"{int(STEP * 1000)}ms", "--steps", str(steps), "--out", str(folder), *options]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env={**os.environ, "OMP_NUM_THREADS": "1"}) as job:
            while len(ranks_of(job.pid)) < RANKS:
                time.sleep(0.05)
            time.sleep(10)
            stopped = random.choice(ranks_of(job.pid))
            os.kill(stopped, signal.SIGSTOP)
            time.sleep(seconds)
            os.kill(stopped, signal.SIGCONT)
            said = job.communicate(timeout=600)[0]
        if job.returncode != 0:
            raise SystemExit(said)
        return steps_of(folder)


def look(ranks):
    """(share of the others' pace before, messages a step meanwhile of others of its lines and of the rest)."""
    gaps = [max(zip((b["begin"] - a["begin"] for a, b in zip(steps, steps[1:])), (a["begin"] for a in steps))) for steps in ranks]
    stopped = max(range(RANKS), key=lambda rank: gaps[rank][0])
    length, begin = gaps[stopped]
    shares, messages = [], []
    for rank, steps in enumerate(ranks):
        if rank == stopped:
            continue
        before = sum(begin - 8 <= step["begin"] < begin for step in steps) / 8
        shares.append(sum(begin <= step["begin"] < begin + length for step in steps) / length / before)
        last = [step["messages"] for step in steps if begin + 2 <= step["begin"] < begin + length]
        messages.append(statistics.mean(last))
    return shares, sorted(messages)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("stretto")
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--times", type=int, default=3)
    arguments = parser.parse_args()
    for name, options in WAYS.items():
        shares, messages = [], []
        for _ in range(arguments.times):
            of_run, sent = look(run(arguments.stretto, options, arguments.seconds))
            shares += of_run
            messages.append(sent)
        print(f"{name}: the others made {statistics.median(shares):.3f} of their steps a second, the slowest {min(shares):.3f}, of "
              f"{len(shares)}; messages a step of each, fewest first: "
              f"{' '.join(f'{statistics.mean(column):.1f}' for column in zip(*messages))}", flush=True)


if __name__ == "__main__":
    main()
