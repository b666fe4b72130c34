"""`stretto train --ranks MIN:MAX` with processes that take the places of lost ones, and others that come and leave."""

import contextlib
import json
import os
import pathlib
import signal
import tempfile

from join_test import Job
from members_test import LOOP, WATCHDOG, Traces, run
from program import STRETTO, ProgramTest, alive, main, members_of, stretto, wait_until

import kills  # isort: skip

QUICK = ["--pace", "100us", "--imbalance", "lognormal:mean=2ms,cv=0.5"]
STEPS = 300  # of ten milliseconds


class TrainJob(Job):
    """A run of vowels with a folder, to which others may come."""

    def __init__(self, folder, ranks, *options, **more):
        self.folder = pathlib.Path(folder, "run")
        super().__init__(ranks, options=["--out", str(self.folder), "--json=" + str(pathlib.Path(folder, "json")), *options], **more)

    @staticmethod
    def command(ranks, *options, program):
        return ["train", "vowels", "--ranks", ranks, *([] if "--pace" in options else QUICK), *options]

    def batches(self, number):
        """Of a member, so far."""
        return len(kills.records_of(self.folder, number))

    def wait_for_batches(self, number):
        wait_until(lambda: self.batches(number) > 0 or self.process.poll() is not None)

    @contextlib.contextmanager
    def until_there_are(self, *spares):
        """Member 0 stands still, for which the others wait, until these have come."""
        first = members_of(self.process)[0]
        os.kill(first, signal.SIGSTOP)
        yield
        wait_until(lambda: self.look()["spares"] == list(spares))
        os.kill(first, signal.SIGCONT)


