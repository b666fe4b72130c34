"""A model in DistributedDataParallel, trained by stretto.Optimizer after attach()."""

from __future__ import annotations

import hashlib
import pathlib
import time
from collections.abc import Callable
from typing import Any

import ranks
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import stretto
from stretto import _ddp


def _start() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")


def _model() -> torch.nn.Sequential:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(10, 20), torch.nn.ReLU(), torch.nn.Linear(20, 2))


def _sgd(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)


def _backward(model: torch.nn.Module, seed: int, by_reducer: bool = False) -> None:
    x = torch.randn(8, 10, generator=torch.Generator().manual_seed(seed))
    loss: Any = torch.nn.functional.cross_entropy(model(x), (x.sum(1) > 0).long())
    if by_reducer:  # as Accelerator.trigger_sync_in_backward() starts it
        assert isinstance(model, DistributedDataParallel)
        model.reducer.prepare_for_backward([])
    loss.backward()


def _bits(model: torch.nn.Module) -> str:
    return hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()


# ---- equal to the model without DDP ----


def _train(wrap: Callable[[torch.nn.Module], torch.nn.Module], accumulate: str = "") -> str:
    """Ten steps under sync; returns a hash of the weights."""
    model: Any = wrap(_model())
    optimizer = stretto.Optimizer(_sgd(model), model, "sync", fixed_order=True)
    if isinstance(model, DistributedDataParallel):
        stretto.attach(model, optimizer)
    for step in range(10):
        optimizer.zero_grad()
        for part in range(4 if accumulate else 1):
            last = part == 3
            seed = 100 * step + 10 * part + stretto.rank()
            if accumulate == "no_sync" and not last:
                with model.no_sync():
                    _backward(model, seed)
                continue
            if accumulate == "flag":
                model.require_backward_grad_sync = last
            _backward(model, seed, by_reducer=accumulate == "reducer" and last)
        optimizer.step()
    optimizer.finish()
    return _bits(model)


def _in_view(model: torch.nn.Module) -> torch.nn.Module:
    return DistributedDataParallel(model, gradient_as_bucket_view=True)


class _Derived(DistributedDataParallel):
    pass


def _equal_to_plain() -> dict[str, str]:
    _start()
    accumulated = {how: _train(DistributedDataParallel, how) for how in ("no_sync", "flag", "reducer")}
    return {
        "plain": _train(lambda model: model),
        "ddp": _train(DistributedDataParallel),
        "view": _train(_in_view),
        "derived": _train(_Derived),
        "plain, accumulated": _train(lambda model: model, "by four"),
        **accumulated,
        "reducer, view": _train(_in_view, "reducer"),
    }


def test_attached_equals_the_model_without_ddp_to_the_bit() -> None:
    first, second = ranks.values(_equal_to_plain, 2, timeout=180)
    assert first == second
    assert len({first[kind] for kind in ("plain", "ddp", "view", "derived")}) == 1
    assert len({first[kind] for kind in ("plain, accumulated", "no_sync", "flag", "reducer", "reducer, view")}) == 1
    assert first["plain"] != first["plain, accumulated"]


# ---- no rank waits for another ----


def _uneven(batches: list[int]) -> tuple[int, str, list[str]]:
    _start()
    ddp = DistributedDataParallel(_model())
    optimizer = stretto.Optimizer(_sgd(ddp), ddp)
    stretto.attach(ddp, optimizer)
    for step in range(batches[stretto.rank()]):
        optimizer.zero_grad()
        _backward(ddp, 10 * step + stretto.rank())
        optimizer.step()
    optimizer.finish()
    return optimizer.batches_applied, _bits(ddp), list(ddp.state_dict())


def test_uneven_loaders_end_also_one_without_a_batch() -> None:
    results = ranks.run(_uneven, 4, timeout=180, args=([100, 80, 60, 0],))
    assert [r.status for r in results] == [0] * 4, ranks.said(results)
    assert {r.value[0] for r in results} == {240}
    assert len({r.value[1] for r in results}) == 1
    assert results[0].value[2] == ["module.0.weight", "module.0.bias", "module.2.weight", "module.2.bias"]
    assert "oin" not in "".join(r.stdout + r.stderr for r in results)


