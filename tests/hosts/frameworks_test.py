"""The programs of examples/python on two hosts of two ranks, namespaces of this machine (hosts.sh), as the launcher of
each framework starts them; and a rank of torchrun that is killed.

    frameworks_test.py PYTHON PACKAGE
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Callable

from hosts import Hosts, Process, ends, start_torchrun

PYTHON, PACKAGE = (sys.argv.pop(1) for _ in range(2))
FOLDER = pathlib.Path(__file__).parent
ROOT = FOLDER.parents[1]
EXAMPLES = ROOT / "examples/python"
# Gloo's ranks listen where the name of their host leads: at 127.0.1.1, to which no other host comes.
BY_INTERFACE = {"GLOO_SOCKET_IFNAME": "eth0"}
ENVIRONMENT = {
    "PYTHONPATH": PACKAGE,
    "PYTHONPYCACHEPREFIX": str(ROOT / "build/pycache"),  # the environments lie there without byte code
    "PYTHONDONTWRITEBYTECODE": "",
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
}
# What the four ranks have applied: epochs × steps of each × ranks.
BATCHES = {
    "five_lines.py": 100 * 4,
    "digits.py": 5 * 12 * 4,  # 375 samples a rank by 32
    "accelerate_loop.py": 2 * 3 * 4,  # 24 samples a rank by 4, a step for two of these
    "lightning_fit.py": 2 * 4 * 4,
    "trainer.py": 2 * 4 * 4,
}
# Five epochs of ten batches of each of four ranks (restarted.py, ray_training.py), every one of which has counted once.
ONCE = hashlib.sha256(struct.pack("f", 1 / 4) * (4 * 5 * 10)).hexdigest()
WITH_A_GROUP = ("accelerate_loop.py", "trainer.py")

# Starts the ranks by a command that begins with recorded.py and its folder.
Start = Callable[[Hosts, tuple[str, ...]], list[Process]]


class Started(unittest.TestCase):
    def run_ranks(self, start: Start, batches: int, ranks: int = 4, hosts: int = 2) -> str:
        """The digest of a replica, when all have ended with 0: batches, replicas and places are compared."""
        with tempfile.TemporaryDirectory() as folder, Hosts(hosts, keep=folder) as there:
            ended = list(ends(start(there, (str(FOLDER / "recorded.py"), folder)), timeout=300))
            self.assertEqual({status for status, _, _ in ended}, {0}, ended)
            found = [json.loads((pathlib.Path(folder) / f"{rank}.json").read_text()) for rank in range(ranks)]
        weights: str = found[0]["weights"]
        on_host = ranks // hosts
        for rank, record in enumerate(found):
            host = self.host_of(rank // on_host, found[0]["host"])
            place = {"ranks": ranks, "host": host, "local": [rank % on_host, on_host]}
            self.assertEqual(record, place | {"batches": batches, "weights": weights}, f"rank {rank}")
        return weights

    def host_of(self, place: int, first: str) -> str:
        """The name of the host of so many hosts before it, where rank 0 is on `first`."""
        return f"h{1 + place}"


class OnTwoHosts(Started):
    def test_torchrun(self) -> None:
        for rendezvous in ("static", "c10d"):
            for example, batches in BATCHES.items():
                environment = ENVIRONMENT | (BY_INTERFACE if example in WITH_A_GROUP else {})

                def start(hosts: Hosts, record: tuple[str, ...]) -> list[Process]:
                    command = (PYTHON, *record, "script", EXAMPLES / example)
                    return start_torchrun(hosts, rendezvous, command, environment)

                with self.subTest(rendezvous=rendezvous, example=example):
                    self.run_ranks(start, batches)

    def test_torchrun_starts_all_again_when_a_rank_is_killed(self) -> None:
        for rendezvous in ("static", "c10d"):

            def start(hosts: Hosts, record: tuple[str, ...]) -> list[Process]:
                command = (PYTHON, *record, "script", FOLDER / "restarted.py")
                return start_torchrun(hosts, rendezvous, command, ENVIRONMENT, ("--max-restarts", "1"))

            with self.subTest(rendezvous=rendezvous):
                # Three epochs of ten batches are left when two have been saved; every batch of all five counts once.
                digest = self.run_ranks(start, 3 * 10 * 4)
                self.assertEqual(digest, ONCE)

    def test_accelerate_launch(self) -> None:
        def start(hosts: Hosts, record: tuple[str, ...]) -> list[Process]:
            launch = (PYTHON, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_machines", "2")
            meeting = ("--num_processes", "4", "--main_process_ip", "10.77.0.1", "--main_process_port", "29500")
            program = (*record, "script", EXAMPLES / "accelerate_loop.py")
            return [
                hosts.start(
                    host, (*launch, *meeting, "--machine_rank", str(host - 1), *program), ENVIRONMENT | BY_INTERFACE
                )
                for host in (1, 2)
            ]

        self.run_ranks(start, BATCHES["accelerate_loop.py"])

    def test_mp_spawn(self) -> None:
        def start(hosts: Hosts, record: tuple[str, ...]) -> list[Process]:
            environment = ENVIRONMENT | BY_INTERFACE | {"MASTER_ADDR": "10.77.0.1", "MASTER_PORT": "29500"}
            command = (PYTHON, *record, "spawn", EXAMPLES / "five_lines.py")
            return [hosts.start(host, (*command, str(host - 1)), environment) for host in (1, 2)]

        self.run_ranks(start, BATCHES["five_lines.py"])

    def test_a_process_group_by_hand(self) -> None:
        variables: dict[str, tuple[str, ...]] = {
            "none": (),
            "those of Ray, which keeps no store": ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
            "those of operators of Kubernetes": ("RANK", "WORLD_SIZE"),
            "none, containers of one machine": (),
        }
        for name, given in variables.items():

            def start(hosts: Hosts, record: tuple[str, ...]) -> list[Process]:
                if name.endswith("one machine"):
                    hosts.become_one_machine()
                ranks = []
                for rank in range(4):
                    place = {"RANK": rank, "WORLD_SIZE": 4, "LOCAL_RANK": rank % 2, "LOCAL_WORLD_SIZE": 2}
                    environment = {"MASTER_ADDR": "10.77.0.1", **{variable: str(place[variable]) for variable in given}}
                    command = (PYTHON, *record, "group", EXAMPLES / "five_lines.py", str(rank))
                    ranks.append(hosts.start(1 + rank // 2, command, ENVIRONMENT | BY_INTERFACE | environment))
                return ranks

            with self.subTest(name):
                self.run_ranks(start, BATCHES["five_lines.py"])


class WithRay(Started):
    """Ray's own environment is made when it is needed (tools/setup)."""

    def setUp(self) -> None:
        subprocess.run([ROOT / "tools/setup", "python-ray"], check=True, capture_output=True)

    def host_of(self, place: int, first: str) -> str:
        """Ray begins at any host."""
        return first if place == 0 else {"h1": "h2", "h2": "h1"}[first]

    def run_workers(self, program: str | pathlib.Path, batches: int, workers: int, hosts: int) -> str:
        python = ROOT / ".cache/python-ray/bin/python"
        environment = {
            **ENVIRONMENT,
            **BY_INTERFACE,
            "PYTHONPATH": f"{PACKAGE}:{FOLDER}",
            "RAY_ADDRESS": "10.77.0.1:6379",
            "RAY_AUTH_MODE": "disabled",
            "RAY_USAGE_STATS_ENABLED": "0",
        }

        def start(there: Hosts, record: tuple[str, ...]) -> list[Process]:
            for host in range(1, hosts + 1):
                place = ("--address", "10.77.0.1:6379") if host > 1 else ("--head", "--include-dashboard", "false")
                command = (python.with_name("ray"), "start", *place, "--node-ip-address", f"10.77.0.{host}")
                joins = there.start(host, (*command, "--num-cpus", str(workers // hosts)), environment)
                self.assertEqual([status for status, _, _ in ends([joins])], [0])
            driver = (python, FOLDER / "ray_training.py", record[1], str(workers), program)
            return [there.start(1, driver, environment)]

        return self.run_ranks(start, batches, workers, hosts)

    def test_workers_train_the_five_lines(self) -> None:
        for workers, hosts in ((2, 1), (4, 1), (4, 2)):
            with self.subTest(workers=workers, hosts=hosts):
                self.run_workers(EXAMPLES / "five_lines.py", 100 * workers, workers, hosts)

    def test_a_worker_that_is_killed_goes_on_from_the_checkpoint_beside_a_slow_one(self) -> None:
        for hosts in (1, 2):
            with self.subTest(hosts=hosts):
                self.assertEqual(self.run_workers("killed", 3 * 10 * 4, 4, hosts), ONCE)


if __name__ == "__main__":
    unittest.main()
