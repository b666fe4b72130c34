"""A model's tensors as the library sees them: flat parameters, gradients that are views of its memory."""

from __future__ import annotations

import logging
import operator
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

import torch

import stretto._core as _core
from stretto import _half, _states
from stretto._clipping import ClippingWatch
from stretto._collective_watch import explain
from stretto._contents import Contents
from stretto._errors import UsageError
from stretto._options import Options
from stretto._overlap import Overlap
from stretto._rounds import Round

if TYPE_CHECKING:
    from stretto._schedulers import Schedulers

# Where parameters are smaller on average, to point each p.grad at other memory costs more than to copy all of it.
_SMALL = 16 << 10


# A step looks at every parameter: by map(), which takes a third of the time of a loop.
_address = torch.Tensor.data_ptr
_gradient = operator.attrgetter("grad")
_version = operator.attrgetter("_version")


# Of memory that is a tensor of its own: each view has a version that only what is done to it changes.
def _view(whole: torch.Tensor, offset: int, p: torch.Tensor) -> torch.Tensor:
    return whole.data.as_strided(p.size(), p.stride(), offset).detach()


# A storage of its own: torch.save() writes all of the storage of a tensor.
def _part(memory: _core.Memory, offset: int, p: torch.Tensor) -> torch.Tensor:
    elements = torch.frombuffer(memory, dtype=p.dtype, count=p.numel(), offset=offset * p.element_size())
    return elements.as_strided(p.size(), p.stride())


def _copy(gradient: torch.Tensor | None, view: torch.Tensor) -> None:
    if gradient is None:
        view.zero_()
    else:
        view.copy_(gradient.to_dense() if gradient.is_sparse else gradient)


