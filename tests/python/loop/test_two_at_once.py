"""Two optimizers in one process, as of a GAN, and two jobs on one host."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import pytest
import torch
from torch.nn.functional import softplus

import stretto
from ranks import Ranks, said, values

torch.set_num_threads(1)  # tensors are small

STEPS = 15
WIDTHS = (8, 1500)  # gradients that stay in one place, and those that go from set to set


def _nets(width: int) -> tuple[torch.nn.Sequential, torch.nn.Sequential]:
    """Generator and discriminator."""
    torch.manual_seed(0)
    generator = torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.Tanh(), torch.nn.Linear(width, 3))
    discriminator = torch.nn.Sequential(torch.nn.Linear(3, width), torch.nn.Tanh(), torch.nn.Linear(width, 1))
    return generator, discriminator


def _adam(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), 0.01, betas=(0.5, 0.999))


def _fake(generator: torch.nn.Module, rank: int, step: int) -> torch.Tensor:
    noise = torch.randn(6, 4, generator=torch.Generator().manual_seed(1000 * rank + step))
    return generator(noise)  # type: ignore[no-any-return]


def _real(rank: int, step: int) -> torch.Tensor:
    return torch.randn(6, 3, generator=torch.Generator().manual_seed(1_000_000 + 1000 * rank + step)) + 2


def _judge(discriminator: torch.nn.Module, fake: torch.Tensor, rank: int, step: int) -> torch.Tensor:
    loss: torch.Tensor = softplus(-discriminator(_real(rank, step))).mean() + softplus(discriminator(fake)).mean()
    return loss


def _bits(models: Iterable[torch.nn.Module]) -> str:
    weights = b"".join(p.detach().numpy().tobytes() for model in models for p in model.parameters())
    return hashlib.sha256(weights).hexdigest()


def _gan(width: int, algorithm: str) -> tuple[str, list[int]]:
    generator, discriminator = _nets(width)
    by_generator = stretto.Optimizer(_adam(generator), generator, algorithm)
    by_discriminator = stretto.Optimizer(_adam(discriminator), discriminator, algorithm)
    for step in range(STEPS):
        fake = _fake(generator, stretto.rank(), step)
        by_discriminator.zero_grad()
        _judge(discriminator, fake.detach(), stretto.rank(), step).backward()
        by_discriminator.step()
        by_generator.zero_grad()
        softplus(-discriminator(fake)).mean().backward()  # adds to the discriminator's gradients, too
        by_generator.step()
    for optimizer in (by_generator, by_discriminator):
        optimizer.finish()
    applied = [optimizer.batches_applied for optimizer in (by_generator, by_discriminator)]
    return _bits((generator, discriminator)), applied


def _gans() -> dict[tuple[int, str], tuple[str, list[int]]]:
    algorithms = ("sync", "eager-quorum", "eager-solo")
    return {(width, algorithm): _gan(width, algorithm) for width in WIDTHS for algorithm in algorithms}


def _average(model: torch.nn.Module, of_ranks: list[list[torch.Tensor]]) -> None:
    for p, (first, second) in zip(model.parameters(), zip(*of_ranks)):
        p.grad = (first + second) / 2


def _gan_of_one_process(width: int) -> str:
    generator, discriminator = _nets(width)
    by_generator, by_discriminator = _adam(generator), _adam(discriminator)
    for step in range(STEPS):
        gradients = []
        for rank in range(2):
            fake = _fake(generator, rank, step).detach()
            loss = _judge(discriminator, fake, rank, step)
            gradients.append(list(torch.autograd.grad(loss, list(discriminator.parameters()))))
        _average(discriminator, gradients)
        by_discriminator.step()
        gradients = []
        for rank in range(2):
            loss = softplus(-discriminator(_fake(generator, rank, step))).mean()
            gradients.append(list(torch.autograd.grad(loss, list(generator.parameters()))))
        _average(generator, gradients)
        by_generator.step()
    return _bits((generator, discriminator))


def test_a_gan() -> None:
    first, second = values(_gans, 2, timeout=300)
    assert first == second
    for (width, algorithm), (bits, applied) in first.items():
        assert applied == [2 * STEPS] * 2, (width, algorithm)
        if algorithm == "sync":
            assert bits == _gan_of_one_process(width), width


# ---- jobs ----


def _train() -> tuple[str, int, int]:
    generator, _ = _nets(8)
    optimizer = stretto.Optimizer(_adam(generator), generator)
    for step in range(60):
        optimizer.zero_grad()
        _fake(generator, stretto.rank(), step).square().mean().backward()
        optimizer.step()
    optimizer.finish()
    return _bits((generator,)), optimizer.batches_applied, stretto.size()


def test_two_jobs_that_train_at_once() -> None:
    with Ranks(_train, 2) as one, Ranks(_train, 3) as other:
        for job, ranks in ((one, 2), (other, 3)):
            results = job.wait(300)
            assert all(result.status == 0 for result in results), said(results)
            assert len({result.value for result in results}) == 1
            assert results[0].value[1:] == (60 * ranks, ranks)


# ---- parameters of an optimizer that has not finished ----


def _step(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    model(torch.ones(2, 4)).square().mean().backward()
    optimizer.step()


def test_a_process_alone_hands_parameters_on_to_the_later_optimizer() -> None:
    """As in a cell of a notebook that is run again. The earlier one says so, and a third one goes on."""
    generator, _ = _nets(8)
    third_model, _ = _nets(8)
    third = stretto.Optimizer(_adam(third_model), third_model, "eager-quorum")
    inner = _adam(generator)
    earlier = stretto.Optimizer(inner, generator, "eager-solo")
    _step(generator, earlier)
    before = _bits((generator,))
    later = stretto.Optimizer(inner, generator)
    assert _bits((generator,)) == before
    with pytest.raises(stretto.UsageError, match="a later one of this process has its parameters"):
        earlier.step()
    _step(generator, later)
    assert _bits((generator,)) != before
    _step(third_model, third)
    third.finish()
    later.finish()


def _wrap_twice() -> str:
    model, _ = _nets(8)
    first = stretto.Optimizer(_adam(model), model)
    try:
        stretto.Optimizer(_adam(model), model)
    except stretto.UsageError as error:
        first.finish()
        return str(error)
    return "nothing"


def test_several_ranks_share_no_parameter_between_optimizers() -> None:
    for text in values(_wrap_twice, 2, timeout=240):
        assert "is in another stretto.Optimizer that is not finished: expected each parameter in one" in text
