"""A GPU with its driver, or what stands for them where there is none."""

import ctypes
import statistics
import time

import torch

PAGE = 4096
ALREADY_REGISTERED = 712  # CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED


class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 64)]


class Driver:
    """Functions of libcuda that torch does not offer. An error is what they return; nothing is left pending."""

    def __init__(self):
        self._library = ctypes.CDLL("libcuda.so.1")
        pointer, size, flags, address = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint, ctypes.c_uint64
        for name, arguments in {
            "cuMemHostRegister_v2": [pointer, size, flags],
            "cuMemHostUnregister": [pointer],
            "cuLaunchHostFunc": [pointer, pointer, pointer],
            "cuMemAlloc_v2": [ctypes.POINTER(address), size],
            "cuIpcGetMemHandle": [ctypes.POINTER(Handle), address],
            "cuIpcOpenMemHandle_v2": [ctypes.POINTER(address), Handle, flags],
            "cuIpcCloseMemHandle": [address],
        }.items():
            function = getattr(self._library, name)
            function.argtypes, function.restype = arguments, ctypes.c_int

    def __call__(self, name, *arguments):
        return int(getattr(self._library, name)(*arguments))


class MadeUpDriver:
    """Registers pages as the driver does, and calls a host function at once. It has no handles of memory."""

    def __init__(self):
        self._ranges = {}

    def __call__(self, name, *arguments):
        if name == "cuMemHostRegister_v2":
            first, last = arguments[0] // PAGE, (arguments[0] + arguments[1] - 1) // PAGE
            if any(begin <= last and first <= end for begin, end in self._ranges.values()):
                return ALREADY_REGISTERED
            self._ranges[arguments[0]] = first, last
        elif name == "cuMemHostUnregister":
            del self._ranges[arguments[0]]
        elif name == "cuLaunchHostFunc":
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(arguments[1].value)(arguments[2])
        else:
            return 801  # CUDA_ERROR_NOT_SUPPORTED
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
