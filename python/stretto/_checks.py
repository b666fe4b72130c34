"""What stretto.Optimizer refuses, each by name, with what would work in its place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from stretto._errors import UsageError

# As DataType of the core numbers them.
TYPES = {torch.float32: 0, torch.float64: 1, torch.bfloat16: 4, torch.float16: 5}


# What a tensor has of which each rank holds a part of its own, and who divides so. With placements that only repeat
# it, a DTensor's operations still take no plain tensors.
_DIVIDED = {
    "_is_flat_param": "FullyShardedDataParallel",
    "_fsdp_flattened": "FullyShardedDataParallel",
    "placements": "DTensor, as of fully_shard() or parallelize_module()",
    "sharded_tensor": "ShardedTensor",
    "ds_id": "DeepSpeed's ZeRO",
    "tensor_model_parallel": "Megatron's tensor parallelism",
}


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether the elements lie side by side, in any order of the dimensions."""
    expected = 1
    for stride, length in sorted(zip(tensor.stride(), tensor.shape)):
        if length == 1:
            continue
        if stride != expected:
            return False
        expected *= length
    return True


def check_optimizer(optimizer: object) -> None:
    """Whether its steps can be taken on gradients that ranks have averaged. Raises UsageError."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise UsageError(f"{type(optimizer).__name__} in the place of an optimizer: expected a torch.optim.Optimizer")
    name = type(optimizer).__name__
    if type(optimizer).__module__.startswith("torch.distributed."):
        raise UsageError(
            f"optimizer {name} of torch.distributed exchanges weights or states between ranks itself: expected the "
            "one that it wraps"
        )
    if isinstance(optimizer, torch.optim.LBFGS):
        raise UsageError(
            f"optimizer {name} evaluates its closure several times a step: expected one that moves by one gradient, "
            "as SGD or AdamW"
        )
    if isinstance(optimizer, torch.optim.SparseAdam):
        raise UsageError(
            f"optimizer {name} takes sparse gradients, and gradients are averaged as dense ones: expected Adam"
        )
    for group in optimizer.param_groups:
        if group.get("differentiable"):
            raise UsageError(
                f"optimizer {name} with differentiable=True: expected False, since weights are moved outside the graph"
            )
        if group.get("capturable") and any(p.device.type == "cpu" for p in group["params"]):
            raise UsageError(f"optimizer {name} with capturable=True: expected False where parameters are on the CPU")


def require_one_of(what: str, value: object, allowed: tuple[str, ...]) -> None:
    """Whether an option is one of these words. Raises UsageError."""
    if value not in allowed:
        raise UsageError(f"{what} {value!r}: expected {' or '.join(allowed)}")


def check_devices(tensors: Iterable[tuple[str, torch.device]]) -> None:
    """Whether the tensors of these names and devices have values, and lie on one device. Raises UsageError."""
    devices: dict[str, str] = {}
    for name, device in tensors:
        if device.type == "meta":
            raise UsageError(f"{name} is on meta and has no values: expected model.to_empty(device='cpu'), and values")
        devices.setdefault(str(device), name)
    if len(devices) > 1:
        listed = ", ".join(f"{name} on {device}" for device, name in devices.items())
        raise UsageError(f"the model is on several devices ({listed}): expected one")


def check_whole(name: str, tensor: torch.Tensor) -> None:
    """Whether each rank has all of a parameter or buffer, and not a part of it. Raises UsageError."""
    for sign, divided in _DIVIDED.items():
        if (value := getattr(tensor, sign, None)) is not None and value is not False:
            raise UsageError(
                f"{name} is divided between ranks by {divided}: expected a model that every rank has whole, as before "
                "it was wrapped"
            )


def check_trained(name: str, p: torch.Tensor) -> None:
    """Whether a parameter can be trained. Raises UsageError."""
    if p.dtype not in TYPES:
        raise UsageError(f"parameter {name} is {p.dtype}: expected float32, float64, bfloat16 or float16")
    if not is_dense(p):
        raise UsageError(
            f"parameter {name} has gaps in its memory, or elements that share it (strides {tuple(p.stride())} of shape "
            f"{tuple(p.shape)}): expected p.data = p.data.contiguous()"
        )


def check_membership(optimizer: torch.optim.Optimizer, model: torch.nn.Module) -> None:
    """Whether the optimizer's parameters are the model's. Raises UsageError."""
    known = {id(p) for p in model.parameters()}
    for number, group in enumerate(optimizer.param_groups):
        for p in group["params"]:
            if id(p) not in known:
                raise UsageError(
                    f"group {number} of the optimizer holds a parameter of shape {tuple(p.shape)} that is none of the "
                    f"model's ({type(model).__name__}): expected the optimizer of this model, made after the model "
                    "had its parameters"
                )


def check_owned(model: torch.nn.Module, optimizers: Sequence[torch.optim.Optimizer]) -> None:
    """Whether each parameter that wants a gradient is some optimizer's. Raises UsageError."""
    held = {id(p) for optimizer in optimizers for group in optimizer.param_groups for p in group["params"]}
    for name, p in model.named_parameters():
        if p.requires_grad and id(p) not in held:
            raise UsageError(
                f"parameter {name} requires a gradient, and no stretto.Optimizer holds it: expected it in an "
                "optimizer, or requires_grad_(False)"
            )


def sharing(
    optimizer: torch.optim.Optimizer, others: Sequence[torch.optim.Optimizer]
) -> list[torch.optim.Optimizer]:
    """Those of the others that hold parameters of `optimizer`."""
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    return [other for other in others if any(id(p) in held for group in other.param_groups for p in group["params"])]


def check_not_shared(optimizer: torch.optim.Optimizer, others: Sequence[torch.optim.Optimizer]) -> None:
    """Whether no other stretto.Optimizer moves the same parameters. Raises UsageError."""
    held = {id(p) for other in others for group in other.param_groups for p in group["params"]}
    for group in optimizer.param_groups:
        for p in group["params"]:
            if id(p) in held:
                raise UsageError(
                    f"a parameter of shape {tuple(p.shape)} is in another stretto.Optimizer that is not finished: "
                    "expected each parameter in one"
                )
