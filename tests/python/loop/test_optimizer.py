"""stretto.Optimizer as an optimizer of Torch, on one rank: its hooks, and where gradients lie."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from multiprocessing.reduction import ForkingPickler
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import stretto
from stretto._replica import Replica
from stretto._tensors import Tensors

torch.set_num_threads(1)  # tensors are small


def _net(width: int = 4) -> torch.nn.Sequential:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, width), torch.nn.Tanh(), torch.nn.Linear(width, 2))


def _sgd(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=0.1)


def _backward(model: torch.nn.Module, step: int = 0) -> None:
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(step))
    model(x).square().sum().backward()


def _bits(tensors: Iterator[torch.Tensor]) -> list[bytes]:
    return [t.detach().contiguous().view(torch.uint8).numpy().tobytes() for t in tensors]


# ---- an optimizer of Torch ----


def test_is_an_optimizer_of_torch() -> None:
    model = _net()
    inner = _sgd(model)
    with stretto.Optimizer(inner, model).join() as nothing:
        assert nothing is None
    optimizer = stretto.Optimizer(inner, model)
    assert isinstance(optimizer, torch.optim.Optimizer)
    assert optimizer.param_groups is inner.param_groups
    assert optimizer.state is inner.state
    assert optimizer.defaults is inner.defaults
    assert "wrapping SGD" in repr(optimizer) and "momentum: 0.9" in repr(optimizer)
    optimizer.param_groups = list(inner.param_groups)
    assert inner.param_groups is optimizer.param_groups
    optimizer.finish()


def test_hooks() -> None:
    model = _net()
    inner = _sgd(model)
    optimizer = stretto.Optimizer(inner, model)
    seen: list[str] = []
    optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append(f"before {kwargs}"))
    optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append("after"))
    inner.register_step_post_hook(lambda o, args, kwargs: seen.append("inner"))
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("before state_dict"))
    optimizer.register_state_dict_post_hook(lambda o, state: {**state, "more": 1})
    optimizer.register_load_state_dict_pre_hook(lambda o, state: {k: v for k, v in state.items() if k != "more"})
    optimizer.register_load_state_dict_post_hook(lambda o: seen.append("loaded"))
    _backward(model)
    optimizer.step(samples=3)
    state = optimizer.state_dict()
    assert state["more"] == 1
    optimizer.load_state_dict(state)
    assert seen == ["before {'samples': 3}", "inner", "after", "before state_dict", "loaded"]
    assert "more" not in inner.state_dict()
    optimizer.finish()


def test_state_dict_is_the_plain_one() -> None:
    model, plain = _net(), _net()
    alone = _sgd(plain)
    optimizer = stretto.Optimizer(_sgd(model), model)
    _backward(model)
    optimizer.step()
    alone.load_state_dict(copy.deepcopy(optimizer.state_dict()))  # Torch would share the tensors
    plain.load_state_dict(model.state_dict())
    for o, m in ((alone, plain), (optimizer, model)):
        o.zero_grad()
        _backward(m, 1)
        o.step()
    optimizer.finish()
    assert _bits(plain.parameters()) == _bits(model.parameters())


def test_closure_is_evaluated_once() -> None:
    model = _net()
    optimizer = stretto.Optimizer(_sgd(model), model)
    calls = []

    def closure() -> float:
        calls.append(torch.is_grad_enabled())
        optimizer.zero_grad()
        _backward(model)
        return 7.5

    with torch.no_grad():
        assert optimizer.step(closure) == 7.5
    assert calls == [True]
    assert optimizer.step() is None
    assert (optimizer.rounds, optimizer.batches_applied, optimizer.last_rounds) == (2, 2, 1)
    optimizer.finish()


def test_a_scheduler_can_be_built_on_it() -> None:
    model = _net()
    optimizer = stretto.Optimizer(_sgd(model), model)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    _backward(model)
    optimizer.step()
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] == 0.05
    optimizer.finish()


@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy, pickle.dumps], ids=lambda f: f.__name__)
def test_no_copies(copied: Callable[[Any], Any]) -> None:
    model = _net()
    optimizer = stretto.Optimizer(_sgd(model), model)
    with pytest.raises(stretto.UsageError, match=r"expected its state_dict\(\)"):
        copied(optimizer)
    optimizer.finish()


# ---- gradients ----


def _embedding() -> torch.nn.Module:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Embedding(7, 3, sparse=True), torch.nn.Flatten(), torch.nn.Linear(15, 2)
    )
    return model


class _Checkpointed(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = _net()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(self.net, x, use_reentrant=False)  # type: ignore[no-any-return]


def _model_zero_grad(model: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    model.zero_grad()
    _backward(model, step)


def _model_zero_grad_in_place(model: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    model.zero_grad(set_to_none=False)
    _backward(model, step)


def _zero_grad_in_place(model: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    optimizer.zero_grad(False)
    if step % 2 == 0:
        _backward(model, step)


def _none_by_hand(model: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    optimizer.zero_grad()
    for p in model.parameters():
        p.grad = None
    _backward(model, step)
    next(model.parameters()).grad = None


def _none_in_odd_steps(model: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    optimizer.zero_grad()
    if step % 2 == 0:
        _backward(model, step)


def _zeros(model: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    """Momentum and weight decay move what has a gradient of zeros."""
    optimizer.zero_grad()
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(step))
    (model(x).sum() * (0.0 if step % 2 else 1.0)).backward()


def _graph(model: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    optimizer.zero_grad()
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(step))
    loss = model(x).square().sum()
    gradients = torch.autograd.grad(loss, list(model.parameters()), create_graph=True)
    (loss + sum(g.square().sum() for g in gradients)).backward(create_graph=True)


def _twice(model: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    optimizer.zero_grad()
    _backward(model, 2 * step)
    _backward(model, 2 * step + 1)


def _never(model: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    _backward(model, step)


def _clipped(model: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    optimizer.zero_grad()
    _backward(model, step)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)


def _through_data(model: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    """As Reptile, A3C and evolution strategies write gradients."""
    optimizer.zero_grad()
    for p in model.parameters():
        if p.grad is None:
            p.grad = torch.zeros_like(p)
        p.grad.data.add_(step + 1.0)


def _in_part_through_data(model: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    optimizer.zero_grad()
    _backward(model, step)
    for p in list(model.parameters())[::2]:
        assert p.grad is not None
        p.grad.data.mul_(-2.0).clamp_(-0.1, 0.1)


WAYS = [
    _through_data, _in_part_through_data, _model_zero_grad, _model_zero_grad_in_place, _zero_grad_in_place,
    _none_by_hand, _none_in_odd_steps, _zeros, _graph, _twice, _never, _clipped,
]


@pytest.mark.filterwarnings("ignore:Using backward\\(\\) with create_graph=True")
@pytest.mark.parametrize("algorithm", ["sync", "eager-quorum", "local", "wagma", "diloco"])
@pytest.mark.parametrize("way", WAYS, ids=lambda f: f.__name__)
def test_ways_to_a_gradient(way: Callable[..., None], algorithm: str) -> None:
    if algorithm == "diloco" and way is not _twice:
        algorithm = "local"  # the outer step rounds: its bits are others
    for width in (4, 3000):  # gradients that stay in one place, and those that go from set to set
        plain, model = _net(width), _net(width)
        alone = torch.optim.SGD(plain.parameters(), 1e-4, momentum=0.9, weight_decay=0.1)
        inner = torch.optim.SGD(model.parameters(), 1e-4, momentum=0.9, weight_decay=0.1)
        optimizer = stretto.Optimizer(inner, model, algorithm)
        for step in range(4):
            way(plain, alone, step)
            alone.step()
            way(model, optimizer, step)
            optimizer.step()
        optimizer.finish()
        if algorithm != "diloco":
            assert _bits(plain.parameters()) == _bits(model.parameters())
            assert all(_same(p.grad, q.grad) for p, q in zip(plain.parameters(), model.parameters()))


def _same(plain: torch.Tensor | None, ours: torch.Tensor | None) -> bool:
    assert ours is not None
    return torch.equal(torch.zeros_like(ours) if plain is None else plain, ours)


@pytest.mark.parametrize("make", [_embedding, _Checkpointed], ids=["sparse gradients", "checkpointing"])
def test_models(make: Callable[[], torch.nn.Module]) -> None:
    plain, model = make(), make()
    alone = torch.optim.SGD(plain.parameters(), 0.1)
    optimizer = stretto.Optimizer(torch.optim.SGD(model.parameters(), 0.1), model)
    for step in range(3):
        generator = torch.Generator().manual_seed(step)
        x = torch.randint(0, 7, (4, 5), generator=generator) if make is _embedding else torch.randn(5, 3)
        for o, m in ((alone, plain), (optimizer, model)):
            o.zero_grad()
            m(x).square().sum().backward()
            for p in m.parameters():
                if p.grad is not None and p.grad.is_sparse:  # in the plain one
                    p.grad = torch.zeros_like(p).add_(p.grad)
            o.step()
    optimizer.finish()
    assert _bits(plain.parameters()) == _bits(model.parameters())


def test_what_a_step_asks_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    model = torch.nn.Linear(300, 400)
    asked: list[str] = []
    for name in [name for name in vars(Replica) if not name.startswith("_")]:

        def note(*arguments: Any, name: str = name, call: Any = getattr(Tensors, name)) -> Any:
            asked.append(name)
            return call(*arguments)

        monkeypatch.setattr(Tensors, name, note)
    optimizer = stretto.Optimizer(_sgd(model), model)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(4, 300)).sum().backward()
        asked.clear()
        optimizer.step()
        assert asked == ["collect", "options", "step"]
    optimizer.finish()


def test_unused() -> None:
    """A parameter without gradient stays where it is, or is moved as by a gradient of zeros."""
    for unused in ("skip", "zero"):
        plain, model = _net(), _net()
        alone = _sgd(plain)
        optimizer = stretto.Optimizer(_sgd(model), model, unused=unused)  # type: ignore[arg-type]
        for o, m in ((alone, plain), (optimizer, model)):
            _backward(m)
            o.step()
            o.zero_grad(set_to_none=unused == "skip" or o is optimizer)
            m[0](torch.ones(1, 3)).sum().backward()  # type: ignore[operator]
            o.step()
        optimizer.finish()
        assert _bits(plain.parameters()) == _bits(model.parameters())


@pytest.mark.parametrize("how", ["clips", "unscales", "scaler"])
def test_who_writes_to_all_gradients_makes_no_parameter_a_used_one(how: str) -> None:
    def parts() -> tuple[torch.nn.ModuleList, torch.optim.Optimizer]:
        model = torch.nn.ModuleList([_net(), _net()])
        return model, _sgd(model)

    def steps(model: torch.nn.ModuleList, optimizer: torch.optim.Optimizer) -> None:
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
        for step in range(4):
            optimizer.zero_grad()
            part = model[0] if step in (1, 3) else model
            for used in [part] if part is model[0] else model:
                scaler.scale(used(torch.ones(5, 3) + step).square().sum()).backward()
            if how == "unscales":
                scaler.unscale_(optimizer)
            if how != "scaler":
                # The largest, which is no sum: its last bit would depend on how many zeros there are.
                torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5, norm_type=float("inf"))
            scaler.step(optimizer)
            scaler.update()

    model, optimizer = parts()
    plain, inner = parts()
    wrapped = stretto.Optimizer(optimizer, model)
    steps(model, wrapped)
    steps(plain, inner)
    assert _bits(model.parameters()) == _bits(plain.parameters())
    wrapped.finish()


def test_a_rate_that_is_a_tensor_is_seen_where_it_is_changed_in_place() -> None:
    model = _net()
    rate, beta = torch.tensor(0.1), torch.tensor(0.9)
    inner = torch.optim.Adam(model.parameters(), lr=rate)
    optimizer = stretto.Optimizer(inner, model)
    seen = [optimizer._tensors.options()]
    for change in (lambda: rate.mul_(1 + 1e-6), lambda: inner.param_groups[0].update(betas=(beta, 0.99)),
                   lambda: beta.mul_(1 + 1e-6)):  # fmt: skip
        change()
        seen.append(optimizer._tensors.options())
    assert len({digest for _, digest in seen}) == 4
    assert seen[1][0] == rate.item()
    assert optimizer._tensors.options() == seen[-1]
    optimizer.finish()


def test_gradients_after_step() -> None:
    for width in (4, 3000):
        model = _net(width)
        optimizer = stretto.Optimizer(torch.optim.SGD(model.parameters(), 0.0), model)
        optimizer.zero_grad()
        _backward(model)
        expected = [p.grad.clone() for p in model.parameters() if p.grad is not None]
        optimizer.step()
        assert len(expected) == 4
        assert all(torch.equal(p.grad, g) for p, g in zip(model.parameters(), expected))  # type: ignore[arg-type]
        optimizer.zero_grad()
        assert all(p.grad is not None and not p.grad.any() for p in model.parameters())
        optimizer.finish()


@pytest.mark.parametrize("width", [4, 3000])
def test_tensors_that_torch_moves(width: int) -> None:
    plain, model = _net(width), _net(width)
    alone = torch.optim.SGD(plain.parameters(), 1e-4, momentum=0.9)
    optimizer = stretto.Optimizer(torch.optim.SGD(model.parameters(), 1e-4, momentum=0.9), model)
    for step in range(4):
        for o, m in ((alone, plain), (optimizer, model)):
            o.zero_grad()
            if step == 1:
                m.double().float()
            _backward(m, step)
            if step == 2:  # weights and gradients move
                m.double().float()
            o.step()
    optimizer.finish()
    assert _bits(plain.parameters()) == _bits(model.parameters())


def _share(model: torch.nn.Module) -> None:
    model.share_memory()


def _send(model: torch.nn.Module) -> None:
    ForkingPickler.dumps(model)


def _send_gradients(model: torch.nn.Module) -> None:
    for p in model.parameters():
        if p.grad is not None:
            ForkingPickler.dumps(p.grad)


def _cast_twice(model: torch.nn.Module) -> None:
    model.double().float()


@pytest.mark.parametrize("algorithm", ["sync", "eager-solo", "local", "wagma"])
@pytest.mark.parametrize("where", ["before zero_grad", "before backward", "before step", "before finish"])
@pytest.mark.parametrize("move", [_share, _send, _send_gradients, _cast_twice], ids=lambda f: f.__name__)
def test_what_moves_storages_is_seen(move: Callable[..., None], where: str, algorithm: str) -> None:
    for width in (4, 3000):
        plain, model = _net(width), _net(width)
        alone = torch.optim.SGD(plain.parameters(), 1e-4, momentum=0.9)
        optimizer = stretto.Optimizer(torch.optim.SGD(model.parameters(), 1e-4, momentum=0.9), model, algorithm)
        for step in range(5):
            for o, m in ((alone, plain), (optimizer, model)):
                for name, do in (
                    ("before zero_grad", o.zero_grad), ("before backward", lambda m=m: _backward(m, step)),
                    ("before step", o.step),
                ):  # fmt: skip
                    if step in (1, 3) and where == name:
                        move(m)
                    do()
        if where == "before finish":
            move(model)
        assert optimizer._tensors._is_home() == (where != "before finish")
        optimizer.finish()
        assert optimizer._tensors._is_home()
        assert _bits(plain.parameters()) == _bits(model.parameters())


# ---- hooks of rounds ----


def test_before_step_and_on_round() -> None:
    model = _net()
    optimizer = stretto.Optimizer(_sgd(model), model, "sync")
    norms: list[float] = []
    rounds: list[stretto.Round] = []
    clip = optimizer.before_step(lambda: norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5).item()))
    handle = optimizer.on_round(rounds.append)
    for step in range(3):
        optimizer.zero_grad()
        _backward(model, step)
        optimizer.step(samples=5)
        if step == 1:
            handle.remove()
            clip.remove()
            with optimizer.together():
                assert optimizer.batches_applied == 2
    assert len(norms) == 2 and all(n > 0.5 for n in norms)
    assert rounds == [
        stretto.Round(number=n, policy="full", batches=1, samples=5, contributors=1, arrived=1, staleness=0)
        for n in (0, 1)
    ]
    with pytest.raises(AttributeError):
        rounds[0].number = 3  # type: ignore[misc]
    with optimizer.on_round(rounds.append):
        optimizer.step()
    assert rounds[-1].number >= 3
    optimizer.finish()
