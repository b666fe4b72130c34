"""What is lost in a job on several hosts, at moments drawn by a seed: every rank that is left ends and names it, and
nothing stays behind. Prints how long that took, with the second for which each waits so that all may hear of it.

    faults_test.py PROGRAM LAUNCHED_RANK PYTHON PACKAGE [--moments 10] [--seed 1]
"""

from __future__ import annotations

import random
import statistics
import sys
import time
import unittest


def option(name: str, otherwise: int) -> int:
    if name not in sys.argv:
        return otherwise
    at = sys.argv.index(name)
    _, value = sys.argv.pop(at), sys.argv.pop(at)
    return int(value)


MOMENTS, SEED = option("--moments", 10), option("--seed", 1)

from hosts import Hosts  # noqa: E402
from hosts_test import LIVENESS, PROGRAM, start_rank  # noqa: E402 (takes the words before)

HOSTS, EACH = 3, 2
RANKS = HOSTS * EACH
ALGORITHMS = ("sync", "eager-quorum", "wagma")
# Of processes the kernel of their host speaks at once; of hosts and links silence does.
PROMISES = {
    "a rank": 0.1,
    "a speaker": 0.1,
    "a host": 0.1,
    "a host's link": LIVENESS + 1,
    "a link between two": LIVENESS + 1,
}


class Job:
    """Ranks that train, in blocks, until something happens."""

    def __init__(self, hosts: Hosts, algorithm: str) -> None:
        self.hosts = hosts
        command = ("env", f"STRETTO_LIVENESS={LIVENESS}s", PROGRAM, "train", "hyperplane", "--epochs", "1000000")
        command += ("--algorithm", algorithm, "--out", "/tmp/run")
        self.ranks = [start_rank(hosts, 1 + i // EACH, i, RANKS, *command) for i in range(RANKS)]
        while not hosts.has(1, "/tmp/run/records-0.jsonl"):
            if any(rank.poll() is not None for rank in self.ranks):
                raise AssertionError([rank.communicate() for rank in self.ranks])
            time.sleep(0.02)

    def kill(self, rank: int) -> None:
        """That rank alone."""
        of_rank = f"grep -lz '^STRETTO_RANK={rank}$' /proc/[0-9]*/environ | grep -o '[0-9]*'"
        self.hosts.call("exec", str(1 + rank // EACH), "sh", "-c", f"kill -KILL $({of_rank})")


class Lost(unittest.TestCase):
    def lose(self, job: Job, fault: str, draw: random.Random) -> tuple[set[int], str]:
        """The ranks that are no more, and what the others say."""
        host = draw.randrange(HOSTS)
        first = host * EACH
        of_host = rf"h{1 + host} with ranks {first} and {first + 1} is lost"
        if fault == "a host":
            job.hosts.kill(1 + host)
            return {first, first + 1}, rf"rank [{first}{first + 1}] is lost|{of_host}"
        if fault == "a host's link":
            job.hosts.cut(1 + host)
            return set(), r"is lost: nothing has come from it|hears nothing of"
        if fault == "a link between two":
            other = (host + draw.randrange(1, HOSTS)) % HOSTS
            job.hosts.cut(1 + host, 1 + other)
            return set(), rf"h[{1 + host}{1 + other}] hears nothing of h[{1 + host}{1 + other}]"
        rank = first + (0 if fault == "a speaker" else draw.randrange(EACH))
        job.kill(rank)
        return {rank}, rf"rank {rank} is lost"

    def left_on(self, hosts: Hosts, host: int) -> str:
        what = "pgrep -l stretto; ls /dev/shm; ss -Hltn"
        return hosts.call("exec", str(host), "sh", "-c", what).stdout

    def test_every_rank_that_is_left_names_what_is_lost(self) -> None:
        for fault, promise in PROMISES.items():
            for algorithm in ALGORITHMS:
                draw = random.Random(f"{SEED} {fault} {algorithm}")
                took = []
                for _ in range(MOMENTS):
                    with Hosts(HOSTS) as hosts:
                        job = Job(hosts, algorithm)
                        moment = draw.uniform(0, 1)
                        time.sleep(moment)
                        begin = time.monotonic()
                        gone, names = self.lose(job, fault, draw)
                        what = f"{fault}, {algorithm}, after {moment:.3f} s"
                        ends: dict[int, float] = {}
                        while len(ends) < RANKS and time.monotonic() < begin + 10 * promise + 30:
                            for i, rank in enumerate(job.ranks):
                                if i not in ends and rank.poll() is not None:
                                    ends[i] = time.monotonic() - begin
                            time.sleep(0.005)
                        hung = [i for i in range(RANKS) if i not in ends]
                        left = {host: self.left_on(hosts, host) for host in range(1, HOSTS + 1)}
                    said = [rank.communicate() for rank in job.ranks]
                    self.assertEqual(hung, [], f"{what}: {said}")
                    self.assertEqual(left, {host: "" for host in left}, what)
                    for i in set(range(RANKS)) - gone:
                        self.assertEqual(job.ranks[i].returncode, 3, f"rank {i}: {what}: {said}")
                        took.append(ends[i])
                    lines = [line for _, err in said for line in err.splitlines() if "lost" in line or "hears" in line]
                    self.assertNotEqual(lines, [], f"{what}: {said}")
                    for line in lines:
                        self.assertRegex(line, names, f"{what}: {said}")
                median, most = statistics.median(took), max(took)
                print(f"{fault}, {algorithm}: the others end after {median:.2f} s, at most {most:.2f}", flush=True)


if __name__ == "__main__":
    unittest.main()
