"""Schedulers of torch.optim.lr_scheduler, stepped at the same round on every rank.

Ranks make different numbers of steps under an eager algorithm; rates that followed a rank's own steps would part the
replicas. So the schedulers of a stretto.Optimizer, and of the optimizer inside it, are taken over. With P ranks:

- In the loop `scheduler.step()` is counted, and changes nothing yet. The count travels with the rank's next batch. When
  the rounds have brought P calls of a scheduler, whichever ranks they are from, it is stepped once: on every rank
  before the same round. So one step stands for one call on every rank, be it called once a batch, once every few
  batches, or once an epoch. Under sync it is stepped before the same batch as by plain Torch: the same rates.
- Within `with optimizer.together():` the call is made at the end of the block, on all ranks, also on those that have
  finished: as often as the rank that called it most. `ReduceLROnPlateau.step(metric)` gets the mean of the metrics of
  the ranks that gave one, `step(epoch)` the epoch of the lowest rank that gave one.
- Both with an argument outside together() raise UsageError: ranks would give different ones at different rounds.
- What is counted and has not travelled when ranks meet, in together() or finish(), is added up there.

`get_last_lr()`, `param_groups` and `state_dict()` say what is applied. A process alone steps its schedulers at once, as
Torch does; so does an algorithm that averages models, whose ranks move by rates of their own.

How: Torch keeps no list of the schedulers of an optimizer. The first stretto.Optimizer of a process replaces the
methods `__init__` and `step` of LRScheduler and of its subclasses, also of those defined later, by functions that look
whose optimizer the scheduler has, and otherwise do what they did. Instances stay as they are, and with them
state_dict().
"""

from __future__ import annotations

import functools
import gc
import struct
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from stretto import _core
from stretto._errors import UsageError

_MOST = 8  # numbers that a round counts: LoopCounts of the core
_WORDS = 3  # of a scheduler, where ranks meet: calls, calls with a value, the bits of the value
_OURS = "_stretto_takes_over"


class _Process:
    """What a process knows of all its schedulers."""

    installed = False
    inside = 0  # constructors, and steps that are really made: their calls of step() are Torch's own
    made: list[weakref.ref[LRScheduler]] = []  # in order
    owners: weakref.WeakKeyDictionary[torch.optim.Optimizer, weakref.ref[Schedulers]] = weakref.WeakKeyDictionary()


