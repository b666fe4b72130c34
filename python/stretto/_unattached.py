"""Models in a DistributedDataParallel that attach() has not been told of."""

from __future__ import annotations

import gc
from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from stretto._errors import UsageError


class Attached:
    """What a DistributedDataParallel is, too, when attach() has been told of it."""


def check(parameters: Iterable[torch.Tensor]) -> None:
    """Raises UsageError where a DistributedDataParallel that is not attached holds some of the parameters, which an
    optimizer holds: their gradients would be averaged twice. DDP leaves no trace on parameters that Python could see,
    so this looks at all objects of the process; without a process group there is no DDP.
    """
    if not (dist.is_available() and dist.is_initialized()):
        return
    held = {id(p) for p in parameters}
    if _find_unattached(held) is None:
        return
    gc.collect()  # one that nobody holds any more is no matter
    if (found := _find_unattached(held)) is not None:
        raise UsageError(
            f"parameter {found} is in a DistributedDataParallel, too, which would average its gradients once more: "
            "expected stretto.attach(ddp, optimizer) before the first step, or the model without DDP"
        )


def _find_unattached(held: set[int]) -> str | None:
    kinds = _unattached_kinds(DistributedDataParallel)
    for found in gc.get_objects():
        if type(found) in kinds:
            for name, p in found.named_parameters():
                if id(p) in held:
                    return str(name)
    return None


def _unattached_kinds(kind: type) -> set[type]:
    if issubclass(kind, Attached):
        return set()
    return {kind}.union(*(_unattached_kinds(derived) for derived in kind.__subclasses__()))
