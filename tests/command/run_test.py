"""`stretto run`: the place that each rank finds, how such jobs end, and that nothing of them is left."""

import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time

from program import STRETTO, ProgramTest, alive, children_of, main, stretto, wait_until

LAUNCHED_RANK = STRETTO.parent / "launched_rank"
TORCHRUN = {"RANK", "LOCAL_RANK", "ROLE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_WORLD_SIZE", "ROLE_NAME",
            "GROUP_RANK", "GROUP_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID",
            "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS", "OMP_NUM_THREADS"}
ENVIRONMENT = """python3 -c 'import json, os; os.write(1, (json.dumps(dict(os.environ)) + "\\n").encode())'"""
# A rank tells its process, and that of a child, which sleep.
TELL = "sleep 1000 & echo $$ $! > $OUT/$RANK.new; mv $OUT/$RANK.new $OUT/$RANK; "
SLEEP = "trap 'echo ended >> $OUT/$RANK; exit 0' TERM; " + TELL
WATCHDOG = 60  # seconds; what is tested takes a second


def run(ranks, script, *options, **more):
    return stretto("run", "--ranks", ranks, *options, "--", "sh", "-c", script, **more)


class Job:
    """Ranks that sleep, under way; leaves none behind."""

    def __init__(self, ranks, script, *options, **more):
        self._folder = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self._folder.name)
        self._ranks = ranks
        self.process = subprocess.Popen(
            [STRETTO, "run", "--ranks", str(ranks), *(options or ("--grace", "1000s")), "--", "sh", "-c", script],
            env={**os.environ, "OUT": str(self.folder)}, stderr=subprocess.PIPE, text=True, **more)

    def __enter__(self):
        try:
            wait_until(lambda: all((self.folder / str(rank)).exists() for rank in range(self._ranks)))
        except AssertionError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()
        self._folder.cleanup()

    def processes(self, rank):
        """The rank's, and its child's."""
        return [int(word) for word in (self.folder / str(rank)).read_text().split()[:2]]

    def all_processes(self):
        return [process for rank in range(self._ranks) for process in self.processes(rank)]

    def end(self):
        """Status and what the command has said, when nothing of the job is left."""
        _, said = self.process.communicate(timeout=WATCHDOG)
        wait_until(lambda: not any(alive(process) for process in self.all_processes()))
        return self.process.returncode, said

    def count_ended(self):
        """Ranks that have ended in order."""
        return sum("ended" in (self.folder / str(rank)).read_text() for rank in range(self._ranks))


