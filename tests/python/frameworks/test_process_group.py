"""Ranks that torch.distributed alone knows as several, as behind mp.spawn() and init_process_group(rank=…)."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch
import torch.distributed as dist
from ranks import Ranks, free_port, said

import stretto
from stretto import _process_group

_PLACE = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "STRETTO_JOB", "MASTER_ADDR", "MASTER_PORT")


def _in_group(fn: Any, path: pathlib.Path, args: Sequence[Any] = (), ranks: int = 2) -> list[Any]:
    """What `fn` returns on ranks whose place no variable tells."""

    def of_rank(rank: int) -> dict[str, str]:
        return {**dict.fromkeys(_PLACE, ""), "STRETTO_TEST_RANK": str(rank)}

    with Ranks(fn, ranks, args=(str(path / "store"), ranks, *args), env_of_rank=of_rank) as under_way:
        results = under_way.wait()
    assert all(result.status == 0 for result in results), said(results)
    return [result.value for result in results]


def _begin(store: str, ranks: int) -> int:
    torch.set_num_threads(1)
    rank = int(os.environ["STRETTO_TEST_RANK"])
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    return rank


def _model(seed: int) -> torch.nn.Linear:
    torch.manual_seed(seed)
    return torch.nn.Linear(4, 1)


def _train(store: str, ranks: int) -> tuple[int, int, int, list[float]]:
    rank = _begin(store, ranks)
    model = _model(rank)
    optimizer = stretto.Optimizer(torch.optim.SGD(model.parameters(), 0.1), model, "sync")
    for _ in range(5):
        optimizer.zero_grad()
        model(torch.full((8, 4), rank + 1.0)).square().mean().backward()
        optimizer.step()
    optimizer.finish()
    return rank, stretto.rank(), stretto.size(), model.weight.flatten().tolist()


def test_ranks_of_a_process_group_train_together(tmp_path: pathlib.Path) -> None:
    results = _in_group(_train, tmp_path, ranks=3)
    assert [result[:3] for result in results] == [(rank, rank, 3) for rank in range(3)]
    assert results[0][3] == results[1][3] == results[2][3]


def _sum(store: str, ranks: int) -> int:
    _begin(store, ranks)
    return stretto.rank() + 10 * stretto.size()


def test_two_groups_at_once_do_not_meet(tmp_path: pathlib.Path) -> None:
    import concurrent.futures

    paths = [tmp_path / name for name in ("a", "b")]
    for path in paths:
        path.mkdir()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        assert list(pool.map(lambda path: _in_group(_sum, path), paths)) == [[20, 21]] * 2


def _alone_first(store: str, ranks: int) -> str:
    model = _model(0)
    optimizer = stretto.Optimizer(torch.optim.SGD(model.parameters(), 0.1), model, "sync")
    _begin(store, ranks)
    model(torch.ones(8, 4)).sum().backward()
    try:
        optimizer.step()
    except stretto.UsageError as error:
        return str(error)
    return "nothing"


def test_a_group_that_begins_after_the_optimizer_is_refused(tmp_path: pathlib.Path) -> None:
    for heard in _in_group(_alone_first, tmp_path):
        assert "joined stretto alone" in heard
        assert "one of 2" in heard
        assert "stretto.init(rank=dist.get_rank(), ranks=dist.get_world_size())" in heard


_BY_RAY = {"RANK": "{rank}", "WORLD_SIZE": "4", "LOCAL_RANK": "{local}", "LOCAL_WORLD_SIZE": "2"}


def _on_hosts(store: str, ranks: int, folder: str, variables: Mapping[str, str]) -> tuple[int, int, bool, bool]:
    from torch.distributed.distributed_c10d import PrefixStore, _get_default_store

    rank = _begin(store, ranks)
    os.environ.update({name: value.format(rank=rank, local=rank % 2) for name, value in variables.items()})
    _process_group._BOOT_ID = pathlib.Path(folder) / f"boot id of {rank // 2}"
    os.environ["STRETTO_INTERFACE"] = "lo"
    stretto.init()
    place = _process_group.find_place(10)
    by_store = PrefixStore("stretto", _get_default_store()).check(["meeting"])
    return stretto.rank(), stretto.size(), place is not None and place.several_hosts, by_store


@pytest.mark.parametrize("launcher", ["none", "Ray", "by hand"])
def test_ranks_of_several_hosts_meet_by_the_store_or_where_they_are_told(tmp_path: pathlib.Path, launcher: str) -> None:
    for host in range(2):
        (tmp_path / f"boot id of {host}").write_text(f"host-{host}\n")
    by_hand = {"STRETTO_MEETING": f"127.0.0.1:{free_port()}"}
    variables = {"none": {}, "Ray": _BY_RAY, "by hand": by_hand}[launcher]
    heard = _in_group(_on_hosts, tmp_path, (str(tmp_path), variables), ranks=4)
    assert heard == [(rank, 4, True, launcher != "by hand") for rank in range(4)]


def _one_comes(store: str, ranks: int) -> str:
    if _begin(store, ranks) == 0:
        try:
            stretto.init(timeout=0.5)
        except stretto.Timeout as error:
            return str(error)
    return "nothing"


def test_a_rank_that_does_not_come_is_named(tmp_path: pathlib.Path) -> None:
    heard = _in_group(_one_comes, tmp_path, ranks=3)[0]
    assert heard.startswith("rank 1, 2 of torch.distributed has not come within 0.5 s")


def test_a_process_of_a_group_of_its_own_is_alone(tmp_path: pathlib.Path) -> None:
    assert _in_group(_sum, tmp_path, ranks=1) == [10]


# ---- models of which each rank holds a part ----


def _parts(how: str) -> Any:
    """An optimizer of a model that is divided so."""
    from torch.distributed.device_mesh import init_device_mesh

    model: Any = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    if how.startswith("FSDP1"):
        from torch.distributed.fsdp import FullyShardedDataParallel

        model = FullyShardedDataParallel(model, device_id=torch.device("cpu"), use_orig_params=how.endswith("original"))
    elif how == "FSDP2":
        from torch.distributed.fsdp import fully_shard

        fully_shard(model, mesh=mesh)
    elif how == "tensor parallel":
        from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

        parallelize_module(model, mesh, {"2": ColwiseParallel()})
    elif how.startswith("DTensor"):
        from torch.distributed.tensor import Replicate, Shard, distribute_module, distribute_tensor

        def place(name: str, module: torch.nn.Module, mesh: Any) -> None:
            for part, p in module.named_parameters(recurse=False):
                placements = [Replicate() if how.endswith("replicated") else Shard(0)]
                setattr(module, part, torch.nn.Parameter(distribute_tensor(p.data, mesh, placements)))

        distribute_module(model, mesh, place)
    return torch.optim.SGD(model.parameters(), 0.1), model


def _wrap_parts(store: str, ranks: int, how: str) -> list[str]:
    _begin(store, ranks)
    optimizer, model = _parts(how)
    heard = []
    for given in (model, None):
        try:
            stretto.Optimizer(optimizer, given, "sync")
            heard.append("nothing")
        except stretto.UsageError as error:
            heard.append(str(error))
    return heard


_DTENSOR = "DTensor, as of fully_shard() or parallelize_module()"


@pytest.mark.parametrize(
    "how, by",
    [
        ("FSDP1", "FullyShardedDataParallel"),
        ("FSDP1, original", "FullyShardedDataParallel"),
        ("FSDP2", _DTENSOR),
        ("tensor parallel", _DTENSOR),
        ("DTensor, replicated", _DTENSOR),
        ("DTensor, sharded", _DTENSOR),
    ],
)
def test_a_divided_model_is_refused_by_the_name_of_a_parameter(how: str, by: str, tmp_path: pathlib.Path) -> None:
    for with_model, without in _in_group(_wrap_parts, tmp_path, (how,)):
        assert with_model.startswith("parameter "), with_model
        assert f"is divided between ranks by {by}: expected a model" in with_model
        assert f"is divided between ranks by {by}: expected a model" in without


def _wrap_averaging(store: str, ranks: int) -> str:
    from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
    from torch.distributed.optim import PostLocalSGDOptimizer

    _begin(store, ranks)
    model = _model(0)
    try:
        inner = torch.optim.SGD(model.parameters(), 0.1)
        stretto.Optimizer(PostLocalSGDOptimizer(inner, PeriodicModelAverager(1)), model)
    except stretto.UsageError as error:
        return str(error)
    return "nothing"


def test_an_optimizer_that_exchanges_weights_itself_is_refused(tmp_path: pathlib.Path) -> None:
    for heard in _in_group(_wrap_averaging, tmp_path):
        assert heard.startswith("optimizer PostLocalSGDOptimizer of torch.distributed exchanges weights")
