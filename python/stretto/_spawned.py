"""A process that spawn() has started: one rank."""

from __future__ import annotations

import ctypes
import faulthandler
import io
import mmap
import os
import pickle
import signal
import sys
import traceback
import types
from typing import NamedTuple

from stretto import _job
from stretto._errors import Aborted, RankLost, UsageError
from stretto._parcel import name_of, unpack

_PR_SET_PDEATHSIG = 1


class Returned(NamedTuple):
    """What a rank tells the process that has started it: the function has returned."""

    value: bytes  # pickled


class Raised(NamedTuple):
    """The same: it has raised."""

    error: bytes | None  # pickled, where that can be done
    kind: str
    text: str
    traceback: str
    consequence: bool  # of what another rank has done


class Call(NamedTuple):
    """What a rank is told."""

    argv: list[str]
    package: str | None  # of the `__main__` that the function comes from
    parcel: bytes


def main(call: int, result: int, parent: int) -> None:
    """Makes the Call in the file `call`, and writes a Returned or Raised to the pipe `result`: both are descriptors, of
    the process `parent`, which has started this one.
    """
    _die_with(parent)
    faulthandler.register(signal.SIGTERM, chain=True)  # shows where this rank is
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    said: Returned | Raised
    try:
        said = _returned(call)
    except BaseException as error:  # the process that has started this one raises it
        _job.fail(error)
        said = _raised(error)
    with open(result, "wb") as pipe:
        pickle.dump(said, pipe)
    sys.exit(isinstance(said, Raised))


def _returned(file: int) -> Returned:
    with mmap.mmap(file, 0, prot=mmap.PROT_READ) as content:
        call: Call = pickle.loads(content)
    os.close(file)
    sys.argv = call.argv
    script = types.ModuleType("__main__")
    script.__package__ = call.package
    sys.modules["__main__"] = script
    fn, args = unpack(call.parcel)
    try:
        value = fn(int(os.environ["RANK"]), *args)
    except SystemExit as end:
        if end.code not in (None, 0):
            raise
        value = None
    try:
        pickled = pickle.dumps(value)
    except Exception as error:  # pickle raises what it likes
        raise UsageError(
            f"spawn({name_of(fn)}): what it returns cannot go to another process ({type(error).__name__}: {error}): "
            "expected what pickle takes"
        ) from error
    _job.shutdown()
    return Returned(pickled)


def _raised(error: BaseException) -> Raised:
    if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
        error.__traceback__ = error.__traceback__.tb_next.tb_next  # without the frames of this file
    try:
        pickled: bytes | None = pickle.dumps(error)
        if type(pickle.loads(pickled or b"")) is not type(error):
            pickled = None
    except Exception:  # of the exception's own
        pickled = None
    return Raised(
        pickled,
        type(error).__name__,
        str(error),
        "".join(traceback.format_exception(type(error), error, error.__traceback__)),
        isinstance(error, (Aborted, RankLost)) and error.rank not in (None, int(os.environ["RANK"])),
    )


def _die_with(parent: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it has died before
        os._exit(1)
