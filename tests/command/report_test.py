"""The page of `stretto report`: made of run folders that are written here, opened in a headless Chromium where there is one."""

import gzip
import html
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import tempfile
import unittest

from program import STRETTO, ProgramTest, main, stretto

CHROMIUM = shutil.which("chromium")
# Of opening a large page. Promised are 2 s on a machine that has nothing else to do; time is a watchdog here.
WATCHDOG_MS = 10 * 2000
CONFIG = {"workload": "vowels", "algorithm": "sync", "ranks": 2, "imbalance": "none", "pace": "0", "seed": 1, "quorum": 1, "time_scale": 1.0,
          "simulated": False, "network": "", "no_gradients": False, "model_bytes": 0, "max_lag": 4, "checkpoint_every": 0}


def summary(algorithm, ranks, batches, seconds):
    return {"algorithm": algorithm, "seed": 1, "ranks": ranks, "simulated": False, "network": None, "wall_seconds": seconds,
            "throughput": batches / seconds, "ideal_seconds": seconds, "sync_ideal_seconds": seconds, "real_compute_share": 0,
            "loss": 0.5, "accuracy": 0.875, "top5": None, "train_loss": 0.25, "train_accuracy": 1, "train_top5": None,
            "final": {"model": "average", "batches": batches}, "rounds": batches // ranks, "rounds_per_batch": 1,
            "staleness": {"mean": 0, "max": 0, "histogram": [batches]}, "fresh_share": 1, "wait_share": 0.25, "messages_per_step": 0, "bytes_per_step": 0,
            "sent": {"messages": 0, "body_bytes": 0, "bytes": 0},
            "deposits": {"made": batches, "applied": batches, "dropped": 0, "pending": 0, "lost": 0},
            "replicas_identical": True, "lost_seconds": [0.5] * ranks,
            "curve": [{"seconds": i, "batches": 10 * i, "loss": 2 / (i + 1)} for i in range(20)],
            "evaluations": [{"seconds": i, "batches": 10 * i, "of": "average", "loss": 1 / i, "accuracy": 1 - 0.5 / i, "top5": None,
                             "train_loss": 1, "train_accuracy": None, "train_top5": None} for i in (1, 2, 3)]}


def write_run(folder, ranks=2, steps=20, whole=True, **config):
    """A synchronous run: each step lasts as long as the slowest rank computes."""
    folder.mkdir(parents=True)
    config = {**CONFIG, "ranks": ranks, **config}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    draw = random.Random(1)
    times = [[0.005 + 0.01 * draw.random() for _ in range(ranks)] for _ in range(steps)]
    begins = [0]
    for of_step in times:
        begins.append(begins[-1] + max(of_step))
    for rank in range(ranks):
        with open(folder / f"records-{rank}.jsonl", "w", encoding="ascii") as records, \
                open(folder / f"trace-{rank}.jsonl", "w", encoding="ascii") as trace:
            for step, of_step in enumerate(times):
                waited, end = begins[step + 1] - begins[step] - of_step[rank], begins[step + 1]
                records.write(f'{{"step":{step},"rank":{rank},"round":{step},"base":{step},"batch":{step * ranks + rank},"epoch":0,'
                              f'"samples":4,"units":9,"loss":{2 / (step + 1)},"begin":{begins[step]:.9f},"computed":{of_step[rank]:.9f},'
                              f'"paced":0,"delayed":0,"waited":{waited:.9f},"rounds_applied":1,"messages":0,"bytes":0}}\n')
                trace.write(f'{{"ph":"X","name":"fresh","pid":1,"tid":{2 * rank + 1},"ts":{1e6 * begins[step]:.3f},'
                            f'"dur":{1e6 * (end - begins[step]):.3f},"args":{{"round":{step},"arrived":{ranks},'
                            f'"contributors":{ranks},"batches":{ranks},"staleness":0}}}}\n')
    if whole:
        (folder / "summary.json").write_text(json.dumps(summary(config["algorithm"], ranks, steps * ranks, begins[-1])),
                                             encoding="utf-8")
    return folder


class ReportTest(ProgramTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def report(self, *arguments):
        result = stretto("report", *arguments)
        self.assert_succeeds(result)
        return result

    def data_of(self, page):
        """What the page draws."""
        text = page.read_text(encoding="utf-8")
        return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])


