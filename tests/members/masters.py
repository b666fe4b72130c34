"""Jobs of `stretto run --ranks MIN:MAX --register etcd://…` and launchers that come by `stretto join etcd://…`, of which the one that
has the job's master is killed, stopped, told to leave, or cut off from etcd, or etcd itself is away: of each job all that are there at the
end must have applied each batch, with the same weights to the bit, no batch may be computed twice by members that stay, and
each epoch must have had one view. While etcd is away members make steps, and one that is told to leave leaves when it is back.

masters.py STRETTO LOOP_OF_MEMBERS [--jobs N] [--seed S] [--faults KIND…] [--away SECONDS]
"""

import argparse
import collections
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import loops

sys.path.append(str(pathlib.Path(__file__).parent.parent / "command"))
from etcd import Etcd, Forwarder  # noqa: E402
from program import members_of, stretto, wait_until  # noqa: E402

BATCHES, STEP = 2000, 40  # milliseconds
MORE_BATCHES, LONGER_STEP = 30000, 150  # those that are noted ahead have to last while etcd is away
WATCHDOG = 100  # seconds
RECORDS = {1: 2.5, 3: 3.5}  # by nodes of etcd, seconds until another launcher has the master, at a lease of two; noted, and no fault
AWAY = "etcd stopped", "etcd killed", "etcd without majority"
CASES = [(kind, nodes) for kind in ("killed", "stopped", "cut off") for nodes in (1, 3)]
CASES += [("told to leave", 1), ("etcd stopped", 1), ("etcd killed", 1), ("etcd without majority", 3)]


class SharedJob:
    """One whose first launcher reaches etcd over a way of its own, which may be cut."""

    def __init__(self, folder, etcd, way, arguments, here, batches=BATCHES, step=STEP):
        self.batches = batches
        self.folder, self.etcd, self.launchers = pathlib.Path(folder), etcd, []
        self.register = etcd.register("job")
        self.environment = {"PATH": "/usr/bin:/bin", "LOOP_SLOW_UNTIL": f"{folder}/fast", "LOOP_STEPS": f"{folder}/steps",
                            "STRETTO_TOKEN": "a secret"}
        self.program = [arguments.loop, "eager-quorum", str(batches), "account", f"{step}ms"]
        self.start(arguments.stretto, "run", "--ranks", "1:4", "--here", str(here), "--listen", "127.0.0.1:0", "--liveness", "5s",
                   "--register", etcd.register("job", [way.address]), "--", *self.program)
        wait_until(self.master)
        for _ in range(2):
            self.start(arguments.stretto, "join", self.register)
        wait_until(lambda: len(self.members()) == here + 2)

    def start(self, *command):
        number = len(self.launchers)
        with (self.folder / f"said{number}").open("w") as said, (self.folder / f"printed{number}").open("w") as printed:
            self.launchers.append(subprocess.Popen(command, stdout=printed, stderr=said, env=self.environment))

    def said(self, number):
        return (self.folder / f"said{number}").read_text()

    def all_said(self):
        return "".join(f"launcher {number}: {line}\n" for number in range(len(self.launchers)) for line in self.said(number).splitlines())

    def steps(self):
        """How many each member has made, by its number."""
        return collections.Counter(map(int, (self.folder / "steps").read_text()))

    def master(self):
        return self.etcd.read("stretto/job/master")[0]

    def members(self):
        result = stretto("members", self.register, "--json", env=self.environment)
        return {member["member"] for member in json.loads(result.stdout)["members"]} if result.returncode == 0 else set()

    def printed(self, without=()):
        return "".join((self.folder / f"printed{number}").read_text() for number in range(len(self.launchers)) if number not in without)

    def end(self, without=()):
        """What is wrong with it, once it has ended; nothing where nothing is."""
        (self.folder / "fast").touch()
        status = 0
        for number, launcher in enumerate(self.launchers):
            if number not in without:
                status = status or launcher.wait(WATCHDOG)
        printed = self.printed(without)
        fault = loops.fault_of(subprocess.CompletedProcess([], status, printed, self.all_said()), self.batches)
        view, written = self.etcd.read("stretto/job/view")
        epoch = json.loads(view.split("\t")[0])["epoch"]
        if not fault and written != epoch + 1:  # the last write is the end
            fault = f"{written} writes for {epoch} views and an end"
        return fault + (f"\n{printed}" if fault else "")

    def __enter__(self):
        return self

    def __exit__(self, why, *_):
        if why is not None:
            print(self.all_said())
        for launcher in self.launchers:
            launcher.send_signal(signal.SIGCONT)
            launcher.kill()
            launcher.wait()


