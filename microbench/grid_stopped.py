"""What a rank that is stopped costs the others of an elastic grid: `stretto train digits --ranks 8 --algorithm easgd-grid`, one
process stopped for some seconds and continued, with thresholds by which its lines go on, and with those of the paper, which wait
for it. Printed, by the records of the run: steps a second of the others meanwhile, as a share of those before, each rank on its
own; and messages a step, by which one sees whether its lines go on, and those of the others.

With --kills N: a job of 2 to 8 ranks, of which N are killed in that time, one after the other, and others come in their places.
Printed: steps a second of each that was there for five seconds, beside those of a job in which nobody is killed; and how many lines
each of those that are there at the end was in, by dimension.

grid_stopped.py STRETTO [--seconds T] [--times N] [--kills N]
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


def wait_for(job, ranks):
    while len(ranks_of(job.pid)) < ranks:
        if job.poll() is not None:
            raise SystemExit(job.stdout.read())
        time.sleep(0.05)


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
            wait_for(job, RANKS)
            time.sleep(10)
            stopped = random.choice(ranks_of(job.pid))
            os.kill(stopped, signal.SIGSTOP)
            time.sleep(seconds)
            os.kill(stopped, signal.SIGCONT)
            said = job.communicate(timeout=600)[0]
        if job.returncode != 0:
            raise SystemExit(said)
        return steps_of(folder)


def run_with_kills(stretto, seconds, kills):
    """(steps a second of each rank that was there for five seconds, changes, lines of each at the end by dimension)."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary, "run")
        command = [stretto, "train", "digits", "--ranks", f"2:{RANKS}", "--restarts", str(kills + 1), "--algorithm", "easgd-grid",
                   "--batch", "1", "--pace", f"{int(STEP * 1000)}ms", "--steps", str(int((10 + seconds) / STEP)), "--out", str(folder)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env={**os.environ, "OMP_NUM_THREADS": "1"}) as job:
            wait_for(job, RANKS)
            time.sleep(10)
            for _ in range(kills):
                os.kill(random.choice(ranks_of(job.pid)), signal.SIGKILL)
                time.sleep(seconds / kills)
            said = job.communicate(timeout=600)[0]
        if job.returncode != 0:
            raise SystemExit(said)
        rates = []
        for records in folder.glob("records-*.jsonl"):
            begun = [json.loads(line)["begin"] for line in records.read_text().splitlines() if line.endswith("}")]
            if len(begun) > 5 / STEP:
                rates.append((len(begun) - 1) / (begun[-1] - begun[0]))
        summary = json.loads((folder / "summary.json").read_text())
        lines = [[node.get("entered", 0) for node in dimension] for dimension in summary["lines"]]
        return rates, len(summary["members"]["worlds"]) - 1, lines


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
    parser.add_argument("--kills", type=int, default=0)
    arguments = parser.parse_args()
    for _ in range(arguments.times if arguments.kills else 0):
        quiet, _, _ = run_with_kills(arguments.stretto, arguments.seconds, 0)
        rates, changes, lines = run_with_kills(arguments.stretto, arguments.seconds, arguments.kills)
        shares = [rate / statistics.median(quiet) for rate in rates]
        print(f"{arguments.kills} killed, {changes} changes of worlds: {len(rates)} ranks made {statistics.median(shares):.3f} of their "
              f"steps a second, from {min(shares):.3f} to {max(shares):.3f}; lines {lines}", flush=True)
    for name, options in ({} if arguments.kills else WAYS).items():
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
