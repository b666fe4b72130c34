"""Distributed training that does not wait for its slowest worker."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

from stretto._errors import Aborted, Diverged, Error, Left, RankLost, Timeout, UsageError

if sys.platform != "linux":  # there is no compiled module elsewhere, whose absence would say nothing
    raise UsageError(f"stretto on {sys.platform}: needs Linux, where ranks meet in memory that they share")

from stretto._core import version as _version
from stretto._job import init, leave, local_rank, local_size, rank, shutdown, size

if TYPE_CHECKING:
    from stretto._collectives import allreduce, barrier, broadcast
    from stretto._compare import Comparison, compare
    from stretto._ddp import attach
    from stretto._optimizer import Optimizer
    from stretto._report import Report
    from stretto._rounds import Round
    from stretto._sampler import Sampler
    from stretto._spawn import spawn

__version__: str = _version()

__all__ = [
    "Aborted", "Comparison", "Diverged", "Error", "Left", "Optimizer", "RankLost", "Report", "Round", "Sampler",
    "Timeout", "UsageError", "__version__", "allreduce", "attach", "barrier", "broadcast", "compare", "init", "leave",
    "local_rank", "local_size", "rank", "shutdown", "size", "spawn",
]


# Where what is loaded on first use lies: with Torch, or not needed by every process.
_LATER = {
    "Comparison": "stretto._compare",
    "Optimizer": "stretto._optimizer",
    "Report": "stretto._report",
    "Round": "stretto._rounds",
    "Sampler": "stretto._sampler",
    "allreduce": "stretto._collectives",
    "attach": "stretto._ddp",
    "barrier": "stretto._collectives",
    "broadcast": "stretto._collectives",
    "compare": "stretto._compare",
    "spawn": "stretto._spawn",
}


def __getattr__(name: str) -> object:
    if name in _LATER:
        value = globals()[name] = getattr(importlib.import_module(_LATER[name]), name)
        return value
    raise AttributeError(f"module 'stretto' has no attribute {name!r}")
