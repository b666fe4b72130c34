"""Models on a device, behind the switch: with a device that is made up, whose copies come as late as they may.

No device of hardware is needed, and none is tested.
"""

from __future__ import annotations

import logging
import time
from typing import Any

import pytest
import torch

import stretto
from device_jobs import (
    SEEDS,
    STEPS,
    STEPS_OF,
    Net,
    contents,
    draw,
    loss,
    one,
    plainly,
    train,
    trained,
    uneven,
    wrap,
    wrapped,
)
from late_device import Late, bytes_of
from ranks import values
from stretto import _device


# ---- the bits of a model that is not on a device ----


def _both(algorithm: str, overlap: bool, seed: int | None) -> dict[str, tuple[Any, Any]]:
    Late.seed = draw(seed)
    return {
        how: (train(how, True, algorithm=algorithm, overlap=overlap), train(how, False, algorithm=algorithm))
        for how in STEPS_OF
    }


@pytest.mark.parametrize(
    ("ranks", "algorithm", "overlap", "seed"),
    [
        (1, "eager-quorum", False, None),
        (2, "sync", False, None),
        (3, "sync", False, None),
        (2, "sync", True, None),
        (3, "sync", True, None),
        (4, "sync", False, None),
        (8, "sync", True, None),
        *((2, "sync", overlap, seed) for seed in SEEDS for overlap in (False, True)),
    ],
)
def test_bits_are_those_of_a_model_that_is_not_on_a_device(
    ranks: int, algorithm: str, overlap: bool, seed: int | None
) -> None:
    found = values(_both, ranks, timeout=240, args=(algorithm, overlap, seed))
    for rank in found:
        for how, (staged, plain) in rank.items():
            assert staged == plain, how
            assert rank[how][0][0] == found[0][how][0][0], how


def _eagerly() -> tuple[list[bytes], int]:
    optimizer_of = train("plainly", True, algorithm="eager-solo", full_every=4)
    return optimizer_of[0], len(optimizer_of[1])


def test_eager_replicas_are_equal() -> None:
    found = values(_eagerly, 3, timeout=240)
    assert all(theirs == found[0] for theirs in found)


def _two_at_once(staged: bool) -> list[bytes]:
    torch.manual_seed(0)
    parts = [wrapped(staged) for _ in range(2)]
    for step in range(STEPS):
        for model, optimizer in parts:
            one(model, optimizer, step)
        if step == 3:
            with parts[0][1].together():
                pass
    for _, optimizer in parts:
        optimizer.finish()
    return [bytes_of(p.detach()) for model, _ in parts for p in model.parameters()]


def _by_samples(staged: bool) -> list[bytes]:
    """Divisors that bfloat16 does not have."""
    torch.manual_seed(0)
    model, optimizer = wrapped(staged, torch.bfloat16, normalize="samples")
    for step in range(STEPS):
        one(model, optimizer, step, 101 + 5 * stretto.rank() + step)
    optimizer.finish()
    return [bytes_of(p.detach()) for p in model.parameters()]


JOBS = {job.__name__: job for job in (uneven, _two_at_once, _by_samples)}


def _jobs(seed: int | None) -> dict[str, tuple[list[bytes], list[bytes]]]:
    Late.seed = draw(seed)
    return {name: (job(True), job(False)) for name, job in JOBS.items()}


@pytest.mark.parametrize("seed", [None, *SEEDS])
def test_bits_of_whole_jobs(seed: int | None) -> None:
    found = values(_jobs, 3, timeout=240, args=(seed,))
    for name in JOBS:
        for rank in found:
            assert rank[name][0] == rank[name][1] == found[0][name][0], name


def _late_at_random(algorithm: str, max_lag: int) -> tuple[list[bytes], int]:
    random = torch.Generator().manual_seed(stretto.rank())
    torch.manual_seed(0)
    model, optimizer = wrapped(True, algorithm=algorithm, max_lag=max_lag)
    for step in range(40):
        time.sleep(0.004 * max(0.0, torch.rand(1, generator=random).item() - 0.5))
        one(model, optimizer, step)
    optimizer.finish()
    return [bytes_of(p.detach()) for p in model.parameters()], optimizer.batches_applied


@pytest.mark.parametrize(("ranks", "algorithm", "max_lag"), [(3, "eager-solo", 1), (4, "eager-quorum:2", 3)])
def test_late_ranks_lose_no_gradient(ranks: int, algorithm: str, max_lag: int) -> None:
    found = values(_late_at_random, ranks, timeout=240, args=(algorithm, max_lag))
    assert all(weights == found[0][0] for weights, _ in found)
    assert [applied for _, applied in found] == [40 * ranks] * ranks


