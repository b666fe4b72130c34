"""What stretto.Optimizer refuses, on one rank, and by which words: models, optimizers, options, later changes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch

import stretto

torch.set_num_threads(1)  # tensors are small


def _net() -> torch.nn.Sequential:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))


def _sgd(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=0.1)


def _backward(model: torch.nn.Module, step: int = 0) -> None:
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(step))
    model(x).square().sum().backward()


class _Gaps(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.zeros(4, 6)[:, :3])


class _Complex(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.zeros(2, dtype=torch.complex64))


def _with(**group: Any) -> Callable[[], Any]:
    def make() -> Any:
        model = _net()
        optimizer = _sgd(model)
        optimizer.param_groups[0].update(group)
        return stretto.Optimizer(optimizer, model)

    return make


def _wrap(model: torch.nn.Module, **options: Any) -> Any:
    return stretto.Optimizer(torch.optim.SGD(model.parameters(), 0.1), model, **options)


def _wrap_wrapped() -> None:
    model = _net()
    optimizer = _wrap(model)
    try:
        stretto.Optimizer(optimizer, model)
    finally:
        optimizer.finish()


def _of_another_model() -> None:
    stretto.Optimizer(_sgd(_net()), _net())


def _any(value: Any) -> Any:
    return value


def _all_frozen() -> None:
    _wrap(_net().requires_grad_(False))


def _marked(sign: str, value: object) -> Callable[[], Any]:
    def make() -> Any:
        model = _net()
        setattr(model[0].weight, sign, value)
        return _wrap(model)

    return make


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "no optimizer": (lambda: stretto.Optimizer(_any(_net())), "Sequential in the place of an optimizer"),
    "differentiable": (_with(differentiable=True), "differentiable=True: expected False"),
    "capturable": (_with(capturable=True), "capturable=True: expected False"),
    "meta": (lambda: _wrap(_net().to("meta")), "parameter 0.weight is on meta and has no values"),
    "gaps": (lambda: _wrap(_Gaps()), r"parameter w has gaps .*\(6, 1\) of shape \(4, 3\)"),
    "lazy": (lambda: _wrap(torch.nn.LazyLinear(3)), "parameter weight has no shape yet"),
    "complex": (lambda: _wrap(_Complex()), "w is torch.complex64: expected float32"),
    "ZeRO": (_marked("ds_id", 0), "parameter 0.weight is divided between ranks by DeepSpeed's ZeRO: expected a model"),
    "Megatron": (_marked("tensor_model_parallel", True), "parameter 0.weight is divided between ranks by Megatron's"),
    "frozen": (_all_frozen, "holds no parameter that requires a gradient"),
    "wrapped twice": (_wrap_wrapped, "expected to wrap it once"),
    "another model": (_of_another_model, r"group 0 .*shape \(4, 3\) that is none of the model's \(Sequential\)"),
    "algorithm": (lambda: _wrap(_net(), algorithm="eager-qourum"), "unknown algorithm 'eager-qourum': .*eager-quorum"),
    "normalize": (lambda: _wrap(_net(), normalize="mean"), "normalize mean: expected ranks, contributors or samples"),
    "unused": (lambda: _wrap(_net(), unused="none"), "unused 'none': expected zero or skip"),
    "buffers": (lambda: _wrap(_net(), buffers="mean"), "buffers 'mean': expected average or local"),
    "max_lag": (lambda: _wrap(_net(), max_lag=0), "max_lag 0: expected a whole number from 1 to 1024"),
    "seats": (lambda: _wrap(_net(), seats=3), "seats 3: expected a number from 1, for messages alone, to 1,"),
    "type": (lambda: _wrap(_net(), max_lag="many"), "max_lag 'many': expected a whole number"),
    "full_every": (lambda: _wrap(_net(), full_every=-1), "full_every -1: expected a whole number from 0"),
    "overlap": (lambda: _wrap(_net(), overlap=True), "expected sync"),
    "sync_every": (lambda: _wrap(_net(), algorithm="sync", sync_every=4), "sync_every 4 with algorithm 'sync'"),
    "bucket_mb": (lambda: _wrap(_net(), bucket_mb=-1), "bucket_mb -1: expected"),
    "option's name": (lambda: _wrap(_net(), algorithm="wagma", options={"tua": 4}), "tua.*tau"),
    "option's value": (lambda: _wrap(_net(), algorithm="wagma", options={"tau": "x"}), "tau.*x"),
    "another's option": (lambda: _wrap(_net(), options={"tau": 4}), "tau 4 with algorithm 'eager-quorum'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    make, text = REFUSED[case]
    with pytest.raises(stretto.UsageError, match=text) as raised:
        make()
    assert "\n" not in str(raised.value)


def test_devices() -> None:
    from stretto._checks import check_devices

    cpu, cuda = torch.device("cpu"), torch.device("cuda", 1)
    check_devices([("parameter a", cpu), ("parameter b", cpu)])
    with pytest.raises(stretto.UsageError, match=r"several devices \(parameter a on cpu, parameter b on cuda:1\)"):
        check_devices([("parameter a", cpu), ("parameter b", cuda)])


def _unfreeze(model: torch.nn.Sequential, optimizer: Any) -> None:
    model[2].bias.requires_grad_(True)


def _change_type(model: torch.nn.Sequential, optimizer: Any) -> None:
    model.double()


def _change_shape(model: torch.nn.Sequential, optimizer: Any) -> None:
    model[0].weight.data = torch.zeros(4, 5)


def _assign(model: torch.nn.Sequential, optimizer: Any) -> None:
    model.load_state_dict(copy.deepcopy(model.state_dict()), assign=True)
    _backward(model)


def _add_group_behind(model: torch.nn.Sequential, optimizer: Any) -> None:
    optimizer._inner.add_param_group({"params": [torch.nn.Parameter(torch.zeros(3))]})


def _finish(model: torch.nn.Sequential, optimizer: Any) -> None:
    optimizer.finish()


CHANGES: dict[Callable[..., None], str] = {
    _unfreeze: "parameter 2.bias was frozen when the optimizer was wrapped",
    _change_type: r"parameter 2.weight has become torch.float64 \[2, 4\] on cpu, and was torch.float32 \[2, 4\]",
    _change_shape: r"parameter 0.weight has become torch.float32 \[4, 5\]",
    _assign: r"parameter 0.weight of the model is another one than the optimizer's, as after load_state_dict",
    _add_group_behind: "has got other parameters since",
    _finish: r"step\(\) after finish\(\)",
}


@pytest.mark.parametrize("change", CHANGES, ids=lambda f: f.__name__)
def test_changes_are_refused(change: Callable[..., None]) -> None:
    model = _net()
    model[2].bias.requires_grad_(False)
    optimizer = stretto.Optimizer(torch.optim.SGD(model.parameters(), 0.1), model)
    for step in range(2):
        optimizer.zero_grad()
        _backward(model, step)
        optimizer.step()
    with pytest.raises(stretto.UsageError, match=CHANGES[change]):
        optimizer.zero_grad()
        change(model, optimizer)
        optimizer.step()


def test_what_is_in_no_optimizer() -> None:
    model = _net()
    half = stretto.Optimizer(torch.optim.SGD(model[0].parameters(), 0.1), model)
    _backward(model)
    with pytest.raises(stretto.UsageError, match="parameter 2.weight requires a gradient, and no stretto.Optimizer"):
        half.step()
    rest = stretto.Optimizer(torch.optim.AdamW(model[2].parameters(), 0.1), model)
    half.step()
    rest.step()
    half.finish()
    rest.finish()


def test_no_groups_later() -> None:
    model = _net()
    optimizer = _wrap(model)
    with pytest.raises(stretto.UsageError, match=r"add_param_group\(\) of an optimizer that is wrapped"):
        optimizer.add_param_group({"params": [torch.nn.Parameter(torch.zeros(3))]})
    optimizer.finish()


def test_no_step_together() -> None:
    model = _net()
    optimizer = _wrap(model)
    with pytest.raises(stretto.UsageError, match=r"step\(\) inside together\(\)"):
        with optimizer.together():
            optimizer.zero_grad()
            optimizer.step()


def test_gradients_of_nan_name_the_parameter() -> None:
    model = _net()
    optimizer = _wrap(model)
    optimizer.zero_grad()
    _backward(model)
    model[2].weight.grad[1, 2] = float("nan")
    with pytest.raises(stretto.Aborted, match=r"gradient of 2\.weight \(element 6 is nan\) is not finite on rank 0"):
        optimizer.step()


# ---- another model in its place ----


def _half(model: Any) -> None:
    model.half()


def _other_parameter(model: Any) -> None:
    model[0].weight = torch.nn.Parameter(model[0].weight.detach().clone())


def _other_layer(model: Any) -> None:
    model[0] = torch.nn.Linear(3, 4)


def _assigned(model: Any) -> None:
    model.load_state_dict({k: v.clone() for k, v in model.state_dict().items()}, assign=True)


@pytest.mark.parametrize("where", ["step", "together", "finish"])
@pytest.mark.parametrize("change", [_half, _other_parameter, _other_layer, _assigned], ids=lambda f: f.__name__)
def test_a_parameter_that_is_another_one_is_refused_by_name(change: Callable[..., None], where: str) -> None:
    model = _net()
    optimizer = stretto.Optimizer(_sgd(model), model)
    for step in range(2):
        optimizer.zero_grad()
        _backward(model, step)
        optimizer.step()
    change(model)
    half = r"parameter [02]\.\w+ has become torch.float16 .* was torch.float32"
    another = r"parameter 0\.weight of the model is another one"
    with pytest.raises(stretto.UsageError, match=half if change is _half else another):
        if where == "step":
            if change is not _half:
                optimizer.zero_grad()
                _backward(model)
            optimizer.step()
        elif where == "finish":
            optimizer.finish()
        else:
            with optimizer.together():
                pass
    optimizer._abort("")


def test_a_parameter_that_is_exchanged_in_the_optimizer_is_refused() -> None:
    model = _net()
    inner = _sgd(model)
    optimizer = stretto.Optimizer(inner, model)
    _backward(model)
    optimizer.step()
    inner.param_groups[0]["params"][0] = torch.nn.Parameter(torch.zeros(4, 3))
    with pytest.raises(stretto.UsageError, match="has got other parameters since"):
        optimizer.step()
    optimizer._abort("")
