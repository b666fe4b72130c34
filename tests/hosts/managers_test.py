"""Ranks on several hosts that process managers start: mpirun of Open MPI (PMIx), mpiexec of MPICH (PMI-1), srun
(PMIx, or nothing). Hosts are network namespaces (hosts.sh).

    managers_test.py PROGRAM PYTHON PACKAGE
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Callable

import managers
import slurm
from hosts import Hosts, ends

PROGRAM, PYTHON, PACKAGE = (sys.argv.pop(1) for _ in range(3))
EXAMPLE = pathlib.Path(__file__).parents[2] / "examples/python/five_lines.py"
TRAIN_STEPS = 30
TRAIN = (PROGRAM, "train", "hyperplane", "--steps", str(TRAIN_STEPS), "--algorithm", "eager-quorum")
LONG = bool(os.environ.get("STRETTO_LONG_TESTS"))
RANKS = 4  # on two hosts
Environment = dict[str, str]
# An MPI that begins when the ranks have met, as of mpi4py.
MPI_AFTER = """
import ctypes, sys, stretto
stretto.init()
mpi = ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
began = mpi.MPI_Init(None, None)
sys.stdout.write(f"rank {stretto.rank()}: MPI has begun {began} and ended {mpi.MPI_Finalize()}\\n")
"""


class ManagersOnHosts(unittest.TestCase):
    def run_ranks(
        self, hosts: Hosts, words: tuple[str, ...], command: tuple[str | pathlib.Path, ...], environment: Environment
    ) -> str:
        """What the ranks print, started by `words` from beside the switch."""
        [(status, out, err)] = ends([hosts.start(0, (*words, *command), {"PYTHONPATH": PACKAGE, **environment})])
        self.assertEqual(status, 0, out + err)
        return out

    def expect_training(self, hosts: Hosts, words: tuple[str, ...], environment: Environment, places: str) -> None:
        """Of the command; `places`: on which host each rank is."""
        out = self.run_ranks(hosts, words, TRAIN, environment)
        batches = TRAIN_STEPS * len(places)
        self.assertIn(f"deposits: {batches} made, {batches} applied, 0 pending, 0 lost", out)
        found = dict(re.findall(r"^ *(\d) \(h(\d)\) ", out, re.MULTILINE))
        self.assertEqual(found, {str(rank): host for rank, host in enumerate(places)}, out)

    def expect_both(self, hosts: Hosts, words: tuple[str, ...], environment: Environment) -> None:
        """The command trains on two hosts of two ranks, and so does a script."""
        self.expect_training(hosts, words, environment, "1122")
        if not pathlib.Path(PACKAGE).exists():
            return
        out = self.run_ranks(hosts, words, (PYTHON, EXAMPLE), {"OMP_NUM_THREADS": "1", **environment})
        said = re.findall(r"rank \d of \d: \d+ batches", out)
        self.assertEqual(sorted(said), [f"rank {rank} of {RANKS}: 400 batches" for rank in range(RANKS)])

    def expect_all_by(self, manager: Callable[[str], managers.Started], library: str) -> None:
        """Both, and that an MPI, which is in `library`, may begin behind Stretto."""
        with tempfile.TemporaryDirectory() as folder, Hosts(2) as hosts:
            words, environment = manager(folder)
            self.expect_both(hosts, words, environment)
            if not pathlib.Path(PACKAGE).exists():
                return
            out = self.run_ranks(hosts, words, (PYTHON, "-c", MPI_AFTER, library), environment)
            self.assertEqual(sorted(out.splitlines()), [f"rank {i}: MPI has begun 0 and ended 0" for i in range(RANKS)])

    @unittest.skipUnless(shutil.which("mpirun.openmpi"), "no Open MPI (openmpi-bin)")
    def test_mpirun(self) -> None:
        self.expect_all_by(managers.mpirun, "libmpi.so.40")

    @unittest.skipUnless(shutil.which("mpiexec.hydra"), "no MPICH (mpich)")
    def test_mpiexec(self) -> None:
        self.expect_all_by(managers.mpiexec, "libmpich.so.12")

    @unittest.skipUnless(shutil.which("mpiexec.hydra"), "no MPICH (mpich)")
    def test_two_mpiexec_at_once(self) -> None:
        words = ("mpiexec.hydra", "-n", "2", "sh", "-c", 'exec "$@"', "sh", *TRAIN)
        jobs = [subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
        for status, out, err in ends(jobs):
            self.assertEqual(status, 0, out + err)
            self.assertIn(f"deposits: {2 * TRAIN_STEPS} made, {2 * TRAIN_STEPS} applied", out)

    @unittest.skipUnless(slurm.is_there(), "no Slurm (slurmctld, slurmd, slurm-client, munge)")
    def test_srun(self) -> None:
        with Hosts(3) as hosts, slurm.slurm_on(hosts, 3) as environment:
            srun = managers.SRUN
            self.expect_both(hosts, (*srun, "--mpi=pmix", "-N2", "-n4"), environment)
            self.expect_training(hosts, (*srun, "--mpi=none", "-N3", "-n5"), environment, "11223")
            if not LONG:
                return
            self.expect_both(hosts, (*srun, "--mpi=none", "-N2", "-n4"), environment)
            for mpi in ("none", "pmix"):
                dealt = (*srun, f"--mpi={mpi}", "-m", "cyclic")
                self.expect_training(hosts, (*dealt, "-N3", "-n5"), environment, "12312")


if __name__ == "__main__":
    unittest.main()
