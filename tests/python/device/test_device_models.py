"""Algorithms that average models, with a model on a device that is made up: its weights, and nothing else, are copied.

No device of hardware is needed, and none is tested.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch

import stretto
from late_device import Late, bytes_of, stage
from ranks import values
from stretto import _core, _device

torch.set_num_threads(1)  # tensors are small

STEPS = 13


def _net() -> torch.nn.Module:
    torch.manual_seed(stretto.rank())  # rank 0's weights count
    return torch.nn.Sequential(
        torch.nn.Linear(6, 300), torch.nn.BatchNorm1d(300), torch.nn.Tanh(), torch.nn.Linear(300, 30, bias=False)
    )


def _wrap(model: torch.nn.Module, staged: bool, algorithm: str, **options: Any) -> stretto.Optimizer:
    if staged:
        stage()
        os.environ[_device.SWITCH] = "stage"
    try:
        inner = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9, weight_decay=0.01)
        return stretto.Optimizer(inner, model, algorithm, bucket_mb=4e-3, **options)
    finally:
        os.environ.pop(_device.SWITCH, None)


def _step(model: torch.nn.Module, optimizer: stretto.Optimizer, step: int) -> None:
    optimizer.zero_grad()
    x = torch.randn(8, 6, generator=torch.Generator().manual_seed(1000 * stretto.rank() + step))
    model(x).square().mean().backward()
    optimizer.step()


def _bits(model: torch.nn.Module, optimizer: stretto.Optimizer) -> list[bytes]:
    momenta = [m for p in model.parameters() for m in optimizer.state.get(p, {}).values() if m is not None]
    return [bytes_of(t.detach().reshape(-1)) for t in [*model.state_dict().values(), *momenta]]


def _train(staged: bool, algorithm: str, options: dict[str, Any]) -> list[list[bytes]]:
    """What is there after each step, and at the end."""
    model = _net()
    optimizer = _wrap(model, staged, algorithm, **options)
    told = []
    optimizer.on_round(lambda _: told.append(bytes_of(next(iter(model.parameters())).detach().reshape(-1))))
    found = []
    for step in range(STEPS):
        _step(model, optimizer, step)
        found.append(_bits(model, optimizer))
        if step == 5:
            with optimizer.together(), torch.no_grad():
                found.append(_bits(model, optimizer))
                model[0].weight *= 0.5  # type: ignore[union-attr, operator]
        if step == 8:
            model[0].bias.data.mul_(0.5)  # type: ignore[union-attr, operator]
    optimizer.finish()
    return [*found, told, _bits(model, optimizer)]


ALIKE = {  # in each run
    "local": {"sync_every": 3},
    "diloco": {"sync_every": 4},
    "easgd": {"sync_every": 2},
    "d-psgd": {},
    "sgp": {},
    "ps-sync": {},
}
# What ranks do in these depends on when they come.
BY_TIME = {
    "local:quorum": {"sync_every": 3, "full_every": 12},
    "diloco:solo": {"sync_every": 4},
    "wagma:2": {},
    "wagma-quorum:2": {},
    "gossip-grad": {},
    "osgp": {},
    "ad-psgd": {},
    "easgd-async": {"sync_every": 2},
    "easgd-grid": {"options": {"average-momentum": "yes"}},
    "ps-async": {},
    "ssp:3": {},
    "k-sync:1": {},
}


def test_no_algorithm_is_left_out() -> None:
    averaging_gradients = {"sync", "eager-solo", "eager-majority", "eager-quorum", "eager-deadline"}
    here = {name.split(":")[0] for name in [*ALIKE, *BY_TIME]}
    assert here | averaging_gradients == set(_core.algorithms())


def _both(names: list[str]) -> dict[str, tuple[list[list[bytes]], list[list[bytes]]]]:
    options = {**ALIKE, **BY_TIME}
    return {name: (_train(True, name, options[name]), _train(False, name, options[name])) for name in names}


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_bits_are_those_of_a_model_that_is_not_on_a_device(ranks: int) -> None:
    names = [*ALIKE, *BY_TIME] if ranks == 1 else [*ALIKE]
    for found in values(_both, ranks, timeout=240, args=(names,)):
        for name, (staged, plain) in found.items():
            for step, (theirs, expected) in enumerate(zip(staged, plain, strict=True)):
                assert theirs == expected, (name, step)


def _ends() -> dict[str, list[bytes]]:
    ends = {}
    for name, options in BY_TIME.items():
        model = _net()
        optimizer = _wrap(model, True, name, **options)
        for step in range(STEPS):
            _step(model, optimizer, step)
        optimizer.finish()
        assert all(p.isfinite().all() for p in model.parameters())
        ends[name] = [bytes_of(p.detach()) for p in model.parameters()]
    return ends


def test_replicas_are_alike_at_the_end() -> None:
    found = values(_ends, 3, timeout=240)
    for name in BY_TIME:
        assert all(rank[name] == found[0][name] for rank in found), name


def _copies(algorithm: str, every: int) -> tuple[list[list[str]], int]:
    """What each step copies, and the number of buckets, none of which is smaller than a page."""
    model = torch.nn.Sequential(*(torch.nn.Linear(width, 300, bias=False) for width in (6, 300, 300)))
    optimizer = _wrap(model, True, algorithm, sync_every=every)
    found = []
    for step in range(STEPS):
        Late.log.clear()
        _step(model, optimizer, step)
        found.append(list(Late.log))
    optimizer.finish()
    assert not Late.pinned
    return found, optimizer._loop.num_buckets


@pytest.mark.parametrize("algorithm", ["local", "diloco"])
def test_an_exchange_is_a_copy_of_a_bucket_each_way_and_nothing_else_is_copied(algorithm: str) -> None:
    every = 4
    for steps, buckets in values(_copies, 2, timeout=240, args=(algorithm, every)):
        assert buckets >= 3
        exchange = ["copy to the host"] * buckets + ["copy to the device"] * buckets
        expected = [exchange if step % every == 0 else [] for step in range(1, STEPS + 1)]
        if algorithm == "diloco":  # keeps the weights that all have begun with
            expected[0] = exchange
        assert steps == expected


def _infinite() -> str:
    model = _net()
    optimizer = _wrap(model, True, "local", sync_every=3)
    for step in range(STEPS):
        optimizer.zero_grad()
        (model(torch.ones(8, 6)) * (float("inf") if step == 4 and stretto.rank() == 1 else 1.0)).sum().backward()
        try:
            optimizer.step()
        except stretto.Aborted as error:
            return str(error)
    return "nothing"


def test_a_gradient_of_its_own_that_is_not_finite_is_named() -> None:
    for text in values(_infinite, 2, timeout=240):
        assert "0.weight (element" in text or "0.bias (element" in text or "3.weight (element" in text, text
