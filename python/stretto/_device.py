"""Models on a device: what the library reads and writes lies in the host's memory, and is copied there and back.

Gradients are computed in buckets on the device. In the backward pass the last gradient of a bucket has the bucket
copied, on a stream of its own, to where the algorithm wants it; step() waits for the copies, and copies those that are
missing or have changed since. What a bucket's last gradient is, and whether anything changes it later, is learned from
the steps before. The averaged gradients come back on the same stream, and the wrapped optimizer runs
behind them. Everything else (weights of rank 0, buffers) is copied where all ranks meet.
"""

from __future__ import annotations

import contextlib
import logging
import operator
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import torch

from stretto._countdown import Countdown
from stretto._cuda import Driver
from stretto._errors import UsageError

SWITCH = "STRETTO_DEVICE"
PAGE = 4096
# After so many steps whose copies in the backward pass were all in vain there are none; but one step in so many tries.
IN_VAIN, TRIES = 2, 64

_version = operator.attrgetter("_version")


class Device(Protocol):
    """A device that computes, and a stream of copies beside that."""

    def pin(self, address: int, size: int) -> str:
        """Has pages of the host's memory stay where they are, so that copies need not wait; says why not, or nothing.
        No page is pinned twice."""
        ...

    def unpin(self, address: int) -> None:
        """Takes pin() back. No copy is under way."""

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> Any:
        """Has the device do target = source, after the copies so far and after all it is to compute up to now.

        Returns an event: until it has come to pass nobody writes to `source`, or reads `target`.
        """

    def compute_after(self, event: Any) -> None:
        """What the device is to compute from now on is after the event."""

    def wait(self, event: Any) -> None:
        """Returns when the event has come to pass, and so those of all copies before it."""

    def captures(self) -> bool:
        """Whether what the device is asked for goes into a graph, which runs later, and often."""
        ...


class Cuda:
    """A Device by CUDA. All passes of a model are on one stream, the current one."""

    def __init__(self, where: torch.device) -> None:
        self._where = where
        self._copies = torch.cuda.Stream(where)
        self._driver = Driver()

    def pin(self, address: int, size: int) -> str:
        with self._context():
            return self._driver.register(address, size)

    def unpin(self, address: int) -> None:
        with contextlib.suppress(RuntimeError), self._context():  # after an error of the device every call fails
            self._driver.unregister(address)

    @contextlib.contextmanager
    def _context(self) -> Iterator[None]:
        """Within it the driver is asked about this device, and not about the first one, where no context is to be."""
        with torch.cuda.device(self._where):
            self._copies.query()  # the first call of the runtime on a thread makes a context current there
            yield

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> torch.cuda.Event:
        self._copies.wait_stream(torch.cuda.current_stream(self._where))
        with torch.cuda.stream(self._copies):
            target.copy_(source, non_blocking=True)
            event = torch.cuda.Event(blocking=True)
            event.record()
        return event

    def compute_after(self, event: torch.cuda.Event) -> None:
        torch.cuda.current_stream(self._where).wait_event(event)

    def wait(self, event: torch.cuda.Event) -> None:
        event.synchronize()

    def captures(self) -> bool:
        return torch.cuda.is_current_stream_capturing()


# By the name that Torch has for the kind of device.
KINDS: dict[str, Callable[[torch.device], Device]] = {"cuda": Cuda}


def staging_of(name: str, where: torch.device) -> Staging | None:
    """For a model on this device; None: it lies where the library reads and writes. `name`: of a tensor of the model.

    Raises UsageError for a device without staging.
    """
    wanted = os.environ.get(SWITCH, "")
    if wanted not in ("", "stage"):
        raise UsageError(f"{SWITCH}={wanted!r}: expected stage, or nothing")
    if where.type in KINDS and (wanted or where.type != "cpu"):
        return Staging(where, KINDS[where.type](where), asked_for=bool(wanted))
    if where.type == "cpu":
        return None
    raise UsageError(f"{name} is on {where}: expected cpu, or {' or '.join(KINDS)}")


