"""Training from the command line. Skipped, loudly, in a build without LibTorch."""

import csv
import gzip
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import unittest

from program import STRETTO, ProgramTest, alive, children_of, main, stretto, wait_until

CAN_TRAIN = (STRETTO.parent / "stretto-train").exists()
TORCHRUN = pathlib.Path(__file__).resolve().parents[2] / ".venv/bin/torchrun"
RUN = {"algorithm", "seed", "throughput", "speedup", "ideal_speedup", "loss", "accuracy", "rounds_per_batch",
       "messages_per_step", "bytes_per_step", "sent",
       "staleness", "wait_share", "deposits", "replicas_identical"}
# Needs no data that is installed; 64 points would not be the paper's, but a step takes a millisecond.
QUICK = ("hyperplane", "--ranks", "2", "--steps", "3", "--batch", "4")


@unittest.skipUnless(CAN_TRAIN, "no stretto-train in this build (STRETTO_TORCH=OFF)")
class Train(ProgramTest):
    def assert_good_run(self, run):
        self.assertLessEqual(RUN, set(run))
        self.assertEqual(run["deposits"], {"made": 6, "applied": 6, "dropped": 0, "pending": 0, "lost": 0})
        self.assertTrue(run["replicas_identical"])
        self.assertGreater(run["throughput"], 0)
        self.assertIsNone(run["accuracy"], "a regression has none")
        self.assertIsNotNone(run["loss"])

    def test_a_reader_that_goes_away_does_not_end_the_run(self):
        for simulated in ((), ("--simulated", "--pace", "1ms")):
            with tempfile.TemporaryDirectory() as folder:
                command = [str(STRETTO), "train", *QUICK, *simulated, "--out", folder]
                with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
                    process.stdout.close()
                    said = process.stderr.read().decode()
                self.assertEqual(process.wait(), 2, said)
                self.assertIn("standard output cannot be written", said)
                self.assertEqual(json.loads((pathlib.Path(folder) / "summary.json").read_text())["rounds"] > 0, True)

    def test_nor_does_a_reader_of_what_it_has_to_say(self):
        with tempfile.TemporaryDirectory() as folder:
            command = [str(STRETTO), "train", *QUICK, "--simulated", "--pace", "1ms", "--out", folder]
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
                process.stderr.close()
                self.assertIn(b"batches/s", process.stdout.read())
            self.assertEqual(process.wait(), 0)

    def test_a_full_disk_behind_standard_output_is_said(self):
        command = [str(STRETTO), "train", *QUICK, "--simulated", "--pace", "1ms"]
        with open("/dev/full", "wb") as full:
            result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=60)
        self.assertEqual(result.returncode, 2)
        self.assertIn(b"standard output cannot be written", result.stderr)

    def test_json_and_run_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            result = stretto("train", *QUICK, "--algorithm", "eager-solo", "--out", folder, "--json")
            self.assert_succeeds(result)
            run = json.loads(result.stdout)
            self.assert_good_run(run)
            self.assertLessEqual({"imbalance", "pace", "machine"}, set(run))
            self.assertIn("batches/s", result.stderr)
            files = {path.name for path in pathlib.Path(folder).iterdir()}
            self.assertLessEqual({"config.json", "summary.json", "trace.json", "records-0.jsonl", "curves.csv"}, files)
            json.loads(pathlib.Path(folder, "trace.json").read_text(encoding="utf-8"))

    def test_timeline_of_tensors_and_what_explains_oversleep(self):
        with tempfile.TemporaryDirectory() as folder:
            result = stretto("train", *QUICK, "--ordering", "coordinator", "--cycle-time", "1ms", "--timeline", "--out", folder,
                             "--json")
            self.assert_succeeds(result)
            self.assertIn("beside oversleep: the kernel gives a thread slices of ", result.stderr)
            for rank in json.loads(result.stdout)["ordering"]["ranks"]:
                self.assertLessEqual({"slice_seconds", "throttled_periods", "throttled_seconds"}, set(rank))
            events = json.loads(pathlib.Path(folder, "trace.json").read_text(encoding="utf-8"))["traceEvents"]
            names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
            self.assertEqual(names, {1: "stretto", 2: "rank 0 tensors", 3: "rank 1 tensors"})
            for part in ("QUEUE", "NEGOTIATE", "FUSE", "TRANSFER"):
                steps = {(event["pid"], event["args"]["step"]) for event in events if event["name"] == part}
                self.assertEqual(steps, {(pid, step) for pid in (2, 3) for step in range(3)}, part)
            self.assert_succeeds(stretto("report", folder, "--algorithms", "none"))
        self.assert_rejected(stretto("train", *QUICK, "--ordering", "topo", "--timeline"), "timeline", "--out")
        self.assert_rejected(stretto("train", *QUICK, "--records", "local"), "records", "--out")
        self.assert_rejected(stretto("train", *QUICK, "--timeline", "--out", "run"), "timeline", "--ordering coordinator")

    def test_compare(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "result.json"
            result = stretto("compare", *QUICK, "--algorithms", "sync,eager-deadline:1,5ms", "--repeats", "2", "--out", folder,
                             "--imbalance", "random:ranks=1,delay=1ms", f"--json={path}")
            self.assert_succeeds(result)
            self.assertIn("(injected)", result.stdout)
            self.assertIn("against sync, 95 %", result.stdout)
            compared = json.loads(path.read_text(encoding="utf-8"))
            self.assertEqual([(run["algorithm"], run["seed"]) for run in compared["runs"]],
                             [("sync", 1), ("sync", 2), ("eager-deadline:1,5ms", 1),
                              ("eager-deadline:1,5ms", 2)])
            for run in compared["runs"]:
                self.assert_good_run(run)
            self.assertEqual(compared["runs"][0]["speedup"], 1)
            self.assertEqual(compared["imbalance"], "random:ranks=1,delay=1ms")
            self.assertEqual(compared["paired"][0]["against"], "sync")
            with open(pathlib.Path(folder) / "curves.csv", newline="", encoding="utf-8") as file:
                self.assertEqual({row["algorithm"] for row in csv.DictReader(file)}, {"sync", "eager-deadline:1,5ms"})
            self.assertTrue((pathlib.Path(folder) / "eager-deadline-1-5ms-seed2" / "summary.json").exists())
            self.assertIn("eager-deadline:1,5ms applies ", result.stdout.splitlines()[-1])
            if "no SVG" not in result.stdout:
                drawn = (pathlib.Path(folder) / "waiting.svg").read_text(encoding="utf-8")
                self.assertTrue(drawn.startswith("<?xml"))

    def test_bad_input_that_shows_late(self):
        self.assert_rejected(stretto("train", "digits", "--ranks", "2", env={"STRETTO_DATA": "/nonexistent"}), "digits")

    def test_reproduction(self):
        result = stretto("reproduce", "hyperplane", "--ranks", "2", "--steps", "2", "--pace", "10ms", "--json")
        self.assert_succeeds(result)
        experiments = json.loads(result.stdout)["experiments"]
        self.assertEqual([part["imbalance"] for part in experiments],
                         [f"random:ranks=1,delay={delay}ms" for delay in (200, 300, 400)])
        self.assertIn("paper", result.stderr)
        self.assertIn("--out DIR keeps curves", result.stderr)

    def read_table(self, *path):
        with open(pathlib.Path(*path), newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def assert_drawn(self, result, *path):
        if "no SVG" not in result.stdout:
            self.assertTrue(pathlib.Path(*path).read_text(encoding="utf-8").startswith("<?xml"))

    def test_reproduction_leaves_curves(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assert_succeeds(result := stretto("reproduce", "lag", "--ranks", "2", "--epochs", "1", "--scale", "0.01",
                                                   "--out", folder))
            rows = self.read_table(folder, "curves.csv")
            self.assertEqual({row["algorithm"] for row in rows}, {f"max_lag {lag}" for lag in (1, 2, 3, 4, 16)})
            ends = [row for row in rows if row["accuracy"]]
            self.assertEqual(len(ends), 5, "each run is evaluated at its end")
            self.assertEqual({row["batches"] for row in ends}, {ends[0]["batches"]})
            self.assert_drawn(result, folder, "curves-time.svg")

    def test_reproduction_leaves_throughput(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "result.json"
            result = stretto("reproduce", "table2", "--ranks", "8", "--steps", "20", "--out", folder, f"--json={path}")
            reproduced = json.loads(path.read_text(encoding="utf-8"))
            # What holds on 64 ranks need not on 8.
            self.assertEqual(result.returncode, 0 if all(reproduced["holds"]) else 1, result.stderr)
            statements = reproduced["experiments"][0]["statements"]
            self.assertEqual(len(statements), 5)
            for statement in statements:
                self.assertIn(statement["statement"], result.stdout)
                self.assertIsInstance(statement["holds"], bool)
            rows = self.read_table(folder, "throughput.csv")
            self.assertEqual([row["algorithm"] for row in rows], ["asynchronous server", "d-psgd", "sgp", "eager-solo"])
            for row in rows:
                self.assertLessEqual(float(row["batches_per_second"]), 1.001 * float(row["no_communication"]))
            self.assertFalse(pathlib.Path(folder, "8-ranks-460ms", "curves.csv").exists(), "nothing is trained")
            self.assert_drawn(result, folder, "throughput.svg")

    def test_without_matplotlib_the_figures_are_left(self):
        with tempfile.TemporaryDirectory() as folder:
            python = pathlib.Path(folder) / "bin" / "python3"
            python.parent.mkdir()
            python.write_text("#!/bin/sh\nexit 1\n", encoding="ascii")
            python.chmod(0o755)
            result = stretto("reproduce", "table2", "--ranks", "4", "--steps", "2", "--out", f"{folder}/kept",
                             env=dict(os.environ, VIRTUAL_ENV=folder))
            self.assertEqual([line for line in result.stdout.splitlines() if "SVG" in line],
                             [f"{folder}/kept/throughput.csv (no SVG: matplotlib is not in .venv, nor in {python})"])
            self.assertEqual(len(self.read_table(folder, "kept", "throughput.csv")), 4)

    def test_virtual_time(self):
        outputs = []
        for threads in ("1", "2"):
            result = stretto("train", "digits", "--ranks", "6", "--steps", "8", "--simulated", "--pace", "1ms", "--algorithm",
                             "eager-solo", "--imbalance", "linear:0ms..9ms", "--compute-threads", threads, "--json")
            self.assert_succeeds(result)
            self.assertIn("simulated: all times are virtual", result.stderr)
            outputs.append(json.loads(result.stdout))
            del outputs[-1]["machine"]
        self.assertEqual(outputs[0], outputs[1])
        self.assertTrue(outputs[0]["simulated"])
        self.assertTrue(outputs[0]["network"].startswith("latency=1us"))

    @unittest.skipUnless(shutil.which("mpirun"), "no mpirun: Open MPI is not installed")
    def test_under_mpirun(self):
        # Two mpirun of one user at once race for the folder that they share: one removes it where the other makes it.
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                           OMPI_MCA_orte_tmpdir_base=folder.name)
        launch = ["mpirun", "--oversubscribe", "-n", "2"]
        quick = [QUICK[0], *QUICK[3:], "--between", "mpi"]  # which moves nothing on one host
        result = subprocess.run([*launch, STRETTO, "train", *quick, "--json"], capture_output=True, text=True, timeout=100,
                                env=environment, check=False)
        self.assert_succeeds(result)
        self.assert_good_run(json.loads(result.stdout))
        result = subprocess.run([*launch, STRETTO, "train", *quick, "--ranks", "5"], capture_output=True, text=True,
                                timeout=100, env=environment, check=False)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(result.stderr.count("--ranks 5: this job was started with 2 ranks"), 1, result.stderr)
        result = subprocess.run([*launch, STRETTO, "bench", "link", "--sizes", "8,64", "--json"], capture_output=True,
                                text=True, timeout=100, env=environment, check=False)
        self.assert_succeeds(result)
        self.assertEqual(json.loads(result.stdout)["transport"], "shm")

    @unittest.skipUnless(TORCHRUN.exists(), f"no {TORCHRUN}: PyTorch is not installed")
    def test_under_torchrun(self):
        launch = [TORCHRUN, "--no-python", "--nproc-per-node", "2", "--rdzv-backend", "c10d",
                  "--rdzv-endpoint", "localhost:0"]
        quick = [QUICK[0], *QUICK[3:]]
        result = subprocess.run([*launch, STRETTO, "train", *quick, "--json"], capture_output=True, text=True, timeout=100,
                                check=False)
        self.assert_succeeds(result)
        self.assert_good_run(json.loads(result.stdout))
        process = subprocess.Popen([*launch, STRETTO, "train", "hyperplane", "--steps", "100000", "--pace", "1ms"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        wait_until(lambda: len(children_of(process.pid)) == 2)
        ranks = children_of(process.pid)
        wait_until(lambda: all("stretto-train" in pathlib.Path(f"/proc/{rank}/cmdline").read_text(encoding="utf-8")
                               for rank in ranks))
        process.stderr.readline()  # what the ranks say first, so that they have met
        os.kill(ranks[1], signal.SIGKILL)
        _, error = process.communicate(timeout=60)
        self.assertNotEqual(process.returncode, 0)
        self.assertFalse(any(map(alive, ranks)))

    def test_lost_rank(self):
        process = subprocess.Popen([STRETTO, "train", "hyperplane", "--ranks", "3", "--steps", "100000", "--pace", "1ms"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        process.stderr.readline()
        ranks = children_of(process.pid)
        self.assertEqual(len(ranks), 3)
        os.kill(ranks[1], signal.SIGKILL)
        _, error = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 3, error)
        self.assertIn("rank 1", error)
        self.assertFalse(any(map(alive, ranks)))

    def test_interrupted(self):
        process = subprocess.Popen([STRETTO, "train", "hyperplane", "--ranks", "2", "--steps", "100000", "--pace", "1ms"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        # What the ranks say first, so that they are there.
        process.stderr.readline()
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, error)


@unittest.skipUnless(CAN_TRAIN, "no stretto-train in this build (STRETTO_TORCH=OFF)")
class Reproduce(ProgramTest):
    @staticmethod
    def grey_images(folder):
        """Images of one grey each, in place of those that a package brings."""
        with gzip.open(pathlib.Path(folder, "digits.csv.gz"), "wt") as file:
            file.writelines(",".join([str(image % 17)] * 64 + [str(image % 10)]) + "\n" for image in range(1797))

    def test_grid_scaling(self):
        with tempfile.TemporaryDirectory() as folder:
            self.grey_images(folder)
            result = stretto("reproduce", "grid-scaling", "--ranks", "8", "--steps", "600", "--json",
                             env={**os.environ, "STRETTO_DATA": folder})
        self.assert_succeeds(result)
        reproduced = json.loads(result.stdout)
        self.assertEqual(reproduced["holds"], [True] * 5)
        self.assertEqual([len(experiment["runs"]) for experiment in reproduced["experiments"]], [4, 4, 4, 4, 2])

    def test_alexnet_grid(self):
        with tempfile.TemporaryDirectory() as folder:
            self.grey_images(folder)
            result = stretto("reproduce", "alexnet-grid", "--ranks", "9", "--repeats", "1", "--epochs", "1", "--json",
                             env={**os.environ, "STRETTO_DATA": folder})
        reproduced = json.loads(result.stdout)
        self.assertEqual(result.returncode, 0 if reproduced["holds"] == [True] else 1, result.stderr)
        experiment, = reproduced["experiments"]
        self.assertEqual([run["ranks"] for run in experiment["runs"]], [1, 4, 4, 9, 9])
        self.assertEqual(len(experiment["statements"]), 6)
        for run in experiment["runs"]:
            self.assertEqual({point["of"] for point in run["evaluations"]}, {"replica"})

    def test_group_averaging(self):
        with tempfile.TemporaryDirectory() as folder:
            self.grey_images(folder)
            for name, experiments, groups in (("wagma-ablation", 2, 5), ("wagma-semantics", 4, 9), ("wagma-accuracy", 2, 22),
                                              ("grid-semantics", 4, 8), ("momentum-exchange", 3, 3)):
                result = stretto("reproduce", name, "--ranks", "16", "--repeats", "1", "--steps", "2", "--json",
                                 env={**os.environ, "STRETTO_DATA": folder})
                self.assert_succeeds(result)
                self.assertIn("one run says nothing", result.stderr)
                reproduced = json.loads(result.stdout)
                and_of_all = name in ("grid-semantics", "momentum-exchange")
                self.assertEqual(reproduced["holds"], [True] * (experiments + and_of_all))
                for experiment in reproduced["experiments"]:
                    self.assertEqual(len(experiment["runs"]), groups)
                    for run in experiment["runs"]:
                        self.assertTrue(run["simulated"])
                        is_grid = not name.startswith("wagma") and run["algorithm"] not in ("sync", "wagma-quorum")
                        steps = 1 if is_grid else 2  # whose last average waits for all
                        self.assertEqual(run["deposits"]["made"], steps * run["ranks"])


if __name__ == "__main__":
    main()
