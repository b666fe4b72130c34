"""Help, bad input, start-up, and what needs no other process."""

import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import tempfile

from program import STRETTO, ProgramTest, every_command, main, stretto, wait_until


class Help(ProgramTest):
    def test_every_command_explains_itself(self):
        commands = list(every_command())
        self.assertIn(("compare", "--program", "PROGRAM"), commands)
        self.assertIn(("bench", "plot"), commands)
        self.assertIn(("reproduce", "vowels"), commands)
        for command in commands:
            result = stretto(*command, "--help")
            self.assert_succeeds(result)
            self.assertIn("Examples:", result.stdout, command)
            self.assertEqual(result.stderr, "")

    def test_overview_names_the_commands(self):
        result = stretto("--help")
        self.assert_succeeds(result)
        for command in ("train", "compare", "reproduce", "bench", "predict", "check", "schedule", "man",
                        "completion"):
            self.assertIn(f"\n  {command} ", result.stdout)

    def test_version(self):
        self.assertRegex(stretto("--version").stdout, r"^stretto \d+\.\d+\.\d+\n$")

    def test_without_a_command_it_shows_the_overview_and_fails(self):
        result = stretto()
        self.assertEqual(result.returncode, 2)
        self.assertIn("compare", result.stderr)


class StartUp(ProgramTest):
    def test_what_does_not_train_does_not_load_torch(self):
        libraries = subprocess.run(["ldd", STRETTO], capture_output=True, text=True, check=True).stdout
        self.assertNotIn("torch", libraries)

    def test_help_on_training_needs_no_torch(self):
        with tempfile.TemporaryDirectory() as folder:
            alone = pathlib.Path(folder) / "stretto"
            shutil.copy(STRETTO, alone)
            for command in ("train", "compare"):
                self.assert_succeeds(stretto(command, "--help", program=alone))


