"""What the package says: by the logger `stretto`, below WARNING on rank 0 alone, and never by print()."""

from __future__ import annotations

import ast
import logging
import pathlib

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
    import torch

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
