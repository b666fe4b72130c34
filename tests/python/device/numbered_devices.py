"""Devices that are made up, of two numbers: cpu:0, cpu:1. Their tensors do not mix, as Torch has it of hardware."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from late_device import Runtime

# Between devices, or asked before that.
_MOVES: list[Any] = [
    torch.Tensor.to,
    torch.Tensor.copy_,
    torch.Tensor.data.__set__,  # type: ignore[attr-defined]
    torch._foreach_copy_,
    torch._has_compatible_shallow_copy_type,
]


class Numbers(TorchFunctionMode):
    """While it is on, a tensor made on such a device, or of tensors there, is on it. Of others no number is known: they
    are in the host's memory, or come from a backward pass, in which the device is the current one."""

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[int, tuple[int, torch.UntypedStorage]] = {}  # by address, which stays taken

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        there = {number for t in _of_type(torch.Tensor, (args, kwargs)) if (number := self._number_of(t)) is not None}
        if func == torch.Tensor.device.__get__:  # type: ignore[attr-defined]
            return torch.device("cpu", *there)
        if len(there) > 1 and func not in _MOVES:
            raise RuntimeError(f"Expected all tensors to be on the same device, but found those of numbers {there}")
        with Runtime.device(torch.device("cpu", *there)) if func is torch.Tensor.backward else contextlib.nullcontext():
            result = func(*args, **kwargs)
        asked = {where.index for where in _of_type(torch.device, (args, kwargs))}
        (number,) = (asked or there) if len(asked or there) == 1 else (None,)
        if number is not None:
            for tensor in _of_type(torch.Tensor, result):
                if (storage := tensor.untyped_storage()).nbytes():
                    self._known.setdefault(storage.data_ptr(), (number, storage))
        return result

    def _number_of(self, tensor: torch.Tensor) -> int | None:
        return self._known.get(tensor.untyped_storage().data_ptr(), (None,))[0]


def _of_type(kind: type[Any], values: Any) -> Iterator[Any]:
    if isinstance(values, kind):
        yield values
    elif isinstance(values, (list, tuple)):
        for value in values:
            yield from _of_type(kind, value)
    elif isinstance(values, dict):
        yield from _of_type(kind, list(values.values()))