class BadInput(ProgramTest):
    def test_commands(self):
        self.assert_rejected(stretto("tran"), "unknown command tran", "did you mean train?", "compare")
        self.assert_rejected(stretto("--rnaks"), "unknown option --rnaks")
        self.assert_rejected(stretto("reproduce", "fig"), "did you mean fig9?")

    def test_names(self):
        self.assert_rejected(stretto("train", "vowls"), "vowls", "did you mean vowels?", "digits")
        self.assert_rejected(stretto("train", "vowels", "--algorithm", "snyc"), "snyc", "did you mean sync?", "local")
        self.assert_rejected(stretto("compare", "vowels", "--algorithms", "sync,eager"), "eager", "Known")
        self.assert_rejected(stretto("train", "vowels", "--rnaks", "4"), "--rnaks", "did you mean --ranks?")
        self.assert_rejected(stretto("train"), "WORKLOAD is missing", "vowels")
        self.assert_rejected(stretto("schedule", "alreduce"), "did you mean allreduce?")
        self.assert_rejected(stretto("check", "--policy", "sole"), "did you mean solo?")
        self.assert_rejected(stretto("check", "--ordering", "--ranks", "33"), "--ranks 33", "expected 2 to 5")
        self.assert_rejected(stretto("check", "--ordering", "--collective", "group"), "exclude each other")

    def test_numbers(self):
        for ranks in ("0", "-1", "four", "1e3", "99999999999999999999"):
            self.assert_rejected(stretto("train", "vowels", "--ranks", ranks), f"--ranks {ranks}", "expected",
                                 "as in --ranks 4")
        self.assert_rejected(stretto("train", "vowels", "--ranks", "4", "--quorum", "5"), "quorum 5", "1 to 4")
        self.assert_rejected(stretto("compare", "vowels", "--algorithms", "sync,eager-quorum:9"), "9", "1 to 4")
        self.assert_rejected(stretto("train", "vowels", "--lr", "nan"), "--lr nan")
        self.assert_rejected(stretto("train", "vowels", "--lr", "1e308"), "learning rate 1e+308")
        self.assert_rejected(stretto("train", "vowels", "--pace", "50"), "--pace 50", "unit", "50us")
        self.assert_rejected(stretto("train", "vowels", "--max-lag", "0"), "--max-lag 0")
        for command in ("train", "compare"):
            self.assert_rejected(stretto(command, "vowels", "--ranks", "4", "--seats", "5"), "seats 5", "from 1")
            self.assert_rejected(stretto(command, "vowels", "--seats", "0"), "--seats 0")
        for liveness in ("900ms", "0", "3", "soon", "241h"):
            self.assert_rejected(stretto("train", "vowels", "--liveness", liveness), f"--liveness {liveness}",
                                 "from 1s to 864000s", "as in --liveness 5s")
        self.assert_rejected(stretto("train", "vowels", "--between", "gloo"), "--between gloo", "tcp, ucx")
        self.assert_rejected(stretto("train", "vowels", "--between", "mpi"), "--between mpi", "mpirun")
        self.assert_rejected(stretto("compare", "vowels", "--repeats", "0"), "--repeats 0")
        self.assert_rejected(stretto("train", "vowels", "--steps", "2", "--epochs", "2"), "not both")
        self.assert_rejected(stretto("schedule", "broadcast", "--ranks", "3", "--root", "3"), "--root 3", "0 to 2")
        for size in ("1", "0", "-4", "four", "9", "64"):
            self.assert_rejected(stretto("schedule", "group", "--ranks", "8", "--group", size), f"--group {size}",
                                 "from 2 to 8", "as in --group 4")
        self.assert_rejected(stretto("schedule", "group", "--round", "-1"), "--round -1", "at least 0")
        for ranks in ("1", "257"):
            self.assert_rejected(stretto("schedule", "group", "--mixing", "--ranks", ranks), f"--ranks {ranks}", "2 to 256")
        self.assert_rejected(stretto("schedule", "group", "--order", "arrival"), "--order arrival", "dynamic or fixed")
        self.assert_rejected(stretto("schedule", "allreduce", "--order", "dynamic"), "--order dynamic", "fixed or arrival")
        self.assert_rejected(stretto("reproduce", "fig9", "--sizes", "63"), "--sizes 63")
        self.assert_rejected(stretto("reproduce", "fig9", "--activations", "solo,quorum:99"), "quorum:99")
        self.assert_rejected(stretto("check", "--seeds", "9..3"), "9..3", "smaller seed first")

    def test_virtual_time(self):
        simulated = ("train", "vowels", "--simulated", "--pace", "1ms")
        for arguments, parts in ((("train", "vowels", "--simulated"), ("pace 0s", "such as 1ms")),
                                 (("train", "vowels", "--network", "latency=1us"), ("network latency=1us", "simulated run")),
                                 (("train", "vowels", "--no-gradients"), ("no-gradients", "simulated run")),
                                 (("compare", "vowels", "--compute-threads", "2"), ("compute-threads 2", "simulated run")),
                                 (("train", "vowels", "--churn", "life=2h"), ("churn life=2h", "simulated run")),
                                 ((*simulated, "--churn", "life=2h"), ("churn life=2h", "ranks MIN:MAX")),
                                 ((*simulated, "--ranks", "2:4", "--churn", "life=2h,notice=2"), ("'notice=2'", "life=2h,notice=0.5")),
                                 ((*simulated, "--network", "latency=1"), ("--network latency=1", "latency=1us,bandwidth=10GB/s")),
                                 ((*simulated, "--network", ""), ("--network", "latency=1us,bandwidth=10GB/s")),
                                 ((*simulated, "--seats", "2"), ("seats 2", "expected 1")),
                                 ((*simulated, "--algorithm", "eager-solo", "--order", "arrival"),
                                  ("--order arrival has no effect", "--simulated")),
                                 ((*simulated, "--model-bytes", "1MiB"), ("model-bytes", "without gradients")),
                                 ((*simulated, "--no-gradients", "--model-bytes", "many"), ("--model-bytes many", "100MiB")),
                                 ((*simulated, "--compute-threads", "0"), ("--compute-threads 0", "expected"))):
            self.assert_rejected(stretto(*arguments), *parts)

    def test_options_without_effect(self):
        for arguments, part in ((("--quorum", "2"), "--quorum has no effect with sync"),
                                (("--algorithm", "eager-quorum:3", "--quorum", "2"), "no effect with eager-quorum:3"),
                                (("--algorithm", "eager-solo", "--delivery", "latest", "--seats", "2"), "--seats 2"),
                                (("--algorithm", "local", "--normalize", "ranks"), "--normalize ranks has no effect"),
                                (("--algorithm", "local", "--order", "arrival"), "--order arrival has no effect"),
                                (("--post-local", "9"), "--post-local 9 has no effect with sync: expected with local"),
                                (("--algorithm", "local", "--post-local", "-1"), "--post-local -1: expected a whole")):
            self.assert_rejected(stretto("train", "vowels", "--ranks", "4", *arguments), part)
        self.assert_rejected(stretto("compare", "vowels", "--quorum", "2", "--algorithms", "sync,eager-solo"),
                             "--quorum has no effect with sync, eager-solo")

    def test_one_short_line(self):
        result = stretto("train", "vowels", "--seed", "7" * 5000)
        self.assert_rejected(result, "--seed 7777", "(5000 characters)")
        self.assertLess(len(result.stderr), 300)
        self.assert_rejected(stretto("train", "vowels", "--seed", "1\n2"), "--seed 1\\n2")

    def test_imbalance(self):
        for spec in ("rotate", "persistent:rank=9,delay=1ms", "random:ranks=1", "lognormal:mean=fast,cv=1",
                     "trace:/nonexistent.csv", "speedy:1ms", "random:ranks=1,delay=200"):
            result = stretto("train", "vowels", "--imbalance", spec)
            self.assert_rejected(result, "imbalance")

    def test_places(self):
        self.assert_rejected(stretto("train", "vowels", "--out", "/tmp/" + "x" * 300), "--out", "too long")
        self.assert_rejected(stretto("reproduce", "fig9", "--ranks", "0", "--json=/tmp/stretto-no-such.json"), "--ranks 0")
        self.assertFalse(pathlib.Path("/tmp/stretto-no-such.json").exists(), "what is refused leaves nothing")
        self.assert_rejected(stretto("train", "vowels", "--out", "/proc/nowhere"), "--out /proc/nowhere")
        self.assert_rejected(stretto("train", "vowels", "--resume", "/nonexistent"), "/nonexistent")
        self.assert_rejected(stretto("reproduce", "fig9", "--json=/nonexistent/x.json"), "/nonexistent/x.json")
        with tempfile.NamedTemporaryFile() as file:
            self.assert_rejected(stretto("train", "vowels", "--out", file.name), file.name)

    def test_without_the_training_program(self):
        with tempfile.TemporaryDirectory() as folder:
            alone = pathlib.Path(folder) / "bin" / "stretto"
            alone.parent.mkdir()
            shutil.copy(STRETTO, alone)
            for arguments in (["train", "vowels"], ["compare", "vowels"], ["reproduce", "hyperplane"]):
                self.assert_rejected(stretto(*arguments, program=alone), "cannot train", "LibTorch")
            self.assert_succeeds(stretto("schedule", "barrier", program=alone))


