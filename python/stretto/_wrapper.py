"""A torch.optim.Optimizer that stands in the place of another one."""

from __future__ import annotations

from typing import Any, NoReturn

import torch

from stretto._errors import UsageError


class Wrapper(torch.optim.Optimizer):
    """A torch.optim.Optimizer that has all of another one, but its steps."""

    _inner: torch.optim.Optimizer

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self._inner = optimizer
        self._constructed = False
        super().__init__(optimizer.param_groups, getattr(optimizer, "defaults", {}))  # for its hooks alone
        self._constructed = True

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The wrapped optimizer's."""
        return self._inner.param_groups

    @param_groups.setter
    def param_groups(self, groups: list[dict[str, Any]]) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        if self._constructed:
            self._inner.param_groups = groups

    @property
    def state(self) -> Any:
        """The wrapped optimizer's."""
        return self._inner.state

    @state.setter
    def state(self, state: Any) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        if self._constructed:
            self._inner.state = state

    @property
    def defaults(self) -> dict[str, Any]:
        """The wrapped optimizer's; {} where its class has none."""
        return getattr(self._inner, "defaults", {})

    @defaults.setter
    def defaults(self, defaults: dict[str, Any]) -> None:
        if self._constructed:
            self._inner.defaults = defaults

    def state_dict(self) -> dict[str, Any]:
        """That of the wrapped optimizer, in which a plain one of its type can read it. Equal on ranks inside
        together() and after finish()."""
        for before in self._optimizer_state_dict_pre_hooks.values():
            before(self)
        state = self._inner.state_dict()
        for after in self._optimizer_state_dict_post_hooks.values():
            changed = after(self, state)
            if changed is not None:
                state = changed
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads the wrapped optimizer's state: before it is wrapped on rank 0 alone, later on every rank, inside
        together()."""
        for before in self._optimizer_load_state_dict_pre_hooks.values():
            changed = before(self, state_dict)
            if changed is not None:
                state_dict = changed
        self._inner.load_state_dict(state_dict)
        for after in self._optimizer_load_state_dict_post_hooks.values():
            after(self)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Refused: ranks share memory for the parameters that there were at construction. Raises UsageError."""
        if self._constructed:
            raise UsageError(
                "add_param_group() of an optimizer that is wrapped: expected all groups before, or finish() and a new "
                "stretto.Optimizer"
            )

    def __getstate__(self) -> NoReturn:
        raise UsageError(
            "a copy, or pickle, of a stretto.Optimizer: it is this rank's end of a job; expected its state_dict()"
        )

    def __getattr__(self, name: str) -> Any:
        """What the wrapped optimizer has beyond torch.optim.Optimizer, as train() and eval() of schedule-free ones."""
        inner = vars(self).get("_inner")
        if inner is None or name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        return getattr(inner, name)
