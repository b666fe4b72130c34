"""A GPU with its driver, or what stands for them where there is none."""

import ctypes
import statistics
import time

import torch
from late_device import Pages

from stretto import _cuda


class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 64)]


class Driver(_cuda.Driver):
    """With functions that the package does without. An error is what they return; nothing is left pending."""

    def __init__(self):
        super().__init__()
        pointer, size, flags, address = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint, ctypes.c_uint64
        for name, arguments in {
            "cuLaunchHostFunc": [pointer, pointer, pointer],
            "cuMemAlloc_v2": [ctypes.POINTER(address), size],
            "cuIpcGetMemHandle": [ctypes.POINTER(Handle), address],
            "cuIpcOpenMemHandle_v2": [ctypes.POINTER(address), Handle, flags],
            "cuIpcCloseMemHandle": [address],
        }.items():
            getattr(self._library, name).argtypes = arguments

    def __call__(self, name, *arguments):
        return int(getattr(self._library, name)(*arguments))


class MadeUpDriver(Pages):
    """Calls a host function at once, and has nothing else that the package does without."""

    def __call__(self, name, _, function, argument):
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(function.value)(argument)
        return 0


class NoStream:
    """A stream, or an event, where all is done when it is asked for."""

    cuda_stream = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def wait_stream(self, _):
        pass

    record = synchronize = __enter__


class MadeUpCuda:
    """What this script asks of torch.cuda."""

    Stream = NoStream

    @staticmethod
    def Event(blocking=False):
        return NoStream()

    @staticmethod
    def stream(stream):
        return stream

    @staticmethod
    def synchronize():
        pass

    @staticmethod
    def device_count():
        return 0


class Gpu:
    """Where the numbers lie, torch.cuda, and the driver; with `fake` all of it is made up, and sizes are toys."""

    def __init__(self, fake):
        self.fake = fake
        self.where = torch.device("cpu" if fake else "cuda")
        self.cuda = MadeUpCuda() if fake else torch.cuda
        self.driver = MadeUpDriver() if fake else Driver()

    def size(self, size, toy):
        return toy if self.fake else size

    def seconds(self, work, repeats=11):
        """Median, by the host's clock, of work that is complete on the device."""
        taken = []
        for _ in range(repeats + 2):
            self.cuda.synchronize()
            begin = time.perf_counter()
            work()
            self.cuda.synchronize()
            taken.append(time.perf_counter() - begin)
        return statistics.median(taken[2:])
