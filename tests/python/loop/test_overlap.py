"""overlap=True: the bits of overlap=False, gradients handed over in the backward pass, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import stretto
from ranks import run, said, values

torch.set_num_threads(1)  # tensors are small

STEPS = 6
WIDTHS = (5, 120)  # gradients that stay in one place, and those that go from set to set
ONE_EACH = 1e-6  # MiB: every parameter is a bucket of its own


class _Net(torch.nn.Module):
    def __init__(self, width: int = 5) -> None:
        super().__init__()
        self.first = torch.nn.Linear(6, width)
        self.sometimes = torch.nn.Linear(width, width)
        self.last = torch.nn.Linear(width, 3)

    def forward(self, x: torch.Tensor, use_all: bool = True) -> torch.Tensor:
        x = torch.tanh(self.first(x))
        return self.last(x + self.sometimes(x) if use_all else x)


def _loss(model: torch.nn.Module, seed: int, use_all: bool = True) -> torch.Tensor:
    x = torch.randn(4, 6, generator=torch.Generator().manual_seed(1000 * stretto.rank() + seed))
    return model(x, use_all).square().mean()  # type: ignore[no-any-return]


def _wrap(model: torch.nn.Module, overlap: bool = True, bucket_mb: float = ONE_EACH) -> stretto.Optimizer:
    inner = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9, weight_decay=0.01)
    return stretto.Optimizer(inner, model, "sync", overlap=overlap, bucket_mb=bucket_mb)


def _bits(model: torch.nn.Module) -> list[bytes]:
    return [p.detach().numpy().tobytes() for p in model.parameters()]


# ---- the bits of overlap=False ----

Step = Callable[[_Net, stretto.Optimizer, int], None]


def _plainly(model: _Net, optimizer: stretto.Optimizer, step: int) -> None:
    optimizer.zero_grad()
    _loss(model, step).backward()
    optimizer.step()


def _with_unused(model: _Net, optimizer: stretto.Optimizer, step: int) -> None:
    optimizer.zero_grad()
    use_all = step % 3 == 1 or (step % 3 == 2 and stretto.rank() == 0)  # by all ranks, by one, by none
    _loss(model, step, use_all).backward()
    optimizer.step()


def _to_zeros(model: _Net, optimizer: stretto.Optimizer, step: int) -> None:
    optimizer.zero_grad(set_to_none=False)
    _loss(model, step, step % 2 == 0).backward()
    optimizer.step()


def _accumulating(model: _Net, optimizer: stretto.Optimizer, step: int) -> None:
    optimizer.zero_grad()
    with optimizer.no_sync():
        _loss(model, 10 * step).backward()
        with optimizer.no_sync():
            _loss(model, 10 * step + 1, use_all=False).backward()
        _loss(model, 10 * step + 2).backward()
    _loss(model, 10 * step + 3).backward()
    optimizer.step()


def _none_by_the_model(model: _Net, optimizer: stretto.Optimizer, step: int) -> None:
    optimizer.zero_grad()
    model.zero_grad()
    _loss(model, step).backward()
    optimizer.step()


def _by_the_model_alone(model: _Net, optimizer: stretto.Optimizer, step: int) -> None:
    model.zero_grad()
    _loss(model, step).backward()
    _loss(model, step + 100).backward()
    optimizer.step()


def _with_a_graph(model: _Net, optimizer: stretto.Optimizer, step: int) -> None:
    optimizer.zero_grad()
    _loss(model, step).backward(create_graph=True)
    optimizer.step()


def _by_closure(model: _Net, optimizer: stretto.Optimizer, step: int) -> None:
    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = _loss(model, step)
        loss.backward()
        return loss

    assert optimizer.step(closure).item() > 0


def _with_a_meeting(model: _Net, optimizer: stretto.Optimizer, step: int) -> None:
    optimizer.zero_grad()
    _loss(model, step).backward()
    optimizer.step()
    optimizer.zero_grad()
    with optimizer.together():
        _loss(model, step).backward()  # as an evaluation of gradients: no batch
        model.zero_grad()


STEPS_OF: dict[str, Step] = {
    "plainly": _plainly,
    "with parameters unused": _with_unused,
    "to zeros": _to_zeros,
    "accumulating in no_sync()": _accumulating,
    "none by the model": _none_by_the_model,
    "by the model alone": _by_the_model_alone,
    "with a graph": _with_a_graph,
    "by closure": _by_closure,
    "with a meeting": _with_a_meeting,
    "clipping before the step": _plainly,
}


def _train(how: str, width: int, overlap: bool) -> list[bytes]:
    torch.manual_seed(stretto.rank())  # rank 0's weights count
    model = _Net(width)
    optimizer = _wrap(model, overlap)
    if how.startswith("clipping"):
        optimizer.before_step(lambda: torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1))
    for step in range(STEPS):
        STEPS_OF[how](model, optimizer, step)
        assert optimizer.last_rounds == 1
    optimizer.finish()
    assert optimizer.batches_applied == STEPS * stretto.size()
    return _bits(model)


def _both() -> dict[tuple[str, int], tuple[list[bytes], list[bytes]]]:
    return {(how, width): (_train(how, width, True), _train(how, width, False)) for how in STEPS_OF for width in WIDTHS}


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_bits_are_those_without_overlap(ranks: int) -> None:
    found = values(_both, ranks, timeout=240)
    for which, (overlapped, plain) in found[0].items():
        assert overlapped == plain, which
    assert all(theirs == found[0] for theirs in found)
    assert len({b"".join(plain) for _, plain in found[0].values()}) > len(found[0]) // 2


# ---- when they are handed over ----


def _handed_over_in_backward(width: int) -> dict[str, list[int]]:
    """How many buckets have been, where the backward pass comes to a parameter, and after it."""
    model = _Net(width)
    optimizer = _wrap(model)
    overlap = optimizer._tensors.overlap
    assert overlap is not None
    seen: dict[str, list[int]] = {"all": [], "unused": [], "kept back": [], "without zero_grad()": []}
    now: list[int] = []
    model.first.weight.register_hook(lambda _: now.append(overlap.handed_over))
    for kind, counts in seen.items():
        if kind != "without zero_grad()":
            optimizer.zero_grad()
        now = counts
        with optimizer.no_sync() if kind == "kept back" else torch.enable_grad():
            _loss(model, 1, use_all=kind != "unused").backward()
        now.append(overlap.handed_over)
        optimizer.step()
        now.append(overlap.handed_over)
    optimizer.finish()
    assert all(not p._post_accumulate_grad_hooks for p in model.parameters())  # type: ignore[attr-defined]
    return seen


@pytest.mark.parametrize("width", WIDTHS)
def test_buckets_are_handed_over_while_backward_goes_on(width: int) -> None:
    for seen in values(_handed_over_in_backward, 2, timeout=240, args=(width,)):
        within, after, over = seen["all"]
        assert (after, over) == (6, 0)
        assert 4 <= within <= 5  # the first layer's weight, and perhaps its bias, are not there yet
        assert seen["unused"][1:] == [2, 0]  # the last layer; what comes next has no gradient before step()
        assert seen["kept back"] == [0, 0, 0]
        assert seen["without zero_grad()"] == [0, 0, 0]


def _left_after_backward() -> tuple[int, list[bytes]]:
    model = _Net()
    optimizer = _wrap(model)
    optimizer.zero_grad()
    _loss(model, 1).backward()
    optimizer.finish()
    return optimizer.batches_applied, _bits(model)


def test_finish_brings_what_the_backward_pass_has_handed_over() -> None:
    first, second = values(_left_after_backward, 2, timeout=240)
    assert first == second
    assert first[0] == 2


def _two_players(overlap: bool) -> list[list[bytes]]:
    torch.manual_seed(0)
    first, second = _Net(), _Net()
    optimizers = [_wrap(first, overlap), _wrap(second, overlap, bucket_mb=4)]
    for step in range(STEPS):
        optimizers[0].zero_grad()
        (_loss(first, step) + _loss(second, step).detach()).backward()
        optimizers[0].step()
        optimizers[1].zero_grad()
        (_loss(first, step + 100) * _loss(second, step)).backward()  # adds to gradients of the first, too
        optimizers[1].step()
    for optimizer in optimizers:
        optimizer.finish()
    return [_bits(first), _bits(second)]


def _two_players_both() -> tuple[Any, Any]:
    return _two_players(True), _two_players(False)


def test_two_optimizers_whose_losses_reach_both_models() -> None:
    for overlapped, plain in values(_two_players_both, 2, timeout=240):
        assert overlapped == plain


def _in_ddp(overlap: bool, how: str) -> list[bytes]:
    torch.manual_seed(0)
    ddp = DistributedDataParallel(_Net())
    optimizer = _wrap(ddp, overlap)
    stretto.attach(ddp, optimizer)
    for step in range(STEPS):
        optimizer.zero_grad()
        if how == "no_sync":
            with ddp.no_sync():
                _loss(ddp, 10 * step).backward()
        else:
            ddp.require_backward_grad_sync = False
            _loss(ddp, 10 * step).backward()
            ddp.require_backward_grad_sync = True
        _loss(ddp, 10 * step + 1).backward()
        if overlap:
            assert optimizer._tensors.overlap is not None
            assert optimizer._tensors.overlap.handed_over == 6
        optimizer.step()
    optimizer.finish()
    return _bits(ddp)


def _in_ddp_both() -> list[list[bytes]]:
    dist.init_process_group("gloo")
    return [_in_ddp(overlap, how) for overlap in (True, False) for how in ("no_sync", "flag")]


def test_no_sync_of_ddp_keeps_gradients_back() -> None:
    for found in values(_in_ddp_both, 2, timeout=240):
        assert all(theirs == found[0] for theirs in found)


# ---- what is refused ----


def _backward_twice(model: _Net, optimizer: stretto.Optimizer) -> None:
    _loss(model, 1).backward()
    _loss(model, 2).backward()


def _backward_twice_unheard(model: _Net, optimizer: stretto.Optimizer) -> None:
    _loss(model, 1).backward()
    with pytest.raises(stretto.UsageError):
        _loss(model, 2).backward()
    optimizer.step()


def _zeroed_without_step(model: _Net, optimizer: stretto.Optimizer) -> None:
    _loss(model, 1).backward()
    optimizer.zero_grad()


def _clipped_before_step(model: _Net, optimizer: stretto.Optimizer) -> None:
    _loss(model, 1).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
    optimizer.step()


def _dropped_before_step(model: _Net, optimizer: stretto.Optimizer) -> None:
    _loss(model, 1).backward()
    model.last.bias.grad = None
    optimizer.step()


def _scaled(model: _Net, optimizer: stretto.Optimizer) -> None:
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(_loss(model, 1)).backward()
    scaler.step(optimizer)


REFUSED: dict[Callable[[_Net, stretto.Optimizer], None], str] = {
    _backward_twice: "UsageError: a second gradient of parameter last.bias in one step, after the first has been "
    "handed over (overlap=True): expected no_sync() around all backward passes of a step but the last",
    _backward_twice_unheard: "UsageError: a second gradient of parameter last.bias in one step",
    _zeroed_without_step: "UsageError: zero_grad() after a backward pass whose gradients have been handed over in it "
    "(overlap=True): expected step() after it, or no overlap where a batch may be dropped",
    _clipped_before_step: "has changed after the backward pass has handed it over (overlap=True): expected changes, as "
    "by clip_grad_norm_(), in before_step(), or no overlap",
    _dropped_before_step: "UsageError: the gradient of parameter last.bias has changed",
    _scaled: "UsageError: torch.amp.GradScaler with overlap=True: gradients are handed over before it has divided them",
}


def _refused(name: str, on: int, width: int) -> None:
    model = _Net(width)
    optimizer = _wrap(model)
    for step in range(3):
        _plainly(model, optimizer, step)
    optimizer.zero_grad()
    if stretto.rank() == on:
        globals()[name](model, optimizer)
    _loss(model, 9).backward()
    optimizer.step()
    print("another step was made")


@pytest.mark.parametrize(
    ("wrong", "width"),
    [(wrong, WIDTHS[number % 2]) for number, wrong in enumerate(REFUSED)],
    ids=[wrong.__name__[1:] for wrong in REFUSED],
)
def test_what_may_not_be_done_to_gradients_that_others_read(wrong: Callable[..., None], width: int) -> None:
    results = run(_refused, 2, timeout=240, args=(wrong.__name__, 1, width))
    assert all(result.status == 1 for result in results), said(results)
    assert REFUSED[wrong] in results[1].stderr, said(results)
    assert REFUSED[wrong].removeprefix("UsageError: ") in results[0].stderr, said(results)  # rank 0 hears why
    assert "another step" not in results[0].stdout + results[1].stdout


@pytest.mark.parametrize(
    ("algorithm", "options", "dtype", "complaint"),
    [
        ("eager-quorum", {}, torch.float32, "overlap with algorithm 'eager-quorum': expected sync"),
        ("sync", {"normalize": "samples"}, torch.float32, "overlap with normalize samples"),
        ("sync", {}, torch.float16, "parameter first.weight is torch.float16, which needs a torch.amp.GradScaler"),
    ],
)
def test_refused_at_construction(algorithm: str, options: Any, dtype: torch.dtype, complaint: str) -> None:
    model = _Net().to(dtype)
    with pytest.raises(stretto.UsageError, match=complaint):
        stretto.Optimizer(torch.optim.SGD(model.parameters(), 0.1), model, algorithm, overlap=True, **options)
