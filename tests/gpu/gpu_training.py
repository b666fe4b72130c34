"""Training on a device through the package, against the same training by plain PyTorch on that device, to the bit.

The plain training has one model. On it each rank's gradients are computed by the kernels that the rank uses, copied to
the host, added in the order of the board's tree, divided by the number of ranks, and given to the plain optimizer.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from typing import Any

import torch
from gpu_cases import CASES, STEPS, Case, ScalingWithAnInfinity

import stretto


def call(rank: int, work: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """What stretto.spawn() calls."""
    return work(*arguments)


def seed_of(rank: int, step: int) -> int:
    return 100 * step + rank


def _tree(parts: list[torch.Tensor]) -> torch.Tensor:
    """The sum of what two, four … ranks have brought, in the order of the board."""
    while len(parts) > 1:
        parts = [a + b for a, b in zip(parts[::2], parts[1::2])]
    return parts[0]


def plainly(case: Case, ranks: int, where: torch.device) -> list[torch.Tensor]:
    """The weights after the plain training."""
    if case.algorithm == "local":
        return _averaging_models(case, ranks, where)
    torch.manual_seed(1)
    model = case.model().to(where)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = case.optimizer(trained)
    for step in range(STEPS):
        gradients: list[list[torch.Tensor]] = []
        for rank in range(ranks):
            optimizer.zero_grad()
            case.backward(model, optimizer, where, seed_of(rank, step))
            gradients.append([p.grad.to("cpu", copy=True) for p in trained if p.grad is not None])
        for parameter, *parts in zip(trained, *gradients):
            total = _tree(parts)
            parameter.grad = total.div_(torch.full((), ranks, dtype=total.dtype)).to(where)
        optimizer.step()
    return _weights(model)


def _averaging_models(case: Case, ranks: int, where: torch.device) -> list[torch.Tensor]:
    """The same where each rank has a model, and all become their average every so many steps."""
    models, optimizers = [], []
    for _ in range(ranks):
        torch.manual_seed(1)
        models.append(case.model().to(where))
        optimizers.append(case.optimizer(models[-1].parameters()))
    for step in range(STEPS):
        for rank, (model, optimizer) in enumerate(zip(models, optimizers)):
            case.step(model, optimizer, where, seed_of(rank, step), step)
        if (step + 1) % case.options["sync_every"] == 0:
            with torch.no_grad():
                for parts in zip(*(model.parameters() for model in models)):
                    average = _tree([part.to("cpu", copy=True) for part in parts]).div_(ranks)
                    for part in parts:
                        part.copy_(average)
    return _weights(models[0])


def _weights(model: torch.nn.Module) -> list[torch.Tensor]:
    return [p.detach().to("cpu", copy=True) for p in model.parameters()]


def through_the_package(case: Case, where: torch.device) -> tuple[list[torch.Tensor], int]:
    """The weights after finish(), and the gradients that were applied."""
    torch.manual_seed(1)
    model = case.model().to(where)
    inner = case.optimizer([p for p in model.parameters() if p.requires_grad])
    optimizer = stretto.Optimizer(inner, model, case.algorithm, bucket_mb=0.004, overlap=case.overlap, **case.options)
    for step in range(STEPS):
        case.step(model, optimizer, where, seed_of(stretto.rank(), step), step)
    optimizer.finish()
    return _weights(model), optimizer.batches_applied


def why_not(case: Case, weights: list[torch.Tensor], applied: int, where: torch.device) -> str:
    ranks = stretto.size()
    if not all(bool(w.isfinite().all()) for w in weights):
        return "weights are not finite"
    if not case.exact:
        dropped = ranks if isinstance(case, ScalingWithAnInfinity) else 0  # the step of the infinity, at most
        if not STEPS * ranks - dropped <= applied <= STEPS * ranks:
            return f"{applied} of {STEPS * ranks} gradients applied"
        return ""
    expected = plainly(case, ranks, where)
    for index, (found, wanted) in enumerate(zip(weights, expected)):
        if not torch.equal(found, wanted):
            off = (found.double() - wanted.double()).abs().max().item()
            return f"parameter {index} is off by {off:.1e}"
    return ""


Outcome = tuple[str, str, str]  # a case, why it has failed, and which weights its replica has


def run_cases(names: list[str], made_up: bool, progress: str) -> list[Outcome]:
    """In a rank of a job: runs these cases. Rank 0 leaves in the file `progress` which one it has begun."""
    where = prepare(made_up)
    outcomes = []
    for name in names:
        if stretto.rank() == 0:
            with open(progress, "w", encoding="utf-8") as file:
                file.write(name)
        case = CASES[name]()
        weights, applied = through_the_package(case, where)
        digest = hashlib.sha256(b"".join(w.contiguous().view(torch.uint8).numpy().tobytes() for w in weights))
        outcomes.append((name, why_not(case, weights, applied, where), digest.hexdigest()[:16]))
    return outcomes


def prepare(made_up: bool) -> torch.device:
    """This process's device, with kernels that give the same bits in each process."""
    torch.set_num_threads(1)
    os.environ["STRETTO_DEVICE"] = "stage"
    if made_up:
        import late_device

        late_device.stage()
        return torch.device("cpu")
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    torch.use_deterministic_algorithms(True)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = False
    torch.cuda.set_device(0)
    return torch.device("cuda", 0)
