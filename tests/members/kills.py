"""Kills ranks of `stretto train --ranks MIN:MAX` at moments drawn by a seed, or tells them to leave, and asks the run folder
what became of each batch. Some of the jobs write checkpoints, and of these some are killed as a whole, and go on with another
number of ranks.

kills.py STRETTO [--moments N] [--seed S] [--algorithms A B]
"""

import argparse
import itertools
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
ALGORITHMS += ["local", "diloco", "diloco:quorum", "local:quorum", "local:solo"]
ALGORITHMS += ["wagma", "wagma-quorum", "d-psgd", "sgp", "osgp", "gossip-grad", "ad-psgd", "easgd", "easgd-async",
              "easgd-grid"]
WATCHDOG = 120  # seconds, where a job takes about three


def children_of(pid):
    """The ranks of a launcher, in the order of their numbers."""
    try:
        return [int(word) for word in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def records_of(folder, number):
    """The batches of a member by its steps, as far as it has written them: a killed rank's last ones may be missing."""
    path = folder / f"records-{number}.jsonl"
    lines = path.read_text().split("\n") if path.exists() else []
    records = [json.loads(line) for line in lines[:-1]]  # behind the last line feed: cut off
    return {record["step"]: record["batch"] for record in records}


def faults_in(folder, batches, before):
    """What is wrong with a run's account of its batches, of which so many are to be applied, as sentences. `before`: of
    each member the steps before the checkpoint from which it goes on."""
    summary = json.loads((folder / "summary.json").read_text())
    applied = summary["members"]["batches"]
    faults = []
    batches_here = batches - sum(before)
    if sum(applied) != batches_here or summary["deposits"]["applied"] != batches_here:
        faults.append(f"{sum(applied)} batches applied by member, {summary['deposits']['applied']} in all, of {batches_here}")
    if summary["deposits"]["lost"] != 0:
        faults.append(f"{summary['deposits']['lost']} deposits lost")
    if not summary["replicas_identical"]:
        faults.append("replicas differ")
    seen, unrecorded = {}, 0
    stayed = summary["members"]["worlds"][-1]["members"]
    for number, (first, then) in enumerate(itertools.zip_longest(before, applied, fillvalue=0)):
        count = first + then
        computed = records_of(folder, number)
        here = sum(step >= first for step in computed)  # in this part of the job
        if number in stayed and here != then:
            faults.append(f"member {number} stayed, computed {here} batches, and {then} of them are applied")
        applied_of_it = [batch for step, batch in computed.items() if step < count]  # the first of them
        unrecorded += count - len(applied_of_it)
        for batch in applied_of_it:
            if batch in seen:
                faults.append(f"batch {batch} is applied of member {seen[batch]} and of member {number}")
            seen[batch] = number
    if len(seen) + unrecorded != batches:
        faults.append(f"{len(seen)} batches applied by the records, {unrecorded} unrecorded, of {batches}")
    return faults


def kill_ranks(job, ranks, moments, draw):
    """Waits for the ranks of a job, and kills some of them, or tells them to leave, at moments in seconds from then on. Returns
    how many."""
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
            os.kill(draw.choice(ranks_there), draw.choice([signal.SIGKILL, signal.SIGTERM]))
            killed += 1
        except ProcessLookupError:
            pass
    return killed


def kill_job(job):
    """The launcher of a job, and waits until its ranks are gone, too."""
    ranks = children_of(job.pid)
    job.kill()
    job.wait()
    while any(pathlib.Path(f"/proc/{rank}").exists() for rank in ranks):
        time.sleep(0.001)


def draw_moments(draw, ranks, longest):
    kills = min(draw.choice([1, 1, 1, 2, ranks - 1]), ranks - 1)
    moments = sorted(draw.uniform(0, longest) for _ in range(kills))
    if kills == 2 and draw.random() < 0.5:
        moments[1] = moments[0]  # two at once
    return moments


def run(program, algorithm, draw, scratch):
    """One job, in which ranks are killed. Returns faults, and what was done in words."""
    ranks, steps = draw.randint(2, 8), 150
    pace = draw.choice(["20us", "100us"])
    longest = 1.8 if pace == "100us" else 0.9
    seed = str(draw.randint(1, 10**6))
    moments = draw_moments(draw, ranks, longest)
    every = draw.choice([0, 40, 97])
    stop = draw.uniform(0, 0.3) if every and draw.random() < 0.6 else None  # seconds after the first checkpoint
    what = f"{algorithm}, {ranks} ranks, pace {pace}, kills at {', '.join(f'{at:.3f}' for at in moments)}"
    folder = pathlib.Path(tempfile.mkdtemp(dir=scratch))

    def begin(ranks, steps, *more):
        command = [program, "train", "vowels", "--ranks", f"1:{ranks}", "--algorithm", algorithm, "--pace", pace]
        command += ["--steps", str(steps), "--imbalance", "lognormal:mean=2ms,cv=0.5", "--seed", seed]
        command += (["--checkpoint-every", str(every)] if every else []) + list(more)
        with (folder / "log").open("a") as log:
            return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    batches, before, dropped, read = ranks * steps, [], 0, 0
    job = begin(ranks, steps, "--out", str(folder / "run"))
    killed = kill_ranks(job, ranks, [at for at in moments if stop is None or at < longest / 2], draw)
    end = time.monotonic() + WATCHDOG
    while stop is not None and job.poll() is None and time.monotonic() < end:
        time.sleep(0.001)
        if (folder / "run" / "checkpoint.json").exists():
            time.sleep(stop)
            break
    if stop is not None and job.poll() is None and time.monotonic() < end:
        kill_job(job)
        checkpoint = json.loads((folder / "run" / "checkpoint.json").read_text())
        before, ranks = checkpoint["position"]["steps"], draw.randint(2, 8)
        dropped, read = checkpoint["batches"] - sum(before), len((folder / "log").read_text())
        what += f"; {killed} killed, then all, after a checkpoint of {checkpoint['batches']} batches; {ranks} go on"
        steps = -(-batches // ranks)
        batches = ranks * steps
        job = begin(ranks, steps, "--resume", str(folder / "run"))
        killed = kill_ranks(job, ranks, draw_moments(draw, ranks, longest), draw)
    try:
        status = job.wait(WATCHDOG)
    except subprocess.TimeoutExpired:
        return [f"still there after {WATCHDOG} s; {folder}"], what
    text = (folder / "log").read_text()[read:]
    what += f"; {killed} killed, {text.count(' has left')} of them by leaving"
    if "was to report for all was lost after the end" in text:
        return [], what + " (one after the end)"
    if status == 0 and "its last member leaves" in text:
        return [], what + " (all have left)"
    if status != 0:
        return [f"status {status}: {text.splitlines()[-1] if text else ''}; {folder}"], what
    dropped += text.count("members were lost that may have been computing it")  # it may be what ends them
    return [f"{fault}; {folder}" for fault in faults_in(folder / "run", batches - dropped, before)], what


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
