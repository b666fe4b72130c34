"""Starts ranks by fork, from a process that has imported what the file of their test imports.

To import PyTorch takes 2.5 s of processor time, and the first optimizer of a process imports as much again. The tests
of this folder start hundreds of ranks: with imports of their own these took longer than all that is tested. Otherwise
a forked rank is a process as any other: it has its own session, environment and output, and ends as an interpreter
ends.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import multiprocessing.connection
import os
import pathlib
import random
import signal
import subprocess
import sys
import time
from multiprocessing.connection import Connection


@dataclasses.dataclass(frozen=True)
class Start:
    """A rank that is to be started."""

    call: str  # the file that ranks.call() reads
    environment: dict[str, str]
    directory: str  # it works in
    stdout: str  # files
    stderr: str


class ForkedProcess:
    """A rank, as subprocess.Popen shows it."""

    def __init__(self, pid: int, server: Server) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._server = server

    def poll(self) -> int | None:
        return self._hear(0)

    def wait(self, timeout: float = float("inf")) -> int:
        deadline = time.monotonic() + timeout
        while self._hear(max(0.0, deadline - time.monotonic())) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("a forked rank", timeout)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _hear(self, timeout: float) -> int | None:
        if self.returncode is None:
            if self.pid not in self._server.statuses:
                self._server.hear(timeout)
            self.returncode = self._server.statuses.pop(self.pid, None)
        return self.returncode


class Server:
    """The process that forks. It ends when the one that has made it ends."""

    def __init__(self, file: str) -> None:
        self.statuses: dict[int, int] = {}  # of ranks that have ended and were not yet asked for theirs
        self._connection, theirs = multiprocessing.connection.Pipe()
        self._process = subprocess.Popen(
            [sys.executable, __file__, file, str(theirs.fileno())],
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"},
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
        theirs.close()

    def start(self, rank: Start) -> ForkedProcess:
        self._connection.send(rank)
        while True:
            pid, status = self._connection.recv()
            if status is None:
                return ForkedProcess(pid, self)
            self.statuses[pid] = status

    def hear(self, timeout: float) -> None:
        """Waits at most so many seconds until a rank has ended, and takes note of all that have."""
        while self._connection.poll(min(timeout, 3600.0)):
            pid, status = self._connection.recv()
            self.statuses[pid] = status
            timeout = 0


@functools.cache
def server_of(file: str) -> Server:
    """The one whose ranks have imported that file."""
    return Server(file)


def _serve(requests: Connection) -> Start:
    """Forks a rank for each request. Returns in the ranks alone."""
    ended, of_signals = os.pipe()
    os.set_blocking(ended, False)
    os.set_blocking(of_signals, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(of_signals)
    while True:
        ready = multiprocessing.connection.wait([requests, ended])
        if ended in ready:
            os.read(ended, 4096)
            for of_rank in _reaped():
                requests.send(of_rank)
        if requests in ready:
            try:
                rank: Start = requests.recv()
            except EOFError:
                os._exit(0)
            assert len(os.listdir("/proc/self/task")) == 1, "the ranks would lack a thread"
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                requests.close()
                os.close(ended)
                os.close(of_signals)
                return rank
            requests.send((pid, None))


def _reaped() -> list[tuple[int, int]]:
    """Ranks that have ended, and how, as subprocess has it: −9 for one killed by SIGKILL."""
    found = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        found.append((pid, os.waitstatus_to_exitcode(status)))


def _become(rank: Start) -> None:
    os.setsid()
    os.chdir(rank.directory)
    for number, path in ((1, rank.stdout), (2, rank.stderr)):
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(rank.environment)
    random.seed()


def _main() -> None:
    file = pathlib.Path(sys.argv[1])
    sys.path.insert(0, str(file.parent))
    import torch._dynamo  # noqa: F401  the first optimizer of a process imports it

    import ranks

    importlib.import_module(file.stem)
    rank = _serve(Connection(int(sys.argv[2])))
    _become(rank)
    sys.argv = [ranks.__file__, rank.call]
    ranks.call(rank.call)


if __name__ == "__main__":
    _main()