class Schedulers:
    """The schedulers of one stretto.Optimizer. They have numbers by the order in which they were made, which is the
    same on every rank; a part of another, such as SequentialLR, has none.
    """

    def __init__(self, optimizers: Sequence[torch.optim.Optimizer], loop: _core.Loop, several: bool) -> None:
        """Takes over the schedulers that have one of `optimizers`, and will have. `several`: ranks, now or later."""
        self._loop = loop
        self._numbered: list[LRScheduler] = []
        self._inherited: list[dict[str, Any]] = []  # states of other ranks' schedulers, for those made later
        self._counts = [0] * _MOST  # calls that rounds have brought, and no step has been made for yet
        self._calls = [0] * _MOST  # within together()
        self._values: dict[int, float] = {}  # of such a call, by number
        self._together = False
        self._optimizers = weakref.WeakSet(optimizers)
        self._untold = [0] * _MOST  # calls that tell_ranks() has told, and hear_ranks() has not heard
        self._counted_by_rounds = several and loop.averages_gradients
        _install()
        for optimizer in optimizers:
            _Process.owners[optimizer] = weakref.ref(self)

    def begin_together(self) -> None:
        """All ranks have met."""
        self._together = True

    def end_together(self) -> None:
        """All ranks have parted, and what was called in between is made."""
        self._together = False

    # ---- what the loop calls ----

    def counted(self, counts: Sequence[int], ranks: int) -> None:
        """A round of so many ranks has brought so many calls of each scheduler."""
        for number, count in enumerate(counts):
            steps, self._counts[number] = divmod(self._counts[number] + count, ranks)
            for _ in range(steps):
                self._step(number)

    def tell_ranks(self) -> list[int]:
        """What other ranks have not heard of: words of 64 bits."""
        self._untold = [calls + more for calls, more in zip(self._untold, self._loop.take_counts())]
        words = [*self._untold]
        for number in range(_MOST):
            value = self._values.get(number, 0.0)
            words += [self._calls[number], number in self._values, *struct.unpack("<Q", struct.pack("<d", value))]
        return words

    def hear_ranks(self, words: Sequence[Sequence[int]]) -> None:
        """Makes the steps that follow from what all ranks tell, by rank."""
        self._untold, self._calls, self._values = [0] * _MOST, [0] * _MOST, {}
        if not words:  # the others have made these steps without this rank's words
            return
        self.counted([sum(theirs[number] for theirs in words) for number in range(_MOST)], len(words))
        for number in range(_MOST):
            at = _MOST + number * _WORDS
            values = [struct.unpack("<d", struct.pack("<Q", theirs[at + 2]))[0] for theirs in words if theirs[at + 1]]
            if values:
                plateau = isinstance(self._at(number), ReduceLROnPlateau)
                self._step(number, sum(values) / len(values) if plateau else values[0])
            for _ in range(max(theirs[at] for theirs in words)):
                self._step(number)

    # ---- for a rank that comes later ----

    def describe(self) -> list[str]:
        """The type of each scheduler, by number."""
        self._number()
        return [f"scheduler {type(scheduler).__name__}" for scheduler in self._numbered]

    def state(self) -> dict[str, Any]:
        """Where the schedulers stand, and what rounds have brought of their next steps: the same on every rank."""
        self._number()
        return {"counts": self._counts, "states": [scheduler.state_dict() for scheduler in self._numbered]}

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from state() of another rank; schedulers that are made later do."""
        self._number()
        self._counts = list(state["counts"])
        self._untold, self._calls, self._values = [0] * _MOST, [0] * _MOST, {}
        self._inherited = state["states"]
        for scheduler, its_state in zip(self._numbered, self._inherited):
            scheduler.load_state_dict(its_state)

    # ---- what schedulers call ----

    @property
    def takes_over(self) -> bool:
        """Whether calls are counted, and not made at once."""
        return self._counted_by_rounds and not self._loop.ended

    def called(self, scheduler: LRScheduler, *args: Any, **options: Any) -> None:
        """scheduler.step() was called on this rank."""
        given = [value for value in (*args, *options.values()) if value is not None]
        number = self._number_of(scheduler)
        if not given:
            if self._together:
                self._calls[number] += 1
            else:
                self._loop.count(number)
            return
        name = type(scheduler).__name__
        what = "a metric" if isinstance(scheduler, ReduceLROnPlateau) else "an epoch"
        if not self._together:
            raise UsageError(
                f"{name}.step() with {what} in the loop of one of several ranks, which would have different ones at "
                "different rounds: expected it within `with optimizer.together():`"
                + (", where it gets the mean of all ranks'" if what == "a metric" else ", or step() without one")
            )
        if len(given) > 1 or number in self._values:
            raise UsageError(f"{name}.step() with {what}, and another: expected one within a block of together()")
        self._values[number] = float(given[0])

    def _number_of(self, scheduler: LRScheduler) -> int:
        self._number()
        for number, known in enumerate(self._numbered):
            if known is scheduler:
                return number
        raise UsageError(
            f"{type(scheduler).__name__} is a part of another scheduler: expected step() of that which it is a part of"
        )

    def _at(self, number: int) -> LRScheduler:
        self._number()
        if number >= len(self._numbered):
            raise UsageError(
                f"another rank has stepped its scheduler number {number}, and this one has {len(self._numbered)}: "
                "expected the same schedulers on every rank, made in the same order"
            )
        return self._numbered[number]

    def _number(self) -> None:
        mine = [s for s in _all_made() if getattr(s, "optimizer", None) in self._optimizers]
        parts = {id(part) for s in mine for part in getattr(s, "_schedulers", ())}
        known = {id(s) for s in self._numbered}
        for scheduler in mine:
            if id(scheduler) not in known and id(scheduler) not in parts:
                self._numbered.append(scheduler)
                if len(self._numbered) <= len(self._inherited):
                    scheduler.load_state_dict(self._inherited[len(self._numbered) - 1])
        if len(self._numbered) > _MOST:
            raise UsageError(f"{len(self._numbered)} schedulers of one optimizer: expected at most {_MOST}")

    def _step(self, number: int, *args: float) -> None:
        scheduler = self._at(number)
        # A rank that has made no step yet applies those of others: Torch would say that step() has not been called.
        scheduler.optimizer._opt_called = True  # type: ignore[attr-defined]
        _Process.inside += 1
        try:
            scheduler.step(*args)  # type: ignore[arg-type]
        finally:
            _Process.inside -= 1


def _all_made() -> list[LRScheduler]:
    alive = [(ref, scheduler) for ref in _Process.made if (scheduler := ref()) is not None]
    _Process.made = [ref for ref, _ in alive]
    return [scheduler for _, scheduler in alive]


def _owner_of(scheduler: LRScheduler) -> Schedulers | None:
    optimizer: Any = getattr(scheduler, "optimizer", None)
    while optimizer not in _Process.owners and isinstance(getattr(optimizer, "optimizer", None), torch.optim.Optimizer):
        optimizer = optimizer.optimizer  # of a library that wraps optimizers
    ref = _Process.owners.get(optimizer) if isinstance(optimizer, torch.optim.Optimizer) else None
    return ref() if ref is not None else None


def _install() -> None:
    """Once a process."""
    if _Process.installed:
        return
    _Process.installed = True
    # Those that were made before, on the optimizer that is about to be wrapped.
    _Process.made = [weakref.ref(found) for found in gc.get_objects() if issubclass(type(found), LRScheduler)]
    classes: list[type] = [LRScheduler]
    for cls in classes:
        classes += cls.__subclasses__()
        _take_over(cls)
    before = LRScheduler.__dict__.get("__init_subclass__")

    def init_subclass(cls: type[LRScheduler], /, **options: Any) -> None:
        if before is not None:
            before.__func__(cls, **options)
        else:
            super(LRScheduler, cls).__init_subclass__(**options)
        _take_over(cls)

    LRScheduler.__init_subclass__ = classmethod(init_subclass)  # type: ignore[assignment]


def _take_over(cls: type) -> None:
    for name, wrapped in (("__init__", _constructor), ("step", _stepper)):
        method = cls.__dict__.get(name)
        if callable(method) and not hasattr(method, _OURS):
            taken = wrapped(method)
            setattr(taken, _OURS, True)
            setattr(cls, name, taken)


def _constructor(method: Callable[..., object]) -> Callable[..., None]:
    @functools.wraps(method)
    def construct(self: LRScheduler, *args: Any, **options: Any) -> None:
        _Process.inside += 1
        try:
            method(self, *args, **options)
        finally:
            _Process.inside -= 1
        if all(known is not self for known in _all_made()):
            _Process.made.append(weakref.ref(self))

    return construct


def _stepper(method: Callable[..., object]) -> Callable[..., None]:
    @functools.wraps(method)
    def step(self: LRScheduler, *args: Any, **options: Any) -> None:
        owner = None if _Process.inside else _owner_of(self)
        if owner is not None and owner.takes_over:
            owner.called(self, *args, **options)
        else:
            method(self, *args, **options)

    return step
