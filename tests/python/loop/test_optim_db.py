"""One rank: the bits of the wrapped optimizer, for every optimizer of Torch, with every option that Torch tests;
what of it is passed on, and what is in files.
"""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.testing._internal.common_optimizers import OptimizerInfo, optim_db

import stretto

torch.set_num_threads(1)  # tensors are small

REFUSED = (torch.optim.LBFGS, torch.optim.SparseAdam)


def _inputs() -> Iterator[tuple[OptimizerInfo, int, dict[str, Any]]]:
    for info in optim_db:
        for number, given in enumerate(info.optim_inputs_func(device="cpu")):
            yield info, number, given.kwargs


CASES = [case for case in _inputs() if case[0].optim_cls not in REFUSED]
REFUSED_CASES = [case for case in _inputs() if case[0].optim_cls in REFUSED]


def _name(case: tuple[OptimizerInfo, int, dict[str, Any]]) -> str:
    info, number, options = case
    return f"{info.optim_cls.__name__}-{number}-" + ",".join(f"{k}={v}" for k, v in options.items())


def test_all_cases_are_here() -> None:
    if torch.__version__.startswith("2.13."):
        assert (len(CASES), len(REFUSED_CASES)) == (82, 9)
    assert len(CASES) >= 70


class _Model(torch.nn.Module):
    """With a part that only some batches use. Matrices only: Muon knows no others."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = torch.nn.Linear(6, width, bias=False)
        self.sometimes = torch.nn.Linear(width, width, bias=False)
        self.last = torch.nn.Linear(width, 3, bias=False)

    def forward(self, x: torch.Tensor, use_all: bool) -> torch.Tensor:
        x = torch.tanh(self.first(x))
        if use_all:
            x = x + self.sometimes(x)
        return self.last(x)


def _train(model: _Model, optimizer: torch.optim.Optimizer, clear: bool) -> None:
    generator = torch.Generator().manual_seed(1)
    for step in range(6):
        x = torch.randn(4, 6, generator=generator)
        if clear:
            optimizer.zero_grad()
        model(x, step in (1, 2, 4)).square().sum().backward()
        optimizer.step()


def _content(value: Any) -> Any:
    """All numbers of a state_dict(), by their bits."""
    if isinstance(value, torch.Tensor):
        return (value.dtype, tuple(value.shape), value.detach().reshape(-1).view(torch.uint8).tolist())
    if isinstance(value, dict):
        return {k: _content(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_content(v) for v in value]
    return value


def _require_same_bits(make: Any, dtype: torch.dtype, width: int, clear: bool = True) -> None:
    torch.manual_seed(0)
    plain = _Model(width).to(dtype) if dtype is torch.float64 else _Model(width)
    wrapped = copy.deepcopy(plain)
    torch.set_default_dtype(dtype)
    try:
        alone = make(plain.parameters())
        _train(plain, alone, clear)
        inner = make(wrapped.parameters())
        together = stretto.Optimizer(inner, wrapped)
        _train(wrapped, together, clear)
        together.finish()
    finally:
        torch.set_default_dtype(torch.float32)
    assert _content(wrapped.state_dict()) == _content(plain.state_dict())
    assert _content(together.state_dict()) == _content(alone.state_dict())


@pytest.mark.parametrize("case", CASES, ids=_name)
def test_bits(case: tuple[OptimizerInfo, int, dict[str, Any]]) -> None:
    """Gradients that stay in one place (small parameters), and those that go from set to set (large ones)."""
    info, _, options = case
    _require_same_bits(lambda p: info.optim_cls(p, **copy.deepcopy(options)), torch.float32, 5)
    _require_same_bits(lambda p: info.optim_cls(p, **copy.deepcopy(options)), torch.float32, 120)
    _require_same_bits(lambda p: info.optim_cls(p, **copy.deepcopy(options)), torch.float64, 5)
    _require_same_bits(lambda p: info.optim_cls(p, **copy.deepcopy(options)), torch.float32, 5, clear=False)


@pytest.mark.parametrize("implementation", ["foreach", "fused"])
@pytest.mark.parametrize("info", optim_db, ids=lambda info: info.optim_cls.__name__)
def test_bits_of_implementation(info: OptimizerInfo, implementation: str) -> None:
    on_cpu = implementation != "fused" or "cpu" in info.supports_fused_on
    if implementation not in info.supported_impls or not on_cpu:
        with pytest.raises((TypeError, RuntimeError)):  # Torch has no such implementation
            info.optim_cls([torch.nn.Parameter(torch.ones(2, 2))], **{implementation: True})
        return
    for width in (5, 120):
        _require_same_bits(lambda p: info.optim_cls(p, **{implementation: True}), torch.float32, width)


@pytest.mark.parametrize("case", REFUSED_CASES, ids=_name)
def test_refused(case: tuple[OptimizerInfo, int, dict[str, Any]]) -> None:
    info, _, options = case
    model = _Model(5)
    inner = info.optim_cls(list(model.parameters()), **options)
    with pytest.raises(stretto.UsageError, match=f"optimizer {info.optim_cls.__name__} .*expected"):
        stretto.Optimizer(inner, model)


@pytest.mark.parametrize("option", ["capturable", "differentiable"])
@pytest.mark.parametrize("info", optim_db, ids=lambda info: info.optim_cls.__name__)
def test_option_refused(info: OptimizerInfo, option: str) -> None:
    model = _Model(5)
    try:
        inner = info.optim_cls(model.parameters(), **{option: True})
    except TypeError:
        assert option not in info.supported_impls  # an optimizer that has none
        return
    with pytest.raises(stretto.UsageError, match=f"{option}=True: expected False"):
        stretto.Optimizer(inner, model)


# ---- what it passes on ----


def _net(width: int = 4) -> torch.nn.Sequential:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, width), torch.nn.Tanh(), torch.nn.Linear(width, 2))


class _Averaging(torch.optim.SGD):
    """As schedule-free optimizers are: has methods beyond Torch's, and a switch."""

    averages = False

    def train(self, averages: bool = True) -> str:
        self.averages = averages
        return "trains"


