"""A device that is made up: tests see by it what a caller forgets to wait for, and no hardware is needed."""

from __future__ import annotations

import dataclasses

import torch


@dataclasses.dataclass
class _Copy:
    number: int
    target: torch.Tensor
    source: torch.Tensor
    as_it_began: torch.Tensor
    made: bool = False  # for what is computed after it; the host may not know yet


def bytes_of(tensor: torch.Tensor) -> bytes:
    """The bits of a tensor, in the order of its elements."""
    return tensor.contiguous().view(torch.uint8).numpy().tobytes()


class Late:
    """A Device whose memory is the host's. A copy is made when somebody waits for it, and its target is not a number
    until then. Of a source that has changed meanwhile comes no number, either.
    """

    forgets = ""  # one of its duties, as where the caller had forgotten to ask for it
    is_capturing = False
    room = 1000  # for so many pieces of memory that are pinned at once
    log: list[str] = []
    gradients = 0  # that were said to be computed
    pinned: dict[int, int] = {}  # address and size
    registrations: list[tuple[int, int]] = []  # all there have been

    def __init__(self, where: torch.device) -> None:
        self._under_way: list[_Copy] = []
        self._number = 0

    def pin(self, address: int, size: int) -> str:
        self.registrations.append((address, size))
        if len(self.pinned) == self.room:
            return "no memory left"
        if any(address < begin + length and begin < address + size for begin, length in self.pinned.items()):
            return "part of the memory is pinned already"
        self.pinned[address] = size
        return ""

    def unpin(self, address: int) -> None:
        assert not self._under_way, "memory goes while it is copied"
        del self.pinned[address]

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> _Copy:
        self._check_sources()
        for tensor in target, source:
            assert self._is_inside_or_outside(tensor), "a copy across the end of pinned memory: invalid argument"
        self.log.append(f"copy {self._direction(target, source)}")
        self._number += 1
        copy = _Copy(self._number, target, source, source.clone())
        self._under_way.append(copy)
        target.fill_(torch.nan)
        return copy

    def _is_inside_or_outside(self, tensor: torch.Tensor) -> bool:
        """As hardware wants it: an H200 with driver 580 refuses to copy what is pinned in part."""
        begin, end = tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes
        touched = [(at, at + size) for at, size in self.pinned.items() if begin < at + size and at < end]
        return all(at <= begin and end <= until for at, until in touched)

    def _direction(self, target: torch.Tensor, source: torch.Tensor) -> str:
        pinned = [any(at <= t.data_ptr() < at + size for at, size in self.pinned.items()) for t in (target, source)]
        return "to the host" if pinned[0] else "to the device" if pinned[1] else "of what is not pinned"

    def compute_after(self, event: _Copy) -> None:
        self._check_sources()
        if self.forgets != "compute_after":
            self._make_up_to(event)

    def wait(self, event: _Copy) -> None:
        self._check_sources()
        if self.forgets == f"wait {self._direction(event.target, event.source)}":
            return
        self._make_up_to(event)
        self._under_way = [copy for copy in self._under_way if copy.number > event.number]

    def captures(self) -> bool:
        return self.is_capturing

    def computed(self) -> None:
        Late.gradients += 1

    def _make_up_to(self, event: _Copy) -> None:
        for copy in self._under_way:
            if copy.number <= event.number and not copy.made:
                unchanged = bytes_of(copy.source) == bytes_of(copy.as_it_began)
                copy.target.copy_(copy.as_it_began if unchanged else copy.as_it_began * torch.nan)
                copy.made = True

    def _check_sources(self) -> None:
        for copy in self._under_way:
            if copy.made:
                assert bytes_of(copy.source) == bytes_of(copy.as_it_began), "memory was written to while it is copied"
