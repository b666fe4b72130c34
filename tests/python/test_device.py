"""Models on a device, behind the switch: with a device that is made up, whose copies come as late as they may.

No device of hardware is needed, and none is tested.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

import stretto
from late_device import Late, bytes_of
from ranks import run, said, values
from stretto import _device

torch.set_num_threads(1)  # tensors are small

STEPS = 6
MANY = 1000 if os.environ.get("STRETTO_LONG_TESTS") else 200


class _Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(6, 40)
        self.norm = torch.nn.BatchNorm1d(40)
        self.sometimes = torch.nn.Linear(40, 40)
        self.frozen = torch.nn.Linear(40, 40).requires_grad_(False)
        self.last = torch.nn.Linear(40, 3)

    def forward(self, x: torch.Tensor, use_all: bool = True) -> torch.Tensor:
        x = self.frozen(torch.tanh(self.norm(self.first(x))))
        return self.last(x + self.sometimes(x) if use_all else x)


def _loss(model: torch.nn.Module, seed: int, use_all: bool = True) -> torch.Tensor:
    x = torch.randn(4, 6, generator=torch.Generator().manual_seed(1000 * stretto.rank() + seed))
    return model(x, use_all).square().mean()  # type: ignore[no-any-return]


def _trained(model: torch.nn.Module) -> list[torch.nn.Parameter]:
    return [p for p in model.parameters() if p.requires_grad]


def _wrap(model: torch.nn.Module, staged: bool, algorithm: str = "sync", **options: Any) -> stretto.Optimizer:
    if staged:
        _device.KINDS["cpu"] = Late
        os.environ[_device.SWITCH] = "stage"
    try:
        inner = torch.optim.AdamW(_trained(model), 0.01, amsgrad=True)
        return stretto.Optimizer(inner, model, algorithm, bucket_mb=1e-4, **options)
    finally:
        os.environ.pop(_device.SWITCH, None)


# ---- the bits of a model that is not on a device ----

Step = Callable[[_Net, stretto.Optimizer, int], None]


def _plainly(model: _Net, optimizer: stretto.Optimizer, step: int) -> None:
    optimizer.zero_grad()
    _loss(model, step, use_all=step % 3 == 0 or (step % 3 == 1 and stretto.rank() == 0)).backward()
    optimizer.step()


def _accumulating(model: _Net, optimizer: stretto.Optimizer, step: int) -> None:
    optimizer.zero_grad()
    _loss(model, 10 * step).backward()
    with optimizer.no_sync():
        _loss(model, 10 * step + 1).backward()
    _loss(model, 10 * step + 2).backward()
    optimizer.step()


def _clipping(model: _Net, optimizer: stretto.Optimizer, step: int) -> None:
    optimizer.zero_grad()
    _loss(model, step).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)
    optimizer.step()


def _without_zero_grad(model: _Net, optimizer: stretto.Optimizer, step: int) -> None:
    model.zero_grad()
    _loss(model, step).backward()
    optimizer.step()


def _scaling(model: _Net, optimizer: stretto.Optimizer, step: int) -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
    optimizer.zero_grad()
    infinite = step == 2 and stretto.rank() == 0
    scaler.scale(_loss(model, step) * (float("inf") if infinite else 1.0)).backward()
    scaler.step(optimizer)


def _meeting(model: _Net, optimizer: stretto.Optimizer, step: int) -> None:
    _plainly(model, optimizer, step)
    with optimizer.together():
        with torch.no_grad():
            model.norm.running_mean.add_(1)
        averaged = optimizer.param_groups[0]["params"][0].grad
        assert averaged is not None and averaged.isfinite().all()


def _beginning_anew(model: _Net, optimizer: stretto.Optimizer, step: int) -> None:
    optimizer.zero_grad()
    _loss(model, step + 100).backward()  # in vain
    _plainly(model, optimizer, step)


STEPS_OF: dict[str, Step] = {
    "plainly": _plainly,
    "beginning anew": _beginning_anew,
    "accumulating": _accumulating,
    "clipping": _clipping,
    "without zero_grad()": _without_zero_grad,
    "scaling": _scaling,
    "meeting": _meeting,
}


def _contents(model: torch.nn.Module, optimizer: stretto.Optimizer) -> list[bytes]:
    state = [v for p in _trained(model) for _, v in sorted(optimizer.state[p].items())]
    return [bytes_of(t.detach().reshape(-1)) for t in [*model.state_dict().values(), *state]]


def _train(how: str, staged: bool, **options: Any) -> tuple[list[bytes], list[list[bytes]]]:
    """What is there at the end, and the gradients after each step."""
    torch.manual_seed(stretto.rank())  # rank 0's weights and buffers count
    model = _Net()
    optimizer = _wrap(model, staged, **options)
    gradients = []
    for step in range(STEPS):
        STEPS_OF[how](model, optimizer, step)
        gradients.append([bytes_of(p.grad) for p in _trained(model) if p.grad is not None])
    optimizer.finish()
    return _contents(model, optimizer), gradients


def _both(algorithm: str, overlap: bool) -> dict[str, tuple[Any, Any]]:
    return {
        how: (_train(how, True, algorithm=algorithm, overlap=overlap), _train(how, False, algorithm=algorithm))
        for how in STEPS_OF
    }


@pytest.mark.parametrize(
    ("ranks", "algorithm", "overlap"),
    [(1, "eager-quorum", False), (2, "sync", False), (3, "sync", False), (2, "sync", True), (3, "sync", True)],
)
def test_bits_are_those_of_a_model_that_is_not_on_a_device(ranks: int, algorithm: str, overlap: bool) -> None:
    found = values(_both, ranks, timeout=240, args=(algorithm, overlap))
    for rank in found:
        for how, (staged, plain) in rank.items():
            assert staged == plain, how
            assert rank[how][0][0] == found[0][how][0][0], how


def _eagerly() -> tuple[list[bytes], int]:
    optimizer_of = _train("plainly", True, algorithm="eager-solo", full_every=4)
    return optimizer_of[0], len(optimizer_of[1])


def test_eager_replicas_are_equal() -> None:
    found = values(_eagerly, 3, timeout=240)
    assert all(theirs == found[0] for theirs in found)


def _wrapped(staged: bool, dtype: torch.dtype = torch.float32, **options: Any) -> tuple[Any, stretto.Optimizer]:
    model = torch.nn.Sequential(torch.nn.Linear(6, 40), torch.nn.Tanh(), torch.nn.Linear(40, 3)).to(dtype)
    return model, _wrap(model, staged, **options)  # type: ignore[arg-type]


def _one(model: Any, optimizer: stretto.Optimizer, step: int, samples: int = 1) -> None:
    optimizer.zero_grad()
    _loss(lambda x, _: model(x.to(next(model.parameters()).dtype)).float(), step).backward()  # type: ignore[arg-type]
    optimizer.step(samples=samples)


def _uneven(staged: bool) -> list[bytes]:
    """The others' last rounds come without this rank, whose device may still copy the last sum."""
    torch.manual_seed(0)
    model, optimizer = _wrapped(staged)
    for step in range(12 - 4 * stretto.rank()):
        _one(model, optimizer, step)
    optimizer.finish()
    return [bytes_of(p.detach()) for p in model.parameters()]


