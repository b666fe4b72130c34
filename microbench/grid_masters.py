"""What the line of an elastic grid does without its line master: `stretto train digits --algorithm easgd-grid --dimensions 1`, four
ranks in one line, so that the rank of place 0 is its master. It is stopped for some seconds, and other runs lose whichever rank is
killed, the master among them, and get others in their places. With thresholds by which the line goes on by itself, and with
those of the paper, with which it waits for all: then it goes on when the master is back, or the next view is there.

Printed: the longest time in which a rank that computed sent nothing, median and largest over the stops and kills.

grid_masters.py STRETTO [--times N]
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

from grid_stopped import ranks_of, wait_for

RANKS, STEP, STOP, KILLED_EVERY = 4, 0.02, 4.0, 4.0  # seconds; steps are paced
WAYS = {
    "shares 0.5, 20 ms": ["--reduce-share", "0.5", "--complete-share", "0.5", "--advance-share", "0.5", "--line-patience", "20ms"],
    "shares 1": [],
}


def run(stretto, ranks, seconds, options, harm):
    """(steps of each rank, summary, moments), by the clock of the run."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary, "run")
        command = [stretto, "train", "digits", "--ranks", ranks, "--algorithm", "easgd-grid", "--dimensions", "1", "--batch", "1",
                   "--pace", f"{int(STEP * 1000)}ms", "--steps", str(int(seconds / STEP)), "--out", str(folder), *options]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env={**os.environ, "OMP_NUM_THREADS": "1"}) as job:
            wait_for(job, RANKS)
            time.sleep(3)
            harm(job)
            said = job.communicate(timeout=600)[0]
        if job.returncode != 0:
            raise SystemExit(said)
        steps = {}
        for records in folder.glob("records-*.jsonl"):
            lines = [json.loads(line) for line in records.read_text().splitlines() if line.endswith("}")]
            steps[int(records.stem.split("-")[1])] = lines
        return steps, json.loads((folder / "summary.json").read_text())


def silence(steps, begin, end):
    """The longest time between two steps with messages of one rank, in seconds, of those that overlap [begin, end]."""
    longest = 0.0
    for own in steps:
        sent = [step["begin"] for step in own if step["messages"] > 0]
        gaps = [b - a for a, b in zip(sent, sent[1:]) if b > begin and a < end]
        longest = max([longest, *gaps])
    return longest


def told(name, what, silences):
    print(f"{name}: {what} {len(silences)} times, the others sent nothing for {statistics.median(silences):.2f} s, "
          f"at most {max(silences):.2f} s", flush=True)


def stops(stretto, name, options, times):
    def harm(job):
        by_place = sorted(ranks_of(job.pid))  # started in this order
        for _ in range(times):
            os.kill(by_place[0], signal.SIGSTOP)
            time.sleep(STOP)
            os.kill(by_place[0], signal.SIGCONT)
            time.sleep(1)

    steps, _ = run(stretto, str(RANKS), 6 + times * (STOP + 1), options, harm)
    master = steps.pop(0)
    gaps = [(a["begin"], b["begin"]) for a, b in zip(master, master[1:]) if b["begin"] - a["begin"] > 0.8 * STOP]
    told(name, f"master stopped for {STOP:.0f} s", [silence(steps.values(), a + 0.1, b - 0.1) for a, b in gaps])


def kills(stretto, name, options, times):
    def harm(job):
        for _ in range(times):
            os.kill(random.choice(ranks_of(job.pid)), signal.SIGKILL)
            time.sleep(KILLED_EVERY)

    # Of four ranks one is the master, so four times as many are killed.
    more = ["--restarts", str(4 * times + 1), "--patience", "60s"]
    steps, summary = run(stretto, f"2:{RANKS}", 10 + KILLED_EVERY * times * 4, [*options, *more], lambda job: [harm(job) for _ in range(4)])
    masters, others = [], []
    worlds = summary["members"]["worlds"]
    for before, after in zip(worlds, worlds[1:]):
        for lost in set(before["members"]) - set(after["members"]):
            if not steps.get(lost):
                continue
            moment = steps[lost][-1]["begin"] + STEP
            survivors = [steps[member] for member in set(before["members"]) & set(after["members"]) if member in steps]
            (masters if lost == before["members"][0] else others).append(silence(survivors, moment, moment + 1))
    told(name, "master killed", masters)
    told(name, "another killed", others)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("stretto")
    parser.add_argument("--times", type=int, default=20)
    arguments = parser.parse_args()
    for name, options in WAYS.items():
        stops(arguments.stretto, name, options, arguments.times)
        kills(arguments.stretto, name, options, arguments.times)


if __name__ == "__main__":
    main()
