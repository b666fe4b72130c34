"""A model's weights on a device, as the library reads and writes them: in the host's memory, a tensor a bucket."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from stretto._cuda import Device

Tensors = list[torch.Tensor]


class Weights:
    """A window: between show() and take_back() the host's memory holds the weights, to read and to write; at any other
    time those on the device count. A bucket is one copy each way.

    The parameters stay where Torch has put them, and are gathered: as views of one tensor each would be saved by
    torch.save() with all of it.
    """

    def __init__(
        self,
        device: Device,
        where: torch.device,
        home: Tensors,
        parts: Callable[[int, torch.Tensor], tuple[Tensors, Tensors]],
        forget: Callable[[], None] | None,
    ) -> None:
        """`home`: the host's memory, a tensor a bucket; `parts(bucket, whole)`: the trained parameters of a bucket, and
        where each of them lies in a tensor like its `home`. `forget()`: where the library writes to the weights before
        the first take_back() alone, and seldom reads them later; what `home` holds is not wanted behind take_back(),
        and its memory may go. It is not to be registered."""
        self._device = device
        self._where = where
        self.home = home
        self._parts = parts
        self._forget = forget
        self.pinned = forget is not None  # or never to be
        self._shown = False
        self._written = True  # or may have been
        self._taken: Any = None  # event of the last copy to the device, which may be under way

    def show(self) -> None:
        """Returns when the host's memory holds the weights as they are behind all that the device is to compute."""
        if self._shown:
            return
        events: list[Any] = []
        on_device: list[torch.Tensor] = []  # while they are copied
        for bucket, home in enumerate(self.home):
            if bucket >= 2:  # no more of the device's memory than two buckets
                self._device.wait(events[bucket - 2])
                on_device[bucket - 2] = home
            whole = torch.zeros_like(home, device=self._where)
            parameters, views = self._parts(bucket, whole)
            with torch.no_grad():
                torch._foreach_copy_(views, parameters)
            events.append(self._device.copy(home, whole))
            on_device.append(whole)
        self._device.wait(events[-1])
        self._shown = True

    def take_back(self) -> None:
        """What the device computes from now on is with the weights that the host's memory holds."""
        if not self._shown:
            return
        self._shown = False
        for bucket, home in enumerate(self.home if self._written else []):
            whole = torch.empty_like(home, device=self._where)
            self._taken = self._device.copy(whole, home)
            self._device.compute_after(self._taken)
            parameters, views = self._parts(bucket, whole)
            with torch.no_grad():
                torch._foreach_copy_(parameters, views)
        if self._forget is not None:
            self._written = False
            self.settle()
            self._forget()

    def rest(self) -> None:
        """Nothing is copied any more, and registrations end."""
        self.settle()
        self.pinned = self._forget is not None

    def settle(self) -> None:
        """Returns when nothing is copied from the host's memory."""
        if self._taken is not None:
            self._device.wait(self._taken)
        self._taken = None
