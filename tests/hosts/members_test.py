"""Jobs of `stretto run --ranks MIN:MAX --listen` on several hosts (hosts.sh): members that are lost, come and leave. At the
end each batch has been handed over once and is applied, and all members have the same weights to the bit.

    members_test.py PROGRAM LOOP_OF_MEMBERS [--times 1] [Members]
"""

from __future__ import annotations

import argparse
import json
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest
from collections.abc import Callable

from hosts import WATCHDOG, Hosts, Output

sys.path.append(str(pathlib.Path(__file__).parent.parent / "members"))
import loops  # noqa: E402

PROGRAM, LOOP = (sys.argv.pop(1) for _ in range(2))
TIMES = 1  # each fault
ALGORITHMS = ["eager-quorum"]
if "--times" in sys.argv:
    at = sys.argv.index("--times")
    TIMES = int(sys.argv.pop(at + 1))
    sys.argv.pop(at)
    ALGORITHMS += ["sync", "local", "wagma", "easgd"]
ADDRESS = "10.77.0.1:29400"
SECRET = {"STRETTO_TOKEN": "a secret of a test"}
LIVENESS = 2  # seconds
EACH = 2  # members on a host


class Launcher(Output):
    """`stretto run` or `stretto join` on a host."""

    def __init__(self, hosts: Hosts, host: int, *words: str) -> None:
        super().__init__(hosts.start(host, (PROGRAM, words[0], "--tag", *words[1:]), SECRET))  # whole lines, however long

    def line_of(self, written: str) -> str:
        return re.sub(r"^\[rank \d+\] ", "", written)


class Job:
    """The loop of members, with `here` of them on h1; others come by join()."""

    def __init__(self, hosts: Hosts, ranks: str, here: int, algorithm: str, batches: int, *options: str,
                 step: str = "1ms", more: tuple[str, ...] = ()) -> None:
        self.hosts, self.batches = hosts, batches
        program = ("--", LOOP, algorithm, str(batches), "account", step, *more)
        self.launchers: list[Launcher] = []
        self.start(1, "run", "--ranks", ranks, "--here", str(here), "--listen", "29400", *options, *program)
        self.wait(lambda: f"others come by: stretto join {ADDRESS}\n" in self.launchers[0].said, "it listens")

    def start(self, host: int, *words: str) -> Launcher:
        self.launchers.append(Launcher(self.hosts, host, *words))
        return self.launchers[-1]

    def join(self, host: int, here: int, *options: str) -> Launcher:
        return self.start(host, "join", ADDRESS, "--here", str(here), *options)

    def wait(self, condition: Callable[[], bool], what: str) -> float:
        """Returns how long that took."""
        begin = time.monotonic()
        while not condition():
            if self.launchers[0].process.poll() is not None:
                raise AssertionError(f"the job ends before {what}: {self.all_said()}")
            if time.monotonic() > begin + WATCHDOG:
                raise AssertionError(f"hangs before {what}: {self.look()}, {self.all_said()}")
            time.sleep(0.02)
        return time.monotonic() - begin

    def all_said(self) -> str:
        return "".join(launcher.said for launcher in self.launchers)

    def all_printed(self) -> str:
        return "".join(launcher.printed for launcher in self.launchers)

    def call(self, command: str, *words: str) -> subprocess.CompletedProcess[str]:
        """On h1, where the master is."""
        environment = [f"{name}={value}" for name, value in SECRET.items()]
        return self.hosts.call("exec", "1", "env", *environment, PROGRAM, command, ADDRESS, *words)

    def look(self) -> dict[str, object] | None:
        result = self.call("members", "--json")
        return json.loads(result.stdout) if result.returncode == 0 else None

    def members(self) -> dict[int, str]:
        """The host of each member, by its number."""
        job = self.look()
        return {member["member"]: member["host"] for member in job["members"]} if job else {}

    def wait_for(self, members: dict[int, str]) -> float:
        return self.wait(lambda: self.members() == members, f"the members are {members}")

    def kill_member(self, host: int, number: int) -> None:
        of_member = f"grep -lz '^STRETTO_MEMBER=[^/]*/{number}/' /proc/[0-9]*/environ | grep -o '[0-9]*'"
        self.hosts.call("exec", str(host), "sh", "-c", f"kill -KILL $({of_member})")

    def fault(self) -> str:
        """What is wrong at the job's end; nothing where nothing is."""
        status = self.launchers[0].end()
        for launcher in self.launchers[1:]:
            launcher.end()
        result = argparse.Namespace(returncode=status, stdout=self.all_printed(), stderr=self.all_said())
        return loops.fault_of(result, self.batches)


