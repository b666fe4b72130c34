"""Runs a function of a test, or a script, on ranks: processes of their own, with the environment that torchrun makes.

A function lies at the top of a test file and is called as `fn(*args)` in each rank; which rank it is, `stretto.rank()`
and the environment variable RANK say. What it returns has to be picklable. Ranks are forked (forked.py) from a process
that has imported PyTorch, unless they are to be `fresh`.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import os
import pathlib
import pickle
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import types
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import forked
import zygote

# Variables that nobody reads while modules are imported.
_READ_WHEN_CALLED = re.compile(r"(STRETTO|MASTER|LOCAL|WORLD|OMPI|PMIX|SLURM|TORCHELASTIC)_\w+|RANK")


@dataclasses.dataclass(frozen=True)
class Result:
    """How a rank has ended."""

    rank: int
    value: Any  # what the function has returned; None for a script, and where the function has not returned
    status: int  # as subprocess has it: −9 for one killed by SIGKILL
    stdout: str
    stderr: str


class Ranks:
    """Ranks under way, to be ended by wait(). As a context manager it leaves no process behind."""

    def __init__(
        self,
        fn: Callable[..., Any] | str | os.PathLike[str],
        ranks: int = 4,
        env: Mapping[str, str] | None = None,
        args: Sequence[Any] = (),
        env_of_rank: Callable[[int], Mapping[str, str]] | None = None,
        fresh: bool = False,
    ) -> None:
        """`env_of_rank`: what only one rank's environment has; an empty value takes a variable away. `fresh`: each rank
        imports for itself, which the test needs where it says what is imported, or sets what is read meanwhile."""
        self._folder = tempfile.TemporaryDirectory(prefix="stretto_ranks_")
        self.processes: list[subprocess.Popen[bytes] | forked.ForkedProcess] = []
        shared = {
            **os.environ,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port()),
            "STRETTO_JOB": uuid.uuid4().hex,
            "OMP_NUM_THREADS": "1",
            "PYTHONFAULTHANDLER": "1",
            **(env or {}),
        }
        path = pathlib.Path(self._folder.name)
        call = path / "call"
        file, name = (inspect.getfile(fn), fn.__qualname__) if callable(fn) else (os.fspath(fn), None)
        call.write_bytes(pickle.dumps((file, name, pickle.dumps(tuple(args)))))
        for rank in range(ranks):
            own = env_of_rank(rank) if env_of_rank else {}
            settings = {
                **shared,
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(ranks),
                "LOCAL_WORLD_SIZE": str(ranks),
                "STRETTO_RANKS_VALUE": str(path / f"{rank}.value"),
                **own,
            }
            settings = {name: value for name, value in settings.items() if value}
            output = path / f"{rank}.stdout", path / f"{rank}.stderr"
            if fresh:
                self.processes.append(_started([__file__, str(call)], settings, *output))
            else:
                for name in (*(env or {}), *own):
                    assert _READ_WHEN_CALLED.fullmatch(name), f"{name} is read early: the ranks have to be fresh"
                self.processes.append(_forked(call, settings, *output))

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, *_: object) -> None:
        self._kill()
        self._folder.cleanup()

    def stdout(self, rank: int) -> str:
        """What a rank has written so far."""
        return (pathlib.Path(self._folder.name) / f"{rank}.stdout").read_text(errors="replace")

    def wait_for(self, text: str, ranks: Sequence[int] | None = None, timeout: float = 240) -> None:
        """Returns when these ranks, or all, have written `text`."""
        deadline = time.monotonic() + timeout
        for rank in range(len(self.processes)) if ranks is None else ranks:
            while text not in self.stdout(rank):
                if time.monotonic() > deadline or self.processes[rank].poll() is not None:
                    raise AssertionError(f"rank {rank} did not write {text!r}\n{self._said()}")
                time.sleep(0.005)

    def wait(self, timeout: float = 240) -> list[Result]:
        """How all have ended. Those that have not in `timeout` seconds show where they are, and fail the test."""
        deadline = time.monotonic() + timeout
        try:
            for process in self.processes:
                process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            late = [rank for rank, process in enumerate(self.processes) if process.poll() is None]
            for rank in late:
                self.processes[rank].send_signal(signal.SIGABRT)  # faulthandler writes the stacks of all threads
            for rank in late:
                self.processes[rank].wait(10)
            raise AssertionError(f"after {timeout} s ranks {late} had not ended\n{self._said()}") from None
        return [self._result(rank) for rank in range(len(self.processes))]

    def _result(self, rank: int) -> Result:
        path = pathlib.Path(self._folder.name)
        value = path / f"{rank}.value"
        return Result(
            rank,
            pickle.loads(value.read_bytes()) if value.exists() else None,
            self.processes[rank].returncode,
            self.stdout(rank),
            (path / f"{rank}.stderr").read_text(errors="replace"),
        )

    def _said(self) -> str:
        return said([self._result(rank) for rank in range(len(self.processes))])

    def _kill(self) -> None:
        for process in self.processes:
            try:
                os.killpg(process.pid, signal.SIGKILL)  # with what it may have started
            except ProcessLookupError:  # it has ended, or is too young to lead a session
                process.kill()
            process.wait()


def run(
    fn: Callable[..., Any] | str | os.PathLike[str],
    ranks: int = 4,
    timeout: float = 240,
    env: Mapping[str, str] | None = None,
    args: Sequence[Any] = (),
    fresh: bool = False,
) -> list[Result]:
    """Runs a function, or the script at a path, on so many ranks until all have ended, however they end."""
    with Ranks(fn, ranks, env, args, fresh=fresh) as started:
        return started.wait(timeout)


def values(
    fn: Callable[..., Any],
    ranks: int = 4,
    timeout: float = 240,
    env: Mapping[str, str] | None = None,
    args: Sequence[Any] = (),
    fresh: bool = False,
) -> list[Any]:
    """What the function returns on each rank. A rank that ends in another way fails the test, with what it said."""
    results = run(fn, ranks, timeout, env, args, fresh)
    if any(result.status != 0 for result in results):
        raise AssertionError(said(results))
    return [result.value for result in results]


def said(results: Sequence[Result]) -> str:
    """What all ranks have written, for the text of an assertion."""
    return "\n".join(f"-- rank {r.rank}, status {r.status}\n{r.stdout}{r.stderr}" for r in results)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _started(
    arguments: Sequence[str], environment: Mapping[str, str], stdout: pathlib.Path, stderr: pathlib.Path
) -> subprocess.Popen[bytes]:
    with open(stdout, "wb") as to_stdout, open(stderr, "wb") as to_stderr:
        return subprocess.Popen(
            [sys.executable, *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=to_stdout,
            stderr=to_stderr,
            start_new_session=True,
        )


def _forked(
    call: pathlib.Path, environment: dict[str, str], stdout: pathlib.Path, stderr: pathlib.Path
) -> forked.ForkedProcess:
    with open(os.devnull, "rb") as nothing, open(stdout, "wb") as to_stdout, open(stderr, "wb") as to_stderr:
        descriptors = nothing.fileno(), to_stdout.fileno(), to_stderr.fileno()
        return forked.start(zygote.of_this_process(), "ranks", [str(call)], environment, os.getcwd(), descriptors)


def call(path: str) -> None:
    """In a rank: makes the call that the file holds, and leaves what it returns where the test looks for it."""
    value = pathlib.Path(os.environ.pop("STRETTO_RANKS_VALUE"))
    file, name, pickled = pickle.loads(pathlib.Path(path).read_bytes())
    sys.path.insert(0, str(pathlib.Path(file).parent))
    args = pickle.loads(pickled)  # of classes that may lie in a file beside the test's
    returned = _run(file, args) if name is None else _function(file, name)(*args)
    whole = value.with_suffix(".whole")
    whole.write_bytes(pickle.dumps(returned))
    whole.replace(value)


def _function(file: str, name: str) -> Callable[..., Any]:
    found: Any = importlib.import_module(pathlib.Path(file).stem)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _run(script: str, args: Sequence[Any]) -> None:
    """As an interpreter runs it: what the script makes is there until the process ends."""
    module = types.ModuleType("__main__")
    module.__file__ = script
    sys.modules["__main__"] = module
    sys.argv = [script, *map(str, args)]
    exec(compile(pathlib.Path(script).read_bytes(), script, "exec"), module.__dict__)


def main() -> None:
    call(sys.argv[1])


if __name__ == "__main__":
    main()
