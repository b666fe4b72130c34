"""This process's place among the ranks of a job, and the meeting with them. Knows no Torch."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Protocol

import stretto._core as _core
from stretto import _process_group
from stretto._errors import Error, Left, Timeout, UsageError

logger = logging.getLogger("stretto")

_LONGEST_LIVENESS = 10 * 24 * 3600  # seconds


class _Part(Protocol):
    """What ends before this process leaves its job: an optimizer."""

    @property
    def _busy(self) -> bool: ...
    def _end(self) -> None: ...
    def _leave(self) -> None: ...
    def _abort(self, reason: str) -> None: ...


class _State:
    """The job of this process. One in a process; one thread."""

    job: _core.Job | None = None
    number = 0  # by which the job knows this process
    pid = 0
    left = False
    parts: list[Callable[[], _Part | None]] = []  # in the order in which they were made; None: it is no more
    trains: weakref.WeakSet[threading.Thread] = weakref.WeakSet()  # the threads that have made them


_state = _State()


def init(
    *,
    timeout: float | None = None,
    rank: int | None = None,
    ranks: int | None = None,
    liveness: float | None = None,
    between: str = "",
) -> None:
    """Joins the other ranks of the job; without effect in a process that has joined. Returns when all have come.

    The place is that which `rank` and `ranks` say, or else torch.distributed's process group where there is one, or
    `stretto run`, torchrun, mpirun or srun in the environment, or that of a process alone. Ranks on several hosts meet
    by the store of that group or of torchrun, or at STRETTO_MEETING=host:port, an address of rank 0's host.
    `timeout`: seconds for the last rank to come; 60 on one host, 300 on several.

    Under `stretto run --ranks MIN:MAX`, where ranks may be lost and others come later, this meets nobody: a process
    comes to the others with rank(), size(), or the first step of its Optimizer, and they wait for it from then on.

    Of ranks on several hosts, alike on all: `liveness`, seconds, at least 1, after which a host is lost of which
    nothing comes (STRETTO_LIVENESS, or 10); `between`, what moves messages between hosts: "tcp", "ucx" or
    "auto" (STRETTO_BETWEEN, or "tcp").

    Raises Timeout, which names the ranks that did not come; UsageError for a place, a `liveness` or a `between` that is
    none.
    """
    if _state.job is not None:
        _require_same_process()
        if (rank, ranks) != (None, None) and (rank, ranks) != (_state.job.rank, _state.job.ranks):
            raise UsageError(
                f"init(rank={rank}, ranks={ranks}) in a process that is rank {_state.job.rank} of {_state.job.ranks}: "
                "expected one init(), before the first Optimizer"
            )
        return
    if _state.left:
        raise UsageError("init() after shutdown(): a process is a rank of one job")
    if liveness is not None and not 1 <= liveness <= _LONGEST_LIVENESS:
        raise UsageError(f"init(liveness={liveness!r}): expected seconds, from 1 to {_LONGEST_LIVENESS}")
    if (rank is None) != (ranks is None):
        raise UsageError(f"init(rank={rank}, ranks={ranks}): expected both, or neither")
    if rank is not None and ranks is not None:
        if _core.is_member():
            raise UsageError(
                f"init(rank={rank}, ranks={ranks}) under `stretto run --ranks MIN:MAX`, whose members have no rank "
                "before they are let in: expected init() alone"
            )
        place = _core.Place(rank, ranks, _name_of_job())
    elif _core.is_member():
        place = _core.find_place()
    else:
        place = _process_group.find_place(60.0 if timeout is None else timeout) or _place_by_environment()
    if timeout is None:
        timeout = 300.0 if place.several_hosts else 60.0
    try:
        _state.job = _core.Job(place, timeout, liveness, between)
    except Timeout as error:
        error.args = (f"{error}{_process_group.hint_at_hosts()}",)
        raise
    _state.number = place.rank
    _state.pid = os.getpid()
    atexit.register(_core.close_interpreter)  # after shutdown(): the last that is registered comes first
    atexit.register(shutdown)
    _install_hook()
    if place.rank == 0 and place.ranks > 1 and not place.members_change:
        logger.info("%d ranks have met", place.ranks)


def _place_by_environment() -> _core.Place:
    place = _core.find_place()
    if place.ranks == 1:
        _process_group.check_alone()
    elif not place.several_hosts:
        _process_group.check_one_host()
    return place


def _name_of_job() -> str:
    """That of ranks which are told their places: what launchers put into the environment tells such jobs apart, too."""
    names = ("MASTER_ADDR", "MASTER_PORT", "STRETTO_JOB")
    return "init " + " ".join(f"{name}={os.environ.get(name, '')}" for name in names)


def current() -> _core.Job:
    """The job of this process, which joins it first."""
    init()
    assert _state.job is not None
    return _state.job


def alone() -> bool:
    """Whether this process has no other ranks, now or later. Joins the job."""
    job = current()
    return not job.members_change and job.ranks == 1


def number() -> int:
    """That by which the job knows this process as long as it lives: where members do not change, its rank."""
    return _state.number


def require_fixed(what: str) -> None:
    """Raises UsageError for a call that cannot be made where members of the job change. Joins the job."""
    if current().members_change:
        raise UsageError(f"{what} where members of the job change (stretto run --ranks MIN:MAX): not yet")


def rank() -> int:
    """This process's number among the ranks of its job, 0 … size() − 1. Joins the job.

    Where members of the job change (`stretto run --ranks MIN:MAX`) this and size() are those of the present members:
    a copy kept from the start goes stale. A process that comes later is let in by them, and the others then wait for
    its first step.
    """
    return current().rank


def size() -> int:
    """Ranks of the job. Joins it."""
    return current().ranks


def local_rank() -> int:
    """This process's number among the ranks of its host, 0 … local_size() − 1: to choose a GPU by, by any launcher.
    Joins the job. Where members of the job change it stays this process's, below the number of members at a time, and
    nobody waits for one that asks."""
    return current().local_rank


def local_size() -> int:
    """Ranks of this host. Joins the job."""
    return current().local_ranks


def leave() -> None:
    """This rank is to leave its job, whose members change (`stretto run --ranks MIN:MAX`), as where its machine is
    wanted back: step(), or the call that it is in, hands over all of the step under way, waits until the others go on
    without it, and raises Left, by which the process ends with status 0. Where there is no Optimizer yet Left is raised
    at once. So it is where the process gets SIGTERM, unless the program has a handler of its own, which may call this.
    Joins the job. Raises UsageError where members stay the same.
    """
    if not current().members_change:
        raise UsageError("leave() where the members of the job stay the same: expected `stretto run --ranks MIN:MAX`")
    if not _state.parts:
        raise Left
    for part in parts():
        part._leave()


def shutdown() -> None:
    """Ends what is not finished, and leaves the job; at exit by itself. Does nothing the second time.

    Where another thread is in a call of the job, as a daemon thread may be at exit, the job is left as it is: the
    others hear that this rank is lost when the process has ended.
    """
    job = _leave()
    if job is None:
        return
    _state.job = job  # until its parts have ended, whose last rounds call what listens to them
    try:
        for part in _take_parts():
            part._end()
    finally:
        is_there, _state.job = _state.job is job, None
    if is_there:
        job.leave()


def _leave() -> _core.Job | None:
    """The job, which this process has no more; nothing where there is none, or where it cannot be left."""
    job, _state.job = _state.job, None
    if job is None or _state.pid != os.getpid():
        return None
    _state.left = True
    return None if any(part._busy for part in parts()) else job


def add(part: _Part) -> None:
    """Enters a part, which ends before the job. One that other ranks wait for is kept until then; where there are none,
    as in a notebook whose cells are run again, it goes with its last reference.
    """
    _state.trains.add(threading.current_thread())
    kept = [earlier for earlier in _state.parts if earlier() is not None]
    _state.parts = [*kept, weakref.ref(part) if alone() else lambda: part]


def remove(part: _Part) -> None:
    """Takes out a part that has ended."""
    _state.parts = [kept for kept in _state.parts if kept() not in (part, None)]


def parts() -> list[_Part]:
    """Those that have not ended, in the order in which they were made."""
    return [part for kept in _state.parts if (part := kept()) is not None]


def _take_parts() -> Iterator[_Part]:
    """Takes them out, one by one: the end of one may be that of others."""
    while _state.parts:
        if (part := _state.parts.pop(0)()) is not None:
            yield part


def fail(error: BaseException) -> None:
    """Ends this rank's part in the job because of an exception that nobody has caught: the others hear of it."""
    job = _leave()
    if job is None:
        return
    why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    for part in _take_parts():
        part._abort(why)
    of_another = isinstance(error, Error) and not job.members_change and error.rank not in (None, job.rank)
    job.abandon("" if of_another else why)  # that rank has been heard, or is seen to be lost


def _require_same_process() -> None:
    if _state.pid != os.getpid():
        raise UsageError(
            f"this process was forked from one that had joined a job (process {_state.pid}): a rank is a process of "
            "its own; start processes by spawn, or fork before init()"
        )


def _install_hook() -> None:
    """A rank that ends by an exception tells the others. Notebooks go on after one: there nothing comes to this hook.
    The same where a thread that has made an optimizer ends so: nobody goes on with that. An exception of any other
    thread ends that thread alone.
    """
    before = sys.excepthook
    before_in_thread = threading.excepthook

    def hook(
        kind: type[BaseException], error: BaseException, traceback: types.TracebackType | None
    ) -> None:
        if threading.current_thread() is threading.main_thread():
            fail(error)
        before(kind, error, traceback)

    def hook_of_threads(ended: threading.ExceptHookArgs) -> None:
        error = ended.exc_value
        trains = ended.thread in _state.trains and bool(parts())
        if trains and error is not None and not isinstance(error, SystemExit):
            fail(error)
        before_in_thread(ended)

    threading.excepthook = hook_of_threads
    sys.excepthook = hook
