"""Hosts for tests: network namespaces of this machine (hosts.sh)."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import threading
import unittest
from collections.abc import Iterator, Mapping
from typing import NoReturn

HOSTS = pathlib.Path(__file__).parent / "hosts.sh"
Process = subprocess.Popen[str]
WATCHDOG = 60  # seconds, for what takes a second or two


class Output:
    """A process that was started on a host, and what it has written so far."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.printed, self.said = "", ""
        self._readers = [
            threading.Thread(target=self._read, args=(name,), daemon=True) for name in ("stdout", "stderr")
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, name: str) -> None:
        for written in getattr(self.process, name):
            line = self.line_of(written)
            if name == "stdout":
                self.printed += line
            else:
                self.said += line

    def line_of(self, written: str) -> str:
        """What is kept of a line."""
        return written

    def end(self) -> int:
        status = self.process.wait(timeout=WATCHDOG)
        for reader in self._readers:
            reader.join()
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()
        return status


class Hosts:
    """So many hosts, until the block ends, with links of `rate`. Of the folders below /tmp they see `keep` alone. The
    steady clock of each is `apart` seconds ahead of that of the one before it."""

    def __init__(self, number: int, rate: str = "", keep: str = "", family: str = "", apart: int = 0) -> None:
        self.state = f"/run/stretto-hosts-test-{os.getpid()}"
        self._environment = {**os.environ, "HOSTS_STATE": self.state, "HOSTS_KEEP": keep, "HOSTS_FAMILY": family}
        if apart:
            self._environment["HOSTS_APART"] = str(apart)
        self._number = number
        up = self.call("up", str(number), *filter(None, [rate]))
        if up.returncode != 0:
            raise unittest.SkipTest(up.stderr.strip())

    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([HOSTS, *words], env=self._environment, capture_output=True, text=True, check=False)

    def __enter__(self) -> Hosts:
        return self

    def __exit__(self, *_: object) -> None:
        self.call("down")

    def start(self, host: int, command: tuple[str | pathlib.Path, ...], environment: Mapping[str, str]) -> Process:
        """A command on a host, with what is added to this process's environment."""
        return subprocess.Popen(
            [HOSTS, "exec", str(host), *command],
            env={**self._environment, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def become(self, host: int, command: tuple[str | pathlib.Path, ...]) -> NoReturn:
        """This process becomes a command on a host."""
        os.execve(HOSTS, [str(HOSTS), "exec", str(host), *map(str, command)], self._environment)

    def has(self, host: int, path: str) -> bool:
        return self.call("exec", str(host), "test", "-e", path).returncode == 0

    def become_one_machine(self) -> None:
        """All have its boot id, as containers."""
        for host in range(1, self._number + 1):
            self.call("exec", str(host), "umount", "/proc/sys/kernel/random/boot_id")

    def kill(self, host: int) -> None:
        self.call("kill", str(host))

    def cut(self, host: int, other: int | None = None) -> None:
        """The link of a host goes dead; with `other`, the way from and to that one alone."""
        if other is None:
            self.call("cut", str(host))
            return
        self.route(host, other, "add")

    def mend(self, host: int, other: int | None = None) -> None:
        """The same again as before cut()."""
        if other is None:
            self.call("mend", str(host))
            return
        self.route(host, other, "del")

    def route(self, host: int, other: int, verb: str) -> None:
        for here, there in ((host, other), (other, host)):
            self.call("exec", str(here), "ip", "route", verb, "blackhole", f"10.77.0.{there}/32")

    def signal(self, host: int, name: str) -> None:
        """To all ranks on a host."""
        self.call("exec", str(host), "pkill", f"-{name}", "stretto-train")

    def signal_rank(self, host: int, rank: int, name: str) -> None:
        """To that rank alone."""
        of_rank = f"grep -lz '^STRETTO_RANK={rank}$' /proc/[0-9]*/environ | grep -o '[0-9]*'"
        self.call("exec", str(host), "sh", "-c", f"kill -{name} $({of_rank})")

    def resident(self, host: int, rank: int, program: str) -> int:
        """Memory of a rank's process, in kB."""
        is_it = f"grep -qz STRETTO_RANK={rank} /proc/$p/environ"
        find = f"for p in $(pgrep {program}); do {is_it} && cat /proc/$p/status; done"
        return int(re.findall(r"VmRSS:\s+(\d+) kB", self.call("exec", str(host), "sh", "-c", find).stdout)[0])


# Loaded into a program: its dates are so many seconds ahead, and its steady clock stays as it is.
DATES = r"""
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>

#include <cstdlib>

extern "C" {

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  static const auto real = reinterpret_cast<int (*)(clockid_t, timespec*)>(dlsym(RTLD_NEXT, "clock_gettime"));
  const int failed = real(clock, now);
  const char* const ahead = std::getenv("DATE_AHEAD");
  const bool is_date = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
  if (failed == 0 && is_date && ahead != nullptr) now->tv_sec += std::atol(ahead);
  return failed;
}

time_t time(time_t* out) noexcept {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != nullptr) *out = now.tv_sec;
  return now.tv_sec;
}

int gettimeofday(timeval* out, void*) noexcept {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  *out = {now.tv_sec, now.tv_nsec / 1000};
  return 0;
}

}  // extern "C"
"""


def build_dates(folder: str) -> str:
    """The library that DATES make, for LD_PRELOAD."""
    library = f"{folder}/dates.so"
    command = ["g++", "-x", "c++", "-shared", "-fPIC", "-o", library, "-"]
    subprocess.run(command, input=DATES, text=True, check=True)
    return library


def start_torchrun(
    hosts: Hosts,
    rendezvous: str,
    command: tuple[str | pathlib.Path, ...],
    environment: Mapping[str, str],
    options: tuple[str, ...] = (),
) -> list[Process]:
    """The agents of h1 and h2, with two ranks each; `command` begins with Python's interpreter. The store is rank 0's
    host's (static), or the other's (c10d)."""
    python, *script = command
    agents = []
    for host in (1, 2):
        place = ["--rdzv-backend", "c10d", "--rdzv-endpoint", "h2:29500"]
        if rendezvous == "static":
            place = ["--node-rank", str(host - 1), "--master-addr", "10.77.0.1", "--master-port", "29500"]
        torchrun = (python, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "2")
        agents.append(
            hosts.start(host, (*torchrun, *options, *place, *script), {"OMP_NUM_THREADS": "1", **environment})
        )
    return agents


def ends(processes: list[Process], timeout: float = 100) -> Iterator[tuple[int, str, str]]:
    """The status of each, in their order, and what it has written."""
    for process in processes:
        out, err = process.communicate(timeout=timeout)
        yield process.returncode, out, err
