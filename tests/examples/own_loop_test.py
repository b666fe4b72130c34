"""The program of docs/own_training_loop.md: killed at random moments, and gone on with."""

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
MEMBERS = [PROGRAM.parent / "stretto", "run", "--ranks", "2:3", "--restarts", "1", "--"]
BATCHES = 1200


def run(folder, algorithm):
    return subprocess.run([PROGRAM, folder, algorithm], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=600, check=False)


def checkpoint(folder):
    path = pathlib.Path(folder) / "checkpoint.json"
    return json.loads(path.read_text(encoding="ascii")) if path.exists() else None


def wait_for_checkpoint(job, folder, after):
    """Until there is one of more than `after` batches, and for a moment, unless the job has ended."""
    deadline = time.monotonic() + 100
    while job.poll() is None:
        there = checkpoint(folder)
        if there is not None and there["batches"] > after:
            time.sleep(random.uniform(0, 0.1))
            break
        if time.monotonic() > deadline:
            raise AssertionError("no checkpoint")
        time.sleep(0.002)


def run_and_kill(folder, algorithm, after, *launcher):
    """Kills the whole job once a checkpoint of more than `after` batches is there. Where members change one of them before."""
    with subprocess.Popen([*launcher, PROGRAM, folder, algorithm], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          start_new_session=True) as job:
        if launcher:
            wait_for_checkpoint(job, folder, 0)
            os.kill(ranks_of(job)[-1], signal.SIGKILL)
        wait_for_checkpoint(job, folder, after)
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)


def ranks_of(job):
    return [int(word) for word in pathlib.Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()]


class OwnLoopTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return str(pathlib.Path(self.folder.name) / name)

    def finish(self, folder, algorithm):
        result = run(folder, algorithm)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("replicas identical", result.stdout)
        self.assertIn("0 lost", result.stdout)
        there = checkpoint(folder)
        self.assertEqual(there["batches"], BATCHES)
        self.assertEqual(sum(there["steps"]), BATCHES)
        self.assertEqual((there["position"]["next"], there["position"]["returned"]), (BATCHES, []))
        return result.stdout, there

    def test_a_killed_sync_run_ends_with_the_bits_of_one_that_was_not(self):
        _, whole = self.finish(self.path("whole"), "sync")
        for after in (0, 400):
            run_and_kill(self.path("killed"), "sync", after)
        output, resumed = self.finish(self.path("killed"), "sync")
        self.assertIn("goes on after", output)
        for what in ("parameters_checksum", "optimizer_checksum", "random"):
            self.assertEqual(resumed[what], whole[what])

    def test_a_killed_eager_run_uses_every_batch_once(self):
        run_and_kill(self.path("killed"), "eager-quorum", 0)
        output, _ = self.finish(self.path("killed"), "eager-quorum")
        self.assertIn("goes on after", output)

    def test_it_goes_on_with_any_number_of_ranks_where_members_change(self):
        folder = self.path("members")
        run_and_kill(folder, "eager-quorum", 300, *MEMBERS)
        self.assertTrue(checkpoint(folder)["any_ranks"])
        run_and_kill(folder, "eager-quorum", 700)  # four that stay
        with subprocess.Popen([*MEMBERS, PROGRAM, folder, "eager-quorum"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as job:
            wait_for_checkpoint(job, folder, 800)
            if job.poll() is None:
                os.kill(ranks_of(job)[-1], signal.SIGKILL)
            output, errors = job.communicate(timeout=100)
        self.assertEqual(job.returncode, 0, output + errors)
        self.assertIn("goes on after", output)
        self.assertIn("replicas identical", output)
        there = checkpoint(folder)
        self.assertEqual(there["batches"], BATCHES)
        self.assertEqual((there["position"]["next"], there["position"]["returned"]), (BATCHES, []))

    def test_a_broken_checkpoint_is_refused_in_one_line(self):
        folder = self.path("broken")
        run_and_kill(folder, "sync", 0)
        file = pathlib.Path(folder) / "checkpoint.json"
        file.write_text(file.read_text(encoding="ascii")[:99], encoding="ascii")
        result = run(folder, "sync")
        self.assertNotEqual(result.returncode, 0)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertIn("checkpoint.json: truncated or damaged", result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
