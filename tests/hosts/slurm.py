"""A cluster of Slurm on hosts that hosts.sh makes: munged and slurmctld beside the switch, a slurmd on each host."""

from __future__ import annotations

import os
import pathlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from hosts import HOSTS, WATCHDOG, Hosts

SERVERS = ("munged", "slurmctld", "slurmd", "srun")
CONFIGURATION = """
ClusterName=stretto
SlurmctldHost={name}(10.77.0.254)
SlurmUser=root
SlurmctldPort=6817
SlurmdPort=6818
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdPidFile=/tmp/slurmd.pid
SlurmdLogFile={folder}/%n.log
SlurmdSpoolDir=/tmp/slurmd
TmpFS=/tmp
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/linear
MpiDefault=none
ReturnToService=2
SwitchType=switch/none
NodeName=h[1-{hosts}] NodeAddr=10.77.0.[1-{hosts}] CPUs={cores} State=UNKNOWN
PartitionName=all Nodes=h[1-{hosts}] Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
"""


def is_there() -> bool:
    return all(shutil.which(server, path=f"{os.environ['PATH']}:/usr/sbin") for server in SERVERS)


@contextmanager
def slurm_on(hosts: Hosts, number: int) -> Iterator[dict[str, str]]:
    """Runs it, in a folder of its own, and gives the environment of its commands."""
    folder = pathlib.Path(hosts.state + "-slurm")  # below /run, which all hosts see
    (folder / "state").mkdir(parents=True)
    cores = len(os.sched_getaffinity(0))
    configuration = folder / "slurm.conf"
    configuration.write_text(
        CONFIGURATION.format(name=socket.gethostname(), folder=folder, hosts=number, cores=cores)
    )
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")  # and none is used
    (folder / "munge.key").write_bytes(os.urandom(128))
    (folder / "munge.key").chmod(0o600)
    environment = {"SLURM_CONF": str(configuration), "PATH": f"{os.environ['PATH']}:/usr/sbin"}
    munge = {"socket": "munge.socket", "key-file": "munge.key", "pid-file": "munged.pid", "log-file": "munged.log"}
    munge |= {"seed-file": "munge.seed"}
    secret = [f"--{name}={folder / file}" for name, file in munge.items()]
    servers = [hosts.start(0, ("munged", "--foreground", "--force", *secret), environment)]
    try:
        servers.append(hosts.start(0, ("slurmctld", "-D", "-f", configuration), environment))
        for host in range(1, number + 1):
            servers.append(hosts.start(host, ("slurmd", "-D", "-N", f"h{host}", "-f", configuration), environment))
        begin = time.monotonic()
        while True:
            shown = subprocess.run(
                [HOSTS, "exec", "0", "sinfo", "-h", "-o", "%D %t"],
                env={**os.environ, "HOSTS_STATE": hosts.state, **environment},
                capture_output=True,
                text=True,
                check=False,
            )
            if shown.stdout.strip() == f"{number} idle":
                break
            if time.monotonic() - begin > WATCHDOG:
                logs = [file.read_text() for file in folder.glob("*.log")]
                raise AssertionError(f"no {number} idle nodes: {shown.stdout}{shown.stderr}{logs}")
            time.sleep(0.1)
        yield environment
    finally:
        for server in reversed(servers):
            server.terminate()
        for server in servers:
            server.communicate(timeout=WATCHDOG)
        shutil.rmtree(folder, ignore_errors=True)
