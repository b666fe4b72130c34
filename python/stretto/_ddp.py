"""Models in DistributedDataParallel: step() of the optimizer hands their gradients over, and not DDP's reducer."""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from stretto import _job
from stretto._countdown import Countdown
from stretto._errors import UsageError
from stretto._optimizer import Optimizer
from stretto._unattached import Attached

# DDP compares the annotations of a hook with types: so no `from __future__ import annotations` here.


class AttachedDistributedDataParallel(DistributedDataParallel, Attached):
    """What attach() makes of a DistributedDataParallel: one whose reducer rests, so that no rank waits in it."""

    # A reducer that runs would rebuild its buckets in the second step, and wait there for ranks without batches, too.
    @property
    def require_backward_grad_sync(self) -> bool:
        """Always false. Loops that accumulate gradients may set it: it is false for the backward passes that
        Optimizer.no_sync() would keep back."""
        return False

    @require_backward_grad_sync.setter
    def require_backward_grad_sync(self, value: bool) -> None:
        for countdown in _countdowns(self):
            countdown.paused = not value

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Optimizer.no_sync() of all optimizers that hold the model's parameters."""
        with contextlib.ExitStack() as stack:
            for countdown in _countdowns(self):
                stack.enter_context(countdown.resting())
            yield

    def register_comm_hook(self, state: object, hook: object) -> NoReturn:
        """Refused: attach() has registered a hook."""
        raise UsageError(
            "register_comm_hook() after attach(): expected neither, where a hook is to exchange the gradients, or "
            "attach() alone"
        )

    def join(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused: Join's collectives wait for all ranks in every step."""
        self.join_hook()

    def join_hook(self, **kwargs: Any) -> NoReturn:
        """Refused: Join's collectives wait for all ranks in every step."""
        raise UsageError(
            "Join of a DistributedDataParallel that is attached: expected join() of the stretto.Optimizer, or its "
            "finish() where this rank's batches end"
        )


def attach(ddp: DistributedDataParallel, optimizer: Optimizer) -> None:
    """Leaves the gradients of a model in DistributedDataParallel to `optimizer`, whose step() hands them over.

    Once, on every rank, before the first step; where several optimizers hold the model's parameters, with any of them.
    Samplers, the names in state_dict(), no_sync() and the module's forward pass stay as they are. A backward pass adds
    to the gradients and exchanges nothing, with no_sync() or without: a rank may have any number of batches, or none.

    DDP's reducer rests from then on. One that has run a backward pass rebuilds its buckets now, which waits for all
    ranks. Where a program starts the reducer by hand (prepare_for_backward()), a hook keeps the gradients as they are,
    and DDP's next forward pass waits for all ranks once, for its buckets: every rank must make two such passes.

    Raises UsageError for a DDP that waits for other ranks by itself, and says what would do: one with buffers that it
    broadcasts, find_unused_parameters, static_graph, SyncBatchNorm, a hook of its own, or another process group than
    all ranks; and for one that is attached already, or whose parameters `optimizer` does not hold.
    """
    if not isinstance(ddp, DistributedDataParallel):
        raise UsageError(
            f"attach({type(ddp).__name__}): expected a DistributedDataParallel; a model in none needs no attach()"
        )
    if not isinstance(optimizer, Optimizer):
        raise UsageError(f"attach(…, {type(optimizer).__name__}): expected the stretto.Optimizer of the model")
    if isinstance(ddp, AttachedDistributedDataParallel):
        raise UsageError("attach() of a DistributedDataParallel that is attached already: expected one attach()")
    _job.require_fixed("attach()")
    _require_parameters(ddp, optimizer)
    _require_all_ranks(ddp)
    _require_no_waits(ddp)
    ddp.reducer._rebuild_buckets()
    try:
        ddp.register_comm_hook(None, _keep)
    except RuntimeError as error:
        _refuse_hook(error)
    vars(ddp).pop("require_backward_grad_sync", None)
    ddp.__class__ = _attached(type(ddp))


def _parameters(optimizer: Optimizer) -> Iterable[torch.Tensor]:
    return (p for group in optimizer.param_groups for p in group["params"])


def _attached(kind: type[DistributedDataParallel]) -> type[DistributedDataParallel]:
    if kind is DistributedDataParallel:
        return AttachedDistributedDataParallel
    return type(f"Attached{kind.__name__}", (AttachedDistributedDataParallel, kind), {"__module__": kind.__module__})


def _keep(
    state: object,
    bucket: dist.GradBucket,  # type: ignore[name-defined]
) -> torch.futures.Future[torch.Tensor]:
    """The hook: gives a bucket's gradients back as they are."""
    kept: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    kept.set_result(bucket.buffer())
    return kept


def _countdowns(ddp: DistributedDataParallel) -> list[Countdown]:
    """Of the optimizers that hand over gradients of the model in backward passes."""
    overlaps = [part._tensors.overlap for part in _job.parts() if isinstance(part, Optimizer)]
    countdowns = [overlap.countdown for overlap in overlaps if overlap is not None]
    if not countdowns:
        return []
    trained = {id(p) for p in ddp.module.parameters()}
    return [countdown for countdown in countdowns if countdown.counts(trained)]


# ---- what attach() refuses ----


def _require_parameters(ddp: DistributedDataParallel, optimizer: Optimizer) -> None:
    held = {id(p) for p in _parameters(optimizer)}
    trained = [(name, p) for name, p in ddp.module.named_parameters() if p.requires_grad]
    if not any(id(p) in held for _, p in trained):
        raise UsageError(
            f"attach() of a model of which the optimizer holds no parameter ({trained[0][0]} is the model's first): "
            "expected an optimizer over ddp.parameters(), or over those of the module in it"
        )


def _require_all_ranks(ddp: DistributedDataParallel) -> None:
    rank, ranks = dist.get_rank(ddp.process_group), dist.get_world_size(ddp.process_group)
    if (rank, ranks) != (_job.rank(), _job.size()):
        raise UsageError(
            f"this process is rank {rank} of {ranks} in DDP's process group, and rank {_job.rank()} of {_job.size()} "
            "in stretto's job: expected a process group of all ranks, in the same order"
        )


def _require_no_waits(ddp: DistributedDataParallel) -> None:
    if ddp.find_unused_parameters:
        raise UsageError(
            "DDP with find_unused_parameters, for which ranks wait for one another: expected False; step() takes "
            "parameters without a gradient as they are"
        )
    if ddp.static_graph:
        raise UsageError("DDP with static_graph, for which ranks wait for one another: expected False")
    if getattr(ddp, "_delay_all_reduce_params", None):
        raise UsageError("DDP with delay_all_reduce_named_params, which it exchanges by itself: expected none")
    if getattr(ddp, "_use_python_reducer", False):
        raise UsageError('DDP with the reducer of torch._dynamo.config.optimize_ddp = "python_reducer": expected True')
    for name, module in ddp.module.named_modules():
        if isinstance(module, torch.nn.SyncBatchNorm):
            raise UsageError(
                f"module {name} is a SyncBatchNorm, in whose forward pass ranks wait for one another: expected "
                "BatchNorm, whose running statistics stretto.Optimizer(…, model) averages"
            )
    if ddp.broadcast_buffers and ddp.modules_buffers:
        raise UsageError(
            "DDP broadcasts the model's buffers in forward passes, in which ranks wait for one another: expected "
            "forward_sync_buffers=False (broadcast_buffers=False in older versions of Torch); "
            "stretto.Optimizer(…, model) averages buffers"
        )
    if ddp._comm_hooks:
        _refuse_hook(None)


def _refuse_hook(why: Exception | None) -> NoReturn:
    raise UsageError(
        "DDP has a communication hook already, which exchanges the gradients: expected none, or no attach()"
    ) from why
