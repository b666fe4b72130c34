"""The process that forks others, for forked.py, and what starts it.

A connection stands for one forked process: its first message is the request, the zygote answers with the process's
number and, at its end, with its status. A process whose connection is closed before is killed, with its session and
all that descends from it: a client that is killed takes along the pytest that it has asked for, and this its ranks.
The zygote ends when the process ends that it is for, however that ends, and kills all that it has forked.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import glob
import importlib
import json
import os
import pathlib
import random
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence

import forked

# What nearly all processes of the tests import: the first optimizer of a process imports torch._dynamo.
IMPORTED = ("numpy", "pytest", "torch", "torch._dynamo", "torch.nn.parallel", "stretto._optimizer", "ranks")

LONGEST_REQUEST = 1 << 20


class Zygote:
    """One that has been started. It need not be kept: it ends by itself."""

    def __init__(self, folder: str | os.PathLike[str], owner: int, imported: Sequence[str] = IMPORTED) -> None:
        """`folder`: an empty one, which goes with the zygote. `owner`: the number of the process that it ends with."""
        self.folder = os.fspath(folder)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        opened = os.open(folder, os.O_PATH)
        listener.bind(forked.address(opened))
        os.close(opened)
        listener.listen(128)
        end_of_owner = os.pidfd_open(owner)
        with listener, open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, __file__, self.folder, str(listener.fileno()), str(end_of_owner), *imported],
                env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[listener.fileno(), end_of_owner],
                start_new_session=True,
            )
        os.close(end_of_owner)

    @property
    def log(self) -> pathlib.Path:
        """What it has said. It stays where the zygote ended by itself though its owner had not."""
        return pathlib.Path(self.folder) / "log"


@functools.cache
def of_this_process() -> str:
    """The folder of the zygote that this process's ranks come from: the one that has forked it, or else its own."""
    return forked.inherited or Zygote(tempfile.mkdtemp(prefix="stretto_zygote_"), os.getpid()).folder


class _Serving:
    def __init__(self, listener: socket.socket, end_of_owner: int) -> None:
        self._listener = listener
        self._end_of_owner = end_of_owner
        self._processes: dict[socket.socket, int] = {}  # those that have not been waited for, by connection
        # It has no descriptor of its own, which forked processes would share.
        self._selector = selectors.PollSelector()
        self._selector.register(end_of_owner, selectors.EVENT_READ)
        self._selector.register(listener, selectors.EVENT_READ)

    def serve(self) -> tuple[str, list[str]]:
        """Forks a process for each request. Returns in the forked processes alone, with the call to make there."""
        while True:
            key, _ = self._selector.select()[0]
            if key.fileobj == self._end_of_owner:
                self._end()
            elif key.fileobj is self._listener:
                self._selector.register(self._listener.accept()[0], selectors.EVENT_READ)
            elif not isinstance(key.fileobj, socket.socket):
                self._wait_for(key.fd, key.data)
            elif key.fileobj in self._processes:
                self._selector.unregister(key.fileobj)
                _kill(self._processes[key.fileobj])
            elif call := self._answer(key.fileobj):
                return call

    def _answer(self, connection: socket.socket) -> tuple[str, list[str]] | None:
        request, descriptors, *_ = socket.recv_fds(connection, LONGEST_REQUEST, 3)
        if not request:
            self._selector.unregister(connection)
            connection.close()
            return None
        content = json.loads(request)
        if content is None:
            self._end()
        module, arguments, environment, directory = content
        assert len(os.listdir("/proc/self/task")) == 1, "forked processes would lack a thread"
        pid = os.fork()
        if pid == 0:
            connection.close()
            self._close()
            _become(environment, directory, descriptors)
            return module, arguments
        for descriptor in descriptors:
            os.close(descriptor)
        self._processes[connection] = pid
        self._selector.register(os.pidfd_open(pid), selectors.EVENT_READ, connection)
        _send(connection, pid)
        return None

    def _wait_for(self, end_of_process: int, connection: socket.socket) -> None:
        _, status = os.waitpid(self._processes.pop(connection), 0)
        self._selector.unregister(end_of_process)
        os.close(end_of_process)
        if connection in self._selector.get_map():
            self._selector.unregister(connection)
        _send(connection, os.waitstatus_to_exitcode(status))
        connection.close()

    def _end(self) -> None:
        """The owner has ended, or asks for it."""
        for pid in self._processes.values():
            _kill(pid)
        for pid in self._processes.values():
            os.waitpid(pid, 0)
        shutil.rmtree(sys.argv[1], ignore_errors=True)
        os._exit(0)

    def _close(self) -> None:
        """Leaves a forked process nothing of what the zygote hears by."""
        for key in list(self._selector.get_map().values()):
            if isinstance(key.fileobj, int):
                os.close(key.fileobj)
            else:
                key.fileobj.close()
        for connection in self._processes:
            connection.close()


def _send(connection: socket.socket, number: int) -> None:
    with contextlib.suppress(ConnectionError):  # the client may have ended
        connection.send(str(number).encode())


def _kill(pid: int) -> None:
    """Kills a process that has not been waited for, and all that descends from it, with their sessions."""
    for each in [pid, *_descendants(pid)]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):  # where it leads none
            os.killpg(each, signal.SIGKILL)


def _descendants(pid: int) -> Iterator[int]:
    for file in glob.glob(f"/proc/{pid}/task/*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, pathlib.Path(file).read_text().split()):
                yield child
                yield from _descendants(child)


def _become(environment: dict[str, str], directory: str, descriptors: Sequence[int]) -> None:
    os.setsid()
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()  # torch's own generator has the same seed in each process


def _main() -> None:
    folder, listener, end_of_owner, *imported = sys.argv[1:]
    for name in imported:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # forked processes collect, and so copy, nothing of this
    forked.inherited = folder
    module, arguments = _Serving(socket.socket(fileno=int(listener)), int(end_of_owner)).serve()
    sys.argv = [module, *arguments]
    sys.exit(importlib.import_module(module).main())


if __name__ == "__main__":
    _main()