def _sleep_once(folder: str) -> tuple[int, int, str]:
    """Rank 3 has no step to make until each of the others has made `max_lag` more."""
    _start()
    max_lag = 4
    ddp = DistributedDataParallel(_model())
    optimizer = stretto.Optimizer(_sgd(ddp), ddp, "eager-quorum", max_lag=max_lag)
    stretto.attach(ddp, optimizer)
    alone = 0
    for step in range(10):
        if step == 3:
            with optimizer.together():
                before = optimizer.rounds
        if step == 3 and stretto.rank() == 3:
            while len(list(pathlib.Path(folder).iterdir())) < 3:
                time.sleep(0.01)
        optimizer.zero_grad()
        _backward(ddp, 10 * step + stretto.rank())
        optimizer.step()
        if step == 2 + max_lag and stretto.rank() != 3:
            alone = optimizer.rounds - before
            (pathlib.Path(folder) / str(stretto.rank())).touch()
    optimizer.finish()
    return alone, optimizer.batches_applied, _bits(ddp)


def test_others_lose_nothing_up_to_max_lag_rounds_to_one_that_sleeps(tmp_path: pathlib.Path) -> None:
    values = ranks.values(_sleep_once, 4, timeout=180, args=(str(tmp_path),))
    assert [alone for alone, _, _ in values] == [4, 4, 4, 0]  # each step of theirs has applied its round
    assert [applied for _, applied, _ in values] == [40] * 4
    assert len({bits for _, _, bits in values}) == 1


def _rebuild_late() -> tuple[list[bool], str, str]:
    """A reducer started by hand rebuilds its buckets once, in the next forward pass, where all ranks wait."""
    _start()
    ddp = DistributedDataParallel(_model())
    optimizer = stretto.Optimizer(_sgd(ddp), ddp, "eager-quorum", max_lag=1)
    stretto.attach(ddp, optimizer)
    rebuilt = []
    gradient = ""
    for step in range(6):
        if step == 1 and stretto.rank() == 2:
            time.sleep(0.5)
        optimizer.zero_grad()
        _backward(ddp, 10 * step + stretto.rank(), by_reducer=step < 3)
        if step == 0:
            gradient = str([p.grad.tolist() for p in ddp.parameters() if p.grad is not None])
        optimizer.step()
        rebuilt.append(ddp._has_rebuilt_buckets)
    optimizer.finish()
    return rebuilt, gradient, _bits(ddp)


def test_rebuilding_buckets_waits_for_a_late_rank_and_goes_on() -> None:
    values = ranks.values(_rebuild_late, 3, timeout=180)
    assert len({bits for _, _, bits in values}) == 1
    assert len({gradient for _, gradient, _ in values}) == 3  # each rank's own
    assert [rebuilt for rebuilt, _, _ in values] == [[False] + [True] * 5] * 3


def _attach_after_a_backward_pass() -> tuple[bool, int]:
    """One that has trained before rebuilds its buckets in attach(), and waits for nobody afterwards."""
    _start()
    ddp = DistributedDataParallel(_model())
    _backward(ddp, 0)
    optimizer = stretto.Optimizer(_sgd(ddp), ddp)
    stretto.attach(ddp, optimizer)
    for step in range(5 * stretto.rank()):  # rank 0: none
        optimizer.zero_grad()
        _backward(ddp, step)
        optimizer.step()
    optimizer.finish()
    return ddp.reducer._rebuild_buckets(), optimizer.batches_applied


def test_attach_after_a_backward_pass() -> None:
    assert ranks.values(_attach_after_a_backward_pass, 2, timeout=180) == [(False, 5)] * 2


# ---- what is refused ----


def _says(call: Callable[[], object]) -> str:
    try:
        call()
    except stretto.UsageError as error:
        return str(error)
    return "nothing"


