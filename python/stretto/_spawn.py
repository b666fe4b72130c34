"""stretto.spawn(): ranks as processes of a script, a notebook or a prompt. Knows no Torch."""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import selectors
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, TypeVar

from stretto._errors import Error, RankLost, Timeout, UsageError
from stretto._parcel import name_of, pack
from stretto._spawned import Call, Raised, Returned

T = TypeVar("T")

_GRACE_AFTER_FAILURE = 5.0  # for ranks to hear of one that has failed, and to end
_GRACE_AFTER_SIGNAL = 2.0


class RankTraceback(Exception):
    """Where a rank has raised: the cause of the exception that spawn() raises. Its text is the rank's traceback."""


def spawn(
    fn: Callable[..., T], args: Sequence[Any] = (), ranks: int = 2, *, timeout: float | None = None
) -> list[T]:
    """Calls `fn(rank, *args)` on so many ranks, each a fresh process of this host, and returns what they return, by
    rank.

    `fn` may be of a module, a script, a cell of a notebook or a prompt; no script is run a second time. One of the
    latter three goes with the globals that it uses, as they are now; closures are refused. Arguments and results go by
    pickle. A rank has what torch.distributed asks of its environment, and OMP_NUM_THREADS, where it is not set, so that
    the ranks share the cores of this host. What ranks write comes out in whole lines. They end with this process.

    What `fn` raises on a rank is raised here, with its traceback there as the cause and the rank as `.rank`; the other
    ranks are ended. `timeout`: seconds for all; None: any time.

    Raises UsageError for what cannot go to another process; Timeout, which names the ranks that have not returned;
    RankLost for a rank that was killed; Error for one that has ended in another way.
    """
    return spawn_with({}, fn, args, ranks, timeout)


def spawn_with(
    variables: Mapping[str, str], fn: Callable[..., T], args: Sequence[Any], ranks: int, timeout: float | None = None
) -> list[T]:
    """spawn(), with these variables in the environment of the ranks, too."""
    if not callable(fn):
        raise UsageError(f"spawn({fn!r}): expected a function")
    if isinstance(args, (str, bytes)) or not isinstance(args, Sequence):
        raise UsageError(f"spawn(args={args!r}): expected a tuple of the arguments that follow the rank")
    if not isinstance(ranks, int) or ranks < 1:
        raise UsageError(f"spawn(ranks={ranks!r}): expected a number of ranks, from 1")
    if not sys.executable:
        raise UsageError("spawn() where Python is embedded in a program: expected an interpreter to start ranks by")
    package = getattr(sys.modules["__main__"], "__package__", None)
    call = pickle.dumps(Call(list(sys.argv), package, pack(fn, args)))
    with _Ranks(call, ranks, variables) as started:
        started.run(name_of(fn), timeout)
        return [rank.value() for rank in started.all]


class _Lines:
    """Passes on what comes from a pipe, in whole lines."""

    def __init__(self, to: IO[str]) -> None:
        self._to = to
        self._rest = b""

    def add(self, content: bytes) -> None:
        self._rest += content
        end = max(self._rest.rfind(b"\n"), self._rest.rfind(b"\r")) + 1  # progress bars end theirs by a return
        self._write(self._rest[:end])
        self._rest = self._rest[end:]

    def end(self) -> None:
        if self._rest:
            self._write(self._rest + b"\n")
        self._rest = b""

    def _write(self, content: bytes) -> None:
        if content:
            self._to.write(content.decode("utf-8", "replace"))
            self._to.flush()


class _Rank:
    """One process, its two outputs, and the pipe on which it says how the call has ended."""

    def __init__(self, rank: int, call: int, environment: dict[str, str]) -> None:
        self.rank = rank
        self.said: Returned | Raised | None = None
        self.ended_at: float | None = None
        self.stopped = False  # by this process
        self.result, send = os.pipe()
        self._content = bytearray()
        start = (
            f"import sys; sys.path[:] = {sys.path!r}; "
            f"from stretto._spawned import main; main({call}, {send}, {os.getpid()})"
        )
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", start],
                env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(call, send),
                start_new_session=True,  # Ctrl-C at a terminal comes to this process, which decides
            )
        except BaseException:
            os.close(self.result)
            raise
        finally:
            os.close(send)
        self.process = os.pidfd_open(self._process.pid)
        assert self._process.stdout is not None and self._process.stderr is not None
        self._lines = {
            self._process.stdout.fileno(): _Lines(sys.stdout),
            self._process.stderr.fileno(): _Lines(sys.stderr),
        }
        self.pipes = [self.result, *self._lines]
        for pipe in self.pipes:
            os.set_blocking(pipe, False)

    def read(self, pipe: int) -> bool:
        """Takes what has come. False at the end."""
        with contextlib.suppress(BlockingIOError):
            while content := os.read(pipe, 1 << 20):
                if pipe == self.result:
                    self._content += content
                else:
                    self._lines[pipe].add(content)
            return False
        return True

    def end(self) -> None:
        """The process has ended: what it has started is ended, too, and what is left in the pipes is read."""
        self.ended_at = time.monotonic()
        self._kill()
        for pipe in self.pipes:
            self.read(pipe)
        for lines in self._lines.values():
            lines.end()
        with contextlib.suppress(EOFError, pickle.UnpicklingError):  # it was killed, or has called os._exit()
            self.said = pickle.loads(self._content)

    def stop(self, number: int) -> None:
        """Sends a signal to the process, which has not ended, and to those that it has started."""
        self.stopped = True
        os.killpg(self._process.pid, number)

    def _kill(self) -> None:
        # Before wait(): until then no other process group can have this number.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """Ends the process, where it has not ended."""
        if self.ended_at is None:
            self._kill()
        os.close(self.result)
        os.close(self.process)
        for output in (self._process.stdout, self._process.stderr):
            assert output is not None
            output.close()

    def failed(self) -> bool:
        return self.ended_at is not None and not isinstance(self.said, Returned)

    def failed_by_itself(self) -> bool:
        return self.failed() and not self.stopped and not (isinstance(self.said, Raised) and self.said.consequence)

    def error(self, name: str) -> BaseException:
        """Why the call has not returned."""
        status = self._process.returncode
        error: BaseException
        if isinstance(self.said, Raised) and self.said.kind != "SystemExit":
            error = Error(f"{self.said.kind}: {self.said.text}")
            if self.said.error is not None:
                error = pickle.loads(self.said.error)
            error.__cause__ = RankTraceback(f"rank {self.rank} has raised\n{self.said.traceback.rstrip()}")
        elif isinstance(self.said, Raised):
            error = Error(f"rank {self.rank}: sys.exit({self.said.text}) before {name} has returned")
        elif status < 0:
            error = RankLost(f"rank {self.rank} was killed by {signal.Signals(-status).name}")
        else:
            error = Error(f"rank {self.rank} has ended with exit status {status} before {name} has returned")
        with contextlib.suppress(AttributeError):  # an exception with slots
            error.rank = self.rank  # type: ignore[attr-defined]
        return error

    def value(self) -> Any:
        """What the call has returned."""
        assert isinstance(self.said, Returned)
        return pickle.loads(self.said.value)


