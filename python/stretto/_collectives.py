"""Plain collectives over tensors and arrays: allreduce(), broadcast(), barrier(). Loads neither Torch nor NumPy."""

from __future__ import annotations

import copy
import ctypes
import logging
import sys
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from stretto import _core, _job
from stretto._errors import UsageError

if TYPE_CHECKING:
    import torch

Array = TypeVar("Array")

# As DataType of the core numbers them, by the names of Torch and by the formats of buffers.
_TYPES = {"float32": 0, "float64": 1, "int32": 2, "int64": 3, "bfloat16": 4, "float16": 5}
_FORMATS = {"f": "float32", "d": "float64", "i": "int32", "l": "int64", "q": "int64", "e": "float16"}
_OPS = {"sum": 0, "min": 1, "max": 2, "bit_and": 3}


def allreduce(tensor: Array, op: Literal["sum", "min", "max", "bit_and"] = "sum") -> Array:
    """Sum, minimum, maximum or bitwise AND over all ranks, by element: a new tensor on each rank, with the same bits.

    `tensor`: a dense tensor on the CPU, a NumPy array, or another contiguous buffer, of float32, float64, bfloat16,
    float16, int32 or int64, and of the same shape and type on all ranks. Gradients do not flow through it. Waits for
    all ranks: in a loop in which ranks are in different steps it belongs into Optimizer.together().

    Raises UsageError for another argument, for bit_and of floats, and on all ranks where they have called something
    else than rank 0.
    """
    if op not in _OPS:
        raise UsageError(f"allreduce(op={op!r}): expected sum, min, max or bit_and")
    result = _Copy(tensor, "allreduce")
    ours = _current()
    ours.agree(f"allreduce(op='{op}') of {result.description}")
    ours.allreduce(_TYPES[result.type], _OPS[op], result.address, result.bytes)
    return result.array  # type: ignore[no-any-return]


def broadcast(tensor: Array, src: int = 0) -> Array:
    """Rank `src`'s tensor: a new one on each rank. Arguments and errors as allreduce()."""
    ours = _current()
    if not isinstance(src, int) or not 0 <= src < _job.size():
        raise UsageError(f"broadcast(src={src!r}) on {_job.size()} ranks: expected a rank from 0 to {_job.size() - 1}")
    result = _Copy(tensor, "broadcast")
    ours.agree(f"broadcast(src={src}) of {result.description}")
    ours.broadcast(src, result.address, result.bytes)
    return result.array  # type: ignore[no-any-return]


def barrier() -> None:
    """Returns when all ranks have called it. Raises UsageError on all where a rank has called another collective."""
    _current().agree("barrier()")


class _Copy:
    """A contiguous copy of the argument, and where its elements lie."""

    def __init__(self, array: Any, caller: str) -> None:
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(array, torch.Tensor):
            self._of_tensor(array, caller)
        else:
            self._of_buffer(array, caller)
        if self.type not in _TYPES:
            raise UsageError(f"{caller}() of {self.type}: expected {', '.join(_TYPES)}")
        self.description = f"{self.type} {self._shape}"

    def _of_tensor(self, tensor: torch.Tensor, caller: str) -> None:
        if tensor.device.type != "cpu" or str(tensor.layout) != "torch.strided":
            raise UsageError(
                f"{caller}() of a tensor on {tensor.device} of layout {tensor.layout}: expected a dense one on cpu"
            )
        self.array: Any = tensor.detach().clone(memory_format=sys.modules["torch"].contiguous_format)
        self.type = str(tensor.dtype).replace("torch.", "")
        self._shape = list(tensor.shape)
        self.address = self.array.data_ptr()
        self.bytes = self.array.numel() * self.array.element_size()

    def _of_buffer(self, array: Any, caller: str) -> None:
        try:
            self.array = copy.copy(array)
            view = memoryview(self.array)
        except TypeError:
            raise UsageError(f"{caller}() of a {type(array).__name__}: expected a tensor or an array") from None
        if not view.c_contiguous or view.readonly:
            raise UsageError(f"{caller}() of an array with gaps or in another order: expected a contiguous copy")
        self.type = _FORMATS.get(view.format.lstrip("@="), f"a buffer of format {view.format!r}")
        self._shape = list(view.shape or ())
        self.bytes = view.nbytes
        self.address = 0
        if self.bytes > 0:
            self.address = ctypes.addressof(ctypes.c_char.from_buffer(view.cast("B")))


class _Collectives:
    """Those of this process's job, until it leaves."""

    def __init__(self) -> None:
        _job.require_fixed("a collective of one's own")
        self._core = _core.Collectives(_job.current())
        self._busy = False
        _job.add(self)

    def _call(self, method: str, *arguments: Any) -> None:
        if self._busy:
            raise UsageError("a collective within another: expected one thread")
        self._busy = True
        try:
            getattr(self._core, method)(*arguments)
        except UsageError:
            raise
        except BaseException as error:
            self._core.abort(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)
            raise
        finally:
            self._busy = False

    def agree(self, what: str) -> None:
        self._call("agree", what)

    def allreduce(self, type_number: int, op: int, address: int, size: int) -> None:
        self._call("allreduce", type_number, op, address, size)

    def broadcast(self, root: int, address: int, size: int) -> None:
        self._call("broadcast", root, address, size)

    def _end(self) -> None:
        self._core.close()

    def _leave(self) -> None:
        pass  # where members change there are none

    def _abort(self, reason: str) -> None:
        self._core.abort(reason)


_ours: _Collectives | None = None


def _current() -> _Collectives:
    global _ours
    _job.current()
    if _ours is None:
        _ours = _Collectives()
    return _ours


def tell(line: str) -> None:
    """Called by the binding where a rank waits long."""
    logging.getLogger("stretto").warning("%s", line)
