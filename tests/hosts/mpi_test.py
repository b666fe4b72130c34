"""Messages between hosts by MPI: ranks that mpirun of Open MPI and mpiexec of MPICH start, and those that no MPI has.

    mpi_test.py PROGRAM LAUNCHED_RANK PYTHON PACKAGE [ByMpiOnHosts]
"""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import tempfile
import time
import unittest
from collections.abc import Callable

import managers
from hosts import Hosts, Output, ends
from hosts_test import LAUNCHED_RANK, LONG, PROGRAM, start_rank

BY_MPI = ("env", "STRETTO_BETWEEN=mpi")
STEPS = 40
TRAIN = (PROGRAM, "train", "hyperplane", "--steps", str(STEPS), "--algorithm", "eager-quorum", "--between", "mpi")
# MPICH's ranks poll without a pause where they begin and end, on as many cores as others leave.
WATCHDOG = 240
Manager = Callable[..., managers.Started]
# An MPI of which nothing but its version is asked.
OTHER_MPI = """
extern "C" int MPI_Get_library_version(char* words, int* length) {
  static const char kWords[] = "Other MPI 7.1\\n";
  __builtin_memcpy(words, kWords, sizeof kWords);
  *length = sizeof kWords - 1;
  return 0;
}
"""


def library_of(manager: Manager) -> str:
    return "Open MPI" if manager is managers.mpirun else "MPICH"


def managers_here() -> list[Manager]:
    """Those of which Stretto has a module for their MPI."""
    lib = pathlib.Path(PROGRAM).parents[1] / "lib"
    both = (
        (managers.mpirun, "mpirun.openmpi", "libstretto_openmpi.so"),
        (managers.mpiexec, "mpiexec.hydra", "libstretto_mpich.so"),
    )
    return [manager for manager, program, module in both if shutil.which(program) and (lib / module).exists()]