def test_what_the_wrapped_optimizer_has_beyond_torch_is_passed_on() -> None:
    model = _net()
    inner = _Averaging(model.parameters(), 0.1)
    optimizer: Any = stretto.Optimizer(inner, model)
    assert optimizer.train() == "trains"
    assert inner.averages and optimizer.averages
    for name in ("eval", "_private"):
        assert not hasattr(optimizer, name)
    with pytest.raises(AttributeError, match="'_Averaging' object has no attribute 'evil'"):
        optimizer.evil()
    optimizer.finish()


class _Bare(torch.optim.Optimizer):
    """As wrappers of others: has not called Optimizer.__init__(), and so no defaults."""

    def __init__(self, parameters: Iterator[torch.Tensor]) -> None:
        self.param_groups = [{"params": list(parameters), "lr": 0.1}]
        self.state = {}  # type: ignore[assignment]

    def step(self, closure: Any = None) -> None:
        with torch.no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    p -= group["lr"] * p.grad


def test_an_optimizer_without_defaults() -> None:
    plain, model = _net(), _net()
    alone = torch.optim.SGD(plain.parameters(), 0.1)
    optimizer = stretto.Optimizer(_Bare(model.parameters()), model)
    assert optimizer.defaults == {}
    for o, m in ((alone, plain), (optimizer, model)):
        m(torch.ones(5, 3)).square().sum().backward()
        o.step()
    optimizer.finish()
    for p, q in zip(plain.parameters(), model.parameters()):
        torch.testing.assert_close(p, q)


# ---- files ----


def _tied() -> torch.nn.Module:
    model = torch.nn.Sequential(torch.nn.Linear(30, 30), torch.nn.Linear(30, 30))
    model[1].weight = model[0].weight
    return model


_SAVED: dict[str, Callable[[], torch.nn.Module]] = {
    "many small": lambda: torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(30))),
    "large": lambda: torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(3))),
    "several buckets": lambda: torch.nn.Sequential(torch.nn.Linear(2000, 2000), torch.nn.Linear(2000, 3)),
    "tied": _tied,
    "half": lambda: _net(300).half(),
    "bfloat16": lambda: _net(300).bfloat16(),
    "double": lambda: _net(300).double(),
    "buffers": lambda: torch.nn.Sequential(torch.nn.Linear(40, 40), torch.nn.BatchNorm1d(40)),
    "transposed": lambda: torch.nn.Conv2d(16, 32, 3).to(memory_format=torch.channels_last),  # type: ignore[call-overload]
    "attention": lambda: torch.nn.TransformerEncoderLayer(32, 4, 64),
}


def _saved(thing: object) -> int:
    file = io.BytesIO()
    torch.save(thing, file)
    return file.tell()


@pytest.mark.parametrize("name", _SAVED)
def test_files_are_as_large_as_what_is_in_them(name: str) -> None:
    torch.manual_seed(0)
    model = _SAVED[name]()
    things: list[Callable[[], object]] = [model.state_dict, lambda: model, lambda: next(model.parameters())]
    before = [_saved(thing()) for thing in things]
    optimizer = stretto.Optimizer(torch.optim.SGD(model.parameters(), 0.1), model)
    for when in ("while it trains", "at the end"):
        for thing, plain in zip(things, before):
            assert _saved(thing()) <= 1.02 * plain + 1024, when
        file = io.BytesIO()
        torch.save(model.state_dict(), file)
        file.seek(0)
        for key, value in torch.load(file).items():
            assert torch.equal(value, model.state_dict()[key])
        if when == "while it trains":
            optimizer.finish()