class Schedule(ProgramTest):
    def test_formats(self):
        text = stretto("schedule", "partial", "--ranks", "3")
        self.assert_succeeds(text)
        self.assertEqual(text.stdout.count("schedule \""), 3)
        self.assertEqual(stretto("schedule", "partial", "--ranks", "3", "--rank", "1").stdout.count("schedule \""), 1)
        dot = stretto("schedule", "allreduce", "--ranks", "5", "--format", "dot")
        self.assert_succeeds(dot)
        self.assertTrue(dot.stdout.startswith("digraph"))
        self.assertIn("float16", stretto("schedule", "--help").stdout)

    def test_options_without_effect(self):
        for arguments in (("partial", "--algorithm", "direct"), ("barrier", "--count", "4"), ("barrier", "--root", "0"),
                          ("broadcast", "--op", "max"), ("allgather", "--order", "fixed"),
                          ("allreduce", "--initiator", "1"),
                          ("allreduce", "--group", "2"), ("barrier", "--round", "2"), ("partial", "--mixing"),
                          ("group", "--mixing", "--round", "1"), ("group", "--mixing", "--format", "dot"),
                          ("group", "--mixing", "--group", "4"), ("group", "--ranks", "1", "--group", "2"),
                          ("allreduce", "--algorithm", "direct", "--order", "fixed")):
            self.assert_rejected(stretto("schedule", *arguments), "has no effect")

    def test_groups_of_a_round(self):
        def groups(*arguments):
            result = stretto("schedule", "group", *arguments)
            self.assert_succeeds(result)
            return result.stdout.splitlines()[0].split(": ")[1]

        self.assertEqual(groups("--ranks", "8", "--group", "4"), "{0,1,2,3} {4,5,6,7}")
        self.assertEqual(groups("--ranks", "8", "--group", "4", "--round", "1"), "{0,1,4,5} {2,3,6,7}")
        self.assertEqual(groups("--ranks", "8", "--group", "4", "--round", "1", "--order", "fixed"), "{0,1,2,3} {4,5,6,7}")
        self.assertEqual(groups("--ranks", "8", "--round", "3"), "{0,1,2,3} {4,5,6,7}", "groups of 4 by default")
        self.assertEqual(groups("--ranks", "1"), "{0}")
        rank = stretto("schedule", "group", "--ranks", "8", "--group", "4", "--round", "1", "--rank", "5").stdout
        self.assertIn('schedule "group_allreduce" of rank 5 of 8', rank)
        self.assertEqual(re.findall(r" send .* to (\d+) on", rank), ["4", "1"])

    def test_grid(self):
        grid = stretto("schedule", "grid", "--nodes", "5", "--layout", "paper")
        self.assert_succeeds(grid)
        self.assertTrue(grid.stdout.startswith(" 0 3 ·\n · 1 4\n · · 2\n"), grid.stdout)
        self.assertIn(" 4 hops at most\n", grid.stdout)
        self.assert_rejected(stretto("schedule", "grid", "--nodes", "7", "--dimensions", "3"), "at least 2^3 nodes")
        self.assert_rejected(stretto("schedule", "grid", "--rows", "11"), "11 rows of a grid of 10 nodes")
        self.assert_rejected(stretto("schedule", "grid", "--layout", "paper", "--rows", "3"), "as many rows as columns")
        self.assert_rejected(stretto("schedule", "grid", "--rows", "1", "--elements", "9"), "at least 10")
        self.assert_rejected(stretto("schedule", "grid", "--layout", "square"), "rectangle, paper")

    def test_mixing(self):
        table = stretto("schedule", "group", "--mixing")
        self.assert_succeeds(table)
        self.assertIn("\n   64  2: 6, 3: 6 (4), 4: 3, 5–6: 4 (3), 7: 3, 8–63: 2, 64: 1\n", table.stdout)
        self.assertEqual(table.stdout.count("\n"), 4 + 63)
        self.assertLessEqual(max(map(len, table.stdout.splitlines())), 100)
        distances = stretto("schedule", "group", "--mixing", "--ranks", "64", "--group", "8")
        self.assert_succeeds(distances)
        self.assertIn("M = 2, L = 2\n", distances.stdout)
        self.assertRegex(distances.stdout, r"\n1 +0\.333 +0\.333\n2 +0 +0\n3 +0\n")
        fixed = stretto("schedule", "group", "--mixing", "--ranks", "8", "--group", "4", "--order", "fixed")
        self.assertRegex(fixed.stdout, r"M = never")
        self.assertRegex(fixed.stdout, r"\n12 +0\.378 +1\n")


