"""stretto.Optimizer: a torch.optim.Optimizer whose steps the ranks of a job take together."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import torch
from torch.utils.hooks import RemovableHandle

import stretto._core as _core
from stretto import _checks, _half, _job, _process_group, _scaler, _unattached
from stretto._collective_watch import CollectiveWatch
from stretto._errors import Error, UsageError
from stretto._report import Report
from stretto._rounds import Round
from stretto._schedulers import Schedulers
from stretto._states import Stateful
from stretto._tensors import Tensors
from stretto._wrapper import Wrapper


class Optimizer(Wrapper):
    """A torch.optim.Optimizer whose steps the ranks of a job take together.

    It wraps an optimizer, and is used in its place: the training loop stays as it is. Construction is a meeting of all
    ranks, which begin with the weights, the buffers and the optimizer's state of rank 0. `step()` hands over the
    gradients of a batch, and moves the weights by the wrapped optimizer for each round of the algorithm that is
    complete. Replicas stay equal to the bit where the algorithm averages gradients. With one rank, too, weights and
    state have the bits that the wrapped optimizer alone would give them.

    `param_groups`, `state`, `defaults`, `state_dict()` and `load_state_dict()` are those of the wrapped optimizer.
    `p.grad` is a view of memory that the library owns. It stays one where the gradients are cleared by this class's
    own `zero_grad()`; gradients that lie elsewhere (after `model.zero_grad()`, `p.grad = None` or
    `backward(create_graph=True)`) are copied at `step()`. After `step()` it holds the averaged gradient that was
    applied last. A parameter that has got no gradient on any rank of a round is not moved, as plain Torch does it.

    Ranks end with finish(), or join(): until then they may be up to `max_lag` rounds apart, so no other collective
    (`dist.barrier()`, `dist.all_reduce()`, …) may be called but inside together().

    Args:
        optimizer: any optimizer of torch.optim but LBFGS and SparseAdam, or one's own, without `differentiable`. Its
            parameters lie on the CPU or on one GPU, without gaps, in float32, float64, bfloat16 or float16.
        model: the module that holds the parameters. It gives them their names, and its buffers and frozen parameters
            are broadcast from rank 0. None: only the optimizer's parameters are known.
        algorithm: "sync", "eager-quorum:3", "eager-solo", "local", "wagma:2", …, as `stretto train --help` explains.
        max_lag: bound of staleness in rounds, from 1; memory grows with it.
        seats: ranks that meet at a board in the memory of their host, with messages between the boards; 0: all of a
            host; 1: messages alone, as between hosts.
        normalize: the divisor of the sum of gradients: "ranks" of the job, "contributors" of the round, or their
            "samples". None: by the algorithm, which is ranks where gradients are averaged.
        sync_every: steps of each rank between two rounds, for algorithms that have steps of their own; 0: the
            algorithm's default.
        full_every: batches between rounds for which all ranks wait; 0: none.
        fixed_order: sums are added up in one order, so that equal batches give equal bits in each run.
        overlap: sync: each bucket of gradients is handed over and summed as soon as the backward pass has computed it,
            and those before it. So between this class's zero_grad() and step() nothing else may change them, and of
            several backward passes all but the last run in no_sync(). Not with GradScaler and normalize="samples".
        bucket_mb: size of such a bucket, in MiB.
        unused: what a parameter without gradient counts as: "skip": as none, so that it is not moved where no rank has
            one; "zero": as a gradient of zeros, by which momentum and weight decay move it.
        buffers: "average": running statistics are averaged over the ranks where all meet, in together() and finish();
            "local": each rank keeps its own.
        grad_dtype: torch.float32: gradients of parameters of 16 bits are added up and applied in float32, where Torch
            has `Tensor.grad_dtype` and the optimizer takes such gradients: SGD, RMSprop, …, but not Adam and its kin.
            None: in the parameter's type, to which the sum of two gradients is rounded each time.
        options: what only some algorithms can be told: {"tau": 4}. Those of `stretto train --help`, without dashes in
            front.

    Raises:
        UsageError: for what is refused above, and, on every rank, for what differs between ranks.
        RankLost, Aborted, Timeout: where not all ranks come.
    """

    _silence = 10.0  # so many seconds without news it is said who is waited for

    _step_supports_amp_scaling = True  # GradScaler calls step() also where it has found an infinity

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        model: torch.nn.Module | None = None,
        algorithm: str = "eager-quorum",
        *,
        max_lag: int = 4,
        seats: int = 0,
        normalize: Literal["ranks", "contributors", "samples"] | None = None,
        sync_every: int = 0,
        full_every: int = 0,
        fixed_order: bool = False,
        overlap: bool = False,
        bucket_mb: float = 4.0,
        unused: Literal["zero", "skip"] = "skip",
        buffers: Literal["average", "local"] = "average",
        grad_dtype: torch.dtype | None = None,
        options: Mapping[str, object] | None = None,
    ) -> None:
        if isinstance(optimizer, Optimizer):
            raise UsageError("a stretto.Optimizer in the place of the optimizer to wrap: expected to wrap it once")
        _checks.check_optimizer(optimizer)
        _checks.require_one_of("unused", unused, ("zero", "skip"))
        _checks.require_one_of("buffers", buffers, ("average", "local"))
        if not bucket_mb > 0:
            raise UsageError(f"bucket_mb {bucket_mb!r}: expected a positive number of MiB")
        _take_over(optimizer)
        _checks.check_not_shared(optimizer, _not_finished())
        if _not_finished():
            _job.require_fixed("a second optimizer")
        if overlap:
            _job.require_fixed("overlap=True")
        super().__init__(optimizer)
        self._this = weakref.ref(self)  # where self is a LightningOptimizer, which has the methods of this class
        self._tensors = Tensors(optimizer, model, unused, buffers)
        self._tensors.wide_gradients = _half.widen(optimizer, self._tensors.trained_by_name(), grad_dtype)
        self._half = next((name for name, p in self._tensors.trained_by_name() if p.dtype is torch.float16), None)
        if overlap:
            self._tensors.check_overlap(self._half)
        self._job = _job.current()
        given = {
            "algorithm": algorithm,
            "max_lag": max_lag,
            "seats": seats,
            "normalize": normalize,
            "sync_every": sync_every,
            "full_every": full_every,
            "fixed_order": fixed_order,
            "overlap": overlap,
            "silence": self._silence,
            "bucket_bytes": int(bucket_mb * (1 << 20)),
            "wide_gradients": self._tensors.wide_gradients,
            "staged": self._tensors.staging is not None,
            "algorithm_options": [(name, str(value)) for name, value in (options or {}).items()],
        }
        self._loop = _core.Loop(
            self._tensors,
            self._job,
            self._tensors.specs(),
            given,
            self._tensors.gradients_stay(),
            self._tensors.describe_model(),
            self._tensors.describe_optimizer(),
            f"torch {torch.__version__}",
            torch.backends.cpu.get_cpu_capability(),
            torch.get_num_threads(),
        )
        if self._tensors.staging is not None and _job.number() == 0:
            self._tensors.staging.tell()
        several = not _job.alone()
        self._tensors.lay_out(self._loop, watches_clipping=several and _job.number() == 0)
        self._schedulers = Schedulers([self, optimizer], self._loop, several)
        self._tensors.schedulers = self._schedulers
        self._tensors.silence = self._silence
        self._watch = CollectiveWatch(_job.number(), self._silence)
        self._last_rounds = 0
        self._batches = 0  # of the job's pool that steps have handed over, or that count so
        self._drawn = 0  # of the same, by a Sampler
        self._begun = False
        self._stepped = False
        self._all_met: bool | None = None  # of together(); None: not within it
        if not self._job.members_change:
            self._begin()
        _job.add(self)
        if not several:
            weakref.finalize(self, _dropped.append, (self._loop, self._tensors)).atexit = False

    def _begin(self) -> None:
        """Meets the other ranks, the first time. Where members change that is before the first batch, when schedulers
        and registered states are there, too: the others wait for this rank from then on."""
        if self._begun:
            return
        self._begun = True
        try:
            self._loop.begin(self._tensors)
            self._tensors.take_back()
        except BaseException:
            self._loop.close()  # while the job is there
            raise

    # ---- what torch.optim.Optimizer has ----

    def __repr__(self) -> str:
        return f"stretto.{super().__repr__()[:-1]}wrapping {type(self._inner).__name__})"

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Sets the gradients to zero. `p.grad` stays a view of the library's memory in both forms.

        Args:
            set_to_none: a parameter that gets no gradient after this counts as one without, as where plain Torch has
                None; False: as one with a gradient of zeros, if it had one before.
        """
        if self._all_met is not None or self._loop.ended:
            super().zero_grad(set_to_none)
            return
        self._begin()
        self._tensors.refuse_in_graphs("zero_grad()")
        self._tensors.clear(set_to_none)
        self._loop.zero_grad(self._tensors)
        self._tensors.take_back()

    def step(self, closure: Callable[[], Any] | None = None, *, samples: int = 1, batches: int = 1) -> Any:
        """Hands over the gradients of a batch, and applies the rounds that are complete.

        Args:
            closure: evaluates the model anew, and returns the loss. Called once, with gradients enabled.
            samples: in the batch; what normalize="samples" weights it by.
            batches: drawn from a Sampler since the last step: as many as backward passes have been added up, from 1 to
                1,000.

        Returns:
            What the closure returned; None without one.

        Raises:
            UsageError: after finish(), inside together(), and where the model has changed since it was wrapped; where
                members of the job change also before this rank has the others' weights, which it takes over in its
                first zero_grad(), or when it first draws from a Sampler.
            Aborted: on every rank, where a gradient is infinite or NaN (names the parameter), or a rank has failed.
            Diverged: on every rank, where ranks move their weights by other options (names ranks and rates).
            RankLost: where a rank has died.
        """
        if self._all_met is not None:
            raise UsageError("step() inside together(): expected steps outside, where ranks hand over batches")
        self._tensors.refuse_in_graphs("step()")
        if not self._begun and not self._loop.ended:
            if closure is None:
                raise UsageError(
                    "step() before this rank has taken over the weights of the others, whose members change: expected "
                    "zero_grad(), or a batch of a stretto.Sampler, before the first forward pass"
                )
            self._begin()
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if not self._stepped:
            self._check_first_step()
        self._tensors.computed(self)
        if self._drawn > 0:
            batches = max(1, min(batches, self._drawn - self._batches))
        if _scaler.unscale(self, self._tensors.parameters, self._half):
            self._last_rounds = self._loop.step(self._tensors, samples, batches)
        else:
            self._tensors.drop()
            self._last_rounds = self._loop.drop(self._tensors, batches)
        self._batches += batches
        self._tensors.settle(self._last_rounds)
        return loss

    def no_sync(self) -> contextlib.AbstractContextManager[None]:
        """With `overlap`, where a step has several backward passes: those in the block only add to the gradients, which
        the one after it hands over. Without `overlap` there is nothing to keep back, and this does nothing.
        """
        overlap = self._tensors.overlap
        return contextlib.nullcontext() if overlap is None else overlap.countdown.resting()

    def _check_first_step(self) -> None:
        if _job.alone():
            _process_group.check_alone()
        elif self._job.members_change:
            _process_group.warn_of_groups()
        _unattached.check(p for group in self.param_groups for p in group["params"])
        self._tensors.check_model()
        if self._tensors.model is not None:
            _checks.check_owned(self._tensors.model, [self, *_not_finished()])
        self._watch.begin()
        self._stepped = True

    # ---- hooks ----

    def before_step(self, fn: Callable[[], object]) -> RemovableHandle:
        """Has `fn()` called whenever the wrapped optimizer is about to move the weights: the averaged gradients are in
        `p.grad`, which is the place to clip them. What it does to them must be the same on every rank. Where it raises,
        all ranks stop, and hear its text.

        Returns:
            A handle, with remove(), which is a context manager, too.
        """
        return _add(self._tensors.before_step, fn)

    def on_round(self, fn: Callable[[Round], object]) -> RemovableHandle:
        """Has `fn(round)` called after each round that was applied, in the same order with equal rounds on every rank.
        Where it raises, all ranks stop, and hear its text.

        Returns:
            A handle, with remove(), which is a context manager, too.
        """
        self._loop.tell_rounds()
        return _add(self._tensors.on_round, fn)

    # ---- members that change ----

    def register_state(self, name: str, state: Stateful) -> None:
        """Has a rank that comes to the job later take over `state`, beside weights, buffers, the optimizer's state and
        schedulers, which travel by themselves. It is to be equal on all ranks, as what on_round() changes is. On every
        rank, with the same names in the same order, before the first step. Without effect where members do not change.

        Args:
            name: by which ranks compare what they have registered.
            state: has state_dict() and load_state_dict(), as an averaged model; tensors and plain values.

        Raises:
            UsageError: for a name that is taken, what does not travel, and after the first step.
        """
        if self._begun and self._job.members_change:
            raise UsageError(f"register_state({name!r}) after the first batch: expected before, on every rank")
        self._tensors.states.add(name, state)

    def on_members(self, fn: Callable[[int, int, list[int], list[int], list[int]], object]) -> RemovableHandle:
        """Has `fn(rank, size, joined, lost, left)` called when this rank begins among other members of the job than
        before, and among its first: its rank among them, how many they are, and the numbers of those that have come,
        were lost or have left since. Never where members do not change. What it raises ends this rank, which is then
        lost.

        Returns:
            A handle, with remove(), which is a context manager, too.
        """
        return _add(self._tensors.on_members, fn)

    # ---- the ranks ----

    def finish(self) -> None:
        """No more batches here: returns when no rank has any, and all replicas are final. Of several optimizers of a
        process each is finished, in the same order on every rank, and none takes a step after the first finish().

        Raises:
            Diverged: on every rank, where replicas differ: something else than step() has moved weights on one.
            UsageError: the second time; and, on every rank, where ranks finish different optimizers.
        """
        if not self._loop.ended:
            self._begin()
            self._look_at_all()
        self._loop.finish(self._tensors, False)
        self._tensors.leave()
        self._watch.stop()
        self._close()

    @contextlib.contextmanager
    def join(self) -> Iterator[None]:
        """finish() at the end of the block; where it raises, the job stops and the other ranks hear why."""
        with self._aborting():
            yield
        self.finish()

    @contextlib.contextmanager
    def together(self) -> Iterator[bool]:
        """Everything handed over is applied on all ranks, which are at the same place within the block: the place to
        evaluate, to write a checkpoint, and for other collectives. A rank that has called finish() is not waited for.

        The other optimizers of this process meet, too: their together() within the block is no second meeting.

        `with optimizer.together() as all_met:` is True, but on a rank of a job whose members change for which the
        others have not waited: they have met, members have changed, and they train on. It has the weights with which
        they have met. What ranks do together in the block is then to be left out: nobody else comes to it.

        Raises:
            Diverged: as finish().
        """
        if self._all_met is not None:
            yield self._all_met
            return
        self._tensors.refuse_in_graphs("together()")
        self._begin()
        self._look_at_all()
        all_met = self._loop.meet(self._tensors)
        optimizers = _not_finished()
        for optimizer in optimizers:
            optimizer._begin_together(all_met)
        try:
            with self._aborting():
                yield all_met
        finally:
            for optimizer in optimizers:
                optimizer._all_met = None
        self._loop.part(self._tensors)
        self._tensors.take_back()
        for optimizer in optimizers:
            optimizer._end_together()

    def _look_at_all(self) -> None:
        for optimizer in [self] if _job.alone() else _not_finished():  # all meet
            optimizer._tensors.look()

    def _drain(self) -> bool:
        """Where members change, with no batch in hand: waits for the last round. False: batches may have come back."""
        self._look_at_all()
        over = self._loop.drain(self._tensors)
        self._tensors.take_back()
        return over

    def _begin_together(self, all_met: bool) -> None:
        self._tensors.give_gradients_back()
        self._all_met = all_met
        self._schedulers.begin_together()
        self._watch.rest(True)

    def _end_together(self) -> None:
        self._watch.rest(False)
        self._watch.begin()  # where torch.distributed was begun since the first step
        self._schedulers.end_together()

    @contextlib.contextmanager
    def _aborting(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self._abort(f"{type(error).__name__}: {error}")
            raise

    @property
    def rounds(self) -> int:
        """Rounds applied so far."""
        return self._loop.rounds

    @property
    def batches_applied(self) -> int:
        """Batches applied so far, of all ranks."""
        return self._loop.applied

    @property
    def last_rounds(self) -> int:
        """Rounds that the last step() has applied."""
        return self._last_rounds

    def report(self) -> Report:
        """Who was late, who waited, and what became of all batches, as this rank knows it now. Asks no other rank; may
        be called at any time, on any rank, also when all is finished.
        """
        return Report(self._loop.report, self._tensors.staging.describe() if self._tensors.staging else "")

    # ---- the end ----

    @property
    def _busy(self) -> bool:
        return self._loop.busy

    def _end(self) -> None:
        self._watch.stop()
        if not self._loop.ended:
            with self._aborting():  # where a device has failed
                with contextlib.suppress(UsageError):
                    self._tensors.point_home()
                for optimizer in [self, *_not_finished()]:  # their rounds may come meanwhile
                    if optimizer._tensors.staging is not None:
                        optimizer._tensors.staging.meet()
            self._loop.end(self._tensors)
        self._tensors.leave()
        self._loop.close()

    def _leave(self) -> None:
        self._loop.leave()

    def _abort(self, reason: str) -> None:
        self._watch.stop()
        self._close()
        if not self._job.members_change:  # else this rank alone ends
            self._loop.abort(reason)
        with contextlib.suppress(RuntimeError):  # of a device that has failed
            self._tensors.leave()
        self._loop.close()

    def _close(self) -> None:
        this = self._this()
        assert this is not None
        _job.remove(this)


def _not_finished() -> list[Optimizer]:
    """The optimizers of this process that are not finished."""
    return [part for part in _job.parts() if isinstance(part, Optimizer) and not part._loop.ended]


_dropped: list[tuple[_core.Loop, Tensors]] = []  # what is left of optimizers of a process that is alone


def _take_over(optimizer: torch.optim.Optimizer) -> None:
    """Ends what this process has left unfinished, where no other rank waits for it, as in a notebook when a cell that
    was interrupted is run again: optimizers that are no more, and those that hold parameters of `optimizer`.
    """
    while _dropped:
        _give_up(*_dropped.pop())
    others = _not_finished()
    if others and _job.alone():
        for other in _checks.sharing(optimizer, others):
            assert isinstance(other, Optimizer)
            other._watch.stop()
            _give_up(other._loop, other._tensors)


def _give_up(loop: _core.Loop, tensors: Tensors) -> None:
    if loop.busy:  # this is called from within one of its calls
        return
    if not loop.ended:
        with contextlib.suppress(Error):  # what keeps it from finishing, such as another model in its place
            loop.finish(tensors, True)
    tensors.give_gradients_back()
    loop.close()


def _add(hooks: Any, fn: Callable[..., object]) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = fn
    return handle