class OnHosts(unittest.TestCase):
    def begin(self, hosts: Hosts, number: int, room: int = 0, batches: int = 12_000, *more: str) -> Job:
        """Members 0 and 1 on h1, 2 and 3 on h2, and so on, and room for those of more hosts."""
        options = ("--liveness", f"{LIVENESS}s")
        job = Job(hosts, f"2:{EACH * (number + room)}", EACH, "eager-quorum", batches, *options, step="10ms", more=more)
        there = {0: "h1", 1: "h1"}
        for host in range(2, number + 1):
            job.join(host, EACH)
            there |= {len(there): f"h{host}", len(there) + 1: f"h{host}"}
            job.wait_for(there)
        return job

    def lose(self, fault: str) -> None:
        """The side with the register goes on; hosts that are cut off say why they wait, and come back by themselves."""
        with Hosts(4) as hosts:
            job = self.begin(hosts, 4)
            lost = {"split": {3, 4}, "master cut": {2, 3, 4}}.get(fault, {3})
            everywhere = [f"h{1 + number // EACH}" for number in range(4 * EACH)]
            stay = {number: host for number, host in enumerate(everywhere) if int(host[1]) not in lost}
            cuts = [(here, there) for here in (1, 2) for there in (3, 4)] if fault == "split" else []
            cuts = [(1, None)] if fault == "master cut" else [(3, None)] if fault == "cut" else cuts
            begin = time.monotonic()
            if fault == "killed":
                hosts.kill(3)
            elif fault in ("cut in", "cut out"):
                hosts.call("cut", "3", fault.split()[1])
            for here, there in cuts:
                hosts.cut(here, there)
            job.wait_for(stay)
            took = time.monotonic() - begin
            if fault == "killed":
                job.launchers[2].end()
                job.join(3, EACH)
            else:
                for host in lost:
                    waits = job.launchers[host - 1]
                    job.wait(lambda waits=waits: "nothing comes from the master of the job" in waits.said, f"h{host} says it")
                for here, there in cuts or [(3, None)]:
                    hosts.mend(here, there)
            mended = time.monotonic()
            job.wait(lambda: sorted(job.members().values()) == everywhere, "all hosts have members")
            back = time.monotonic() - mended
            print(f"{fault}: the others go on after {took:.1f} s, all are there {back:.1f} s after it is over", flush=True)
            self.assertEqual({number: host for number, host in job.members().items() if number in stay}, stay)
            self.assertEqual(job.fault(), "", job.all_said())

    def lose_often(self, *faults: str) -> None:
        for _ in range(TIMES):
            for fault in faults:
                with self.subTest(fault=fault):
                    self.lose(fault)