def _two_at_once(staged: bool) -> list[bytes]:
    torch.manual_seed(0)
    parts = [_wrapped(staged) for _ in range(2)]
    for step in range(STEPS):
        for model, optimizer in parts:
            _one(model, optimizer, step)
        if step == 3:
            with parts[0][1].together():
                pass
    for _, optimizer in parts:
        optimizer.finish()
    return [bytes_of(p.detach()) for model, _ in parts for p in model.parameters()]


def _by_samples(staged: bool) -> list[bytes]:
    """Divisors that bfloat16 does not have."""
    torch.manual_seed(0)
    model, optimizer = _wrapped(staged, torch.bfloat16, normalize="samples")
    for step in range(STEPS):
        _one(model, optimizer, step, 101 + 5 * stretto.rank() + step)
    optimizer.finish()
    return [bytes_of(p.detach()) for p in model.parameters()]


JOBS = {job.__name__: job for job in (_uneven, _two_at_once, _by_samples)}


def _jobs() -> dict[str, tuple[list[bytes], list[bytes]]]:
    return {name: (job(True), job(False)) for name, job in JOBS.items()}


def test_bits_of_whole_jobs() -> None:
    found = values(_jobs, 3, timeout=240)
    for name in JOBS:
        for rank in found:
            assert rank[name][0] == rank[name][1] == found[0][name][0], name


