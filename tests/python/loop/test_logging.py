"""What the package says: by the logger `stretto`, below WARNING on rank 0 alone, and never by print()."""

from __future__ import annotations

import ast
import logging
import pathlib

import torch

import stretto
from ranks import run, said, values

PACKAGE = pathlib.Path(stretto.__file__).parent


class Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.records: list[tuple[int, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append((record.levelno, record.getMessage()))


def _train() -> list[tuple[int, str]]:
    kept = Kept()
    logging.getLogger("stretto").addHandler(kept)
    logging.getLogger("stretto").setLevel(logging.DEBUG)
    model = torch.nn.Linear(3, 2)
    optimizer = stretto.Optimizer(torch.optim.SGD(model.parameters(), 0.1), model)
    for _ in range(5):
        optimizer.zero_grad()
        model(torch.ones(4, 3)).sum().backward()
        optimizer.step()
    optimizer.finish()
    stretto.shutdown()
    return kept.records


def test_rank_0_alone_says_what_is_no_warning() -> None:
    first, *others = values(_train, 3, timeout=240)
    assert first == [(logging.INFO, "3 ranks have met")]
    assert others == [[], []]


def test_without_a_handler_nothing_is_written() -> None:
    results = run(_train, 2, timeout=240)
    assert [(result.stdout, result.stderr) for result in results] == [("", "")] * 2, said(results)


def _writes(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"


def test_nothing_is_printed_but_by_the_logger() -> None:
    for path in PACKAGE.glob("*.py"):
        lines = [node.lineno for node in ast.walk(ast.parse(path.read_text())) if _writes(node)]
        assert lines == [], path.name


# ---- gradients that are changed before step() ----


def _norm(parameters, optimizer, scaler):
    torch.nn.utils.clip_grad_norm_(parameters, 0.1)


def _value(parameters, optimizer, scaler):
    torch.nn.utils.clip_grad_value_(parameters, 0.1)


def _through_data(parameters, optimizer, scaler):
    for p in parameters:
        p.grad.data.clamp_(-0.1, 0.1)


def _replaced(parameters, optimizer, scaler):
    for p in parameters:
        p.grad = p.grad.clamp(-0.1, 0.1)


def _unscaled_and_clipped(parameters, optimizer, scaler):
    scaler.unscale_(optimizer)
    _norm(parameters, optimizer, scaler)


def _unscaled(parameters, optimizer, scaler):
    scaler.unscale_(optimizer)


def _nothing(parameters, optimizer, scaler):
    pass


def _loose(parameters, optimizer, scaler):
    torch.nn.utils.clip_grad_norm_(parameters, 1e6)


def _moved(parameters, optimizer, scaler):
    for p in parameters:
        p.share_memory_()


def _dropped(parameters, optimizer, scaler):
    for p in parameters:
        p.grad = None


CHANGES = [_norm, _value, _through_data, _replaced, _unscaled_and_clipped]
NO_CHANGES = [_nothing, _unscaled, _loose, _moved, _dropped]


def _told(algorithm, way, scaled, unchanged=0, steps=3):
    """How often of so many steps, of which the first are left as they are."""
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logging.getLogger("stretto").addHandler(handler)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 200), torch.nn.Tanh(), torch.nn.Linear(200, 2))
    optimizer = stretto.Optimizer(torch.optim.SGD(model.parameters(), 0.01), model, algorithm)
    optimizer.before_step(lambda: torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1))
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, enabled=scaled)
    for step in range(steps):
        optimizer.zero_grad()
        for _ in range(2):
            scaler.scale(model(torch.ones(4, 3)).square().sum()).backward()
        (way if step >= unchanged else _nothing)(list(model.parameters()), optimizer, scaler)
        scaler.step(optimizer)
        scaler.update()
    optimizer.finish()
    logging.getLogger("stretto").removeHandler(handler)
    return sum("a gradient was changed between backward() and step()" in line for line in lines)


def _all_told():
    torch.set_num_threads(1)
    scaled = {_unscaled_and_clipped, _unscaled}
    told = {way.__name__: _told("sync", way, way in scaled) for way in CHANGES + NO_CHANGES}
    told["eager"] = _told("eager-solo", _norm, False)
    told["scaled"] = _told("sync", _norm, True)
    told["own steps"] = _told("local", _norm, False)
    told["late"] = _told("sync", _norm, False, unchanged=20, steps=300)
    return told


def test_a_gradient_that_is_changed_before_step_is_told_once():
    first, second = values(_all_told, 2)
    assert first == {
        **{way.__name__: 1 for way in CHANGES}, **{way.__name__: 0 for way in NO_CHANGES},
        "eager": 1, "scaled": 1, "own steps": 0, "late": 1,
    }  # fmt: skip
    assert set(second.values()) == {0}  # every rank runs the same loop: one says it