class Tensors(Contents):
    """The Replica of a model and its optimizer: its trained parameters, their gradients, and all of Contents."""

    schedulers: Schedulers  # set before the first round

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        model: torch.nn.Module | None = None,
        unused: Literal["zero", "skip"] = "skip",
        buffers: Literal["average", "local"] = "average",
    ) -> None:
        super().__init__(optimizer, model, unused, buffers)
        self.before_step: OrderedDict[int, Callable[[], object]] = OrderedDict()
        self.on_round: OrderedDict[int, Callable[[Round], object]] = OrderedDict()
        self.on_members: OrderedDict[int, Callable[..., object]] = OrderedDict()
        self.states = _states.RegisteredStates()
        self.parameters: list[torch.nn.Parameter] = []  # trained, in the order of their memory
        self.flat: list[torch.Tensor] = []  # what each of them views
        self._own: list[torch.Tensor] = []
        self._sets: dict[int, list[torch.Tensor]] = {}
        self._memory: dict[int, tuple[list[torch.Tensor], list[int]]] = {}  # under a set's views; addresses
        self.views: list[torch.Tensor] = []  # where p.grad lies, or should
        self.overlap: Overlap | None = None
        self.clipping: ClippingWatch | None = None
        self._versions: list[int] = []
        self._cleared = True  # the last zero_grad() made every gradient none
        self._had_gradient = b""  # in the last step: one byte a parameter
        self._told_shared = False
        self._gradients_stay = False
        self._options = Options(optimizer)
        self.silence = 0.0  # seconds after which tell() is called

    def gradients_stay(self) -> bool:
        """Whether p.grad stays on memory of this process, which the binding copies."""
        trained = self.trained_by_name()
        total = sum(p.numel() * p.element_size() for _, p in trained)
        return self.staging is None and bool(trained) and total < _SMALL * len(trained)

    def check_overlap(self, half: str | None) -> None:
        """Raises UsageError where gradients cannot be handed over in the backward pass. `half`: a parameter of float16.
        On a device they are handed over in step(), where all is known.
        """
        if half is not None and self.staging is None:
            raise UsageError(
                f"parameter {half} is torch.float16, which needs a torch.amp.GradScaler, with overlap=True: expected "
                "no overlap, by which it can divide gradients before they are handed over"
            )

    # ---- memory ----

    def lay_out(self, loop: _core.Loop, watches_clipping: bool) -> None:
        """Moves the parameters into the library's flat memory; they keep their values."""
        self._loop = loop
        placements = loop.placements
        self._gradients_stay = self.gradients_stay() or self.staging is not None
        self._places = []
        self._flats = [loop.flat(b) for b in range(loop.num_buckets)]
        for i in loop.trained:
            p = self.named[i][1]
            bucket, offset = placements[i]
            self.parameters.append(p)
            self._places.append((bucket, offset))
            self.flat.append(_part(self._flats[bucket], offset, p))
        buckets = [bucket for bucket, _ in self._places]
        if self.staging is not None:
            like = self._wholes(loop.own)
            self._on_device = self.staging.lay_out(self.parameters, buckets, like, self._wholes_of_set)
            first = [buckets.index(b) for b in range(loop.num_buckets)]
            home = [torch.frombuffer(flat, dtype=self.flat[i].dtype) for flat, i in zip(self._flats, first)]
            forget = loop.forget_flat if loop.averages_gradients else None
            self.staging.lay_out_weights(home, self._parts_of, forget)
        self._own = self._own_views()
        self.views = []
        self._used = memoryview(loop.used())
        self._versions = [-1] * len(self.parameters)
        self._addresses = list(map(_address, self.parameters if self.staging is not None else self.flat))
        self.point_home()
        if loop.overlaps and self.staging is None:
            self.overlap = Overlap(self, buckets, self._hand_over)
        elif watches_clipping and loop.averages_gradients:
            self.clipping = ClippingWatch(self.parameters)

    def _parts_of(self, bucket: int, whole: torch.Tensor) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """The trained parameters of a bucket, and where they lie in a tensor that holds all of it."""
        parts = [(p, at) for p, (b, at) in zip(self.parameters, self._places) if b == bucket]
        return [p for p, _ in parts], [_view(whole, at, p) for p, at in parts]

    def _hand_over(self) -> None:
        self._loop.hand_over(self)

    def name(self, number: int) -> str:
        """Of a trained parameter, by its place in `parameters`."""
        return next(name for name, p in self.named if p is self.parameters[number])

    def _is_home(self) -> bool:
        """Whether parameters and gradients lie in the library's memory. By addresses: where Torch moves a storage, as
        share_memory() and queues between processes do, every view of it moves along."""
        if list(map(_address, self.parameters)) != self._addresses:
            return False
        return all(list(map(_address, wholes)) == addresses for wholes, addresses in self._memory.values())

    def point_home(self) -> None:
        """Copies what Torch has moved back to the library's memory, and points parameters and gradients there again.
        Raises UsageError, by name, for a parameter of another type or shape."""
        if self._is_home():
            return
        if self.staging is not None:
            for p, view in zip(self.parameters, self.flat):
                self._require_same(p, view)
            self._addresses = list(map(_address, self.parameters))
            self.staging.drop()  # what has been copied may not be what has been moved
            self._remake_views()
            return
        if any(map(torch.Tensor.is_shared, self.parameters)) and not self._told_shared:
            self._told_shared = True
            logging.getLogger("stretto").warning(
                "parameters were moved to shared memory, as by share_memory() or a queue between processes, and are "
                "moved back: what other processes have of them does not follow any more"
            )
        with torch.no_grad():
            for i, (p, address, (bucket, offset)) in enumerate(zip(self.parameters, self._addresses, self._places)):
                if p.data_ptr() != address:
                    self._require_same(p, self.flat[i])
                    self.flat[i] = _part(self._flats[bucket], offset, self.flat[i])
                    self.flat[i].copy_(p)
                    p.data = self.flat[i]
        self._remake_views()

    def look(self) -> None:
        """Before ranks meet: has the library's memory hold what the model does. Raises UsageError, by name, where it
        cannot."""
        self.check_model()
        self.point_home()
        if self.staging is not None:
            self.staging.meet()

    def _views_of(self, wholes: list[torch.Tensor]) -> list[torch.Tensor]:
        return [_view(wholes[b], offset, p) for p, (b, offset) in zip(self.parameters, self._places)]

    def _wholes(self, memory_of: Callable[[int], _core.Memory]) -> list[torch.Tensor]:
        """Memory of gradients: a tensor a bucket."""
        dtypes = {b: self._gradient_dtype(p) for p, (b, _) in zip(self.parameters, self._places)}
        return [torch.frombuffer(memory_of(b), dtype=dtypes[b]) for b in range(self._loop.num_buckets)]

    def _wholes_of_set(self, number: int) -> list[torch.Tensor]:
        """Below 0: memory of this rank's own."""
        return self._wholes(self._loop.own if number < 0 else lambda b: self._loop.set(number, b))

    def _own_views(self) -> list[torch.Tensor]:
        return self._views_in(-1, self._on_device if self.staging is not None else self._wholes(self._loop.own))

    def _views_in(self, number: int, wholes: list[torch.Tensor]) -> list[torch.Tensor]:
        self._memory[number] = (wholes, list(map(_address, wholes)))
        return self._views_of(wholes)

    def _gradient_dtype(self, p: torch.Tensor) -> torch.dtype:
        return torch.float32 if self.wide_gradients and p.dtype in _half.TYPES else p.dtype

    def _require_same(self, p: torch.nn.Parameter, view: torch.Tensor) -> None:
        where = view.device if self.staging is None else self.staging.where
        if p.dtype == view.dtype and p.shape == view.shape and p.device == where:
            return
        name = next(name for name, q in self.named if q is p)
        raise UsageError(
            f"parameter {name} has become {p.dtype} {list(p.shape)} on {p.device}, and was {view.dtype} "
            f"{list(view.shape)} on {where} when it was wrapped: expected that before"
        )

    def _remake_views(self) -> None:
        """Module.to() moves the memory of gradients, too: under the views that p.grad has been."""
        gradients = [p.grad for p in self.parameters]
        views, self._sets, self._memory = self.views, {}, {}
        written = map(operator.sub, map(_version, views), self._versions)
        self._own = self._own_views()
        self.views = self._own
        with torch.no_grad():
            for p, gradient, own, view in zip(self.parameters, gradients, self._own, views):
                if gradient is view:
                    own.copy_(view)
                    p.grad = own
        versions = [own._version - times for own, times in zip(self._own, written)]
        self._versions = versions or [-1] * len(self.parameters)

    def take_back(self) -> None:
        """After a call of the library, which may have written to what lies on a device."""
        if self.staging is not None:
            self.staging.take_back()

    def settle(self, rounds: int) -> None:
        """After a step in which so many rounds were applied. Where it was none, p.grad leaves memory that the library
        reads from now on, and has the gradient that was applied last; on a device it stays this rank's own."""
        self.take_back()
        if rounds:
            return
        if self.views is not self._own:
            for p, own in zip(self.parameters, self._own):
                p.grad = own
            self.views = self._own
            self._versions = [own._version for own in self._own]

    def computed(self, optimizer: torch.optim.Optimizer) -> None:
        """The backward passes of the step of the stretto.Optimizer are over. Raises UsageError."""
        self.check_unchanged()
        self.check_buffers()
        self.point_home()
        if self.overlap is not None:
            self.overlap.check_scaler(optimizer)
        if self.clipping is not None:
            self.clipping.check(self.parameters, optimizer)

    def clear(self, to_none: bool) -> None:
        """The gradients are about to be set to zero."""
        if self.overlap is not None:
            self.overlap.begin()
        if self.clipping is not None:
            self.clipping.forget()
        self.point_home()
        if self.staging is not None:
            self.staging.drop()
        self._cleared = to_none
        if self._gradients_stay:
            self._point_at(self._own)

    def refuse_in_graphs(self, call: str) -> None:
        """Raises UsageError while a graph of the model's device is captured, which this call is not to be in."""
        if self.staging is not None:
            self.staging.refuse_in_graphs(call)

    def drop(self) -> None:
        """A step is to hand nothing over: the others may go on without this rank's gradients."""
        if self.staging is not None:
            self.staging.drop()
            self.staging.meet()

    def _point_at(self, views: list[torch.Tensor]) -> None:
        """Has every p.grad be its view; what is added to it from now on makes the parameter a used one."""
        if not all(map(operator.is_, map(_gradient, self.parameters), views)):
            for p, view in zip(self.parameters, views):
                p.grad = view
        self.views = views
        self._versions = list(map(_version, views))

    def _home(self, number: int) -> list[torch.Tensor]:
        """Views of where the gradients of a step lie: in a set, which may be seen for the first time, or our own."""
        if number < 0 or self._gradients_stay:
            return self._own
        found = self._sets.get(number)
        if found is None:
            found = self._sets[number] = self._views_in(number, self._wholes_of_set(number))
        return found

    def give_gradients_back(self) -> None:
        """Points p.grad at memory of this process, which outlives the job."""
        if self.overlap is not None:
            self.overlap.countdown.stop()
        if self.staging is not None:
            self.staging.rest()
        if self.views is not self._own:
            for p, view, own in zip(self.parameters, self.views, self._own):
                if p.grad is view:
                    own.copy_(view)
                    p.grad = own
            self.views = self._own

    def leave(self) -> None:
        """The optimizer is over: its parameters are Torch's alone, also where this raises what a device says."""
        try:
            self.give_gradients_back()
        finally:
            if self.overlap is not None:
                self.overlap.countdown.remove()
            if self.clipping is not None:
                self.clipping.remove()
            if self.staging is not None:
                self.staging.leave()

    def bring_home(self, first: int, last: int) -> None:
        """Copies the gradients of these parameters that lie elsewhere to where p.grad has been pointed at."""
        with torch.no_grad():
            for p, view in zip(self.parameters[first:last], self.views[first:last]):
                if p.grad is not view:
                    _copy(p.grad, view)
                    p.grad = view

    # ---- what the binding calls (Replica) ----

    def forget(self, number: int) -> None:
        self._sets.pop(number, None)
        self._memory.pop(number, None)
        if self.staging is not None:
            self.staging.forget(number)

    def detach(self) -> None:
        self.give_gradients_back()
        self._sets.clear()
        self._memory = {number: memory for number, memory in self._memory.items() if number < 0}

    def attach(self, number: int) -> None:
        self._point_at(self._home(number))
        if self.staging is not None:
            self.staging.begin(number, self.views)

    def show_weights(self) -> None:
        if self.staging is not None:
            self.staging.show_weights()

    def collect(self, number: int) -> bool:
        if self.overlap is not None:
            self.overlap.end()
        home = self._home(number)
        views = self.views or home  # none before the first zero_grad()
        gradients = list(map(_gradient, self.parameters))
        versions = list(map(_version, views))
        written = list(map(operator.sub, versions, self._versions))  # how often since they were set to zero
        used = bytes(map(bool, written))
        if min(written) < max(written):
            used = self._without_scaled(views, written)
        if not self._cleared and 0 in used:
            used = bytes(map(operator.or_, used, self._used))
        if self.staging is not None:
            used = bytes(map(operator.or_, used, self.staging.captured))
        elif 0 in used:  # what is written through `.data` makes no new version
            used = bytes(flag or bool(torch.any(view)) for flag, view in zip(used, views))
        self._versions = versions
        if views is not home or not all(map(operator.is_, gradients, views)):
            used = self._bring(home, gradients, used)
        if 0 in used and used != self._had_gradient:  # some may have been replaced
            self.check_model()
        self._had_gradient = used
        self._used[:] = b"\1" * len(used) if self._unused == "zero" else used
        return self.staging is not None and self.staging.bring(number, home, self._loop.overlaps)

    def arrived(self, bucket: int) -> None:
        assert self.staging is not None
        self.staging.arrived(bucket)

    def _without_scaled(self, views: list[torch.Tensor], written: list[int]) -> bytes:
        """Who clips or scales gradients before step() writes to all of them: that makes no parameter a used one. It is
        unused where its gradient is zero, and has been written to less often than others.
        """
        most = max(written)
        used = bytearray(times == most for times in written)
        doubtful = [i for i, times in enumerate(written) if 0 < times < most]
        if doubtful:  # a device is asked once
            for i, there in zip(doubtful, torch.stack([torch.any(views[i]) for i in doubtful]).tolist()):
                used[i] = there
        return bytes(used)

    def _bring(self, home: list[torch.Tensor], gradients: list[torch.Tensor | None], used: bytes) -> bytes:
        flags = bytearray(used)
        befores = self.views or home
        with torch.no_grad():
            for i, (p, gradient, view, before) in enumerate(zip(self.parameters, gradients, home, befores)):
                if gradient is view:
                    continue
                _copy(gradient, view)
                flags[i] = gradient is not None and flags[i] | (gradient is not before)
                p.grad = view
        self.views = home
        self._versions = list(map(_version, home))
        return bytes(flags)

    def take(self, sums: list[int], divisors: list[float], of_all: bool) -> None:
        assert self.staging is not None
        self.staging.take(sums, divisors, of_all)

    def step(self, number: int) -> None:
        self.take_back()
        views = self._home(number)
        # Also where this rank has made no step, or has set p.grad to none since.
        if self.views is not views or not all(map(operator.is_, map(_gradient, self.parameters), views)):
            self._point_at(views)
        used = self._used.tobytes()
        unused = [(p, view) for p, view, there in zip(self.parameters, views, used) if not there] if 0 in used else []
        for p, _ in unused:
            p.grad = None
        for fn in list(self.before_step.values()):
            fn()
        self.optimizer.step()
        for p, view in unused:
            p.grad = view
        self._versions = list(map(_version, views))
        self._cleared = False
        if self.staging is not None:
            self.staging.settle()

    def round(
        self, number: int, policy: str, batches: int, samples: int, contributors: int, arrived: int, staleness: int
    ) -> None:
        self.take_back()
        told = Round(number, policy, batches, samples, contributors, arrived, staleness)
        for fn in list(self.on_round.values()):
            fn(told)

    def options(self) -> tuple[float, int]:
        return self._options.rate_and_hash()

    def counted(self, counts: Sequence[int], ranks: int) -> None:
        self.schedulers.counted(counts, ranks)

    def members(self, rank: int, ranks: int, joined: list[int], lost: list[int], left: list[int]) -> None:
        for fn in list(self.on_members.values()):
            fn(rank, ranks, joined, lost, left)

    def describe_state(self) -> str:
        return "\n".join([*self.schedulers.describe(), *self.states.describe()])

    def shared_state(self) -> bytes:
        return _states.encoded(
            {
                "groups": self._options.of_groups(),
                "schedulers": self.schedulers.state(),
                "registered": self.states.state(),
            }
        )

    def set_shared_state(self, state: bytes) -> None:
        try:
            given = _states.decoded(state)
        except Exception as error:
            raise UsageError(
                f"what ranks have registered does not travel to this one ({error}): expected tensors and plain values"
            ) from error
        self._options.take(given["groups"])
        self.schedulers.set_state(given["schedulers"])
        self.states.set_state(given["registered"])

    def tell_ranks(self) -> Sequence[int]:
        return self.schedulers.tell_ranks()

    def hear_ranks(self, words: Sequence[Sequence[int]]) -> None:
        self.schedulers.hear_ranks(words)

    def tell(self, line: str) -> None:
        logging.getLogger("stretto").warning("%s", explain(line, self.silence))
