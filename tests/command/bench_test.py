"""`stretto bench`: one small run of each benchmark, with whatever libraries are installed, so that none rots."""

import csv
import io
import json
import math
import os
import pathlib
import signal
import subprocess
import tempfile

from program import STRETTO, ProgramTest, alive, children_of, main, stretto, wait_until

PEERS = ("openmpi", "openmpi-spin", "openmpi-eager", "mpich", "gloo")
TINY = {
    "allreduce": ("--ranks", "2", "--sizes", "4,4KiB", "--time", "2ms"),
    "skew": ("--ranks", "3", "--sizes", "64", "--activations", "full,quorum:2", "--rounds", "2"),
    "spin": ("--ranks", "3", "--sizes", "64", "--pairs", "1", "--work", "5ms"),
    "overlap": ("--ranks", "2", "--sizes", "4KiB", "--buckets", "2", "--work", "2ms", "--steps", "2"),
}
# Those of a row, beside library, ranks, bytes, repetitions, loaded and busy.
METRICS = {
    "allreduce": {"calls", "microseconds", "bus_gb_per_s"},
    "skew": {"mean_ms", "ideal_ms", "over_ideal_ms", "cores", "arrived", "fresh"},
    "spin": {"asleep_ms", "waiting_ms", "slowdown"},
    "overlap": {"compute_ms", "collective_ms", "at_once_ms", "blocking_ms", "overlapped_ms", "hidden_blocking",
                "hidden_overlapped"},
}