class Training(ProgramTest):
    def assert_is_one_run(self, folder, batches, numbers, lost=()):
        """Each batch is in one result, all replicas are equal to the bit, and `numbers` have computed. Of those that are lost
        perhaps nothing counts."""
        folder = pathlib.Path(folder)
        self.assertEqual(kills.faults_in(folder, batches, []), [])
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        computed = {number for number, count in enumerate(summary["members"]["batches"]) if count > 0}
        self.assertEqual(computed | set(lost), set(numbers))
        page = stretto("report", folder, "--out", folder / "page.html")
        self.assert_succeeds(page)
        self.assertNotIn("no records of", page.stdout + page.stderr)
        self.assertEqual(list(folder.glob("trace-*.jsonl")), [])  # all are in one
        traced = {json.loads(line.rstrip(","))["tid"] // 2 for line in (folder / "trace.json").read_text(encoding="utf-8").splitlines()
                  if '"ph":"X"' in line}
        self.assertLessEqual(set(summary["members"]["worlds"][-1]["members"]) & computed, traced)  # of the killed some is lost

    def test_another_process_takes_the_place_of_a_lost_one(self):
        for algorithm in "sync", "eager-quorum", "wagma-quorum":
            with self.subTest(algorithm=algorithm), tempfile.TemporaryDirectory() as folder, \
                    TrainJob(folder, "2:3", "--algorithm", algorithm, "--restarts", "1", "--steps", str(STEPS),
                             "--lr-schedule", "decay:2@100@200") as job:
                for number in range(3):
                    job.wait_for_batches(number)
                with job.until_there_are(3):
                    os.kill(members_of(job.process)[1], signal.SIGKILL)
                status, printed = job.end()
                self.assertEqual(status, 0, job.said())
                self.assertIn("rank 1 is lost: killed by SIGKILL; another process takes its place, as member 3\n", job.said())
                self.assertIn(algorithm, printed)
                self.assert_is_one_run(job.folder, 3 * STEPS, range(4), lost=[1])
                self.assertEqual(json.loads(pathlib.Path(folder, "json").read_text(encoding="utf-8"))["algorithm"], algorithm)
                self.assertEqual(job.traces.left(), set())

    def test_others_come_and_leave(self):
        for algorithm in "sync", "eager-quorum":
            with self.subTest(algorithm=algorithm), tempfile.TemporaryDirectory() as folder, \
                    TrainJob(folder, "1:4", "--algorithm", algorithm, "--here", "2", "--steps", str(STEPS)) as job:
                job.wait_for_batches(0)
                with job.until_there_are(2, 3):
                    join = job.start_join("--here", "2")
                for number in 2, 3:
                    job.wait_for_batches(number)
                os.kill(members_of(join)[3], signal.SIGTERM)
                wait_until(lambda: 3 not in members_of(join))
                self.assertEqual(job.look()["left"], [3])
                join.send_signal(signal.SIGTERM)
                said = join.communicate(timeout=WATCHDOG)[1]
                self.assertEqual(join.returncode, 0, said)
                self.assertEqual(said.count("has left\n"), 2, said)
                status, _ = job.end()
                self.assertEqual(status, 0, job.said())
                self.assert_is_one_run(job.folder, 4 * STEPS, range(4))

    def test_nobody_in_a_grid_waits_for_one_that_leaves(self):
        """Member 0 is in its first step until it has gone, and the others compute meanwhile."""
        with tempfile.TemporaryDirectory() as folder, \
                TrainJob(folder, "2:8", "--algorithm", "easgd-grid", "--steps", "400", "--sync-every", "1000",
                         "--pace", "100us", "--imbalance", "persistent:rank=0,delay=15s") as job:
            for number in range(1, 8):
                job.wait_for_batches(number)
            leaver = members_of(job.process)[5]
            os.kill(leaver, signal.SIGTERM)
            wait_until(lambda: not alive(leaver))
            self.assertEqual(job.look()["left"], [5])
            before = job.batches(1)
            wait_until(lambda: job.batches(1) > before)
            self.assertEqual(job.batches(0), 0)
            status, _ = job.end()
            self.assertEqual(status, 0, job.said())
            self.assert_is_one_run(job.folder, 8 * 400, range(8))

    def test_nobody_in_a_grid_waits_for_one_that_comes(self):
        """Member 0 is in its first step until the new one has computed."""
        with tempfile.TemporaryDirectory() as folder, \
                TrainJob(folder, "2:9", "--here", "8", "--algorithm", "easgd-grid", "--steps", "400", "--sync-every", "1000",
                         "--pace", "100us", "--imbalance", "persistent:rank=0,delay=15s") as job:
            for number in range(1, 8):
                job.wait_for_batches(number)
            join = job.start_join("--here", "1")
            job.wait_for_batches(8)
            self.assertEqual(job.batches(0), 0)
            status, _ = job.end()
            self.assertEqual(status, 0, job.said())
            said = join.communicate(timeout=WATCHDOG)[1]
            self.assertEqual(join.returncode, 0, said)
            self.assert_is_one_run(job.folder, 9 * 400, range(9))

    def test_the_launcher_reports_though_all_ranks_were_started_elsewhere(self):
        with tempfile.TemporaryDirectory() as folder, \
                TrainJob(folder, "1:2", "--algorithm", "eager-quorum", "--here", "0", "--steps", "300") as job:
            join = job.start_join("--here", "2")
            status, printed = job.end()
            self.assertEqual(status, 0, job.said())
            self.assertIn("eager-quorum", printed)
            self.assertEqual(join.communicate(timeout=WATCHDOG)[0], "")
            self.assert_is_one_run(job.folder, 600, range(2))

    def test_a_checkpoint_counts_those_that_have_come(self):
        with tempfile.TemporaryDirectory() as folder:
            with TrainJob(folder, "1:2", "--algorithm", "sync", "--restarts", "1", "--steps", str(STEPS),
                          "--checkpoint-every", "100") as job:
                for number in range(2):
                    job.wait_for_batches(number)
                with job.until_there_are(2):
                    os.kill(members_of(job.process)[1], signal.SIGKILL)
                job.wait_for_batches(2)
                status, _ = job.end()
                self.assertEqual(status, 0, job.said())
                self.assert_is_one_run(job.folder, 2 * STEPS, range(3), lost=[1])
            checkpoint = json.loads((job.folder / "checkpoint.json").read_text(encoding="utf-8"))
            steps = checkpoint["position"]["steps"]
            self.assertEqual((len(steps), sum(steps), checkpoint["batches"]), (3, 2 * STEPS, 2 * STEPS))
            result = stretto("train", "vowels", *QUICK, "--ranks", "1:2", "--steps", STEPS + 20, "--resume", job.folder)
            self.assert_succeeds(result)
            self.assertEqual(kills.faults_in(job.folder, 2 * STEPS + 40, steps), [])

    def test_too_few_are_left(self):
        with tempfile.TemporaryDirectory() as folder, \
                TrainJob(folder, "2:2", "--steps", str(10 * STEPS), "--patience", "1s") as job:
            job.wait_for_batches(1)
            os.kill(members_of(job.process)[1], signal.SIGKILL)
            status, printed = job.end()
            self.assertEqual((status, printed), (3, ""), job.said())
            self.assertIn("stretto: the job has ended: too few of its members were left", job.said())
            self.assertFalse((job.folder / "summary.json").exists())

    def test_signals(self):
        for end in signal.SIGTERM, signal.SIGINT, signal.SIGKILL:
            with self.subTest(signal=end), tempfile.TemporaryDirectory() as folder, \
                    TrainJob(folder, "1:2", "--steps", str(10 * STEPS), "--restarts", "3") as job:
                job.wait_for_batches(1)
                job.process.send_signal(end)
                status, printed = job.end()
                self.assertEqual((status, printed), (-signal.SIGKILL if end == signal.SIGKILL else 130, ""), job.said())
                self.assertNotIn("takes its place", job.said())
                wait_until(lambda: not job.traces.left())

    def test_it_is_not_started_by_another_launcher(self):
        with tempfile.TemporaryDirectory() as folder:
            result = run("1:2", STRETTO, "train", "vowels", "--ranks", "1:2", "--steps", "3", "--out", f"{folder}/run")
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertEqual(result.stderr.count("this process is not let in: it reports to stretto train alone, which has not "
                                                 "started this job"), 2, result.stderr)

    def test_another_program_is_not_let_in(self):
        with tempfile.TemporaryDirectory() as folder, \
                TrainJob(folder, "1:2", "--steps", str(10 * STEPS), "--here", "1") as job:
            job.wait_for_batches(0)
            result = job.stretto("join", "--", LOOP, "sync", "900")
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn("this process is not let in: reports to is none here, and stretto train in the job", result.stderr)
            job.wait_for_members(0)


