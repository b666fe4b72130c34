"""stretto compare --program, on the example programs and on what is no such program."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

STRETTO, EXAMPLES = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])


def compare(program, *arguments):
    return subprocess.run([STRETTO, "compare", "--program", program, *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=600, check=False)


class CompareProgram(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def compared(self, program, *arguments):
        result = compare(EXAMPLES / program, "--repeats", "1", f"--json={self.folder}/result.json", *arguments)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        for line in result.stdout.splitlines()[1:]:
            self.assertLessEqual(len(line), 110 + len(str(self.folder)), line)
        return result.stdout, json.loads((self.folder / "result.json").read_text(encoding="utf-8"))

    def test_a_program_of_ones_own(self):
        out = self.folder / "out"
        text, result = self.compared("own_loop", "--algorithms", "sync,eager-quorum", "--out", out)
        self.assertEqual([run["algorithm"] for run in result["runs"]], ["sync", "eager-quorum"])
        for run in result["runs"]:
            self.assertEqual((run["ranks"], run["batches"], run["lost_deposits"]), (4, 1200, 0))
            self.assertTrue(run["replicas_identical"])
            self.assertGreater(run["recorded"]["test accuracy"], 0.8)
        self.assertIn("test accuracy", text)
        self.assertIn("eager-quorum applies ", text.splitlines()[-1])
        if len(os.sched_getaffinity(0)) < 4:
            self.assertIn("ranks wait for cores as well as for each other", text)
        for rank in range(4):
            self.assertTrue((out / "sync-seed1" / "optimizer-0" / f"records-{rank}.jsonl").stat().st_size > 0)
        if "no picture" not in text:
            self.assertTrue((out / "waiting.svg").exists())
        self.compared("own_loop", "--algorithms", "sync", "--out", out)  # in the same folder

    def test_ranks_are_overridden(self):
        _, result = self.compared("spirals", "--algorithms", "sync,eager-solo,local", "--ranks", "3")
        self.assertEqual([run["ranks"] for run in result["runs"]], [3, 3, 3])

    def test_two_optimizers_have_a_row_each(self):
        text, result = self.compared("gan", "--algorithms", "sync,eager-quorum", "--ranks", "2")
        self.assertEqual([(run["algorithm"], run["optimizer"]) for run in result["runs"]],
                         [("sync", 0), ("sync", 1), ("eager-quorum", 0), ("eager-quorum", 1)])
        self.assertIn("error of the mean", result["runs"][0]["recorded"])
        self.assertIsNone(result["runs"][1]["speedup"])
        self.assertIn("optimizer", text)

    def assert_refused(self, result, code, *parts):
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr)

    def script(self, text):
        path = self.folder / "program"
        path.write_text("#!/bin/sh\n" + text, encoding="ascii")
        path.chmod(0o755)
        return path

    def test_what_is_no_such_program(self):
        self.assert_refused(compare("/nowhere/mine"), 2, "there is no such program")
        self.assert_refused(compare(self.folder), 2, "cannot be run")
        text = self.folder / "text"
        text.write_text("no program", encoding="ascii")
        self.assert_refused(compare(text), 2, "cannot be run")
        self.assert_refused(compare(self.script("exit 0\n")), 2, "has made no DistributedOptimizer under sync")
        self.assert_refused(compare(self.script("echo first >&2; echo out of words >&2; exit 3\n")), 1,
                            "failed under sync: out of words\n")
        self.assert_refused(compare(self.script("kill -9 $$\n")), 1, "failed under sync: it failed with status 137")
        self.assert_refused(compare(self.script("mkdir -p $STRETTO_OUT/optimizer-0; : > $STRETTO_OUT/optimizer-0/records-0.jsonl\n")),
                            2, "before its optimizer 0 had finished")
        kept = ("--algorithms", "eager-quorum,eager-solo", "--ranks", "2", "--repeats", "1", "--", self.folder / "kept")
        self.assert_refused(compare(EXAMPLES / "own_loop", *kept), 2, "has applied no batch under eager-solo",
                            "checkpoint of the run before")
        kept = ("--algorithms", "sync,eager-solo", *kept[2:-1], self.folder / "kept by sync")
        self.assert_refused(compare(EXAMPLES / "own_loop", *kept), 1, "failed under eager-solo: ", "of a loop over other",
                            "; does it go on from a file of the run before? STRETTO_OUT names a folder of each run's own")
        self.assert_refused(compare(EXAMPLES / "spirals", "--algorithms", "sinc"), 1, "did you mean sync?")
        self.assert_refused(compare(EXAMPLES / "spirals", "--ranks", "0"), 2, "--ranks")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
