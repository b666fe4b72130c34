"""stretto.Optimizer on several ranks: every algorithm, how all begin alike, and how what differs ends the job."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.ao import quantization

import stretto
from ranks import Result, run, said, values
from stretto import _core

torch.set_num_threads(1)  # tensors are small

ARGUMENTS = {"eager-deadline": "2,20ms", "ssp": "2", "k-sync": "2", "wagma": "2", "wagma-quorum": "2"}
OPTIONS = {"wagma": {"tau": 4}, "wagma-quorum": {"tau": 4}}
# These say how many ranks they want.
RANKS_OF = {"wagma": 4, "wagma-quorum": 4, "gossip-grad": 4, "ad-psgd": 4, "easgd-async": 3}


def _net() -> torch.nn.Sequential:
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Tanh(), torch.nn.Linear(4, 2))


def _sgd(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)


def _step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int = 0) -> None:
    generator = torch.Generator().manual_seed(100 * stretto.rank() + step)
    optimizer.zero_grad()
    model(torch.randn(6, 3, generator=generator)).square().mean().backward()
    optimizer.step()


def _hash(model: torch.nn.Module) -> str:
    return hashlib.sha256(b"".join(t.detach().numpy().tobytes() for t in model.state_dict().values())).hexdigest()


# ---- algorithms ----


def _train_by_each(names: list[str]) -> dict[str, tuple[str, int]]:
    trained = {}
    for name in names:
        torch.manual_seed(stretto.rank())
        model = _net()
        algorithm = f"{name}:{ARGUMENTS[name]}" if name in ARGUMENTS else name
        optimizer = stretto.Optimizer(_sgd(model), model, algorithm, options=OPTIONS.get(name))
        start = _hash(model)
        for step in range(12):
            _step(model, optimizer, step)
        optimizer.finish()
        assert _hash(model) != start
        trained[name] = (_hash(model), optimizer.rounds)
    return trained


@pytest.mark.parametrize("ranks", sorted({3, *RANKS_OF.values()}))
def test_every_algorithm(ranks: int) -> None:
    names = [name for name in _core.algorithms() if RANKS_OF.get(name, 3) == ranks]
    assert names
    first, *others = values(_train_by_each, ranks, timeout=240, args=(names,))
    assert list(first) == names
    for other in others:
        assert other == first


def _each_bucket_by_itself() -> tuple[list[list[float]], list[float], int]:
    """Each step gives one of three parameters a gradient, and leaves a fourth alone, which weight decay would move."""
    parameters = [torch.nn.Parameter(torch.zeros(40)) for _ in range(3)]
    idle = torch.nn.Parameter(torch.ones(40))
    inner = torch.optim.SGD([{"params": parameters}, {"params": [idle], "weight_decay": 0.5}], 1.0)
    optimizer = stretto.Optimizer(inner, algorithm="eager-solo", bucket_mb=1e-4, options={"rounds": "per-bucket"})
    for step in range(12 - stretto.rank()):
        optimizer.zero_grad()
        (parameters[(step + stretto.rank()) % 3].sum() * (stretto.rank() + 1)).backward()
        optimizer.step()
    optimizer.finish()
    return [p[:2].tolist() for p in parameters], idle[:2].tolist(), optimizer.batches_applied


def _three_times_by_itself() -> list[tuple[list[list[float]], list[float], int]]:
    return [_each_bucket_by_itself() for _ in range(3)]


def test_rounds_of_each_bucket() -> None:
    sums = [0.0, 0.0, 0.0]
    for rank in range(4):
        for step in range(12 - rank):
            sums[(step + rank) % 3] -= (rank + 1) / 4
    for rank in values(_three_times_by_itself, 4):
        for trained, idle, applied in rank:
            assert trained == [[of, of] for of in sums]
            assert idle == [1, 1]
            assert applied == 12 + 11 + 10 + 9


def _quantize() -> list[float]:
    torch.manual_seed(0)
    model = quantization.QuantWrapper(torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU()))
    model.qconfig = quantization.get_default_qat_qconfig("x86")
    quantization.prepare_qat(model.train(), inplace=True)
    optimizer = stretto.Optimizer(torch.optim.SGD(model.parameters(), 0.05), model)
    for step in range(6):
        x = torch.randn(4, 8, generator=torch.Generator().manual_seed(100 * stretto.rank() + step))
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    optimizer.finish()
    return [x for name, b in model.named_buffers() if name.endswith("min_val") for x in b.reshape(-1).tolist()]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_quantization_aware_training() -> None:
    """Its observers begin with shapes that grow in the first forward pass, on all ranks alike."""
    results = run(_quantize, 2)
    assert [r.status for r in results] == [0, 0], said(results)
    assert len(results[0].value) > 16 and results[1].value == results[0].value  # averaged
    for result in results:
        assert re.search(r"buffer \S+ is \[\d*\], and was \[\d*\]; .* more have changed", result.stderr)


class _Counting(torch.nn.Module):
    """With buffers that follow from this rank's batches."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 2)
        self.register_buffer("mean", torch.zeros(2))
        self.register_buffer("seen", torch.zeros(1))
        self.register_buffer("table", torch.zeros(1))

    def forward(self, x: torch.Tensor, step: int) -> torch.Tensor:
        self.mean = torch.full((2,), float(stretto.rank()))
        self.table = torch.full((4,), float(stretto.rank()))
        if stretto.rank() == 1 and step == 2:
            self.seen = torch.arange(3.0)
        return self.layer(x)


