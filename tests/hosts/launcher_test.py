"""`stretto run --hosts` and `stretto train --hosts`. Hosts are network namespaces (hosts.sh), whose `rsh` is the remote
shell.

    launcher_test.py PROGRAM LAUNCHED_RANK LOOP_OF_MEMBERS PYTHON PACKAGE [--times 1]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import pty
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Callable, Iterator

from hosts import HOSTS, WATCHDOG, Hosts, Output

sys.path.append(str(pathlib.Path(__file__).parent.parent / "members"))
import loops  # noqa: E402

PROGRAM, LAUNCHED_RANK, LOOP, PYTHON, PACKAGE = (sys.argv.pop(1) for _ in range(5))
TIMES = 1  # each way to end
if "--times" in sys.argv:
    at = sys.argv.index("--times")
    TIMES = int(sys.argv.pop(at + 1))
    sys.argv.pop(at)
EXAMPLE = pathlib.Path(__file__).parents[2] / "examples/python/five_lines.py"
RSH = f"{HOSTS} rsh"
# What its caller ends leaves what it has started: as ssh does, whose other end is on another host.
PARTED_RSH = """#!/bin/bash
host=${1#h}; shift
exec nsenter -t "$(HOSTS_STATE=%(state)s %(hosts)s pid "$host")" -n -m -u -i -p -- setsid sh -c "$*"
"""
SLEEP = "trap 'echo rank $RANK is told to end; exit 9' TERM; echo rank $RANK sleeps; while :; do sleep 0.05; done"


class Launcher(Output):
    """`stretto COMMAND` beside the switch."""

    def __init__(self, hosts: Hosts, *words: str, rsh: str = RSH, environment: dict[str, str] | None = None) -> None:
        super().__init__(hosts.start(0, (PROGRAM, words[0], "--rsh", rsh, *words[1:]), environment or {}))

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        begin = time.monotonic()
        while not condition():
            if self.process.poll() is not None or time.monotonic() > begin + WATCHDOG:
                raise AssertionError(f"no {what}: {self.process.returncode}, {self.printed}{self.said}")
            time.sleep(0.02)

    def wait_for_lines(self, number: int, of: str) -> None:
        self.wait(lambda: len(re.findall(of, self.printed)) >= number, f"{number} lines of {of}")


def call(hosts: Hosts, *words: str, **more: object) -> tuple[int, str, str]:
    """The status of a launcher, and what it has written."""
    launcher = Launcher(hosts, *words, **more)
    status = launcher.end()
    return status, launcher.printed, launcher.said


def processes_on(hosts: Hosts, host: int) -> str:
    """All but those that make the host, and that look."""
    listed = hosts.call("exec", str(host), "ps", "-eo", "pid=,stat=,args=").stdout.splitlines()
    return "\n".join(
        line for line in listed if not re.search(r"ps -eo|__host|sleep infinity|hosts\.sh exec|sshd| Z", line)
    )


class OnHosts(unittest.TestCase):
    def parted(self, folder: str, hosts: Hosts) -> str:
        path = pathlib.Path(folder) / "parted"
        path.write_text(PARTED_RSH % {"state": hosts.state, "hosts": HOSTS})
        path.chmod(stat.S_IRWXU)
        return str(path)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        begin = time.monotonic()
        while not condition():
            self.assertLess(time.monotonic() - begin, WATCHDOG)
            time.sleep(0.05)

    def assert_nothing_is_left(self, hosts: Hosts, number: int) -> None:
        begin = time.monotonic()
        while left := "".join(processes_on(hosts, host) for host in range(1, number + 1)):
            self.assertLess(time.monotonic() - begin, WATCHDOG, left)
            time.sleep(0.05)

    def sleeping(self, hosts: Hosts, *options: str, **more: object) -> Launcher:
        """Rank 0 on h1, ranks 1 and 2 on h2, which sleep."""
        launcher = Launcher(hosts, "run", "--hosts", "h1,h2:2", *options, "--", "sh", "-c", SLEEP, **more)
        launcher.wait_for_lines(3, "sleeps\n")
        return launcher

    def under_way(self, hosts: Hosts, number: int, *options: str, batches: int = 100_000, **more: object) -> Launcher:
        """All of so many have come."""
        loop = (LOOP, "eager-quorum", str(batches), "account", "10ms")
        launcher = Launcher(hosts, "run", *options, "--", *loop, **more)
        launcher.wait(
            lambda: re.search("others come by: stretto join (etcd://)?10.77.0.254:", launcher.said), "address"
        )
        at = re.search("stretto join ([^ ,]*)", launcher.said)[1]

        def members() -> int:
            return len(re.findall(r"^ +\d+ +\d+ +h\d$", hosts.call("exec", "0", PROGRAM, "members", at).stdout, re.M))

        launcher.wait(lambda: members() == number, f"{number} members")
        return launcher


class RanksOnHosts(OnHosts):
    """A fixed number of them."""

    def test_are_numbered_host_by_host(self) -> None:
        place = "$RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $GROUP_RANK $GROUP_WORLD_SIZE"
        script = f"echo $(hostname) {place} $MASTER_ADDR $MASTER_PORT $STRETTO_MEETING $MINE $PWD"
        with tempfile.TemporaryDirectory(dir="/var/tmp") as folder, Hosts(2) as hosts:
            stretto = (PROGRAM, "run", "--hosts", "h1,h2:2", "--rsh", RSH, "--", "sh", "-c", script)
            here = os.getcwd()
            os.chdir(folder)
            try:
                process = hosts.start(0, stretto, {"MINE": "a word"})
            finally:
                os.chdir(here)
            out, said = process.communicate(timeout=WATCHDOG)
            self.assertEqual((process.returncode, said), (0, ""))
            ranks = sorted((line.split() for line in out.splitlines()), key=lambda words: words[1])
            self.assertEqual(
                [words[:8] for words in ranks],
                [
                    ["h1", "0", "3", "0", "1", "0", "2", "10.77.0.1"],
                    ["h2", "1", "3", "0", "2", "1", "2", "10.77.0.1"],
                    ["h2", "2", "3", "1", "2", "1", "2", "10.77.0.1"],
                ],
            )
            self.assertEqual(len({tuple(words[8:]) for words in ranks}), 1)
            self.assertRegex(ranks[0][9], r"^10\.77\.0\.1:\d+$")
            self.assertEqual(ranks[0][10:], ["a", "word", folder])

    def test_meet_in_cpp(self) -> None:
        with Hosts(2) as hosts:
            for where in ("h1:2,h2:2", "h2:2"):
                for test in ("storm", "count"):
                    self.assertEqual(call(hosts, "run", "--hosts", where, "--", LAUNCHED_RANK, test), (0, "", ""))

    def test_meet_by_ipv6(self) -> None:
        with Hosts(2, family="ipv6") as hosts:
            self.assertEqual(call(hosts, "run", "--hosts", "h1,h2", "--", LAUNCHED_RANK, "count"), (0, "", ""))
            program = ("train", "--hosts", "h1,h2", "--ranks", "1:2", "hyperplane", "--steps", "20")
            status, out, said = call(hosts, *program)
            self.assertEqual(status, 0, said)

    def test_meet_in_python(self) -> None:
        with Hosts(2) as hosts:
            status, out, said = call(
                hosts,
                "run",
                "--hosts",
                "h1,h2:2",
                "--tag",
                "--",
                PYTHON,
                str(EXAMPLE),
                environment={"PYTHONPATH": PACKAGE, "OMP_NUM_THREADS": "1"},
            )
            self.assertEqual(status, 0, said)
            self.assertEqual(sorted(out.splitlines()), [f"[rank {i}] rank {i} of 3: 300 batches" for i in range(3)])

    def test_are_those_that_fit(self) -> None:
        with Hosts(2) as hosts:
            status, out, said = call(hosts, "run", "--hosts", "h1:2,h2:2", "--ranks", "2", "--", "hostname")
            self.assertEqual((status, out, said), (0, "h1\nh1\n", ""))

    def test_login_shells_may_speak_first(self) -> None:
        with tempfile.TemporaryDirectory() as folder, Hosts(1) as hosts:
            speaks = pathlib.Path(folder) / "speaks"
            speaks.write_text(f'#!/bin/bash\necho Welcome\nprintf "to $1 "\necho banner >&2\nexec {RSH} "$@"\n')
            speaks.chmod(stat.S_IRWXU)
            ended = call(hosts, "run", "--hosts", "h1", "--", "hostname", rsh=str(speaks))
            self.assertEqual(ended, (0, "h1\n", "[h1] banner\n"))

    def test_train(self) -> None:
        with Hosts(2) as hosts:
            status, out, said = call(hosts, "train", "--hosts", "h1:2,h2", "hyperplane", "--epochs", "2")
            self.assertEqual(status, 0, said)
            made, applied = map(int, re.search(r"deposits: (\d+) made, (\d+) applied, 0 pending", out).groups())
            self.assertEqual(made, applied)
            self.assertIn("3 ranks, seed 1;", out)
            self.assertIn("\n 2 (h2) ", out)

    def test_write_whole_lines(self) -> None:
        script = 'printf "out $RANK\\n"; printf "err $RANK" >&2; printf "\\377\\n"'
        with Hosts(2) as hosts:
            launcher = hosts.start(
                0,
                (
                    PROGRAM,
                    "run",
                    "--hosts",
                    "h1:2,h2:2",
                    "--tag",
                    "--rsh",
                    RSH,
                    "--",
                    "sh",
                    "-c",
                    f"for i in 1 2 3; do {script}; done",
                ),
                {},
            )
            launcher.stdout.reconfigure(errors="surrogateescape")
            out, said = launcher.communicate(timeout=WATCHDOG)
            self.assertEqual(launcher.returncode, 0, said)
            self.assertEqual(
                sorted(out.splitlines()),
                sorted(f"[rank {i}] {word}" for i in range(4) for word in (f"out {i}", "\udcff") * 3),
            )
            self.assertEqual(sorted(said.splitlines()), [f"[rank {i}] {f'err {i}' * 3}" for i in range(4)])

    def test_end_with_the_status_of_the_first_that_fails(self) -> None:
        fails = "[ $RANK = 1 ] && { while ! [ -e /dev/shm/fail ]; do sleep 0.05; done; %s; }; "
        with Hosts(2) as hosts:
            for how, status, said in (
                ("exit 3", 3, "ended with exit status 3"),
                ("kill -KILL $$", 137, "killed by SIGKILL"),
            ):
                launcher = Launcher(hosts, "run", "--hosts", "h1:2,h2:2", "--", "sh", "-c", fails % how + SLEEP)
                launcher.wait_for_lines(3, "sleeps\n")
                hosts.call("exec", "1", "touch", "/dev/shm/fail")
                self.assertEqual(launcher.end(), status, launcher.said)
                self.assertEqual(sorted(re.findall(r"rank (\d) is told to end", launcher.printed)), ["0", "2", "3"])
                self.assertIn(f"[h1] stretto run: rank 1 of 4: {said}; the others are ended\n", launcher.said)
                self.assert_nothing_is_left(hosts, 2)
                hosts.call("exec", "1", "rm", "/dev/shm/fail")
            for program, status in (("./no-such-program", 127), ("/etc/passwd", 126)):
                ended, _, said = call(hosts, "run", "--hosts", "h1,h2", "--", program)
                self.assertEqual(ended, status, said)
                self.assertIn(program, said)

    def test_hear_signals(self) -> None:
        script = "trap 'echo rank $RANK got %s; exit 0' %s; echo rank $RANK sleeps; while :; do sleep 0.05; done"
        with Hosts(2) as hosts:
            for name in ("INT", "TERM", "HUP"):
                launcher = Launcher(hosts, "run", "--hosts", "h1,h2:2", "--", "sh", "-c", script % (name, name))
                launcher.wait_for_lines(3, "sleeps\n")
                launcher.process.send_signal(getattr(signal, f"SIG{name}"))
                self.assertEqual(launcher.end(), 128 + getattr(signal, f"SIG{name}"), launcher.said)
                self.assertEqual(sorted(re.findall(r"rank (\d) got " + name, launcher.printed)), ["0", "1", "2"])
                own = [line for line in launcher.said.splitlines() if "stretto" in line]  # shells speak of children
                self.assertEqual(own, [f"stretto run: SIG{name} is passed on to the ranks; a second signal kills them"])
                self.assert_nothing_is_left(hosts, 2)
            deaf = Launcher(
                hosts,
                "run",
                "--hosts",
                "h1,h2",
                "--",
                "sh",
                "-c",
                "trap '' TERM; echo sleeps; while :; do sleep 0.05; done",
            )
            deaf.wait_for_lines(2, "sleeps\n")
            for _ in range(2):
                deaf.process.send_signal(signal.SIGTERM)
                deaf.wait(lambda: "is passed on" in deaf.said or deaf.process.poll() is not None, "word of a signal")
            self.assertEqual(deaf.end(), 143, deaf.said)
            self.assert_nothing_is_left(hosts, 2)

    def test_have_the_secret_which_no_other_process_shows(self) -> None:
        script = "echo secret $STRETTO_TOKEN; " + SLEEP
        with Hosts(2) as hosts:
            launcher = Launcher(hosts, "run", "--hosts", "h1,h2", "--", "sh", "-c", script)
            launcher.wait_for_lines(2, "sleeps\n")
            (secret,) = set(re.findall(r"secret ([0-9a-f]{32})\n", launcher.printed))
            for host in (0, 1, 2):
                self.assertNotIn(secret, hosts.call("exec", str(host), "ps", "-eo", "args").stdout)
                for program in ("ssh", "rsh", "stretto"):
                    shown = f"for p in $(pgrep -f {program}); do cat /proc/$p/environ; done"
                    self.assertNotIn(secret, hosts.call("exec", str(host), "sh", "-c", shown).stdout)
            launcher.process.terminate()
            self.assertEqual(launcher.end(), 143)


class EndsOnHosts(OnHosts):
    """Nothing is left on any host, whatever ends."""

    def test_the_launcher(self) -> None:
        with tempfile.TemporaryDirectory() as folder, Hosts(2) as hosts:
            for _ in range(TIMES):
                for name in ("SIGKILL", "SIGSTOP"):  # its end, and its silence
                    launcher = self.sleeping(hosts, "--liveness", "2s", rsh=self.parted(folder, hosts))
                    launcher.process.send_signal(getattr(signal, name))
                    self.assert_nothing_is_left(hosts, 2)
                    launcher.process.kill()
                    launcher.end()

    def test_the_launcher_while_it_starts(self) -> None:
        with tempfile.TemporaryDirectory() as folder, Hosts(2) as hosts:
            hangs = pathlib.Path(folder) / "hangs"
            parted = self.parted(folder, hosts)
            hangs.write_text(f'#!/bin/bash\n[ $1 = h1 ] && exec {parted} "$@"\nexec {RSH} h2 exec sleep 1000\n')
            hangs.chmod(stat.S_IRWXU)
            for name, status in (("SIGKILL", -signal.SIGKILL), ("SIGINT", 128 + signal.SIGINT)):
                launcher = Launcher(hosts, "run", "--hosts", "h1,h2", "--", "sh", "-c", SLEEP, rsh=str(hangs))
                launcher.wait(lambda: "--from-launcher" in processes_on(hosts, 1), "launcher on h1")
                launcher.wait(lambda: "sleep 1000" in processes_on(hosts, 2), "shell on h2")
                launcher.process.send_signal(getattr(signal, name))
                self.assertEqual((launcher.end(), launcher.printed), (status, ""))
                self.assert_nothing_is_left(hosts, 2)

    def test_its_terminal(self) -> None:
        with tempfile.TemporaryDirectory() as folder, Hosts(2) as hosts:
            terminal, shown = pty.openpty()
            pid = os.fork()
            if pid == 0:
                os.login_tty(shown)
                hosts.become(
                    0,
                    (
                        PROGRAM,
                        "run",
                        "--hosts",
                        "h1,h2:2",
                        "--rsh",
                        self.parted(folder, hosts),
                        "--",
                        "sh",
                        "-c",
                        SLEEP.replace("trap", ": "),
                    ),
                )
            os.close(shown)
            printed = b""
            while printed.count(b"sleeps") < 3:
                printed += os.read(terminal, 1000)
            os.close(terminal)
            _, status = os.waitpid(pid, 0)
            self.assertEqual(os.waitstatus_to_exitcode(status), 128 + signal.SIGHUP)
            self.assert_nothing_is_left(hosts, 2)

    def test_a_launcher_on_a_host(self) -> None:
        with Hosts(2) as hosts:
            for _ in range(TIMES):
                for name, why in (("KILL", "has ended before its ranks"), ("STOP", "nothing has come from it for 2 s")):
                    launcher = self.sleeping(hosts, "--liveness", "2s")
                    hosts.call("exec", "2", "pkill", f"-{name}", "-o", "-x", "stretto")
                    self.assertEqual(launcher.end(), 1, launcher.said)
                    self.assertRegex(
                        launcher.said, f"host h2 is lost, with ranks 1 to 2 of 3: .*{why}.*; the others are ended"
                    )
                    self.assertEqual(re.findall("rank 0 is told to end", launcher.printed), ["rank 0 is told to end"])
                    self.assert_nothing_is_left(hosts, 2)

    def test_the_reader_of_its_output(self) -> None:
        with Hosts(2) as hosts:
            talks = (PROGRAM, "run", "--hosts", "h1,h2", "--rsh", RSH, "--", "sh", "-c", "while :; do echo word; done")
            process = hosts.start(0, talks, {})
            process.stdout.readline()
            process.stdout.close()
            self.assertEqual(process.wait(timeout=WATCHDOG), 128 + signal.SIGPIPE)
            process.stderr.close()
            self.assert_nothing_is_left(hosts, 2)


class RefusalsOnHosts(OnHosts):
    """One line each, and nothing is left."""

    def assert_refused(self, hosts: Hosts, status: int, line: str, *options: str, **more: object) -> None:
        ended, out, said = call(hosts, "run", *options, "--", "sh", "-c", SLEEP, **more)
        self.assertEqual((ended, out), (status, ""), said)
        self.assertRegex(said, f"^stretto(?: run)?: {line}\n(?:Try .*\n)?$")
        self.assert_nothing_is_left(hosts, 2)

    def test_of_words(self) -> None:
        with Hosts(2) as hosts:
            for line, *options in (
                ("--hosts h2:0: expected HOST:N with N from 1 to 1024, as in --hosts a,b:4", "--hosts", "h1,h2:0"),
                ("--hosts h1,h1: h1 is named twice; .*", "--hosts", "h1,h1"),
                (
                    "--ranks 5 on hosts with 3: expected more behind one of them, as in h2:4",
                    "--hosts",
                    "h1,h2:2",
                    "--ranks",
                    "5",
                ),
                ("--ranks 2:5 on hosts with 3: expected more .*", "--hosts", "h1,h2:2", "--ranks", "2:5"),
                (
                    "--listen 127.0.0.1:0: other hosts .*",
                    "--hosts",
                    "h1,h2",
                    "--ranks",
                    "1:2",
                    "--listen",
                    "127.0.0.1:0",
                ),
                ("--here 2 with --hosts: expected HOST:2", "--hosts", "h1,h2", "--here", "2"),
                (
                    "--restarts 1 with --ranks 2: expected a range, as in --ranks 1:2",
                    "--hosts",
                    "h1,h2",
                    "--restarts",
                    "1",
                ),
            ):
                self.assert_refused(hosts, 2, re.escape(line).replace(r"\.\*", ".*"), *options)
            for shell, where in (("./no-shell", ""), ("no-shell", " on PATH")):
                line = f"--rsh {shell}: there is no such program{where}; expected .*, as in --rsh ssh"
                self.assert_refused(hosts, 2, line, "--hosts", "h1", rsh=shell)

    def test_of_hosts(self) -> None:
        with tempfile.TemporaryDirectory() as folder, Hosts(2) as hosts:

            def shell(text: str) -> str:
                path = pathlib.Path(folder) / "shell"
                path.write_text(f'#!/bin/bash\n[ $1 = h1 ] && exec {RSH} "$@"\n{text}\n')
                path.chmod(stat.S_IRWXU)
                return str(path)

            two = ("--hosts", "h1,h2:2")
            for text, line in (
                (
                    "echo 'Permission denied (publickey).' >&2; exit 255",
                    "host h2: .* before Stretto was ready there: ended with exit status 255: Permission denied .*",
                ),
                (
                    'echo Welcome; exec sh -c "${2//\\/bin\\/stretto/\\/bin\\/no-stretto}"',
                    "host h2: .* exit status 127: no Stretto there, neither /.*/no-stretto nor on PATH",
                ),
                (
                    "echo 'Welcome'; echo 'stretto launcher 0.1.2'; exec sleep 1000",
                    r"host h2 has Stretto 0\.1\.2, and this is \d+\.\d+\.\d+: expected the same",
                ),
                ("kill -KILL $$", "host h2: .* was ready there: killed by SIGKILL"),
            ):
                environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
                self.assert_refused(hosts, 1, line, *two, rsh=shell(text), environment=environment)
            self.assert_refused(hosts, 1, "host h9: .* there is no host 9 .*", "--hosts", "h1,h9")
            hangs = f"no answer within 1 s from h2: expected a host that lets {folder}/shell in without a question"
            self.assert_refused(hosts, 1, hangs, *two, "--rsh-timeout", "1s", rsh=shell("exec sleep 1000"))
            here = os.getcwd()
            os.chdir(folder)  # which hosts do not see
            try:
                no_folder = f"host h[12]: the folder {re.escape(folder)}, where the job was started: No such file .*"
                self.assert_refused(hosts, 1, no_folder, *two)
            finally:
                os.chdir(here)


class SshOnHosts(OnHosts):
    """By ssh itself, over the network of the hosts."""

    def setUp(self) -> None:
        sshd = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
        if sshd is None or shutil.which("ssh") is None:
            self.skipTest("no ssh")
        self.hosts = Hosts(2)
        folder = tempfile.TemporaryDirectory(dir="/var/tmp")  # which hosts see
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for key in ("of_host", "of_user", "strange"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / key], check=True)
        (self.folder / "authorized").write_text((self.folder / "of_user.pub").read_text())
        os.makedirs("/run/sshd", exist_ok=True)
        config = self.folder / "sshd"
        config.write_text(
            f"HostKey {self.folder}/of_host\nAuthorizedKeysFile {self.folder}/authorized\nStrictModes no\nUsePAM no\n"
            "PermitRootLogin yes\nPasswordAuthentication no\nPidFile none\n"
        )
        for host in (1, 2):
            server = self.hosts.start(host, (sshd, "-D", "-e", "-f", config), {})
            self.addCleanup(server.communicate)
            for line in server.stderr:
                if "listening on 0.0.0.0" in line:
                    break
        self.addCleanup(self.hosts.call, "down")  # first, with all that holds the pipes of the servers

    def ssh(self, key: str) -> str:
        config = self.folder / f"ssh_{key}"
        known = "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n"
        names = "".join(f"Host h{host}\nHostName 10.77.0.{host}\n" for host in (1, 2))
        config.write_text(f"IdentityFile {self.folder}/{key}\nIdentitiesOnly yes\n{known}{names}")
        return f"ssh -F {config}"

    def test_ranks_meet(self) -> None:
        words = ("run", "--hosts", "h1:2,h2:2", "--", LAUNCHED_RANK, "count")
        self.assertEqual(call(self.hosts, *words, rsh=self.ssh("of_user")), (0, "", ""))

    def test_nothing_is_left_where_the_launcher_is_killed(self) -> None:
        launcher = self.sleeping(self.hosts, rsh=self.ssh("of_user"))
        launcher.process.kill()
        self.assert_nothing_is_left(self.hosts, 2)
        launcher.end()

    def test_nothing_is_left_where_the_network_goes(self) -> None:
        launcher = self.sleeping(self.hosts, "--liveness", "2s", rsh=self.ssh("of_user"))
        self.hosts.cut(2)
        self.assertEqual(launcher.end(), 1)
        self.assertIn("host h2 is lost, with ranks 1 to 2 of 3: nothing has come from it for 2 s", launcher.said)
        self.assert_nothing_is_left(self.hosts, 2)

    def test_members_go_on_where_the_network_goes(self) -> None:
        batches = 1500
        options = ("--hosts", "h1:2,h2:2", "--ranks", "2:4", "--liveness", "2s")
        launcher = self.under_way(self.hosts, 4, *options, batches=batches, rsh=self.ssh("of_user"))
        self.hosts.cut(2)
        status = launcher.end()
        self.assertRegex(launcher.said, "host h2 is lost: nothing has come from it for 2 s; the others go on\n")
        result = argparse.Namespace(returncode=status, stdout=launcher.printed, stderr=launcher.said)
        self.assertEqual(loops.fault_of(result, batches), "", launcher.said)
        self.assert_nothing_is_left(self.hosts, 2)

    def test_refusals(self) -> None:
        for key, host, why in (
            ("strange", "h1", "ended with exit status 255: .*Permission denied .*"),
            ("of_user", "no-such-host.invalid", "ended with exit status 255: .*Could not resolve hostname .*"),
        ):
            status, _, said = call(self.hosts, "run", "--hosts", host, "--", "true", rsh=self.ssh(key))
            self.assertEqual(status, 1)
            self.assertRegex(said, f"^stretto run: host {host}: ssh .* was ready there: {why}\n$")


class MembersOnHosts(OnHosts):
    """Those of a job in which they change."""

    def test_go_on_without_a_host(self) -> None:
        batches = 1500
        with Hosts(3) as hosts:
            options = ("--hosts", "h1:2,h2:2,h3:2", "--ranks", "2:6", "--liveness", "2s")
            launcher = self.under_way(hosts, 6, *options, batches=batches)
            hosts.kill(3)
            status = launcher.end()
            self.assertEqual(status, 0, launcher.said)
            self.assertRegex(launcher.said, "stretto run: host h3 is lost: .*; the others go on\n")
            result = argparse.Namespace(returncode=status, stdout=launcher.printed, stderr=launcher.said)
            self.assertEqual(loops.fault_of(result, batches), "")
            self.assert_nothing_is_left(hosts, 3)

    @contextlib.contextmanager
    def register(self, folder: str, hosts: Hosts) -> Iterator[str]:
        """In etcd beside the switch."""
        if shutil.which("etcd") is None:
            self.skipTest("there is no etcd")
        at = "10.77.0.254:2379"
        urls = ("--listen-client-urls", f"http://{at}", "--advertise-client-urls", f"http://{at}")
        peers = ("--listen-peer-urls", "http://127.0.0.1:0")
        etcd = Output(hosts.start(0, ("etcd", "--data-dir", f"{folder}/data", *urls, *peers), {}))
        self.wait_until(lambda: "ready to serve client requests" in etcd.said)
        yield f"etcd://{at}/job"
        etcd.process.terminate()
        etcd.end()

    def test_go_on_without_their_launcher_by_etcd(self) -> None:
        batches = 3000
        with (
            tempfile.TemporaryDirectory(dir="/var/tmp") as folder,
            Hosts(2) as hosts,
            self.register(folder, hosts) as at,
        ):
            shell = self.parted(folder, hosts)
            options = ("--hosts", "h1:2,h2:2", "--ranks", "1:4", "--liveness", "2s", "--register", at)
            environment = {"LOOP_STEPS": f"{folder}/steps"}
            launcher = self.under_way(hosts, 4, *options, batches=batches, rsh=shell, environment=environment)
            launcher.process.kill()
            launcher.end()
            steps = pathlib.Path(folder, "steps")
            self.wait_until(lambda: steps.exists() and steps.stat().st_size >= batches)
            self.assert_nothing_is_left(hosts, 2)
            self.assertEqual(sum(steps.read_text().count(digit) for digit in "0123"), batches)
            loop = (LOOP, "eager-quorum", str(batches), "account", "10ms")
            again = Launcher(hosts, "run", *options, "--", *loop, rsh=shell, environment=environment)
            self.assertEqual(again.end(), 0, again.said)
            self.assertIn(f"the job of the register {at} has ended\n", again.said)

    def test_end_where_too_few_are_left(self) -> None:
        with Hosts(2) as hosts:
            launcher = self.under_way(hosts, 2, "--hosts", "h1,h2", "--ranks", "1:2")
            hosts.kill(1)
            hosts.kill(2)
            self.assertEqual(launcher.end(), 1, launcher.said)

    def test_hear_signals(self) -> None:
        with Hosts(2) as hosts:
            launcher = self.under_way(hosts, 2, "--hosts", "h1,h2", "--ranks", "1:2")
            launcher.process.send_signal(signal.SIGINT)
            self.assertEqual(launcher.end(), 130, launcher.said)
            self.assert_nothing_is_left(hosts, 2)

    def test_train(self) -> None:
        with Hosts(2) as hosts:
            status, out, said = call(
                hosts, "train", "--hosts", "h1:2,h2", "--ranks", "1:3", "hyperplane", "--epochs", "2"
            )
            self.assertEqual(status, 0, said)
            made, applied = map(int, re.search(r"deposits: (\d+) made, (\d+) applied, 0 pending", out).groups())
            self.assertEqual(made, applied)

    def test_train_by_etcd(self) -> None:
        with tempfile.TemporaryDirectory() as folder, Hosts(2) as hosts, self.register(folder, hosts) as at:
            options = ("--hosts", "h1:2,h2", "--ranks", "1:3", "--register", at)
            for time_started in range(2):  # the second one finds what the ranks have reported
                status, out, said = call(hosts, "train", *options, "hyperplane", "--epochs", "2")
                self.assertEqual(status, 0, said)
                made, applied = map(int, re.search(r"deposits: (\d+) made, (\d+) applied, 0 pending", out).groups())
                self.assertEqual(made, applied)
                self.assertEqual(time_started == 1, f"the job of the register {at} has ended\n" in said)


if __name__ == "__main__":
    unittest.main()
