"""`stretto run --ranks MIN:MAX --here 0 --listen PORT --register FILE|etcd://…`: a master that is killed, and another that goes on."""

import http.server
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import threading

from etcd import Etcd, free_port
from members_test import LOOP, WATCHDOG, Traces, loops, num_threads, ranks_of
from program import STRETTO, ProgramTest, children_of, main, members_of, stretto, wait_until
from train_members_test import QUICK

import kills  # isort: skip

BATCHES = 6000  # more than three ranks compute while a test looks at them


class KeptJob:
    """A job whose master may be killed and started again."""

    def __init__(self, folder, *program, options=(), wrapper=(), register=None, command=("run",)):
        self.register = register or pathlib.Path(folder, "register")
        self.port = free_port()
        self.traces = Traces()
        self.command = [*wrapper, STRETTO, *command, "--ranks", "1:4", "--here", "0", "--listen", f"127.0.0.1:{self.port}",
                        "--token-file", f"{folder}/secret", "--register", self.register, *options]
        self.command += ["--", *program] if program else []
        self.folder, self.masters = pathlib.Path(folder), []
        self.start()

    def start(self):
        said = self.folder / f"said-{len(self.masters)}"
        with said.open("w", encoding="utf-8") as errors:
            self.masters.append((subprocess.Popen(list(map(str, self.command)), stdout=subprocess.DEVNULL, stderr=errors,
                                                  env=self.traces.environment), said))
        wait_until(lambda: "others come by: stretto join " in self.said() or self.master.poll() is not None)

    @property
    def master(self):
        return self.masters[-1][0]

    def said(self):
        return self.masters[-1][1].read_text(encoding="utf-8")

    def kill(self):
        self.master.kill()
        self.master.wait(WATCHDOG)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def start_join(self, *arguments, at=None):
        return subprocess.Popen([STRETTO, "join", at or f"127.0.0.1:{self.port}", "--token-file", f"{self.folder}/secret", *arguments],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.traces.environment)

    def look(self):
        result = stretto("members", f"127.0.0.1:{self.port}", "--token-file", f"{self.folder}/secret", "--json")
        return json.loads(result.stdout) if result.returncode == 0 else {"members": [], "epoch": 0, "spares": []}

    def members(self):
        return {member["member"] for member in self.look()["members"]}


