"""A device that is made up: the package's own Cuda, on streams and a driver that are made up. Tests see by it what a
caller forgets to wait for, and no hardware is needed.

A model computes at once, in the host's memory, and yet that is an operation of the stream that is current. Copies are
carried out as late as they may be: when the host, or what is computed, waits for them. With a seed some are carried out
earlier, as drawn. Until then their targets are not a number.

Each process has a device of its own: none reads what another's device holds, as nothing that is built has ranks do so.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from stretto import _cuda, _device

_numbers = itertools.count(1)


def bytes_of(tensor: torch.Tensor) -> bytes:
    """The bits of a tensor, in the order of its elements."""
    return tensor.contiguous().view(torch.uint8).numpy().tobytes()


def stage() -> None:
    """From now on models on the CPU are staged in this process, on this device; behind the switch."""
    _device.KINDS["cpu"] = Late
    _cuda.torch = _device.torch = _Torch()  # type: ignore[assignment]


def _asked() -> None:
    """For each question to the device, and each order: after an error it answers none, and carries out nothing."""
    Late.asked += 1
    if Late.asked == Late.fails_at:
        Late.fault = "CUDA error: device-side assert triggered"
    if Late.fault:
        raise RuntimeError(Late.fault)


def _waited_for() -> None:
    """For each question that the host waits with: while a graph is captured there is none."""
    _asked()
    if Late.capturing:
        raise RuntimeError("CUDA error: operation not permitted when stream is capturing")


class Operation:
    """One in a stream's queue."""

    def __init__(self, needs: Iterable[Operation], act: Callable[[], None] = lambda: None) -> None:
        self.number = next(_numbers)
        self.made = False  # for what is computed behind it: it may be much later on hardware
        self.done = False
        self._needs = [operation for operation in needs if not operation.done]
        self._act = act

    def is_ready(self) -> bool:
        return all(operation.done for operation in self._needs)

    def is_after(self, other: Operation) -> bool:
        """Whether it is carried out after the other one, whatever else happens."""
        return other.done or other in self._all()

    def make(self) -> None:
        for operation in self._all():
            if not operation.made:
                operation.made = True
                operation._act()

    def carry_out(self) -> None:
        self.make()
        for operation in self._all():
            operation.done, operation._needs = True, []

    def _all(self) -> list[Operation]:
        """Itself, and before it what it is after."""
        found, unfinished = {self}, [self]
        while unfinished:
            new = {operation for operation in unfinished.pop()._needs if not operation.done} - found
            found |= new
            unfinished += new
        return sorted(found, key=lambda operation: operation.number)


class Stream:
    """A queue of operations, each of which is after those before it."""

    def __init__(self, where: torch.device | None = None) -> None:
        self.device = torch.device("cpu", Runtime.number_of(where))
        self.cuda_stream = next(_numbers)  # its handle
        self._queue: deque[Operation] = deque()
        Late.streams.append(self)

    def put(self, *needs: Operation, act: Callable[[], None] = lambda: None) -> Operation:
        operation = Operation([*needs, self._queue[-1]] if self.first() else needs, act)
        self._queue.append(operation)
        return operation

    def first(self) -> Operation | None:
        """Of those that have not been carried out."""
        while self._queue and self._queue[0].done:
            self._queue.popleft()
        return self._queue[0] if self._queue else None

    def query(self) -> bool:
        _waited_for()
        return self.first() is None

    def wait_stream(self, other: Stream) -> None:
        _asked()
        self._wait_for(other.put())

    def wait_event(self, event: Event) -> None:
        _asked()
        if event.operation is not None:
            self._wait_for(event.operation)

    def _wait_for(self, other: Operation) -> None:
        Late.go_on()
        waits = self.put(other)
        if self is Runtime.current_stream(self.device):  # what is computed is so at once, and needs what comes before
            waits.make()


class Event:
    """A place in a stream. One that has not been recorded is nowhere, and has come to pass."""

    def __init__(self, blocking: bool = False) -> None:
        self.operation: Operation | None = None

    def record(self) -> None:
        _asked()
        self._stream = Runtime.current_stream()
        self.operation = self._stream.put()

    def synchronize(self) -> None:
        _waited_for()
        Late.go_on()
        if self.operation is not None:
            self.operation.carry_out()
            Late.are_over(self._stream, self.operation.number)


