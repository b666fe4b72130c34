"""Models on a device: what the library reads and writes lies in the host's memory, and is copied there and back.

Gradients are computed in buckets on the device. In the backward pass the last gradient of a bucket has the bucket
copied, on a stream of its own, to where the algorithm wants it; step() waits for the copies, and copies those that are
missing or have changed since. What a bucket's last gradient is, and whether anything changes it later, is learned from
the steps before. The sums come back on the same stream, from where the library shows them, and are divided on the
device; the wrapped optimizer runs behind that. Everything else (weights of rank 0, buffers) is copied where all ranks
meet.
"""

from __future__ import annotations

import ctypes
import logging
import operator
import os
from collections.abc import Callable, Sequence
from typing import Any

import torch

from stretto._countdown import Countdown
from stretto._cuda import Cuda, Device
from stretto._errors import UsageError
from stretto._weights import Weights

SWITCH = "STRETTO_DEVICE"
PAGE = 4096
# After so many steps whose copies in the backward pass were all in vain there are none; but one step in so many tries.
IN_VAIN, TRIES = 2, 64

_version = operator.attrgetter("_version")

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
        self._weights: Weights | None = None
        self._sets: dict[int, list[torch.Tensor]] = {}
        self._sums: dict[tuple[int, int], torch.Tensor] = {}  # by bucket and address: what has been copied from
        self._numbers: dict[tuple[float, torch.dtype], torch.Tensor] = {}  # on the device
        self._set: list[torch.Tensor] | None = None  # where the gradients of this step go

    def lay_out(
        self,
        parameters: Sequence[torch.Tensor],
        buckets: Sequence[int],
        like: list[torch.Tensor],
        set_of: Callable[[int], list[torch.Tensor]],
    ) -> list[torch.Tensor]:
        """Makes the memory of gradients on the device, a tensor a bucket.

        `buckets`: which each parameter is in, ascending; `like`: a tensor a bucket, as those are to be;
        `set_of(number)`: the host's memory of a set.
        """
        self._set_of = set_of
        self.gradients = [torch.zeros_like(bucket, device=self.where) for bucket in like]
        self._last: Any = None  # event of the last copy to the host that is under way
        self._coming: Any = None  # the same to the device
        self._events: list[Any] = [None] * len(like)  # of each bucket's last copy to the host
        self._norms: list[torch.Tensor] = [torch.empty(0)] * len(like)  # of what each bucket's last copy was of
        self._meets = False  # no step of this rank comes before the next round
        self._settles = True
        self._versions: list[list[int] | None] = [None] * len(like)  # of the gradients that were copied in this step
        self._ranges = [(buckets.index(b), len(buckets) - buckets[::-1].index(b)) for b in range(len(like))]
        self._more = [0] * len(like)  # gradients that came when all of the bucket's parameters had one
        self._usual = [0] * len(like)  # the same in the step before
        self._steps = 0
        self._in_vain = 0  # the last so many of them
        # A byte a parameter, 1: a graph computes its gradient. No hook runs with it, and nothing becomes a new version.
        self.captured = bytearray(len(parameters))
        self.countdown = Countdown(
            parameters, buckets, self._came, lambda number: self._one_more(buckets[number]), self._computed
        )
        return self.gradients

    def tell(self) -> None:
        """Says in a line that the model is staged, to who has not asked for it."""
        if not self.asked_for:
            logging.getLogger("stretto").warning(
                "the model is on %s: gradients go through the host's memory (docs/gpus.md; %s=stage in the environment "
                "takes this line away)",
                self.where,
                SWITCH,
            )

    def describe(self) -> str:
        """Where the model lies, and how it is copied: a sentence."""
        copies = f"not pinned ({self._not_pinned}), so that copies wait" if self._not_pinned else "pinned"
        return f"The model is on {self.where}; gradients go through the host's memory, which is {copies}."

    def _pin(self, memory: Sequence[torch.Tensor]) -> None:
        """The memory of a set or a sum, a tensor a bucket. Nothing else lies on its pages. Pieces of less than a page
        may share one, and stay as they are."""
        for begin, size in _pages(memory):
            why_not = self._device.pin(begin, size)
            if why_not:
                self._not_pinned = why_not
            else:
                self._pinned.add(begin)

    def _unpin_all(self) -> None:
        while self._pinned:
            self._device.unpin(self._pinned.pop())

    # ---- gradients ----

    def forget(self, number: int) -> None:
        """Gradients no longer go to the set of this number, whose memory is gone."""
        self._sets.pop(number, None)

    def begin(self, number: int, views: list[torch.Tensor]) -> None:
        """The gradients of a step begin at zero, and are to go to a set of this number; below 0: they are this rank's
        own, and stay on the device."""
        torch._foreach_zero_(self.gradients)
        self._views = views
        self._set = self._memory_of(number) if number >= 0 else None
        self._meets = False
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

    def _computed(self, number: int) -> bool:
        captured = self._device.captures()
        if captured:
            self.captured[number] = 1
        else:
            self._device.computed()
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
        self._norms[bucket] = self._norm_of(bucket)
        self._last = self._events[bucket] = self._device.copy(memory[bucket], self.gradients[bucket])

    def _norm_of(self, bucket: int) -> torch.Tensor:
        """Not finite where a gradient is not; or where they are too large to add up: then each is looked at."""
        self._device.compute_after_noted()
        norm: torch.Tensor = torch.linalg.vector_norm(self.gradients[bucket], 1)
        return norm

    def _finite(self) -> torch.Tensor:
        self._device.compute_after_noted()  # where all norms were computed on other streams
        return torch.stack([norm.float() for norm in self._norms]).isfinite().all()

    def bring(self, number: int, views: list[torch.Tensor], by_bucket: bool) -> bool:
        """All gradients lie in their memory on the device: returns when they are in the set, too, and whether it is
        known that all are finite. `by_bucket`: it is arrived() that returns then."""
        self.countdown.stop()
        self._views = views
        if number < 0:
            self._norms = [self._norm_of(bucket) for bucket in range(len(self.gradients))]
            if bool(self._finite()):
                return True
        memory = self._memory_of(number) if number >= 0 else self._set_of(number)
        early, kept = 0, 0
        for bucket, (first, last) in enumerate(self._ranges):
            copied = self._versions[bucket]
            early += copied is not None
            if copied == list(map(_version, views[first:last])):
                kept += 1
            else:
                self._send(bucket, memory)
        self._set = None
        self._usual = self._more
        self._steps += 1
        if early:
            self._in_vain = 0 if kept else self._in_vain + 1
        if by_bucket:
            return False
        finite = self._finite()
        self._wait()  # without taking a core, as a question would while the device computes
        return bool(finite)

    def arrived(self, bucket: int) -> None:
        """Behind bring() by bucket, for 0, 1, 2, …: returns when that bucket's gradients are in the set."""
        self._device.wait(self._events[bucket])
        if bucket == len(self._events) - 1:
            self._wait()

    def drop(self) -> None:
        """The gradients of this step are not wanted. Returns when nothing is copied to the set any more."""
        self.countdown.stop()
        self._wait()
        self._set = None

    def _wait(self) -> None:
        if self._last is not None:
            self._device.wait(self._last)
            self._coming = None  # those copies were before these
        self._last = None
        self._versions = [None] * len(self._versions)

    def take(self, sums: list[int], divisors: list[float], of_all: bool) -> None:
        """Has sums / divisors come to the device as the gradients: what it computes from now on has them. `sums`: the
        addresses, a bucket each, 0: all zeros. They stay as they are until settle(); with `of_all` until this rank's
        next gradients are in a set, whose copies come after these."""
        if all(sums) and not all(key in self._sums for key in enumerate(sums)):
            self._pin([self._sum_at(*key) for key in enumerate(sums)])
        there = [self._sum_at(bucket, address) if address else None for bucket, address in enumerate(sums)]
        for mine, theirs in zip(self.gradients, there):
            if theirs is None:
                mine.zero_()
        for mine, theirs in zip(self.gradients, there):
            if theirs is not None:
                self._coming = self._device.copy(mine, theirs)
        if self._coming is not None:
            self._device.compute_after(self._coming)
        self._settles = self._meets or not of_all
        for mine, divisor in zip(self.gradients, divisors):
            self._divide(mine, divisor)

    def _sum_at(self, bucket: int, address: int) -> torch.Tensor:
        if (bucket, address) not in self._sums:
            like = self.gradients[bucket]
            memory = (ctypes.c_byte * like.nbytes).from_address(address)
            self._sums[bucket, address] = torch.frombuffer(memory, dtype=like.dtype)
        return self._sums[bucket, address]

    def _divide(self, gradients: torch.Tensor, divisor: float) -> None:
        """To the bit as the library does it in the host's memory: in the numbers' type, or float32 for 16 bits."""
        if divisor == 1:
            return
        dtype = torch.float32 if gradients.itemsize == 2 else gradients.dtype
        by = self._numbers.get((divisor, dtype))
        if by is None:  # a number of the host's would be taken for its reciprocal
            by = self._numbers[divisor, dtype] = torch.full((), divisor, dtype=dtype, device=self.where)
        if gradients.dtype == dtype:
            gradients.div_(by)
        else:
            gradients.copy_(gradients.to(dtype).div_(by))

    def settle(self) -> None:
        """Returns when the sums that take() has copied may be written to again, where step() has to wait for that."""
        if self._settles:
            self._wait_for_sums()

    def meet(self) -> None:
        """This rank is about to meet the others, who may go on without its gradients."""
        self._meets = True
        self._wait_for_sums()

    def _wait_for_sums(self) -> None:
        if self._coming is not None:
            self._device.wait(self._coming)
        self._coming = None

    # ---- what else the library reads and writes ----

    def lay_out_weights(
        self, home: list[torch.Tensor], parts: Callable[..., Any], forget: Callable[[], None] | None
    ) -> None:
        """As Weights has them."""
        self._weights = Weights(self._device, self.where, home, parts, forget)

    def show_weights(self) -> None:
        """The library is to read the weights in the host's memory, and perhaps to write to them, until take_back()."""
        assert self._weights is not None
        if not self._weights.pinned:
            self._pin(self._weights.home)
            self._weights.pinned = True
        self._weights.show()

    def lend(self, key: object, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor's numbers in the host's memory, for the library to read and to write until take_back()."""
        if key not in self._lent:
            self._lent[key] = tensor
            self._mirrors[key] = tensor.detach().to("cpu", copy=True)
        return self._mirrors[key]

    def take_back(self) -> None:
        """Brings to the device what the library was shown, or has been lent."""
        with torch.no_grad():
            for key, tensor in self._lent.items():
                tensor.copy_(self._mirrors[key])
        self._lent.clear()
        self._mirrors.clear()
        if self._weights is not None:
            self._weights.take_back()

    # ---- the end ----

    def rest(self) -> None:
        """All ranks have met: what was lent is taken back, and nothing is copied to sets or from sums, which may go."""
        try:
            self.take_back()
        finally:  # the device may have no memory left
            self.drop()
            self._wait_for_sums()
            if self._weights is not None:
                self._weights.rest()
            self._unpin_all()
            self._sets.clear()
            self._sums.clear()

    def leave(self) -> None:
        """Behind rest(); where that has raised what the device says, nothing is copied any more, and registrations end
        with the process."""
        self.countdown.remove()


def _pages(memory: Sequence[torch.Tensor]) -> list[tuple[int, int]]:
    """Address and bytes of the pages of tensors of a page or more, and of what shares these pages with them. Where only
    smaller ones lie, others' memory may lie, too, as in a job of one rank, which has them from the heap."""
    ranges: list[tuple[int, int, bool]] = []  # of tensors that share pages; with one of a page or more
    for begin, end in sorted((m.data_ptr(), m.data_ptr() + m.nbytes) for m in memory):
        large = end - begin >= PAGE
        if ranges and begin < _page_after(ranges[-1][1]):
            begin, _, with_large = ranges.pop()
            large = large or with_large
        ranges.append((begin, end, large))
    return [
        (begin // PAGE * PAGE, _page_after(end) - begin // PAGE * PAGE) for begin, end, large in ranges if large
    ]


def _page_after(address: int) -> int:
    return -(-address // PAGE) * PAGE
