"""Gradients of float32 for parameters of bfloat16 and float16."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterable

import torch

from stretto._errors import UsageError

TYPES = (torch.bfloat16, torch.float16)


def widen(
    optimizer: torch.optim.Optimizer, parameters: Iterable[tuple[str, torch.nn.Parameter]], dtype: torch.dtype | None
) -> bool:
    """Has backward passes make gradients of `dtype` for the parameters of 16 bits. Returns whether there are any.

    Raises UsageError where Torch or the optimizer cannot: Torch's Adam and its kin take gradients of the parameter's
    type alone, SGD, RMSprop, Adagrad, Adafactor and others take these.
    """
    if dtype is None:
        return False
    if dtype is not torch.float32:
        raise UsageError(f"grad_dtype {dtype}: expected torch.float32, or none for the types of the parameters")
    narrow = [p for _, p in parameters if p.dtype in TYPES]
    if not narrow:
        return False
    if not hasattr(torch.Tensor, "grad_dtype"):
        raise UsageError(
            f"grad_dtype {dtype} with Torch {torch.__version__}, whose tensors have gradients of their own type: "
            "expected none, by which gradients are averaged in the type of the parameters"
        )
    for p in narrow:
        p.grad = None
        p.grad_dtype = dtype
    _try(optimizer, dtype)
    return True


# A step of the same optimizer over parameters made up, one of 16 bits in each group that has one.
def _try(optimizer: torch.optim.Optimizer, dtype: torch.dtype) -> None:
    probe = copy.copy(optimizer)
    probe.state = defaultdict(dict)
    probe.param_groups = []
    for group in optimizer.param_groups:
        types = {p.dtype for p in group["params"]} & set(TYPES)
        made = [torch.nn.Parameter(torch.zeros(2, 2, dtype=t)) for t in sorted(types, key=str)]
        for p in made:
            p.grad_dtype = dtype
            p.grad = torch.zeros(2, 2, dtype=dtype)
        if made:
            probe.param_groups.append({**group, "params": made})
    try:
        probe.step()
    except RuntimeError as error:
        raise UsageError(
            f"{type(optimizer).__name__} does not take gradients of {dtype} for parameters of 16 bits ({error}): "
            "expected no grad_dtype, or an optimizer such as SGD"
        ) from error