class Runtime:
    """In the place of torch.cuda."""

    Stream, Event = Stream, Event
    _of_thread = threading.local()

    @classmethod
    def number_of(cls, where: torch.device | None = None) -> int:
        """Of a device; without one, or for one that has no number, of the current one of this thread."""
        index = None if where is None else where.index
        return getattr(cls._of_thread, "number", 0) if index is None else index

    @classmethod
    def current_stream(cls, where: torch.device | None = None) -> Stream:
        number = cls.number_of(where)
        streams: dict[int, Stream] = getattr(cls._of_thread, "streams", {})
        return streams.get(number) or Late.default[number]

    @classmethod
    def set_stream(cls, stream: Stream) -> None:
        number = cls._of_thread.number = cls.number_of(stream.device)
        cls._of_thread.streams = {**getattr(cls._of_thread, "streams", {}), number: stream}

    @classmethod
    @contextlib.contextmanager
    def stream(cls, stream: Stream) -> Iterator[None]:
        with cls.device(stream.device):
            before = cls.current_stream()
            cls.set_stream(stream)
            try:
                yield
            finally:
                cls.set_stream(before)

    @classmethod
    @contextlib.contextmanager
    def device(cls, where: torch.device) -> Iterator[None]:
        before = cls.number_of()
        cls._of_thread.number = cls.number_of(where)
        try:
            yield
        finally:
            cls._of_thread.number = before

    @classmethod
    def is_current_stream_capturing(cls) -> bool:
        return cls.current_stream() is Late.capturing


class _Norms:
    """In the place of torch.linalg."""

    @staticmethod
    def vector_norm(gradients: torch.Tensor, order: float) -> torch.Tensor:
        _asked()
        norm = torch.linalg.vector_norm(_as_it_is_now(gradients), order)
        Late.is_computed(norm)
        return norm


class _Torch:
    """The module, with this device in the place of CUDA's."""

    cuda, linalg = Runtime, _Norms

    @staticmethod
    def stack(norms: list[torch.Tensor]) -> torch.Tensor:
        _asked()
        return torch.stack(list(map(_as_it_is_now, norms)))

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


