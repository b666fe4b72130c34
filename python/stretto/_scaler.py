"""torch.amp.GradScaler in front of a stretto.Optimizer.

`scaler.step(optimizer)` leaves its scale and what it has found on the optimizer (`_step_supports_amp_scaling`), and
calls step() in any case. A rank that has found an infinity or NaN meets the others and brings nothing, so that nobody
waits for it; any other rank divides its gradients by its own scale before it hands them over. So ranks may have
different scales. After `scaler.unscale_(optimizer)` the gradients are divided already.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from stretto._errors import UsageError


def unscale(optimizer: torch.optim.Optimizer, parameters: Sequence[torch.nn.Parameter], half: str | None) -> bool:
    """In step(): divides the gradients by the scale of the GradScaler that has called it, if one has. False: it has
    found one that is not finite, and the batch is to be dropped. `half`: a parameter of float16, by name.

    Raises UsageError for parameters of float16 without a GradScaler: small gradients are 0 there.
    """
    found = getattr(optimizer, "found_inf", None)
    if found is None:
        if half is not None:
            raise UsageError(
                f"parameter {half} is torch.float16, and no torch.amp.GradScaler has called step(): expected "
                "scaler.scale(loss).backward() and scaler.step(optimizer), or a model of bfloat16"
            )
        return True
    if float(found) != 0.0:
        return False
    scale = getattr(optimizer, "grad_scale", None)  # none after unscale_()
    if scale is None:
        return True
    factor = torch.as_tensor(scale).double().reciprocal().float()  # as GradScaler does it
    with torch.no_grad():
        for p in parameters:
            if p.grad is not None:
                p.grad.mul_(factor)
    return True
