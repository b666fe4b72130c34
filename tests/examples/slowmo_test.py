"""The program of docs/own_algorithm.md: an algorithm of one's own among those of the library."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM, MISFITS = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
# Steps of different length on every rank, on a virtual clock: the same bits in every run.
LATE = ("--simulated", "--pace", "1ms", "--imbalance", "linear:0ms..9ms")


def slowmo(*arguments, program=PROGRAM):
    return subprocess.run([program, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=600, check=False)


class SlowMoTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def trained(self, *arguments):
        """The result as JSON, without what is the same for every run."""
        result = slowmo("train", "digits", *arguments, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        summary = json.loads(result.stdout)
        self.assertTrue(summary["replicas_identical"])
        self.assertEqual(summary["deposits"]["lost"], 0)
        del summary["machine"]
        return summary

    def checkpoint(self, *arguments):
        """The checkpoint that a run has written last."""
        out = self.folder / str(len(list(self.folder.iterdir())))
        self.trained(*arguments, "--out", out)
        return out, json.loads((out / "checkpoint.json").read_text(encoding="ascii"))

    def assert_refused(self, line, *arguments, program=PROGRAM):
        result = slowmo(*arguments, program=program)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (2, "", line + "\n"))

    def test_trains_in_processes(self):
        summary = self.trained("--ranks", 4, "--steps", 80, "--algorithm", "slowmo")
        self.assertEqual((summary["deposits"]["applied"], summary["rounds"]), (320, 11))
        self.assertGreater(summary["accuracy"], 0.85)

    def test_without_slow_momentum_it_is_local_to_the_bit(self):
        job = ("--ranks", 4, "--steps", 33, *LATE)  # the last round is one of a single step
        local = self.trained(*job, "--algorithm", "local")
        plain = self.trained(*job, "--algorithm", "slowmo", "--slow-momentum", 0)
        self.assertEqual((local.pop("algorithm"), plain.pop("algorithm")), ("local", "slowmo"))
        self.assertEqual(plain, local)
        self.assertNotEqual(self.trained(*job, "--algorithm", "slowmo")["loss"], local["loss"])
        written = (*job, "--checkpoint-every", 64)
        self.assertEqual(self.checkpoint(*written, "--algorithm", "slowmo", "--slow-momentum", 0)[1]["parameters_checksum"],
                         self.checkpoint(*written, "--algorithm", "local")[1]["parameters_checksum"])

    def test_after_every_step_it_is_sync_with_momentum(self):
        job = ("--ranks", 3, "--steps", 40, *LATE)
        sync = self.trained(*job, "--algorithm", "sync", "--momentum", 0.5)
        slow = self.trained(*job, "--algorithm", "slowmo", "--slow-momentum", 0.5, "--sync-every", 1, "--momentum", 0)
        self.assertAlmostEqual(slow["loss"], sync["loss"], delta=1e-4 * sync["loss"])  # rounding

    def test_planted_delays_and_unequal_batches(self):
        for ranks, imbalance in ((1, "none"), (2, "persistent:rank=1,factor=5"), (3, "rotate:1ms..40ms"),
                                 (5, "random:ranks=2,delay=30ms")):
            job = ("--ranks", ranks, "--steps", 13, "--sync-every", 4, "--simulated", "--pace", "1ms", "--imbalance", imbalance,
                   "--network", "latency=1ms,jitter=2ms", "--data", "shared", "--algorithm", "slowmo")
            first, second = (self.trained(*job, "--compute-threads", threads) for threads in (1, 3))
            self.assertEqual(first, second, "the same bits on any number of cores")
            self.assertEqual(first["deposits"],
                             {"made": 13 * ranks, "applied": 13 * ranks, "dropped": 0, "pending": 0, "lost": 0})

    def test_goes_on_with_its_velocity(self):
        job = ("--ranks", 4, *LATE, "--algorithm", "slowmo", "--momentum", 0, "--checkpoint-every", 128)
        _, whole = self.checkpoint(*job, "--steps", 64)
        half, there = self.checkpoint(*job, "--steps", 32)
        self.assertEqual((whole["batches"], there["batches"]), (256, 128))
        self.assertGreater(there["recipe_bytes"], 0)
        _, rest = self.checkpoint(*job, "--steps", 64, "--resume", half)
        self.assertEqual(rest["parameters_checksum"], whole["parameters_checksum"])
        state = half / there["recipe_file"]
        state.write_bytes(state.read_bytes()[:3])
        result = slowmo("train", "digits", *job, "--steps", 64, "--resume", half)
        self.assertEqual(result.returncode, 2)
        self.assertIn("truncated: 3 bytes", result.stderr)

    def test_is_compared_with_the_library(self):
        result = slowmo("compare", "digits", "--algorithms", "sync,slowmo", "--repeats", 1, "--steps", 16, *LATE, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual([run["algorithm"] for run in json.loads(result.stdout)["runs"]], ["sync", "slowmo"])

    def test_help_and_completion_know_it(self):
        text = slowmo("train", "--help").stdout
        self.assertIn("\n  slowmo  ", text)
        self.assertIn("\n  --slow-momentum M ", text)
        self.assertIn("\n  slowmo train vowels ", text)
        script = slowmo("completion", "bash").stdout
        self.assertIn("--slow-momentum", script)
        self.assertIn("complete -F _slowmo_complete slowmo\n", script)

    def test_bad_input(self):
        self.assert_refused("slowmo train: --slow-momentum 1: expected a number from 0 to 0.99, as in slow-momentum 0.5",
                            "train", "digits", "--algorithm", "slowmo", "--slow-momentum", 1)
        self.assert_refused("slowmo train: --slow-momentum 0.5 has no effect with local: expected with slowmo",
                            "train", "digits", "--algorithm", "local", "--slow-momentum", 0.5)
        self.assert_refused("slowmo train: normalize samples with algorithm 'slowmo': expected contributors, since it "
                            "counts each model once",
                            "train", "digits", "--algorithm", "slowmo", "--normalize", "samples")
        self.assert_refused("slowmo train: algorithm 'slowmo:3': expected slowmo",
                            "train", "digits", "--algorithm", "slowmo:3")
        result = slowmo("train", "digits", "--algorithm", "slomo")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--algorithm slomo: did you mean slowmo? Known: sync, ", result.stderr)
        result = slowmo("compare", "missing.py:train")
        self.assertEqual(result.returncode, 2)
        self.assertIn("missing.py:train: there is no file missing.py", result.stderr)

    def test_an_algorithm_that_does_not_fit(self):
        for which, line in (
                ("of-the-library", "algorithm 'sync' of one's own: the name is taken; expected another one"),
                ("twice", "algorithm 'own' of one's own: the name is taken; expected another one"),
                ("colon", "algorithm 'own:1' of one's own: expected a name of small letters, digits and dashes, as in "
                          "local or d-psgd")):
            for command in ("--help", "train"):
                self.assert_refused(f"misfits: {line}", which, command, program=MISFITS)
        self.assert_refused("misfits train: option --ranks of an algorithm: `misfits train` has one of this name; expected "
                            "another", "option", "train", "--help", program=MISFITS)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
