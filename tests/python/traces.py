"""What a job has on its host (processes, memory, sockets), and what of it is left when it has ended.

Its processes are those whose environment has a mark; memory and sockets are found through them while they run.
"""

from __future__ import annotations

import os
import pathlib
import time
import uuid
from collections.abc import Callable, Iterator

_MARK = "STRETTO_TEST_TRACES"


class Traces:
    """Those of the processes that are started with `environment`."""

    def __init__(self) -> None:
        self._mark = uuid.uuid4().hex
        self._memory: set[tuple[int, int]] = set()  # device and inode
        self._sockets: set[str] = set()

    @property
    def environment(self) -> dict[str, str]:
        return {_MARK: self._mark}

    def processes(self) -> dict[int, str]:
        """Number and command line of those that are no zombies."""
        found = {}
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if f"{_MARK}={self._mark}".encode() in (folder / "environ").read_bytes():  # that of a zombie is empty
                    found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
        return found

    def look(self) -> Traces:
        """Takes note of the memory and the sockets that the processes have now."""
        for pid in self.processes():
            self._memory |= set(_memory_of(pid))
            inodes = set(_socket_inodes(pid))
            self._sockets |= {name for inode, name in _named_sockets() if inode in inodes}
        return self

    def look_until(self, seen: Callable[[], bool], seconds: float = 300) -> None:
        """Looks again and again until `seen()`."""
        deadline = time.monotonic() + seconds
        while not seen():
            assert time.monotonic() < deadline, self.processes()
            self.look()
            time.sleep(0.005)

    @property
    def num_memories(self) -> int:
        return len(self._memory)

    @property
    def sockets(self) -> set[str]:
        """Names of those seen."""
        return set(self._sockets)

    def left(self, seconds: float = 20) -> list[str]:
        """What is left. Processes that have been told to end may take so long for it."""
        deadline = time.monotonic() + seconds
        while (found := self._left()) and time.monotonic() < deadline:
            time.sleep(0.01)
        return found

    def _left(self) -> list[str]:
        found = [f"process {pid}: {command}" for pid, command in self.processes().items()]
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            if self._memory.intersection(_memory_of(int(folder.name))):
                found.append(f"memory of the job, in process {folder.name}")
        return found + [f"socket {name}" for _, name in _named_sockets() if name in self._sockets]


def _memory_of(pid: int) -> Iterator[tuple[int, int]]:
    """Device and inode of each piece of stretto's shared memory that the process maps, or holds open."""
    try:
        for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
            if "/memfd:stretto" in line:
                device, inode = line.split()[3:5]
                major, minor = (int(part, 16) for part in device.split(":"))
                yield os.makedev(major, minor), int(inode)
        for entry in os.scandir(f"/proc/{pid}/fd"):
            if os.readlink(entry.path).startswith("/memfd:stretto"):
                status = os.stat(entry.path)
                yield status.st_dev, status.st_ino
    except OSError:  # it has ended
        return


def _socket_inodes(pid: int) -> Iterator[int]:
    try:
        for entry in os.scandir(f"/proc/{pid}/fd"):
            target = os.readlink(entry.path)
            if target.startswith("socket:["):
                yield int(target[len("socket:[") : -1])
    except OSError:
        return


def _named_sockets() -> list[tuple[int, str]]:
    """Inode and name of the Unix sockets of stretto on this host; an abstract one's name begins with an @."""
    rows = (line.split() for line in pathlib.Path("/proc/net/unix").read_text().splitlines()[1:])
    return [(int(row[6]), row[7]) for row in rows if len(row) > 7 and "stretto-" in row[7]]
