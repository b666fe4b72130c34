"""What goes wrong around a training: disks, streams, folders, checkpoints, signals. Skipped without LibTorch."""

import contextlib
import csv
import fcntl
import json
import os
import pathlib
import resource
import signal
import subprocess
import tempfile
import unittest

from program import STRETTO, ProgramTest, alive, children_of, main, stretto, wait_until

CAN_TRAIN = (STRETTO.parent / "stretto-train").exists()
QUICK = ("train", "hyperplane", "--ranks", "2", "--steps", "8", "--batch", "4")


@contextlib.contextmanager
def small_disk(size):
    """A folder on a disk of its own; skips the test where none can be mounted."""
    with tempfile.TemporaryDirectory() as folder:
        if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=False,
                          capture_output=True).returncode != 0:
            raise unittest.SkipTest("needs the right to mount a small disk")
        try:
            yield pathlib.Path(folder)
        finally:
            subprocess.run(["umount", "-l", folder], check=True)


@unittest.skipUnless(CAN_TRAIN, "no stretto-train in this build (STRETTO_TORCH=OFF)")
class Streams(ProgramTest):
    def run_with(self, *arguments, **streams):
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
        return subprocess.run([STRETTO, *arguments], text=True, timeout=120, check=False, **options)

    def test_standard_error_that_cannot_be_written_changes_nothing(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            self.assert_succeeds(self.run_with(*QUICK, stderr=full))
            self.assertEqual(self.run_with("train", "--bogus", stderr=full).returncode, 2)
        closed = self.run_with(*QUICK, preexec_fn=lambda: os.close(2))
        self.assertEqual(closed.returncode, 0)

    def test_a_result_that_cannot_be_written_is_no_success(self):
        for arguments in (QUICK, ("--help",), ("train", "--help"), ("schedule", "barrier"),
                          ("bench", "skew", "--help"), ("bench", "simulate", "--ranks", "2")):
            with open("/dev/full", "w", encoding="ascii") as full:
                result = self.run_with(*arguments, stdout=full)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertEqual(result.stderr.count("standard output cannot be written"), 1, result.stderr)
        self.assertEqual(self.run_with("schedule", "barrier", preexec_fn=lambda: os.close(1)).returncode, 2)

    def test_a_limit_on_the_size_of_files(self):
        def no_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        result = self.run_with(*QUICK, preexec_fn=no_files)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        with tempfile.TemporaryFile("w") as file:
            result = self.run_with("schedule", "barrier", stdout=file, preexec_fn=no_files)
        self.assertEqual(result.returncode, 2, "an error of the write, not SIGXFSZ")

    def test_files_on_a_full_disk_are_told_with_the_reason_and_leave_no_half(self):
        layer = '{"name": "a", "bytes": 1e6, "forward": 1, "backward": 1, "update": 1}'
        job = f'{{"bandwidth": 1e9, "workers": [{{"count": 2, "batch": 32, "layers": [{layer}]}}]}}'
        advise = ("advise", "--compute", "50ms", "--ranks", "2", "--steps", "5", "--replicas", "2", "--algorithms", "sync")
        with small_disk("4k") as disk:
            (disk / "filler").write_bytes(b"x" * 4096)
            commands = [(("predict", "fine", "-", option, disk / "out"), job) for option in ("--trace", "--goal", "--chakra")]
            commands += [((*advise, f"--plot={disk}/out.svg"), ""), ((*advise, f"--json={disk}/out"), "")]
            draws = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}  # tests/without_pictures
            for arguments, given in commands:
                result = stretto(*arguments, input=given, env=draws)
                if "matplotlib is missing" in result.stderr:
                    continue
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertIn("No space left on device", result.stderr)
                self.assertEqual([path.name for path in disk.iterdir()], ["filler"], arguments)

    def test_json_on_a_full_disk_leaves_no_half(self):
        with small_disk("4k") as disk:
            (disk / "filler").write_bytes(b"x" * 4096)
            result = stretto(*QUICK, f"--json={disk}/result.json")
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn("result.json", result.stderr)
            self.assertEqual([path.name for path in disk.iterdir()], ["filler"])


def limited(limit, value):
    """For subprocess: the limit of the resource is lowered in the child."""
    return lambda: resource.setrlimit(limit, (value, value))


