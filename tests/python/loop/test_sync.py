"""sync: the bits of one process that adds up the same gradients, and the weights of DDP."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F

import stretto
from ranks import values

torch.set_num_threads(1)  # tensors are small


# ---- bits ----

OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "SGD": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, nesterov=True, weight_decay=0.01),
    "AdamW": lambda p: torch.optim.AdamW(p, 0.01, amsgrad=True),
    "Adagrad": lambda p: torch.optim.Adagrad(p, 0.05),
}
WIDTHS = (5, 120)  # gradients that stay in one place, and those that go from set to set
STEPS = 12


class _Net(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = torch.nn.Linear(6, width)
        self.sometimes = torch.nn.Linear(width, width)
        self.last = torch.nn.Linear(width, 3)

    def forward(self, x: torch.Tensor, use_all: bool) -> torch.Tensor:
        x = torch.tanh(self.first(x))
        return self.last(x + self.sometimes(x) if use_all else x)


def _loss(model: _Net, rank: int, step: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1000 * rank + step)
    x = torch.randn(4, 6, generator=generator)
    use_all = step % 3 == 1 or (step % 3 == 2 and rank == 0)  # by all ranks, by one, by none
    return model(x, use_all).square().mean()


def _weights(model: torch.nn.Module) -> list[bytes]:
    return [p.detach().numpy().tobytes() for p in model.parameters()]


def _on_ranks() -> dict[tuple[str, int], list[bytes]]:
    trained = {}
    for name, make in OPTIMIZERS.items():
        for width in WIDTHS:
            torch.manual_seed(stretto.rank())  # rank 0's weights count
            model = _Net(width)
            optimizer = stretto.Optimizer(make(model.parameters()), model, "sync")
            for step in range(STEPS):
                optimizer.zero_grad()
                _loss(model, stretto.rank(), step).backward()
                optimizer.step()
                assert optimizer.last_rounds == 1
            assert (optimizer.rounds, optimizer.batches_applied) == (STEPS, STEPS * stretto.size())
            optimizer.finish()
            trained[name, width] = _weights(model)
    return trained


def _sum_in_fixed_order(gradients: list[torch.Tensor]) -> torch.Tensor:
    """Ranks 2i and 2i + 1 first, as many pairs as leave a power of two; then neighbours at distance 1, 2, 4, …"""
    power = 1 << (len(gradients).bit_length() - 1)
    folded = len(gradients) - power
    sums = [gradients[2 * i] + gradients[2 * i + 1] for i in range(folded)] + gradients[2 * folded :]
    while len(sums) > 1:
        sums = [sums[i] + sums[i + 1] for i in range(0, len(sums), 2)]
    return sums[0]


def _in_one_process(make: Callable[[Any], torch.optim.Optimizer], width: int, ranks: int) -> list[bytes]:
    torch.manual_seed(0)
    model = _Net(width)
    optimizer = make(model.parameters())
    for step in range(STEPS):
        gradients = []
        for rank in range(ranks):
            optimizer.zero_grad()
            _loss(model, rank, step).backward()
            gradients.append([p.grad for p in model.parameters()])
        for p, of_ranks in zip(model.parameters(), zip(*gradients)):
            if all(g is None for g in of_ranks):
                p.grad = None
            else:
                p.grad = _sum_in_fixed_order([torch.zeros_like(p) if g is None else g for g in of_ranks]) / ranks
        optimizer.step()
    return _weights(model)


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_bits_of_one_process(ranks: int) -> None:
    of_ranks = values(_on_ranks, ranks, timeout=240)
    for name, make in OPTIMIZERS.items():
        for width in WIDTHS:
            expected = _in_one_process(make, width, ranks)
            for rank in range(ranks):
                assert of_ranks[rank][name, width] == expected, (name, width, rank)


# ---- DDP ----

DDP_STEPS = 100
LONG = bool(os.environ.get("STRETTO_LONG_TESTS"))


class _Tied(torch.nn.Module):
    """An embedding that is the last layer, too, around a frozen layer."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(20, 8)
        self.frozen = torch.nn.Linear(8, 8).requires_grad_(False)
        self.hidden = torch.nn.Linear(8, 8)
        self.last = torch.nn.Linear(8, 20, bias=False)
        self.last.weight = self.embed.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = x.abs().mul(7).long().clamp(max=19)
        return self.last(torch.tanh(self.hidden(self.frozen(self.embed(tokens)))).mean(1))