def _other_buffers(meet: str) -> tuple[list[list[float]], list[list[str]]]:
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("stretto").addHandler(handler)
    model = _Counting()
    optimizer = stretto.Optimizer(_sgd(model), model, "sync")
    told = []
    for step in range(4):
        optimizer.zero_grad()
        model(torch.ones(2, 3), step).sum().backward()
        optimizer.step()
        told.append(list(lines))
        lines.clear()
    if meet == "together":
        with optimizer.together():
            pass
    else:
        optimizer.finish()
    told.append(list(lines))
    held = [b.tolist() for b in model.buffers()]
    if meet == "together":
        optimizer.finish()
    return held, told


@pytest.mark.parametrize("meet", ["together", "finish"])
def test_buffers_that_change(meet: str) -> None:
    (first, told_first), (second, told_second) = values(_other_buffers, 2, args=(meet,))
    assert first == [[0.5, 0.5], [0.0], [0.5] * 4]
    assert second == [[0.5, 0.5], [0.0, 1.0, 2.0], [0.5] * 4]
    grown = "buffer table is [4], and was [1]: where ranks meet, those that all ranks have alike are averaged, and any "
    grown += "other stays each rank's own"
    differ = "a buffer is 'seen torch.float32 [1]' on rank 0, 'seen torch.float32 [3]' on rank 1: each rank keeps its "
    differ += "own"
    assert told_first == [[grown], [], [], [], [differ]]
    assert told_second == [[grown], [], [grown.replace("table is [4]", "seen is [3]")], [], [differ]]


def _move_and_train(algorithm: str) -> tuple[str, bool]:
    torch.manual_seed(0)
    model = _net()
    optimizer = stretto.Optimizer(_sgd(model), model, algorithm)
    for step in range(12):
        _step(model, optimizer, step)
        if step == 4 + stretto.rank():
            model.share_memory()
    optimizer.finish()
    return _hash(model), any(p.is_shared() for p in model.parameters())


@pytest.mark.parametrize("algorithm", ["sync", "eager-solo", "local", "wagma:2"])
def test_shared_memory_in_mid_run_parts_no_replicas(algorithm: str) -> None:
    results = run(_move_and_train, 2, args=(algorithm,))
    assert [r.status for r in results] == [0, 0], said(results)
    assert len({r.value for r in results}) == 1
    assert not results[0].value[1]
    for result in results:
        assert result.stderr.count("what other processes have of them does not follow any more") == 1


def _move_weights(algorithm: str, how: str) -> tuple[str, int]:
    torch.manual_seed(0)
    model = _net()
    optimizer = stretto.Optimizer(_sgd(model), model, algorithm)
    weight: Any = model[0].weight

    @torch.no_grad()
    def clamp(_: object = None) -> None:
        weight.clamp_(-0.01, 0.01)

    if how == "in on_round":
        optimizer.on_round(clamp)
    for step in range(120):
        try:
            _step(model, optimizer, step)
        except stretto.Diverged as error:
            return str(error), optimizer.rounds
        if how == "on one rank" and stretto.rank() == 1 and step == 3:
            with torch.no_grad():
                weight[0, 0] += weight[0, 0].abs() * 1e-6 + 1e-9
        if how == "behind step":
            clamp()
    optimizer.finish()
    return "", optimizer.rounds


def test_weights_that_are_moved_by_something_else_are_told_in_the_first_rounds() -> None:
    for algorithm in ("eager-solo", "eager-quorum:1", "sync"):
        for text, rounds in values(_move_weights, 2, args=(algorithm, "on one rank")):
            assert re.search(r"rank [01] had other weights than rank [01] at the beginning of round \d+: step", text)
            assert rounds < 40
        for text, _ in values(_move_weights, 2, args=(algorithm, "in on_round")):
            assert text == ""
    assert {text for text, _ in values(_move_weights, 2, args=("sync", "behind step"))} == {""}


# ---- all begin alike ----