@unittest.skipUnless(CAN_TRAIN, "no stretto-train in this build (STRETTO_TORCH=OFF)")
class Limits(ProgramTest):
    """What the system does not give is one line and code 2, and no rank that was lost."""

    def test_ranks_that_cannot_be_started(self):
        for ranks, descriptors in ((4, 8), (33, 20)):
            result = stretto("train", "hyperplane", "--ranks", ranks, preexec_fn=limited(resource.RLIMIT_NOFILE, descriptors))
            self.assert_rejected(result, "cannot start rank ", f" of {ranks}: ", "Too many open files")

    def test_memory_for_ranks_in_virtual_time(self):
        train = ("train", "digits", "--simulated", "--ranks", "128", "--pace", "1ms", "--steps", "5", "--no-gradients")
        predict = ("predict", "run", "--ranks", "128", "--compute", "10ms", "--steps", "100", "--replicas", "1",
                   "--algorithms", "sync")
        for command, kibibytes in ((train, 1_000_000), (predict, 110_000)):
            result = stretto(*command, preexec_fn=limited(resource.RLIMIT_AS, 1024 * kibibytes))
            self.assert_rejected(result, "memory")

    def test_a_stack_that_is_too_small(self):
        for command in (QUICK, ("check", "--rounds", "10"), ("predict", "run", "--ranks", "2", "--compute", "1ms")):
            result = stretto(*command, preexec_fn=limited(resource.RLIMIT_STACK, 64 * 1024))
            self.assert_rejected(result, "ulimit -s 64: expected a stack of at least 256 KiB, as in ulimit -s 8192")

    def test_memory_that_libtorch_does_not_fit_into(self):
        result = stretto(*QUICK, preexec_fn=limited(resource.RLIMIT_AS, 1024 * 100_000))
        self.assert_rejected(result, "cannot be started with ulimit -v 100000: expected limits that leave room for ")

    def test_why_records_are_lost(self):
        with tempfile.TemporaryDirectory() as folder:
            result = stretto("train", "digits", "--simulated", "--ranks", "64", "--steps", "3", "--pace", "1ms", "--out",
                             folder, preexec_fn=limited(resource.RLIMIT_NOFILE, 20))
        self.assert_succeeds(result)
        self.assertRegex(result.stderr, r"lines of records and trace could not be written to [^\n]*: Too many open files; "
                                        "the training is whole")


