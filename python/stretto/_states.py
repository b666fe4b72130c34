"""States that a program registers, which a rank takes over that comes to its job later (Optimizer.register_state())."""

from __future__ import annotations

import io
from typing import Any, Protocol

import torch

from stretto._errors import UsageError


class Stateful(Protocol):
    """What a program may register: as modules, optimizers and averaged models of Torch have it."""

    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state_dict: dict[str, Any]) -> object: ...


class RegisteredStates:
    """The registered states of one optimizer, by name."""

    def __init__(self) -> None:
        self._states: dict[str, Stateful] = {}

    def add(self, name: str, state: Stateful) -> None:
        """Raises UsageError for a name that is taken, and for what does not travel as tensors and plain values."""
        if not isinstance(name, str) or not name or "\n" in name:
            raise UsageError(f"register_state({name!r}): expected a name, of one line")
        if name in self._states:
            raise UsageError(f"register_state({name!r}) a second time: expected another name")
        for method in ("state_dict", "load_state_dict"):
            if not callable(getattr(state, method, None)):
                raise UsageError(f"register_state({name!r}): {type(state).__name__} has no {method}(): expected both")
        try:
            decoded(encoded(state.state_dict()))
        except Exception as error:
            raise UsageError(
                f"register_state({name!r}): its state_dict() does not travel to another rank ({error}): expected "
                "tensors and plain values"
            ) from error
        self._states[name] = state

    def describe(self) -> list[str]:
        """A line each: name and type."""
        return [f"state {name} of {type(state).__name__}" for name, state in self._states.items()]

    def state(self) -> dict[str, Any]:
        """What all of them hold."""
        return {name: state.state_dict() for name, state in self._states.items()}

    def set_state(self, states: dict[str, Any]) -> None:
        """Takes over state() of another rank, which has the same names."""
        for name, state in self._states.items():
            state.load_state_dict(states[name])


def encoded(state: Any) -> bytes:
    """Tensors and plain values, for decoded()."""
    stream = io.BytesIO()
    torch.save(state, stream)
    return stream.getvalue()


def decoded(state: bytes) -> Any:
    """What encoded() was given. Never runs code. Raises pickle.UnpicklingError for anything but tensors and plain
    values."""
    return torch.load(io.BytesIO(state), map_location="cpu", weights_only=True)
