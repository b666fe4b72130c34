"""Messages between hosts by UCX (over TCP: there is no RDMA here), and hosts that do not have the same UCX.

engines_test.py PROGRAM LAUNCHED_RANK PYTHON PACKAGE [ByUcxOnHosts]
"""

from __future__ import annotations

import ctypes.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

from hosts import Hosts, Process, ends
from hosts_test import LAUNCHED_RANK, LONG, PLACES, PROGRAM, start_rank

NO_RDMA = "rank 0 on h1: no port for RDMA is active"
TRAIN = (PROGRAM, "train", "hyperplane", "--steps", "40")
STRANGERS = 200

# Comes to a port NUMBER times with random bytes, then as often with nothing, and goes.
STRANGER = """
import random, socket, sys

for number in range(2 * int(sys.argv[3])):
    stranger = socket.create_connection((sys.argv[1], int(sys.argv[2])))
    try:
        stranger.sendall(random.randbytes(random.randrange(300) if number % 2 else 0))
    except OSError:  # closed before
        pass
    stranger.close()
"""

# A libucp of which nothing but its version is asked.
OTHER_UCX = """
extern "C" {
void ucp_get_version(unsigned* major, unsigned* minor, unsigned* release) { *major = 1, *minor = MINOR, *release = 7; }
int ucp_lib_query(unsigned long* attributes) { attributes[1] = THREADS; return 0; }
#define NOTHING(name) void name() {}
NOTHING(ucp_config_read) NOTHING(ucp_config_modify) NOTHING(ucp_config_release) NOTHING(ucp_init_version)
NOTHING(ucp_cleanup) NOTHING(ucp_worker_create) NOTHING(ucp_worker_destroy) NOTHING(ucp_worker_get_address)
NOTHING(ucp_worker_release_address) NOTHING(ucp_worker_get_efd) NOTHING(ucp_worker_arm) NOTHING(ucp_worker_progress)
NOTHING(ucp_worker_set_am_recv_handler) NOTHING(ucp_ep_create) NOTHING(ucp_am_send_nbx) NOTHING(ucp_request_free)
NOTHING(ucs_status_string)
}
"""


def build_other_ucx(folder: str, minor: int, threads: int = 2) -> str:
    library = f"{folder}/libucp-{minor}-{threads}.so"
    defined = [f"-DMINOR={minor}", f"-DTHREADS={threads}"]
    command = ["g++", "-x", "c++", "-shared", "-fPIC", *defined, "-o", library, "-"]
    subprocess.run(command, input=OTHER_UCX, text=True, check=True)
    return library


def start(hosts: Hosts, places: tuple[int, ...], *command: str, **of_host_2: str) -> list[Process]:
    """A rank a place, of which those on host 2 have more in their environment."""
    ranks = []
    for rank, host in enumerate(places):
        more = [f"{name}={value}" for name, value in of_host_2.items()] if host == 2 else []
        ranks.append(start_rank(hosts, host, rank, len(places), "env", *more, *command))
    return ranks


@unittest.skipUnless(ctypes.util.find_library("ucp"), "no UCX is there (libucx0)")
class TrainingByUcx(unittest.TestCase):
    def expect_all_applied(self, ranks: list[Process], timeout: float = 100) -> str:
        """Returns what rank 0 has said."""
        ended = list(ends(ranks, timeout))
        self.assertEqual([status for status, _, _ in ended], [0] * len(ranks), ended)
        made, applied = map(int, re.search(r"deposits: (\d+) made, (\d+) applied, 0 pending", ended[0][1]).groups())
        self.assertEqual(made, applied, ended)
        self.assertNotEqual(made, 0, ended)
        return ended[0][2]