def _late_at_random(algorithm: str, max_lag: int) -> tuple[list[bytes], int]:
    random = torch.Generator().manual_seed(stretto.rank())
    torch.manual_seed(0)
    model, optimizer = _wrapped(True, algorithm=algorithm, max_lag=max_lag)
    for step in range(40):
        time.sleep(0.004 * max(0.0, torch.rand(1, generator=random).item() - 0.5))
        _one(model, optimizer, step)
    optimizer.finish()
    return [bytes_of(p.detach()) for p in model.parameters()], optimizer.batches_applied


@pytest.mark.parametrize(("ranks", "algorithm", "max_lag"), [(3, "eager-solo", 1), (4, "eager-quorum:2", 3)])
def test_late_ranks_lose_no_gradient(ranks: int, algorithm: str, max_lag: int) -> None:
    found = values(_late_at_random, ranks, timeout=240, args=(algorithm, max_lag))
    assert all(weights == found[0][0] for weights, _ in found)
    assert [applied for _, applied in found] == [40 * ranks] * ranks


def _moved_by_hand() -> str:
    model, optimizer = _wrapped(True)
    for step in range(100):
        try:
            _one(model, optimizer, step)
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


# ---- when it copies, and what it leaves ----


def _order_of_copies() -> tuple[list[str], dict[int, int], int, bool]:
    model = _Net()
    optimizer = _wrap(model, True)
    model.first.weight.register_hook(lambda _: Late.log.append("the first layer"))
    optimizer.zero_grad()
    _loss(model, 1).backward()
    Late.log.append("step()")
    optimizer.step()
    optimizer.finish()
    hooks = sum(len(p._post_accumulate_grad_hooks or ()) for p in _trained(model))  # type: ignore[attr-defined]
    return Late.log, Late.pinned, hooks, Late.gradients == len(_trained(model))


def test_buckets_are_copied_while_backward_goes_on() -> None:
    for everything, pinned, hooks, all_noted in values(_order_of_copies, 2, timeout=240):
        log = [said for said in everything if said != "copy of what is not pinned"]  # the weights, where ranks meet
        first, step = log.index("the first layer"), log.index("step()")
        copies = log.count("copy to the device")
        assert log[:first].count("copy to the host") >= 2
        assert log[:step].count("copy to the host") == copies  # all buckets, each once
        assert log[step + 1 :] == ["copy to the device"] * copies
        assert not pinned
        assert hooks == 0
        assert all_noted  # the stream of each gradient, whether its bucket is complete or not


def _copies_to_the_host(how: str, steps: int) -> float:
    """Of a bucket in a step."""
    model = _Net()
    optimizer = _wrap(model, True)
    for step in range(steps):
        STEPS_OF[how](model, optimizer, step)
    optimizer.finish()
    return Late.log.count("copy to the host") / Late.log.count("copy to the device")


@pytest.mark.parametrize(
    ("how", "steps", "most"),
    [("plainly", 50, 1), ("accumulating", 100, 1.01), ("clipping", MANY, 1.05), ("scaling", MANY, 1.05)],
)
def test_buckets_are_copied_early_only_where_nothing_changes_them_later(how: str, steps: int, most: float) -> None:
    for copies in values(_copies_to_the_host, 2, timeout=240, args=(how, steps)):
        assert 1 <= copies <= most