class Pages:
    """A driver that registers memory as CUDA's does: whole pages, each once."""

    def register(self, address: int, size: int) -> str:
        why_not = self._why_not(address // _device.PAGE, (address + size - 1) // _device.PAGE)
        Late.registrations.append((address, size))
        if why_not:
            Late.refusals.append(why_not)
        else:
            Late.pinned[address] = size
        return why_not

    def _why_not(self, first: int, last: int) -> str:
        Late.contexts.add(Runtime.number_of())
        if Late.fault:
            return Late.fault
        if len(Late.pinned) == Late.room:
            return "no memory left"
        for begin, length in Late.pinned.items():
            if begin // _device.PAGE <= last and first <= (begin + length - 1) // _device.PAGE:
                return "part of the memory is pinned already"
        return ""

    def unregister(self, address: int) -> None:
        end = address + Late.pinned.pop(address)
        for copy in Late.under_way:
            for begin, last in _extent(copy.target), _extent(copy.source):
                assert last <= address or end <= begin, "memory goes while it is copied"


class _Copy:
    """One under way. Of a source that changes meanwhile comes no number, and neither of one that is not there yet:
    `behind` is what is to be computed first."""

    def __init__(self, stream: Stream, target: torch.Tensor, source: torch.Tensor, behind: list[Operation]) -> None:
        self.stream, self.target, self.source = stream, target, source
        self._as_it_began = source.clone()
        self.operation = stream.put(act=self._make)
        self._is_right = all(map(self.operation.is_after, behind))
        self._is_read = False  # before another one writes there, by the order of the stream
        for earlier in Late.under_way:
            if earlier.stream is stream and _overlap(earlier.source, target):
                earlier._is_read = not earlier.is_torn()
        target.fill_(torch.nan)

    def is_torn(self) -> bool:
        return not self._is_read and bytes_of(self.source) != bytes_of(self._as_it_began)

    def _make(self) -> None:
        right = self._is_right and not self.is_torn()
        self.target.copy_(self._as_it_began if right else self._as_it_began * torch.nan)


class _Target:
    """What Cuda.copy() sees of the tensor that it copies to."""

    def __init__(self, tensor: torch.Tensor, behind: list[Operation]) -> None:
        self._tensor = tensor
        self._behind = behind

    def copy_(self, source: torch.Tensor, non_blocking: bool) -> None:
        for tensor in self._tensor, source:
            assert _is_inside_or_outside(tensor), "a copy across the end of pinned memory: invalid argument"
        Late.log.append(f"copy {_direction(self._tensor, source)}")
        Late.under_way.append(_Copy(Runtime.current_stream(), self._tensor, source, self._behind))


class Late(_cuda.Cuda):
    """A Device whose memory is the host's. What there is of it is one for all of a process."""

    seed: int | None = None  # of what is carried out earlier than it has to be; None: nothing
    capturing: Stream | None = None  # what is asked for on this stream goes into a graph
    asked = 0  # questions and orders so far
    fails_at = 0  # so many questions and orders from the first; 0: never
    fault = ""  # the error that there has been
    contexts: set[int] = set()  # numbers of devices whose driver was asked for something
    room = 1000  # for so many pieces of memory that are pinned at once
    log: list[str] = []
    pinned: dict[int, int] = {}  # address and size
    registrations: list[tuple[int, int]] = []  # all that were asked for
    refusals: list[str] = []
    streams: list[Stream] = []
    default: dict[int, Stream] = {}  # by the device's number
    under_way: list[_Copy] = []  # for all that the host knows
    _computed: dict[int, tuple[int, Operation]] = {}  # where a tensor begins: its end, and what has it computed
    _chance: random.Random | None = None

    def __init__(self, where: torch.device) -> None:
        super().__init__(where)
        self._driver = Pages()  # type: ignore[assignment]

    @staticmethod
    def watch(parameters: Iterable[torch.Tensor]) -> None:
        """The gradients of these are known to be computed on the stream that is current then. Without it, and for
        what else is done with them, that is the one that is current when they are copied."""

        for p in parameters:
            p.register_post_accumulate_grad_hook(lambda p: Late.is_computed(p.grad))  # type: ignore[arg-type]

    @staticmethod
    def is_computed(tensor: torch.Tensor) -> None:
        begin, end = _extent(tensor)
        Late._computed[begin] = end, Runtime.current_stream(tensor.device).put()

    @staticmethod
    def computing(tensor: torch.Tensor) -> list[Operation]:
        """What has it computed, as far as that is known."""
        begin, end = _extent(tensor)
        return [work for first, (last, work) in Late._computed.items() if first < end and begin < last]

    @staticmethod
    @contextlib.contextmanager
    def capture() -> Iterator[None]:
        """What the block asks the device for goes into a graph. What it computes is computed nevertheless."""
        Late.capturing = Stream()
        try:
            with Runtime.stream(Late.capturing):
                yield
        finally:
            Late.capturing = None

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> Any:
        _asked()
        behind = [*Late.computing(source), Runtime.current_stream(self._where).put()]
        return super().copy(_Target(target, behind), source)  # type: ignore[arg-type]

    @staticmethod
    def are_over(stream: Stream, number: int) -> None:
        """The host knows that the copies in this stream have been made up to the operation of this number."""
        Late.under_way[:] = [c for c in Late.under_way if c.stream is not stream or c.operation.number > number]

    @staticmethod
    def go_on() -> None:
        """Time passes: carries out what is drawn."""
        for copy in Late.under_way:
            if copy.operation.made:
                assert not copy.is_torn(), "memory was written to while it is copied"
        if Late.seed is None:
            return
        Late._chance = Late._chance or random.Random(Late.seed)
        for stream in Late.streams:
            for _ in range(Late._chance.choice((0, 0, 1, 4))):
                operation = stream.first()
                if operation is not None and operation.is_ready():
                    operation.carry_out()
                    Late.are_over(stream, operation.number)


for _number in range(2):
    Late.default[_number] = Stream(torch.device("cpu", _number))


def _extent(tensor: torch.Tensor) -> tuple[int, int]:
    return tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes


def _as_it_is_now(tensor: torch.Tensor) -> torch.Tensor:
    """As the current stream sees it: zeros, where it is computed on other streams meanwhile."""
    now = Runtime.current_stream(tensor.device).put()
    return tensor if all(map(now.is_after, Late.computing(tensor))) else torch.zeros_like(tensor)


def _direction(target: torch.Tensor, source: torch.Tensor) -> str:
    pinned = [any(at <= t.data_ptr() < at + size for at, size in Late.pinned.items()) for t in (target, source)]
    return "to the host" if pinned[0] else "to the device" if pinned[1] else "of what is not pinned"


def _overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    (begin, end), (first, last) = _extent(a), _extent(b)
    return begin < last and first < end


def _is_inside_or_outside(tensor: torch.Tensor) -> bool:
    """As hardware wants it: an H200 with driver 580 refuses to copy what is pinned in part."""
    begin, end = _extent(tensor)
    touched = [(at, at + size) for at, size in Late.pinned.items() if begin < at + size and at < end]
    return all(at <= begin and end <= until for at, until in touched)