def _begin() -> tuple[list[float], str]:
    torch.manual_seed(stretto.rank())
    model = _net()
    inner = _sgd(model)
    if stretto.rank() == 0:  # as after a checkpoint
        inner.load_state_dict({
            **inner.state_dict(),
            "state": {i: {"momentum_buffer": torch.full_like(p, 0.5)} for i, p in enumerate(model.parameters())},
        })
    optimizer = stretto.Optimizer(inner, model, "sync")
    momentum = [inner.state[p]["momentum_buffer"].mean().item() for p in model.parameters()]
    start = _hash(model)
    for step in range(3):
        _step(model, optimizer, step)
    optimizer.finish()
    return momentum, start + _hash(model)


def test_all_begin_as_rank_0() -> None:
    first, *others = values(_begin, 3, timeout=240)
    assert first[0] == [0.5] * 6
    assert others == [first, first]


def _buffers(buffers: str) -> tuple[bytes, bytes]:
    model = _net()
    optimizer = stretto.Optimizer(_sgd(model), model, "sync", buffers=buffers)  # type: ignore[arg-type]
    _step(model, optimizer)
    before = model[1].running_mean.numpy().tobytes()  # type: ignore[union-attr, operator]
    optimizer.finish()
    return before, model[1].running_mean.numpy().tobytes()  # type: ignore[union-attr, operator]


def _both_buffers() -> list[tuple[bytes, bytes]]:
    return [_buffers("average"), _buffers("local")]


def test_buffers() -> None:
    first, second = values(_both_buffers, 2, timeout=240)
    assert first[0][0] != second[0][0] and first[0][1] == second[0][1]
    assert first[1][0] != second[1][0]
    assert first[1][0] == first[1][1] and second[1][0] == second[1][1]


def _rounds() -> list[stretto.Round]:
    model = _net()
    optimizer = stretto.Optimizer(_sgd(model), model, "eager-quorum")
    heard: list[stretto.Round] = []
    optimizer.on_round(heard.append)
    for step in range(20 - 5 * stretto.rank()):
        _step(model, optimizer, step)
    with optimizer.together():
        assert sum(r.batches for r in heard) == optimizer.batches_applied
    optimizer.finish()
    assert [r.number for r in heard] == list(range(optimizer.rounds))
    return heard


def test_rounds_are_the_same_everywhere() -> None:
    first, *others = values(_rounds, 3, timeout=240)
    assert sum(r.batches for r in first) == 20 + 15 + 10
    assert sum(r.samples for r in first) == 20 + 15 + 10
    assert all(0 <= r.staleness <= 4 and r.contributors <= 3 and r.arrived <= 3 for r in first)
    assert others == [first, first]


def _two_optimizers() -> list[str]:
    """The end of one applies what is pending of the other."""
    models = [_net(), _net()]
    optimizers = [stretto.Optimizer(_sgd(model), model, "eager-solo") for model in models]
    for step in range(10):
        for model, optimizer in zip(models, optimizers):
            _step(model, optimizer, step)
    for optimizer in optimizers:
        optimizer.finish()
    return [_hash(model) for model in models]


def test_two_optimizers() -> None:
    first, *others = values(_two_optimizers, 3, timeout=240)
    assert others == [first, first]


# ---- what ends the job ----


def _ends(fn: Callable[..., Any], ranks: int, error: str, *texts: str) -> list[Result]:
    """Each rank ends by an exception of this kind, and the texts are in what it says."""
    results = run(fn, ranks, timeout=240)
    for result in results:
        assert result.status == 1, said(results)
        last = result.stderr.strip().splitlines()[-1]
        assert last.startswith(f"stretto._errors.{error}: "), said(results)
        for text in texts:
            assert text in last, said(results)
    return results


def _changes_its_rate() -> None:
    model = _net()
    optimizer = stretto.Optimizer(_sgd(model), model, "sync")
    for step in range(20):
        if step == 5 and stretto.rank() == 2:
            optimizer.param_groups[0]["lr"] = 0.025
        _step(model, optimizer, step)


def test_a_rate_of_one_rank_is_named() -> None:
    _ends(_changes_its_rate, 3, "Diverged", "has lr 0.0", "0.05", "0.025", "at round 5", "set rates in on_round()")


def _steps_by_hand() -> None:
    model = _net()
    inner = _sgd(model)
    optimizer = stretto.Optimizer(inner, model, "sync")
    _step(model, optimizer)
    if stretto.rank() == 1:
        inner.step()
    optimizer.finish()


def test_replicas_that_differ_at_the_end() -> None:
    _ends(_steps_by_hand, 3, "Diverged", "replicas differ from that of rank 0: rank 1", "step() alone may move")


def _raises_in_on_round() -> None:
    model = _net()
    optimizer = stretto.Optimizer(_sgd(model), model, "sync")

    def fail(done: stretto.Round) -> None:
        if done.number == 3 and stretto.rank() == 1:
            raise KeyError("what the callback says")

    optimizer.on_round(fail)
    try:
        for step in range(20):
            _step(model, optimizer, step)
    except KeyError as error:
        assert stretto.rank() == 1
        raise stretto.Aborted(f"here: {error}") from error


