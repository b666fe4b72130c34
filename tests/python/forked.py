"""Starts processes by fork, from a zygote (zygote.py): a process that has imported what nearly all of them import.

To import PyTorch takes 2.5 s of processor time, and the first optimizer of a process imports as much again. The tests
of this folder are tens of files, which start hundreds of ranks: with imports of their own these took longer than all
that is tested. Otherwise a forked process is as any other: it has its own session, environment and output, and ends as
an interpreter ends.

CTest starts this module in a process of its own for each file of tests, so it imports little.
"""

from __future__ import annotations

import json
import os
import socket

inherited: str | None = None  # the folder of the zygote that has forked this process


class ForkedProcess:
    """A process that a zygote has forked, as subprocess.Popen shows it.

    The zygote kills it when the connection is closed: the owner has ended, or has dropped it.
    """

    def __init__(self, connection: socket.socket) -> None:
        """`connection`: one by which a process has been asked for."""
        self.returncode: int | None = None
        self._connection = connection
        self.pid = self._number()

    def poll(self) -> int | None:
        return self._wait(0)

    def wait(self, timeout: float | None = None) -> int:
        status = self._wait(timeout)
        if status is None:
            import subprocess

            raise subprocess.TimeoutExpired("a forked process", timeout or 0)
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(9)

    def _wait(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            self._connection.settimeout(timeout)
            try:
                self.returncode = self._number()
            except (TimeoutError, BlockingIOError):
                return None
            self._connection.close()
        return self.returncode

    def _number(self) -> int:
        number = self._connection.recv(32)
        if not number:
            raise ConnectionError("the zygote has ended")
        return int(number)


def start(
    zygote: str,
    module: str,
    arguments: list[str],
    environment: dict[str, str],
    directory: str,
    descriptors: tuple[int, int, int],
) -> ForkedProcess:
    """Calls main() of a module in a new process, with `arguments` in sys.argv. `zygote`: its folder. `descriptors`: the
    new process's standard input, output and error."""
    connection = connect(zygote)
    request = json.dumps([module, arguments, environment, directory]).encode()
    socket.send_fds(connection, [request], descriptors)
    return ForkedProcess(connection)


def end(zygote: str) -> None:
    """Ends a zygote, with all that it has forked. Returns when they have ended."""
    with connect(zygote) as connection:
        connection.send(b"null")
        connection.recv(1)


def connect(zygote: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    folder = os.open(zygote, os.O_PATH)
    try:
        connection.connect(address(folder))
    finally:
        os.close(folder)
    return connection


def address(folder: int) -> str:
    """Of the socket in an open folder. A path may be longer than an address: this one never is."""
    return f"/proc/self/fd/{folder}/socket"
