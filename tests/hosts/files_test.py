"""Files of jobs on several hosts, with one file system and with one each.

files_test.py PROGRAM LAUNCHED_RANK PYTHON PACKAGE
"""

from __future__ import annotations

import json
import pathlib
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from hosts import Hosts, Process, ends  # noqa: E402
from hosts_test import PACKAGE, PROGRAM, PYTHON, start_rank  # noqa: E402 (takes the words before)

OUT = "/tmp/run"
PLACES = (1, 2, 1, 2)
STEPS = 500  # the files of a host are more than one piece of a message
TRAIN = (PROGRAM, "train", "hyperplane", "--algorithm", "sync", "--data", "partitioned")
# Of a record, the same wherever ranks are: no times, and no messages, since a host has a board.
FIELDS = ("step", "rank", "round", "base", "batch", "epoch", "samples", "units", "loss", "rounds_applied")

# Trains, and sleeps in each step on h2.
SLOW_ON_H2 = """
import socket, time, torch, stretto
model = torch.nn.Linear(10, 2)
optimizer = stretto.Optimizer(torch.optim.SGD(model.parameters(), lr=0.1), model, "sync")
for _ in range(20):
    time.sleep(0.05 if socket.gethostname() == "h2" else 0)
    optimizer.zero_grad()
    model(torch.randn(8, 10)).sum().backward()
    optimizer.step()
optimizer.finish()
print(optimizer.report())
"""


def start(hosts: Hosts, places: tuple[int, ...], *options: str, steps: int = STEPS) -> list[Process]:
    command = (*TRAIN, "--steps", str(steps), *options)
    return [start_rank(hosts, host, rank, len(places), *command) for rank, host in enumerate(places)]


def names_in(hosts: Hosts, host: int, folder: str = OUT) -> list[str]:
    return hosts.call("exec", str(host), "ls", "-A", folder).stdout.split()


def content(hosts: Hosts, host: int, name: str, folder: str = OUT) -> str:
    return hosts.call("exec", str(host), "cat", f"{folder}/{name}").stdout


