"""When gradients of a model on a device are copied, how often, and which memory is registered for that."""

from __future__ import annotations

import os
import time

import pytest
import torch

import stretto
from device_jobs import STEPS, STEPS_OF, Net, contents, loss, plainly, trained, wrap
from late_device import Late
from ranks import values
from stretto import _device

MANY = 1000 if os.environ.get("STRETTO_LONG_TESTS") else 200


def _order_of_copies() -> tuple[list[str], dict[int, int], int]:
    model = Net()
    optimizer = wrap(model, True)
    model.first.weight.register_hook(lambda _: Late.log.append("the first layer"))
    optimizer.zero_grad()
    loss(model, 1).backward()
    Late.log.append("step()")
    optimizer.step()
    optimizer.finish()
    hooks = sum(len(p._post_accumulate_grad_hooks or ()) for p in trained(model))  # type: ignore[attr-defined]
    return Late.log, Late.pinned, hooks


def test_buckets_are_copied_while_backward_goes_on() -> None:
    for everything, pinned, hooks in values(_order_of_copies, 2, timeout=240):
        log = [said for said in everything if said != "copy of what is not pinned"]  # the weights, to compare them
        first, step = log.index("the first layer"), log.index("step()")
        copies = log.count("copy to the device")
        assert log[:first].count("copy to the host") >= 2
        assert log[:step].count("copy to the host") == copies  # all buckets, each once
        assert log[step + 1 :] == ["copy to the device"] * copies
        assert not pinned
        assert hooks == 0


def _copies_of_weights() -> tuple[int, int]:
    """In rounds 0 to 4, and at the end. Nothing else is copied that is not pinned: gradients of a page are."""
    torch.manual_seed(0)
    model = torch.nn.Linear(4000, 1, bias=False)
    optimizer = wrap(model, True)  # type: ignore[arg-type]
    Late.log.clear()
    for _ in range(5):
        optimizer.zero_grad()
        model(torch.ones(4, 4000)).square().mean().backward()
        optimizer.step()
    compared = Late.log.count("copy of what is not pinned")
    optimizer.finish()
    return compared, Late.log.count("copy of what is not pinned") - compared


def test_weights_that_are_compared_are_not_copied_back() -> None:
    assert values(_copies_of_weights, 2, timeout=240) == [(3, 1)] * 2  # before rounds 1, 2 and 4, and all at the end


def _copies_to_the_host(how: str, steps: int, overlap: bool) -> float:
    """Of a bucket, in all steps."""
    model = Net()
    optimizer = wrap(model, True, overlap=overlap)
    for step in range(steps):
        STEPS_OF[how](model, optimizer, step)
    optimizer.finish()
    buckets = Late.log.count("copy to the device") / steps
    return Late.log.count("copy to the host") / buckets


