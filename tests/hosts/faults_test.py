"""What is lost in a job on several hosts, at moments drawn by a seed: every rank that is left ends and names it, and
nothing stays behind. Prints how long that took, with the second for which each waits so that all may hear of it.
And what is not lost, however slow: every batch is applied. Prints how late beats were.

    faults_test.py PROGRAM LAUNCHED_RANK PYTHON PACKAGE [--moments 10] [--seed 1]
"""

from __future__ import annotations

import random
import re
import signal
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

from hosts import Hosts, Process, ends  # noqa: E402
from hosts_test import LIVENESS, PROGRAM, start_rank  # noqa: E402 (takes the words before)

COUNTS = "(?:, which has the counters of the job,)? "  # rank 0, for who asked it
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


class Lost(unittest.TestCase):
    def lose(self, job: Job, fault: str, draw: random.Random) -> tuple[set[int], str]:
        """The ranks that are no more, and what the others say."""
        host = draw.randrange(HOSTS)
        first = host * EACH
        of_host = rf"h{1 + host} with ranks {first} and {first + 1} is lost"
        if fault == "a host":
            job.hosts.kill(1 + host)
            return {first, first + 1}, rf"rank [{first}{first + 1}]{COUNTS}is lost|{of_host}"
        if fault == "a host's link":
            job.hosts.cut(1 + host)
            return set(), r"is lost: nothing has come from it|hears nothing of"
        if fault == "a link between two":
            other = (host + draw.randrange(1, HOSTS)) % HOSTS
            job.hosts.cut(1 + host, 1 + other)
            return set(), rf"h[{1 + host}{1 + other}] hears nothing of h[{1 + host}{1 + other}]"
        rank = first + (0 if fault == "a speaker" else draw.randrange(EACH))
        job.hosts.signal_rank(1 + rank // EACH, rank, "KILL")
        return {rank}, rf"rank {rank}{COUNTS}is lost"

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


# Says, after SECONDS, the longest time between two beats from each other host.
BEATS = """
import ctypes, socket, struct, sys, time

ear = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
# For the kernel: from 400 bytes on a packet is none. Else the bulk would push beats out.
rules = [(0x80, 0, 0, 0), (0x35, 1, 0, 400), (0x06, 0, 0, 1 << 16), (0x06, 0, 0, 0)]
rules = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
ear.setsockopt(socket.SOL_SOCKET, 26, struct.pack("HL", 4, ctypes.addressof(rules)))  # SO_ATTACH_FILTER
ear.settimeout(0.1)
end = time.monotonic() + float(sys.argv[1])
last, longest = {}, {}
while time.monotonic() < end:
    try:
        packet, (_, _, way, *_) = ear.recvfrom(1 << 16)
    except TimeoutError:
        continue
    if way != socket.PACKET_OUTGOING and b'"beat"' in packet:
        source, now = packet[12:16], time.monotonic()
        longest[source] = max(longest.get(source, 0), now - last.get(source, now))
        last[source] = now
for source, seconds in longest.items():
    print(socket.inet_ntoa(source), seconds)
"""
# Fills the way to every other host for SECONDS.
FILL = """
import socket, sys, threading, time

me, hosts, end = int(sys.argv[1]), int(sys.argv[2]), time.monotonic() + float(sys.argv[3])
door = socket.create_server(("10.77.0.%d" % me, 4713))


def drink(mouth):
    while mouth.recv(1 << 20):
        pass


def pour(host):
    while True:
        try:
            way = socket.create_connection(("10.77.0.%d" % host, 4713))
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    while time.monotonic() < end:
        way.sendall(bytes(1 << 20))
    way.close()


others = [host for host in range(1, hosts + 1) if host != me]
work = [threading.Thread(target=pour, args=(host,)) for host in others]
for thread in work:
    thread.start()
for _ in others:
    thread = threading.Thread(target=drink, args=(door.accept()[0],))
    thread.start()
    work.append(thread)
for thread in work:
    thread.join()
"""
PLACES = (1, 1, 2, 2, 3)  # the host of each rank; h3 has one alone
STOPPED = {"a rank": 1, "a rank that speaks": 0, "the only rank of a host": 4}


class NotLost(unittest.TestCase):
    """Ranks that are slow or stand still, and links that are full or come back: all wait, and nobody is lost."""

    def train(self, hosts: Hosts, limit: int, steps: int, pace: str, *options: str) -> list[Process]:
        command = ("env", f"STRETTO_LIVENESS={limit}s", PROGRAM, "train", "hyperplane", "--out", "/tmp/run")
        command += ("--steps", str(steps), "--pace", pace, *options)
        ranks = [start_rank(hosts, host, i, len(PLACES), *command) for i, host in enumerate(PLACES)]
        while not hosts.has(1, "/tmp/run"):
            self.assertEqual([rank.poll() for rank in ranks], [None] * len(PLACES))
            time.sleep(0.05)
        return ranks

    def expect_all_applied(self, ranks: list[Process], what: str) -> None:
        ended = list(ends(ranks, timeout=300))
        self.assertEqual([status for status, _, _ in ended], [0] * len(PLACES), f"{what}: {ended}")
        made, applied = map(int, re.search(r"deposits: (\d+) made, (\d+) applied, 0 pending", ended[0][1]).groups())
        self.assertEqual(made, applied, what)
        self.assertNotEqual(made, 0, what)

    def hear_beats(self, hosts: Hosts, seconds: float) -> list[Process]:
        return [hosts.start(host, (sys.executable, "-c", BEATS, str(seconds)), {}) for host in (1, 2, 3)]

    def expect_beats_in_time(self, ears: list[Process], limit: int, what: str) -> None:
        """None later than a tenth of the limit, which is also the time between two."""
        longest = []
        for status, out, said in ends(ears):
            self.assertEqual((status, said), (0, ""), what)
            heard = [float(line.split()[1]) for line in out.splitlines()]
            self.assertEqual(len(heard), 2, f"{what}: {out}")
            longest += heard
        late = max(longest) - limit / 10
        print(f"{what}: beats are at most {late:.3f} s late, of {limit / 10} s", flush=True)
        self.assertLessEqual(late, limit / 10, what)

    def test_ranks_that_stand_still_for_five_times_the_limit_are_waited_for(self) -> None:
        for what, rank in STOPPED.items():
            with Hosts(3) as hosts:
                ranks = self.train(hosts, LIVENESS, 120, "300us")  # 9 s
                time.sleep(1)
                for name, wait in (("STOP", 5 * LIVENESS), ("CONT", 0)):
                    hosts.signal_rank(PLACES[rank], rank, name)
                    time.sleep(wait)
                    self.assertEqual([process.poll() for process in ranks], [None] * len(PLACES), what)
                ranks[rank].send_signal(signal.SIGCONT)  # nsenter stops with its child
                self.expect_all_applied(ranks, what)

    def test_a_way_that_is_away_when_it_is_first_needed_is_waited_for(self) -> None:
        with Hosts(3) as hosts:
            hosts.cut(2, 3)
            command = ("env", "STRETTO_LIVENESS=10s", PROGRAM, "train", "hyperplane", "--steps", "60")
            ranks = [start_rank(hosts, host, i, len(PLACES), *command) for i, host in enumerate(PLACES)]
            time.sleep(4)  # ten times what they take to come to where hosts 2 and 3 speak
            self.assertEqual([rank.poll() for rank in ranks], [None] * len(PLACES), "nobody has ended, nor is through")
            hosts.mend(2, 3)
            self.expect_all_applied(ranks, "a way that was away")

    def test_ranks_that_compute_for_six_times_the_limit_are_waited_for(self) -> None:
        for progress in ("thread", "application"):
            with Hosts(3) as hosts:
                ranks = self.train(hosts, 10, 1, "250ms", "--progress-by", progress)  # of 256 rows
                ears = self.hear_beats(hosts, 60)
                self.expect_beats_in_time(ears, 10, f"computing for 64 s, --progress-by {progress}")
                self.expect_all_applied(ranks, progress)

    def test_links_that_are_full_for_six_times_the_limit_carry_beats(self) -> None:
        with Hosts(3, rate="100mbit") as hosts:
            ranks = self.train(hosts, 10, 250, "1ms")  # 64 s
            fill = [hosts.start(i, (sys.executable, "-c", FILL, str(i), "3", "60"), {}) for i in (1, 2, 3)]
            self.expect_beats_in_time(self.hear_beats(hosts, 60), 10, "links full for 60 s")
            self.assertEqual([(status, said) for status, _, said in ends(fill)], [(0, "")] * 3)
            self.expect_all_applied(ranks, "links full")

    def test_a_link_that_comes_back_within_the_limit_has_lost_nothing(self) -> None:
        with Hosts(3) as hosts:
            ranks = self.train(hosts, 10, 60, "1ms")  # 15 s
            time.sleep(1)
            hosts.cut(2)
            time.sleep(5)
            hosts.mend(2)
            self.expect_all_applied(ranks, "a cut of 5 s")


if __name__ == "__main__":
    unittest.main()