class Members(OnHosts):
    def test_members_are_lost_come_and_leave(self) -> None:
        for algorithm in ALGORITHMS:
            with self.subTest(algorithm=algorithm), Hosts(2) as hosts:
                job = Job(hosts, "2:4", 2, algorithm, 4000)
                job.join(2, 2)
                job.wait_for({0: "h1", 1: "h1", 2: "h2", 3: "h2"})
                job.kill_member(2, 2)
                job.wait_for({0: "h1", 1: "h1", 3: "h2"})
                job.join(2, 1)
                job.wait_for({0: "h1", 1: "h1", 3: "h2", 4: "h2"})
                job.kill_member(1, 0)
                job.wait_for({1: "h1", 3: "h2", 4: "h2"})
                left = job.call("leave", "3")
                self.assertEqual(left.stdout, "member 3 has left\n", left.stderr)
                job.wait_for({1: "h1", 4: "h2"})
                stranger = hosts.call("exec", "2", "env", "STRETTO_TOKEN=another", PROGRAM, "join", ADDRESS)
                self.assertEqual(stranger.returncode, 2, stranger.stderr)
                self.assertIn(f"no master with this secret listens at {ADDRESS}", stranger.stderr)
                job.wait(lambda: "connections without a hello of this job: 1 closed" in job.all_said(), "it is counted")
                self.assertEqual(job.fault(), "", job.all_said())

    def test_a_link_is_cut_and_mended(self) -> None:
        self.lose_often("cut")

    def test_a_host_is_sent_away_by_its_name(self) -> None:
        with Hosts(2) as hosts:
            job = self.begin(hosts, 2, batches=2000)
            left = job.call("leave", "h2")
            self.assertEqual(sorted(left.stdout.splitlines()), ["member 2 has left", "member 3 has left"], left.stderr)
            self.assertEqual(job.members(), {0: "h1", 1: "h1"})
            left = job.call("leave", "h2")
            said = "host 'h2' is not in the job: expected one of its members, which are 0 on h1, 1 on h1"
            self.assertEqual((left.returncode, left.stderr), (2, f"stretto leave: {said}\n"))
            left = job.call("leave", "h1")
            said = "'h1' means all members of the job: end it where it was started"
            self.assertEqual((left.returncode, left.stderr), (2, f"stretto leave: {said}\n"))
            self.assertEqual(job.fault(), "", job.all_said())

    def test_hosts_that_both_reach_the_master_and_not_each_other(self) -> None:
        """While they are in one world; where one comes that does not reach the other; and where that is the first of all."""
        for fault in ("cut", "cut before it comes", "cut from the first"):
            with self.subTest(fault=fault), Hosts(3) as hosts:
                batches = 3000 if fault == "cut from the first" else 6000
                # A sum passes h1: without full rounds, in which they meet, h2 and h3 miss each other at the end alone.
                job = self.begin(hosts, *((3, 0) if fault == "cut" else (2, 1)), batches, "full")
                if fault == "cut from the first":
                    self.assertEqual(job.call("leave", "h1").returncode, 0, job.all_said())
                begin = time.monotonic()
                hosts.cut(2, 3)
                if fault != "cut":
                    job.join(3, EACH)
                why = "h3 and h2 do not reach each other: the others go on without member"
                job.wait(lambda: why in job.launchers[0].said, "it is said")
                stay = {2: "h2", 3: "h2"} | ({} if fault == "cut from the first" else {0: "h1", 1: "h1"})
                job.wait_for(stay)
                print(f"{fault}: the others go on after {time.monotonic() - begin:.1f} s", flush=True)
                self.assertIn(job.launchers[-1].end(), (1, 128 + signal.SIGKILL), job.all_said())
                hosts.mend(2, 3)
                job.join(3, EACH)
                job.wait(lambda: sorted(job.members().values()) == sorted([*stay.values(), "h3", "h3"]), "it is back")
                self.assertEqual(job.fault(), "", job.all_said())

    def test_a_short_cut_between_two_hosts_costs_nothing(self) -> None:
        with Hosts(3) as hosts:
            job = self.begin(hosts, 3, 0, 5000, "full")
            there, epoch = job.members(), job.look()["epoch"]
            hosts.cut(2, 3)
            time.sleep(0.75 * LIVENESS)
            hosts.mend(2, 3)
            time.sleep(2 * LIVENESS)
            self.assertEqual((job.members(), job.look()["epoch"]), (there, epoch), job.all_said())
            self.assertEqual(job.fault(), "", job.all_said())

    def test_connections_to_the_master_are_reset(self) -> None:
        """As by what translates addresses, and has forgotten them."""
        with Hosts(2) as hosts:
            job = self.begin(hosts, 2, batches=3000)
            there, epoch = job.members(), job.look()["epoch"]
            for _ in range(5):
                cut = hosts.call("exec", "2", "ss", "-K", "dst", "10.77.0.1", "dport", "=", "29400")
                self.assertGreaterEqual(len(cut.stdout.splitlines()), 1 + 1 + EACH, cut.stdout + cut.stderr)
                time.sleep(0.5)
            self.assertEqual((job.members(), job.look()["epoch"]), (there, epoch), job.all_said())
            self.assertEqual(job.fault(), "", job.all_said())


class CutOff(OnHosts):
    def test_a_host_is_killed(self) -> None:
        self.lose_often("killed")

    def test_a_link_is_cut_one_way(self) -> None:
        self.lose_often("cut in", "cut out")

    def test_the_host_of_the_master_is_cut_off(self) -> None:
        self.lose_often("master cut")

    def test_the_hosts_are_split(self) -> None:
        self.lose_often("split")

    def test_a_host_that_was_cut_off_has_no_others_where_it_is_not_to_return(self) -> None:
        with Hosts(2) as hosts:
            job = Job(hosts, "2:4", EACH, "eager-quorum", 6000, "--liveness", f"{LIVENESS}s", step="10ms")
            join = job.join(2, EACH, "--no-return")
            job.wait_for({0: "h1", 1: "h1", 2: "h2", 3: "h2"})
            hosts.cut(2, None)
            job.wait_for({0: "h1", 1: "h1"})
            job.wait(lambda: "nothing comes from the master of the job" in join.said, "h2 says it")
            hosts.mend(2, None)
            self.assertEqual(join.end(), 128 + signal.SIGKILL, join.said)
            self.assertEqual(join.said.count("no process takes its place"), EACH, join.said)
            self.assertEqual(job.members(), {0: "h1", 1: "h1"})
            self.assertEqual(job.fault(), "", job.all_said())

    def test_a_host_that_stands_still_is_not_lost(self) -> None:
        with Hosts(2) as hosts:
            job = self.begin(hosts, 2)
            there, epoch = job.members(), job.look()["epoch"]
            for name in ("STOP", "CONT"):
                for program in ("stretto join", "loop_of_members"):
                    hosts.call("exec", "2", "pkill", f"-{name}", "-f", program)
                job.launchers[1].process.send_signal(signal.SIGCONT)  # nsenter stops with what it has started
                time.sleep(3 * LIVENESS)
                self.assertEqual((job.members(), job.look()["epoch"]), (there, epoch), job.all_said())
            self.assertEqual(job.fault(), "", job.all_said())


if __name__ == "__main__":
    unittest.main()
