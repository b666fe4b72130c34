"""tools/check_skipped on logs as ctest keeps them."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "check_skipped"
LOG = """3/9 Testing: Disk.IsFull
[ RUN      ] Disk.IsFull
../../disk_test.cc:3: Skipped
needs a disk
[  SKIPPED ] Disk.IsFull (0 ms)
[==========] 1 test from 1 test suite ran. (0 ms total)
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] Disk.IsFull
4/9 Testing: command.jobs
test_mpi (__main__.Jobs.test_mpi) ... skipped 'no mpirun'
test_told (__main__.Jobs.test_told)
What it tells. ... skipped 'no reason'
test_run (__main__.Jobs.test_run) ... ok
5/9 Testing: python.job
../../tests/python/job_test.py::test_alone PASSED                        [ 33%]
../../tests/python/job_test.py::test_sums[4 ranks] SKIPPED (no torch)    [ 66%]
../../tests/python/job_test.py::Job::test_gpu SKIPPED (no device)        [100%]
SKIPPED [1] ../../tests/python/job_test.py:7: no torch
"""


def run_on(log, expected):
    """(exit status, output) of the tool for a log of the preset asan."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "tools").mkdir()
        (root / "tools" / "expected_skips").write_text(expected, encoding="utf-8")
        (root / "build/asan/Testing/Temporary").mkdir(parents=True)
        (root / "build/asan/Testing/Temporary/LastTest.log").write_text(log, encoding="utf-8")
        done = subprocess.run([sys.executable, TOOL, "asan", "--root", root], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr


class CheckSkipped(unittest.TestCase):
    ALL = "asan Disk.* no disk\nrelease,asan *.test_* no program # really\n"
    NAMES = "Disk.IsFull, __main__.Jobs.test_mpi, __main__.Jobs.test_told, job_test.Job.test_gpu, job_test.test_sums[4 ranks]"

    def test_every_skip_is_named_and_expected(self):
        self.assertEqual(run_on(LOG, self.ALL), (0, f"skipped in asan: 5: {self.NAMES}\n"))

    def test_nothing_is_skipped(self):
        self.assertEqual(run_on("", self.ALL), (0, "skipped in asan: 0\n"))

    def test_unexpected_skip(self):
        status, output = run_on(LOG, "asan *.test_* no program\nrelease Disk.* no disk\n")
        self.assertEqual(status, 1)
        self.assertIn("not expected to be: Disk.IsFull", output)

    def test_reason_is_wanted(self):
        status, output = run_on(LOG, "asan Disk.*\n")
        self.assertEqual(status, 1)
        self.assertIn("the reason", output)


if __name__ == "__main__":
    unittest.main()