class Masters(ProgramTest):
    def assert_each_batch_counts_once(self, job, join, said):
        self.assertEqual(job.master.wait(WATCHDOG), 0, job.said())
        printed, errors = join.communicate(timeout=WATCHDOG)
        result = subprocess.CompletedProcess(join.args, 0, printed, errors + said)
        self.assertEqual(loops.fault_of(result, BATCHES), "", printed + errors + said)
        self.assertEqual(job.traces.left(), set())
        self.assertFalse((job.folder / "secret").exists())

    def test_another_one_goes_on_with_the_members_that_are_there(self):
        self.goes_on(None, "sync", "eager-quorum", "wagma-quorum")

    def test_another_one_goes_on_by_a_register_in_etcd(self):
        with Etcd() as etcd:
            self.goes_on(etcd.register("job"), "eager-quorum")

    def goes_on(self, register, *algorithms):
        step = "5ms" if register else "1ms"  # another launcher waits for the lease of the one before
        for algorithm in algorithms:
            with self.subTest(algorithm=algorithm), tempfile.TemporaryDirectory() as folder, \
                    KeptJob(folder, LOOP, algorithm, BATCHES, "account", step, register=register) as job:
                join = job.start_join("--here", "3")
                wait_until(lambda: job.members() == {0, 1, 2})
                for _ in range(2):  # nothing has changed when it is there again
                    epoch = job.look()["epoch"]
                    job.kill()
                    job.start()
                    wait_until(lambda: job.members() == {0, 1, 2})
                    self.assertEqual(job.look()["epoch"], epoch)
                os.kill(ranks_of(join)[0], signal.SIGKILL)
                wait_until(lambda: len(job.members()) == 2)
                said = job.said()
                job.kill()
                os.kill(ranks_of(join)[0], signal.SIGKILL)  # while there is none
                job.start()
                wait_until(lambda: len(job.members()) == 1)
                self.assert_each_batch_counts_once(job, join, said + job.said())

    def test_a_run_goes_on_in_its_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            out, steps = pathlib.Path(folder, "run"), 300
            train = ["train", "vowels", *QUICK, "--algorithm", "eager-quorum", "--steps", str(steps), "--out", out]
            with KeptJob(folder, command=train) as job:
                join, said = job.start_join("--here", "2"), ""
                for _ in range(2):
                    before = len(kills.records_of(out, 0))
                    wait_until(lambda: len(kills.records_of(out, 0)) > before + 20 or job.master.poll() is not None)
                    said += job.said()
                    job.kill()
                    with job.register.open("ab") as register:
                        register.write(b"torn")
                    job.start()
                    self.assertIn("is damaged in 1 entry", job.said())
                self.assertEqual(job.master.wait(WATCHDOG), 0, said + job.said())
                errors = join.communicate(timeout=WATCHDOG)[1]
                self.assertEqual(join.returncode, 0, errors)
                self.assertEqual(kills.faults_in(out, 4 * steps, []), [])
                summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
                self.assertEqual(sum(summary["members"]["batches"]), 4 * steps)
                records = sum(len(kills.records_of(out, number)) for number in range(2))
                self.assertEqual(records, 4 * steps)
                job.start()  # the job has ended, and its folder stays
                self.assertEqual(job.master.wait(WATCHDOG), 0, job.said())
                self.assertIn("has ended\n", job.said())
                self.assertEqual(json.loads((out / "summary.json").read_text(encoding="utf-8")), summary)

    def test_a_run_has_its_result_whichever_launcher_has_the_master(self):
        steps = 300
        with Etcd() as etcd:
            for name in "stopped", "killed":
                with self.subTest(launcher=name), tempfile.TemporaryDirectory() as folder:
                    out = pathlib.Path(folder, "run")
                    train = ["train", "vowels", *QUICK, "--algorithm", "eager-quorum", "--steps", str(steps), "--out", out]
                    with KeptJob(folder, command=train, register=etcd.register(name)) as job:
                        join = job.start_join("--here", "2", at=job.register)
                        wait_until(lambda: len(kills.records_of(out, 0)) > 20 or job.master.poll() is not None)
                        first = etcd.read(f"stretto/{name}/master")[0]
                        job.master.send_signal(signal.SIGSTOP) if name == "stopped" else job.kill()
                        wait_until(lambda: etcd.read(f"stretto/{name}/master")[0] not in ("", first))
                        if name == "stopped":
                            job.master.send_signal(signal.SIGCONT)
                        else:
                            self.assertEqual(join.wait(WATCHDOG), 0)  # the job has ended
                            job.start()
                        self.assertEqual(job.master.wait(WATCHDOG), 0, job.said())
                        errors = join.communicate(timeout=WATCHDOG)[1]
                        self.assertEqual(join.returncode, 0, errors)
                        self.assertIn("the master of the job is here now, at ", errors)
                        self.assertEqual(kills.faults_in(out, 4 * steps, []), [])
                        summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
                        self.assertEqual(sum(summary["members"]["batches"]), 4 * steps)

    def test_it_is_killed_at_any_moment(self):
        with tempfile.TemporaryDirectory() as folder, KeptJob(folder, LOOP, "eager-quorum", BATCHES, "account") as job:
            join, said = job.start_join("--here", "2", "--restarts", "20"), ""
            for _ in range(6):  # also while members come, begin, and are replaced
                wait_until(lambda: job.look()["epoch"] > 0 or job.master.poll() is not None)
                for member in job.look()["members"][1:][-1:]:  # the first has the model
                    if (process := members_of(join).get(member["member"])) is not None:  # else it was killed before
                        os.kill(process, signal.SIGKILL)
                said += job.said()
                job.kill()
                job.start()
            wait_until(lambda: len(job.members()) == 2 or job.master.poll() is not None)
            self.assert_each_batch_counts_once(job, join, said + job.said())

    def test_processes_that_come_and_leave_afterwards_have_numbers_of_their_own(self):
        with tempfile.TemporaryDirectory() as folder, KeptJob(folder, LOOP, "sync", "1000000") as job:
            first = job.start_join("--here", "2")
            wait_until(lambda: job.members() == {0, 1})
            job.kill()
            job.start()
            second = job.start_join()
            wait_until(lambda: len(job.members()) == 3)
            [number] = job.members() - {0, 1}
            self.assertGreater(number, 1)
            for join, stay in (first, {number}), (second, set()):
                join.send_signal(signal.SIGTERM)
                errors = join.communicate(timeout=WATCHDOG)[1]
                self.assertEqual(join.returncode, 0, errors)
                if stay:
                    wait_until(lambda: job.members() == stay)
            self.assertEqual(job.master.wait(WATCHDOG), 0, job.said())
            job.start()  # as what starts it again and again does
            self.assertEqual(job.master.wait(WATCHDOG), 1)  # its last members left
            self.assertIn(f"the job of the register {job.register} was given up\n", job.said())

    def test_one_that_comes_while_there_is_none_waits_for_it(self):
        with tempfile.TemporaryDirectory() as folder, KeptJob(folder, LOOP, "sync", "1000000") as job:
            first = job.start_join()
            late = job.start_join("--", "sh", "-c", f"while [ ! -f {folder}/go ]; do sleep 0.05; done; exec {LOOP} sync 1000000")
            wait_until(lambda: len(job.members()) == 1 and len(children_of(late.pid)) == 2)  # its guard, and the process
            job.kill()
            pathlib.Path(folder, "go").touch()
            wait_until(lambda: ranks_of(late) and num_threads(ranks_of(late)[0]) > 1)  # it looks for the master
            job.start()
            wait_until(lambda: len(job.members()) == 2)
            for join in first, late:
                join.kill()  # its guard ends the process
                self.assertNotIn("refused", join.communicate(timeout=WATCHDOG)[1])

    def test_members_wait_for_another_one_as_long_as_they_have_patience(self):
        with tempfile.TemporaryDirectory() as folder, \
                KeptJob(folder, LOOP, "sync", "1000000", options=["--patience", "1s", "--liveness", "1s"]) as job:
            join = job.start_join("--here", "2")
            wait_until(lambda: job.members() == {0, 1})
            job.kill()
            errors = join.communicate(timeout=WATCHDOG)[1]
            self.assertEqual(join.returncode, 1, errors)
            self.assertIn("the master of the job is lost: it has ended", errors)

    def test_a_disk_that_is_full(self):
        with tempfile.TemporaryDirectory() as folder, \
                KeptJob(folder, LOOP, "sync", BATCHES, "account", wrapper=["prlimit", "--fsize=3000:"]) as job:
            join = job.start_join("--here", "2")
            wait_until(lambda: "File too large" in job.said())
            self.assertIn("the job goes on, but were the master killed before members change again, batches would be computed "
                          "twice", job.said())
            wait_until(lambda: "the register does not answer" in job.said())  # that the job has ended cannot be written
            subprocess.run(["prlimit", f"--pid={job.master.pid}", "--fsize=unlimited"], check=True)
            self.assert_each_batch_counts_once(job, join, job.said())


