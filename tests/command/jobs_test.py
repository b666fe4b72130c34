"""Jobs of several processes: their JSON, their ends, and what they leave behind."""

import json
import os
import pathlib
import signal
import subprocess
import tempfile

from program import STRETTO, ProgramTest, alive, children_of, main, stretto, wait_until

SHORT = ("--ranks", "3", "--rounds", "2", "--sizes", "64,4KiB", "--no-peers")
# A round takes seconds here, so that there is time to interfere.
LONG = ("--ranks", "4", "--rounds", "20", "--skew", "500ms", "--sizes", "64", "--activations", "full", "--no-peers")
ROW = {"library", "activation", "ranks", "bytes", "rounds", "mean_ms", "ideal_ms", "arrived", "fresh", "cores"}


class Fig9(ProgramTest):
    def test_json_is_all_there_is_on_standard_output(self):
        result = stretto("reproduce", "fig9", *SHORT, "--json")
        self.assert_succeeds(result)
        rows = json.loads(result.stdout)["rows"]
        self.assertEqual([(row["activation"], row["bytes"]) for row in rows],
                         [(activation, size) for size in (64, 4096)
                          for activation in ("solo", "majority", "quorum:2", "full")])
        for row in rows:
            self.assertEqual(set(row), ROW)
            self.assertEqual((row["library"], row["ranks"], row["rounds"]), ("stretto", 3, 2))
            self.assertGreater(row["mean_ms"], 0)
        full = rows[3]
        self.assertEqual((full["arrived"], full["fresh"], full["ideal_ms"]), (3, 3, 1))
        self.assertIn("cores", result.stderr)

    def test_json_in_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "result.json"
            result = stretto("reproduce", "fig9", *SHORT, f"--json={path}")
            self.assert_succeeds(result)
            self.assertIn("activation", result.stdout)
            self.assertEqual(len(json.loads(path.read_text(encoding="utf-8"))["rows"]), 8)

    def test_open_mpi_beside_it(self):
        result = stretto("reproduce", "fig9", "--ranks", "2", "--rounds", "2", "--sizes", "64", "--activations", "full",
                         "--json")
        self.assert_succeeds(result)
        libraries = [row["library"] for row in json.loads(result.stdout)["rows"]]
        if "MPI_Allreduce is left out" in result.stderr:
            self.skipTest(result.stderr)
        self.assertEqual(libraries, ["stretto", "openmpi"])

    def test_standard_output_that_cannot_be_written(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            result = subprocess.run([STRETTO, "reproduce", "fig9", *SHORT, "--json"], stdout=full, timeout=60,
                                    stderr=subprocess.PIPE, check=False)
        self.assertNotEqual(result.returncode, 0)


class Idle(ProgramTest):
    def test_ratio(self):
        result = stretto("reproduce", "idle", "--ranks", "3", "--pairs", "2", "--work", "10ms", "--json")
        self.assert_succeeds(result)
        self.assertEqual(len(json.loads(result.stdout)["ratios"]), 2)


class Churn(ProgramTest):
    def test_each_batch_counts_once_and_statements_are_judged(self):
        result = stretto("reproduce", "churn", "--ranks", "4", "--steps", "300", "--json")
        self.assert_succeeds(result)
        reproduced = json.loads(result.stdout)
        self.assertTrue(all(reproduced["holds"]))
        self.assertEqual(len(reproduced["experiments"]), 2)
        self.assertTrue(all("restarts" in statement["statement"] for statement in reproduced["experiments"][0]["statements"]))

    def test_the_lines_of_a_grid_change_beside_training(self):
        result = stretto("reproduce", "grid-churn", "--ranks", "8", "--steps", "200", "--repeats", "1", "--json")
        self.assert_succeeds(result)
        experiment, = json.loads(result.stdout)["experiments"]
        self.assertEqual([run["algorithm"] for run in experiment["runs"]], ["eager-quorum", "easgd-grid"])
        for run in experiment["runs"]:
            self.assertEqual(run["deposits"]["applied"], 8 * 1600)
        self.assertTrue(all(counts["entered"] > 0 for line in experiment["runs"][1]["lines"] for counts in line))


class Ends(ProgramTest):
    def start(self):
        process = subprocess.Popen([STRETTO, "reproduce", "fig9", *LONG], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        wait_until(lambda: len(children_of(process.pid)) == 4)
        return process, children_of(process.pid)

    def end(self, process, ranks):
        out, err = process.communicate(timeout=60)
        wait_until(lambda: not any(map(alive, ranks)))
        return process.returncode, out + err

    def test_interrupted(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process, ranks = self.start()
            process.send_signal(number)
            code, output = self.end(process, ranks)
            self.assertEqual(code, 130, output)
            self.assertIn("interrupted", output)

    def test_lost_rank(self):
        process, ranks = self.start()
        os.kill(ranks[2], signal.SIGKILL)
        code, output = self.end(process, ranks)
        self.assertEqual(code, 3, output)

    def test_killed_parent_takes_its_ranks_along(self):
        process, ranks = self.start()
        process.kill()
        self.end(process, ranks)


if __name__ == "__main__":
    main()
