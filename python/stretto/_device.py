"""Models on a device: what the library reads and writes lies in the host's memory, and is copied there and back.

Gradients are computed in buckets on the device. In the backward pass the last gradient of a bucket has the bucket
copied, on a stream of its own, to where the algorithm wants it; step() waits for the copies, and copies those that are
missing or have changed since. The averaged gradients come back on the same stream, and the wrapped optimizer runs
behind them. Everything else (weights of rank 0, buffers) is copied where all ranks meet.
"""

from __future__ import annotations

import contextlib
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
        """Returns when the event has come to pass."""


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
        with self._context():
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


# By the name that Torch has for the kind of device.
KINDS: dict[str, Callable[[torch.device], Device]] = {"cuda": Cuda}


def staging_of(name: str, where: torch.device) -> Staging | None:
    """For a model on this device; None: it lies where the library reads and writes. `name`: of a tensor of the model.

    Raises UsageError for a device without staging, and without the switch.
    """
    wanted = os.environ.get(SWITCH, "")
    if wanted not in ("", "stage"):
        raise UsageError(f"{SWITCH}={wanted!r}: expected stage, or nothing")
    if wanted and where.type in KINDS:
        return Staging(where, KINDS[where.type](where))
    if where.type == "cpu":
        return None
    if where.type not in KINDS:
        raise UsageError(f"{name} is on {where}: expected cpu")
    raise UsageError(
        f"{name} is on {where}: expected cpu, or {SWITCH}=stage in the environment, by which gradients go through the "
        "host's memory (not tested on hardware yet)"
    )


class Staging:
    """The way between a model's tensors on a device and the host's memory."""

    def __init__(self, where: torch.device, device: Device) -> None:
        self.where = where
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
        self._events: list[Any] = [None] * len(own)  # of the copies under way
        self._versions: list[list[int]] = [[]] * len(own)  # of the gradients that were copied
        self._ranges = [(buckets.index(b), len(buckets) - buckets[::-1].index(b)) for b in range(len(own))]
        self.countdown = Countdown(parameters, buckets, self._complete, lambda _: None)
        return self.gradients

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
        for gradients in self.gradients:
            gradients.zero_()
        self._views = views
        self._set = self._memory_of(number)
        self.countdown.start()

    def _memory_of(self, number: int) -> list[torch.Tensor]:
        if number not in self._sets:
            self._sets[number] = self._set_of(number)
            self._pin(self._sets[number])
        return self._sets[number]

    def _complete(self, bucket: int) -> None:
        if self._set is not None:
            self._send(bucket, self._set)

    def _send(self, bucket: int, memory: list[torch.Tensor]) -> None:
        first, last = self._ranges[bucket]
        self._versions[bucket] = list(map(_version, self._views[first:last]))
        self._events[bucket] = self._device.copy(memory[bucket], self.gradients[bucket])

    def bring(self, number: int, views: list[torch.Tensor]) -> None:
        """All gradients lie in their memory on the device: returns when they are in the set, too."""
        self.countdown.stop()
        self._views = views
        memory = self._memory_of(number)
        for bucket, (first, last) in enumerate(self._ranges):
            if self._events[bucket] is None or self._versions[bucket] != list(map(_version, views[first:last])):
                self._send(bucket, memory)
        self._wait()
        self._set = None

    def drop(self) -> None:
        """The gradients of this step are not wanted. Returns when nothing is copied to the set any more."""
        self.countdown.stop()
        self._wait()
        self._set = None

    def _wait(self) -> None:
        for event in self._events:
            if event is not None:
                self._device.wait(event)
        self._events = [None] * len(self._events)

    def take(self) -> list[Any]:
        """Has the averaged gradients come to the device: what it computes from now on has them. Returns what
        settle() waits for."""
        events = [self._device.copy(mine, own) for mine, own in zip(self.gradients, self._own)]
        for event in events:
            self._device.compute_after(event)
        return events

    def settle(self, events: list[Any]) -> None:
        """Returns when the host's memory that take() has copied from may be written to again."""
        for event in events:
            self._device.wait(event)

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
