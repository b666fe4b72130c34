"""What a process keeps of optimizers that have finished, and of steps: nothing. What it takes beside a model."""

from __future__ import annotations

import ctypes
import gc
import os
import pathlib
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import stretto
from ranks import values
from stretto import _device, _tensors
from stretto._tensors import Tensors

torch.set_num_threads(1)  # tensors are small

MEBIBYTE = 1 << 20
LONG = bool(os.environ.get("STRETTO_LONG_TESTS"))


class _Mallinfo(ctypes.Structure):
    _names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"  # mallinfo(3)
    _fields_ = [(name, ctypes.c_size_t) for name in _names.split()]


def _allocated() -> int:
    """Bytes that malloc() has handed out and not got back."""
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = _Mallinfo
    now = mallinfo()
    return int(now.uordblks) + int(now.hblkhd)


def _resident() -> int:
    """Bytes of this process in memory, of its own and shared, with what malloc() keeps for later."""
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _hooks() -> list[int]:
    """Of Torch's optimizers, modules and tensors: entries that a library may leave in what outlives it."""
    from torch.nn.modules import module
    from torch.optim import optimizer

    tables: list[Any] = [value for name, value in vars(module).items() if name.startswith("_global")]
    tables += [optimizer._global_optimizer_pre_hooks, optimizer._global_optimizer_post_hooks]
    return [len(table) for table in tables if hasattr(table, "__len__")]


def _held() -> dict[str, Any]:
    gc.collect()
    return {
        "objects": len(gc.get_objects()),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "tasks": len(os.listdir("/proc/self/task")),
        "mappings of shared memory": pathlib.Path("/proc/self/maps").read_text().count("memfd:stretto"),
        "hooks": _hooks(),
        "excepthook": sys.excepthook,
        "parts": len(stretto._job.parts()),
    }


# ---- optimizers ----


def _wrap(model: torch.nn.Module) -> stretto.Optimizer:
    sgd = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    return stretto.Optimizer(sgd, model, "eager-quorum", max_lag=2)


def _train(model: torch.nn.Module, optimizer: stretto.Optimizer) -> None:
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    optimizer.on_round(lambda done: None)
    optimizer.before_step(lambda: None)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(2, 64)).square().mean().backward()
        optimizer.step()
        scheduler.step()
    optimizer.finish()


def _plain() -> None:
    """A model of a third of a MiB, its gradients in sets of the shared memory."""
    model = torch.nn.Linear(64, 1280)
    _train(model, _wrap(model))


def _attached() -> None:
    model = DistributedDataParallel(torch.nn.Linear(64, 1280))
    optimizer = _wrap(model)
    stretto.attach(model, optimizer)
    _train(model, optimizer)


def _dropped() -> None:
    """One that has not finished, of a process alone."""
    model = torch.nn.Linear(64, 1280)
    optimizer = _wrap(model)
    model(torch.ones(2, 64)).square().mean().backward()
    optimizer.step()