class _Ranks:
    """The processes of one spawn(). None is left after the block."""

    def __init__(self, call: bytes, ranks: int, variables: Mapping[str, str]) -> None:
        self.all: list[_Rank] = []
        self._selector = selectors.DefaultSelector()
        file = os.memfd_create("stretto-spawn")
        try:
            with open(file, "wb", closefd=False) as content:
                content.write(call)
            environment = {**_environment(ranks), **variables}
            for number in range(ranks):
                rank = _Rank(number, file, environment)
                self.all.append(rank)
                for descriptor in (rank.process, *rank.pipes):
                    self._selector.register(descriptor, selectors.EVENT_READ, rank)
        except BaseException:
            self.__exit__()
            raise
        finally:
            os.close(file)

    def __enter__(self) -> _Ranks:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._stop(signal.SIGINT)  # there are any where this process was interrupted, or has failed
            self._wait(time.monotonic() + _GRACE_AFTER_SIGNAL)
        finally:
            for rank in self.all:
                rank.close()
            self._selector.close()

    def run(self, name: str, timeout: float | None) -> None:
        """Returns when the call has returned on all ranks. `name`: of the function."""
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        while self._running() and not self._failed():
            if not self._wait_once(deadline):
                raise self._late(name, timeout)
        if not self._failed():
            return
        self._wait(time.monotonic() + _GRACE_AFTER_FAILURE)
        self._stop(signal.SIGKILL)
        self._wait(math.inf)
        by_themselves = [rank for rank in self.all if rank.failed_by_itself()]
        first = min(by_themselves or self._failed(), key=lambda rank: rank.ended_at or 0)
        raise first.error(name)

    def _late(self, name: str, timeout: float | None) -> Timeout:
        late = [rank.rank for rank in self._running()]
        self._stop(signal.SIGTERM)  # they write where they are
        self._wait(time.monotonic() + _GRACE_AFTER_SIGNAL)
        names = f"rank {late[0]} has" if len(late) == 1 else f"ranks {', '.join(map(str, late))} have"
        error = Timeout(f"spawn({name}): {names} not returned within {timeout:g} s")
        error.rank = late[0] if len(late) == 1 else None
        return error

    def _running(self) -> list[_Rank]:
        return [rank for rank in self.all if rank.ended_at is None]

    def _failed(self) -> list[_Rank]:
        return [rank for rank in self.all if rank.failed()]

    def _stop(self, number: int) -> None:
        for rank in self._running():
            rank.stop(number)

    def _wait(self, deadline: float) -> None:
        while self._running() and self._wait_once(deadline):
            pass

    def _wait_once(self, deadline: float) -> bool:
        """Until something comes from a rank, or it ends. False after the deadline."""
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        for key, _ in self._selector.select(None if left == math.inf else left):
            rank: _Rank = key.data
            if rank.ended_at is not None:
                continue
            if key.fd == rank.process:
                rank.end()
                for descriptor in (rank.process, *rank.pipes):
                    with contextlib.suppress(KeyError):
                        self._selector.unregister(descriptor)
            elif not rank.read(key.fd):
                self._selector.unregister(key.fd)
        return True


def _environment(ranks: int) -> dict[str, str]:
    """What the ranks have in common; torch.distributed asks for the same."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TORCHELASTIC_")}
    cores = len(os.sched_getaffinity(0))
    environment.setdefault("OMP_NUM_THREADS", str(max(1, cores // ranks)))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment.update(
        WORLD_SIZE=str(ranks),
        LOCAL_WORLD_SIZE=str(ranks),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
        STRETTO_JOB=uuid.uuid4().hex,
    )
    return environment