def _when_accumulated_gradients_are_copied() -> list[str]:
    model = _Net()
    optimizer = _wrap(model, True)
    for step in range(3):
        Late.log.clear()
        optimizer.zero_grad()
        for part in range(3):
            Late.log.append(f"pass {part}")
            _loss(model, 10 * step + part).backward()
        Late.log.append("step()")
        optimizer.step()
    optimizer.finish()
    return Late.log


def test_accumulated_gradients_are_copied_in_the_last_pass() -> None:
    for log in values(_when_accumulated_gradients_are_copied, 2, timeout=240):
        last, step = log.index("pass 2"), log.index("step()")
        assert "copy to the host" not in log[:last]
        assert log[last:step].count("copy to the host") == log.count("copy to the device") > 0


def _after_clipping_for_a_while() -> list[int]:
    model = _Net()
    optimizer = _wrap(model, True)
    early = []
    for step in range(200):
        Late.log.clear()
        optimizer.zero_grad()
        _loss(model, step).backward()
        early.append(Late.log.count("copy to the host"))
        if step < 100:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)
        optimizer.step()
    optimizer.finish()
    return early


def test_copies_in_the_backward_pass_are_tried_again() -> None:
    for early in values(_after_clipping_for_a_while, 2, timeout=240):
        assert all(early[:2]) and not any(early[2:64]) and early[64] and not any(early[65:128])
        assert all(early[128:])  # that of step 128 was not in vain


def _report(room: int) -> tuple[str, dict[int, int]]:
    Late.room = room
    model = _Net()
    optimizer = _wrap(model, True)
    _plainly(model, optimizer, 1)
    optimizer.finish()
    assert _device.KINDS["cpu"] is Late
    return " ".join(str(optimizer.report()).split()), Late.pinned


def test_report_says_how_gradients_are_copied() -> None:
    text, _ = values(_report, 1, timeout=240, args=(1000,))[0]
    assert "The model is on cpu; gradients go through the host's memory, which is pinned." in text
    for room in (0, 1):
        text, pinned = values(_report, 1, timeout=240, args=(room,))[0]
        assert "which is not pinned (no memory left), so that copies wait." in text
        assert not pinned  # any more


def _registrations(algorithm: str) -> tuple[list[tuple[int, int]], str]:
    model = torch.nn.Linear(4000, 1, bias=False)  # with what else a set holds nearly four pages: sets lie close
    optimizer = _wrap(model, True, algorithm=algorithm)
    for step in range(20):
        if stretto.rank() == 0 and step % 4 == 0:
            time.sleep(0.01)
        optimizer.zero_grad()
        model(torch.ones(4, 4000)).square().mean().backward()
        optimizer.step()
    optimizer.finish()
    return Late.registrations, " ".join(str(optimizer.report()).split())


@pytest.mark.parametrize(("algorithm", "sets"), [("sync", 1), ("eager-solo", 2)])
def test_each_set_and_sum_is_pinned_once_and_shares_no_page(algorithm: str, sets: int) -> None:
    most, sums = 0, 2 if algorithm == "sync" else 4
    for registrations, report in values(_registrations, 3, timeout=240, args=(algorithm,)):
        assert "which is pinned." in report  # each was taken, beside those that there were
        assert all(address % 4096 == 0 and size % 4096 == 0 for address, size in registrations)
        assert len(set(registrations)) == len(registrations)
        most = max(most, len(registrations) - sums)
    assert most == 1 if sets == 1 else most >= sets


# ---- graphs ----


