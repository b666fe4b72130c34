"""Jobs of `stretto run --ranks MIN:MAX --listen` on several hosts (hosts.sh): members that are lost, come and leave. At the
end each batch has been handed over once and is applied, and all members have the same weights to the bit.

    members_test.py PROGRAM LOOP_OF_MEMBERS
"""

from __future__ import annotations

import argparse
import json
import pathlib
import re
import subprocess
import sys
import threading
import time
import unittest
from collections.abc import Callable

from hosts import Hosts

sys.path.append(str(pathlib.Path(__file__).parent.parent / "members"))
import loops  # noqa: E402

PROGRAM, LOOP = (sys.argv.pop(1) for _ in range(2))
ADDRESS = "10.77.0.1:29400"
SECRET = {"STRETTO_TOKEN": "a secret of a test"}
WATCHDOG = 60  # seconds, for what takes a second or two


class Launcher:
    """`stretto run` or `stretto join` on a host, and what it has written so far."""

    def __init__(self, hosts: Hosts, host: int, *words: str) -> None:
        self.process = hosts.start(host, (PROGRAM, *words), SECRET)
        self.printed, self.said = "", ""
        self._readers = [threading.Thread(target=self._read, args=(name,)) for name in ("stdout", "stderr")]
        for reader in self._readers:
            reader.start()

    def _read(self, name: str) -> None:
        for line in getattr(self.process, name):
            if name == "stdout":
                self.printed += line
            else:
                self.said += line

    def end(self) -> int:
        status = self.process.wait(timeout=WATCHDOG)
        for reader in self._readers:
            reader.join()
        for pipe in (self.process.stdout, self.process.stderr):
            pipe.close()
        return status


class Job:
    """The loop of members, with `here` of them on h1; others come by join()."""

    def __init__(self, hosts: Hosts, ranks: str, here: int, algorithm: str, batches: int, *options: str) -> None:
        self.hosts, self.batches = hosts, batches
        program = ("--", LOOP, algorithm, str(batches), "account")
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
        printed = "".join(launcher.printed for launcher in self.launchers)
        return loops.fault_of(argparse.Namespace(returncode=status, stdout=printed, stderr=self.all_said()), self.batches)


class OnSeveralHosts(unittest.TestCase):
    def test_members_are_lost_come_and_leave(self) -> None:
        for algorithm in ("eager-quorum", "wagma"):
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
                self.assertEqual(job.fault(), "", job.all_said())


if __name__ == "__main__":
    unittest.main()
