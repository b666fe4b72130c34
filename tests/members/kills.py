"""Kills ranks of `stretto train --ranks MIN:MAX` at moments drawn by a seed, and asks the run folder what became of each batch.

kills.py STRETTO [--moments N] [--seed S] [--algorithms A B]
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ALGORITHMS = ["sync", "eager-quorum", "eager-solo", "eager-majority", "eager-deadline:1,1ms"]
ALGORITHMS += ["diloco", "diloco:quorum", "local:quorum", "local:solo"]
WATCHDOG = 120  # seconds, where a job takes about three


def children_of(pid):
    """The ranks of a launcher, in the order of their numbers."""
    try:
        return [int(word) for word in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def records_of(folder, number):
    """The batches of a member, in the order of its steps, as far as it has written them."""
    path = folder / f"records-{number}.jsonl"
    lines = path.read_text().split("\n") if path.exists() else []
    return [json.loads(line)["batch"] for line in lines[:-1]]  # behind the last line feed: cut off


def faults_in(folder, batches):
    """What is wrong with a run's account of its batches, as sentences."""
    summary = json.loads((folder / "summary.json").read_text())
    applied = summary["members"]["batches"]
    faults = []
    if sum(applied) != batches or summary["deposits"]["applied"] != batches:
        faults.append(f"{sum(applied)} batches applied by member, {summary['deposits']['applied']} in all, of {batches}")
    if summary["deposits"]["lost"] != 0:
        faults.append(f"{summary['deposits']['lost']} deposits lost")
    if not summary["replicas_identical"]:
        faults.append("replicas differ")
    seen, unrecorded = {}, 0
    for number, count in enumerate(applied):
        computed = records_of(folder, number)
        if number in summary["members"]["worlds"][-1]["members"] and len(computed) != count:
            faults.append(f"member {number} stayed, computed {len(computed)} batches, and {count} of them are applied")
        unrecorded += max(0, count - len(computed))  # a killed rank's last steps
        for batch in computed[:count]:  # what is applied of a member's batches is the first of them
            if batch in seen:
                faults.append(f"batch {batch} is applied of member {seen[batch]} and of member {number}")
            seen[batch] = number
    if len(seen) + unrecorded != batches:
        faults.append(f"{len(seen)} batches applied by the records, {unrecorded} unrecorded, of {batches}")
    return faults


def run(program, algorithm, draw, scratch):
    """One job, in which ranks are killed. Returns faults, and what was done in words."""
    ranks, steps = draw.randint(2, 8), 150
    pace = draw.choice(["20us", "100us"])
    kills = draw.choice([1, 1, 1, 2, ranks - 1])
    kills = min(kills, ranks - 1)
    moments = sorted(draw.uniform(0, 1.8 if pace == "100us" else 0.9) for _ in range(kills))
    if kills == 2 and draw.random() < 0.5:
        moments[1] = moments[0]  # two at once
    what = f"{algorithm}, {ranks} ranks, pace {pace}, kills at {', '.join(f'{at:.3f}' for at in moments)}"
    folder = pathlib.Path(tempfile.mkdtemp(dir=scratch))
    command = [program, "train", "vowels", "--ranks", f"1:{ranks}", "--algorithm", algorithm, "--pace", pace]
    command += ["--steps", str(steps), "--imbalance", "lognormal:mean=2ms,cv=0.5", "--seed", str(draw.randint(1, 10**6))]
    with (folder / "log").open("w") as log:
        job = subprocess.Popen(command + ["--out", str(folder / "run")], stdout=log, stderr=subprocess.STDOUT)
        while job.poll() is None and len(children_of(job.pid)) < ranks:
            time.sleep(0.001)
        begin = time.monotonic()
        killed = 0
        for moment in moments:
            time.sleep(max(0, begin + moment - time.monotonic()))
            ranks_there = children_of(job.pid)
            if len(ranks_there) < 2 or job.poll() is not None:
                break
            try:
                os.kill(draw.choice(ranks_there), signal.SIGKILL)
                killed += 1
            except ProcessLookupError:
                pass
        try:
            status = job.wait(WATCHDOG)
        except subprocess.TimeoutExpired:
            return [f"still there after {WATCHDOG} s; {folder}"], what
    text = (folder / "log").read_text()
    what += f"; {killed} killed"
    if "was to report for all was lost after the end" in text:
        return [], what + " (one after the end)"
    if status != 0:
        return [f"status {status}: {text.splitlines()[-1] if text else ''}; {folder}"], what
    return [f"{fault}; {folder}" for fault in faults_in(folder / "run", ranks * steps)], what


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--moments", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--algorithms", nargs="+", default=ALGORITHMS)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    algorithms = options.algorithms
    memory_before = set(os.listdir("/dev/shm"))
    faults = 0
    scratch = tempfile.mkdtemp(prefix="stretto-kills-")
    for moment in range(options.moments):
        draw = random.Random(f"{options.seed} {moment}")
        found, what = run(options.program, algorithms[moment % len(algorithms)], draw, scratch)
        if found or options.verbose:
            print(f"{moment}: {what}", *found, sep="\n   ", flush=True)
        faults += bool(found)
    if not faults:
        shutil.rmtree(scratch)
    left = set(os.listdir("/dev/shm")) - memory_before
    if left:
        print(f"left in /dev/shm: {sorted(left)}")
    print(f"{options.moments} jobs, seed {options.seed}: {faults} with faults")
    return 1 if faults or left else 0


if __name__ == "__main__":
    sys.exit(main())
