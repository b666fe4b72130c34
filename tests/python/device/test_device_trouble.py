"""What may go wrong with a model on a device: its errors, another device, a graph captured anew, processes that are
forked, the end. With a device that is made up: no device of hardware is needed, and none is tested.
"""

from __future__ import annotations

import atexit
from typing import Any

import pytest
import torch

import stretto
from device_jobs import STEPS, Net, contents, loss, one, plainly, trained, wrap, wrapped
from late_device import Late, bytes_of
from numbered_devices import Numbers
from ranks import run, said, values
from stretto._device import Staging

# ---- errors of the device ----

FAULT = "CUDA error: device-side assert triggered"


def _failing(algorithm: str, options: dict[str, Any], step_of_it: int, later: int) -> None:
    """Rank 1's device fails with so many questions and orders from the beginning of a step."""
    model = Net()
    optimizer = wrap(model, True, algorithm, **options)
    for step in range(STEPS):
        if stretto.rank() == 1 and step == step_of_it:
            Late.fails_at = Late.asked + later
        plainly(model, optimizer, step)
        if step == 3:
            with optimizer.together():
                pass
    optimizer.finish()


@pytest.mark.parametrize("step", [0, 4])
@pytest.mark.parametrize(
    ("algorithm", "options"),
    [("sync", {}), ("sync", {"overlap": True}), ("eager-solo", {}), ("local", {"sync_every": 2})],
)
def test_an_error_of_a_device_ends_its_rank_and_is_told_to_the_others(
    algorithm: str, options: dict[str, Any], step: int
) -> None:
    for later in (1, 8, 55):
        other, failing = run(_failing, 2, timeout=60, args=(algorithm, options, step, later))
        text = said([other, failing])
        assert (other.status, failing.status) == (1, 1), text
        assert f"Aborted: rank 1 stopped the job: RuntimeError: {FAULT}" in other.stderr, text
        assert f"\nRuntimeError: {FAULT}" in failing.stderr, text
        assert "in sys.excepthook" not in failing.stderr, text


def _failed_at_the_end() -> str:
    model, optimizer = wrapped(True)
    try:
        one(model, optimizer, 0)  # rank 0 may hear of it in here
        if stretto.rank() == 0:
            optimizer.finish()
        else:
            Late.fault = FAULT
            stretto.shutdown()
    except (RuntimeError, stretto.Error) as error:
        return str(error)
    return "nothing"


def test_a_device_that_fails_in_shutdown_is_told_to_the_others() -> None:
    assert values(_failed_at_the_end, 2, timeout=60) == [f"rank 1 stopped the job: RuntimeError: {FAULT}", FAULT]


# ---- another device ----


def _on_the_second() -> tuple[set[int], list[bytes], set[str]]:
    """The model is on another device than the current one of its thread."""
    with Numbers():
        torch.manual_seed(0)
        where = torch.device("cpu", 1)
        model = Net().to(where)
        optimizer = wrap(model, True)
        for step in range(STEPS):
            plainly(model, optimizer, step)
            with optimizer.together():
                pass
        optimizer.finish()
        state = [v for p in trained(model) for v in optimizer.state[p].values() if v.numel() > 1]
        devices = {str(t.device) for t in [*model.state_dict().values(), *state]}
    return Late.contexts, contents(model, optimizer), devices


def _on_the_first() -> list[bytes]:
    torch.manual_seed(0)
    model = Net()
    optimizer = wrap(model, False)
    for step in range(STEPS):
        plainly(model, optimizer, step)
        with optimizer.together():
            pass
    optimizer.finish()
    return contents(model, optimizer)


def _second_and_first() -> tuple[set[int], set[str], bool]:
    contexts, found, devices = _on_the_second()
    return contexts, devices, found == _on_the_first()


def test_a_model_stays_on_the_device_of_its_number() -> None:
    assert values(_second_and_first, 2, timeout=60) == [({1}, {"cpu:1"}, True)] * 2


def _on_both() -> str:
    with Numbers():
        model = torch.nn.Sequential(torch.nn.Linear(6, 40), torch.nn.Linear(40, 3))
        for number, layer in enumerate(model):
            layer.to(torch.device("cpu", number))
        with pytest.raises(RuntimeError, match="on the same device"):
            model(torch.ones(1, 6))
        with pytest.raises(stretto.UsageError) as refused:
            wrap(model, True)  # type: ignore[arg-type]
    return str(refused.value)


def test_a_model_on_two_devices_is_refused() -> None:
    on_two = "the model is on several devices (parameter 0.weight on cpu:0, parameter 1.weight on cpu:1): expected one"
    assert values(_on_both, 1, timeout=60) == [on_two]


def _moved_away() -> str:
    with Numbers():
        model = torch.nn.Linear(6, 3).to(torch.device("cpu", 0))
        optimizer = wrap(model, True)  # type: ignore[arg-type]
        model.to(torch.device("cpu", 1))
        with pytest.raises(stretto.UsageError) as refused:
            one(model, optimizer, 0)
    return str(refused.value)


