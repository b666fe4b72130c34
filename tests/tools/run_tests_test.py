"""tools/run_tests over a CTest that writes what it is told to."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "run_tests"
DISK = """[ RUN      ] Disk.IsFull
../../disk_test.cc:3: Skipped
needs a disk
[  SKIPPED ] Disk.IsFull (0 ms)
[ RUN      ] Disk.Writes
[       OK ] Disk.Writes (1 ms)
[ RUN      ] All/Disk.Reads/0
[       OK ] All/Disk.Reads/0 (1 ms)
[==========] 3 tests from 2 test suites ran. (2 ms total)
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] Disk.IsFull
"""
FULL = DISK.replace("[       OK ] All/Disk.Reads/0 (1 ms)",
                    "../../disk_test.cc:9: Failure\nit is full\n[  FAILED  ] All/Disk.Reads/0, where GetParam() = 0 (1 ms)")
ENDS = "[ RUN      ] Disk.Writes\n[       OK ] Disk.Writes (1 ms)\n[ RUN      ] Disk.Ends\nSegmentation fault\n"
JOBS = """test_mpi (__main__.Jobs.test_mpi) ... skipped 'no mpirun'
test_told (__main__.Jobs.test_told)
What it tells. ... skipped 'no reason'
test_run (__main__.Jobs.test_run) ... ok
test_wrong (__main__.Jobs.test_wrong) ... FAIL
======================================================================
FAIL: test_wrong (__main__.Jobs.test_wrong)
----------------------------------------------------------------------
Ran 4 tests in 1.2s
"""
RANKS = """../../tests/python/job_test.py::test_alone PASSED                        [ 33%]
../../tests/python/job_test.py::test_sums[4 ranks] SKIPPED (no torch)    [ 66%]
../../tests/python/job_test.py::Job::test_gpu SKIPPED (no device)        [100%]
SKIPPED [1] ../../tests/python/job_test.py:7: no torch
"""
EXPECTED = "asan Disk.* no disk\nrelease,asan *.test_* no program # really\n"


def log_of(programs):
    """What CTest keeps of {name: (output, passed)}."""
    parts = []
    for number, (name, (output, passed)) in enumerate(programs.items(), 1):
        parts.append(f"{number}/{len(programs)} Testing: {name}\n{number}/{len(programs)} Test: {name}\nCommand: \"x\"\nOutput:\n"
                     f"{'-' * 58}\n{output}<end of output>\nTest time =   0.10 sec\n{'-' * 58}\n"
                     f"Test {'Passed' if passed else 'Failed'}.\n\n")
    return "Start testing: today\n" + "".join(parts) + "End testing: today\n"


class RunTests(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "tools").mkdir()
        (self.root / "build/asan/Testing/Temporary").mkdir(parents=True)
        (self.root / "bin").mkdir()
        (self.root / "bin/ctest").write_text(
            f"#!/bin/sh\ncd {self.root}\ncase \"$*\" in *--rerun-failed*) run=second;; *) run=first;; esac\n"
            "[ -e $run ] || exit 9\ncp $run build/asan/Testing/Temporary/LastTest.log\n! grep -q '^Test Failed' $run\n")
        (self.root / "bin/ccache").write_text(f"#!/bin/sh\necho {self.root}/kept\n")
        for program in ("ctest", "ccache"):
            (self.root / "bin" / program).chmod(0o755)

    def run_on(self, first, second=None, expected=EXPECTED, again=False):
        """(exit status, lines of the output) of the tool in the build asan."""
        (self.root / "tools/expected_skips").write_text(expected)
        for name, programs in (("first", first), ("second", second)):
            (self.root / name).unlink(missing_ok=True)
            if programs is not None:
                (self.root / name).write_text(log_of(programs))
        done = subprocess.run(
            [sys.executable, TOOL, "--root", self.root, "asan"], capture_output=True, text=True, check=False,
            env={**os.environ, "PATH": f"{self.root}/bin:{os.environ['PATH']}", "STRETTO_SECOND_TRY": str(int(again))})
        return done.returncode, (done.stdout + done.stderr).splitlines()

    def test_every_runner_is_counted_and_every_skip_named(self):
        jobs = JOBS.replace("FAIL", "ok").replace("ok: test_wrong", "")
        status, lines = self.run_on({"disk": (DISK, True), "jobs": (jobs, True), "ranks": (RANKS, True), "spirals": ("", True)})
        self.assertEqual(status, 0, lines)
        self.assertEqual(lines[-2:], [
            "skipped in asan: 5: Disk.IsFull, __main__.Jobs.test_mpi, __main__.Jobs.test_told, job_test.Job.test_gpu, "
            "job_test.test_sums[4 ranks]", "6 passed, 0 failed, 5 skipped"])

    def test_what_failed_is_named_as_its_runner_does(self):
        for output, name, closing in ((FULL, "All/Disk.Reads/0", "1 passed, 1 failed, 1 skipped"),
                                      (JOBS, "__main__.Jobs.test_wrong", "1 passed, 1 failed, 2 skipped"),
                                      (JOBS + "Ran 3 tests in 0.1s\n", "__main__.Jobs.test_wrong", "4 passed, 1 failed, 2 skipped"),
                                      (ENDS, "Disk.Ends", "1 passed, 1 failed, 0 skipped"),
                                      ("no runner", "program", "0 passed, 1 failed, 0 skipped")):
            status, lines = self.run_on({"program": (output, False)})
            self.assertEqual((status, lines[-1]), (1, closing))
            self.assertIn(f"=== program: {name}", lines)

    def test_unexpected_skip(self):
        status, lines = self.run_on({"disk": (DISK, True)}, expected="release Disk.* no disk\n")
        self.assertEqual(status, 1)
        self.assertIn("skipped, and not expected to be: Disk.IsFull (tools/expected_skips)", lines)

    def test_reason_is_wanted(self):
        status, lines = self.run_on({"disk": (DISK, True)}, expected="asan Disk.*\n")
        self.assertEqual(status, 1)
        self.assertIn("the reason", lines[-1])

    def test_no_test_is_a_failure(self):
        self.assertEqual(self.run_on({})[0], 1)

    def test_a_second_try_is_named_and_the_second_in_a_row_fails(self):
        first, second = {"disk": (FULL, False), "other": (DISK, True)}, {"disk": (DISK, True)}
        self.assertEqual(self.run_on(first, second)[0], 1, "nobody has asked for it")
        status, lines = self.run_on(first, second, again=True)
        self.assertEqual((status, lines[-1]), (0, "4 passed, 0 failed, 1 skipped"))
        self.assertIn("All/Disk.Reads/0 passed when it ran again", lines)
        status, lines = self.run_on(first, second, again=True)
        self.assertEqual(status, 1)
        self.assertIn("All/Disk.Reads/0 failed at first in this run and in the last", lines)
        self.assertEqual(self.run_on({"other": (DISK, True)}, again=True)[0], 0)
        self.assertEqual(self.run_on(first, second, again=True)[0], 0, "a run without it lies between")

    def test_a_second_try_that_fails_fails(self):
        first = {"disk": (FULL, False)}
        self.assertEqual(self.run_on(first, first, again=True)[0], 1)

    def test_many_failures_are_not_tried_again(self):
        many = "".join(f"[ RUN      ] Disk.N{i}\n[  FAILED  ] Disk.N{i} (0 ms)\n" for i in range(4))
        self.assertEqual(self.run_on({"disk": (many, False)}, {"disk": (DISK, True)}, again=True)[0], 1)


if __name__ == "__main__":
    unittest.main()
