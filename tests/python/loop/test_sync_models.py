"""sync on four ranks: the bits of one process that adds up the same gradients in the fixed order, for many models.

STRETTO_LONG_TESTS compiles by inductor, and makes a hundred steps.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import stretto
from ranks import values
from test_sync import MODELS, _backward, _optimizer, _sum_in_fixed_order

torch.set_num_threads(1)  # tensors are small

LONG = bool(os.environ.get("STRETTO_LONG_TESTS"))
RANKS = 4
STEPS = 100 if LONG else 8
ATTACHED = "no_sync of a DDP that is attached"
WIDE = "wide convolution"  # its gradients go from set to set
CASES: dict[str, Callable[[], torch.nn.Module]] = {
    **MODELS,
    WIDE: lambda: torch.nn.Sequential(
        torch.nn.Unflatten(1, (1, 4, 4)), torch.nn.Conv2d(1, 256, 3), torch.nn.Conv2d(256, 64, 2), torch.nn.Flatten()
    ).to(memory_format=torch.channels_last),
    ATTACHED: MODELS["MLP"],
}


def _step(name: str, model: Any, rank: int, step: int, no_sync: Callable[[], Any]) -> None:
    """The gradients of a step of a rank are added to what there is."""
    batches = 4 if name.startswith("accumulation") or name == ATTACHED else 1
    _backward(name, model, torch.Generator().manual_seed(1000 * rank + step), batches, no_sync)


def _bits(model: torch.nn.Module) -> str:
    return hashlib.sha256(b"".join(p.detach().contiguous().numpy().tobytes() for p in model.parameters())).hexdigest()


def _on_ranks() -> dict[str, str]:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    trained = {}
    for name, make in CASES.items():
        torch.manual_seed(0)
        model = make()
        loop: Any = DistributedDataParallel(model) if name == ATTACHED else model
        optimizer = stretto.Optimizer(_optimizer(model), loop, "sync")
        if name == ATTACHED:
            stretto.attach(loop, optimizer)
        for step in range(STEPS):
            optimizer.zero_grad()
            _step(name, loop, stretto.rank(), step, getattr(loop, "no_sync", contextlib.nullcontext))
            optimizer.step()
        optimizer.finish()
        trained[name] = _bits(model)
    dist.destroy_process_group()
    return trained


@functools.cache
def _trained() -> list[dict[str, str]]:
    return values(_on_ranks, RANKS, timeout=500)


def _in_one_process(name: str) -> str:
    torch.manual_seed(0)
    model = CASES[name]()
    optimizer = _optimizer(model)
    for step in range(STEPS):
        gradients = []
        for rank in range(RANKS):
            optimizer.zero_grad()
            _step(name, model, rank, step, contextlib.nullcontext)
            gradients.append([p.grad for p in model.parameters() if p.requires_grad])
        for p, of_ranks in zip((p for p in model.parameters() if p.requires_grad), zip(*gradients)):
            p.grad = _sum_in_fixed_order(list(of_ranks)) / RANKS  # type: ignore[arg-type]
        optimizer.step()
    return _bits(model)


@pytest.mark.parametrize("name", CASES)
def test_bits_of_one_process(name: str) -> None:
    expected = _in_one_process(name)
    torch.manual_seed(0)
    assert expected != _bits(CASES[name]())  # it has been trained
    assert [of_rank[name] for of_rank in _trained()] == [expected] * RANKS