def test_a_model_that_was_moved_to_another_device_is_refused() -> None:
    assert values(_moved_away, 1, timeout=60)[0] == (
        "parameter bias has become torch.float32 [3] on cpu:1, and was torch.float32 [3] on cpu:0 when it was "
        "wrapped: expected that before"
    )


def _there_and_back(staged: bool) -> list[bytes]:
    """A model is moved away and back, as to be saved: before, between and behind the passes of a step."""
    torch.manual_seed(0)
    model, optimizer = wrapped(staged)

    def move(when: int) -> None:
        if step % 3 == when:
            model.double().float()

    for step in range(2 * STEPS):
        move(1)
        optimizer.zero_grad()
        move(2)
        loss(lambda x, _: model(x), step).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)
        move(0)  # also where the bucket has been copied before it was clipped: in the first step
        optimizer.step()
    optimizer.finish()
    return [bytes_of(t.detach()) for p in model.parameters() for t in (p, p.grad)]


def _there_and_back_both() -> tuple[list[bytes], list[bytes]]:
    return _there_and_back(True), _there_and_back(False)


def test_a_model_may_be_moved_away_and_back() -> None:
    for staged, plain in values(_there_and_back_both, 2, timeout=60):
        assert staged == plain


def _on_one_rank() -> list[bytes]:
    torch.manual_seed(0)
    model, optimizer = wrapped(staged=stretto.rank() == 1)
    for step in range(STEPS):
        one(model, optimizer, step)
    optimizer.finish()
    return [bytes_of(p.detach()) for p in model.parameters()]


def _on_none() -> list[bytes]:
    torch.manual_seed(0)
    model, optimizer = wrapped(False)
    for step in range(STEPS):
        one(model, optimizer, step)
    optimizer.finish()
    return [bytes_of(p.detach()) for p in model.parameters()]


def _on_one_rank_and_on_none() -> tuple[list[bytes], list[bytes]]:
    return _on_one_rank(), _on_none()


def test_ranks_on_a_device_and_ranks_on_none_train_together() -> None:
    (mixed, plain), other = values(_on_one_rank_and_on_none, 2, timeout=60)
    assert mixed == plain and other == (mixed, plain)


# ---- processes, and the end ----


def _by_a_loader(workers: int, staged: bool) -> tuple[list[bytes], int]:
    """Weights, and how many pieces of memory are pinned when workers are forked."""
    torch.manual_seed(0)
    model = Net()
    optimizer = wrap(model, staged)
    plainly(model, optimizer, 0)
    pinned = len(Late.pinned)
    inputs = torch.randn(16, 6, generator=torch.Generator().manual_seed(stretto.rank()))
    for _ in range(2):
        for batch in torch.utils.data.DataLoader(list(inputs), 4, num_workers=workers):
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()
    optimizer.finish()
    return [bytes_of(p.detach()) for p in model.parameters()], pinned


def _by_loaders() -> tuple[int, bool, int]:
    staged, pinned = _by_a_loader(2, True)
    return pinned, staged == _by_a_loader(0, False)[0], len(Late.pinned)


def test_workers_of_a_data_loader_are_forked_while_memory_is_pinned() -> None:
    for pinned, same_bits, left in values(_by_loaders, 2, timeout=60):
        assert pinned > 0 and same_bits and left == 0


def _ending_in_the_middle() -> None:
    atexit.register(lambda: print("left", len(Late.pinned), len(Late.under_way)))  # behind what stretto registers
    model = Net()
    optimizer = wrap(model, True)
    plainly(model, optimizer, 0)
    optimizer.zero_grad()
    loss(model, 1).backward()
    print("pinned", len(Late.pinned) > 0, "copied", any(copy.target.isnan().any() for copy in Late.under_way))


def test_a_process_ends_while_gradients_are_copied() -> None:
    results = run(_ending_in_the_middle, 2, timeout=60)
    assert [(r.status, r.stdout) for r in results] == [(0, "pinned True copied True\nleft 0 0\n")] * 2, said(results)


def _without_memory() -> tuple[int, int]:
    """The device has none left for what comes back to it at the end."""
    model = Net()
    optimizer = wrap(model, True)
    plainly(model, optimizer, 0)
    assert Late.pinned and Late.under_way
    rest = Staging.rest

    def take_back(self: Staging) -> None:
        raise torch.OutOfMemoryError("out of memory")

    def without_memory(self: Staging) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Staging, "take_back", take_back)
            rest(self)

    Staging.rest = without_memory  # type: ignore[method-assign]
    with pytest.raises(torch.OutOfMemoryError):
        optimizer.finish()
    return len(Late.pinned), len(Late.under_way)


def test_registrations_end_where_the_device_has_no_memory_left() -> None:
    assert values(_without_memory, 2, timeout=60) == [(0, 0)] * 2
