"""`stretto train --predict`: a run that watches its own rate. Skipped without LibTorch."""

import json
import os
import pathlib
import tempfile
import unittest

from program import STRETTO, ProgramTest, main, stretto

CAN_TRAIN = (STRETTO.parent / "stretto-train").exists()
RANKS = 3
# Steps of 50 ms that are slept, so that what else the machine does is a small part of them.
WATCHED = ("train", "digits", "--ranks", str(RANKS), "--batch", "1", "--pace", "50ms", "--predict=10", "--json")


@unittest.skipUnless(CAN_TRAIN, "no stretto-train in this build (STRETTO_TORCH=OFF)")
class Watched(ProgramTest):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def slower(self, ranks, steps):
        """The imbalance by which these ranks take three times as long in these steps."""
        trace = self.folder / "trace.csv"
        rows = [f"{step},{rank},0.1\n" for step in steps for rank in ranks]
        trace.write_text("step,rank,seconds\n99999,0,0\n" + "".join(rows), encoding="ascii")
        return f"trace:{trace}"

    def run_watched(self, steps, *arguments):
        result = stretto(*WATCHED, "--steps", steps, *arguments)
        self.assert_succeeds(result)
        return json.loads(result.stdout), result.stderr

    def test_a_run_that_goes_as_it_began(self):
        output, told = self.run_watched(100, "--out", self.folder / "run")
        prediction = output["prediction"]
        # Ranks sleep and compute nothing; where other programs take the cores they are woken late, and nothing else.
        self.assertLessEqual({drift["cause"] for drift in prediction["drifts"]}, {"rounds"})
        self.assertNotIn(" computes ", told)
        self.assertIn(f"predicted from the first {prediction['first_steps']} steps: ", told)
        self.assertGreaterEqual(prediction["first_steps"], 10)
        self.assertEqual(prediction["ratio"], prediction["measured"] / prediction["predicted"])
        self.assertLessEqual(prediction["predicted"], RANKS / 0.05, "no step is shorter than its pace")
        kept = (self.folder / "run" / "prediction.json").read_text(encoding="ascii")
        self.assertEqual(json.loads(kept), prediction)
        unwatched = stretto("train", "digits", "--ranks", "2", "--steps", "4", "--json", "--out", self.folder / "run")
        self.assertNotIn("prediction", json.loads(unwatched.stdout))
        self.assertFalse((self.folder / "run" / "prediction.json").exists(), "a new run replaces the older one")

    def test_a_rank_that_becomes_slower_is_named(self):
        # By how much is what RateWatch's own test asks: here a window may hold steps of before or after, if the
        # prediction itself had to wait for a core.
        imbalance = self.slower([1], range(50, 75))
        output, told = self.run_watched(140, "--algorithm", "sync", "--imbalance", imbalance)
        drift = next(drift for drift in output["prediction"]["drifts"] if drift["cause"] != "rounds")
        self.assertEqual((drift["cause"], drift["rank"]), ("rank", 1))
        self.assertGreater(drift["times"], 1)
        self.assertLess(drift["ratio"], 0.9)
        self.assertGreater(drift["until"], drift["second"])
        self.assertIn(": rank 1 computes ", told)

    def test_ranks_that_all_become_slower_are_their_computing(self):
        imbalance = self.slower(range(RANKS), range(50, 90))
        output, told = self.run_watched(90, "--algorithm", "eager-solo", "--imbalance", imbalance)
        drift = next(drift for drift in output["prediction"]["drifts"] if drift["cause"] != "rounds")
        self.assertEqual((drift["cause"], drift["rank"], drift["until"]), ("compute", None, None))
        self.assertGreater(drift["times"], 1)
        self.assertIn(": the ranks compute ", told)

    def test_for_people(self):
        result = stretto(*WATCHED[:-1], "--steps", "50")
        self.assert_succeeds(result)
        self.assertIn("batches/s; measured after them: ", result.stdout)

    def test_what_cannot_be_predicted_is_refused(self):
        train = ("train", "digits", "--predict", "--json")
        self.assert_rejected(stretto(*train, "--steps", "20"), "this run has 20 steps a rank", "at least 105")
        self.assert_rejected(stretto(*train, "--simulated", "--pace", "1ms"), "a simulated run is as fast as its model")
        self.assert_rejected(stretto(*train, "--algorithm", "k-sync:2"), "how many batches k-sync drops")
        self.assert_rejected(stretto(*train, "--algorithm", "ps-async", "--servers", "dedicated:1"),
                             "with --servers dedicated:1 some ranks make no steps")
        self.assert_rejected(stretto("train", "digits", "--predict=4"), "at least 5", "--predict 20")
        self.assert_rejected(stretto("train", "digits", "--predict=soon"), "--predict soon")
        self.assert_rejected(stretto("train", "digits", "--predict", "--predict"), "--predict is given 2 times")
        launched = os.environ | {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2",
                                 "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}
        self.assert_rejected(stretto(*train, env=launched), "no process watches the ranks that mpirun starts",
                             "--ranks 2")


if __name__ == "__main__":
    main()
