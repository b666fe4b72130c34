"""Gradients in one order: the bits of fixed buckets, whichever order it is, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import stretto
from ranks import values

torch.set_num_threads(1)  # tensors are small

STEPS = 8
ORDERS: tuple[dict[str, object], ...] = (
    {"ordering": "none"},
    {"ordering": "coordinator", "cycle-time": "1ms"},
    {"ordering": "topo"},
)


class _Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(6, 20)
        self.sometimes = torch.nn.Linear(20, 20)
        self.last = torch.nn.Linear(20, 3)

    def forward(self, x: torch.Tensor, use_all: bool) -> torch.Tensor:
        x = torch.tanh(self.first(x))
        return self.last(x + self.sometimes(x) if use_all else x)


def _trained(options: dict[str, object], overlap: bool) -> list[bytes]:
    torch.manual_seed(stretto.rank())  # rank 0's weights count
    model = _Net()
    sgd = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    optimizer = stretto.Optimizer(
        sgd, model, "sync", fixed_order=True, overlap=overlap, bucket_mb=0.0005, options=options
    )
    for step in range(STEPS + stretto.rank()):  # ranks have different numbers of batches
        optimizer.zero_grad()
        x = torch.randn(4, 6, generator=torch.Generator().manual_seed(1000 * stretto.rank() + step))
        use_all = step % 3 == 1 or (step % 3 == 2 and stretto.rank() == 0)  # by all ranks, by one, by none
        model(x, use_all).square().mean().backward()
        optimizer.step()
    optimizer.finish()
    return [p.detach().numpy().tobytes() for p in model.parameters()]


def _by_each_order() -> list[list[bytes]]:
    return [_trained(options, overlap) for options in ORDERS for overlap in (False, True)]


@pytest.mark.parametrize("ranks", [2, 3])
def test_every_order_trains_to_the_bits_of_none(ranks: int) -> None:
    for of_rank in values(_by_each_order, ranks, timeout=240):
        assert len(of_rank) == 2 * len(ORDERS)
        for weights in of_rank:
            assert weights == of_rank[0]


def _refused(algorithm: str, options: dict[str, object]) -> str:
    model = torch.nn.Linear(2, 2)
    with pytest.raises(stretto.UsageError) as raised:
        stretto.Optimizer(torch.optim.SGD(model.parameters(), 0.1), model, algorithm, options=options)
    return str(raised.value)


def test_options_that_do_not_fit_are_refused() -> None:
    assert "alphabetic" in _refused("sync", {"ordering": "alphabetic"})
    assert "expected one that orders, such as --ordering topo" in _refused("sync", {"cycle-time": "1ms"})
    assert "ordering topo with algorithm 'eager-quorum'" in _refused("eager-quorum", {"ordering": "topo"})


def _attached() -> str:
    dist.init_process_group("gloo")
    ddp: Any = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(2, 2)), broadcast_buffers=False)
    ddp.module.append(torch.nn.SyncBatchNorm(2))
    sgd = torch.optim.SGD(ddp.module.parameters(), 0.1)
    optimizer = stretto.Optimizer(sgd, ddp.module, "sync", options={"ordering": "topo"})
    try:
        stretto.attach(ddp, optimizer)
        said = "attached"
    except stretto.UsageError as error:
        said = str(error)
    optimizer.finish()
    dist.destroy_process_group()
    return said


def test_a_model_of_torch_that_sums_in_its_passes_is_refused_in_every_order() -> None:
    for said in values(_attached, 2, timeout=120):
        assert "module 1 is a SyncBatchNorm, in whose forward pass ranks wait for one another" in said
