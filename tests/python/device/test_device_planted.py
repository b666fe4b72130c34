"""What is left out of how a model on a device is staged, one thing at a time: a job on the made-up device shows each.
The same jobs are clean where nothing is left out.
"""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

import stretto
from device_jobs import SEEDS, STEPS, Net, contents, draw, loss, one, plainly, train, trained, wrap, wrapped
from late_device import Event, Late, Runtime, Stream, bytes_of
from leaving_out import Plant, call
from ranks import run, said, values
from stretto import _device
from stretto._countdown import Countdown
from stretto._cuda import Cuda
from stretto._device import Staging
from stretto._tensors import Tensors
from stretto._weights import Weights

# ---- jobs, on the device or not ----

Job = Callable[[bool], Any]


class _Then(torch.autograd.Function):
    """Gradients are computed on this stream from there on."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, stream: Stream) -> torch.Tensor:
        ctx.stream = stream
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:  # type: ignore[override]
        Runtime.set_stream(ctx.stream)
        return gradient, None


def _on_two_streams(staged: bool, infinite_in: int = -1) -> Any:
    """The gradients of one bucket are computed on two streams: those that are infinite in a step, on the one on which
    the last of them is not."""
    torch.manual_seed(0)
    model = torch.nn.ModuleList(torch.nn.Linear(6, 40) for _ in range(2))
    Late.watch(model.parameters())
    optimizer = wrap(model, staged, bucket_mb=1.0)
    first, second = Runtime.current_stream(), Runtime.Stream()
    with optimizer.join():
        for step in range(STEPS):
            optimizer.zero_grad()
            x = torch.randn(4, 6, generator=torch.Generator().manual_seed(step)).requires_grad_()
            second.wait_stream(first)
            beside = _Then.apply(model[1](_Then.apply(x, first)), second)  # type: ignore[no-untyped-call]
            factor = torch.inf if step == infinite_in else 1.0
            (model[0](x).square().mean() + beside.mean() * factor).backward()
            Runtime.set_stream(first)
            first.wait_stream(second)  # as backward() does at its end
            optimizer.step()
    return contents(model, optimizer)


def _infinite_beside(staged: bool) -> str:
    with pytest.raises(stretto.Aborted) as aborted:
        _on_two_streams(staged, infinite_in=3)
    return str(aborted.value).partition(" on rank ")[2][3:]  # in which step


def _infinite_elsewhere(staged: bool) -> str:
    """All passes are on a stream that the one of step() does not wait for."""
    torch.manual_seed(0)
    model = Net()
    Late.watch(trained(model))
    optimizer = wrap(model, staged)
    first, second = Runtime.current_stream(), Runtime.Stream()
    with pytest.raises(stretto.Aborted) as aborted, optimizer.join():
        for step in range(STEPS):
            optimizer.zero_grad()
            second.wait_stream(first)
            with Runtime.stream(second):
                (loss(model, step) * (torch.inf if step == 3 else 1.0)).backward()
            optimizer.step()
    return str(aborted.value).partition(" on rank ")[2][3:]  # in which step


def _eagerly(staged: bool) -> Any:
    """While a rank is late, the others' next round is added up where the sum lay that its device copies."""
    torch.manual_seed(0)
    model, optimizer = wrapped(staged, algorithm="eager-solo", max_lag=1)
    for step in range(20):
        if stretto.rank() == 1:
            time.sleep(0.02)
        one(model, optimizer, step)
    optimizer.finish()
    return all(bool(p.isfinite().all()) for p in model.parameters()), optimizer.batches_applied


def _until_torn() -> None:
    """Gives the others time to write to what is still copied."""
    deadline = time.monotonic() + 0.3
    while time.monotonic() < deadline and not any(copy.is_torn() for copy in Late.under_way):
        time.sleep(0.001)