def fault_of_away(kind, nodes, arguments):
    with Etcd(nodes) as etcd, Forwarder(etcd.servers[0]) as way, tempfile.TemporaryDirectory() as folder, \
            SharedJob(folder, etcd, way, arguments, 1, MORE_BATCHES, LONGER_STEP) as job:
        members = job.members()
        (job.folder / "fast").touch()
        wait_until(lambda: min(job.steps()[member] for member in members) > 1500)  # as many are noted ahead as ever are
        (job.folder / "fast").unlink()
        [[leaver, process]] = members_of(job.launchers[1]).items()
        staying = members - {leaver}
        if kind == "etcd killed":
            etcd.kill()
        else:
            for server in etcd.processes[:2]:
                server.send_signal(signal.SIGSTOP)
        begin, before = time.monotonic(), job.steps()
        os.kill(process, signal.SIGTERM)
        wait_until(lambda: "the job goes on, and changes of its members wait" in job.all_said())
        time.sleep(max(0, arguments.away - (time.monotonic() - begin)))
        steps, at_least = job.steps() - before, arguments.away * 1000 / LONGER_STEP / 3
        fault = "".join(f"member {member} has made {steps[member]} steps while etcd was away; " for member in staying
                        if steps[member] < at_least)
        if " has left\n" in job.all_said():
            fault += "members have changed while etcd was away; "
        if kind == "etcd killed":
            etcd.start()
        else:
            etcd.signal(signal.SIGCONT)
        wait_until(lambda: job.members() == staying)
        print(f"  steps of members while etcd was away: {sorted(steps[member] for member in staying)}")
        return fault + job.end(), job.all_said()


def fault_of(kind, nodes, arguments, took):
    if kind in AWAY:
        return fault_of_away(kind, nodes, arguments)
    with Etcd(nodes) as etcd, Forwarder(etcd.servers[0]) as way, tempfile.TemporaryDirectory() as folder, \
            SharedJob(folder, etcd, way, arguments, here=random.choice((0, 1))) as job:
        first, members = job.master(), job.members()
        time.sleep(random.random())  # at any moment
        begin = time.monotonic()
        if kind == "killed":
            job.launchers[0].kill()
        elif kind == "stopped":
            job.launchers[0].send_signal(signal.SIGSTOP)
        elif kind == "told to leave":
            job.launchers[0].terminate()
        else:
            way.cut()
        wait_until(lambda: job.master() not in ("", first))
        took[nodes].append(time.monotonic() - begin)
        wait_until(lambda: len(job.members()) == (len(members) if kind == "stopped" else 2))
        if kind in ("stopped", "cut off"):
            job.launchers[0].send_signal(signal.SIGCONT)
            way.cut(False)
            wait_until(lambda: "the master of the job is here no more\n" in job.said(0))
        return job.end(without={0} if kind == "killed" else set()), job.all_said()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("stretto")
    parser.add_argument("loop")
    parser.add_argument("--jobs", type=int, help="as many as there are faults, each with the numbers of nodes that are looked at")
    parser.add_argument("--seed", type=int, default=1)
    kinds = list(dict(CASES))
    parser.add_argument("--faults", nargs="+", default=kinds, choices=kinds)
    parser.add_argument("--away", type=float, default=5, help="seconds for which etcd stands still")
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    faults, took = 0, {nodes: [] for nodes in RECORDS}
    cases = [case for case in CASES if case[0] in arguments.faults]
    jobs = arguments.jobs or len(cases)
    for job in range(jobs):
        kind, nodes = cases[job % len(cases)]
        said = ""
        try:
            fault, said = fault_of(kind, nodes, arguments, took)
        except unittest.SkipTest as skips:
            print(f"skipped: {skips}")
            return 0
        except (AssertionError, subprocess.TimeoutExpired) as error:
            fault = f"no end: {error!r}"
        if fault:
            faults += 1
        print(f"job {job}: {kind}, etcd of {nodes}: {fault or 'good'}" + (f"\n{said}" if fault else ""), flush=True)
    print(f"{jobs} jobs, {faults} faults")
    for nodes, record in RECORDS.items():
        late = sum(seconds > record for seconds in took[nodes])
        print(f"etcd of {nodes}: another master after {', '.join(f'{seconds:.1f}' for seconds in took[nodes])} s, "
              f"{late} times after more than {record}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
