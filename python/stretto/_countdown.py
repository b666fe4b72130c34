"""Which buckets of gradients are complete while a backward pass still goes on."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import torch


class Countdown:
    """Counts the parameters of each bucket that have got no gradient yet, by a hook on each parameter."""

    def __init__(
        self,
        parameters: Sequence[torch.Tensor],
        buckets: Sequence[int],
        complete: Callable[[int], None],
        again: Callable[[int], None],
        left_out: Callable[[int], bool] | None = None,
    ) -> None:
        """`buckets`: which each parameter is in. In a backward pass `complete(bucket)` is called when all parameters
        of a bucket have got a gradient, and `again(number)` for a parameter in such a bucket that gets one more.
        `left_out(number)`: whether a gradient that comes is none to count.
        """
        sizes = Counter(buckets)
        self._sizes = [sizes[b] for b in range(max(buckets) + 1)]
        self._missing = list(self._sizes)
        self._waited_for = [True] * len(buckets)
        self._complete = complete
        self._again = again
        self._left_out = left_out
        self._runs = False
        self.paused = False  # gradients are not counted meanwhile: a later pass adds to them
        self._ids = [id(p) for p in parameters]
        self._handles = [
            p.register_post_accumulate_grad_hook(self._hook(number, bucket))
            for number, (p, bucket) in enumerate(zip(parameters, buckets))
        ]

    def _hook(self, number: int, bucket: int) -> Callable[[torch.Tensor], None]:
        missing, waited_for, left_out = self._missing, self._waited_for, self._left_out

        def hook(_: torch.Tensor) -> None:
            if (left_out is not None and left_out(number)) or not self._runs or self.paused:
                return
            if waited_for[number]:
                waited_for[number] = False
                missing[bucket] -= 1
                if not missing[bucket]:
                    self._complete(bucket)
            elif not missing[bucket]:
                self._again(number)

        return hook

    def start(self) -> None:
        """Waits for a gradient of every parameter from now on."""
        self._missing[:] = self._sizes
        self._waited_for[:] = [True] * len(self._waited_for)
        self._runs = True

    def stop(self) -> None:
        """Gradients are not counted until the next start()."""
        self._runs = False

    @contextlib.contextmanager
    def resting(self) -> Iterator[None]:
        """Gradients of the passes in the block are not counted."""
        before, self.paused = self.paused, True
        try:
            yield
        finally:
            self.paused = before

    def is_complete(self, bucket: int) -> bool:
        return self._missing[bucket] == 0

    def counts(self, ids: set[int]) -> bool:
        """Whether it counts some of the parameters with these id()s."""
        return any(i in ids for i in self._ids)

    def remove(self) -> None:
        """Takes the hooks from the parameters."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
