"""Plants a defect: something that is not done any more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Plant = Callable[[], None]


def call(owner: Any, name: str, within: tuple[Any, str]) -> Plant:
    """Nobody calls this function from within the other one."""

    def plant() -> None:
        depth = 0
        whole, part = getattr(*within), getattr(owner, name)

        def calling(*args: Any, **options: Any) -> Any:
            nonlocal depth
            depth += 1
            try:
                return whole(*args, **options)
            finally:
                depth -= 1

        def called(*args: Any) -> Any:
            return None if depth else part(*args)

        setattr(*within, calling)
        setattr(owner, name, called)

    return plant