class _Lstm(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = torch.nn.LSTM(4, 8, num_layers=2, batch_first=True)
        self.last = torch.nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.lstm(x.view(-1, 4, 4))[0][:, -1])


def _mlp() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 5))


def _convolution() -> torch.nn.Module:
    layers = torch.nn.Sequential(
        torch.nn.Unflatten(1, (1, 4, 4)), torch.nn.Conv2d(1, 8, 3), torch.nn.Tanh(), torch.nn.Conv2d(8, 5, 2),
        torch.nn.Flatten(),
    )
    return layers.to(memory_format=torch.channels_last)


def _batch_norm() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Linear(16, 12), torch.nn.BatchNorm1d(12), torch.nn.Tanh(), torch.nn.Linear(12, 5)
    )


def _compiled(model: torch.nn.Module) -> torch.nn.Module:
    backend = "inductor" if LONG else "aot_eager"
    return torch.compile(model, backend=backend)  # type: ignore[return-value]


MODELS: dict[str, Callable[[], torch.nn.Module]] = {
    "MLP": _mlp,
    "convolution, channels_last": _convolution,
    "LSTM": _Lstm,
    "BatchNorm": _batch_norm,
    "tied and frozen weights": _Tied,
    "accumulation over 4 batches": _mlp,
    "autocast": _mlp,
    "torch.compile": lambda: _compiled(_mlp()),
}


def _backward(
    name: str, model: Callable[..., Any], generator: torch.Generator, batches: int, no_sync: Callable[[], Any]
) -> None:
    """The gradients of a step, over so many batches that are drawn, are added to what there is."""
    autocast = torch.autocast("cpu", dtype=torch.bfloat16, enabled=name == "autocast")
    for batch in range(batches):
        x = torch.randn(8, 16, generator=generator)
        target = torch.randint(0, 5, (8,), generator=generator)
        with no_sync() if batch < batches - 1 else contextlib.nullcontext():
            with autocast:
                loss = F.cross_entropy(model(x), target) / batches
            loss.backward()


def _train(name: str, model: torch.nn.Module, optimizer: torch.optim.Optimizer, no_sync: Callable[[], Any]) -> None:
    generator = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(DDP_STEPS):
        optimizer.zero_grad()
        _backward(name, model, generator, 4 if name.startswith("accumulation") else 1, no_sync)
        optimizer.step()


def _beside_ddp(names: list[str]) -> dict[str, tuple[list[torch.Tensor], list[torch.Tensor]]]:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    trained = {}
    for name in names:
        make = MODELS[name]
        torch.manual_seed(0)
        model = make()
        ddp = torch.nn.parallel.DistributedDataParallel(model)
        _train(name, ddp, _optimizer(model), ddp.no_sync)
        theirs = [p.detach().clone() for p in model.parameters()]
        torch.manual_seed(0)
        model = make()
        optimizer = stretto.Optimizer(_optimizer(model), model, "sync")
        _train(name, model, optimizer, contextlib.nullcontext)
        optimizer.finish()
        trained[name] = (theirs, [p.detach().clone() for p in model.parameters()])
    dist.destroy_process_group()
    return trained


def _optimizer(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD([p for p in model.parameters() if p.requires_grad], 0.05, momentum=0.9)


def _ranks_of(name: str) -> int:
    """Two numbers have one sum. Of three, DDP's and the fixed order's may differ by a rounding, large in bfloat16."""
    return 3 if LONG and name != "autocast" else 2


@functools.cache
def _trained(ranks: int) -> list[dict[str, tuple[list[torch.Tensor], list[torch.Tensor]]]]:
    return values(_beside_ddp, ranks, timeout=300, args=([name for name in MODELS if _ranks_of(name) == ranks],))


@pytest.mark.parametrize("name", MODELS)
def test_weights_of_ddp(name: str) -> None:
    for rank in _trained(_ranks_of(name)):
        theirs, ours = rank[name]
        assert len(theirs) == len(ours) > 0
        moved = 0.0
        torch.manual_seed(0)
        for p, q, start in zip(theirs, ours, MODELS[name]().parameters()):
            assert (p - q).abs().max().item() <= 1e-6
            moved = max(moved, (q - start).abs().max().item())
        assert moved > 0.01  # they have been trained
