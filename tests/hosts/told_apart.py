"""Batches that are told apart, in a script that goes on from a checkpoint: each moves a weight of its own by 1/ranks,
so that a weight says how often its batch was applied.
"""

from __future__ import annotations

from typing import Any

import torch

import stretto

EPOCHS, BATCHES = 5, 10
FATAL = (2, 5)  # epoch and batch before which a rank is killed that has begun without a checkpoint


class Training:
    """`saved`: what state() gave; None: from the beginning. `first`: the epoch to begin with."""

    def __init__(self, saved: dict[str, Any] | None) -> None:
        self._model = torch.nn.ParameterList([torch.zeros(stretto.size(), EPOCHS, BATCHES)])
        self.first = 0
        if saved is not None:
            self._model.load_state_dict(saved["model"])
            self.first = saved["epochs"]
        sgd = torch.optim.SGD(self._model.parameters(), lr=1.0)
        self.optimizer = stretto.Optimizer(sgd, self._model, "eager-quorum", normalize="ranks")

    def step(self, epoch: int, batch: int) -> None:
        self.optimizer.zero_grad()
        (-self._model[0][stretto.rank(), epoch, batch]).backward()
        self.optimizer.step()

    def state(self, epoch: int) -> dict[str, Any]:
        """At the end of an epoch."""
        return {"model": self._model.state_dict(), "epochs": epoch + 1}