@unittest.skipUnless(CAN_TRAIN, "no stretto-train in this build (STRETTO_TORCH=OFF)")
class Folders(ProgramTest):
    def test_of_another_job_is_refused_to_ranks_of_a_launcher(self):
        with tempfile.TemporaryDirectory() as folder:
            other = os.open(folder, os.O_RDONLY)  # as the other job has it
            self.addCleanup(os.close, other)
            fcntl.flock(other, fcntl.LOCK_EX)
            place = {**os.environ, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "STRETTO_JOB": f"faults {os.getpid()}"}
            ranks = [subprocess.Popen([STRETTO, *QUICK[:2], *QUICK[4:], "--out", folder], stderr=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True,
                                      env={**place, "RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in (0, 1)]
            told = [rank.communicate(timeout=60) for rank in ranks]
            self.assertEqual(os.listdir(folder), [], "nothing is written there")
        self.assertEqual(ranks[0].returncode, 2, told)
        self.assertNotEqual(ranks[1].returncode, 0, told)
        self.assertEqual([line for pair in told for line in "".join(pair).splitlines()],
                         [f"stretto: output folder '{folder}': another job writes there; expected a folder for each job"])

    def test_of_another_job_is_refused_to_several_runs(self):
        runs = ("--ranks", "2", "--steps", "8", "--repeats", "1")
        with tempfile.TemporaryDirectory() as folder:
            other = os.open(folder, os.O_RDONLY)
            self.addCleanup(os.close, other)
            fcntl.flock(other, fcntl.LOCK_EX)
            for command in (("compare", "hyperplane", *runs), ("compare", "--program", "true"),
                            ("reproduce", "hyperplane", *runs)):
                self.assert_rejected(stretto(*command, "--out", folder), f"'{folder}': another job writes there")
            self.assertEqual([path for path in pathlib.Path(folder).rglob("*") if path.is_file()], [])

    def test_of_several_runs_is_theirs_until_the_last_has_ended(self):
        with tempfile.TemporaryDirectory() as folder:
            compare = ("compare", "hyperplane", "--ranks", "2", "--repeats", "1", "--out", folder)
            first = subprocess.Popen([STRETTO, *compare, "--steps", "100000", "--pace", "1ms", "--algorithms", "sync"],
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.addCleanup(first.wait)
            self.addCleanup(first.terminate)
            config = pathlib.Path(folder) / "sync-seed1" / "config.json"
            wait_until(config.exists)
            for command in ((*compare, "--steps", "8", "--algorithms", "eager-solo"), (*QUICK, "--out", folder)):
                self.assert_rejected(stretto(*command), f"'{folder}': another job writes there")
            self.assertEqual(os.listdir(folder), ["sync-seed1"])

    def test_of_somebody_else_is_left_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            mine = pathlib.Path(folder) / "config.json"
            mine.write_text("{}", encoding="ascii")
            self.assert_rejected(stretto(*QUICK, "--out", folder), "holds config.json, and no config.json of a run")
            self.assertEqual(mine.read_text(encoding="ascii"), "{}")

    def test_a_new_run_replaces_an_old_one(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder)
            self.assert_succeeds(stretto(*QUICK, "--out", folder, "--checkpoint-every", "8"))
            (path / "records-2025.json").write_text("mine", encoding="ascii")
            self.assert_succeeds(stretto(*QUICK, "--out", folder))
            self.assertEqual([file.name for file in path.glob("checkpoint*")], [])
            self.assertTrue((path / "records-2025.json").exists())
            self.assert_rejected(stretto(*QUICK, "--resume", folder), "no such file")

    def test_a_full_disk_costs_the_checkpoint_and_not_the_training(self):
        with small_disk("16k") as disk:
            result = stretto(*QUICK, "--out", disk / "run", "--checkpoint-every", "4", "--json")
            self.assert_succeeds(result)
            self.assertEqual(json.loads(result.stdout)["deposits"]["applied"], 16)
            self.assertIn("no checkpoint after", result.stderr)
            self.assertIn("No space left on device", result.stderr)
            self.assertEqual(list((disk / "run").glob("checkpoint*")), [])


@unittest.skipUnless(CAN_TRAIN, "no stretto-train in this build (STRETTO_TORCH=OFF)")
class Resume(ProgramTest):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.assert_succeeds(stretto(*QUICK, "--out", self.folder, "--checkpoint-every", "8"))
        self.more = ("train", "hyperplane", "--ranks", "2", "--steps", "16", "--batch", "4", "--resume", self.folder)

    def test_a_damaged_checkpoint_is_told_without_the_words_of_a_library(self):
        file = pathlib.Path(self.folder, "checkpoint.json")
        for content, fault in (("[]", "a value is array; expected an object"), ("{}", "it lacks 'version'"),
                               ("{", "it ends within its JSON, at line 1, column 2"),
                               ('{"version": "x"}', "a value is string; expected number")):
            file.write_text(content, encoding="ascii")
            result = stretto(*self.more)
            self.assert_rejected(result, f"checkpoint.json: truncated or damaged ({fault})")

    def test_goes_on_in_the_same_folder(self):
        self.assert_succeeds(stretto(*self.more, "--checkpoint-every", "8"))
        path = pathlib.Path(self.folder)
        self.assertEqual([file.name for file in path.glob("*.pt")], ["stretto-state-32.pt"])
        batches = [json.loads(line)["batch"] for rank in (0, 1)
                   for line in (path / f"records-{rank}.jsonl").read_text(encoding="ascii").splitlines()]
        self.assertEqual(sorted(batches), list(range(32)))
        summary = json.loads((path / "summary.json").read_text(encoding="ascii"))
        with open(path / "curves.csv", newline="", encoding="ascii") as file:
            losses = [row for row in csv.DictReader(file) if row["loss"]]
        self.assertEqual(len(losses), len(summary["curve"]), "curves and summary are of the same part")

    def test_another_momentum_is_refused(self):
        self.assert_rejected(stretto(*self.more, "--momentum", "0.25"), "momentum", "this run with momentum 0.25")

    def test_damage_is_refused(self):
        path = pathlib.Path(self.folder) / "checkpoint.json"
        good = path.read_text(encoding="ascii")
        for old, new in (('"batches": 16', '"batches": 12'), ('"next":16', '"next":8'), ('"next": 16', '"next": 8'),
                         ("stretto-state-16.pt", "../stretto-state-16.pt"), ('"checksum": ', '"checksum": 1')):
            if old not in good:
                continue
            path.write_text(good.replace(old, new), encoding="ascii")
            self.assert_rejected(stretto(*self.more), "checkpoint.json", "damaged")


@unittest.skipUnless(CAN_TRAIN, "no stretto-train in this build (STRETTO_TORCH=OFF)")
class Ranks(ProgramTest):
    def start(self, *options):
        process = subprocess.Popen([STRETTO, "train", "hyperplane", "--ranks", "2", "--steps", "1000", *options],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        process.stderr.readline()
        return process, children_of(process.pid)

    def test_delivery_latest_with_a_late_rank_0_loses_nothing(self):
        result = stretto("train", "hyperplane", "--ranks", "4", "--steps", "30", "--batch", "4", "--algorithm",
                         "eager-solo", "--delivery", "latest", "--imbalance", "persistent:rank=0,delay=5ms", "--json")
        self.assert_succeeds(result)
        deposits = json.loads(result.stdout)["deposits"]
        passed_over = deposits.pop("passed_over", 0)  # by rank 0, and by whom else the machine held up
        self.assertEqual(deposits, {"made": 120, "applied": 120, "dropped": 0, "pending": 0, "lost": 0})
        self.assertTrue(0 <= passed_over < 120, passed_over)

    def test_a_lost_rank_wakes_the_one_that_sleeps(self):
        # Without being woken the other one is killed after 30 seconds: the watchdog is shorter.
        for options in (("--imbalance", "persistent:rank=0,delay=3000s"), ("--pace", "3000s"),
                        ("--imbalance", "persistent:rank=0,delay=3000s", "--algorithm", "local")):
            process, ranks = self.start(*options)
            os.kill(ranks[1], signal.SIGKILL)
            _, error = process.communicate(timeout=25)
            self.assertEqual(process.returncode, 3, error)
            self.assertFalse(any(map(alive, ranks)))

    def test_a_closed_terminal_interrupts(self):
        for number in (signal.SIGHUP, signal.SIGQUIT):
            process, ranks = self.start("--pace", "3000s")
            process.send_signal(number)
            _, error = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 130, error)
            self.assertIn("interrupted", error)
            self.assertFalse(any(map(alive, ranks)))


if __name__ == "__main__":
    main()
