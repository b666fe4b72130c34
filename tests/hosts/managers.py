"""How process managers are told to start ranks on hosts that hosts.sh makes, from beside the switch."""

from __future__ import annotations

import pathlib

from hosts import HOSTS

Started = tuple[tuple[str, ...], dict[str, str]]  # words in front of the program, environment
SRUN = ("srun", "--chdir=/", "--exact", "--overcommit")


def mpirun(folder: str, ranks: int = 4, places: str = "h1:2,h2:2") -> Started:
    """Of Open MPI. `folder`: its own, since two mpirun of one user race for the one that they share."""
    settings = {
        "plm_rsh_agent": f"{HOSTS} rsh",
        "oob_tcp_if_include": "10.77.0.0/24",
        "routed": "direct",
        "pml": "ob1",
        "btl": "tcp,self,vader",
        "btl_tcp_if_include": "eth0",
        "orte_tmpdir_base": folder,
    }
    mca = [word for name, value in settings.items() for word in ("--mca", name, value)]
    words = ("mpirun.openmpi", "-n", str(ranks), "--host", places, "-wdir", "/", "-x", "PYTHONPATH", *mca)
    return words, {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def mpiexec(folder: str, ranks: int = 4, places: str = "h1:2,h2:2") -> Started:
    """Of MPICH, which takes a remote shell of one word: a script in `folder`."""
    shell = pathlib.Path(folder) / "rsh"
    shell.write_text(f'#!/bin/sh\nexec {HOSTS} rsh "$@"\n')
    shell.chmod(0o755)
    words = ("mpiexec.hydra", "-n", str(ranks), "-hosts", places, "-wdir", "/", "-launcher", "rsh")
    return (*words, "-launcher-exec", str(shell), "-localhost", "10.77.0.254"), {}
