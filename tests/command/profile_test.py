"""Profiling a worker, and what `stretto predict` and `stretto advise` make of it and of the traces of others."""

import gzip
import json
import pathlib
import re
import shutil
import tempfile
import unittest

from program import STRETTO, ProgramTest, main, stretto

CAN_TRAIN = (STRETTO.parent / "stretto-train").exists()
TRACES = pathlib.Path(__file__).resolve().parent / "traces"
FEW = ("--steps", "4", "--warm-up", "1", "--traced", "2")
SMALL = ("--steps", "24", "--replicas", "2", "--model-bytes", "4KiB", "--network", "bandwidth=100GB/s")


class ProfileTest(ProgramTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def succeeded(self, *arguments, **options):
        result = stretto(*arguments, **options)
        self.assert_succeeds(result)
        return result

    def write(self, text, name):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path


@unittest.skipUnless(CAN_TRAIN, "no stretto-train in this build (STRETTO_TORCH=OFF)")
class Profile(ProfileTest):
    def test_is_a_job_that_predict_and_advise_read(self):
        profile = self.succeeded("profile", "hyperplane", *FEW, "--bandwidth", "1Gbit/s")
        job = json.loads(profile.stdout)
        self.assertEqual(job["units"], {"time": "seconds", "size": "bytes"})
        self.assertEqual(job["bandwidth"], 1.25e8)
        self.assertEqual(job["workload"]["name"], "hyperplane")
        (worker,) = job["workers"]
        self.assertEqual(len(worker["profile"]), 4)
        for step in worker["profile"]:
            (layer,) = step
            self.assertEqual((layer["name"], layer["bytes"], layer["after"]), ("linear", 4 * (8192 + 1), []))
            self.assertGreater(layer["forward"], 0)
            self.assertGreater(layer["backward"], 0)
            self.assertGreater(layer["update"], 0)
        self.assertIn("linear", profile.stderr)

        fine = self.succeeded("predict", "fine", "-", "--workers", "3", "--json", input=profile.stdout)
        self.assertEqual(json.loads(fine.stdout)["workers"], 3)
        self.succeeded("predict", "coarse", "-", input=profile.stdout)
        file = self.write(profile.stdout, "profile.json")
        advice = self.succeeded("advise", file, "--ranks", "4", "--imbalance", "random:ranks=1,delay=200ms", *SMALL,
                                "--algorithms", "eager-quorum:3", "--json")
        self.assertEqual(json.loads(advice.stdout)["ranks"], 4)
        self.assertEqual(json.loads(advice.stdout)["recommended"], "eager-quorum:3")

    def test_into_a_file_leaves_a_table(self):
        file = self.folder / "digits.json"
        result = self.succeeded("profile", "digits", *FEW, "--batch", "8", "--overhead", "--out", file)
        self.assertIn("hidden", result.stdout)
        self.assertIn("profiling costs", result.stdout)
        job = json.loads(file.read_text(encoding="utf-8"))
        self.assertEqual([layer["after"] for layer in job["workers"][0]["profile"][0]], [[], ["hidden"]])
        self.assertEqual(job["workers"][0]["batch"], 8)
        cost = job["workload"]["profiling_cost"]
        self.assertLessEqual(cost["low"], cost["median"])
        self.assertLessEqual(cost["median"], cost["high"])

    def test_what_does_not_fit_is_refused(self):
        self.assert_rejected(stretto("profile", "vowel"), "vowel", "vowels")
        self.assert_rejected(stretto("profile"), "WORKLOAD")
        self.assert_rejected(stretto("profile", "digits", "--bandwidth", "fast"), "--bandwidth fast", "10Gbit/s")
        self.assert_rejected(stretto("profile", "digits", "--steps", "0"), "--steps 0")
        self.assert_rejected(stretto("profile", "digits", "--out", self.folder / "no" / "file"), "cannot be written")


class Traces(ProfileTest):
    """Two ranks of DistributedDataParallel, one of them late: tests/command/traces/README.md says how they were made."""

    def object_of(self, *arguments):
        return json.loads(self.succeeded(*arguments, "--json").stdout)

    def test_of_pytorch_tell_who_was_late(self):
        predicted = self.object_of("predict", "run", TRACES / "ddp", *SMALL, "--algorithms", "sync")
        self.assertEqual(predicted["ranks"], 2)
        # Milliseconds, by hand: from the end of a step's last allreduce to the call of the next step's last; in one step
        # the first of rank 1 is over before, and its 1.513 ms are no computation.
        computed = [(2.645, 104.105), (6.505, 4.109 - 1.513), (3.194, 103.605), (5.460, 3.494), (3.724, 104.214)]
        self.assertAlmostEqual(predicted["mean_s"], sum(map(sum, computed)) / 10e3, delta=1e-6)
        self.assertAlmostEqual(predicted["skew_s"], sum(abs(a - b) for a, b in computed) / 5e3, delta=1e-6)

    def test_of_pytorch_tell_what_their_collectives_take(self):
        few = ("--replicas", "3", "--steps", "40", "--algorithms", "sync")
        result = self.succeeded("predict", "run", TRACES / "ddp", *few, "--json")
        said = re.search(r"/ddp: collectives take ([0-9.]+) ms of a step: as over \S+ with a model of 100 MB, which is assumed",
                         result.stderr)
        self.assertTrue(said, result.stderr)
        rate = json.loads(result.stdout)["algorithms"][0]["batches_per_s"]
        free = self.object_of("predict", "run", TRACES / "ddp", *SMALL, "--algorithms", "sync")["algorithms"][0]["batches_per_s"]
        self.assertAlmostEqual(2 / rate - 2 / free, float(said[1]) / 1e3, delta=2e-4)

    def test_are_read_by_profile_as_steps_that_advise_reads(self):
        steps = self.succeeded("profile", TRACES / "ddp")
        self.assertRegex(steps.stderr, r"2 ranks, 5 steps")
        self.assertRegex(steps.stderr, r"(?m)^1 .* 60\.0 %$")  # rank 1 was the last in three of them
        self.assertIn("s of a step in collectives", steps.stderr)
        rows = steps.stdout.splitlines()
        self.assertEqual((rows[0], len(rows)), ("step,rank,seconds", 11))
        file = self.folder / "steps.csv"
        table = self.succeeded("profile", TRACES / "ddp", "--out", file)
        self.assertEqual((file.read_text(encoding="utf-8"), table.stdout), (steps.stdout, steps.stderr))
        with_trace, with_steps = (self.object_of("predict", "run", times, *SMALL, "--algorithms", "sync")
                                  for times in (TRACES / "ddp", file))
        self.assertAlmostEqual(with_steps["mean_s"], with_trace["mean_s"], delta=1e-6)
        self.assert_rejected(stretto("profile", TRACES / "ddp", "--steps", "9"), "--steps", "expected a workload")

    def test_of_ranks_that_are_alike_name_none_as_the_last(self):
        table = self.succeeded("profile", self.write("0,0,0.25\n0,1,0.25\n1,0,0.25\n1,1,0.5\n", "steps.csv")).stderr
        self.assertRegex(table, r"(?m)^0 .* 0\.0 %$")
        self.assertRegex(table, r"(?m)^1 .* 50\.0 %$")

    def test_a_header_in_a_comment_names_the_columns(self):  # as numpy.savetxt() writes it
        rows = "rank,step,seconds\n0,0,0.1\n1,0,0.2\n0,1,0.1\n1,1,0.2\n"
        plain, commented = (self.succeeded("profile", self.write(begin + rows, "steps.csv")).stderr for begin in ("", "# "))
        self.assertIn("\n0.100 s between the first and the last of a step", commented)
        self.assertEqual(commented, plain)

    def test_of_one_rank_are_not_enough(self):
        shutil.copy(TRACES / "ddp" / "rank1.json", self.folder)
        self.assert_rejected(stretto("advise", self.folder), "has no trace of rank 0 of 2")
        self.assert_rejected(stretto("advise", TRACES / "ddp" / "rank0.json"), "has no trace of rank 1 of 2")

    def test_that_are_cut_off_are_read_as_far_as_they_go(self):
        whole = self.succeeded("profile", TRACES / "ddp").stdout.splitlines()
        text = (TRACES / "ddp" / "rank0.json").read_text(encoding="utf-8")
        shutil.copy(TRACES / "ddp" / "rank1.json", self.folder)
        self.write(text[:text.rindex("gloo:")], "rank0.json")  # in the last step: it does not count, nor do the others' behind it
        cut = self.succeeded("profile", self.folder)
        self.assertIn("rank0.json' is cut off: read up to its last whole event\n", cut.stderr)
        rows = cut.stdout.splitlines()
        self.assertEqual(rows, whole[:len(whole) - 2])
        self.assertIn("is cut off: read up to its last whole event", self.succeeded("advise", self.folder, *SMALL).stderr)
        self.write(text[:200], "rank0.json")
        self.assert_rejected(stretto("advise", self.folder / "rank0.json"), "is cut off")

    def test_that_gzip_has_compressed_are_read_like_others(self):
        for rank in (0, 1):
            (self.folder / f"rank-{rank}.json.gz").write_bytes(gzip.compress((TRACES / "ddp" / f"rank{rank}.json").read_bytes()))
        packed, plain = (self.succeeded("profile", folder) for folder in (self.folder, TRACES / "ddp"))
        self.assertEqual((packed.stdout, packed.stderr), (plain.stdout, plain.stderr))
        table = self.folder / "steps.csv.gz"
        table.write_bytes(gzip.compress(plain.stdout.encode()))
        self.assertEqual(self.succeeded("profile", table).stdout, plain.stdout)
        with open(table, "rb") as file:
            self.assertEqual(self.succeeded("advise", "-", *SMALL, stdin=file).stdout,
                             self.succeeded("advise", table, *SMALL).stdout)
        (self.folder / "rank-1.json.gz").write_bytes((self.folder / "rank-1.json.gz").read_bytes()[:-100])
        self.assertIn("rank-1.json.gz' is cut off", self.succeeded("profile", self.folder).stderr)

    def test_that_say_who_was_slow_take_no_imbalance(self):
        self.assert_rejected(stretto("advise", TRACES / "ddp", "--imbalance", "cloud"), "--imbalance cloud")

    def test_tell_how_more_ranks_would_do(self):
        measured, more = (self.object_of("predict", "run", TRACES / "ddp", *SMALL, "--algorithms", "sync", *ranks)
                          for ranks in ((), ("--ranks", "8")))
        self.assertEqual(more["ranks"], 8)
        # Each rank as long as one of those measured, in the mean; but of eight another one is late in most steps.
        self.assertAlmostEqual(more["mean_s"] / measured["mean_s"], 1, delta=0.2)
        self.assertGreater(more["skew_s"], measured["skew_s"])


class Profiles(ProfileTest):
    """Of others' making: what does not fit the schema is one line."""

    LAYER = {"name": "a", "bytes": 8, "forward": 1, "backward": 1, "update": 1}

    def refused(self, workers, *parts, **other):
        job = {"bandwidth": 1e9, "workers": workers, **other}
        self.assert_rejected(stretto("advise", self.write(json.dumps(job), "job.json")), *parts)

    def test_are_refused_where_they_do_not_fit(self):
        self.refused([{"batch": 1, "profile": [[]]}], "workers[0].profile[0]", "a step without layers")
        self.refused([{"batch": 1, "profile": [[{**self.LAYER, "forward": -1}]]}], "forward", "found -1")
        self.refused([{"batch": 1, "profile": [[{"name": "a", "bytes": 8, "backward": 1, "update": 1}]]}], "forward: missing")
        circle = [{**self.LAYER, "after": "b"}, {**self.LAYER, "name": "b", "after": "a"}]
        self.refused([{"batch": 1, "profile": [circle]}], "in a circle")
        self.refused([{"batch": 1, "layers": [self.LAYER]}], "units", units={"time": "ms", "size": "bytes"})
        classes = {"bandwidth": 1e9, "workers": [{"batch": 1, "layers": [self.LAYER]}] * 2}
        several = self.write(json.dumps(classes), "job.json")
        self.assert_rejected(stretto("advise", several, "--ranks", "4"), "--ranks 4", "2 classes of workers")
        self.refused([{"batch": 1, "layers": [{**self.LAYER, "forward": 0, "backward": 0, "update": 0}]}], "takes no time")


if __name__ == "__main__":
    main()