class BadInput(ProgramTest):
    """Where `stretto run` and `stretto train` begin a job, in one line of each."""

    def assert_refused(self, register, *said, code=2):
        """Where no other job of these commands is. `{job}` stands for the name that the job has."""
        for command in ["run", "--", "true"], ["train", "hyperplane"]:
            with tempfile.TemporaryDirectory() as folder:
                options = ["--ranks", "1:2", "--here", "0", "--listen", f"127.0.0.1:{free_port()}", "--token-file", f"{folder}/secret",
                           "--register", str(register)]
                words = [command[0], *options, *command[1:]]
                result = stretto(*words)
                job = "true" if command[0] == "run" else " ".join([f"{STRETTO}-train", *words])
                self.assert_rejected(result, *(part.replace("{job}", job) for part in said), code=code)
                self.assertFalse(pathlib.Path(folder, "secret").exists())

    def test_options(self):
        for options, said in (
            (("--ranks", "1:2", "--register", "x"), "--register x without a port: expected --listen PORT, where members come back to"),
            (("--ranks", "1:2", "--listen", "0", "--register", "x"), "--register x without a port"),
            (("--ranks", "1:2", "--register", "etcd://127.0.0.1:1/x"), "--register etcd://127.0.0.1:1/x without a port"),
            (("--ranks", "1:2", "--listen", "etcd://127.0.0.1:1/one"), "expected [ADDRESS:]PORT"),
        ):
            self.assert_rejected(stretto("run", *options, "--", "true"), said)
            self.assert_rejected(stretto("train", "vowels", *options), said)

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder, KeptJob(folder, LOOP, "sync", "1000000") as job:
            self.assert_refused(job.register, "is open in another process: one job has one master's log")
            job.kill()
            self.assert_refused(job.register, f"the register's log '{job.register}' is of job '{LOOP} sync 1000000', and not of "
                                              "'{job}': name another file")
            pathlib.Path(folder, "text").write_text("of somebody else\n", encoding="ascii")
            self.assert_refused(f"{folder}/text", "is no log of a register")
            self.assert_refused("/dev/full", "expected a file of a job's own")  # it never ends
            self.assert_refused(f"{folder}/no/register", "No such file or directory")

    def test_registers_in_etcd(self):
        for register in "etcd://127.0.0.1/job", "etcd://127.0.0.1:2379", "etcd://127.0.0.1:99999/job":
            self.assert_refused(register, f"--register: '{register}' is no register in etcd; expected etcd://HOST:PORT[,HOST:PORT…]/NAME")
        self.assert_refused("etcd://me:secret@127.0.0.1:2379/job", "--register: ", "has no option for a password")
        port = free_port()
        self.assert_refused(f"etcd://127.0.0.1:{port}/job", f"etcd at 127.0.0.1:{port} does not answer: ", code=3)
        with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as other:
            other.RequestHandlerClass.log_message = lambda *_: None
            threading.Thread(target=other.serve_forever, daemon=True).start()
            at = f"127.0.0.1:{other.server_port}"
            self.assert_refused(f"etcd://{at}/job", f"etcd at {at} refuses (501)", code=1)
            other.shutdown()
        with tempfile.TemporaryDirectory() as folder, Etcd() as etcd, KeptJob(folder, "true", "of", "one", register=etcd.register("one")):
            self.assert_refused(etcd.register("one"), "it is of job 'true of one', and not of '{job}': choose another name")
            wrong = stretto("join", etcd.register("one"), env={**os.environ, "STRETTO_TOKEN": "another secret"})
            self.assert_rejected(wrong, "has another secret than this launcher")
            at, secret = etcd.register("another"), {**os.environ, "STRETTO_TOKEN": "another secret"}
            self.assertIn(f"there is no job {at}: expected one of stretto run", stretto("join", at, env=secret).stderr)
            self.assertIn("no launcher has the master of the job now", stretto("members", at, env=secret).stderr)

    def test_an_etcd_that_wants_a_password(self):
        with Etcd() as etcd:
            etcd.want_a_password()
            self.assert_refused(etcd.register("job"), f"the register {etcd.register('job')}: etcd at {etcd.servers[0]} refuses (",
                                "it wants a password, for which Stretto has no option")

    def test_an_etcd_that_has_lost_its_majority(self):
        with tempfile.TemporaryDirectory() as folder, Etcd(3) as etcd:
            with KeptJob(folder, "true", register=etcd.register("one")) as job:
                for process in etcd.processes[1:]:
                    process.kill()
                self.assert_refused(etcd.register("another"), f"the register {etcd.register('another')}: etcd at 127.0.0.1:", code=1)
                wait_until(lambda: ": the job goes on, and changes of its members wait, unless another launcher has its master\n" in job.said())
                self.assertIsNone(job.master.poll())


if __name__ == "__main__":
    main()