class Environment(ProgramTest):
    def variables(self, ranks, **more):
        result = run(ranks, "exec " + ENVIRONMENT, **more)
        self.assert_succeeds(result)
        return sorted(map(json.loads, result.stdout.splitlines()), key=lambda variables: int(variables["RANK"]))

    def test_each_rank_finds_what_torchrun_sets(self):
        bare = {name: value for name, value in os.environ.items() if name not in TORCHRUN}
        found = self.variables(3, env=bare)
        self.assertEqual([variables["RANK"] for variables in found], ["0", "1", "2"])
        for variables in found:
            self.assertLessEqual(TORCHRUN, set(variables))
            self.assertEqual(variables["LOCAL_RANK"], variables["RANK"])
            self.assertEqual((variables["WORLD_SIZE"], variables["LOCAL_WORLD_SIZE"], variables["GROUP_RANK"]),
                             ("3", "3", "0"))
            self.assertNotIn("TORCHELASTIC_USE_AGENT_STORE", variables)
            self.assertEqual({name: value for name, value in variables.items()
                              if name not in TORCHRUN | {"PWD", "SHLVL", "_", "OLDPWD"}},
                             {name: value for name, value in bare.items()
                              if name not in {"PWD", "SHLVL", "_", "OLDPWD"}})
        for common in ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID"):
            self.assertEqual(len({variables[common] for variables in found}), 1)

    def test_inside_another_launchers_job_its_variables_are_replaced(self):
        outer = {**os.environ, "RANK": "5", "WORLD_SIZE": "7", "LOCAL_WORLD_SIZE": "7", "MASTER_PORT": "1",
                 "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RUN_ID": "outer", "OMPI_COMM_WORLD_SIZE": "3",
                 "OMPI_COMM_WORLD_RANK": "2", "SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "3",
                 "STRETTO_MEETING": "far:1", "STRETTO_RANK": "1", "STRETTO_RANKS": "9"}
        for variables in self.variables(2, env=outer):
            self.assertEqual(variables["WORLD_SIZE"], "2")
            self.assertNotEqual(variables["MASTER_PORT"], "1")
            self.assertFalse({"TORCHELASTIC_USE_AGENT_STORE", "OMPI_COMM_WORLD_SIZE", "SLURM_PROCID",
                              "STRETTO_MEETING"} & set(variables))

    def test_rank_0_alone_has_standard_input(self):
        result = run(3, "printf '%s\\n' \"$RANK:$(cat)\"", input="words")
        self.assert_succeeds(result)
        self.assertEqual(sorted(result.stdout.splitlines()), ["0:words", "1:", "2:"])

    def test_signals_are_as_the_command_has_found_them(self):
        result = run(2, "echo $(grep -E 'Sig(Blk|Ign|Cgt)' /proc/self/status)")
        alone = subprocess.run(["sh", "-c", "echo $(grep -E 'Sig(Blk|Ign|Cgt)' /proc/self/status)"],
                               stdout=subprocess.PIPE, text=True, check=True, timeout=WATCHDOG)
        self.assertEqual(set(result.stdout.splitlines()), set(alone.stdout.splitlines()))

    def test_a_rank_has_the_commands_descriptors_alone(self):
        script = "echo $(ls /proc/self/fd)"
        alone = subprocess.run(["sh", "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                               check=True, timeout=WATCHDOG)
        for options in ((), ("--tag",)):
            result = run(3, script, *options, stdin=subprocess.DEVNULL)
            self.assertEqual({re.sub(r"^\[rank \d\] ", "", line) for line in result.stdout.splitlines()},
                             set(alone.stdout.splitlines()))


class Meeting(ProgramTest):
    """Ranks in C++ (stretto/membership/testing/launched_rank.cc)."""

    def test_two_jobs_at_once(self):
        command = [STRETTO, "run", "--ranks", "3", "--", LAUNCHED_RANK, "count"]
        jobs = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
        for job in jobs:
            _, said = job.communicate(timeout=WATCHDOG)
            self.assertEqual(job.returncode, 0, said)

    def test_a_job_in_each_rank_of_a_job(self):
        self.assert_succeeds(stretto("run", "--ranks", 2, "--", STRETTO, "run", "--ranks", 3, "--", LAUNCHED_RANK,
                                     "count"))

    def test_a_rank_that_fails_is_told_with_the_words_of_this_launcher(self):
        result = stretto("run", "--ranks", 3, "--", LAUNCHED_RANK, "fail")
        self.assertNotEqual(result.returncode, 0)
        self.assertRegex(result.stderr, r"(?m)^stretto run: rank \d of 3: ended with exit status \d+")
        self.assertNotIn("torchrun", result.stderr)

    def test_a_job_of_the_program_itself(self):
        result = stretto("run", "--ranks", 2, "--", STRETTO, "bench", "spin", "--ranks", 2)
        self.assertIn("2 processes that stretto run has started", result.stderr)
        self.assertNotIn("torchrun", result.stderr)


class Ends(ProgramTest):
    def test_all_well(self):
        self.assertEqual((run(4, "exit 0").returncode, run(1, "exit 0").stderr), (0, ""))

    def test_the_status_is_that_of_the_first_rank_that_fails(self):
        with Job(4, SLEEP + "[ $RANK = 2 ] && sleep 0.2 && exit 5; wait") as job:
            status, said = job.end()
            self.assertEqual((status, said),
                             (5, "stretto run: rank 2 of 4: ended with exit status 5; the others are ended\n"))
            self.assertEqual(job.count_ended(), 3)  # the others, by SIGTERM

    def test_a_killed_rank(self):
        with Job(3, SLEEP + "wait") as job:
            os.kill(job.processes(1)[0], signal.SIGKILL)
            self.assertEqual(job.end(), (137, "stretto run: rank 1 of 3: killed by SIGKILL; the others are ended\n"))
            self.assertEqual(job.count_ended(), 2)

    def test_the_last_rank_fails_alone(self):
        result = run(2, "[ $RANK = 0 ] || { sleep 0.2; kill -SEGV $$; }")
        self.assertEqual((result.returncode, result.stderr), (139, "stretto run: rank 1 of 2: killed by SIGSEGV\n"))

    def test_a_killed_command(self):
        with Job(3, SLEEP + "wait", "--tag") as job:
            children = children_of(job.process.pid)
            self.assertGreaterEqual(len(children), 3)
            job.process.kill()
            self.assertEqual(job.end()[0], -9)
            wait_until(lambda: not any(alive(child) for child in children))

    def test_signals_are_passed_on(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            name = number.name[3:]
            with Job(2, f"trap 'echo {name} ended >> $OUT/$RANK; exit 0' {name}; " + TELL +
                     "while :; do wait; done") as job:
                job.process.send_signal(number)
                said = f"stretto run: {number.name} is passed on to the ranks; a second signal kills them\n"
                self.assertEqual(job.end(), (128 + number, said))
                self.assertEqual(job.count_ended(), 2, name)

    def test_ctrl_c_at_a_terminal_comes_to_the_command_alone(self):
        with Job(2, "trap 'echo ended >> $OUT/$RANK' INT; " + TELL +
                 "for i in 1 2 3; do wait; done", start_new_session=True) as job:
            time.sleep(0.1)
            os.killpg(job.process.pid, signal.SIGINT)  # as a terminal does
            wait_until(lambda: job.count_ended() == 2)
            self.assertEqual(max((job.folder / str(rank)).read_text().count("ended") for rank in range(2)), 1)
            os.killpg(job.process.pid, signal.SIGINT)
            self.assertEqual(job.end()[0], 130)

    def test_ranks_that_ignore_sigterm_are_killed(self):
        for cause in ("a rank", "a signal"):
            with Job(3, "trap '' TERM; " + TELL +
                     "while [ $RANK != 1 ] || ! [ -e $OUT/end ]; do sleep 0.01; done; exit 3",
                     "--grace", "300ms") as job:
                begin = time.monotonic()
                if cause == "a rank":
                    (job.folder / "end").touch()
                else:
                    job.process.terminate()
                status, said = job.end()
                self.assertGreaterEqual(time.monotonic() - begin, 0.3)
                self.assertEqual(status, 3 if cause == "a rank" else 143)
                self.assertIn("stretto run: rank 0 had not ended: killed\n", said)

    def test_what_ranks_leave_behind_is_ended(self):
        with Job(2, TELL + "exit 0") as job:
            self.assertEqual(job.end(), (0, ""))

    def test_a_program_that_cannot_be_started(self):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder) / "train.py"
            script.write_text("#!/no/such/interpreter\n", encoding="ascii")
            for program, code, words in (("no-such-program", 127, "no-such-program: there is no such program on PATH"),
                                         ("./no/such", 127, "./no/such: there is no such program"),
                                         (script, 126, "it cannot be run (no executable file)"),
                                         ("train.py", 127, "did you mean -- python train.py?"),
                                         ("/", 126, "it cannot be run")):
                result = stretto("run", "--ranks", 8, "--", program, cwd=folder)
                self.assert_rejected(result, "stretto run: ", words, code=code)
            script.chmod(0o755)
            self.assert_rejected(stretto("run", "--ranks", 8, "--", script),
                                 "the interpreter that its first line names", code=127)

    def test_bad_input(self):
        for ranks in ("0", "-1", "abc", "1025", ""):
            self.assert_rejected(stretto("run", f"--ranks={ranks}" if ranks else "--ranks", "--", "true"), "--ranks")
        self.assert_rejected(stretto("run", "--", "true"), "--ranks is missing")
        self.assert_rejected(stretto("run", "--ranks", 2), "PROGRAM is missing")
        self.assert_rejected(stretto("run", "--ranks", 2, "--"), "PROGRAM is missing")
        self.assert_rejected(stretto("run", "--ranks", 2, "true"), "unexpected argument true", "-- PROGRAM")
        self.assert_rejected(stretto("run", "--ranks", "8:2", "--", "true"), "--ranks 2:8")


class Tags(ProgramTest):
    def test_each_line_has_one(self):
        result = run(3, "for i in $(seq 200); do echo line $i; echo error $i >&2; done; printf end", "--tag")
        self.assert_succeeds(result)
        for rank in range(3):
            tag = f"[rank {rank}] "
            own = [line for line in result.stdout.splitlines() if line.startswith(tag)]
            self.assertEqual(own, [f"{tag}line {i + 1}" for i in range(200)] + [tag + "end"])
        self.assertEqual(len(result.stdout.splitlines()), 3 * 201)
        self.assertEqual(len(result.stderr.splitlines()), 3 * 200)

    def test_a_line_comes_at_once(self):
        job = subprocess.Popen([STRETTO, "run", "--ranks", "1", "--tag", "--", "sh", "-c", "echo here; read end"],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.assertEqual(job.stdout.readline(), b"[rank 0] here\n")
        self.assertIsNone(job.poll())
        job.communicate(b"\n", timeout=WATCHDOG)
        self.assertEqual(job.returncode, 0)

    def test_binary_output_and_long_lines(self):
        script = ("import os, random, sys; rank = int(os.environ['RANK']); random.seed(rank); "
                  "content = random.randbytes(3_000_000).replace(b'\\r', b'') + b'x' * 900_000 + b'\\n'; "
                  "sys.stdout.buffer.write(content)")
        result = subprocess.run([STRETTO, "run", "--ranks", "2", "--tag", "--", "python3", "-c", script],
                                stdout=subprocess.PIPE, timeout=WATCHDOG, check=True)
        lines = result.stdout.split(b"\n")
        self.assertEqual(lines.pop(), b"")
        for rank in range(2):
            tag = b"[rank %d] " % rank
            own = b"".join(line[len(tag):] + b"\n" for line in lines if line.startswith(tag))
            expected = subprocess.run(["python3", "-c", script], env={**os.environ, "RANK": str(rank)},
                                      stdout=subprocess.PIPE, timeout=WATCHDOG, check=True).stdout
            self.assertTrue(own == expected, f"rank {rank}: {len(own)} and {len(expected)} bytes")

    def test_nobody_reads(self):
        """As behind `| head`: the ranks hear of it, and the command ends with them."""
        job = subprocess.Popen([STRETTO, "run", "--ranks", "2", "--tag", "--", "sh", "-c",
                                "while :; do echo line; done"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertRegex(job.stdout.readline(), r"^\[rank \d\] line$")
        job.stdout.close()
        self.assertEqual(job.wait(WATCHDOG), 128 + signal.SIGPIPE)
        self.assertIn("killed by SIGPIPE", job.stderr.read())
        job.stderr.close()

    def test_a_signal_while_nobody_reads_yet(self):
        job = subprocess.Popen([STRETTO, "run", "--ranks", "2", "--tag", "--grace", "1000s", "--", "sh", "-c",
                                "while :; do echo line; done"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(0.3)  # the pipe is full
        job.terminate()
        self.assertEqual(job.wait(WATCHDOG), 128 + signal.SIGTERM)
        job.stdout.close()
        job.stderr.close()


if __name__ == "__main__":
    main()