class FilesOfHosts(unittest.TestCase):
    maxDiff = 2000

    def assert_ended(self, ranks: list[Process]) -> list[tuple[int, str, str]]:
        ended = list(ends(ranks))
        self.assertEqual([status for status, _, _ in ended], [0] * len(ranks), ended)
        return ended

    def records(self, hosts: Hosts, host: int, ranks: tuple[int, ...] | range, folder: str = OUT) -> list[list[object]]:
        """Of these ranks one after the other: what does not depend on where they are."""
        found = []
        for rank in ranks:
            lines = content(hosts, host, f"records-{rank}.jsonl", folder).splitlines()
            self.assertGreater(len(lines), 0, f"rank {rank} on h{host}")
            found += [[json.loads(line)[field] for field in FIELDS] for line in lines]
        return found

    def traced(self, hosts: Hosts, host: int, folder: str = OUT) -> list[tuple[str, int]]:
        """Names and tracks of the events of trace.json that do not depend on time."""
        events = json.loads(content(hosts, host, "trace.json", folder))["traceEvents"]
        return sorted((event["name"], event["tid"]) for event in events if event["name"] in ("compute", "fresh"))

    def test_there_is_one_run_folder_whichever_hosts_see_it(self) -> None:
        seen: dict[str, tuple[list[str], list[list[object]], list[tuple[str, int]]]] = {}
        with tempfile.TemporaryDirectory(prefix="stretto-files-", dir="/tmp") as shared:
            for name, places, folder in (
                ("one host", (1, 1, 1, 1), OUT),
                # In blocks: two boards of two sum as one board does, to the bit.
                ("a file system each", (1, 1, 2, 2), OUT),
                ("one file system", (1, 1, 2, 2), f"{shared}/run"),
            ):
                with Hosts(max(places), keep=shared) as hosts:
                    self.assert_ended(start(hosts, places, "--out", folder))
                    seen[name] = (
                        names_in(hosts, 1, folder),
                        self.records(hosts, 1, range(4), folder),
                        self.traced(hosts, 1, folder),
                    )
                    if folder == OUT and max(places) == 2:
                        self.assertFalse(hosts.has(2, OUT), names_in(hosts, 2))
                    report = hosts.call("exec", "1", PROGRAM, "report", folder, "--algorithms", "none")
                    self.assertEqual((report.returncode, report.stderr), (0, ""), name)
        self.assertEqual(len(seen["one host"][1]), 4 * STEPS)
        for name in ("a file system each", "one file system"):
            for found, expected in zip(seen[name], seen["one host"]):
                self.assertEqual(found, expected, name)

    def test_local_records_stay_on_their_hosts_and_are_named(self) -> None:
        with Hosts(2) as hosts:
            ended = self.assert_ended(start(hosts, PLACES, "--out", OUT, "--records", "local"))
            self.assertIn("files of ranks 1 and 3 are on h2 in '/tmp/run'\n", ended[0][2])
            self.assertEqual(
                json.loads(content(hosts, 1, "summary.json"))["files_elsewhere"],
                [{"host": "h2", "folder": OUT, "ranks": [1, 3]}],
            )
            self.assertEqual(len(self.records(hosts, 1, (0, 2)) + self.records(hosts, 2, (1, 3))), 4 * STEPS)
            for host, tracks in ((1, {0, 1, 4, 5}), (2, {2, 3, 6, 7})):
                self.assertEqual({track for _, track in self.traced(hosts, host)}, tracks)
            self.assertEqual(names_in(hosts, 2), ["config.json", "records-1.jsonl", "records-3.jsonl", "trace.json"])
            report = hosts.call("exec", "1", PROGRAM, "report", OUT, "--algorithms", "none")
            self.assertEqual(report.returncode, 0, report.stderr)
            for rank in (1, 3):
                self.assertIn(f"no records of rank {rank}: they are on h2 in '/tmp/run'", report.stderr)

    def assert_has_each_step_once(self, hosts: Hosts, steps: int) -> None:
        """On h1, and there alone."""
        found = [record[:2] for record in self.records(hosts, 1, range(4))]
        self.assertEqual(found, [[step, rank] for rank in range(4) for step in range(steps)])
        self.assertFalse(hosts.has(2, OUT))

    def test_a_run_that_goes_on_has_each_step_once(self) -> None:
        keep = ("--out", OUT, "--checkpoint-every", "100")
        with Hosts(2) as hosts:
            ranks = start(hosts, PLACES, *keep, "--pace", "500us")  # so that it has not ended when it is killed
            while not hosts.has(1, f"{OUT}/checkpoint.json"):
                self.assertEqual([rank.poll() for rank in ranks], [None] * 4)
                time.sleep(0.05)
            hosts.kill(2)
            self.assertEqual([status for status, _, _ in list(ends(ranks))[::2]], [3, 3])
            self.assertIn("records-3.jsonl", names_in(hosts, 2))
            self.assert_ended(start(hosts, PLACES, *keep, "--resume", OUT))
            self.assert_has_each_step_once(hosts, STEPS)
            # The same again, of a run whose files have all come to rank 0.
            self.assert_ended(start(hosts, PLACES, *keep, "--resume", OUT, steps=STEPS + 100))
            self.assert_has_each_step_once(hosts, STEPS + 100)

    @unittest.skipUnless(pathlib.Path(PYTHON).exists() and pathlib.Path(PACKAGE).exists(), "no Python package is there")
    def test_the_records_of_a_loop_come_to_rank_0_and_its_report_names_the_slow_host(self) -> None:
        with Hosts(2) as hosts:
            command = ("env", f"STRETTO_OUT={OUT}", PYTHON, "-c", SLOW_ON_H2)
            ranks = [start_rank(hosts, host, rank, 4, *command) for rank, host in enumerate(PLACES)]
            for _, report, _ in self.assert_ended(ranks):
                self.assertRegex(report, r"\n3 \(h2\) ")
                costs = r"because of rank [13] \(h2\), .* Of the hosts h2 has cost the others most: "
                self.assertRegex(" ".join(report.split()), costs)
            folder = f"{OUT}/optimizer-0"
            names = [f"records-{rank}.jsonl" for rank in range(4)]
            self.assertEqual(names_in(hosts, 1, folder), [*names, "report.json"])
            records = self.records(hosts, 1, range(4), folder)
            expected = [[step, rank] for rank in range(4) for step in range(20)]
            self.assertEqual([record[:2] for record in records], expected)
            self.assertFalse(hosts.has(2, folder))

    def test_a_folder_that_one_cannot_write_is_refused_with_its_host_and_nothing_is_left(self) -> None:
        refused = {
            1: "rank 0, on h1: output folder '/tmp/run' is not writable: .*; ranks 1 and 3 on h2 could, but rank 0 "
            "writes the folder of all\n",
            2: "rank 1, on h2: output folder '/tmp/run' is not writable: ",
        }
        for host, why in refused.items():
            with Hosts(2) as hosts:
                hosts.call("exec", str(host), "touch", OUT)
                ended = list(ends(start(hosts, PLACES, "--out", OUT)))
                self.assertEqual([status for status, _, _ in ended], [2] * 4, ended)
                self.assertRegex("".join(said for _, _, said in ended), why)
                self.assertFalse(hosts.has(3 - host, OUT))


if __name__ == "__main__":
    unittest.main()
