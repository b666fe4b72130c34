"""A job of `stretto run --ranks 2:8` whose members come, leave, are killed, stopped and continued, one change after the other,
as drawn by a seed: no hang, epochs that rise, exit status 0, and at the end all have applied every batch and have the same
weights to the bit. How long a change took, until all members had begun without one that went, or with the one that came, start
of its process included, is printed by kind; not while one is stopped, since all wait for it then.

churn.py STRETTO [--changes N] [--seconds T] [--seed S] [--algorithm A] [--step MS] [--listen PORT] -- PROGRAM...: that gets the algorithm, a
number of batches and how long a step takes, as loop_of_members does; once the file LOOP_SLOW_UNTIL of its environment is there,
behind the last change, it makes the rest at once. There are batches for a hundred seconds more than are asked for, with all members
there, since a slow machine takes longer for a change. At its end a member prints a line as loop_of_members does.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from kills import children_of
from loops import LINE

LEAST, MOST = 2, 8
WATCHDOG = 120  # seconds without another epoch after a change, or behind the last change
ADDRESS = re.compile(r"stretto join (\S+),")


def member_in(process):
    """The number of the member that a process is; nothing where it is none, or has ended."""
    try:
        words = pathlib.Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    for word in words:
        if word.startswith(b"STRETTO_MEMBER="):
            return int(word.split(b"/")[1])
    return None


class Churn:
    def __init__(self, arguments):
        self.stretto, self.random = arguments.stretto, random.Random(arguments.seed)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="churn-"))
        self.batches = int((arguments.seconds + 100) * MOST * 1000 / arguments.step)
        self.slow_until = self.folder / "all changes are made"
        self.launchers, self.stopped = [], {}
        self.made, self.took = collections.Counter(), collections.defaultdict(list)
        program = [*arguments.program, arguments.algorithm, str(self.batches), f"{arguments.step}ms"]
        self.job = self.start("run", "--ranks", f"{LEAST}:{MOST}", "--here", "4", "--listen", arguments.listen, "--", *program)
        self.wait(lambda: ADDRESS.search(self.said(self.job)), "it says where it listens")
        self.address = ADDRESS.search(self.said(self.job))[1]
        self.wait(lambda: len(self.members()) == 4, "all have come")

    def start(self, *words):
        number = len(self.launchers)
        with (self.folder / f"out{number}").open("wb") as out, (self.folder / f"said{number}").open("wb") as said:
            environment = {**os.environ, "LOOP_SLOW_UNTIL": str(self.slow_until)}
            self.launchers.append(subprocess.Popen([self.stretto, *words], stdout=out, stderr=said, env=environment))
        self.launchers[-1].number = number
        return self.launchers[-1]

    def said(self, launcher):
        return (self.folder / f"said{launcher.number}").read_text()

    def wait(self, condition, what):
        end = time.monotonic() + WATCHDOG
        while not condition():
            if self.job.poll() is not None and what != "the end":
                raise SystemExit(f"the job ends with {self.job.returncode} before {what}\n{self.said(self.job)}")
            if time.monotonic() > end:
                raise SystemExit(f"hangs before {what}; {self.look()}\n{self.said(self.job)}")
            time.sleep(0.01)

    def look(self):
        result = subprocess.run([self.stretto, "members", self.address, "--json"], capture_output=True, text=True)
        return json.loads(result.stdout) if result.returncode == 0 else None

    def members(self):
        job = self.look()
        return [member["member"] for member in job["members"]] if job else []

    def processes(self):
        """Those of members, by number."""
        found = {}
        for launcher in self.launchers:
            for process in children_of(launcher.pid):
                number = member_in(process)
                if number is not None:
                    found[number] = process
        return found

    def change(self):
        """Makes one, and waits until the job has taken it in. Returns whether there was one to make."""
        job, processes = self.look(), self.processes()
        if job is None:
            return False
        members = [member["member"] for member in job["members"]]
        moving = [number for number in members if number in processes and number not in self.stopped]
        kinds = ["stop"] if len(moving) > 1 and not self.stopped else []
        kinds += ["join"] * 2 if len(members) < MOST else []
        kinds += ["kill", "leave", "notice"] if len(moving) > LEAST and not self.stopped else []
        kinds += ["continue"] * 3 if self.stopped else []
        kind = self.random.choice(kinds)
        self.made[kind] += 1
        if kind == "continue":
            os.kill(self.stopped.popitem()[1], signal.SIGCONT)
            return True
        number, begin = self.random.choice(moving), time.monotonic()
        if kind == "stop":
            self.stopped[number] = processes[number]
            os.kill(processes[number], signal.SIGSTOP)
            return True
        if kind == "join":
            self.start("join", self.address)
        elif kind == "kill":
            os.kill(processes[number], signal.SIGKILL)
        elif kind == "notice":
            os.kill(processes[number], signal.SIGTERM)
        else:
            subprocess.run([self.stretto, "leave", self.address, str(number)], capture_output=True, timeout=WATCHDOG)
        if not self.stopped:  # the view waits for one that is stopped
            self.wait(lambda: self.job.poll() is not None or self.has_begun_after(job["epoch"]), f"{kind} {number}")
            self.took[kind].append(time.monotonic() - begin)
        return True

    def has_begun_after(self, epoch):
        job = self.look()
        return job is not None and job["epoch"] > epoch and not job["waits"]

    def faults(self):
        """What is wrong at the end."""
        for process in self.stopped.values():
            os.kill(process, signal.SIGCONT)
        self.stopped.clear()
        self.slow_until.touch()
        try:
            statuses = [launcher.wait(timeout=600) for launcher in self.launchers]
        except subprocess.TimeoutExpired:
            return [f"no end; {self.look()}"]
        faults = []
        if statuses[0] != 0 or not set(statuses) <= {0, 128 + signal.SIGKILL}:
            faults.append(f"exit statuses {statuses}")
        lines = "".join((self.folder / f"out{number}").read_text() for number in range(len(self.launchers))).splitlines()
        ends = [LINE.fullmatch(line) for line in lines]
        if None in ends or len(ends) < LEAST:
            faults.append(f"{len(ends)} members at the end: {lines}")
        elif {int(end[3]) for end in ends} != {self.batches} or len({end[4] for end in ends}) != 1:
            faults.append(f"members differ at the end: {lines}")
        if self.job.returncode != 0:
            faults.append(self.said(self.job))
        return faults

    def end(self):
        for launcher in self.launchers:
            launcher.kill()
            launcher.wait()
        shutil.rmtree(self.folder)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("stretto")
    parser.add_argument("--changes", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--algorithm", default="eager-quorum")
    parser.add_argument("--step", type=int, default=10, help="milliseconds")
    parser.add_argument("--listen", default="0", help="as of stretto run; at 127.0.0.1:0 all members are on one host")
    parser.add_argument("program", nargs="+")
    arguments = parser.parse_args()
    churn = Churn(arguments)
    try:
        begin, changes = time.monotonic(), 0
        while changes < arguments.changes:
            time.sleep(max(0, begin + changes * arguments.seconds / arguments.changes - time.monotonic()))
            if not churn.change():
                break
            changes += 1
        faults = churn.faults()
    finally:
        churn.end()
    if changes < arguments.changes:
        faults.append(f"the job has ended after {changes} of {arguments.changes} changes")
    took = time.monotonic() - begin
    made = ", ".join(f"{count} {kind}" for kind, count in sorted(churn.made.items()))
    print(f"{arguments.algorithm}, seed {arguments.seed}: {changes} changes ({made}) in {took:.0f} s, {len(faults)} faults")
    for kind, seconds in sorted(churn.took.items()):
        print(f"  {kind}: median {statistics.median(seconds):.3f} s, at most {max(seconds):.3f} s, of {len(seconds)}")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
