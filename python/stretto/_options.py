"""What the groups of an optimizer say beside their parameters: rates and the like, which are the same on every rank."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Sequence
from typing import Any

import torch

# What cannot change without another object in its place.
_FIXED = (float, int, bool, str, type(None))
_PARAMETERS = ("params", "param_names")


def _plain(value: object) -> object:
    """A value whose repr() has all digits."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    return tuple(map(_plain, value)) if isinstance(value, tuple) else value


class Options:
    """Those of one optimizer."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self._optimizer = optimizer
        self._seen: list[tuple[Any, ...]] = []  # the values of each group, when last looked at
        self._fixed = False  # they are all of kinds that cannot change in place
        self._rate_and_hash = (0.0, 0)

    def rate_and_hash(self) -> tuple[float, int]:
        """Learning rate of the first group, and a hash of all options. Quick where nothing has changed."""
        groups = self._optimizer.param_groups
        if self._fixed and len(groups) == len(self._seen):
            for group, values in zip(groups, self._seen):
                if len(group) != len(values) or not all(map(operator.is_, group.values(), values)):
                    break
            else:
                return self._rate_and_hash
        self._seen = [tuple(group.values()) for group in groups]
        meant = [(k, v) for group in groups for k, v in group.items() if k not in _PARAMETERS]
        self._fixed = all(
            type(v) in _FIXED or (type(v) is tuple and all(type(x) in _FIXED for x in v)) for _, v in meant
        )
        text = repr([(k, _plain(v)) for k, v in meant])
        digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
        self._rate_and_hash = (float(groups[0].get("lr", 0.0)), int.from_bytes(digest, "little"))
        return self._rate_and_hash

    def of_groups(self) -> list[dict[str, Any]]:
        """The options of each group."""
        return [
            {name: value for name, value in group.items() if name not in _PARAMETERS}
            for group in self._optimizer.param_groups
        ]

    def take(self, of_groups: Sequence[dict[str, Any]]) -> None:
        """Becomes of_groups() of another rank."""
        for group, options in zip(self._optimizer.param_groups, of_groups):
            group.update(options)