def test_an_exception_in_on_round_ends_all() -> None:
    results = _ends(_raises_in_on_round, 3, "Aborted", "what the callback says")
    assert "KeyError: 'what the callback says'" in results[0].stderr


def _raises_early(where: str) -> None:
    stretto.init()
    if stretto.rank() == 1 and where == "before":
        raise ValueError("there is no data here")
    model = _net()
    bucket_mb = -1 if stretto.rank() == 1 and where == "while it is made" else 4
    optimizer = stretto.Optimizer(_sgd(model), model, "sync", bucket_mb=bucket_mb)
    while True:
        _step(model, optimizer)


@pytest.mark.parametrize("where, text", [("before", "ValueError: there is no data here"), ("while it is made", "MiB")])
def test_an_exception_before_the_first_meeting_is_heard(where: str, text: str) -> None:
    results = run(_raises_early, 3, timeout=240, args=(where,))
    for rank in (0, 2):
        last = results[rank].stderr.strip().splitlines()[-1]
        assert last.startswith("stretto._errors.Aborted: rank 1 stopped the job: "), said(results)
        assert text in last


def _nan() -> None:
    model = _net()
    optimizer = stretto.Optimizer(_sgd(model), model, "eager-quorum")
    for step in range(1000):
        optimizer.zero_grad()
        model(torch.ones(4, 3)).sum().backward()
        if stretto.rank() == 1 and step == 5:
            model[3].bias.grad[1] = float("nan")  # type: ignore[union-attr, operator, index]
        optimizer.step()


def test_nan_is_named_everywhere() -> None:
    _ends(_nan, 3, "Aborted", "3.bias (element 1 is nan) is not finite on rank 1, step 5")


def _wrap_with(of_rank: list[dict[str, Any]]) -> None:
    mine = {"width": 4, "lr": 0.25, **of_rank[stretto.rank()]}
    model = torch.nn.Linear(3, mine.pop("width"))
    stretto.Optimizer(torch.optim.SGD(model.parameters(), mine.pop("lr")), model, **mine)


@pytest.mark.parametrize(
    "name, of_first, of_second, what, text",
    [
        ("max_lag", 4, 3, "options", " max-lag={} "),
        ("seats", 1, 2, "options", " seats={} "),
        ("algorithm", "sync", "eager-solo", "options", "'{} "),
        ("lr", 0.25, 0.5, "optimizer", "'lr': {},"),
        ("unused", "skip", "zero", "optimizer", "unused='{}'"),
        ("width", 4, 5, "model", "weight torch.float32 [{}, 3]'"),
    ],
)
def test_what_differs_is_refused_everywhere_with_both_values(
    name: str, of_first: object, of_second: object, what: str, text: str
) -> None:
    for result in run(_wrap_with, 2, timeout=240, args=([{name: of_first}, {name: of_second}],)):
        assert result.status == 1
        last = result.stderr.strip().splitlines()[-1]
        before, both = last.split(": on rank 1 it is ")
        assert before == f"stretto._errors.UsageError: rank 1 differs from rank 0 in its {what}"
        on_second, on_first = both.split(", on rank 0 ")
        assert text.format(of_second) in on_second and text.format(of_first) in on_first, last


# ---- where all meet ----


def _bits_of_a_wide_model(meet: bool) -> list[bytes]:
    """Of one whose gradients lie in the sets of the recipe, which is made anew after together()."""
    torch.manual_seed(0)
    model = torch.nn.Linear(200, 100)
    optimizer = stretto.Optimizer(torch.optim.SGD(model.parameters(), 0.1), model, "sync", bucket_mb=0.01)
    for step in range(6):
        optimizer.zero_grad()
        generator = torch.Generator().manual_seed(100 * stretto.rank() + step)
        model(torch.randn(4, 200, generator=generator)).square().mean().backward()
        optimizer.step()
        if meet:
            with optimizer.together():
                pass
            taken = [torch.full((n,), 7.0) for n in (200, 2_000, 20_000)]  # memory that the old sets may have had
            del taken
    optimizer.finish()
    return [p.detach().numpy().tobytes() for p in model.parameters()]


def _bits_with_and_without_meeting() -> tuple[list[bytes], list[bytes]]:
    return _bits_of_a_wide_model(True), _bits_of_a_wide_model(False)


@pytest.mark.parametrize("ranks", [1, 2])
def test_gradients_follow_the_sets_that_are_new_after_together(ranks: int) -> None:
    for meeting, plain in values(_bits_with_and_without_meeting, ranks, timeout=240):
        assert meeting == plain
