"""Jobs on several hosts: network namespaces of this machine (hosts.sh), started by hand and by torchrun; ranks that are
killed; what hosts.sh does to hosts; `stretto bench --over`.

    hosts_test.py PROGRAM LAUNCHED_RANK PYTHON PACKAGE
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from hosts import Hosts, Process, build_dates, ends, start_torchrun

PROGRAM, LAUNCHED_RANK, PYTHON, PACKAGE = (sys.argv.pop(1) for _ in range(4))
EXAMPLE = pathlib.Path(__file__).parents[2] / "examples/python/five_lines.py"
MEETING = "10.77.0.1:4711"
LIVENESS = 3  # seconds
YEAR = 365 * 24 * 3600  # seconds
LONG = bool(os.environ.get("STRETTO_LONG_TESTS"))
STRANGERS = 10_000 if LONG else 1000  # of each kind


def start_rank(hosts: Hosts, host: int, rank: int, ranks: int, *command: str, meeting: str = MEETING) -> Process:
    """Started by hand."""
    place = {"STRETTO_MEETING": meeting, "STRETTO_RANK": str(rank), "STRETTO_RANKS": str(ranks), "PYTHONPATH": PACKAGE}
    return hosts.start(host, command, place)


# Says that it hears, then each datagram that comes.
LISTENER = """
import socket
ear = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
ear.bind(("", 4712))
print("hears", flush=True)
while True:
    print(ear.recv(100).decode(), flush=True)
"""


# Comes to a door with a hello of another token and with random bytes, NUMBER times each and one by one, then NUMBER
# times at once with nothing; waits each time until the door has closed the connection.
STRANGER = """
import random, resource, socket, struct, sys

door, number = (sys.argv[1], int(sys.argv[2])), int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_NOFILE, (number + 100, number + 100))
hello = struct.pack("<Q16sIiii64s24x", 0x6F74746574727302, random.randbytes(16), 1, 1, 0, 4, b"stretto 1.0.0")


def wait(stranger):
    try:
        if stranger.recv(1):
            sys.exit("the door has answered")
    except ConnectionResetError:
        pass
    stranger.close()


for _ in range(number):
    for words in (hello, random.randbytes(random.randrange(300))):
        stranger = socket.create_connection(door)
        try:
            stranger.sendall(words)
            stranger.shutdown(socket.SHUT_WR)
        except OSError:  # closed before
            pass
        wait(stranger)
for stranger in [socket.create_connection(door) for _ in range(number)]:
    wait(stranger)
