"""Names collectives of torch.distributed in which a rank of an eager loop waits for others that wait for it."""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
import types

import torch.distributed as dist

logger = logging.getLogger("stretto")

_FOLDER = os.path.dirname(dist.__file__) + os.sep

_PLACE = "a collective of torch.distributed in the loop waits for all ranks; put it into together()"


def active() -> bool:
    """Whether there are collectives of torch.distributed at all."""
    return dist.is_available() and dist.is_initialized()


def explain(line: str, silence: float) -> str:
    """What the core says of ranks that are waited for, and what may keep those that run in a step of their own."""
    inside = re.findall(r"(rank \d+) \((?:computing|at round \d+)\)", line)
    if not (inside and active()):
        return line
    who = f"{', '.join(inside)} {'has' if len(inside) == 1 else 'have'}"
    return f"{line}: {who} been inside a step's code for {silence:g} s without meeting the others: {_PLACE}"


class CollectiveWatch:
    """A thread that looks now and then where the thread that has begun it is. It says once that it is in the same
    collective of torch.distributed for `silence` seconds, and in which. It is not told of calls, which costs nothing.
    """

    def __init__(self, rank: int, silence: float) -> None:
        self._rank = rank
        self._silence = silence
        self._rests = False
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Starts the thread, unless it runs, where there are collectives of torch.distributed by now."""
        if self._thread is not None or not active():
            return
        self._watched = threading.get_ident()
        self._thread = threading.Thread(target=self._look, name="stretto collective watch", daemon=True)
        self._thread.start()

    def rest(self, rests: bool) -> None:
        """Whether collectives are in their place now: in together()."""
        self._rests = rests

    def stop(self) -> None:
        """Ends the thread, for good."""
        self._end.set()
        if self._thread is not None:
            self._thread.join()

    def _look(self) -> None:
        before: types.FrameType | None = None
        looks = 0
        while not self._end.wait(self._silence / 4):
            frame = None if self._rests else _collective(sys._current_frames().get(self._watched))
            looks = looks + 1 if frame is not None and frame is before else 0
            before = frame
            if looks == 4 and frame is not None:
                logger.warning("rank %d has been in %s for %g s: %s", self._rank, _name(frame), self._silence, _PLACE)
            del frame


def _collective(frame: types.FrameType | None) -> types.FrameType | None:
    """The outermost call into torch.distributed of a stack that ends in it."""
    found = None
    while frame is not None and frame.f_code.co_filename.startswith(_FOLDER):
        if not frame.f_code.co_filename.endswith("c10d_logger.py"):  # which wraps them
            found = frame
        frame = frame.f_back
    return found


def _name(frame: types.FrameType) -> str:
    caller = frame.f_back
    while caller is not None and caller.f_code.co_filename.startswith(_FOLDER):
        caller = caller.f_back
    name = f"torch.distributed.{frame.f_code.co_name}()"
    return name if caller is None else f"{name} ({os.path.basename(caller.f_code.co_filename)}, line {caller.f_lineno})"