class ByUcxOnHosts(TrainingByUcx):
    def test_what_a_transport_and_a_job_promise(self) -> None:
        for name, places in PLACES.items() if LONG else [("two of two, in turn", (1, 2, 1, 2))]:
            with Hosts(max(places)) as hosts:
                for test in ("order", "sizes", "storm", "count", *(["leave_early"] if places[0] != places[1] else [])):
                    ranks = start(hosts, places, "env", "STRETTO_BETWEEN=ucx", LAUNCHED_RANK, test)
                    for i, (status, _, said) in enumerate(ends(ranks)):
                        self.assertEqual((status, said), (0, ""), f"{test}, {name}, rank {i}")

    def test_jobs_train_by_it_and_say_so(self) -> None:
        with Hosts(2) as hosts:
            said = self.expect_all_applied(start(hosts, (1, 2), *TRAIN, "--between", "ucx"))
            self.assertRegex(said, r"messages between hosts go by ucx 1\.\d+\.\d+, as is wanted")
            said = self.expect_all_applied(start(hosts, (1, 2), *TRAIN, "--between", "auto"))
            self.assertIn(f"messages between hosts go by tcp, since {NO_RDMA}", said)
            self.assertNotIn("messages between hosts", self.expect_all_applied(start(hosts, (1, 2), *TRAIN)))

    def test_hosts_without_the_same_ucx_are_refused_by_name(self) -> None:
        ours = r"rank 0 on h1 has UCX 1\.\d+\.\d+"
        needs = r"; expected UCX 1\.13 or later with threads \(Debian: libucx0, or STRETTO_UCX=/path/of/libucp\.so\.0\)"
        with tempfile.TemporaryDirectory(dir="/tmp") as folder, Hosts(2, keep=folder) as hosts:
            newer, older, single = (build_other_ucx(folder, *which) for which in ((99,), (12,), (99, 0)))
            for library, why in (
                (newer, rf"rank 1 on h2 has UCX 1\.99\.7, {ours}"),
                (older, rf"rank 1 on h2: {older} is UCX 1\.12\.7{needs}"),
                (single, rf"rank 1 on h2: {single} is UCX 1\.99\.7 without threads{needs}"),
                ("/none", rf"rank 1 on h2: no UCX: /none: cannot open shared object file: [^;]*{needs}"),
            ):
                ranks = start(hosts, (1, 2), *TRAIN, "--between", "ucx", STRETTO_UCX=library)
                for status, _, said in ends(ranks):
                    self.assertNotEqual(status, 0, said)
                    advice = "; the same UCX on all hosts would do, or --between tcp"
                    self.assertRegex(said, f"no messages go by UCX: {why}{advice}")

    def test_strangers_at_its_port_cost_the_job_nothing(self) -> None:
        with Hosts(2) as hosts:
            wanted = ("env", "STRETTO_BETWEEN=ucx", "STRETTO_PORTS=20000-20020")
            ranks = start(hosts, (1, 2), *wanted, LAUNCHED_RANK, "count_on")
            while not hosts.has(1, "/tmp/begun"):
                self.assertEqual([rank.poll() for rank in ranks], [None] * 2)
                time.sleep(0.1)
            doors = re.findall(r"10\.77\.0\.1:(\d+)", hosts.call("exec", "1", "ss", "-Hltn").stdout)
            at_ucx = [port for port in doors if port != "4711"]
            self.assertEqual(len(at_ucx), 1, doors)
            self.assertIn(int(at_ucx[0]), range(20000, 20021))
            stranger = (sys.executable, "-c", STRANGER, "10.77.0.1", at_ucx[0], str(STRANGERS))
            self.assertEqual([(status, said) for status, _, said in ends([hosts.start(2, stranger, {})])], [(0, "")])
            hosts.call("exec", "1", "touch", "/tmp/end")
            self.assertEqual([(status, said) for status, _, said in ends(ranks)], [(0, "")] * 2)

    def test_neither_direction_waits_for_the_other_where_one_side_is_late(self) -> None:
        with Hosts(2):  # where none can be made, this says so
            pass
        command = (PROGRAM, "bench", "skew", "--over", "hosts:2x1", "--rate", "1gbit", "--sizes", "32MB")
        command += ("--rounds", "4", "--activations", "full", "--repeats", "1", "--json", "--skew")
        for engine in ("tcp", "ucx"):
            took = []
            for skew in ("0ms", "5ms"):
                ran = subprocess.run(
                    [*command, skew],
                    env={**os.environ, "STRETTO_BETWEEN": engine},
                    capture_output=True,
                    text=True,
                    check=False,
                )
                self.assertEqual(ran.returncode, 0, ran.stderr)
                took.append(json.loads(ran.stdout)["rows"][0]["mean_ms"]["median"])
            # One behind the other they take twice as long.
            self.assertLess(took[1], 1.5 * took[0], engine)


class CutOffByUcxOnHosts(TrainingByUcx):
    def test_a_link_that_is_cut_for_25_seconds_has_lost_nothing(self) -> None:
        with Hosts(2) as hosts:
            command = (PROGRAM, "train", "hyperplane", "--steps", "120", "--pace", "1ms", "--out", "/tmp/run")
            ranks = start(hosts, (1, 2), *command, "--between", "ucx", "--liveness", "60s")
            while not hosts.has(1, "/tmp/run"):
                self.assertEqual([rank.poll() for rank in ranks], [None] * 2)
                time.sleep(0.05)
            time.sleep(1)
            hosts.cut(2)
            time.sleep(25)
            hosts.mend(2)
            self.expect_all_applied(ranks, timeout=300)


if __name__ == "__main__":
    unittest.main()
