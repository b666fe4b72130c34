"""overlap=True: buckets of gradients are handed over while the backward pass still computes the others."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Protocol

import torch

from stretto._countdown import Countdown
from stretto._errors import UsageError

_gradient = operator.attrgetter("grad")
_version = operator.attrgetter("_version")


class _Tensors(Protocol):
    """What a backward pass hands over: of each trained parameter, in the order of their memory."""

    parameters: list[torch.nn.Parameter]
    views: list[torch.Tensor]  # where p.grad lies, or should

    def name(self, number: int) -> str: ...
    def bring_home(self, first: int, last: int) -> None: ...


class Overlap:
    """Hands over each bucket as soon as it and those before it are complete: in the backward passes from one
    zero_grad() to the step(), but for those that no_sync() keeps back. Other ranks read what has been handed over, so
    nothing may be added to it, and nothing changed, until the step.
    """

    def __init__(self, tensors: _Tensors, buckets: list[int], hand_over: Callable[[], None]) -> None:
        """`buckets`: which each parameter is in, in ascending order; `hand_over()`: does so with the next."""
        self._tensors = tensors
        self._hand_over = hand_over
        self._ends = [buckets.index(b + 1) if b + 1 in buckets else len(buckets) for b in range(buckets[-1] + 1)]
        self._handed = 0  # buckets, in this step
        self._versions: list[int] = []  # of the gradients in them, as they were handed over
        self._fault = ""
        self.countdown = Countdown(tensors.parameters, buckets, self._complete, self._again)

    @property
    def handed_over(self) -> int:
        """Buckets of this step that have been handed over."""
        return self._handed

    def begin(self) -> None:
        """The gradients are about to be set to zero. Raises UsageError where some have been handed over."""
        if self._handed:
            raise UsageError(
                "zero_grad() after a backward pass whose gradients have been handed over in it (overlap=True): "
                "expected step() after it, or no overlap where a batch may be dropped"
            )
        self.countdown.start()

    def _complete(self, _: int) -> None:
        while self._handed < len(self._ends) and self.countdown.is_complete(self._handed):
            first, last = len(self._versions), self._ends[self._handed]
            self._tensors.bring_home(first, last)
            self._versions += map(_version, self._tensors.views[first:last])
            self._handed += 1
            self._hand_over()

    def _again(self, number: int) -> None:
        if number < len(self._versions):
            self._fault = (
                f"a second gradient of parameter {self._tensors.name(number)} in one step, after the first has been "
                "handed over (overlap=True): expected no_sync() around all backward passes of a step but the last"
            )
            raise UsageError(self._fault)

    def end(self) -> None:
        """The backward passes of this step are over. Raises UsageError where what has been handed over is not what is
        there: no round takes it, then."""
        self.countdown.stop()
        count, self._handed = len(self._versions), 0
        versions, self._versions = self._versions, []
        if self._fault:
            raise UsageError(self._fault)
        parameters, views = self._tensors.parameters[:count], self._tensors.views[:count]
        same = map(operator.is_, map(_gradient, parameters), views)
        kept = list(map(operator.and_, same, map(operator.eq, map(_version, views), versions)))
        if not all(kept):
            raise UsageError(
                f"the gradient of parameter {self._tensors.name(kept.index(False))} has changed after the backward "
                "pass has handed it over (overlap=True): expected changes, as by clip_grad_norm_(), in before_step(), "
                "or no overlap"
            )

    def check_scaler(self, optimizer: torch.optim.Optimizer) -> None:
        """Raises UsageError where a GradScaler calls step()."""
        if getattr(optimizer, "found_inf", None) is not None:
            raise UsageError(
                "torch.amp.GradScaler with overlap=True: gradients are handed over before it has divided them by its "
                "scale; expected no overlap"
            )