class Comparisons(ProgramTest):
    def run_beside(self, benchmark, *options):
        """The rows of JSON and CSV; every library has its own, or is said to be left out."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "out.csv"
            result = stretto("bench", benchmark, *TINY[benchmark], "--repeats", "1", "--against", ",".join(PEERS),
                             "--csv", path, "--json", *options)
            self.assert_succeeds(result)
            samples = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))
        rows = json.loads(result.stdout)["rows"]
        measured = {row["library"] for row in rows}
        for peer in PEERS:
            self.assertTrue(peer in measured or f"{peer} is left out with" in result.stderr, result.stderr)
            self.assertNotIn(f"{peer} printed", result.stderr)
        self.assertIn("stretto", measured)
        for row in rows:
            self.assertLessEqual({"library", "ranks", "bytes", "repetitions", "loaded", "busy"} | METRICS[benchmark],
                                 set(row))
            self.assertEqual(set(row["microseconds" if benchmark == "allreduce" else min(METRICS[benchmark])]),
                             {"median", "low", "high"})
        self.assertEqual({sample["library"] for sample in samples}, measured)
        self.assertEqual(len(samples), len(rows), "one repetition")
        return rows, samples, result.stderr

    def test_allreduce(self):
        rows, samples, text = self.run_beside("allreduce")
        self.assertIn("best of them / stretto", text)
        self.assertEqual({row["bytes"] for row in rows}, {4, 4096})
        self.assertEqual({sample["busy"] for sample in samples}, {"0"})

    def test_allreduce_under_load(self):
        rows, samples, text = self.run_beside("allreduce", "--load", "2", "--percentiles")
        self.assertIn("2 busy processes", text)
        self.assertEqual({sample["busy"] for sample in samples}, {"2"})
        for row in rows:
            self.assertEqual(row["busy"], 2)
            self.assertLessEqual(row["call_median_us"]["median"], row["call_p99_us"]["median"])

    def test_skew(self):
        rows, _, _ = self.run_beside("skew")
        self.assertEqual([row["activation"] for row in rows if row["library"] == "stretto"], ["full", "quorum:2"])
        for row in rows:
            if row["activation"] == "full":
                self.assertEqual((row["arrived"]["median"], row["ideal_ms"]["median"]), (3, 1))

    def test_our_own_ways(self):
        way = ("--buffers", "plain,registered", "--through", "automatic,messages")
        libraries = {"stretto", "stretto-registered", "stretto-messages", "stretto-messages-registered"}
        options = (*TINY["allreduce"], *way, "--repeats", "1", "--load", "1", "--percentiles", "--json")
        result = stretto("bench", "allreduce", *options)
        self.assert_succeeds(result)
        self.assertNotIn("best of them", result.stderr)
        rows = json.loads(result.stdout)["rows"]
        self.assertEqual({(row["library"], row["bytes"]) for row in rows},
                         {(library, size) for library in libraries for size in (4, 4096)})
        for row in rows:
            self.assertLessEqual(row["call_median_us"]["median"], row["call_p99_us"]["median"])

        result = stretto("bench", "allreduce", "--ranks", "3", "--sizes", "4,4KiB", "--time", "2ms", "--seats", "2",
                         "--buffers", "plain,registered", "--repeats", "1", "--json")
        self.assert_succeeds(result)
        rows = json.loads(result.stdout)["rows"]
        self.assertEqual([row["library"] for row in rows],
                         2 * ["stretto-seats-2"] + 2 * ["stretto-seats-2-registered"])

        result = stretto("bench", "skew", *TINY["skew"], "--results", "view,plain", "--seats", "1", "--repeats", "1",
                         "--json")
        self.assert_succeeds(result)
        rows = json.loads(result.stdout)["rows"]
        self.assertEqual([row["library"] for row in rows], 2 * ["stretto-messages"] + 2 * ["stretto-messages-plain"])
        for row in rows:
            # On a loaded machine all may have come to the others, too.
            self.assertIn(row["arrived"]["median"], {3} if row["activation"] == "full" else {1, 1.5, 2, 2.5, 3})
        result = stretto("bench", "skew", *TINY["skew"], "--seats", "2", "--repeats", "1", "--json")
        self.assert_succeeds(result)
        rows = json.loads(result.stdout)["rows"]
        self.assertEqual({row["library"] for row in rows}, {"stretto-seats-2"})
        for row in rows:
            self.assertGreaterEqual(row["arrived"]["median"], 3 if row["activation"] == "full" else 2)

    def test_explanations(self):
        options = ("--ranks", "2,3", "--sizes", "4,4KiB", "--explain")
        result = stretto("bench", "allreduce", *options, "--through", "automatic,gather", "--json")
        self.assert_succeeds(result)
        rows = json.loads(result.stdout)["rows"]
        self.assertEqual(len(rows), 8)
        for row in rows:
            asked_for = "gather (as asked for)" in row["explanation"]
            self.assertEqual(row["library"], "stretto-gather" if asked_for else "stretto")
            self.assertIn(f"over {row['ranks']} ranks", row["explanation"])
            self.assertIn(row["explanation"], result.stderr)
        result = stretto("bench", "allreduce", *options, "--seats", "1")
        self.assert_succeeds(result)
        self.assertEqual(result.stdout.count("messages (as asked for)"), 4)
        result = stretto("bench", "allreduce", "--ranks", "3,5", "--sizes", "4,64KiB", "--explain", "--seats", "2")
        self.assert_succeeds(result)
        for boards in ("2 boards of 1 to 2 ranks", "3 boards of 1 to 2 ranks"):
            for between in ("recursive_doubling", "halving_doubling"):
                self.assertIn(f"{boards}, {between} between their leaders", result.stdout)

    def test_spin(self):
        rows, _, _ = self.run_beside("spin")
        for row in rows:
            self.assertGreater(row["slowdown"]["median"], 0)

    def test_overlap(self):
        rows, _, _ = self.run_beside("overlap")
        for row in rows:
            # The slowest rank computes for 3 ms.
            self.assertGreaterEqual(row["overlapped_ms"]["median"], 2.9)


class Limits(ProgramTest):
    def test_grid(self):
        for pace in ((), ("--pace", "2ms")):
            result = stretto("bench", "grid", "--floats", "1000", "--time", "20ms", "--repeats", "1", "--json", *pace)
            self.assert_succeeds(result)
            rows = json.loads(result.stdout)["rows"]
            self.assertEqual([row["rule"].split(",")[0] for row in rows], ["paper", "carry"])
            for row in rows:
                self.assertEqual((row["ranks"], row["bytes"]), (4, 4000))
                self.assertGreater(row["wire_mb_per_s"]["median"], 0)
        self.assert_rejected(stretto("bench", "grid", "--dimensions", "3"), "3")
        self.assert_rejected(stretto("bench", "grid", "--floats", "1"), "1")

    def test_link(self):
        result = stretto("bench", "link", "--sizes", "4,4KiB,64KiB", "--time", "5ms", "--json")
        self.assert_succeeds(result)
        link = json.loads(result.stdout)
        self.assertEqual([row["bytes"] for row in link["rows"]], [4, 4096, 65536])
        bandwidth = link["bandwidth"] or math.inf  # null: on a busy machine longer messages may take no longer
        for row in link["rows"]:
            self.assertGreater(row["seconds"], 0)
            self.assertAlmostEqual(row["line"] / (link["latency"] + row["bytes"] / bandwidth), 1)
        self.assertEqual(link["transport"], "shm")
        shared = stretto("bench", "link", "--sharing", "--sizes", "4,64KiB", "--time", "5ms", "--json")
        self.assertEqual(shared.returncode, 0, shared.stderr)
        sharing = json.loads(shared.stdout)
        self.assertEqual(sharing["transport"], "shm")
        for size in (4, 65536):
            self.assertGreaterEqual(sum(row["bytes"] == size for row in sharing["rows"]), 20)
        for row in sharing["rows"]:
            self.assertTrue(0 < row["first"] <= row["last"], row)
        self.assertGreaterEqual(sharing["unevenness"], 0)
        self.assertGreaterEqual(sharing["grain"], 0)
        self.assertIn("off by at most", result.stderr)
        self.assert_rejected(stretto("bench", "link", "--sizes", "4KiB,4KiB"), "--sizes 4KiB,4KiB", "two different sizes")
        torchrun = {"RANK": "0", "WORLD_SIZE": "3", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "3"}
        self.assert_rejected(stretto("bench", "link", env=dict(os.environ, **torchrun)), "started 3 ranks")

    def test_limits(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "limits.csv"
            result = stretto("bench", "limits", "--sizes", "4KiB", "--sources", "2", "--repeats", "1", "--time", "1ms",
                             "--csv", path, "--json")
            self.assert_succeeds(result)
            samples = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))
        rows = json.loads(result.stdout)["rows"]
        self.assertLessEqual({"memcpy", "sum of 2", "fault private", "fault shared", "hand-off yield", "hand-off futex"},
                             {row["limit"] for row in rows})
        for row in rows:
            self.assertGreater(row["median"], 0)
        self.assertEqual(len(samples), len(rows))


class Tuning(ProgramTest):
    def explanations(self, tuning, *options):
        result = stretto("bench", "allreduce", "--explain", "--ranks", "2", "--sizes", "64MiB", *options,
                         env=dict(os.environ, STRETTO_TUNING=str(tuning)))
        self.assert_succeeds(result)
        return result.stdout

    def test_what_is_fitted_is_used(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "tuning.txt"
            result = stretto("bench", "tune", "--out", path, "--time", "1ms", "--repeats", "1", "--json")
            self.assert_succeeds(result)
            tuned = json.loads(result.stdout)
            text = path.read_text(encoding="utf-8")
            self.assertIn(text, result.stderr)
            self.assertRegex(text, r"^# stretto bench tune, \d{4}-\d\d-\d\d: ")
            fitted = {line.split()[0]: float(line.split()[2]) for line in text.splitlines()[1:]}
            self.assertEqual(set(fitted), set(tuned["costs"]))
            for name, value in fitted.items():
                self.assertAlmostEqual(value / tuned["costs"][name], 1, 4)
            for row in tuned["rows"]:
                self.assertGreater(min(row["microseconds"], row["predicted_us"]), 0)
            self.assertNotEqual(self.explanations(path), self.explanations(""), "other times are compared")

    def test_the_choice_follows_the_file(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("hand_off = 1000\n")
            file.flush()
            self.assertIn(": gather (gather would take", self.explanations(file.name))
            self.assertIn(": exchange (as asked for)", self.explanations(file.name, "--through", "exchange"))
            # Where ranks have a core each.
            if len(os.sched_getaffinity(0)) >= 2:
                file.seek(0)
                file.write("hand_off = 0.01\nmove_rate = 1e9\ncache = 1\n")
                file.flush()
                self.assertIn(": exchange (gather would take", self.explanations(file.name))

    def test_bad_input(self):
        def with_file(name):
            return stretto("bench", "allreduce", *TINY["allreduce"], env=dict(os.environ, STRETTO_TUNING=str(name)))

        self.assert_rejected(with_file("/nonexistent/x.txt"), "/nonexistent/x.txt", "stretto bench tune --out")
        for content, what in (("hello", "NAME = NUMBER"), ("turn = -1", "a number from 1e-09 to 1e+15"), ("trun = 1", "expected one of")):
            with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
                file.write(f"# mine\n{content}\n")
                file.flush()
                self.assert_rejected(with_file(file.name), f"{file.name}, line 2", what)
        self.assert_rejected(stretto("bench", "tune", "--time", "soon"), "--time soon")
        self.assert_rejected(stretto("bench", "tune", "--repeats", "0"), "--repeats 0")
        self.assert_rejected(stretto("bench", "tune", "--out", "/nonexistent/x.txt"), "/nonexistent/x.txt")


class Plot(ProgramTest):
    def test_pictures(self):
        with tempfile.TemporaryDirectory() as folder:
            measured = pathlib.Path(folder) / "measured.csv"
            self.assert_succeeds(stretto("bench", "allreduce", *TINY["allreduce"], "--repeats", "1", "--csv", measured))
            result = stretto("bench", "plot", measured, measured, "--out", folder)
            if "matplotlib is missing" in result.stderr:
                self.skipTest(result.stderr)
            self.assert_succeeds(result)
            for line in result.stdout.splitlines():
                self.assertGreater(pathlib.Path(line).stat().st_size, 50, line)
            self.assertEqual({path.name for path in pathlib.Path(folder).iterdir()},
                             {"measured.csv", "allreduce.csv", "allreduce.png", "allreduce.svg"})

    def test_bad_input(self):
        self.assert_rejected(stretto("bench", "plot"), "FILE is missing")
        self.assert_rejected(stretto("bench", "plot", "/nonexistent.csv"), "/nonexistent.csv", "No such file")
        self.assert_rejected(stretto("bench", "plot", "/tmp"), "'/tmp'", "it is a folder")
        with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
            file.write("library,ranks,bytes,repetition,microseconds,background\nx,2,8,0,soon,0\n")
            file.flush()
            self.assert_rejected(stretto("bench", "plot", file.name), f"{file.name}, line 2", "microseconds is 'soon'")
        self.assert_rejected(stretto("bench", "plot", STRETTO), "it is no text")

    def test_without_matplotlib(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "measured.csv"
            file.write_text("library,ranks,bytes,repetition,microseconds,background\nx,2,8,0,1,0\n", encoding="ascii")
            python = pathlib.Path(folder) / "bin" / "python3"
            python.parent.mkdir()
            python.write_text("#!/bin/sh\nexit 1\n", encoding="ascii")
            python.chmod(0o755)
            result = stretto("bench", "plot", file, "--out", folder, env={"VIRTUAL_ENV": folder})
            self.assert_rejected(result, "matplotlib is missing", str(python))


class BadInput(ProgramTest):
    def test_names(self):
        self.assert_rejected(stretto("bench", "allreduc"), "did you mean allreduce?")
        for benchmark in TINY:
            self.assert_rejected(stretto("bench", benchmark, "--against", "openmpy"), "--against openmpy",
                                 "did you mean openmpi?")
            self.assert_rejected(stretto("bench", benchmark, "--against", "gloo,gloo"), "gloo stands there twice")
        self.assert_rejected(stretto("bench", "allreduce", "--through", "mesages"), "did you mean messages?")
        self.assert_rejected(stretto("bench", "allreduce", "--buffers", "plain,plain"), "plain stands there twice")
        self.assert_rejected(stretto("bench", "allreduce", "--buffers", ""), "--buffers ''")
        self.assert_rejected(stretto("bench", "allreduce", "--through", "gather", "--seats", "1"), "--through gather")
        self.assert_rejected(stretto("bench", "skew", "--results", "veiw"), "did you mean view?")
        self.assert_rejected(stretto("bench", "limits", "--against", "openmpi"), "limits are the machine's, no library's")
        self.assert_rejected(stretto("bench", "skew", "--activations", "solo,quorum:99"), "quorum:99")

    def test_seats(self):
        for seats in ("0", "one"):
            self.assert_rejected(stretto("bench", "allreduce", "--seats", seats), f"--seats {seats}", "from 1 to")
        self.assert_rejected(stretto("bench", "allreduce", "--ranks", "4,2", "--seats", "3"), "--seats 3", "at most 2")
        self.assert_rejected(stretto("bench", "allreduce", "--seats", "2", "--through", "gather,exchange"),
                             "--through gather,exchange", "expected automatic or gather with --seats 2")
        for command in (("bench", "skew"), ("reproduce", "fig9")):
            for seats in ("9", "0", "one"):
                self.assert_rejected(stretto(*command, "--ranks", "8", "--seats", seats), f"--seats {seats}", "from 1")

    def test_numbers(self):
        for benchmark in TINY:
            for ranks in ("0", "-1", "two", "2,0"):
                self.assert_rejected(stretto("bench", benchmark, "--ranks", ranks), "--ranks", "expected a whole number")
            self.assert_rejected(stretto("bench", benchmark, "--sizes", "8,63"), "--sizes 63", "multiple of 4")
            self.assert_rejected(stretto("bench", benchmark, "--repeats", "0"), "--repeats 0")
            self.assert_rejected(stretto("bench", benchmark, "--load", "-1"), "--load")
        self.assert_rejected(stretto("bench", "spin", "--ranks", "1"), "--ranks 1", "from 2")
        self.assert_rejected(stretto("bench", "overlap", "--sizes", "12", "--buckets", "8"), "--sizes 12", "8 buckets")
        self.assert_rejected(stretto("bench", "limits", "--sizes", "12", "--sources", "2"), "--sizes 12", "2 sources")
        self.assert_rejected(stretto("bench", "limits", "--sizes", "100000GiB"), "at most")
        self.assert_rejected(stretto("bench", "limits", "--sources", "0"), "--sources 0")

    def test_places(self):
        for benchmark in (*TINY, "limits"):
            self.assert_rejected(stretto("bench", benchmark, "--csv", "/nonexistent/x.csv"), "/nonexistent/x.csv")


class Ends(ProgramTest):
    def test_nothing_is_left_of_an_interrupted_run_under_load(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            process = subprocess.Popen([STRETTO, "bench", "allreduce", "--ranks", "2", "--time", "20s", "--load", "2"],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.addCleanup(lambda process=process: process.poll() is None and process.kill())
            wait_until(lambda process=process: len(children_of(process.pid)) == 4)
            children = children_of(process.pid)
            process.send_signal(number)
            _, errors = process.communicate(timeout=60)
            wait_until(lambda children=children: not any(map(alive, children)))
            self.assertEqual(process.returncode, -number if number == signal.SIGKILL else 130, errors)


if __name__ == "__main__":
    main()