"""


ALGORITHMS = ("sync", "eager-solo", "eager-quorum --rounds per-bucket", "local", "diloco")
# The host of each rank, from 1.
PLACES = {
    "two of one": (1, 2),
    "two of two, in blocks": (1, 1, 2, 2),
    "two of two, in turn": (1, 2, 1, 2),
    "three of one, two and three": (1, 2, 3, 2, 3, 3),
}


class OnSeveralHosts(unittest.TestCase):
    def test_what_a_transport_and_a_job_promise(self) -> None:
        for name, places in PLACES.items():
            with Hosts(max(places)) as hosts:
                tests = ["order", "sizes", "storm", "count"]
                if places[0] != places[1]:  # what waits in memory of a host for a rank that has left stays there
                    tests.append("leave_early")
                for test in tests:
                    ranks = [
                        start_rank(hosts, host, i, len(places), LAUNCHED_RANK, test) for i, host in enumerate(places)
                    ]
                    for i, (status, _, said) in enumerate(ends(ranks)):
                        self.assertEqual((status, said), (0, ""), f"{test}, {name}, rank {i}")

    def test_every_batch_is_applied_once_whatever_the_algorithm(self) -> None:
        for name, places in PLACES.items():
            with Hosts(max(places)) as hosts:
                # A start of each rank takes most of the time: all of them where hosts are unequal.
                some = ALGORITHMS if LONG or len(places) > 4 else ALGORITHMS[1:3]
                for algorithm in some:
                    command = (PROGRAM, "train", "hyperplane", "--epochs", "2", "--algorithm", *algorithm.split())
                    ranks = [start_rank(hosts, host, i, len(places), *command) for i, host in enumerate(places)]
                    (status, out, said), *others = ends(ranks)
                    what = f"{algorithm}, {name}: {out}{said}"
                    self.assertEqual([status, *(other for other, _, _ in others)], [0] * len(places), what)
                    made, applied = map(int, re.search(r"deposits: (\d+) made, (\d+) applied, 0 pending", out).groups())
                    self.assertEqual(made, applied, what)
                    self.assertNotEqual(made, 0, what)

    def test_the_slow_host_is_named_beside_its_ranks(self) -> None:
        for places in ((1, 2, 1, 2), (1, 2, 3, 4)):
            slow = "+".join(f"persistent:rank={i},delay=50ms" for i, host in enumerate(places) if host == 2)
            with Hosts(max(places)) as hosts:
                command = (PROGRAM, "train", "hyperplane", "--steps", "20", "--imbalance", slow, "--out", "/tmp/run")
                ranks = [start_rank(hosts, host, i, 4, *command) for i, host in enumerate(places)]
                (status, out, said), *_ = ends(ranks)
                self.assertEqual(status, 0, said)
                self.assertIn("\n 1 (h2) ", out)
                self.assertRegex(out, r"because of rank [13] \(h2\), ")
                self.assertRegex(out, "\nof the hosts h2 has cost the others most: ")
                summary = json.loads(hosts.call("exec", "1", "cat", "/tmp/run/summary.json").stdout)
                self.assertEqual(summary["hosts"], [f"h{host}" for host in places])
        with Hosts(1) as hosts:
            (status, out, said), _ = ends([start_rank(hosts, 1, i, 2, *command[:5]) for i in range(2)])
            self.assertEqual(status, 0, said)
            self.assertNotIn("h1", out)

    def test_what_crosses_between_hosts_does_not_grow_with_their_ranks(self) -> None:
        sent: dict[int, list[int]] = {}
        for each in (1, 4):
            with Hosts(2) as hosts:
                command = (PROGRAM, "train", "digits-wide", "--steps", "40")  # a megabyte and a quarter a step
                ranks = [start_rank(hosts, 1 + i // each, i, 2 * each, *command) for i in range(2 * each)]
                self.assertEqual([status for status, _, _ in ends(ranks)], [0] * 2 * each)
                counter = "/sys/class/net/eth0/statistics/tx_bytes"
                sent[each] = [int(hosts.call("exec", host, "cat", counter).stdout) for host in ("1", "2")]
        for of_one, of_four in zip(sent[1], sent[4]):
            self.assertGreater(of_one, 40 << 20)
            self.assertLessEqual(of_four, 1.01 * of_one, sent)

    def test_the_others_name_a_rank_that_is_killed(self) -> None:
        for algorithm in ("sync", "eager-quorum"):
            with Hosts(2) as hosts:
                command = (PROGRAM, "train", "hyperplane", "--algorithm", algorithm, "--epochs", "1000000")
                ranks = [start_rank(hosts, 1 + i % 2, i, 4, *command, "--out", "/tmp/run") for i in range(4)]
                while not hosts.has(1, "/tmp/run/records-0.jsonl"):  # they do not train yet
                    for rank in ranks:
                        self.assertIsNone(rank.poll(), algorithm)
                    time.sleep(0.1)
                hosts.kill(2)
                ended = list(ends(ranks))
                self.assertEqual([status for status, _, _ in ended[::2]], [3, 3], f"{algorithm}: {ended}")
                said = ended[0][2] + ended[2][2]
                self.assertRegex(said, "rank [13] is lost: ", algorithm)

    def train_for_ever(self, hosts: Hosts, places: tuple[int, ...]) -> list[Process]:
        """Ranks that train until something happens, as soon as they do."""
        liveness = ("--liveness", f"{LIVENESS}s")
        command = (PROGRAM, "train", "hyperplane", "--epochs", "1000000", "--out", "/tmp/run", *liveness)
        ranks = [start_rank(hosts, host, i, len(places), *command) for i, host in enumerate(places)]
        while not hosts.has(1, "/tmp/run/records-0.jsonl"):
            for rank in ranks:
                self.assertIsNone(rank.poll())
            time.sleep(0.1)
        return ranks

    def test_a_host_of_which_nothing_comes_is_named(self) -> None:
        with Hosts(3) as hosts:
            ranks = self.train_for_ever(hosts, (1, 2, 3, 2))
            hosts.cut(2)
            ended = list(ends(ranks))
            self.assertEqual([status for status, _, _ in ended], [3] * 4, ended)
            lost = f"h2 with ranks 1 and 3 is lost: nothing has come from it for {LIVENESS}s"
            self.assertIn(lost, ended[0][2] + ended[2][2])
            self.assertRegex(ended[1][2] + ended[3][2], "h[13] with rank [02] is lost: nothing has come from it")

    def test_a_link_that_is_cut_between_two_is_named(self) -> None:
        with Hosts(3) as hosts:
            ranks = self.train_for_ever(hosts, (1, 2, 3))
            hosts.cut(1, 2)
            ended = list(ends(ranks))
            self.assertEqual([status for status, _, _ in ended], [3] * 3, ended)
            said = "".join(err for _, _, err in ended)
            self.assertRegex(said, "h[12] hears nothing of h[12] with rank [01], which other hosts hear")
            self.assertNotIn("nothing has come from it", said)

    def test_who_stands_still_is_waited_for_and_so_is_a_link_that_comes_back(self) -> None:
        with Hosts(2) as hosts:
            ranks = self.train_for_ever(hosts, (1, 2, 2))
            hosts.signal(2, "STOP")
            time.sleep(2 * LIVENESS)
            hosts.signal(2, "CONT")
            for rank in ranks[1:]:
                rank.send_signal(signal.SIGCONT)  # nsenter stops with its child
            hosts.cut(2)
            time.sleep(LIVENESS / 3)
            hosts.mend(2)
            time.sleep(2 * LIVENESS)
            self.assertEqual([rank.poll() for rank in ranks], [None] * 3)
            hosts.kill(2)
            ended = list(ends(ranks))
            self.assertEqual(ended[0][0], 3, ended)

    def test_strangers_at_a_door_cost_the_job_nothing(self) -> None:
        with Hosts(2) as hosts:
            began = time.monotonic()
            ranks = [start_rank(hosts, 1 + i // 2, i, 4, LAUNCHED_RANK, "count_on") for i in range(4)]
            while not hosts.has(1, "/tmp/begun"):
                self.assertEqual([rank.poll() for rank in ranks], [None] * 4)
                time.sleep(0.1)
            memory = []
            for number in (500, STRANGERS - 500):
                strangers = start_rank(hosts, 2, 0, 1, sys.executable, "-c", STRANGER, *MEETING.split(":"), str(number))
                self.assertEqual(list(ends([strangers])), [(0, "", "")])
                memory.append(hosts.resident(1, 0, "launched_rank"))
            hosts.call("exec", "1", "touch", "/tmp/end")
            ended = list(ends(ranks))
            self.assertEqual([status for status, _, _ in ended], [0] * 4, ended)
            self.assertEqual([said for _, _, said in ended[1:]], [""] * 3)
            lines = ended[0][2].splitlines()
            self.assertIn(len(lines), range(1, 2 + int(time.monotonic() - began) // 60), lines)
            for line in lines:
                closed = r"stretto: rank 0: connections without a hello of this job: \d+ closed, the last one from "
                self.assertRegex(line, closed + r"10\.77\.0\.2:\d+: [A-Za-z0-9: ]+$")
            self.assertLess(memory[1] - memory[0], 1024, memory)

    @unittest.skipUnless(pathlib.Path(PYTHON).exists() and pathlib.Path(PACKAGE).exists(), "no Python package is there")
    def test_torchrun_starts_python_on_two(self) -> None:
        for rendezvous in ("static", "c10d"):
            with Hosts(2) as hosts:
                agents = start_torchrun(hosts, rendezvous, (PYTHON, EXAMPLE), {"PYTHONPATH": PACKAGE})
                ended = list(ends(agents))
                self.assertEqual([status for status, _, _ in ended], [0, 0], ended)
                # Two ranks may write to one agent's output between a line and its end.
                said = re.findall(r"rank \d of \d: \d+ batches", "".join(out for _, out, _ in ended))
                self.assertEqual(sorted(said), [f"rank {rank} of 4: 400 batches" for rank in range(4)])

    @unittest.skipUnless(pathlib.Path(PYTHON).exists() and pathlib.Path(PACKAGE).exists(), "no Python package is there")
    def test_a_rank_knows_its_place_on_its_host(self) -> None:
        say = "import stretto; print(stretto.rank(), stretto.local_rank(), stretto.local_size())"
        with Hosts(2) as hosts:
            ranks = [start_rank(hosts, host, i, 3, PYTHON, "-c", say) for i, host in enumerate((1, 2, 1))]
            self.assertEqual([out for _, out, _ in ends(ranks)], ["0 0 2\n", "1 0 1\n", "2 1 2\n"])

    def test_a_setting_that_means_nothing_is_refused_by_name(self) -> None:
        refused = {
            "STRETTO_LIVENESS=soon": "STRETTO_LIVENESS 'soon' is no length of time",
            "STRETTO_LIVENESS=900ms": "STRETTO_LIVENESS=900ms: expected at least 1s",
            "STRETTO_BETWEEN=gloo": "STRETTO_BETWEEN=gloo: expected tcp, ucx or auto",
            "STRETTO_BETWEEN=mpi": "STRETTO_BETWEEN=mpi: expected ranks that mpirun of Open MPI, mpiexec of MPICH or srun",
        }
        with Hosts(1) as hosts:
            for setting, why in refused.items():
                ((status, _, said),) = ends(
                    [start_rank(hosts, 1, 0, 2, "env", setting, PROGRAM, "train", "hyperplane")]
                )
                self.assertNotEqual(status, 0)
                self.assertIn(why, said)

    def test_each_that_is_started_by_hand_says_what_is_wrong_with_the_address(self) -> None:
        with Hosts(1) as hosts:
            for meeting in ("10.77.0.1", "10.77.0.1:65536"):
                rank = start_rank(hosts, 1, 1, 2, PROGRAM, "train", "hyperplane", meeting=meeting)
                why = f"address '{meeting}' of the meeting: expected host:port, with a port from 1 to 65535"
                self.assertEqual(list(ends([rank])), [(2, "", f"stretto train: {why}\n")])

    def test_too_few_descriptors_are_one_line_and_a_soft_limit_is_raised(self) -> None:
        with Hosts(2) as hosts:
            for option, status in (("-n", 4), ("-Sn", 0)):
                limited = ("sh", "-c", f'ulimit {option} 16; exec "$@"', "sh")
                ranks = [start_rank(hosts, 1 + i, i, 2, *limited, LAUNCHED_RANK, "count") for i in range(2)]
                for i, (ended, _, said) in enumerate(ends(ranks)):
                    self.assertEqual(ended, status, said)
                    if status == 0:
                        self.assertEqual(said, "")
                        continue
                    needs = {0: 34, 1: 32}[i]
                    why = rf"rank {i} on h{1 + i}: this process may have 16 descriptors, has \d+ and needs {needs} more"
                    expected = r"\(RLIMIT_NOFILE, ulimit -n\): expected at least ulimit -n \d+"
                    self.assertRegex(said, f"^{why} {expected}\n$")

    def test_ranks_that_do_not_fit_together_are_told(self) -> None:
        with Hosts(2) as hosts:
            ranks = [start_rank(hosts, 1 + i, i, 2 + i, LAUNCHED_RANK, "count") for i in range(2)]
            for status, _, said in ends(ranks):
                self.assertEqual(status, 4, said)
                self.assertRegex(said, r"rank 1 on h2 has 3 ranks in its job, rank 0 on h1 2\n$")
            ranks = [start_rank(hosts, 1 + i // 2, min(i, 1), 3, LAUNCHED_RANK, "count") for i in range(3)]
            for status, _, said in ends(ranks):
                self.assertEqual(status, 4, said)
                self.assertRegex(said, r"two processes are rank 1: \d+ on h\d and \d+ on h\d\n$")

    def test_hosts_know_how_far_their_clocks_are_apart(self) -> None:
        with Hosts(4, apart=YEAR) as hosts:  # the fourth is two edges from the first
            ranks = [start_rank(hosts, 1 + i, i, 4, LAUNCHED_RANK, "clock") for i in range(4)]
            for i, (status, out, said) in enumerate(ends(ranks)):
                self.assertEqual((status, said), (0, ""))
                self.assertLess(abs(float(out) - i * YEAR), 1, f"rank {i}")

    def test_clocks_and_dates_change_nothing(self) -> None:
        """Steady clocks a year apart, and dates as far."""
        trained = []
        with tempfile.TemporaryDirectory() as folder:
            dates = build_dates(folder)
            for apart in (0, YEAR):
                with Hosts(2, apart=apart, keep=folder) as hosts:
                    command = (PROGRAM, "train", "hyperplane", "--epochs", "2", "--out", "/tmp/run", "--liveness", "1s")
                    ranks = []
                    for i in range(2):
                        date = ("env", f"LD_PRELOAD={dates}", f"DATE_AHEAD={i * apart}")
                        ranks.append(start_rank(hosts, 1 + i, i, 2, *date, *command))
                    ended = list(ends(ranks))
                    self.assertEqual([status for status, _, _ in ended], [0, 0], ended)
                    self.assertNotIn("lost: ", "".join(said for _, _, said in ended))
                    days = [float(hosts.call("exec", "2", "env", *date[1:], "date", "+%s").stdout) / 86400]
                    self.assertAlmostEqual(days[0] - time.time() / 86400, apart / 86400, delta=1)
                    records = hosts.call("exec", "1", "cat", "/tmp/run/records-1.jsonl").stdout.splitlines()
                    begins = [json.loads(record)["begin"] for record in records]
                    self.assertEqual(begins, sorted(begins))
                    self.assertTrue(0 <= begins[0] <= begins[-1] < 100, begins)
                    summary = json.loads(hosts.call("exec", "1", "cat", "/tmp/run/summary.json").stdout)
                    losses = [json.loads(record)["loss"] for record in records]
                    trained.append((losses, summary["loss"], summary["train_loss"]))
        self.assertEqual(*trained)

    def test_hosts_that_compute_with_other_code_are_named(self) -> None:
        ask = "import torch; print(torch.backends.cpu.get_cpu_capability())"
        asked = subprocess.run([PYTHON, "-c", ask], capture_output=True, text=True, check=False)
        code = asked.stdout.strip()
        if not code.startswith("AVX"):
            self.skipTest(f"Torch has one code for this processor: {code or asked.stderr}")
        default = {2: ("env", "ATEN_CPU_CAPABILITY=default")}
        command = (PROGRAM, "train", "hyperplane", "--epochs", "1")
        helps = "ATEN_CPU_CAPABILITY=default on all x86 hosts makes it the same"
        with Hosts(2) as hosts:
            for everywhere in (False, True):
                ranks = [
                    start_rank(hosts, host, i, 3, *(default[2] if everywhere else default.get(host, ())), *command)
                    for i, host in enumerate((1, 2, 1))
                ]
                ended = list(ends(ranks))
                said = ended[0][2].splitlines()
                parted = any(" differs from that of rank 0" in line for line in said)
                self.assertEqual([status for status, _, _ in ended], [int(parted), 0, 0], ended)
                lines = [line for line in said if "rounds differently" in line]
                if everywhere:
                    self.assertEqual((parted, lines), (False, []))
                    continue
                self.assertEqual(len([line for line in lines if " differs " not in line]), 1, said)
                self.assertIn(f"AVX2 or AVX512 on h1 (ranks 0 and 2), DEFAULT on h2 (rank 1); {helps}", lines[0])
                for line in said:
                    if " differs from that of rank 0" in line:
                        self.assertIn(helps, line)

    def test_a_host_that_falls_silent_is_named_whatever_its_clock(self) -> None:
        with Hosts(2, apart=YEAR) as hosts:
            ranks = self.train_for_ever(hosts, (1, 2))
            hosts.cut(2)
            ended = list(ends(ranks))
            self.assertEqual([status for status, _, _ in ended], [3, 3], ended)
            self.assertIn(f"h2 with rank 1 is lost: nothing has come from it for {LIVENESS}s", ended[0][2])

    def test_ranks_that_have_another_liveness_are_told(self) -> None:
        programs = {
            "of the command": lambda of: (PROGRAM, "train", "hyperplane", "--liveness", of),
            "of the environment": lambda of: ("env", f"STRETTO_LIVENESS={of}", LAUNCHED_RANK, "count"),
        }
        with Hosts(2) as hosts:
            for name, command in programs.items():
                ranks = [start_rank(hosts, 1 + i, i, 2, *command(of)) for i, of in enumerate(("4s", "2500ms"))]
                for status, _, said in ends(ranks):
                    self.assertNotEqual(status, 0, name)
                    self.assertIn("rank 1 on h2 has liveness 2.5s, rank 0 on h1 4s", said, name)


class AsHostsAre(unittest.TestCase):
    """What hosts.sh can do to them, and what measures between them."""

    def test_a_link_is_cut_both_ways_or_one(self) -> None:
        def say(word: str, *froms: int) -> None:
            for host in froms:
                hosts.call("exec", str(host), "bash", "-c", f"echo -n {word} > /dev/udp/10.77.0.{3 - host}/4712")

        def hear(host: int, last: str) -> list[str]:
            """Until `last`: what was said before it has come or will not."""
            out = ears[host - 1].stdout
            assert out is not None
            heard = [out.readline().strip()]
            while heard[-1] != last:
                heard.append(out.readline().strip())
            return heard

        with Hosts(2) as hosts:
            ears = [start_rank(hosts, host, host - 1, 2, sys.executable, "-c", LISTENER) for host in (1, 2)]
            self.assertEqual([hear(host, "hears") for host in (1, 2)], [["hears"]] * 2)
            say("first", 1, 2)
            self.assertEqual([hear(host, "first") for host in (1, 2)], [["first"]] * 2)
            # Host 1 does not speak while it has no link: its kernel would keep the packet until there is one again.
            for way, speak in ((("out",), (1, 2)), (("in",), (1, 2)), ((), (2,))):
                self.assertEqual(hosts.call("cut", "1", *way).returncode, 0)
                say("cut", *speak)
                self.assertEqual(hosts.call("mend", "1").returncode, 0)
                say("mended", 1, 2)
                heard = {host: hear(host, "mended") for host in (1, 2)}
                self.assertEqual(
                    [host for host, words in heard.items() if words == ["cut", "mended"]],
                    {("out",): [1], ("in",): [2]}.get(way, []),
                    f"{way}: {heard}",
                )
            for ear in ears:
                ear.kill()
                ear.communicate()

    def test_a_link_is_limited_and_stays_so_when_it_was_cut(self) -> None:
        def rates(*shown: str) -> list[str]:
            return re.findall(r"rate (\w+)", hosts.call("exec", *shown).stdout)

        with Hosts(2, "100mbit") as hosts:
            for call in (("limit", "1", "8mbit"), ("cut", "1", "in"), ("mend", "1")):
                self.assertEqual(hosts.call(*call).returncode, 0)
            for host, rate in ((1, "8Mbit"), (2, "100Mbit")):
                self.assertEqual(rates(str(host), "tc", "qdisc", "show", "dev", "eth0"), [rate])
                self.assertEqual(rates("0", "tc", "qdisc", "show", "dev", f"port{host}"), [rate])

    def run_ranks(self, hosts: Hosts, meeting: str, places: tuple[int, ...] = (1, 2)) -> None:
        """`places`: the host of each rank."""
        every = len(places)
        ranks = [start_rank(hosts, at, i, every, LAUNCHED_RANK, "count", meeting=meeting) for i, at in enumerate(places)]
        self.assertEqual([(status, said) for status, _, said in ends(ranks)], [(0, "")] * every)

    def test_hosts_without_ipv4(self) -> None:
        with Hosts(2, family="ipv6") as hosts:
            self.run_ranks(hosts, "[fd77::1]:4711")

    def test_the_name_of_rank_0s_host_is_loopback_there(self) -> None:
        with Hosts(2) as hosts:
            self.run_ranks(hosts, "h1:4711", (1, 1, 2))

    def test_hosts_that_share_an_address_beside_their_own(self) -> None:
        with Hosts(2) as hosts:
            self.assertEqual(hosts.call("same", "172.17.0.1/16").returncode, 0)
            self.run_ranks(hosts, MEETING)

    def test_bench_makes_hosts_of_its_own(self) -> None:
        with Hosts(2):  # where none can be made, this says so
            pass
        for benchmark, others, *options in (
            ("allreduce", ["openmpi-eager"], "--time", "5ms"),
            ("skew", [], "--rounds", "2", "--activations", "solo"),
            ("overlap", [], "--steps", "2"),
        ):
            command = (PROGRAM, "bench", benchmark, "--over", "hosts:2x2", "--rate", "1gbit", "--sizes", "4KiB")
            options += ["--against", ",".join(others)] if others else []
            ran = subprocess.run(
                [*command, "--repeats", "1", "--json", *options], capture_output=True, text=True, check=False
            )
            self.assertEqual(ran.returncode, 0, ran.stderr)
            found = json.loads(ran.stdout)
            libraries = ["stretto", *others]
            self.assertEqual([(row["library"], row["ranks"]) for row in found["rows"]], [(name, 4) for name in libraries])
            where, *between = found["places"].split("; ")
            self.assertEqual(where, "2 hosts of 2 ranks, links of 1gbit")
            self.assertEqual([line.split(": ")[0] for line in between], others)
        beside = (PROGRAM, "bench", "allreduce", "--over", "hosts:2x1", "--sizes", "8", "--time", "5ms", "--repeats", "1")
        ran = subprocess.run(
            [*beside, "--predict", "--against", "mpich", "--json"], capture_output=True, text=True, check=True
        )
        libraries = [row["library"] for row in json.loads(ran.stdout)["rows"]]
        self.assertEqual(libraries, ["stretto", "stretto-predicted", "mpich"], ran.stderr)
        self.assertIn("predictions are off by", ran.stderr)
        refused = subprocess.run(["unshare", "--user", *command], capture_output=True, text=True, check=False)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn("no hosts can be made on this machine: hosts.sh: skipped: needs root", refused.stderr)


if __name__ == "__main__":
    unittest.main()