class Launchers(ProgramTest):
    def test_variables_that_are_no_place_are_one_line(self):
        others = {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_", "PMI", "SLURM_"))}
        for size, rank in (("WORLD_SIZE", "RANK"), ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"), ("PMI_SIZE", "PMI_RANK"),
                           ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID")):
            for value in ("x", "", "-1", "0", "2x", " 2", "99999999999"):
                said = stretto("train", "digits", env={**others, size: value, rank: "0"})
                self.assert_rejected(said, f"{size}='{value}'", "expected a number of ranks, from 1")
            for value in ("x", "", "-1", "2", "99999999999"):
                said = stretto("train", "digits", env={**others, size: "2", rank: value})
                self.assert_rejected(said, f"{rank}='{value}' with {size}=2: expected a rank from 0 to 1")
            self.assert_rejected(stretto("train", "digits", env={**others, size: "2"}), f"{size}=2 without {rank}")


class Signals(ProgramTest):
    LONG = (
        ("check", "--rounds", "1000000000"),
        ("predict", "run", "--ranks", "64", "--compute", "10ms", "--steps", "1000000", "--replicas", "1", "--algorithms", "sync"),
        ("reproduce", "group-latency"),
        ("predict", "coarse", "-"),  # waits for its input
    )

    def interrupted(self, command, number, **options):
        process = subprocess.Popen([STRETTO, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   **options)
        self.addCleanup(process.stdin.close)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        status = pathlib.Path(f"/proc/{process.pid}/status")
        heard = 1 << (number - 1)
        wait_until(lambda: os.path.samefile(f"/proc/{process.pid}/exe", STRETTO))  # until then it is this program's copy
        wait_until(lambda: int(re.search(r"SigCgt:\s*(\w+)", status.read_text())[1], 16) & heard)
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
        return process.returncode, errors

    def test_each_ends_each_command_with_a_line(self):
        for command in self.LONG:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
                code, errors = self.interrupted(command, number)
                self.assertEqual(code, 130, (command, number, errors))
                self.assertRegex(errors.splitlines()[-1], r"^stretto [a-z0-9 -]+: interrupted", (command, number))

    def test_check_says_how_far_it_came(self):
        _, errors = self.interrupted(self.LONG[0], signal.SIGTERM)
        self.assertRegex(errors, r"^stretto check: interrupted( after \d+ rounds)?\n$")

    def test_what_is_ignored_stays_so(self):
        def ignore():
            signal.signal(signal.SIGHUP, signal.SIG_IGN)

        code, errors = self.interrupted(self.LONG[0], signal.SIGTERM, preexec_fn=ignore)
        self.assertEqual(code, 130, errors)
        process = subprocess.Popen([STRETTO, *self.LONG[0]], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=ignore)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        ignored = re.search(r"SigIgn:\s*(\w+)", pathlib.Path(f"/proc/{process.pid}/status").read_text())[1]
        self.assertTrue(int(ignored, 16) & 1 << (signal.SIGHUP - 1))


class Check(ProgramTest):
    def test_members_are_three_searches(self):
        result = stretto("check", "--members", "--seeds", "1..20")
        self.assert_succeeds(result)
        for search in ("members", "carried", "averaged"):
            self.assertRegex(result.stdout, rf"{search}: \d+ rounds of 20 jobs")
        self.assertIn("no violation", result.stdout)
        for other in (("--ordering",), ("--collective", "group")):
            self.assert_rejected(stretto("check", "--members", *other), "exclude each other")
        self.assert_rejected(stretto("check", "--members", "--policy", "solo"), "--collective carried")

    def test_grid_is_a_search(self):
        result = stretto("check", "--grid", "--seeds", "1..20")
        self.assert_succeeds(result)
        self.assertRegex(result.stdout, r"\ngrid: \d+ rounds of 20 jobs")
        for other in (("--ordering",), ("--members",), ("--collective", "group")):
            self.assert_rejected(stretto("check", "--grid", *other), "exclude each other")

    def test_finds_nothing_and_repeats(self):
        first, second = (stretto("check", "--seeds", "1..40") for _ in range(2))
        self.assert_succeeds(first)
        self.assertIn("no violation", first.stdout)
        without_times = [re.sub(r", in [0-9.]+ s .*", "", run.stdout) for run in (first, second)]
        self.assertEqual(*without_times)

    def test_too_little_memory_is_no_violation(self):
        def with_little_memory():
            resource.setrlimit(resource.RLIMIT_AS, (5 * 10**7, 5 * 10**7))

        result = stretto("check", "--rounds", "2000", preexec_fn=with_little_memory)
        self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
        self.assertNotIn("VIOLATED", result.stdout)
        self.assertRegex(result.stderr, r"^stretto check: too little memory[^\n]*\n$")

    def test_new_seeds_are_printed(self):
        result = stretto("check", "--seeds", "new", "--rounds", "100")
        self.assert_succeeds(result)
        self.assertRegex(result.stdout, r"seeds from \d+ on")


if __name__ == "__main__":
    main()