def _by_a_graph(staged: bool) -> tuple[list[bytes], list[str]]:
    """Steps of which all passes but the first are a graph's: no hook runs, and no gradient becomes a new version."""
    torch.manual_seed(stretto.rank())
    model = _Net()
    optimizer = _wrap(model, staged)
    _plainly(model, optimizer, 0)
    complaints = []
    optimizer.zero_grad()
    if staged:
        Late.is_capturing = True
        before = [p.grad.clone() for p in _trained(model) if p.grad is not None]
        running = [buffer.clone() for buffer in model.norm.buffers()]
        _loss(model, 1).backward()
        for call in (optimizer.step, optimizer.zero_grad, optimizer.together().__enter__):
            with pytest.raises(stretto.UsageError) as refused:
                call()  # type: ignore[operator]
            complaints.append(str(refused.value))
        Late.is_capturing = False
        for p, gradient in zip(_trained(model), before):  # what is captured is not computed
            p.grad.data.copy_(gradient)  # type: ignore[union-attr]
        for buffer, value in zip(model.norm.buffers(), running):
            buffer.copy_(value)
    for step in range(1, STEPS):
        optimizer.zero_grad()
        for p, gradient in zip(_trained(model), torch.autograd.grad(_loss(model, step), _trained(model))):
            if staged:
                p.grad.data.add_(gradient)  # type: ignore[union-attr]
            else:
                p.grad.add_(gradient)  # type: ignore[union-attr]
        optimizer.step()
    optimizer.finish()
    return _contents(model, optimizer), complaints


def _with_and_without_a_graph() -> tuple[Any, Any]:
    return _by_a_graph(True), _by_a_graph(False)


def test_what_a_graph_computes_is_handed_over() -> None:
    for (staged, complaints), (plain, _) in values(_with_and_without_a_graph, 2, timeout=240):
        assert staged == plain
        for call, complaint in zip(("step()", "zero_grad()", "together()"), complaints, strict=True):
            assert complaint.startswith(f"{call} while a graph of cpu is captured: expected forward and backward")


# ---- planted defects ----


def _forgetful(what: str, how: str, overlap: bool = False) -> Any:
    Late.forgets = what
    return _train(how, True, overlap=overlap), _train(how, False)


def _late_and_forgetful() -> None:
    """While a rank is late, the others' next round is added up where the sum lay that this one's device copies."""
    Late.forgets = "wait to the device"
    model = _Net()
    optimizer = _wrap(model, True, algorithm="eager-solo", max_lag=1)
    for step in range(20):
        optimizer.zero_grad()
        if stretto.rank() == 1:
            time.sleep(0.02)
        _loss(model, step).backward()
        optimizer.step()
    optimizer.finish()


def _blind(how: str) -> Any:
    """To what has changed a gradient after its bucket was copied."""
    _device._version = lambda view: 0  # type: ignore[assignment]
    return _train(how, True), _train(how, False)


def _keeps_what_is_lent(how: str) -> Any:
    _device.Staging.take_back = lambda self: self._lent.clear()  # type: ignore[method-assign]
    return _train(how, True), _train(how, False)


@pytest.mark.parametrize(
    ("defect", "args", "shows"),
    [
        (_forgetful, ("wait to the host", "plainly"), "while it is copied"),
        (_forgetful, ("compute_after", "plainly"), "is not finite on rank"),
        (_forgetful, ("wait to the host", "plainly", True), "is not finite on rank"),
        (_late_and_forgetful, (), "while it is copied"),
        (_blind, ("clipping",), "is not finite on rank"),
        (_blind, ("accumulating",), "is not finite on rank"),
        (_keeps_what_is_lent, ("meeting",), ""),
    ],
)
def test_planted_defects_are_caught(defect: Callable[..., Any], args: tuple[str, ...], shows: str) -> None:
    results = run(defect, 2, timeout=240, args=args)
    if shows:
        assert all(result.status != 0 for result in results), said(results)
        assert any(shows in result.stderr for result in results), said(results)
    else:
        assert all(result.status == 0 for result in results), said(results)
        assert any(result.value[0] != result.value[1] for result in results)


# ---- what is refused ----


def test_models_on_devices_are_staged(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda, mps = torch.device("cuda", 1), torch.device("mps")
    monkeypatch.setitem(_device.KINDS, "cuda", Late)
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
    _wrap(_Net(), True).finish()
    return lines


def test_one_rank_says_that_a_model_is_staged_unasked() -> None:
    (line,), others = values(_told_where, 2, timeout=240, args=(False,))
    assert line.startswith("the model is on cpu: gradients go through the host's memory (docs/gpus.md")
    assert not others
    assert values(_told_where, 2, timeout=240, args=(True,)) == [[], []]
