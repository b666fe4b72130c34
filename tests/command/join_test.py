"""`stretto run --ranks MIN:MAX --listen`: processes that come to a running job, and members that are sent away."""

import json
import os
import pathlib
import re
import signal
import socket
import stat
import subprocess
import tempfile
import threading
import time

from members_test import LOOP, WATCHDOG, Traces, ranks_of
from program import STRETTO, ProgramTest, children_of, main, stretto, wait_until

LONG = "4000000"  # batches: more than a test lasts
ADDRESS = re.compile(r"others come by: stretto join (127\.0\.0\.1:\d+)(?:, with the secret in (\S+))?\n")


class Job:
    """One that others may come to, and what it has said."""

    def __init__(self, ranks, *program, options=(), environment=None, listen="127.0.0.1:0"):
        self.traces = Traces()
        self.environment = {**self.traces.environment, **(environment or {})}
        self._folder = tempfile.TemporaryDirectory()
        self._said = pathlib.Path(self._folder.name) / "said"
        with self._said.open("w", encoding="utf-8") as said:
            self.process = subprocess.Popen([STRETTO, *self.command(ranks, "--listen", listen, *options, program=program)],
                                            stdout=subprocess.PIPE, stderr=said, text=True, env=self.environment)
        wait_until(lambda: ADDRESS.search(self.said()) or self.process.poll() is not None)
        self.address, self.secret = ADDRESS.search(self.said()).groups()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()  # its guard ends the ranks
        self.process.communicate(timeout=WATCHDOG)
        self._folder.cleanup()
        if self.secret:
            pathlib.Path(self.secret).unlink(missing_ok=True)

    @staticmethod
    def command(ranks, *options, program):
        return ["run", "--ranks", ranks, *options, "--", *program]

    def said(self):
        return self._said.read_text(encoding="utf-8")

    def end(self):
        """Exit status and standard output."""
        printed, _ = self.process.communicate(timeout=WATCHDOG)
        return self.process.returncode, printed

    def stretto(self, command, *arguments, **options):
        return stretto(command, self.address, *arguments, **{"env": self.environment, **options})

    def start_join(self, *arguments):
        return subprocess.Popen([STRETTO, "join", self.address, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, env=self.environment)

    def look(self):
        return json.loads(self.stretto("members", "--json").stdout)

    def wait_for_members(self, *numbers):
        wait_until(lambda: {member["member"] for member in self.look()["members"]} == set(numbers))


class Stranger:
    """Something else that listens: it says some words to whoever comes, and waits."""

    def __init__(self, words):
        self._server = socket.create_server(("127.0.0.1", 0))
        self._words, self._guests = words, []
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        try:
            while True:
                self._guests.append(self._server.accept()[0])
                self._guests[-1].sendall(self._words)
        except OSError:  # it is closed
            pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for one in (*self._guests, self._server):
            one.close()


class Joining(ProgramTest):
    def test_processes_come_and_are_sent_away(self):
        for algorithm in "sync", "eager-quorum":
            with self.subTest(algorithm=algorithm), Job("1:3", LOOP, algorithm, LONG, options=["--here", "2"]) as job:
                job.wait_for_members(0, 1)
                join = job.start_join()  # the job's program
                job.wait_for_members(0, 1, 2)
                result = job.stretto("leave", "1")
                self.assertEqual(result.stdout, "member 1 has left\n", result.stderr)
                self.assertEqual({member["member"] for member in job.look()["members"]}, {0, 2})
                self.assertEqual(job.look()["left"], [1])
                self.assertIn("stretto run: rank 1 has left\n", job.said())
                join.send_signal(signal.SIGTERM)
                said = join.communicate(timeout=WATCHDOG)[1]
                self.assertEqual(join.returncode, 0, said)
                self.assertIn("stretto join: rank 2 has left\n", said)
                job.wait_for_members(0)

    def test_all_come_to_the_end_together(self):
        with Job("1:4", LOOP, "sync", "20000", options=["--here", "0"]) as job:
            join = job.start_join("--here", "2")
            alone = subprocess.Popen([LOOP, "sync", "20000"], stdout=subprocess.PIPE, text=True,
                                     env={**job.environment, "STRETTO_REGISTER": job.address})
            status, printed = job.end()
            self.assertEqual((status, printed), (0, ""), job.said())
            numbers = re.findall(r"applied 20000, (numbers .*), equal", join.communicate(timeout=WATCHDOG)[0])
            numbers += re.findall(r"applied 20000, (numbers .*), equal", alone.communicate(timeout=WATCHDOG)[0])
            self.assertEqual((join.returncode, alone.returncode), (0, 0))
            self.assertEqual(len(numbers), 3)
            self.assertEqual(len(set(numbers)), 1)
            self.assertFalse(pathlib.Path(job.secret).exists())
            self.assertEqual(job.traces.left(), set())

    def test_one_that_has_not_come_when_the_job_ends(self):
        with Job("1:2", LOOP, "sync", "8000", options=["--here", "1"]) as job:
            join = job.start_join("--here", "2", "--", "sh", "-c", f"[ $RANK = 1 ] && exec {LOOP} sync 8000; exec sleep 1000")
            self.assertEqual(job.end()[0], 0, job.said())
            said = join.communicate(timeout=WATCHDOG)[1]
            self.assertEqual((join.returncode, said),
                             (0, "stretto join: rank 2 has not come to the job, which has ended: it is ended, too\n"))

    def test_a_master_that_listens_at_all_addresses(self):
        # As though others reached the loopback interface, whose address is said: those that come by it stand beside these.
        with Job("1:3", LOOP, "sync", LONG, options=["--here", "1"], listen="0.0.0.0:0", environment={"STRETTO_INTERFACE": "lo"}) as job:
            job.wait_for_members(0)
            join = job.start_join()
            job.wait_for_members(0, 1)
            join.send_signal(signal.SIGTERM)
            said = join.communicate(timeout=WATCHDOG)[1]
            self.assertEqual(join.returncode, 0, said)

    def test_spares_wait_for_a_place(self):
        with Job("2:2", LOOP, "eager-quorum", LONG, options=["--here", "3"]) as job:
            wait_until(lambda: len(job.look()["members"]) == 2 and len(job.look()["spares"]) == 1)
            [spare] = job.look()["spares"]
            first = job.look()["members"][0]["member"]
            self.assertEqual(job.stretto("leave", str(first)).stdout, f"member {first} has left\n")
            wait_until(lambda: spare in {member["member"] for member in job.look()["members"]})
            self.assertEqual(job.look()["spares"], [])

    def test_a_spare_that_is_told_to_go_leaves_at_once(self):
        with Job("1:2", LOOP, "sync", LONG) as job:
            job.wait_for_members(0, 1)
            join = job.start_join()
            wait_until(lambda: job.look()["spares"] == [2])
            join.send_signal(signal.SIGTERM)
            said = join.communicate(timeout=WATCHDOG)[1]
            self.assertEqual(join.returncode, 0, said)
            wait_until(lambda: job.look()["spares"] == [])

    def test_one_that_comes_late_by_an_early_number(self):
        with Job("1:3", LOOP, "sync", LONG, options=["--here", "1"]) as job:
            with tempfile.TemporaryDirectory() as folder:
                late = job.start_join("--", "sh", "-c", f"while [ ! -f {folder}/go ]; do sleep 0.05; done; "
                                                        f"exec {LOOP} sync {LONG}")
                wait_until(lambda: len(children_of(late.pid)) == 2)  # its guard, and a process, which has its number
                other = job.start_join()
                job.wait_for_members(0, 2)
                pathlib.Path(folder, "go").touch()
                job.wait_for_members(0, 1, 2)
                for join in late, other:
                    join.send_signal(signal.SIGTERM)
                    join.communicate(timeout=WATCHDOG)

    def test_a_lost_process_of_a_join_is_replaced_from_there(self):
        with Job("1:3", LOOP, "sync", LONG, options=["--here", "1"]) as job:
            job.wait_for_members(0)
            join = job.start_join("--restarts", "1")
            job.wait_for_members(0, 1)
            os.kill(ranks_of(join)[0], signal.SIGKILL)
            job.wait_for_members(0, 2)
            os.kill(ranks_of(join)[0], signal.SIGKILL)
            said = join.communicate(timeout=WATCHDOG)[1]
            self.assertEqual(join.returncode, 128 + signal.SIGKILL)
            self.assertIn("is lost: killed by SIGKILL; another process takes its place, as member 2\n", said)
            job.wait_for_members(0)

    def test_a_program_that_raises_at_once(self):
        with Job("1:3", LOOP, "sync", LONG, options=["--here", "1"]) as job:
            job.wait_for_members(0)
            result = job.stretto("join", "--restarts", "2", "--", "sh", "-c", "exit 7")
            self.assertEqual(result.returncode, 7, result.stderr)
            self.assertEqual(result.stderr.count("ended with exit status 7"), 3)
            self.assertEqual((job.look()["members"][0]["member"], job.look()["epoch"], job.look()["spares"]), (0, 1, []))

    def test_a_join_that_is_killed_takes_its_processes_along(self):
        with Job("1:3", LOOP, "sync", LONG, options=["--here", "1"]) as job:
            job.wait_for_members(0)
            join = job.start_join("--here", "2")
            job.wait_for_members(0, 1, 2)
            join.kill()
            join.communicate(timeout=WATCHDOG)
            job.wait_for_members(0)

    def test_the_launcher_of_the_job_is_killed(self):
        for algorithm in "sync", "eager-quorum", "wagma":
            for end in signal.SIGKILL, signal.SIGTERM:  # one kills its ranks, by the other they may leave first
                with self.subTest(algorithm=algorithm, end=end), \
                        Job("1:4", LOOP, algorithm, LONG, options=["--here", "2"]) as job:
                    job.wait_for_members(0, 1)
                    join = job.start_join("--here", "2")
                    job.wait_for_members(0, 1, 2, 3)
                    job.process.send_signal(end)
                    said = join.communicate(timeout=WATCHDOG)[1]  # they wait in a round, or for a batch
                    self.assertEqual(join.returncode, 1, said)
                    self.assertIn("the master of the job is lost", said)

    def test_too_few_wait_with_patience(self):
        begin = time.monotonic()
        with Job("2:3", LOOP, "sync", LONG, "1:20", "2:20", options=["--patience", "1s"]) as job:
            status, _ = job.end()
            self.assertEqual(status, 1, job.said())
            self.assertIn("too few of its members were left", job.said())
            self.assertGreater(time.monotonic() - begin, 1)
        with Job("2:3", LOOP, "sync", LONG, "1:20", "2:20") as job:
            wait_until(lambda: job.said().count("the others go on") == 2)
            join = job.start_join()
            job.wait_for_members(0, 3)
            join.send_signal(signal.SIGTERM)
            join.communicate(timeout=WATCHDOG)


class Secrets(ProgramTest):
    def test_the_file_is_its_users_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            file = f"{folder}/secret"
            with Job("1:2", LOOP, "sync", LONG, options=["--token-file", file]) as job:
                self.assertEqual(job.secret, file)
                self.assertEqual(stat.S_IMODE(os.stat(file).st_mode), 0o600)
                self.assertIn("the secret of the job is not known", job.stretto("members").stderr)
                self.assert_succeeds(job.stretto("members", "--token-file", file))
                os.chmod(file, 0o640)
                self.assertIn("other users may read", job.stretto("members", "--token-file", file).stderr)
                pathlib.Path(folder, "empty").touch(0o600)
                self.assertIn("is empty", job.stretto("members", "--token-file", f"{folder}/empty").stderr)
                other = {**job.environment, "STRETTO_TOKEN": "another"}
                result = job.stretto("members", env=other)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertIn("no master with this secret listens at", result.stderr)

    def test_one_that_people_have_made_up(self):
        with Job("1:2", LOOP, "sync", LONG, environment={"STRETTO_TOKEN": "open sesame"}) as job:
            self.assertIsNone(job.secret)
            job.wait_for_members(0, 1)

    def test_a_file_that_cannot_be_written(self):
        result = stretto("run", "--ranks", "1:2", "--listen", "0", "--token-file", "/nowhere/secret", "--", "true")
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(result.stderr, "stretto run: cannot write /nowhere/secret: No such file or directory\n")


class BadInput(ProgramTest):
    def test_options(self):
        for arguments, said in (
            (("--ranks", "2", "--listen", "0"), "--listen with --ranks 2: expected a range, as in --ranks 1:2"),
            (("--ranks", "2", "--here", "2"), "--here 2 with --ranks 2: expected a range, as in --ranks 1:2"),
            (("--ranks", "2", "--patience", "2s"), "--patience with --ranks 2: expected a range, as in --ranks 1:2"),
            (("--ranks", "1:2", "--token-file", "x"), "--token-file without --listen: expected both, since nobody else "
                                                      "needs the secret"),
            (("--ranks", "2:3", "--here", "1"), "--here 1 of at least 2 ranks, and nobody else comes: expected more, or "
                                                "--listen"),
            (("--ranks", "1:2", "--listen", "fd77::1:4"), "--listen fd77::1:4: expected HOST:PORT or PORT, as in 10.0.0.1:29400"),
            (("--ranks", "1:2", "--listen", "somewhere:4"), "'somewhere' is no address: expected one of this host's, which "
                                                            "are "),
            (("--ranks", "1:2", "--listen", "65536"), "--listen 65536: expected HOST:PORT or PORT, as in 10.0.0.1:29400"),
        ):
            with self.subTest(arguments=arguments):
                self.assert_rejected(stretto("run", *arguments, "--", "true"), f"stretto run: {said}")

    def test_nobody_listens_or_somebody_else(self):
        environment = {**os.environ, "STRETTO_TOKEN": "x"}
        self.assertRegex(stretto("join", "1", "--", "true", env=environment).stderr,
                         r"the master of the job at port 1 cannot be reached: Connection refused")
        for words, why in ((b"SSH-2.0-OpenSSH_9.2\r\n", "its master's word cannot be read: it is no object of JSON"),
                           (b"HTTP/1.0 400 Bad Request\r\n\r\n", "its master's word cannot be read: it is no object of JSON"),
                           (b"", "it has not answered within 10s")):
            for command, *rest in (("members",), ("leave", "1"), ("join", "--", "true"))[: 3 if words else 1]:
                with self.subTest(words=words, command=command), Stranger(words) as stranger:
                    address = f"127.0.0.1:{stranger.port}"
                    result = stretto(command, address, *rest, env=environment)
                    self.assertEqual(result.stderr, f"stretto {command}: no master with this secret listens at {address}: {why}; "
                                                    "expected the address that stretto run --ranks MIN:MAX --listen has said, and the secret of "
                                                    "that job\n")
                    self.assertEqual((result.returncode, result.stdout), (2, ""))

    def test_the_master_of_another_job(self):
        with Job("1:2", LOOP, "sync", LONG) as job, Job("1:2", LOOP, "sync", LONG) as other:
            file = ("--token-file", other.secret)
            for result in job.stretto("join", *file, "--", "true"), job.stretto("members", *file), job.stretto("leave", *file, "1"):
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertIn(f"no master with this secret listens at {job.address}: it has ended the connection without a word, as with another secret; "
                              "expected", result.stderr)
            job.wait_for_members(0, 1)
            other.wait_for_members(0, 1)

    def test_a_job_that_is_over(self):
        with Job("1:2", LOOP, "sync", "200", environment={"STRETTO_TOKEN": "x"}) as job:
            job.end()
            result = job.stretto("join")
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(f"the master of the job at {job.address} cannot be reached: Connection refused", result.stderr)

    def test_a_job_whose_members_stay_the_same(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
        meeting = {**os.environ, "STRETTO_MEETING": address, "STRETTO_INTERFACE": "lo", "STRETTO_TOKEN": "x", "STRETTO_RANKS": "2"}
        def start(rank):
            return subprocess.Popen([STRETTO, "train", "vowels", "--steps", "5"], env={**meeting, "STRETTO_RANK": str(rank)},
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        ranks = [start(0)]
        wait_until(lambda: "cannot be reached" not in stretto("members", address, env=meeting).stderr)
        result = stretto("join", address, "--", "true", env={**os.environ, "STRETTO_TOKEN": "x"})
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn(f"no master with this secret listens at {address}: it has ended the connection without a word, as with another "
                      "secret; expected the address that stretto run --ranks MIN:MAX --listen has said", result.stderr)
        ranks.append(start(1))
        for rank in ranks:  # who has come has not disturbed them
            said = rank.communicate(timeout=WATCHDOG)[1]
            self.assertEqual(rank.returncode, 0, said)

    def test_a_port_that_is_taken(self):
        with Job("1:2", LOOP, "sync", LONG) as job:
            result = stretto("run", "--ranks", "1:2", "--listen", job.address, "--", "true", env=job.environment)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn("Address already in use", result.stderr)

    def test_who_is_sent_away(self):
        with Job("1:2", LOOP, "sync", LONG) as job:
            job.wait_for_members(0, 1)
            host = job.look()["members"][0]["host"]
            for member, said in (("7", f"member '7' is not in the job: expected one of its members, which are 0 on {host}, "
                                       f"1 on {host}"),
                                 ("elsewhere", f"host 'elsewhere' is not in the job: expected one of its members, which are "
                                               f"0 on {host}, 1 on {host}"),
                                 (host, f"'{host}' means all members of the job: end it where it was started")):
                self.assertEqual(job.stretto("leave", member).stderr, f"stretto leave: {said}\n")

    def test_more_than_there_are_places_for(self):
        with Job("1:2", LOOP, "sync", LONG) as job:
            result = job.stretto("join", "--here", "3")
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn("all of the 4 places of the job are taken", result.stderr)

    def test_one_that_does_not_fit(self):
        with Job("1:3", LOOP, "sync", LONG, options=["--here", "1"]) as job:
            job.wait_for_members(0)
            result = job.stretto("join", "--", LOOP, "eager-quorum", LONG)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertRegex(result.stderr, "member 1 differs from member 0 in its options")
            job.wait_for_members(0)
            result = job.stretto("join", "--", LOOP, "sync", "777")
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn(f"its batches are not those of the job: 777 in all, and of the job {LONG}", result.stderr)
            job.wait_for_members(0)

    def test_several_ranks_of_one_launcher(self):
        environment = {**os.environ, "STRETTO_REGISTER": "29400", "WORLD_SIZE": "2", "RANK": "0"}
        result = subprocess.run([LOOP, "sync", "9"], env=environment, capture_output=True, text=True, check=False)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("expected a launcher of its own for each, as in torchrun --nproc-per-node 1", result.stderr)


if __name__ == "__main__":
    main()
