"""What a model and its optimizer hold beside trained parameters: names, buffers, the optimizer's state."""

from __future__ import annotations

import logging
import operator
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import torch

from stretto import _checks, _device, _states
from stretto._checks import TYPES, is_dense
from stretto._device import Staging
from stretto._errors import UsageError
from stretto._replica import Piece

_logger = logging.getLogger("stretto")


def _piece_of(tensor: torch.Tensor) -> Piece:
    return (TYPES.get(tensor.dtype, 0), tensor.data_ptr(), tensor.numel() * tensor.element_size())


def _can_average(name: str, buffer: torch.Tensor) -> bool:
    counts = name.split(".")[-1] == "num_batches_tracked" and buffer.dtype == torch.int64
    return is_dense(buffer) and (buffer.dtype in TYPES or counts)


def _describe(name: str, buffer: torch.Tensor) -> str:
    order = "" if buffer.is_contiguous() else f" with strides {buffer.stride()}"
    return f"{name} {buffer.dtype} {list(buffer.shape)}{order}"


class Contents:
    """A model and its optimizer as the library describes, compares and broadcasts them: of a Replica what a step does
    without.
    """

    staging: Staging | None = None  # where the model is on a device
    wide_gradients = False  # those of parameters of 16 bits are float32; set before the memory is laid out

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        model: torch.nn.Module | None,
        unused: Literal["zero", "skip"],
        buffers: Literal["average", "local"],
    ) -> None:
        self.optimizer = optimizer
        self.model = model
        self._unused = unused
        self._average_buffers = buffers == "average"
        if model is not None:
            _checks.check_membership(optimizer, model)
        self.named = self._named_parameters()
        self._holders = [m._buffers for m in model.modules() if m._buffers] if model is not None else []
        self._shapes = [b.shape for holder in self._holders for b in holder.values() if b is not None]
        self._last_buffers = {name: list(b.shape) for name, b in self._named_buffers()}
        self._apart: set[str] = set()  # lines of describe_buffers() that not all ranks have
        self._check()
        self._held = [p for group in optimizer.param_groups for p in group["params"]]
        held = {id(p) for p in self._held}
        self._frozen = [p for _, p in self.named if not (id(p) in held and p.requires_grad)]
        self._frozen_here = [(name, p) for name, p in self.named if id(p) in held and not p.requires_grad]
        for name, p in self.trained_by_name():
            _checks.check_trained(name, p)

    # ---- parameters ----

    def _named_parameters(self) -> list[tuple[str, torch.nn.Parameter]]:
        named: list[tuple[str, Any]] = []
        seen: set[int] = set()
        if self.model is not None:
            for name, p in self.model.named_parameters():  # a tied weight once
                seen.add(id(p))
                named.append((name, p))
        number = 0
        for group in self.optimizer.param_groups:
            names = group.get("param_names")
            for i, p in enumerate(group["params"]):
                if id(p) not in seen:
                    seen.add(id(p))
                    named.append((names[i] if names else f"parameter{number}", p))
                number += 1
        return named

    def _check(self) -> None:
        for name, p in self.named:
            if torch.nn.parameter.is_lazy(p):
                raise UsageError(f"parameter {name} has no shape yet: expected a forward pass before the optimizer")
        named: list[tuple[str, torch.Tensor]] = [(f"parameter {name}", p) for name, p in self.named]
        named += [(f"buffer {name}", b) for name, b in self._named_buffers()]
        for name, tensor in named:
            _checks.check_whole(name, tensor)
        tensors = [(name, tensor.device) for name, tensor in named]
        _checks.check_devices(tensors)
        if tensors:
            self.staging = _device.staging_of(*tensors[0])

    def trained_by_name(self) -> list[tuple[str, torch.nn.Parameter]]:
        frozen = {id(p) for p in self._frozen}
        return [(name, p) for name, p in self.named if id(p) not in frozen and p.numel() > 0]

    def specs(self) -> list[tuple[str, int, int, bool]]:
        """Name, type, elements and whether it is trained, of each parameter, as the binding takes them."""
        trained = {id(p) for _, p in self.trained_by_name()}
        return [(name, TYPES.get(p.dtype, 0), p.numel(), id(p) in trained) for name, p in self.named]

    def check_unchanged(self) -> None:
        """Whether the optimizer still trains what it trained when it was wrapped. Raises UsageError."""
        for name, p in self._frozen_here:
            if p.requires_grad:
                raise UsageError(
                    f"parameter {name} was frozen when the optimizer was wrapped, and requires a gradient now: "
                    "expected finish(), and a new stretto.Optimizer"
                )
        held = [p for group in self.optimizer.param_groups for p in group["params"]]
        if len(held) != len(self._held) or not all(map(operator.is_, held, self._held)):
            raise UsageError(
                "the wrapped optimizer has got other parameters since: expected finish(), and a new stretto.Optimizer"
            )

    def check_model(self) -> None:
        """Whether the model still holds the parameters that are trained. Raises UsageError. Walks the whole model."""
        if self.model is None:
            return
        now = dict(self.model.named_parameters())
        for name, p in self.trained_by_name():
            if name in now and now[name] is not p:
                raise UsageError(
                    f"parameter {name} of the model is another one than the optimizer's, as after "
                    "load_state_dict(assign=True): expected that before the optimizer is made"
                )

    # ---- descriptions ----

    def describe_model(self) -> str:
        trained = {id(p) for _, p in self.trained_by_name()}
        lines = [
            f"{'parameter' if id(p) in trained else 'frozen parameter'} {name} {p.dtype} {list(p.shape)}"
            for name, p in self.named
        ]
        lines += [f"buffer {name} {b.dtype} {list(b.shape)}" for name, b in self._named_buffers()]
        if self.wide_gradients:
            lines.append("gradients of 16 bits as torch.float32")
        return "\n".join(lines)

    def describe_optimizer(self) -> str:
        lines = [f"{type(self.optimizer).__module__}.{type(self.optimizer).__qualname__}"]
        for group in self.optimizer.param_groups:
            options = {k: v for k, v in group.items() if k not in ("params", "param_names")}
            lines.append(f"group of {len(group['params'])} {options}")
        lines.append(f"unused={self._unused!r}, buffers={'average' if self._average_buffers else 'local'!r}")
        return "\n".join(lines)

    # ---- buffers ----

    def _named_buffers(self) -> list[tuple[str, torch.Tensor]]:
        """As the model holds them now: Torch replaces buffers where it moves them."""
        return list(self.model.named_buffers()) if self.model is not None else []

    def check_buffers(self) -> None:
        """Tells of buffers whose shapes have changed since this was last called. For each step: it looks at the buffers
        of the modules that had any when the model was wrapped."""
        shapes = [b.shape for holder in self._holders for b in holder.values() if b is not None]
        if shapes == self._shapes:
            return
        self._shapes = shapes
        before, self._last_buffers = self._last_buffers, {n: list(b.shape) for n, b in self._named_buffers()}
        changed = [
            f"{name} is {self._last_buffers.get(name, 'gone')}, and was {before.get(name, 'not there')}"
            for name in {**before, **self._last_buffers}
            if before.get(name) != self._last_buffers.get(name)
        ]
        if changed and self._average_buffers:
            more = f", and {len(changed) - 3} more have changed" if len(changed) > 3 else ""
            _logger.warning(
                "buffer %s%s: where ranks meet, those that all ranks have alike are averaged, and any other stays each "
                "rank's own",
                "; ".join(changed[:3]),
                more,
            )

    def others(self) -> list[Piece]:
        tensors: list[tuple[object, torch.Tensor]] = [(id(p), p.data) for p in self._frozen]
        tensors += self._named_buffers()
        pieces = []
        for key, tensor in tensors:
            if not is_dense(tensor):
                raise UsageError(f"a frozen parameter or buffer of shape {list(tensor.shape)} has gaps in its memory")
            pieces.append(self._piece(key, tensor))
        return pieces

    def _piece(self, key: object, tensor: torch.Tensor) -> Piece:
        """Of a tensor that the library may write to. `key`: the same for it at all times."""
        return _piece_of(tensor if self.staging is None else self.staging.lend(key, tensor))

    def _averaged(self) -> dict[str, tuple[str, torch.Tensor]]:
        """Buffers that are averaged over the ranks, and counts, by the line that all ranks have of them."""
        if not self._average_buffers:
            return {}
        lines = {_describe(name, b): (name, b) for name, b in self._named_buffers() if _can_average(name, b)}
        return {line: named for line, named in lines.items() if line not in self._apart}

    def describe_buffers(self) -> str | None:
        self._apart.clear()
        return "\n".join(self._averaged()) if self._average_buffers and self.model is not None else None

    def share_buffers(self, of_ranks: Sequence[str]) -> None:
        lines = [text.splitlines() for text in of_ranks]
        self._apart = {line for own in lines for line in own if not all(line in other for other in lines)}
        told = []
        for name in dict.fromkeys(line.split()[0] for own in lines for line in own if line in self._apart):
            shapes = [next((line for line in own if line.split()[0] == name), f"{name} is not there") for own in lines]
            other = next(rank for rank, shape in enumerate(shapes) if shape != shapes[0])
            told.append(f"'{shapes[0]}' on rank 0, '{shapes[other]}' on rank {other}")
        if told:
            more = f", and {len(told) - 3} more differ" if len(told) > 3 else ""
            _logger.warning("a buffer is %s%s: each rank keeps its own", "; ".join(told[:3]), more)

    def _floating(self) -> list[tuple[str, torch.Tensor]]:
        return [(name, b) for name, b in self._averaged().values() if b.dtype in TYPES]

    def floating_buffers(self) -> list[Piece]:
        return [self._piece(name, b) for name, b in self._floating()]

    def moments(self) -> list[tuple[int, int]]:
        at = {name: i for i, (name, _) in enumerate(self._floating())}
        pairs = []
        for name, i in at.items():
            if name.split(".")[-1] == "running_mean":
                variance = name[: -len("running_mean")] + "running_var"
                if variance in at:
                    pairs.append((i, at[variance]))
        return pairs

    def counts(self) -> list[Piece]:
        return [self._piece(name, b) for name, b in self._averaged().values() if b.dtype == torch.int64]

    # ---- the optimizer's state ----

    def sgd_rule(self) -> tuple[float, float, float] | None:
        if type(self.optimizer) is not torch.optim.SGD:
            return None
        rules = set()
        for group in self.optimizer.param_groups:
            if group["nesterov"] or group["dampening"] or group["maximize"]:
                return None
            rules.add((float(group["lr"]), float(group["momentum"]), float(group["weight_decay"])))
        return rules.pop() if len(rules) == 1 else None

    def state(self) -> bytes:
        if not self.optimizer.state:
            return b""
        return _states.encoded(self.optimizer.state_dict())

    def set_state(self, state: bytes) -> None:
        if not state:
            self.optimizer.state.clear()
            return
        self.optimizer.load_state_dict(_states.decoded(state))

    def _state(self) -> Iterator[tuple[int, str, Any]]:
        """What the optimizer keeps of each parameter, by the parameter's number and its own name."""
        held = [p for group in self.optimizer.param_groups for p in group["params"]]
        for i, p in enumerate(held):
            for name, value in sorted(self.optimizer.state.get(p, {}).items()):
                yield i, str(name), value

    def state_arrays(self) -> list[Piece]:
        return [
            self._piece(("state", i, name), t)
            for i, name, t in self._state()
            if isinstance(t, torch.Tensor) and t.dtype in TYPES and t.numel() > 1 and is_dense(t)
        ]

    def state_content(self) -> Iterator[bytes | Piece]:
        for _, name, value in self._state():
            yield name.encode()
            if isinstance(value, torch.Tensor) and is_dense(value):
                here = value.detach().cpu()
                yield _piece_of(here)
            else:
                yield repr(value).encode()
