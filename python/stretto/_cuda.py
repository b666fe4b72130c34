"""A device that computes, and a stream of copies beside that: by PyTorch, and by what PyTorch does not offer of CUDA's
driver: functions of libcuda.so.1. Nothing of CUDA is linked or compiled.

The driver returns its errors. The runtime also keeps one for the thread, and the next kernel is reported as failed.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from typing import Any, Protocol

import torch


class Device(Protocol):
    """A device that computes, and a stream of copies beside that."""

    def pin(self, address: int, size: int) -> str:
        """Has pages of the host's memory stay where they are, so that copies need not wait; says why not, or nothing.
        No page is pinned twice."""
        ...

    def unpin(self, address: int) -> None:
        """Takes pin() back. No copy is under way."""

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> Any:
        """Has the device do target = source, after the copies so far and after all it is to compute up to now.

        Returns an event: until it has come to pass nobody writes to `source`, or reads `target`.
        """

    def compute_after(self, event: Any) -> None:
        """What the device is to compute from now on is after the event."""

    def wait(self, event: Any) -> None:
        """Returns when the event has come to pass, and so those of all copies before it."""

    def captures(self) -> bool:
        """Whether what the device is asked for goes into a graph, which runs later, and often."""
        ...

    def computed(self) -> None:
        """In a backward pass: what is computed on this thread's stream up to now is before the next copies, too."""

    def compute_after_noted(self) -> None:
        """What is computed on this thread's stream from now on is after what computed() has noted."""


class Cuda:
    """A Device by CUDA. Gradients may be computed on several streams: backward() lets its caller's wait for all of them
    at its end, and the copies within it wait for those that were seen."""

    def __init__(self, where: torch.device) -> None:
        self._where = where
        self._copies = torch.cuda.Stream(where)
        self._computing: dict[int, torch.cuda.Stream] = {}  # by handle: since the last wait()
        self._driver = Driver()

    def pin(self, address: int, size: int) -> str:
        with self._context():
            return self._driver.register(address, size)

    def unpin(self, address: int) -> None:
        with contextlib.suppress(RuntimeError), self._context():  # after an error of the device every call fails
            self._driver.unregister(address)

    @contextlib.contextmanager
    def _context(self) -> Iterator[None]:
        """Within it the driver is asked about this device, and not about the first one, where no context is to be."""
        with torch.cuda.device(self._where):
            self._copies.query()  # the first call of the runtime on a thread makes a context current there
            yield

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> torch.cuda.Event:
        self.computed()
        for stream in list(self._computing.values()):
            self._copies.wait_stream(stream)
        with torch.cuda.stream(self._copies):
            target.copy_(source, non_blocking=True)
            event = torch.cuda.Event(blocking=True)
            event.record()
        return event

    def compute_after(self, event: torch.cuda.Event) -> None:
        torch.cuda.current_stream(self._where).wait_event(event)

    def wait(self, event: torch.cuda.Event) -> None:
        event.synchronize()
        self._computing.clear()

    def captures(self) -> bool:
        return torch.cuda.is_current_stream_capturing()

    def computed(self) -> None:
        stream = torch.cuda.current_stream(self._where)
        self._computing[stream.cuda_stream] = stream

    def compute_after_noted(self) -> None:
        current = torch.cuda.current_stream(self._where)
        for stream in list(self._computing.values()):
            if stream.cuda_stream != current.cuda_stream:
                current.wait_stream(stream)


class Driver:
    """The library of the driver, where there is one."""

    def __init__(self) -> None:
        self._missing = ""  # what of it is
        try:
            self._library = ctypes.CDLL("libcuda.so.1")
            self._register = self._library.cuMemHostRegister_v2
            self._unregister = self._library.cuMemHostUnregister
            self._text = self._library.cuGetErrorString
        except (OSError, AttributeError) as error:
            self._missing = str(error)
            return
        self._register.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint]
        self._unregister.argtypes = [ctypes.c_void_p]
        self._text.argtypes = [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)]

    def register(self, address: int, size: int) -> str:
        """Has whole pages of the host's memory stay where they are, for the context that is current on this thread to
        copy from and to. Returns why not, or nothing."""
        return self._missing or self._said("cuMemHostRegister", self._register(address, size, 0))

    def unregister(self, address: int) -> None:
        """Takes register() back."""
        self._unregister(address)

    def _said(self, name: str, error: int) -> str:
        if error == 0:
            return ""
        text = ctypes.c_char_p()
        self._text(error, ctypes.byref(text))
        return f"{name}: {text.value.decode() if text.value else f'error {error}'}"
