"""`stretto run --ranks MIN:MAX`: ranks of a loop of one's own that are lost, and processes that take their places."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import uuid

from program import STRETTO, ProgramTest, alive, children_of, main, stretto, wait_until

sys.path.append(str(pathlib.Path(__file__).parent.parent / "members"))
import loops  # noqa: E402

LOOP = STRETTO.parent / "loop_of_members"
BATCHES = 900
WATCHDOG = 100  # seconds; what is tested takes a second or two
LINE = loops.LINE
PLACE = "/".join(["127.0.0.1:40123", "0", "0", "4", "0", "0" * 32])


def run(ranks, *program, restarts=None, **options):
    return stretto("run", "--ranks", ranks, *([] if restarts is None else ["--restarts", restarts]), "--", *program,
                   **options)


class Traces:
    """What a job has left behind: other tests, which run at the same time, leave theirs."""

    def __init__(self):
        self._mark = f"MARK_OF_A_TEST={uuid.uuid4()}"
        self._named = self._names()
        name, value = self._mark.split("=")
        self.environment = {**os.environ, name: value}  # by which the processes of the job are known

    @staticmethod
    def _names():
        return {name for name in os.listdir("/dev/shm") if re.match("stretto(?!-fuzz-)", name)}

    def left(self):
        found = self._names() - self._named
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if self._mark.encode() in (process / "environ").read_bytes():
                    found.add(process.name)
            except OSError:  # it has ended
                pass
        return found


def ranks_of(job):
    """The processes of the program that a command has started."""
    def is_one(process):
        try:
            return pathlib.Path(f"/proc/{process}/cmdline").read_text(encoding="ascii").startswith(f"{LOOP}\0")
        except OSError:
            return False
    return [process for process in children_of(job.pid) if is_one(process)]


def num_threads(process):
    return len(os.listdir(f"/proc/{process}/task"))


class Members(ProgramTest):
    def train(self, ranks, algorithm, *deaths, restarts=None):
        """Members that are there at the end, and after how many batches each has begun; what the command has said."""
        traces = Traces()
        result = run(ranks, LOOP, algorithm, BATCHES, *deaths, restarts=restarts, env=traces.environment)
        self.assert_succeeds(result)
        members = [LINE.fullmatch(line) for line in result.stdout.splitlines()]
        self.assertNotIn(None, members, result.stdout)
        self.assertEqual({int(member[3]) for member in members}, {BATCHES})
        self.assertEqual(len({member[4] for member in members}), 1, result.stdout)  # to the bit
        self.assertEqual(traces.left(), set())
        return {int(member[1]): int(member[2]) for member in members}, result.stderr

    def test_the_others_go_on(self):
        for algorithm in "sync", "eager-quorum", "eager-solo", "eager-deadline:2,1ms":
            with self.subTest(algorithm=algorithm):
                members, said = self.train("1:4", algorithm, "1:40", "2:41")
                self.assertEqual(members, {0: 0, 3: 0})
                self.assertEqual(said.count("is lost: killed by SIGKILL; the others go on"), 2)

    def test_another_process_takes_the_place_of_a_lost_one(self):
        for algorithm in "sync", "eager-quorum", "eager-solo":
            with self.subTest(algorithm=algorithm):
                members, said = self.train("1:4", algorithm, "1:40", "2:60", restarts=2)
                self.assertEqual(set(members), {0, 3, 4, 5})
                self.assertGreater(members[4], 0)
                self.assertGreater(members[5], 0)
                self.assertEqual(said.count("is lost: killed by SIGKILL; another process takes its place, as member "), 2)

    def test_processes_that_come_are_lost_too(self):
        members, _ = self.train("1:3", "eager-quorum", "1:20", "3:5", "4:1", "5:20", restarts=4)
        self.assertEqual(set(members), {0, 2, 6})

    def test_all_that_were_there_first_may_go(self):
        members, _ = self.train("1:2", "sync", "0:60", "1:120", restarts=2)
        self.assertEqual(set(members), {2, 3})

    def test_one_that_does_not_fit_is_refused_and_the_others_go_on(self):
        members, said = self.train("1:3", "eager-quorum", "1:40", "3=2", restarts=2)
        self.assertEqual(set(members), {0, 2, 4})
        self.assertRegex(said, r"member 3 differs from member \d in its options: .* max-lag=2 .* max-lag=4")

    def test_one_of_the_first_that_does_not_fit(self):
        members, said = self.train("1:3", "eager-quorum", "2=2")
        self.assertEqual(members, {0: 0, 1: 0})
        self.assertIn("member 2 differs from member 0 in its options", said)

    def test_too_few_are_left(self):
        result = run("2:3", LOOP, "sync", BATCHES, "1:20", "2:40")
        self.assertEqual(result.returncode, 128 + signal.SIGKILL, result.stderr)
        self.assertIn("killed by SIGKILL; the others go on", result.stderr)
        self.assertRegex(result.stderr, "rank [12] of 3: killed by SIGKILL(; the others are ended)?\\n")

    def test_a_program_that_raises_at_once_uses_the_restarts_up(self):
        for _ in range(20):  # ranks end while others are started
            result = run("1:4", "false", restarts=5)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertEqual(re.findall("another process takes its place, as member (.*)", result.stderr), list("45678"))
            self.assertRegex(result.stderr.splitlines()[-1], r"rank \d( \(member \d\))? of 4: ended with exit status 1")

    def test_nobody_is_left_who_has_the_model(self):
        result = run("1:1", LOOP, "sync", BATCHES, "0:20", restarts=3)
        self.assertEqual(result.returncode, 128 + signal.SIGKILL, result.stderr)
        self.assertEqual(result.stderr, "stretto run: rank 0 of 1: killed by SIGKILL; the job is over: nobody is left who "
                                        "has its model\n")

    def test_the_program_is_gone_when_another_process_is_to_be_started(self):
        for ranks, status, then in ("1:2", 0, "; the others go on"), ("2:2", 7, "; the others are ended"):
            with self.subTest(ranks=ranks), tempfile.TemporaryDirectory() as folder:
                program = pathlib.Path(folder) / "program"
                program.write_text("#!/bin/sh\nwait_for() { while [ ! -f $1 ]; do sleep 0.01; done; }\n"
                                   "if [ $RANK = 0 ]; then wait_for $0.here; rm $0; touch $0.gone; exit 7; fi\n"
                                   "touch $0.here; wait_for $0.gone; sleep 1\n", encoding="ascii")
                program.chmod(0o755)
                result = run(ranks, program, restarts=2)
                self.assertEqual(result.returncode, status, result.stderr)
                self.assertIn(f"no process takes the place of rank 0: {program}: there is no such program{then}\n",
                              result.stderr)

    def test_ranks_that_end_before_all_have_been_started(self):
        for _ in range(10):
            result = run("1:5", "sh", "-c", "[ $RANK = 4 ] || exit 7; sleep 0.5")
            self.assert_succeeds(result)
            self.assertEqual(result.stderr.count("ended with exit status 7; the others go on"), 4)

    def test_one_that_returns_without_finish(self):
        for algorithm in "sync", "eager-quorum", "wagma-quorum":
            for restarts in None, 2:  # none takes its place: it has not failed
                with self.subTest(algorithm=algorithm, restarts=restarts):
                    members, said = self.train("1:3", algorithm, "1.40", restarts=restarts)
                    self.assertEqual(members, {0: 0, 2: 0})
                    self.assertEqual(said, "stretto run: rank 1 has ended before the job, which goes on without it\n")

    def test_two_processes_in_one_place(self):
        result = run("2:2", "sh", "-c", f"{LOOP} sync 300 & {LOOP} sync 300; wait")
        self.assert_succeeds(result)
        self.assertEqual(result.stdout.count("applied 300"), 2)
        for rank in range(2):
            self.assertIn(f"this process is not let in: member {rank} is another process, which is there", result.stderr)

    def test_one_that_has_not_come_when_the_others_have_reached_the_end(self):
        for stay, then in (("exec sleep 1000", ""), ("trap '' TERM; sleep 1000", "stretto run: rank 2 had not ended: killed\n")):
            with self.subTest(stay=stay):  # a spare, since nobody waits for it at the beginning
                traces = Traces()
                result = stretto("run", "--ranks", "1:2", "--here", "3", "--grace", "1s", "--", "sh", "-c",
                                 f"[ $RANK = 2 ] || exec {LOOP} sync 300; {stay}", env=traces.environment)
                self.assert_succeeds(result)
                self.assertEqual(result.stdout.count("applied 300"), 2)
                self.assertEqual(result.stderr, "stretto run: rank 2 has not come to the job, which has ended: it is ended, too\n"
                                                + then)
                self.assertEqual(traces.left(), set())

    def test_members_that_are_none_of_these_processes(self):
        # The number of the process itself has not come when the job has ended.
        other = f'trap "" TERM; IFS=/; set -- $STRETTO_MEMBER; STRETTO_MEMBER=$1/$(($2 + 77))/$3/$4/$5/$6 exec {LOOP} sync 300 77:20'
        result = run("1:2", "sh", "-c", other)
        self.assert_succeeds(result)
        self.assertIn("member 78 began after 0, applied 300,", result.stdout)

    def test_a_signal_ends_the_job(self):
        job = subprocess.Popen([STRETTO, "run", "--ranks", "1:3", "--restarts", "5", "--", LOOP, "sync", "1000000"],
                               stderr=subprocess.PIPE, text=True)
        wait_until(lambda: len(ranks_of(job)) == 3)
        time.sleep(0.5)
        job.send_signal(signal.SIGTERM)
        _, said = job.communicate(timeout=WATCHDOG)
        self.assertEqual(job.returncode, 128 + signal.SIGTERM, said)
        self.assertNotIn("takes its place", said)

    def test_one_is_killed_from_outside(self):
        job = subprocess.Popen([STRETTO, "run", "--ranks", "2:3", "--", LOOP, "sync", "3000"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
        wait_until(lambda: len(ranks_of(job)) == 3 and all(num_threads(rank) > 1 for rank in ranks_of(job)))
        os.kill(ranks_of(job)[1], signal.SIGKILL)
        printed, said = job.communicate(timeout=WATCHDOG)
        self.assertEqual(job.returncode, 0, said)
        self.assertRegex(said, "rank \\d is lost: killed by SIGKILL; the others go on")
        self.assertEqual(printed.count("applied 3000"), 2)

    def test_nothing_is_left_where_the_command_is_killed(self):
        traces = Traces()
        job = subprocess.Popen([STRETTO, "run", "--ranks", "1:3", "--restarts", "5", "--", LOOP, "sync", "1000000", "1:20"],
                               env=traces.environment, stderr=subprocess.PIPE, text=True)
        while "as member 3" not in job.stderr.readline():
            self.assertIsNone(job.poll())
        wait_until(lambda: len(ranks_of(job)) == 3)
        self.assertGreaterEqual(len(traces.left()), 4)  # the command and the ranks
        job.kill()
        job.communicate(timeout=WATCHDOG)
        wait_until(lambda: not traces.left())

    def test_ranks_get_no_descriptor_of_the_command(self):
        self.assertEqual(run("1:1", "ls", "/proc/self/fd").stdout, run("1", "ls", "/proc/self/fd").stdout)

    def test_programs_that_are_none_of_stretto(self):
        result = run("1:3", "true")
        self.assert_succeeds(result)
        self.assertIn("no rank has come to the job, whose members may change: was --ranks 3 meant?", result.stderr)


OPTIMIZER = STRETTO.parent / "optimizer_of_members"
OPTIMIZERS_LINE = re.compile(r"member (\d+): among(.*), 3000 applied, (rate .*), equal")


class Optimizers(ProgramTest):
    def test_one_that_comes_takes_over_schedulers_and_registered_states(self):
        result = run("1:3", OPTIMIZER, "4", "1:30", "3:10", restarts=2)
        self.assertEqual(result.returncode, 0, result.stderr)
        members = {int(line[1]): line for line in map(OPTIMIZERS_LINE.fullmatch, result.stdout.splitlines()) if line}
        self.assertEqual(set(members), {0, 2, 4}, result.stdout + result.stderr)
        self.assertEqual(len({line[3] for line in members.values()}), 1, result.stdout)  # to the bit
        rate = float.fromhex(members[4][3].split(",")[0].removeprefix("rate "))
        self.assertLess(rate, 1e-3)
        self.assertEqual(members[0][2].split()[0], "3")  # ranks of its first world

    def test_one_that_comes_has_read_a_later_checkpoint_than_the_job_began_with(self):
        with tempfile.TemporaryDirectory() as folder:
            result = run("3:3", OPTIMIZER, "0", "1:400", folder + "/")  # ends with its first loss
            self.assertNotEqual(result.returncode, 0, result.stderr)
            result = run("1:3", OPTIMIZER, "3", "1:60", folder + "/", restarts=1)
            self.assertEqual(result.returncode, 0, result.stderr)
            members = {int(line[1]): line for line in map(OPTIMIZERS_LINE.fullmatch, result.stdout.splitlines()) if line}
            self.assertEqual(set(members), {0, 2, 3}, result.stdout + result.stderr)
            self.assertEqual(len({line[3] for line in members.values()}), 1, result.stdout)  # to the bit


class Stopped(ProgramTest):
    """Ranks that stand still for longer than others like to wait."""

    def train(self, *options, until):
        """`until(rank, said)`: the process that is stopped goes on then. Members at the end, and what the command has said."""
        with tempfile.NamedTemporaryFile("r+", encoding="utf-8") as errors:
            def said():
                return pathlib.Path(errors.name).read_text(encoding="utf-8")
            job = subprocess.Popen([STRETTO, "run", "--ranks", "2:3", "--restarts", "1", *options, "--", LOOP, "sync", "20000"],
                                   stdout=subprocess.PIPE, stderr=errors, text=True)
            # Of each the main thread, that of its line to the master, and that of its world.
            wait_until(lambda: len(ranks_of(job)) == 3 and all(num_threads(rank) > 2 for rank in ranks_of(job)))
            rank = ranks_of(job)[1]
            os.kill(rank, signal.SIGSTOP)
            wait_until(lambda: until(rank, said()))
            try:
                os.kill(rank, signal.SIGCONT)
            except ProcessLookupError:
                pass
            printed, _ = job.communicate(timeout=WATCHDOG)
            self.assertEqual(job.returncode, 0, said())
            lines = [LINE.fullmatch(line) for line in printed.splitlines()]
            self.assertEqual(len({line[4] for line in lines}), 1, printed)
            return {int(line[1]) for line in lines}, said()

    def test_one_is_waited_for(self):
        end = time.monotonic() + 4
        members, said = self.train(until=lambda _, __: time.monotonic() > end)
        self.assertEqual(members, {0, 1, 2})
        self.assertEqual(said, "")

    def test_one_is_excluded(self):
        members, said = self.train("--evict", "2s", until=lambda rank, _: not alive(rank))
        self.assertEqual(members, {0, 2, 3})
        self.assertIn("stretto run: member 1 is excluded: the others have waited for 2s\n", said)
        self.assertIn("rank 1 is lost: killed by SIGKILL; another process takes its place, as member 3\n", said)

    def test_one_that_is_excluded_for_good(self):
        members, said = self.train("--evict", "2s", "--no-return", until=lambda rank, _: not alive(rank))
        self.assertEqual(members, {0, 2})
        self.assertIn("rank 1 is lost: killed by SIGKILL; no process takes its place\n", said)

    def test_one_that_goes_on_after_it_was_excluded_does_nothing(self):
        members, said = self.train("--evict", "2s", until=lambda _, said: "is excluded" in said)
        self.assertEqual(members, {0, 2, 3})
        self.assertIn("the others have gone on without member 1\n", said)


class Leaving(ProgramTest):
    """Ranks that are told to leave, by SIGTERM."""

    def train(self, ranks, algorithm, *fates, restarts=None):
        """What the command has said of a job in which no batch is handed over twice, or lost."""
        traces = Traces()
        result = run(ranks, LOOP, algorithm, BATCHES, "account", *fates, restarts=restarts, env=traces.environment)
        self.assert_succeeds(result)
        self.assertEqual(loops.fault_of(result), "", result.stdout + result.stderr)
        self.assertEqual(traces.left(), set())
        return result.stderr

    def test_one_that_is_told_from_outside(self):
        for rank in 0, 1, 2:
            with self.subTest(rank=rank):
                job = subprocess.Popen([STRETTO, "run", "--ranks", "2:3", "--restarts", "3", "--", LOOP, "sync", "1500"],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                wait_until(lambda: len(ranks_of(job)) == 3 and all(num_threads(rank) > 1 for rank in ranks_of(job)))
                os.kill(ranks_of(job)[rank], signal.SIGTERM)
                printed, said = job.communicate(timeout=WATCHDOG)
                self.assertEqual(job.returncode, 0, said)
                self.assertRegex(said, r"\Astretto run: rank \d has left\n\Z")  # and none takes its place
                self.assertEqual(printed.count("applied 1500"), 2)

    def test_the_others_go_on(self):
        for algorithm in "sync", "eager-quorum", "eager-solo", "eager-majority", "eager-deadline:2,1ms":
            with self.subTest(algorithm=algorithm):
                self.assertEqual(self.train("1:4", algorithm, "1/40"), "stretto run: rank 1 has left\n")

    def test_two_at_once(self):
        for algorithm in "sync", "eager-quorum":
            with self.subTest(algorithm=algorithm):
                said = self.train("1:4", algorithm, "0/40", "2/40")
                self.assertCountEqual(said.splitlines(), [f"stretto run: rank {rank} has left" for rank in (0, 2)])

    def test_one_leaves_while_another_is_killed(self):
        for algorithm in "sync", "eager-quorum", "eager-solo":
            with self.subTest(algorithm=algorithm):
                said = self.train("1:4", algorithm, "1/40", "2:40")
                self.assertIn("rank 1 has left\n", said)
                self.assertIn("rank 2 is lost: killed by SIGKILL; the others go on\n", said)

    def test_a_process_that_has_taken_a_place(self):
        said = self.train("1:3", "eager-quorum", "1:40", "3/20", restarts=2)
        self.assertIn("rank 1 (member 3) has left\n", said)
        self.assertNotIn("member 4", said)

    def test_one_before_its_loop_begins(self):
        self.assertEqual(self.train("1:3", "sync", "1/0"), "stretto run: rank 1 has left\n")
        said = self.train("1:3", "sync", "1:40", "3/0", restarts=1)
        # The master may have named it in a view just then.
        self.assertRegex(said, r"rank 1 \(member 3\) has (left( before it came in)?|ended before the job, which goes on without it)\n")

    def test_one_that_waits_for_the_others_of_the_first_world(self):
        with tempfile.TemporaryDirectory() as folder:
            wait = f"if [ $RANK = 1 ]; then while [ ! -f {folder}/go ]; do sleep 0.01; done; fi; exec {LOOP} sync {BATCHES} account"
            job = subprocess.Popen([STRETTO, "run", "--ranks", "1:2", "--", "sh", "-c", wait], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
            wait_until(lambda: len(ranks_of(job)) == 1 and num_threads(ranks_of(job)[0]) > 1)
            os.kill(ranks_of(job)[0], signal.SIGTERM)
            pathlib.Path(folder, "go").touch()
            printed, said = job.communicate(timeout=WATCHDOG)
        self.assertEqual(job.returncode, 0, said)
        self.assertEqual(said, "stretto run: rank 0 has left\n")
        self.assertEqual(loops.fault_of(subprocess.CompletedProcess(job.args, job.returncode, printed, said)), "")

    def test_a_second_signal_ends_the_process(self):
        said = self.train("1:3", "eager-quorum", "1/40", "1/40")
        self.assertEqual(said, "stretto run: rank 1 is lost: killed by SIGTERM; the others go on\n")

    def test_the_last_one(self):
        for ranks, *fates in ("1:1", "0/40"), ("1:2", "0/40", "1/40"), ("2:2", "0/40", "1/40"):
            with self.subTest(ranks=ranks):
                result = run(ranks, LOOP, "sync", BATCHES, *fates)
                self.assert_succeeds(result)
                self.assertEqual(result.stdout, "")
                # One of two that leave at once may be the first to say so.
                self.assertRegex(result.stderr, "over before its end: its last member leaves\n|fewer than 2 members are left")

    def test_too_few_would_be_left(self):
        result = run("2:2", LOOP, "sync", BATCHES, "account", "1/40")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("the job is given up: fewer than 2 members are left without those that leave", result.stderr)
        self.assertIn("rank 0: the job has ended: too few of its members were left", result.stderr)
        self.assertNotRegex(result.stderr, "rank 1(:| of| is)")

    def test_the_last_one_waits_for_a_process_that_takes_a_place(self):
        said = self.train("1:2", "sync", "0:20", "1/21", restarts=1)
        self.assertIn("as member 2\n", said)
        self.assertIn("rank 1 has left\n", said)

    def test_a_program_with_an_action_of_its_own(self):
        result = run("1:2", "sh", "-c", f'trap "" TERM; exec {LOOP} sync 900 1/40')
        self.assert_succeeds(result)
        self.assertEqual(result.stdout.count("applied 900"), 2)
        self.assertEqual(result.stderr, "")

    def test_a_shell_that_passes_the_signal_on(self):
        job = subprocess.Popen([STRETTO, "run", "--ranks", "1:2", "--", "sh", "-c",
                                f"trap 'kill -TERM $!' TERM; {LOOP} sync 3000 & wait; wait; exit 0"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

        def shells():
            return [child for child in children_of(job.pid)
                    if any(num_threads(loop) > 1 for loop in children_of(child))]
        wait_until(lambda: len(shells()) == 2)
        os.kill(shells()[1], signal.SIGTERM)
        printed, said = job.communicate(timeout=WATCHDOG)
        self.assertEqual(job.returncode, 0, said)
        self.assertRegex(said, r"\Astretto run: rank \d has left\n\Z")
        self.assertEqual(printed.count("applied 3000"), 1)


class BadInput(ProgramTest):
    def test_options(self):
        self.assert_rejected(run("3:2", "true"), "--ranks 3:2", "as in --ranks 2:3")
        self.assert_rejected(run("0:2", "true"), "--ranks 0:2", "as in --ranks 2:8")
        self.assert_rejected(run("2:", "true"), "--ranks 2:", "as in --ranks 2:8")
        self.assert_rejected(run("1:2", "true", restarts="some"), "--restarts some", "as in --restarts 3")
        self.assert_rejected(run("1:2", "true", restarts=-1), "--restarts -1")
        self.assert_rejected(run("2", "true", restarts=1), "--restarts 1 with --ranks 2", "--ranks 1:2")
        self.assert_rejected(stretto("run", "--ranks", "2", "--no-return", "--", "true"), "--no-return with --ranks 2", "--ranks 1:2")

    def test_a_range_in_each_process_of_another_launcher(self):
        place = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                 "MASTER_PORT": "29500", "GROUP_RANK": "0", "TORCHELASTIC_RUN_ID": "one"}
        for environment in (place, {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"},
                            {"SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "0", "SLURM_STEP_TASKS_PER_NODE": "2"}):
            self.assert_rejected(run("1:2", "true", env={**os.environ, **environment}), "--ranks 1:2", "as many jobs", "stretto join")
        self.assert_succeeds(run("1:2", "true", env={**os.environ, "WORLD_SIZE": "2"}))

    def test_an_environment_that_is_none(self):
        for words in "nonsense", PLACE + "0", PLACE.replace("40123", "0"):
            result = subprocess.run([STRETTO, "run", "--ranks", "1", "--", "env", f"STRETTO_MEMBER={words}", LOOP, "sync", "10"],
                                    capture_output=True, text=True, timeout=WATCHDOG)
            self.assertNotEqual(result.returncode, 0)
            self.assertIn(f"STRETTO_MEMBER='{words}': expected host:port/number/place/most/patience/token", result.stderr)

    def test_nobody_listens(self):
        result = subprocess.run([STRETTO, "run", "--ranks", "1", "--", "env", f"STRETTO_MEMBER={PLACE.replace('40123', '1')}", LOOP, "sync", "10"],
                                capture_output=True, text=True, timeout=WATCHDOG)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("127.0.0.1:1 cannot be reached: Connection refused", result.stderr)

    def test_the_token_is_of_another_job(self):
        result = run("1:1", "sh", "-c", f'STRETTO_MEMBER=${{STRETTO_MEMBER%/*}}/{"0" * 32} exec {LOOP} sync 10')
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(result.stderr, r"the process that listens at 127.0.0.1:\d+ is no master of this job")
        self.assertIn("it is of another job: its token is another", result.stderr)

    def test_an_algorithm_that_does_not_go_on(self):
        for algorithm in "ps-async", "ps-sync":
            result = run("1:2", LOOP, algorithm, "100")
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn(f"members that change with algorithm '{algorithm}': expected one that goes on where members change", result.stderr)

    def test_commands_that_are_no_members(self):
        result = run("1:1", STRETTO, "train", "vowels", "--steps", "3")
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("expected stretto train --ranks MIN:MAX by itself, not under stretto run", result.stderr)


if __name__ == "__main__":
    main()