def _many(make: Callable[[], None], number: int) -> tuple[list[dict[str, Any]], list[int], list[int]]:
    """What is held, bytes allocated, and bytes in memory, after a fifth of the optimizers, and after all of them."""
    if make is _attached:
        dist.init_process_group("gloo")
    held, allocated, resident = [], [], []
    for part in (number // 5, number - number // 5):
        for _ in range(part):
            make()
        held.append({**_held(), "excepthook": id(sys.excepthook)})
        allocated.append(_allocated())
        resident.append(_resident())
    if make is _attached:
        dist.destroy_process_group()
    return held, allocated, resident


def _assert_flat(make: Callable[[], None], ranks: int, number: int) -> None:
    for rank, (held, allocated, resident) in enumerate(values(_many, ranks, timeout=500, args=(make, number))):
        objects, descriptors, tasks = ([h.pop(name) for h in held] for name in ("objects", "descriptors", "tasks"))
        objects, descriptors, tasks, bytes_allocated, bytes_resident = (
            after - before for before, after in (objects, descriptors, tasks, allocated, resident)
        )
        print(
            f"rank {rank}: of {number} optimizers the last {number - number // 5} add {objects} objects, "
            f"{bytes_allocated / MEBIBYTE:.2f} MiB allocated, {bytes_resident / MEBIBYTE:.1f} MiB resident"
        )
        assert held[1] == held[0], rank
        assert descriptors <= 0 and tasks <= 0, rank  # Gloo closes descriptors, and ends threads, late
        assert objects < number // 5, rank  # not one that an optimizer leaves
        assert bytes_allocated < 4 * MEBIBYTE, rank  # a model, or a set of its gradients, is a third of a MiB
        assert bytes_resident < 64 * MEBIBYTE, rank  # of 80 sets of two ranks it would be 50, and 100 of 400


@pytest.mark.parametrize(
    "make, ranks, number",
    [(_plain, 1, 1000 if LONG else 400), (_plain, 2, 100), (_dropped, 1, 200), (_attached, 2, 50)],
    ids=["alone", "two ranks", "never finished", "attached"],
)
def test_optimizers_leave_nothing(make: Callable[[], None], ranks: int, number: int) -> None:
    _assert_flat(make, ranks, number)


# ---- steps ----

ALGORITHMS = ("sync", "eager-quorum", "wagma", *(("eager-solo", "local") if LONG else ()))
SETS = 6  # of a rank at a board


def _allocate() -> dict[tuple[str, int], tuple[int, int, int, int]]:
    """By algorithm and width: blocks that 1,000 steps have added to Python's, bytes that they have added to what
    malloc() has handed out, views made in all steps, and how often all of them were made anew.
    """
    made = remade = 0
    make, remake = _tensors._view, Tensors._remake_views

    def counted(whole: torch.Tensor, offset: int, p: torch.Tensor) -> torch.Tensor:
        nonlocal made
        made += 1
        return make(whole, offset, p)

    def counted_again(tensors: Tensors) -> None:
        nonlocal remade
        remade += 1
        remake(tensors)

    _tensors._view = counted
    Tensors._remake_views = counted_again  # type: ignore[method-assign]
    grown = {}
    for algorithm in ("sync", *ALGORITHMS):  # Torch keeps something of the first
        for width in (8, 1280):  # gradients that stay in one place, and those that go from set to set
            model = torch.nn.Linear(64, width)
            inner = torch.optim.SGD(model.parameters(), 1e-4, momentum=0.9)
            optimizer = stretto.Optimizer(inner, model, algorithm)
            before = (made, remade)
            blocks = allocated = 0
            for step in range(1010):
                if step == 10:
                    gc.collect()
                    blocks, allocated = sys.getallocatedblocks(), _allocated()
                optimizer.zero_grad()
                model(torch.ones(2, 64)).square().mean().backward()
                optimizer.step()
            gc.collect()
            added = sys.getallocatedblocks() - blocks, _allocated() - allocated
            grown[algorithm, width] = (*added, made - before[0], remade - before[1])
            optimizer.finish()
    return grown


def test_steps_keep_nothing_and_remake_no_views() -> None:
    for rank, grown in enumerate(values(_allocate, 2, timeout=500)):
        print(f"rank {rank}: blocks and bytes that 1,000 steps add, views made, and remade: {grown}")
        for case, (blocks, allocated, views, remade) in grown.items():
            assert remade == 0, (rank, case)
            assert views <= 2 * (2 + SETS), (rank, case)  # weight and bias: flat, gradients of its own, and in each set
            assert blocks < 500, (rank, case)  # a block a step would be 1,000; now and then Python keeps some
            assert allocated < 16_000, (rank, case)  # malloc() hands out 32 bytes at least, in 1,000 steps 32,000


# ---- beside the model ----


def _taken() -> int:
    """Bytes that this process has written to, without what malloc() keeps for later; of memory that ranks share its
    part. Not what it reads of files, or has as the process that it was forked from: these are others' as long as they
    live, which is up to the tests beside this one."""
    ctypes.CDLL(None).malloc_trim(0)
    total = 0
    shared = False
    for line in pathlib.Path("/proc/self/smaps").read_text().splitlines():
        name, *rest = line.split()
        if not name.endswith(":"):
            shared = rest[0].endswith("s")
        elif name == ("Pss:" if shared else "Private_Dirty:"):
            total += int(rest[0]) << 10
    return total


class _AtOnce:
    """A device whose memory is the host's, and whose copies are there at once."""

    def __init__(self, where: torch.device) -> None:
        pass

    def pin(self, address: int, size: int) -> str:
        return ""

    def unpin(self, address: int) -> None:
        pass

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        target.copy_(source)

    def wait(self, event: None) -> None:
        pass

    compute_after = wait

    def captures(self) -> bool:
        return False

    def computed(self) -> None:
        pass

    compute_after_noted = computed


def _beside_model(algorithm: str = "sync", staged: bool = False) -> tuple[float, float, float]:
    """In sizes of a model of 16 MiB: what is taken when the optimizer is made, after steps, and after together()."""
    model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024, bias=False) for _ in range(4)))

    def compute() -> None:
        model(torch.ones(2, 1024)).square().mean().backward()

    def taken(since: int) -> float:
        stretto.barrier()
        now = _taken()
        stretto.barrier()
        return (now - since) / (16 * MEBIBYTE)

    compute()  # Torch keeps something of the first pass
    model.zero_grad()
    gc.collect()
    if staged:
        _device.KINDS["cpu"] = _AtOnce  # type: ignore[assignment]
        os.environ[_device.SWITCH] = "stage"
    stretto.barrier()
    before = _taken()
    inner = torch.optim.SGD(model.parameters(), 1e-4, momentum=0.9)
    optimizer = stretto.Optimizer(inner, model, algorithm, sync_every=2 if algorithm == "local" else 0)
    constructed = taken(before)
    for _ in range(6):
        optimizer.zero_grad()
        compute()
        optimizer.step()
    trained = taken(before)
    with optimizer.together():
        pass
    met = taken(before)
    optimizer.finish()
    return constructed, trained, met


def _of_a_rank(*args: Any) -> list[float]:
    of_ranks = values(_beside_model, 2, args=args)
    print("models that a rank takes, constructed, trained and behind together():", of_ranks)
    return [sum(numbers) / 2 for numbers in zip(*of_ranks)]


def test_sync_takes_two_models_beside_the_model_and_its_momentum() -> None:
    constructed, trained, _ = _of_a_rank()
    assert trained - 1 < 2.9  # two: gradients, and half of the results of two rounds; and what Torch and Python load
    assert constructed < trained + 0.2


@pytest.mark.parametrize("algorithm", ["sync", "local"])
def test_a_model_on_a_device_takes_a_set_of_the_host_and_what_is_added_up(algorithm: str) -> None:
    constructed, trained, met = _of_a_rank(algorithm, True)
    weights, results = (1, 4) if algorithm == "local" else (0, 2)  # weights stay where they are averaged
    assert constructed < 1 + weights + 0.8  # gradients on the device; and what Torch and Python load
    assert trained < 2 + weights + 1 + results / 2 + 0.8  # momentum there, too; a set; results of two ranks
    assert met < 2 + weights + 0.8  # no copy of the weights, or of the momentum, has stayed