def _moved_by_hand() -> str:
    model, optimizer = wrapped(True)
    for step in range(100):
        try:
            one(model, optimizer, step)
        except stretto.Diverged as error:
            return str(error)
        if stretto.rank() == 1 and step == 3:
            with torch.no_grad():
                model[0].weight[0, 0] += 0.125
    optimizer.finish()
    return "nothing"


def test_weights_on_a_device_that_something_else_moves_are_told_in_the_first_rounds() -> None:
    for text in values(_moved_by_hand, 2, timeout=240):
        assert "had other weights than rank" in text


# ---- graphs ----


def _captured(model: Net, optimizer: stretto.Optimizer, use_all: bool) -> list[str]:
    """What is refused meanwhile. The passes are computed nowhere, and a graph's are."""
    gradients = [p.grad.clone() for p in trained(model) if p.grad is not None]
    running = [buffer.clone() for buffer in model.norm.buffers()]
    complaints = []
    with Late.capture():
        loss(model, 0, use_all).backward()
        for call in (optimizer.step, optimizer.zero_grad, optimizer.together().__enter__):
            with pytest.raises(stretto.UsageError) as refused:
                call()  # type: ignore[operator]
            complaints.append(str(refused.value))
    for p, gradient in zip(trained(model), gradients):
        p.grad.data.copy_(gradient)  # type: ignore[union-attr]
    for buffer, value in zip(model.norm.buffers(), running):
        buffer.copy_(value)
    return complaints


def _by_graphs(staged: bool, of_all: dict[int, bool]) -> tuple[list[bytes], list[str]]:
    """Steps of which all passes but the first are a graph's: no hook runs, and no gradient becomes a new version. Which
    steps have one captured before them, and whether that is of all parameters."""
    torch.manual_seed(stretto.rank())
    model = Net()
    optimizer = wrap(model, staged)
    plainly(model, optimizer, 0)
    complaints = []
    for step in range(1, STEPS):
        optimizer.zero_grad()
        if step in of_all:
            use_all = of_all[step]
            complaints += _captured(model, optimizer, use_all) if staged else []
        gradients = torch.autograd.grad(loss(model, step, use_all), trained(model), allow_unused=True)
        for p, gradient in zip(trained(model), gradients):
            assert p.grad is not None
            (p.grad.data if staged else p.grad).add_(0 if gradient is None else gradient)
        optimizer.step()
    optimizer.finish()
    return contents(model, optimizer), complaints


def _with_and_without_graphs(of_all: dict[int, bool]) -> tuple[Any, Any]:
    return _by_graphs(True, of_all), _by_graphs(False, of_all)


# What the first of two graphs alone computes counts as used, with a gradient of zeros, where the second is replayed.
@pytest.mark.parametrize("of_all", [{1: True}, {1: True, 3: False}])
def test_what_a_graph_computes_is_handed_over(of_all: dict[int, bool]) -> None:
    for (staged, complaints), (plain, _) in values(_with_and_without_graphs, 2, timeout=240, args=(of_all,)):
        assert staged == plain
        for call, complaint in zip(("step()", "zero_grad()", "together()") * len(of_all), complaints, strict=True):
            assert complaint.startswith(f"{call} while a graph of cpu is captured: expected forward and backward")


# ---- what is refused ----


class _Unused:
    def __init__(self, where: torch.device) -> None:
        pass


def test_models_on_devices_are_staged(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda, mps = torch.device("cuda", 1), torch.device("mps")
    monkeypatch.setitem(_device.KINDS, "cuda", _Unused)
    for switch, asked_for in (("", False), ("stage", True)):
        monkeypatch.setenv(_device.SWITCH, switch)
        assert _device.staging_of("parameter a", torch.device("cpu")) is None
        staging = _device.staging_of("parameter b", cuda)
        assert staging is not None and staging.where == cuda and staging.asked_for is asked_for
        with pytest.raises(stretto.UsageError, match="parameter b is on mps: expected cpu, or cuda$"):
            _device.staging_of("parameter b", mps)
    monkeypatch.setenv(_device.SWITCH, "gpu")
    with pytest.raises(stretto.UsageError, match="STRETTO_DEVICE='gpu': expected stage, or nothing"):
        _device.staging_of("parameter b", cuda)


def _told_where(asked_for: bool) -> list[str]:
    lines: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("stretto").addHandler(handler)
    of_device = _device.staging_of

    def staging_of(name: str, where: torch.device) -> _device.Staging | None:
        staging = of_device(name, where)
        assert staging is not None
        staging.asked_for = asked_for
        return staging

    _device.staging_of = staging_of
    wrap(Net(), True).finish()
    return lines


def test_one_rank_says_that_a_model_is_staged_unasked() -> None:
    (line,), others = values(_told_where, 2, timeout=240, args=(False,))
    assert line.startswith("the model is on cpu: gradients go through the host's memory (docs/gpus.md")
    assert not others
    assert values(_told_where, 2, timeout=240, args=(True,)) == [[], []]
