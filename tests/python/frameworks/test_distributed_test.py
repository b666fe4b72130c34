"""PyTorch's own tests of DistributedDataParallel, with step() in place of the reducer's allreduce.

These six, because they run on CPUs and look at what attach() changes:
- DistributedDataParallelCPU: five steps against one process over the whole batch, and the module pickled;
- ..._grad_is_view: the same where DDP would have p.grad in its buckets;
- accumulate_gradients_no_sync: local gradients within no_sync(), averaged sums after it, over several buckets of DDP's;
- ..._grad_is_view: the same in DDP's buckets;
- grads_same_across_ranks_with_no_sync: each rank uses other parameters in each of two passes;
- ddp_create_graph: six backward passes that replace p.grad by a tensor with a graph, of a parameter without dimensions.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import traceback
from collections.abc import Iterator
from typing import Any

import pytest
import ranks
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from stretto import Optimizer, attach
from stretto._ddp import AttachedDistributedDataParallel

TESTS = [
    "test_DistributedDataParallelCPU",
    "test_DistributedDataParallelCPU_grad_is_view",
    "test_accumulate_gradients_no_sync",
    "test_accumulate_gradients_no_sync_grad_is_view",
    "test_grads_same_across_ranks_with_no_sync",
    "test_ddp_create_graph",
]


class _Adapter:
    """What the tests expect of a DDP: that gradients are averaged when a backward pass outside no_sync() returns."""

    def __init__(self) -> None:
        self.steps = 0
        self._forward = DistributedDataParallel.forward
        self._no_sync = AttachedDistributedDataParallel.no_sync
        self._backward: Any = torch.Tensor.backward
        self._optimizers: dict[Any, Optimizer] = {}
        self._run: list[Any] = []  # since the last backward pass, outside no_sync()
        self._accumulates = False

    def make(self, module: torch.nn.Module, **options: Any) -> Any:
        """In place of the constructor. The rate is 0: the tests move the weights themselves."""
        options.pop("find_unused_parameters", None)  # refused, since not needed
        ddp = DistributedDataParallel(module, **options)
        self._optimizers[ddp] = Optimizer(torch.optim.SGD(ddp.parameters(), lr=0.0), ddp, "sync")
        attach(ddp, self._optimizers[ddp])
        return ddp

    def forward(self, ddp: Any, *args: Any, **kwargs: Any) -> Any:
        """In place of DDP's."""
        if torch.is_grad_enabled() and not self._accumulates:
            self._run.append(ddp)
        return self._forward(ddp, *args, **kwargs)

    @contextlib.contextmanager
    def no_sync(self, ddp: Any) -> Iterator[None]:
        """In place of that of an attached DDP, which it calls."""
        self._accumulates = True
        with self._no_sync(ddp):
            yield
        self._accumulates = False

    def backward(self, loss: torch.Tensor, *args: Any, **kwargs: Any) -> None:
        """In place of a tensor's."""
        self._backward(loss, *args, **kwargs)
        while self._run:
            self._optimizers[self._run.pop()].step()
            self.steps += 1

    def finish(self) -> None:
        while self._optimizers:
            self._optimizers.popitem()[1].finish()


def _run_tests(folder: str) -> dict[str, tuple[int, str]]:
    """Of each test: the steps made, and what went wrong."""
    torch.set_num_threads(1)
    os.environ.update(BACKEND="gloo", INIT_METHOD=f"file://{folder}/store", TEMP_DIR=folder)
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", init_method=os.environ["INIT_METHOD"], rank=rank, world_size=size)
    from torch.testing._internal.common_utils import TestCase
    from torch.testing._internal.distributed import distributed_test

    class Case(distributed_test.DistributedTest._DistTestBase, TestCase):
        def _barrier(self, *_: object, **__: object) -> None:
            dist.barrier()

    kind: Any = Case
    ended = {}
    for name in TESTS:
        adapter = _Adapter()
        case: Any = kind(name)
        case.rank = rank
        torch.manual_seed(0)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(distributed_test, "DistributedDataParallel", adapter.make)
            patch.setattr(torch.nn.parallel, "DistributedDataParallel", adapter.make)
            patch.setattr(DistributedDataParallel, "forward", lambda *args, **kwargs: adapter.forward(*args, **kwargs))
            patch.setattr(AttachedDistributedDataParallel, "no_sync", lambda ddp: adapter.no_sync(ddp))
            patch.setattr(torch.Tensor, "backward", lambda *args, **kwargs: adapter.backward(*args, **kwargs))
            try:
                getattr(case, name)()
                adapter.finish()
                ended[name] = (adapter.steps, "")
            except Exception:
                ended[name] = (adapter.steps, traceback.format_exc())
    dist.destroy_process_group()
    return ended


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, tuple[int, str]]]:
    folder: pathlib.Path = tmp_path_factory.mktemp("distributed_test")
    return ranks.values(_run_tests, 2, timeout=180, args=(str(folder),))


@pytest.mark.parametrize(("name", "steps"), list(zip(TESTS, (5, 5, 1, 1, 1, 6))))
def test_of_torch(name: str, steps: int, ended: list[dict[str, tuple[int, str]]]) -> None:
    for of_rank in ended:
        assert of_rank[name] == (steps, ""), of_rank[name][1]