def _slow_at_the_end(staged: bool, by_finish: bool = True) -> Any:
    """A rank that has no more batches takes its time to apply the rounds of the other."""
    torch.manual_seed(0)
    model, optimizer = wrapped(staged)
    for step in range(10 - 4 * stretto.rank()):
        one(model, optimizer, step)
    if staged and stretto.rank() == 1:
        optimizer.before_step(_until_torn)
    if by_finish or not staged or stretto.rank() == 0:
        optimizer.finish()
    else:
        stretto.shutdown()
    return [bytes_of(p.detach()) for p in model.parameters()]


def _shut_down(staged: bool) -> Any:
    return _slow_at_the_end(staged, by_finish=False)


def _failing_after_step(staged: bool, computes: bool = False) -> None:
    model = Net()
    optimizer = wrap(model, staged)
    with pytest.raises((ZeroDivisionError, stretto.Aborted)), optimizer.join():
        for step in range(7):
            plainly(model, optimizer, step)
        if computes:
            optimizer.zero_grad()
            loss(model, 3).backward()
        raise ZeroDivisionError


def _failing_after_backward(staged: bool) -> None:
    _failing_after_step(staged, computes=True)


def _with_infinities(staged: bool) -> Any:
    """A rank brings nothing three times, in rounds before which weights are not compared: that waits, too."""
    torch.manual_seed(0)
    model = Net()
    optimizer = wrap(model, staged)
    for step in range(14):
        scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
        optimizer.zero_grad()
        infinite = step in (9, 10, 11) and stretto.rank() == 0
        scaler.scale(loss(model, step) * (float("inf") if infinite else 1.0)).backward()
        scaler.step(optimizer)
    optimizer.finish()
    return contents(model, optimizer)


def _never_zeroed(staged: bool) -> Any:
    """With `overlap`; a bucket that gets no gradient in a step has that of the round before."""
    torch.manual_seed(0)
    model = Net()
    optimizer = wrap(model, staged, overlap=staged)
    for step in range(STEPS):
        loss(model, step, use_all=stretto.rank() == 0 or step % 3 == 0).backward()
        optimizer.step()
    optimizer.finish()
    return contents(model, optimizer)


def _overlapping(staged: bool) -> Any:
    return train("plainly", staged, overlap=staged)


def _meeting(staged: bool) -> Any:
    torch.manual_seed(0)
    model = Net()
    optimizer = wrap(model, staged)
    for step in range(3):
        plainly(model, optimizer, step)
    with optimizer.together():
        registered = len(Late.pinned)
    optimizer.finish()
    return contents(model, optimizer), registered


def _averaging(staged: bool, algorithm: str = "local", told: bool = False) -> Any:
    """Models, every second step. Something else moves the weights before the first."""
    torch.manual_seed(0)
    model = torch.nn.Linear(4000, 1, bias=False)
    optimizer = wrap(model, staged, algorithm, sync_every=2)
    seen: list[bytes] = []

    def look() -> None:
        seen.append(bytes_of(model.weight.detach()))

    if told:
        optimizer.on_round(lambda _: look())
    for step in range(STEPS):
        optimizer.zero_grad()
        if step == 0:
            model.weight.data.mul_(0.5)
        x = torch.randn(4, 4000, generator=torch.Generator().manual_seed(1000 * stretto.rank() + step))
        model(x).square().mean().backward()
        optimizer.step()
        look()
    optimizer.finish()
    return contents(model, optimizer), seen


_told = functools.partial(_averaging, told=True)
_to_a_center, _from_an_anchor = (functools.partial(_averaging, algorithm=name) for name in ("easgd", "diloco"))
_plainly, _accumulating, _clipping, _beginning_anew = (
    functools.partial(train, how) for how in ("plainly", "accumulating", "clipping", "beginning anew")
)

# ---- what is left out ----


def _sets_again() -> None:
    """Each time the memory of a set is looked for it is taken for new."""
    memory_of = Staging._memory_of

    def forgetting(self: Staging, number: int) -> list[torch.Tensor]:
        self._sets.clear()
        return memory_of(self, number)

    Staging._memory_of = forgetting  # type: ignore[method-assign]