class ByMpiOnHosts(unittest.TestCase):
    def setUp(self) -> None:
        if not managers_here():
            self.skipTest("no MPI is there (libopenmpi-dev, libmpich-dev)")

    def run_ranks(
        self, hosts: Hosts, folder: str, manager: Manager, command: tuple[str, ...], ranks: int, places: str
    ) -> tuple[int, str, str]:
        words, environment = manager(folder, ranks, places)
        environment = {"PYTHONPATH": "", **environment}
        [ended] = ends([hosts.start(0, (*words, *command), environment)], timeout=WATCHDOG)
        return ended

    def test_what_a_transport_and_a_job_promise(self) -> None:
        for manager in managers_here():
            with tempfile.TemporaryDirectory() as folder, Hosts(2) as hosts:
                for test in ("order", "sizes", "storm", "count", "leave_early", "left", "idle") if LONG else ("sizes", "left", "idle"):
                    for ranks, places in ((2, "h1:1,h2:1"), (4, "h1:2,h2:2")):
                        if ranks == 4 and test in ("leave_early", "left", "idle"):  # of two ranks
                            continue
                        status, _, said = self.run_ranks(
                            hosts, folder, manager, (*BY_MPI, LAUNCHED_RANK, test), ranks, places
                        )
                        self.assertEqual(status, 0, f"{test}, {library_of(manager)}: {said}")

    def test_jobs_train_by_it_on_boards_and_say_so(self) -> None:
        for manager in managers_here():
            with tempfile.TemporaryDirectory() as folder, Hosts(2) as hosts:
                command = (*TRAIN, "--seats", "2")
                status, out, said = self.run_ranks(hosts, folder, manager, command, 4, "h1:2,h2:2")
                self.assertEqual(status, 0, out + said)
                self.assertIn(f"deposits: {4 * STEPS} made, {4 * STEPS} applied, 0 pending, 0 lost", out)
                says = rf"messages between hosts go by mpi [0-9.]+ \({library_of(manager)}\), as is wanted"
                self.assertRegex(said, says)

    def test_what_no_mpi_has_started_is_refused_in_one_line(self) -> None:
        needs = "expected ranks that mpirun of Open MPI, mpiexec of MPICH or srun --mpi=pmix has started; elsewhere tcp"
        with Hosts(2) as hosts:
            ranks = [start_rank(hosts, 1 + i, i, 2, *TRAIN) for i in range(2)]
            for status, _, said in ends(ranks):
                self.assertEqual(status, 2)
                self.assertIn(f"--between mpi: {needs}", said)
                self.assertEqual(said.count("\n"), 1, said)

    @unittest.skipUnless(shutil.which("mpirun.openmpi"), "no Open MPI (openmpi-bin)")
    def test_another_mpi_and_none_are_refused_by_name(self) -> None:
        with tempfile.TemporaryDirectory(dir="/tmp") as folder, Hosts(2, keep=folder) as hosts:
            program = shutil.copy(LAUNCHED_RANK, folder)
            words = (*BY_MPI, program, "count")
            status, _, said = self.run_ranks(hosts, folder, managers.mpirun, words, 2, "h1:1,h2:1")
            self.assertNotEqual(status, 0)
            advice = "; the same MPI on all hosts would do, or --between tcp"
            missing = "no messages go by MPI: rank 0 on h1: the process manager is Open MPI's, and no module for that"
            self.assertRegex(said, rf"{missing} can be loaded: libstretto_openmpi\.so: [^\n]*\(.*\){advice}\n")
            if managers.mpirun not in managers_here():
                return
            other = ["g++", "-x", "c++", "-shared", "-fPIC", "-o", f"{folder}/libother.so", "-"]
            subprocess.run(other, input=OTHER_MPI, text=True, check=True)
            words = (*BY_MPI, f"LD_PRELOAD={folder}/libother.so", LAUNCHED_RANK, "count")
            status, _, said = self.run_ranks(hosts, folder, managers.mpirun, words, 2, "h1:1,h2:1")
            self.assertNotEqual(status, 0)
            self.assertRegex(said, rf"the process manager is Open MPI's, and \S+ finds another MPI[^\n]*: Other MPI 7\.1{advice}")

    @unittest.skipUnless(shutil.which("mpirun.openmpi"), "no Open MPI (openmpi-bin)")
    def test_ranks_that_the_mpi_does_not_know_are_refused(self) -> None:
        if managers.mpirun not in managers_here():
            self.skipTest("no module for Open MPI (libopenmpi-dev)")
        with tempfile.TemporaryDirectory() as folder, Hosts(2) as hosts:
            # Two jobs of mpirun, one rank each, that are told to be one job.
            jobs = []
            for rank in range(2):
                words, environment = managers.mpirun(tempfile.mkdtemp(dir=folder), 1, f"h{1 + rank}:1")
                place = ("STRETTO_MEETING=10.77.0.1:4711", f"STRETTO_RANK={rank}", "STRETTO_RANKS=2")
                jobs.append(
                    hosts.start(0, (*words, *BY_MPI, *place, LAUNCHED_RANK, "count"), {"PYTHONPATH": "", **environment})
                )
            for rank, (status, _, said) in enumerate(ends(jobs, timeout=WATCHDOG)):
                self.assertNotEqual(status, 0)
                why = rf"no messages go by MPI [0-9.]+ \(Open MPI\): rank {rank} of 2: MPI sees it as rank 0 of 1, [^\n]*; "
                self.assertRegex(said, why + "--between tcp does without it\n")

    def test_who_survives_names_a_rank_that_is_killed(self) -> None:
        for manager in managers_here():
            lets_live = "--enable-recovery" if manager is managers.mpirun else "-disable-auto-cleanup"
            with tempfile.TemporaryDirectory() as folder, Hosts(2) as hosts:
                words, environment = manager(folder, 4, "h1:2,h2:2")
                command = (*TRAIN[:3], "--epochs", "1000000", "--out", "/tmp/run", "--between", "mpi")
                words = (words[0], lets_live, *words[1:])
                job = Output(hosts.start(0, (*words, *command), {"PYTHONPATH": "", **environment}))
                while not hosts.has(1, "/tmp/run/records-0.jsonl"):  # they do not train yet
                    self.assertIsNone(job.process.poll(), job.said)
                hosts.call("exec", "2", "pkill", "-KILL", "-n", "stretto-train")
                begin = time.monotonic()
                while any(hosts.call("exec", host, "pgrep", "stretto-train").stdout for host in ("1", "2")):
                    self.assertLess(time.monotonic() - begin, WATCHDOG, job.said)
                job.process.kill()  # mpirun of Open MPI 4.1 stays where it lets ranks live
                job.end()
                self.assertRegex(job.said, "rank [23] is lost: ", library_of(manager))

    def test_neither_direction_waits_for_the_other_where_one_side_is_late(self) -> None:
        for manager in managers_here():
            with tempfile.TemporaryDirectory() as folder, Hosts(2, "1gbit") as hosts:
                words = (*BY_MPI, LAUNCHED_RANK, "both_ways")
                status, out, said = self.run_ranks(hosts, folder, manager, words, 2, "h1:1,h2:1")
                self.assertEqual(status, 0, said)
                found = re.search(r"^([\d.]+) ([\d.]+)$", out, re.MULTILINE)
                assert found is not None, out
                at_once, late = map(float, found.groups())
                # One behind the other they take twice as long.
                self.assertLess(late, 1.5 * at_once, library_of(manager))


if __name__ == "__main__":
    unittest.main()
