"""`stretto reproduce ordering` and the benchmarks that calibrate it: small runs, and files that it refuses."""

import csv
import io
import json
import pathlib
import tempfile

from program import ProgramTest, main, stretto

ORDERINGS = ["coordinator", "gs", "nbcs", "scp", "topo"]
SMALL = ("reproduce", "ordering", "--ranks", "96", "--steps", "5")


class Scale(ProgramTest):
    def test_every_ordering_on_every_number_of_ranks(self):
        with tempfile.TemporaryDirectory() as folder:
            result = stretto(*SMALL, "--out", folder, "--json")
            reproduced = json.loads(result.stdout)
            self.assertEqual(result.returncode, 0 if reproduced["holds"] else 1, result.stderr)
            weak = [run for run in reproduced["runs"] if run["experiment"] == "weak"]
            self.assertEqual([(run["ranks"], run["ordering"]) for run in weak],
                             [(ranks, ordering) for ranks in (6, 24, 96) for ordering in ORDERINGS])
            for run in weak:
                parts = sum(run[part + "_seconds"] for part in ("computing", "overhead", "waiting", "transfer"))
                self.assertAlmostEqual(parts, run["step_seconds"]["mean"], places=9)
                self.assertEqual(len(run["skew_autocorrelation"]), 8)
            self.assertEqual(reproduced["calibration"], "paper")
            self.assertIn("a fit to six numbers", result.stderr)
            table = (pathlib.Path(folder) / "ordering.csv").read_text(encoding="utf-8")
            rows = list(csv.DictReader(io.StringIO(table)))
            self.assertEqual(len(rows), len(reproduced["runs"]))
            if "no SVG" not in result.stderr:
                for picture in ("weak", "parts", "networks"):
                    text = (pathlib.Path(folder) / f"ordering-{picture}.svg").read_text(encoding="utf-8")
                    self.assertTrue(text.startswith("<?xml"))

    def test_strong_scaling(self):
        result = stretto(*SMALL, "--strong", "--json")
        self.assert_succeeds(result)
        runs = json.loads(result.stdout)["runs"]
        self.assertEqual({(run["experiment"], run["ranks"], run["samples"]) for run in runs}, {("strong", 96, 256)})

    def test_the_same_seed_prints_the_same(self):
        def steps(seed):
            runs = json.loads(stretto(*SMALL, "--seed", seed, "--json").stdout)["runs"]
            return [run["step_seconds"] for run in runs]
        self.assertEqual(steps(3), steps(3))
        self.assertNotEqual(steps(3), steps(4))


class Calibrations(ProgramTest):
    def test_what_is_measured_here_is_simulated(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "here.json"
            self.assert_succeeds(stretto("bench", "ordering-costs", "--sleeps", "10", "--time", "20ms", "--ranks", "4", "--out",
                                         file))
            written = json.loads(file.read_text(encoding="utf-8"))
            self.assertEqual(written["units"], "seconds")
            result = stretto(*SMALL, "--calibration", file, "--json")
            self.assert_succeeds(result)
            self.assertNotIn("warning", result.stderr)
            self.assertEqual(json.loads(result.stdout)["calibration"], str(file))

            file.write_text(json.dumps(written | {"machine": "another"}), encoding="utf-8")
            result = stretto(*SMALL, "--calibration", file)
            self.assert_succeeds(result)
            self.assertIn("measured on another machine (another;", result.stdout)

            file.write_text(json.dumps(written | {"units": "milliseconds"}), encoding="utf-8")
            self.assert_rejected(stretto(*SMALL, "--calibration", file),
                                 "here.json': units: expected seconds; found milliseconds")

    def test_bad_input(self):
        self.assert_rejected(stretto(*SMALL, "--calibration", "/nonexistent.json"), "/nonexistent.json")
        self.assert_rejected(stretto("reproduce", "ordering", "--ranks", "5"), "--ranks 5")
        self.assert_rejected(stretto("bench", "oversleep", "--threads", "0,-1"), "--threads -1")
        self.assert_rejected(stretto("bench", "oversleep", "--sleep", "0"), "--sleep 0", "5ms")

    def test_oversleep_by_threads_beside(self):
        result = stretto("bench", "oversleep", "--threads", "0,2", "--sleep", "1ms", "--sleeps", "5", "--json")
        self.assert_succeeds(result)
        rows = json.loads(result.stdout)["rows"]
        self.assertEqual([(row["threads"], row["spins"]) for row in rows],
                         [(0, False), (0, True), (2, False), (2, True)])
        for row in rows:
            self.assertEqual(row["quantiles_seconds"], sorted(row["quantiles_seconds"]))
            self.assertGreaterEqual(row["quantiles_seconds"][0], 0)


if __name__ == "__main__":
    main()
