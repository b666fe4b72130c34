"""Collectives of torch.distributed in the loop of an eager algorithm: named where ranks wait, at home in together()."""

from __future__ import annotations

import contextlib
import datetime
import inspect
import logging
import re
import time
from collections.abc import Iterator

import pytest
import ranks
import torch
import torch.distributed as dist

import stretto

SILENCE = 0.5  # seconds
SILENCE_OF_USERS = stretto.Optimizer._silence


@contextlib.contextmanager
def _loop(silence: float = SILENCE) -> Iterator[tuple[stretto.Optimizer, list[str]]]:
    """An optimizer that says after `silence` seconds who is waited for, and what is said."""
    torch.set_num_threads(1)
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("stretto").addHandler(handler)
    stretto.Optimizer._silence = silence
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    optimizer = stretto.Optimizer(torch.optim.SGD(model.parameters(), 0.1), model, "eager-quorum", max_lag=1)
    yield optimizer, said
    optimizer.finish()
    dist.destroy_process_group()


def _join(silence: float = SILENCE) -> None:
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=10 + silence))


def _step(optimizer: stretto.Optimizer) -> None:
    optimizer.zero_grad()
    for p in optimizer.param_groups[0]["params"]:
        p.grad.fill_(1)
    optimizer.step()


def _wait_in_the_loop(silence: float, steps_alone: int) -> tuple[list[str], int]:
    """Rank 0 comes to a barrier after five steps, and rank 1 after fifteen, which needs rank 0. `steps_alone`: those
    that know of no process group."""
    with _loop(silence) as (optimizer, said):
        for step in range(20):
            if step == steps_alone:
                with optimizer.together():
                    _join(silence)
            if step == 5 + 10 * stretto.rank():
                with contextlib.suppress(RuntimeError):  # the barrier's timeout
                    dist.barrier()
            _step(optimizer)
    return said, optimizer.batches_applied


def test_a_barrier_is_named_after_ten_seconds_where_nobody_asks_for_less() -> None:
    assert SILENCE_OF_USERS == 10


@pytest.mark.parametrize("silence, steps_alone", [(SILENCE, 3), (SILENCE_OF_USERS, 0)])
def test_a_barrier_in_the_loop_is_named_on_both_sides(silence: float, steps_alone: int) -> None:
    args = (silence, steps_alone)
    (in_barrier, applied), (in_step, applied_there) = ranks.values(_wait_in_the_loop, 2, timeout=180, args=args)
    assert applied == applied_there == 40
    lines, first = inspect.getsourcelines(_wait_in_the_loop)
    at = first + next(i for i, text in enumerate(lines) if "dist.barrier()" in text)
    place = "a collective of torch.distributed in the loop waits for all ranks; put it into together()"
    where = f"torch.distributed.barrier() (test_foreign_collectives.py, line {at})"
    assert in_barrier.count(f"rank 0 has been in {where} for {silence:g} s: {place}") == 1
    said = r"round \d+ \(quorum:1\) waits for rank 0 \((computing|at round \d+)\)"
    words = f": rank 0 has been inside a step's code for {silence:g} s without meeting the others: {place}"
    assert any(re.fullmatch(said + re.escape(words), line) for line in in_step), in_step


def _wait_together() -> tuple[list[str], float, int]:
    """In together() rank 0 waits for rank 1 longer than `silence`, after which a wait in the loop is named."""
    silence = 3.0  # seconds; a busy machine holds up no rank for so long
    with _loop(silence) as (optimizer, said):
        _join(silence)
        total = torch.zeros(1)
        for step in range(10):
            if step == 5:
                with optimizer.together():
                    if stretto.rank() == 1:
                        time.sleep(silence + 1)
                    dist.barrier()
                    total += stretto.rank() + 1
                    dist.all_reduce(total)
            _step(optimizer)
    return said, total.item(), optimizer.batches_applied


def test_collectives_work_in_together() -> None:
    assert ranks.values(_wait_together, 2, timeout=180) == [([], 3.0, 20)] * 2
