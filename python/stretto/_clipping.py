"""Gradients that are changed between backward pass and step(), as DDP's scripts clip them: here they are a rank's."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import torch
from torch.utils.hooks import RemovableHandle

_WATCHED = 3  # parameters, the smallest: what clips changes all
_ELEMENTS = 4096  # of each at most
_FIRST, _EACH = 10, 100  # steps that are watched: so many, and then one of so many (a watched one takes 0.2 ms longer)


class ClippingWatch:
    """Tells once where a gradient is not at step() what the last backward pass has left, but for what GradScaler does.
    By values: they also show what is done to `p.grad.data`, and are the same where memory has moved.
    """

    def __init__(self, parameters: Sequence[torch.Tensor]) -> None:
        self._seen: dict[int, tuple[torch.Tensor, int]] = {}  # by id: the last gradient's elements, and its version
        self._watched = sorted(parameters, key=torch.Tensor.numel)[:_WATCHED]
        self._handles: list[RemovableHandle] = []
        self._steps = 0
        self._watch()

    def _watch(self) -> None:
        self._handles = [p.register_post_accumulate_grad_hook(self._accumulated) for p in self._watched]

    def _accumulated(self, p: torch.Tensor) -> None:
        if p.grad is not None and not p.grad.is_sparse:
            self._seen[id(p)] = (_elements(p.grad).clone(), p.grad._version)

    def forget(self) -> None:
        """The gradients are set to zero."""
        self._seen.clear()

    def check(self, parameters: Sequence[torch.Tensor], optimizer: torch.optim.Optimizer) -> None:
        """In step(), before anything is done to the gradients."""
        if self._handles:
            self._check(parameters, optimizer)
        self._steps += 1
        watches = self._steps < _FIRST or self._steps % _EACH == 0
        if watches and not self._handles:
            self._watch()
        elif not watches and self._handles:
            self._rest()

    def _check(self, parameters: Sequence[torch.Tensor], optimizer: torch.optim.Optimizer) -> None:
        if not self._seen:
            return
        unscaled = hasattr(optimizer, "found_inf") and getattr(optimizer, "grad_scale", None) is None
        expected = _versions_of_unscaling() if unscaled else 0
        for p in parameters:
            seen = self._seen.get(id(p))
            if seen is None or p.grad is None or p.grad.is_sparse:
                continue
            now = _elements(p.grad)
            changed = p.grad._version > seen[1] + expected
            if not unscaled:
                changed = bool((now.ne(seen[0]) & now.eq(now)).any())
            if changed and bool(now.any()):  # zeros: the batch is dropped
                self.remove()
                logging.getLogger("stretto").warning(
                    "a gradient was changed between backward() and step(), as by clip_grad_norm_(): it is this rank's "
                    "own, not the average; to clip the average use optimizer.before_step(fn)"
                )
                break
        self._seen.clear()

    def _rest(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def remove(self) -> None:
        """Watches no more."""
        self._rest()
        self._watched = []


def _versions_of_unscaling() -> int:
    """By how many GradScaler.unscale_() makes a gradient's version higher: it depends on Torch's."""
    probe = torch.ones(1)
    torch._amp_foreach_non_finite_check_and_unscale_([probe], torch.zeros(1), torch.ones(1))
    return probe._version


def _elements(gradient: torch.Tensor) -> torch.Tensor:
    return gradient.detach().reshape(-1)[:_ELEMENTS]