# In the first step nothing is known. Copies that were in vain in two steps are tried in one step of 64.
@pytest.mark.parametrize(
    ("how", "steps", "overlap", "in_vain"),
    [
        ("plainly", 50, False, 0),
        ("plainly", 50, True, 0),
        ("accumulating", 50, False, 1),
        ("accumulating", 50, True, 1),
        ("clipping", MANY, False, 2 + MANY // 64),
        ("scaling", MANY, False, 2 + MANY // 64),
    ],
)
def test_each_bucket_is_copied_once_a_step(how: str, steps: int, overlap: bool, in_vain: int) -> None:
    handed_over = [steps - (how == "scaling"), steps]  # rank 0 finds an infinity in a step
    copies = values(_copies_to_the_host, 2, timeout=240, args=(how, steps, overlap))
    assert copies == [number + in_vain for number in handed_over]
    assert in_vain <= 0.05 * MANY


def _when_accumulated_gradients_are_copied() -> list[str]:
    model = Net()
    optimizer = wrap(model, True)
    for step in range(3):
        Late.log.clear()
        optimizer.zero_grad()
        for part in range(3):
            Late.log.append(f"pass {part}")
            loss(model, 10 * step + part).backward()
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
    model = Net()
    optimizer = wrap(model, True)
    early = []
    for step in range(200):
        Late.log.clear()
        optimizer.zero_grad()
        loss(model, step).backward()
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


def _trained_and_told(staged: bool) -> tuple[list[bytes], str]:
    torch.manual_seed(0)
    model = Net()
    optimizer = wrap(model, staged)
    for step in range(STEPS):
        plainly(model, optimizer, step)
    optimizer.finish()
    return contents(model, optimizer), " ".join(str(optimizer.report()).split())


def _in_so_much_room(pieces: int) -> tuple[str, bool, dict[int, int]]:
    Late.room = pieces
    staged, report = _trained_and_told(True)
    return report, staged == _trained_and_told(False)[0], Late.pinned


@pytest.mark.parametrize("pieces", [1000, 1, 0])
def test_report_says_how_gradients_are_copied(pieces: int) -> None:
    how = "pinned." if pieces == 1000 else "not pinned (no memory left), so that copies wait."
    for report, same_bits, pinned in values(_in_so_much_room, 2, timeout=240, args=(pieces,)):
        assert f"The model is on cpu; gradients go through the host's memory, which is {how}" in report
        assert same_bits
        assert not pinned  # any more


def test_pages_are_registered_where_nothing_else_lies() -> None:
    whole = torch.empty(8 * 4096, dtype=torch.uint8)
    first = -whole.data_ptr() % 4096  # of a page
    begin = whole.data_ptr() + first

    def pages_of(*parts: tuple[int, int]) -> list[tuple[int, int]]:
        memory = [whole[first + at : first + at + size] for at, size in parts]
        return [(address - begin, size) for address, size in _device._pages(memory)]

    assert pages_of((0, 4096)) == [(0, 4096)]
    assert pages_of((64, 4096)) == [(0, 8192)]
    assert pages_of((0, 4095)) == []
    assert pages_of((0, 3000), (3000, 3000), (6000, 3000)) == []  # others' memory may be around them
    assert pages_of((0, 5000), (5056, 100), (8192, 100)) == [(0, 8192)]
    assert pages_of((0, 100), (128, 5000), (5184, 4000)) == [(0, 12288)]
    assert pages_of((8192, 4096), (4096, 4096)) == [(4096, 4096), (8192, 4096)]


def _registrations(algorithm: str) -> tuple[list[tuple[int, int]], int, str]:
    """All that were asked for; how many sets and sums were touched; what the report says."""
    touched: set[object] = set()
    begin, take = _device.Staging.begin, _device.Staging.take

    def noting_set(self: _device.Staging, number: int, views: list[torch.Tensor]) -> None:
        touched.add(number)
        begin(self, number, views)

    def noting_sum(self: _device.Staging, sums: list[int], divisors: list[float], of_all: bool) -> None:
        touched.update(("sum", address) for address in sums if address)
        take(self, sums, divisors, of_all)

    _device.Staging.begin, _device.Staging.take = noting_set, noting_sum  # type: ignore[method-assign]
    model = torch.nn.Linear(4000, 1, bias=False)  # with what else a set holds nearly four pages: sets lie close
    optimizer = wrap(model, True, algorithm=algorithm)
    for step in range(20):
        if stretto.rank() == 0 and step % 4 == 0:
            time.sleep(0.01)
        optimizer.zero_grad()
        model(torch.ones(4, 4000)).square().mean().backward()
        optimizer.step()
    optimizer.finish()
    assert not Late.refusals and not Late.pinned  # each was taken, beside those that there were, and has ended
    return Late.registrations, len(touched), " ".join(str(optimizer.report()).split())


@pytest.mark.parametrize(("algorithm", "sets"), [("sync", 1), ("eager-solo", 2)])
def test_each_set_and_sum_is_pinned_once_and_shares_no_page(algorithm: str, sets: int) -> None:
    most = 0
    for registrations, touched, report in values(_registrations, 3, timeout=240, args=(algorithm,)):
        assert "which is pinned." in report
        assert all(address % 4096 == 0 and size % 4096 == 0 for address, size in registrations)
        assert len(set(registrations)) == len(registrations) == touched
        most = max(most, touched)
    assert most == 1 + 2 if sets == 1 else most >= sets + 2