def _sums_again() -> None:
    take = Staging.take

    def forgetting(self: Staging, sums: list[int], divisors: list[float], of_all: bool) -> None:
        self._sums.clear()
        take(self, sums, divisors, of_all)

    Staging.take = forgetting  # type: ignore[method-assign]


def _whole_pages() -> None:
    _device._pages = lambda memory: [(tensor.data_ptr(), tensor.nbytes) for tensor in memory]


def _changes() -> None:
    """Of a gradient, after its bucket was copied."""
    _device._version = lambda view: 0  # type: ignore[assignment]


def _late_ranks() -> None:
    """Each round is taken for one of all ranks."""
    take = Staging.take
    Staging.take = lambda self, sums, divisors, of_all: take(self, sums, divisors, True)  # type: ignore[method-assign]


NOT_THERE, WRITTEN, GONE = "is not finite on rank", "written to while it is copied", "memory goes while it is copied"
OTHER, REFUSED, LEFT, HIDDEN = "another outcome", "part of the memory is pinned already", "left:", "DID NOT RAISE"
FIRST_OF_TWO = f"{NOT_THERE}|{WRITTEN}"  # by when ranks come

# What is left out, how, which job shows it, and by what.
LEFT_OUT: dict[str, tuple[Plant, Job, str]] = {
    "copy() notes the current stream": (call(Cuda, "computed", (Cuda, "copy")), _plainly, NOT_THERE),
    "copy() waits for the noted streams": (call(Stream, "wait_stream", (Cuda, "copy")), _clipping, NOT_THERE),
    "copy() records its event": (call(Event, "record", (Cuda, "copy")), _accumulating, NOT_THERE),
    "a gradient's stream is noted": (call(Cuda, "computed", (Staging, "_computed")), _on_two_streams, NOT_THERE),
    "a norm is of all streams": (call(Cuda, "compute_after_noted", (Staging, "_send")), _infinite_beside, HIDDEN),
    "norms are read behind all": (call(Cuda, "compute_after_noted", (Staging, "bring")), _infinite_elsewhere, HIDDEN),
    "compute_after() waits": (call(Stream, "wait_event", (Cuda, "compute_after")), _plainly, NOT_THERE),
    "take() has what is computed wait": (call(Cuda, "compute_after", (Staging, "take")), _overlapping, NOT_THERE),
    "wait() waits": (call(Event, "synchronize", (Cuda, "wait")), _plainly, FIRST_OF_TWO),
    "bring() waits": (call(Staging, "_wait", (Staging, "bring")), _clipping, FIRST_OF_TWO),
    "arrived() waits": (call(Cuda, "wait", (Staging, "arrived")), _overlapping, NOT_THERE),
    "what has arrived is no later step's": (call(Staging, "_wait", (Staging, "arrived")), _never_zeroed, OTHER),
    "drop() waits": (call(Staging, "_wait", (Staging, "drop")), _beginning_anew, NOT_THERE),
    "zero_grad() drops": (call(Staging, "drop", (Tensors, "clear")), _beginning_anew, NOT_THERE),
    "settle() waits": (call(Staging, "_wait_for_sums", (Staging, "settle")), _eagerly, WRITTEN),
    "a step settles": (call(Staging, "settle", (Tensors, "step")), _eagerly, WRITTEN),
    "a round without this rank settles": (_late_ranks, _eagerly, WRITTEN),
    "meet() waits": (call(Staging, "_wait_for_sums", (Staging, "meet")), _slow_at_the_end, WRITTEN),
    "finish() meets": (call(Staging, "meet", (Tensors, "look")), _slow_at_the_end, WRITTEN),
    "a dropped step meets": (call(Staging, "meet", (Tensors, "drop")), _with_infinities, WRITTEN),
    "shutdown() meets": (call(Staging, "meet", (stretto.Optimizer, "_end")), _shut_down, WRITTEN),
    "rest() waits for sums": (call(Staging, "_wait_for_sums", (Staging, "rest")), _failing_after_step, GONE),
    "rest() drops": (call(Staging, "drop", (Staging, "rest")), _failing_after_backward, GONE),
    "rest() takes back": (call(Staging, "take_back", (Staging, "rest")), _plainly, OTHER),
    "rest() ends registrations": (call(Staging, "_unpin_all", (Staging, "rest")), _plainly, LEFT),
    "together() rests": (call(Staging, "rest", (Tensors, "give_gradients_back")), _meeting, OTHER),
    "finish() leaves": (call(Staging, "leave", (Tensors, "leave")), _plainly, LEFT),
    "the weights of rank 0 come": (call(Weights, "take_back", (Staging, "take_back")), _plainly, OTHER),
    "show() waits": (call(Cuda, "wait", (Weights, "show")), _averaging, FIRST_OF_TWO),
    "take_back() has what is computed wait": (
        call(Cuda, "compute_after", (Weights, "take_back")),
        _averaging,
        NOT_THERE,
    ),
    "rest() waits for weights": (call(Weights, "settle", (Staging, "rest")), _averaging, GONE),
    "a step of the optimizer takes back": (call(Tensors, "take_back", (Tensors, "step")), _from_an_anchor, OTHER),
    "step() takes back": (call(Tensors, "take_back", (Tensors, "settle")), _averaging, OTHER),
    "zero_grad() takes back": (call(Tensors, "take_back", (stretto.Optimizer, "zero_grad")), _to_a_center, OTHER),
    "a round is told behind take_back()": (call(Tensors, "take_back", (Tensors, "round")), _told, OTHER),
    "changes after the copy are seen": (_changes, _clipping, NOT_THERE),
    "whole pages are registered": (_whole_pages, _plainly, REFUSED),
    "sets are known": (_sets_again, _plainly, REFUSED),
    "sums are known": (_sums_again, _plainly, REFUSED),
}
# Those after which ranks cannot go on, or that fail.
ENDING: list[Job] = [_infinite_beside, _infinite_elsewhere, _shut_down, _failing_after_step, _failing_after_backward]
GOING_ON = [job for job in dict.fromkeys(job for _, job, _ in LEFT_OUT.values()) if job not in ENDING]


