"""What PyTorch does not offer of CUDA's driver: functions of libcuda.so.1. Nothing of CUDA is linked or compiled.

The driver returns its errors. The runtime also keeps one for the thread, and the next kernel is reported as failed.
"""

from __future__ import annotations

import ctypes


class Driver:
    """The library of the driver, where there is one."""

    def __init__(self) -> None:
        self._missing = ""  # what of it is
        try:
            library = ctypes.CDLL("libcuda.so.1")
            self._register = library.cuMemHostRegister_v2
            self._unregister = library.cuMemHostUnregister
            self._text = library.cuGetErrorString
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
