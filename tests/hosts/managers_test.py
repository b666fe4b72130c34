"""Ranks on several hosts that process managers start: mpirun of Open MPI (PMIx), mpiexec of MPICH (PMI-1), srun
(PMIx, or nothing). Hosts are network namespaces (hosts.sh).

    managers_test.py PROGRAM PYTHON PACKAGE
"""

from __future__ import annotations

import pathlib
import re
import shutil
import sys
import tempfile
import unittest
from collections.abc import Mapping

from hosts import HOSTS, Hosts, ends

PROGRAM, PYTHON, PACKAGE = (sys.argv.pop(1) for _ in range(3))
EXAMPLE = pathlib.Path(__file__).parents[2] / "examples/python/five_lines.py"
TRAIN = (PROGRAM, "train", "hyperplane", "--steps", "30", "--algorithm", "eager-quorum")
RANKS = 4  # on two hosts


class ManagersTest(unittest.TestCase):
    def run_on_two(
        self, words: tuple[str, ...], command: tuple[str | pathlib.Path, ...], environment: Mapping[str, str]
    ) -> str:
        """What the ranks print, started by `words` from beside the switch."""
        with Hosts(2) as hosts:
            [(status, out, err)] = ends([hosts.start(0, (*words, *command), {"PYTHONPATH": PACKAGE, **environment})])
            self.assertEqual(status, 0, out + err)
            return out

    def expect_both(self, words: tuple[str, ...], environment: Mapping[str, str]) -> None:
        """The command trains on both hosts, and so does a script."""
        out = self.run_on_two(words, TRAIN, environment)
        self.assertIn("deposits: 120 made, 120 applied, 0 pending, 0 lost", out)
        self.assertRegex(out, r" 3 \(h2\)")
        if not pathlib.Path(PACKAGE).exists():
            return
        out = self.run_on_two(words, (PYTHON, EXAMPLE), {"OMP_NUM_THREADS": "1", **environment})
        said = re.findall(r"rank \d of \d: \d+ batches", out)
        self.assertEqual(sorted(said), [f"rank {rank} of {RANKS}: 400 batches" for rank in range(RANKS)])

    @unittest.skipUnless(shutil.which("mpirun.openmpi"), "no Open MPI (openmpi-bin)")
    def test_mpirun(self) -> None:
        settings = {
            "plm_rsh_agent": f"{HOSTS} rsh",
            "oob_tcp_if_include": "10.77.0.0/24",
            "routed": "direct",
        }
        mca = [word for name, value in settings.items() for word in ("--mca", name, value)]
        environment = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        with tempfile.TemporaryDirectory() as folder:  # two mpirun of one user race for the one that they share
            mca += ["--mca", "orte_tmpdir_base", folder]
            words = ("mpirun.openmpi", "-n", str(RANKS), "--host", "h1:2,h2:2", "-wdir", "/", "-x", "PYTHONPATH", *mca)
            self.expect_both(words, environment)

    @unittest.skipUnless(shutil.which("mpiexec.hydra"), "no MPICH (mpich)")
    def test_mpiexec(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            shell = pathlib.Path(folder) / "rsh"
            shell.write_text(f'#!/bin/sh\nexec {HOSTS} rsh "$@"\n')
            shell.chmod(0o755)
            words = ("mpiexec.hydra", "-n", str(RANKS), "-hosts", "h1:2,h2:2", "-wdir", "/", "-launcher", "rsh")
            self.expect_both((*words, "-launcher-exec", str(shell), "-localhost", "10.77.0.254"), {})


if __name__ == "__main__":
    unittest.main()