class Staging:
    """The way between a model's tensors on a device and the host's memory."""

    def __init__(self, where: torch.device, device: Device, asked_for: bool) -> None:
        """`asked_for`: by who has set the switch, and need not be told."""
        self.where = where
        self.asked_for = asked_for
        self._device = device
        self._pinned: set[int] = set()  # addresses of pages
        self._not_pinned = ""  # why some memory is not
        self._mirrors: dict[object, torch.Tensor] = {}
        self._lent: dict[object, torch.Tensor] = {}  # whose mirrors the library may have written to
        self._sets: dict[int, list[torch.Tensor]] = {}
        self._set: list[torch.Tensor] | None = None  # where the gradients of this step go

    def lay_out(
        self,
        parameters: Sequence[torch.Tensor],
        buckets: Sequence[int],
        own: list[torch.Tensor],
        set_of: Callable[[int], list[torch.Tensor]],
    ) -> list[torch.Tensor]:
        """Makes the memory of gradients on the device, a tensor a bucket.

        `buckets`: which each parameter is in, ascending; `own`, `set_of(number)`: the host's memory of averaged
        gradients and of a set, a tensor a bucket.
        """
        self._own = own
        self._set_of = set_of
        for memory in own:
            self._pin([memory])
        self.gradients = [torch.zeros_like(memory, device=self.where) for memory in own]
        self._last: Any = None  # event of the last copy to the host that is under way
        self._versions: list[list[int] | None] = [None] * len(own)  # of the gradients that were copied in this step
        self._ranges = [(buckets.index(b), len(buckets) - buckets[::-1].index(b)) for b in range(len(own))]
        self._more = [0] * len(own)  # gradients that came when all of the bucket's parameters had one
        self._usual = [0] * len(own)  # the same in the step before
        self._steps = 0
        self._in_vain = 0  # the last so many of them
        # A byte a parameter, 1: a graph computes its gradient. No hook runs with it, and nothing becomes a new version.
        self.captured = bytearray(len(parameters))
        self.countdown = Countdown(
            parameters, buckets, self._came, lambda number: self._one_more(buckets[number]), self._is_captured
        )
        return self.gradients

    def tell(self) -> None:
        """Says in a line that the model is staged, to who has not asked for it."""
        if not self.asked_for:
            logging.getLogger("stretto").warning(
                "the model is on %s: gradients go through the host's memory, which is not tested on hardware yet "
                "(%s=stage takes this line away)",
                self.where,
                SWITCH,
            )

    def describe(self) -> str:
        """Where the model lies, and how it is copied: a sentence."""
        copies = f"not pinned ({self._not_pinned}), so that copies wait" if self._not_pinned else "pinned"
        return f"The model is on {self.where}; gradients go through the host's memory, which is {copies}."

    def _pin(self, memory: Sequence[torch.Tensor]) -> None:
        """The memory of a set, a tensor a bucket: one behind the other, with no page of another set. Less than a page
        may share one, and stays as it is."""
        first, end = _range(memory)
        if end - first < PAGE:
            return
        begin = first // PAGE * PAGE
        why_not = self._device.pin(begin, -(-end // PAGE) * PAGE - begin)
        if why_not:
            self._not_pinned = why_not
        else:
            self._pinned.add(begin)

    def _unpin(self, memory: Sequence[torch.Tensor]) -> None:
        begin = _range(memory)[0] // PAGE * PAGE
        if begin in self._pinned:
            self._pinned.remove(begin)
            self._device.unpin(begin)

    # ---- gradients ----

    def forget(self, number: int) -> None:
        """Gradients no longer go to the set of this number, whose memory is gone."""
        self._sets.pop(number, None)

    def begin(self, number: int, views: list[torch.Tensor]) -> None:
        """The gradients of a step begin at zero, and are to go to a set of this number."""
        torch._foreach_zero_(self.gradients)
        self._views = views
        self._set = self._memory_of(number)
        self._more = [0] * len(self._more)
        self.countdown.start()

    def _memory_of(self, number: int) -> list[torch.Tensor]:
        if number not in self._sets:
            self._sets[number] = self._set_of(number)
            self._pin(self._sets[number])
        return self._sets[number]

    def refuse_in_graphs(self, call: str) -> None:
        """Raises UsageError while a graph is captured, which this call is not to be in."""
        if self._device.captures():
            raise UsageError(
                f"{call} while a graph of {self.where} is captured: expected forward and backward passes alone in the "
                "graph, and this call where it is replayed"
            )

    def _is_captured(self, number: int) -> bool:
        captured = self._device.captures()
        if captured:
            self.captured[number] = 1
        return captured

    def _one_more(self, bucket: int) -> None:
        self._more[bucket] += 1
        self._came(bucket)

    def _came(self, bucket: int) -> None:
        tries = self._in_vain < IN_VAIN or self._steps % TRIES == 0
        if self._set is not None and tries and self._more[bucket] == self._usual[bucket]:
            self._send(bucket, self._set)

    def _send(self, bucket: int, memory: list[torch.Tensor]) -> None:
        first, last = self._ranges[bucket]
        self._versions[bucket] = list(map(_version, self._views[first:last]))
        self._last = self._device.copy(memory[bucket], self.gradients[bucket])

    def bring(self, number: int, views: list[torch.Tensor]) -> None:
        """All gradients lie in their memory on the device: returns when they are in the set, too."""
        self.countdown.stop()
        self._views = views
        memory = self._memory_of(number)
        early, kept = 0, 0
        for bucket, (first, last) in enumerate(self._ranges):
            copied = self._versions[bucket]
            early += copied is not None
            if copied == list(map(_version, views[first:last])):
                kept += 1
            else:
                self._send(bucket, memory)
        self._wait()
        self._set = None
        self._usual = self._more
        self._steps += 1
        if early:
            self._in_vain = 0 if kept else self._in_vain + 1

    def drop(self) -> None:
        """The gradients of this step are not wanted. Returns when nothing is copied to the set any more."""
        self.countdown.stop()
        self._wait()
        self._set = None

    def _wait(self) -> None:
        if self._last is not None:
            self._device.wait(self._last)
        self._last = None
        self._versions = [None] * len(self._versions)

    def take(self) -> Any:
        """Has the averaged gradients come to the device: what it computes from now on has them. Returns what
        settle() waits for."""
        last = [self._device.copy(mine, own) for mine, own in zip(self.gradients, self._own)][-1]
        self._device.compute_after(last)
        return last

    def settle(self, last: Any) -> None:
        """Returns when the host's memory that take() has copied from may be written to again."""
        self._device.wait(last)

    # ---- what else the library reads and writes ----

    def lend(self, key: object, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor's numbers in the host's memory, for the library to read and to write until take_back()."""
        if key not in self._lent:
            self._mirrors[key] = copy_of(tensor, self._mirrors.get(key))
            self._lent[key] = tensor
        return self._mirrors[key]

    def take_back(self) -> None:
        """Brings to the device what has been lent."""
        with torch.no_grad():
            for key, tensor in self._lent.items():
                tensor.copy_(self._mirrors[key])
        self._lent.clear()

    # ---- the end ----

    def rest(self) -> None:
        """All ranks have met: what was lent is taken back, and nothing is copied to the sets, which may go now."""
        self.drop()
        self.take_back()
        for memory in self._sets.values():
            self._unpin(memory)
        self._sets.clear()

    def leave(self) -> None:
        """The library's memory may go."""
        self.rest()
        self.countdown.remove()
        for memory in self._own:
            self._unpin([memory])


def _range(memory: Sequence[torch.Tensor]) -> tuple[int, int]:
    """The first address, and the one behind the last."""
    return min(m.data_ptr() for m in memory), max(m.data_ptr() + m.nbytes for m in memory)


def copy_of(tensor: torch.Tensor, mirror: torch.Tensor | None) -> torch.Tensor:
    """The tensor's numbers in the host's memory: in `mirror`, where that fits."""
    if mirror is None or mirror.shape != tensor.shape or mirror.dtype != tensor.dtype:
        mirror = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype)
    return mirror.copy_(tensor.detach())
