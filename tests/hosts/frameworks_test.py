"""The programs of examples/python on two hosts of two ranks, namespaces of this machine (hosts.sh), as the launcher of
each framework starts them; and a rank of torchrun that is killed.

    frameworks_test.py PYTHON PACKAGE
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import struct
import sys
import tempfile
import unittest
from collections.abc import Callable

from hosts import Hosts, Process, ends, start_torchrun

PYTHON, PACKAGE = (sys.argv.pop(1) for _ in range(2))
FOLDER = pathlib.Path(__file__).parent
EXAMPLES = FOLDER.parents[1] / "examples/python"
# Gloo's ranks listen where the name of their host leads: at 127.0.1.1, to which no other host comes.
BY_INTERFACE = {"GLOO_SOCKET_IFNAME": "eth0"}
ENVIRONMENT = {"PYTHONPATH": PACKAGE, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
# What the four ranks have applied: epochs × steps of each × ranks.
BATCHES = {
    "five_lines.py": 100 * 4,
    "digits.py": 5 * 12 * 4,  # 375 samples a rank by 32
    "accelerate_loop.py": 2 * 3 * 4,  # 24 samples a rank by 4, a step for two of these
    "lightning_fit.py": 2 * 4 * 4,
    "trainer.py": 2 * 4 * 4,
}
WITH_A_GROUP = ("accelerate_loop.py", "trainer.py")

# Starts the ranks by a command that begins with recorded.py and its folder.
Start = Callable[[Hosts, tuple[str, ...]], list[Process]]


class OnTwoHosts(unittest.TestCase):
    def run_ranks(self, start: Start, batches: int) -> str:
        """The digest of a replica, when all ranks have ended with 0: batches, replicas and places are compared."""
        with tempfile.TemporaryDirectory() as folder, Hosts(2, keep=folder) as hosts:
            ended = list(ends(start(hosts, (str(FOLDER / "recorded.py"), folder)), timeout=300))
            self.assertEqual({status for status, _, _ in ended}, {0}, ended)
            found = [json.loads((pathlib.Path(folder) / f"{rank}.json").read_text()) for rank in range(4)]
        weights: str = found[0]["weights"]
        for rank, record in enumerate(found):
            place = {"ranks": 4, "host": f"h{1 + rank // 2}", "local": [rank % 2, 2]}
            self.assertEqual(record, place | {"batches": batches, "weights": weights}, f"rank {rank}")
        return weights

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
                self.assertEqual(digest, hashlib.sha256(struct.pack("f", 1 / 4) * (4 * 5 * 10)).hexdigest())

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


if __name__ == "__main__":
    unittest.main()