class BadInput(ProgramTest):
    def test_options(self):
        for options, said in (
            (("--ranks", "4", "--restarts", "1"), "--restarts 1 with --ranks 4: expected a range, as in --ranks 1:4"),
            (("--ranks", "2:4", "--here", "1"), "--here 1 of at least 2 ranks, and nobody else comes: expected more, or --listen"),
            (("--ranks", "1:2", "--restarts", "1", "--predict"), "--predict: only ranks that stretto forks can be watched"),
            (("--ranks", "1:2", "--restarts", "1", "--simulated", "--pace", "1ms"), "--simulated with options of processes that come"),
            (("--ranks", "3:2", "--restarts", "1"), "--ranks 3:2: expected MIN:MAX, of which the first is not above the second"),
            (("--ranks", "0:2", "--restarts", "1"), "--ranks 0: expected a whole number from 1"),
            *((("--ranks", "1:2", "--restarts", "1", "--data", data), f"ranks 1:2 with data {data}: expected shared")
              for data in ("ring", "partitioned", "labels")),
            (("--ranks", "1:2", "--restarts", "1", "--algorithm", "ps-async"), "ranks 1:2"),
        ):
            with self.subTest(options=options):
                self.assert_rejected(stretto("train", "vowels", *options), said)

    def test_ranks_that_something_else_has_started(self):
        for launcher in ({"RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"},
                         {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"},
                         {"SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "0", "SLURM_STEP_TASKS_PER_NODE": "2"}):
            for options in (), ("--restarts", "1"):
                with self.subTest(launcher=launcher, options=options):
                    self.assert_rejected(stretto("train", "vowels", "--ranks", "1:2", *options, env={**os.environ, **launcher}),
                                         "ranks 1:2 in a job that something else has started, which ends with any of its ranks")

    def test_a_checkpoint(self):
        with tempfile.TemporaryDirectory() as folder:
            traces = Traces()
            quick = ["train", "vowels", "--ranks", "1:2", "--steps", "4", "--checkpoint-every", "4"]
            self.assert_succeeds(stretto(*quick, "--out", f"{folder}/run", env=traces.environment))
            result = stretto(*quick, "--resume", f"{folder}/run", "--restarts", "1", env=traces.environment)
            self.assert_rejected(result, "resume", "in a job to which processes come: expected a range without restarts")
            self.assertEqual(traces.left(), set())


if __name__ == "__main__":
    main()