def _outcome(job: Job, seed: int | None, plant: Plant) -> str:
    """In a rank: what is not as it should be, where a job on the device returns."""
    expected = job(False)
    Late.seed = draw(seed)
    countdowns: list[Countdown] = []
    make = Countdown.__init__

    def noting(self: Countdown, *args: Any) -> None:
        make(self, *args)
        countdowns.append(self)

    Countdown.__init__ = noting  # type: ignore[method-assign]
    plant()
    found = job(True)
    hooks = sum(len(countdown._handles) for countdown in countdowns)
    wrong = list(Late.refusals)
    if found != expected:
        wrong.append(OTHER)
    if hooks or Late.pinned or Late.under_way:
        wrong.append(f"{LEFT} {hooks} hooks, {len(Late.pinned)} registrations, {len(Late.under_way)} copies")
    return "; ".join(wrong)


def _with_left_out(name: str) -> str:
    plant, job, _ = LEFT_OUT[name]
    return _outcome(job, None, plant)


@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_is_left_out_shows(name: str) -> None:
    results = run(_with_left_out, 2, timeout=60, args=(name,))
    found = [result.value if result.status == 0 else result.stderr for result in results]
    assert any(re.search(LEFT_OUT[name][2], text) for text in found), said(results) + str(found)


def _with_nothing_left_out(jobs: list[Job], seed: int | None) -> list[str]:
    return [_outcome(job, seed, lambda: None) for job in jobs]


@pytest.mark.parametrize("jobs", [GOING_ON, *([job] for job in ENDING)])
@pytest.mark.parametrize("seed", [None, *SEEDS])
def test_where_nothing_is_left_out_nothing_shows(jobs: list[Job], seed: int | None) -> None:
    for found in values(_with_nothing_left_out, 2, timeout=240, args=(jobs, seed)):
        assert found == [""] * len(jobs)