class Pages(ReportTest):
    def test_the_page_lies_in_the_folder_of_its_run(self):
        run = write_run(self.folder / "a")
        result = self.report(run, "--algorithms", "eager-solo", "--replicas", 2, "--steps", 5)
        self.assertEqual(result.stdout, f"{run}/report.html: what happened, for a browser\n")
        data = self.data_of(run / "report.html")
        self.assertEqual(data["runs"][0]["result"]["batches_per_s"], json.loads((run / "summary.json").read_text())["throughput"])
        self.assertEqual({setting["algorithm"] for setting in data["advice"]["settings"]}, {"sync", "eager-solo"})

    def test_its_advice_is_that_of_stretto_advise(self):
        run = write_run(self.folder / "a", ranks=4)
        few = ("--replicas", 2, "--steps", 20)
        self.report(run, *few)
        advised = stretto("advise", run, *few, "--json")
        self.assert_succeeds(advised)
        advised = json.loads(advised.stdout)
        rates = {setting["algorithm"]: setting["batches_per_s"] for setting in advised["settings"]}
        self.assertGreaterEqual(len(rates), 10)
        shown = self.data_of(run / "report.html")["advice"]
        self.assertEqual({setting["algorithm"]: setting["batches_per_s"] for setting in shown["settings"]}, rates)
        self.assertEqual(shown["verdict"], advised["verdict"])
        # Its ranks shared a host: no message takes as long as that of 100 MB, 10 ms and more.
        self.assertGreater(rates["sync"], 4 / 0.015)
        slower = stretto("advise", run, *few, "--algorithms", "sync", "--model-bytes", "100MiB", "--json")
        self.assertLess(json.loads(slower.stdout)["settings"][0]["batches_per_s"], 4 / 0.015)

    def test_messages_of_a_simulated_run_are_those_it_had(self):
        run = write_run(self.folder / "a", ranks=4, simulated=True, network="bandwidth=100MB/s", model_bytes=10_000_000)
        few = ("--replicas", 2, "--steps", 20, "--algorithms", "sync")
        self.report(run, *few)
        self.assertLess(self.data_of(run / "report.html")["advice"]["settings"][0]["batches_per_s"], 4 / 0.1)
        fast = stretto("advise", run, *few, "--network", "bandwidth=100GB/s", "--json")
        self.assertGreater(json.loads(fast.stdout)["settings"][0]["batches_per_s"], 4 / 0.1)

    def test_nothing_is_loaded_from_anywhere(self):
        run = write_run(self.folder / "a")
        self.report(run, "--algorithms", "none")
        text = (run / "report.html").read_text(encoding="utf-8")
        self.assertIn("default-src 'none'", text)
        self.assertNotRegex(text, r'<(script|link|img|iframe)\b[^>]*\b(src|href)\s*=')

    def test_runs_stand_side_by_side_in_the_order_of_their_names(self):
        runs = [write_run(self.folder / name, ranks=ranks) for name, ranks in (("b", 2), ("a", 3))]
        out = self.folder / "page.html"
        self.report(*runs, "--out", out, "--algorithms", "none")
        self.assertEqual([(run["name"], len(run["ranks"])) for run in self.data_of(out)["runs"]], [("b", 2), ("a", 3)])

    def test_of_a_comparison_are_the_runs_of_its_first_seed(self):
        for seed in (2, 1):
            write_run(self.folder / f"sync-seed{seed}", seed=seed)
        self.report(self.folder, "--algorithms", "none")
        self.assertEqual([run["name"] for run in self.data_of(self.folder / "report.html")["runs"]], ["sync-seed1"])

    def test_files_that_gzip_has_compressed_are_read_like_others(self):
        run = write_run(self.folder / "a")
        self.report(run, "--algorithms", "none", "--out", self.folder / "plain.html")
        for file in list(run.iterdir()):
            (run / f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
            file.unlink()
        result = self.report(run, "--algorithms", "none", "--out", self.folder / "packed.html")
        self.assertEqual(result.stderr, "")
        self.assertEqual(self.data_of(self.folder / "packed.html"), self.data_of(self.folder / "plain.html"))
        self.assert_succeeds(stretto("profile", run))

    def test_damaged_files_are_told_without_the_words_of_a_library(self):
        run = write_run(self.folder / "a")
        for name, content, fault in (
                ("summary.json", "[]", "is no summary of a run: a value is array; expected an object"),
                ("summary.json", "{", "is no summary of a run: it ends within its JSON, at line 1, column 2"),
                ("config.json", "[]", "config.json' is not that of a run of this version: a value is array; expected an object"),
                ("config.json", "{}", "is not that of a run of this version: it lacks 'workload'"),
                ("config.json", "{]", "is not that of a run of this version: line 1, column 2 is no JSON"),
                ("config.json", '{"workload": 3}', "a value is number; expected string"),
                ("prediction.json", '{"first_steps": "50"}', "a value is string; expected number")):
            kept = (run / name).read_bytes() if (run / name).exists() else None
            (run / name).write_text(content)
            result = stretto("report", run)
            self.assert_rejected(result, fault)
            self.assertNotIn("json.exception", result.stderr)
            if kept:
                (run / name).write_bytes(kept)

    def test_records_that_are_missing_are_named(self):
        run = write_run(self.folder / "a", ranks=3)
        (run / "records-1.jsonl").unlink()
        result = self.report(run)
        self.assertIn("a: no records of rank 1: records-1.jsonl is missing\n", result.stderr)
        data = self.data_of(run / "report.html")
        self.assertEqual(data["runs"][0]["gaps"], ["no records of rank 1: records-1.jsonl is missing"])
        self.assertIsNone(data["advice"])  # which would be of two ranks
        self.assertIn("has no records of rank 1 of 3", data["no_advice"])

    def test_a_run_that_was_cut_short_is_shown_as_far_as_it_went(self):
        run = write_run(self.folder / "a", whole=False)
        with open(run / "records-1.jsonl", "a", encoding="ascii") as records:
            records.write('{"step":20,"ra')
        result = self.report(run, "--algorithms", "sync", "--steps", 5)
        self.assertIn("a: has not ended, or was cut short", result.stderr)
        data = self.data_of(run / "report.html")
        self.assertFalse(data["runs"][0]["result"]["whole"])
        self.assertEqual([rank["steps"] for rank in data["runs"][0]["ranks"]], [20, 20])

    def test_standard_output_that_is_closed_is_said(self):
        run = write_run(self.folder / "a")
        with open("/dev/full", "w", encoding="ascii") as full:
            result = subprocess.run([STRETTO, "report", run, "--algorithms", "none"], stdout=full, stderr=subprocess.PIPE, text=True,
                                    timeout=120, check=False)
        self.assertEqual(result.returncode, 2)
        self.assertIn("standard output cannot be written", result.stderr)
        self.assertTrue((run / "report.html").exists())


class BadInput(ReportTest):
    def test_what_is_no_run(self):
        self.assert_rejected(stretto("report", self.folder / "nothing"), "nothing", "is no folder of a run")
        self.assert_rejected(stretto("report", self.folder), "is no folder of a run")
        self.assert_rejected(stretto("report"), "RUN")

    def test_a_run_of_another_version(self):
        run = write_run(self.folder / "a")
        (run / "config.json").write_text('{"workload": "vowels", "version": 9}', encoding="utf-8")
        self.assert_rejected(stretto("report", run), "config.json", "this version", "algorithm")
        (run / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
        (run / "records-0.jsonl").write_text('{"step":0,"seconds":1}\n{}\n', encoding="utf-8")
        self.assert_rejected(stretto("report", run), "records-0.jsonl", "line 1", "no record of a step")

    def test_a_run_that_has_recorded_nothing(self):
        run = write_run(self.folder / "a", steps=0, whole=False)
        self.assert_rejected(stretto("report", run), "no whole step")

    def test_an_output_that_cannot_be_written(self):
        run = write_run(self.folder / "a")
        self.assert_rejected(stretto("report", run, "--out", self.folder), "is a folder")
        self.assert_rejected(stretto("report", run, "--out", self.folder / "no" / "page.html"), "cannot be written")
        self.assert_rejected(stretto("report", run, "--out", ""), "--out")
        self.assert_rejected(stretto("report", run, "--out", "/proc/page.html"), "cannot be written")
        (run / "report.html").mkdir()
        self.assert_rejected(stretto("report", run), "report.html", "is a folder")

    def test_options_that_do_not_fit(self):
        run = write_run(self.folder / "a")
        self.assert_rejected(stretto("report", run, "--algorithms", "eager-sol"), "--algorithms eager-sol")
        self.assert_rejected(stretto("report", run, "--replicas", 0), "--replicas 0")
        self.assert_rejected(stretto("report", run, "--out", "a", "--out", "b"), "--out")
        self.assert_rejected(stretto("report", *[run] * 17), "17 runs", "at most 16")
        self.assertFalse((run / "report.html").exists())


@unittest.skipUnless(CHROMIUM, "no chromium here: no browser opens the page")
class Browser(ReportTest):
    def opened(self, page):
        """The page's document once its script has run, and what the browser's console has said."""
        result = subprocess.run(
            [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1300,3000",
             f"--user-data-dir={self.folder / 'profile'}", "--enable-logging=stderr", "--dump-dom", page.as_uri()],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=240, check=False,
            env={**os.environ, "HOME": str(self.folder)})
        document = result.stdout
        console = [line for line in result.stderr.splitlines() if "CONSOLE" in line]
        self.assertEqual(console, [], "the browser's console is silent")
        self.assertNotIn("data-error=", document)
        opened = re.search(r'data-opened-ms="(\d+)"', document)
        self.assertIsNotNone(opened, document[:500])
        # What the page shows, without the scripts that made it.
        return re.sub(r"<script.*?</script>", "", document, flags=re.DOTALL), int(opened[1])

    def test_all_sections_are_drawn(self):
        runs = [write_run(self.folder / "a"), write_run(self.folder / "b", ranks=3, algorithm="eager-solo")]
        out = self.folder / "page.html"
        self.report(*runs, "--out", out, "--algorithms", "eager-solo", "--replicas", 2, "--steps", 5)
        document, _ = self.opened(out)
        for part in ("vowels on 2 ranks, vowels on 3 ranks", "as many batches a second as sync",
                     "computes", "rank 2", "Training loss", "Accuracy on test data", "How old gradients were", "87.5 %", "of sync"):
            self.assertIn(part, document)
        # Two time lines, two histograms, two of staleness, three curves; each is drawn on canvases.
        self.assertGreaterEqual(document.count("<canvas"), 9)

    def test_a_run_that_was_cut_short_says_so(self):
        run = write_run(self.folder / "a", whole=False, steps=3)
        self.report(run, "--algorithms", "none")
        document, _ = self.opened(run / "report.html")
        self.assertIn("has not ended, or was cut short", document)

    def test_records_that_are_missing_are_named_on_the_page(self):
        run = write_run(self.folder / "a", steps=3)
        (run / "records-0.jsonl").write_text("")
        self.report(run, "--algorithms", "none")
        document, _ = self.opened(run / "report.html")
        self.assertIn("no records of rank 0: records-0.jsonl is empty", document)

    def test_a_run_that_watched_itself_says_what_has_changed(self):
        run = write_run(self.folder / "a")
        drift = {"second": 1.5, "until": None, "measured": 63.1, "says": "rank 1 computes 3.00 times as long"}
        (run / "prediction.json").write_text(json.dumps(
            {"first_steps": 50, "predicted": 180, "measured": 90, "drifts": [drift]}))
        self.report(run, "--algorithms", "none")
        document, _ = self.opened(run / "report.html")
        self.assertIn("predicted from the first 50 steps of each rank: 180 batches/s; measured after them: 90.0, 50.0 % of it",
                      document)
        self.assertIn("63.1 batches/s: rank 1 computes 3.00 times as long", document)

    def test_one_rank_and_one_step(self):
        run = write_run(self.folder / "a", ranks=1, steps=1)
        self.report(run)
        document, _ = self.opened(run / "report.html")
        self.assertIn("One rank alone waits for nobody.", document)

    def test_names_are_text_whatever_is_in_them(self):
        name = "<b>x</b> </script><script>document.title=1<" + "!-- &amp; \"'"
        run = write_run(self.folder / "a", workload=name, algorithm=name)
        other = write_run(self.folder / "<i>it & co", workload=name, algorithm=name)
        out = self.folder / "page.html"
        self.report(run, other, "--out", out, "--algorithms", "none")
        document, _ = self.opened(out)
        shown = html.escape(name, quote=False)
        self.assertIn(f"<title>Stretto: {shown} on 2 ranks</title>", document)
        self.assertIn(f"{shown} (&lt;i&gt;it &amp; co)", document)

    def test_64_ranks_and_10000_steps_open_in_time(self):
        run = write_run(self.folder / "a", ranks=64, steps=10_000)
        self.report(run, "--algorithms", "none")
        _, milliseconds = self.opened(run / "report.html")
        print(f"64 ranks, 10,000 steps: opened in {milliseconds} ms")
        self.assertLess(milliseconds, WATCHDOG_MS)


if __name__ == "__main__":
    main()