def _refusals() -> dict[str, str]:
    _start()
    said: dict[str, str] = {}
    model = _model()
    optimizer = stretto.Optimizer(_sgd(model), model, "sync")

    def refuse(name: str, ddp: Any, by: Any = optimizer) -> None:
        said[name] = _says(lambda: stretto.attach(ddp, by))

    refuse("no DDP", model)
    ddp = DistributedDataParallel(model)
    refuse("no wrapper", ddp, _sgd(model))
    refuse("foreign model", DistributedDataParallel(_model()))
    refuse("unused", DistributedDataParallel(model, find_unused_parameters=True))
    refuse("static", DistributedDataParallel(model, static_graph=True))
    hooked = DistributedDataParallel(model)
    hooked.register_comm_hook(None, _ddp._keep)
    refuse("hook", hooked)
    built_in: Any = DistributedDataParallel(model)
    built_in._register_builtin_comm_hook(torch._C._distributed_c10d.BuiltinCommHookType.ALLREDUCE)
    refuse("built-in hook", built_in)
    groups = [dist.new_group([rank]) for rank in range(2)]
    refuse("group", DistributedDataParallel(model, process_group=groups[stretto.rank()]))
    norm = torch.nn.BatchNorm1d(2)
    model.append(norm)
    refuse("buffers", DistributedDataParallel(model))
    unlike: Any = DistributedDataParallel(model, broadcast_buffers=False)
    unlike.module.append(torch.nn.SyncBatchNorm(2))
    refuse("SyncBatchNorm", unlike)
    del model[4], model[3]

    del hooked, built_in, unlike
    said["first step"] = _says(optimizer.step)
    stretto.attach(ddp, optimizer)
    refuse("twice", ddp)
    from torch.distributed.algorithms.join import Join

    said["ddp.join()"] = _says(ddp.join)
    said["Join"] = _says(lambda: Join([ddp]))
    said["late hook"] = _says(lambda: ddp.register_comm_hook(None, _ddp._keep))
    said["attached"] = _says(optimizer.step)
    optimizer.finish()
    return said


EXPECTED = {
    "no DDP": "attach(Sequential): expected a DistributedDataParallel",
    "no wrapper": "attach(…, SGD): expected the stretto.Optimizer",
    "foreign model": "holds no parameter (0.weight is the model's first)",
    "unused": "find_unused_parameters, for which ranks wait for one another: expected False",
    "static": "static_graph, for which ranks wait for one another: expected False",
    "hook": "a communication hook already",
    "built-in hook": "a communication hook already",
    "group": "rank 0 of 1 in DDP's process group, and rank {rank} of 2 in stretto's job",
    "buffers": "expected forward_sync_buffers=False (broadcast_buffers=False in older versions of Torch)",
    "SyncBatchNorm": "module 4 is a SyncBatchNorm",
    "first step": "expected stretto.attach(ddp, optimizer) before the first step",
    "twice": "attached already: expected one attach()",
    "ddp.join()": "expected join() of the stretto.Optimizer, or its finish()",
    "Join": "expected join() of the stretto.Optimizer, or its finish()",
    "late hook": "register_comm_hook() after attach()",
    "attached": "nothing",
}


def test_what_waits_for_other_ranks_is_refused_by_name() -> None:
    for rank, said in enumerate(ranks.values(_refusals, 2, timeout=180)):
        assert said.keys() == EXPECTED.keys()
        for name, text in said.items():
            assert EXPECTED[name].format(rank=rank) in text, name
            assert "\n" not in text


def _unattached() -> dict[str, str]:
    _start()
    said = {}

    wrapped_before = DistributedDataParallel(_model())
    optimizer = stretto.Optimizer(_sgd(wrapped_before), wrapped_before, "sync")
    _backward(wrapped_before, 0)
    said["before"] = _says(optimizer.step)
    stretto.attach(wrapped_before, optimizer)
    said["attached"] = _says(optimizer.step)
    optimizer.finish()

    inside = torch.nn.ModuleList([DistributedDataParallel(torch.nn.Linear(2, 2)), torch.nn.Linear(2, 2)])
    optimizer = stretto.Optimizer(_sgd(inside), inside, "sync")
    said["inside"] = _says(optimizer.step)
    optimizer.finish()

    model = _model()
    optimizer = stretto.Optimizer(_sgd(model), model, "sync")
    wrapped_afterwards = DistributedDataParallel(model)
    said["afterwards"] = _says(optimizer.step)
    del wrapped_afterwards
    said["gone"] = _says(optimizer.step)
    optimizer.finish()

    other = DistributedDataParallel(_model())
    optimizer = stretto.Optimizer(_sgd(model), None, "sync")
    said["other"] = _says(optimizer.step)
    optimizer.finish()
    del other
    return said


def test_a_ddp_without_attach_is_refused_at_the_first_step() -> None:
    for said in ranks.values(_unattached, 2, timeout=180):
        for name, parameter in (("before", "module.0.weight"), ("inside", "module.weight"), ("afterwards", "module.0")):
            assert said.pop(name).startswith(f"parameter {parameter}"), name
        assert said == {"attached": "nothing", "gone": "nothing", "other": "nothing"}
