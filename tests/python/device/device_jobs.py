"""Jobs on a device that is made up, and the same without it: what the tests of devices train."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any

import torch

import stretto
from late_device import bytes_of, stage
from stretto import _device

torch.set_num_threads(1)  # tensors are small

STEPS = 6
# Of what the device carries out earlier than it has to; None, in the place of one, is as late as may be.
SEEDS = range(12 if os.environ.get("STRETTO_LONG_TESTS") else 1)


def draw(seed: int | None) -> int | None:
    """This rank's own, for Late.seed."""
    return None if seed is None else 1000 * seed + stretto.rank()


class Net(torch.nn.Module):
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


def loss(model: torch.nn.Module, seed: int, use_all: bool = True) -> torch.Tensor:
    x = torch.randn(4, 6, generator=torch.Generator().manual_seed(1000 * stretto.rank() + seed))
    return model(x, use_all).square().mean()  # type: ignore[no-any-return]


def trained(model: torch.nn.Module) -> list[torch.nn.Parameter]:
    return [p for p in model.parameters() if p.requires_grad]


def wrap(model: torch.nn.Module, staged: bool, algorithm: str = "sync", **options: Any) -> stretto.Optimizer:
    if staged:
        stage()
        os.environ[_device.SWITCH] = "stage"
    try:
        inner = torch.optim.AdamW(trained(model), 0.01, amsgrad=True)
        return stretto.Optimizer(inner, model, algorithm, **{"bucket_mb": 1e-4, **options})
    finally:
        os.environ.pop(_device.SWITCH, None)


Step = Callable[[Net, stretto.Optimizer, int], None]


def plainly(model: Net, optimizer: stretto.Optimizer, step: int) -> None:
    optimizer.zero_grad()
    loss(model, step, use_all=step % 3 == 0 or (step % 3 == 1 and stretto.rank() == 0)).backward()
    optimizer.step()


def _accumulating(model: Net, optimizer: stretto.Optimizer, step: int) -> None:
    optimizer.zero_grad()
    loss(model, 10 * step).backward()
    with optimizer.no_sync():
        loss(model, 10 * step + 1).backward()
    loss(model, 10 * step + 2).backward()
    optimizer.step()


def _clipping(model: Net, optimizer: stretto.Optimizer, step: int) -> None:
    optimizer.zero_grad()
    loss(model, step).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)
    optimizer.step()


def _without_zero_grad(model: Net, optimizer: stretto.Optimizer, step: int) -> None:
    model.zero_grad()
    loss(model, step).backward()
    optimizer.step()


def _scaling(model: Net, optimizer: stretto.Optimizer, step: int) -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
    optimizer.zero_grad()
    infinite = step == 2 and stretto.rank() == 0
    scaler.scale(loss(model, step) * (float("inf") if infinite else 1.0)).backward()
    scaler.step(optimizer)


def _meeting(model: Net, optimizer: stretto.Optimizer, step: int) -> None:
    plainly(model, optimizer, step)
    with optimizer.together():
        with torch.no_grad():
            model.norm.running_mean.add_(1)
        averaged = optimizer.param_groups[0]["params"][0].grad
        assert averaged is not None and averaged.isfinite().all()


def _beginning_anew(model: Net, optimizer: stretto.Optimizer, step: int) -> None:
    optimizer.zero_grad()
    loss(model, step + 100).backward()  # in vain
    plainly(model, optimizer, step)


def _failing_in_the_middle(model: Net, optimizer: stretto.Optimizer, step: int) -> None:
    """As where memory runs out in a backward pass, which is then repeated."""

    def fail(gradient: torch.Tensor) -> None:
        raise RuntimeError("out of memory")

    optimizer.zero_grad()
    failing = model.norm.weight.register_hook(fail)
    with contextlib.suppress(RuntimeError):
        loss(model, step + 100).backward()
    failing.remove()
    plainly(model, optimizer, step)


def _loading(model: Net, optimizer: stretto.Optimizer, step: int) -> None:
    plainly(model, optimizer, step)
    if step == 2:
        with optimizer.together():
            state = {name: value.clone() for name, value in model.state_dict().items()}
        state["first.weight"] *= 0.5
        model.load_state_dict(state)


STEPS_OF: dict[str, Step] = {
    "plainly": plainly,
    "failing in the middle": _failing_in_the_middle,
    "loading": _loading,
    "beginning anew": _beginning_anew,
    "accumulating": _accumulating,
    "clipping": _clipping,
    "without zero_grad()": _without_zero_grad,
    "scaling": _scaling,
    "meeting": _meeting,
}


def contents(model: torch.nn.Module, optimizer: stretto.Optimizer) -> list[bytes]:
    state = [v for p in trained(model) for _, v in sorted(optimizer.state[p].items())]
    return [bytes_of(t.detach().reshape(-1)) for t in [*model.state_dict().values(), *state]]


def train(how: str, staged: bool, **options: Any) -> tuple[list[bytes], list[list[bytes]]]:
    """What is there at the end, and the gradients after each step."""
    torch.manual_seed(stretto.rank())  # rank 0's weights and buffers count
    model = Net()
    optimizer = wrap(model, staged, **options)
    gradients = []
    for step in range(STEPS):
        STEPS_OF[how](model, optimizer, step)
        gradients.append([bytes_of(p.grad) for p in trained(model) if p.grad is not None])
    optimizer.finish()
    return contents(model, optimizer), gradients


def wrapped(staged: bool, dtype: torch.dtype = torch.float32, **options: Any) -> tuple[Any, stretto.Optimizer]:
    model = torch.nn.Sequential(torch.nn.Linear(6, 40), torch.nn.Tanh(), torch.nn.Linear(40, 3)).to(dtype)
    return model, wrap(model, staged, **options)  # type: ignore[arg-type]


def one(model: Any, optimizer: stretto.Optimizer, step: int, samples: int = 1) -> None:
    optimizer.zero_grad()
    loss(lambda x, _: model(x.to(next(model.parameters()).dtype)).float(), step).backward()  # type: ignore[arg-type]
    optimizer.step(samples=samples)


def uneven(staged: bool) -> list[bytes]:
    """The others' last rounds come without this rank, whose device may still copy the last sum."""
    torch.manual_seed(0)
    model, optimizer = wrapped(staged)
    for step in range(12 - 4 * stretto.rank()):
        one(model, optimizer, step)
    optimizer.finish()
    return [bytes_of(p.detach()) for p in model.parameters()]
