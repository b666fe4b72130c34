"""What is trained on a device: a case is a model, and what a step does with it. gpu_training.py judges it."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

import stretto

STEPS = 8


class Case:
    """A model, and what a step does with it. A subclass changes one thing, and is named by its class."""

    algorithm = "sync"
    options: dict[str, Any] = {}
    overlap = False
    exact = True  # the bits are those of the plain training; else replicas are equal, and no gradient is lost
    hardware = False  # needs streams of a GPU
    ranks: tuple[int, ...] = (1, 2, 4)

    def model(self) -> torch.nn.Module:
        width = 64
        return torch.nn.Sequential(
            torch.nn.Linear(16, width),
            torch.nn.ReLU(),
            torch.nn.Linear(width, width),
            torch.nn.Tanh(),
            torch.nn.Linear(width, 4),
        )

    def optimizer(self, parameters: Iterable[torch.nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, 0.0625, momentum=0.5)

    def batch(self, where: torch.device, seed: int) -> torch.Tensor:
        return torch.randn(8, 16, generator=torch.Generator().manual_seed(seed)).to(where)

    def loss(self, model: torch.nn.Module, where: torch.device, seed: int) -> torch.Tensor:
        return model(self.batch(where, seed)).float().square().mean()

    def zero(self, model: torch.nn.Module, optimizer: Any) -> None:
        optimizer.zero_grad()

    def backward(self, model: torch.nn.Module, optimizer: Any, where: torch.device, seed: int) -> None:
        """Leaves the gradients of one rank's step in the parameters."""
        self.loss(model, where, seed).backward()

    def step(self, model: torch.nn.Module, optimizer: Any, where: torch.device, seed: int, step: int) -> None:
        """A step through the package."""
        self.zero(model, optimizer)
        self.backward(model, optimizer, where, seed)
        optimizer.step()


class Plain(Case):
    pass


class AdamW(Case):
    def optimizer(self, parameters: Iterable[torch.nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.AdamW(parameters, 0.01, foreach=True)


class FusedAdamW(Case):
    def optimizer(self, parameters: Iterable[torch.nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.AdamW(parameters, 0.01, fused=True)


class CapturableAdamW(Case):
    hardware = True

    def optimizer(self, parameters: Iterable[torch.nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.AdamW(parameters, 0.01, capturable=True)


class Accumulating(Case):
    def backward(self, model: torch.nn.Module, optimizer: Any, where: torch.device, seed: int) -> None:
        for part in range(3):
            self.loss(model, where, 10 * seed + part).backward()


class WithoutSync(Case):
    def backward(self, model: torch.nn.Module, optimizer: Any, where: torch.device, seed: int) -> None:
        held = optimizer.no_sync() if isinstance(optimizer, stretto.Optimizer) else contextlib.nullcontext()
        with held:
            self.loss(model, where, 10 * seed).backward()
        self.loss(model, where, 10 * seed + 1).backward()


class Clipping(Case):
    def backward(self, model: torch.nn.Module, optimizer: Any, where: torch.device, seed: int) -> None:
        super().backward(model, optimizer, where, seed)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)


class Overlapping(Case):
    overlap = True


class OverlappingAndClipping(Clipping):
    overlap = True


class ZeroedByTheModel(Case):
    def zero(self, model: torch.nn.Module, optimizer: Any) -> None:
        model.zero_grad()


class Scaling(Case):
    infinite = False

    def step(self, model: torch.nn.Module, optimizer: Any, where: torch.device, seed: int, step: int) -> None:
        scaler = torch.amp.GradScaler(where.type, init_scale=256.0)  # a power of two: the bits stay
        self.zero(model, optimizer)
        factor = float("inf") if self.infinite and step == 3 and stretto.rank() == 0 else 1.0
        scaler.scale(self.loss(model, where, seed) * factor).backward()
        scaler.step(optimizer)


class ScalingWithAnInfinity(Scaling):
    infinite = True
    exact = False


class BatchNorm(Case):
    def model(self) -> torch.nn.Module:
        return torch.nn.Sequential(
            torch.nn.Linear(16, 32), torch.nn.BatchNorm1d(32), torch.nn.ReLU(), torch.nn.Linear(32, 4)
        )


class ChannelsLast(Case):
    def model(self) -> torch.nn.Module:
        model = torch.nn.Sequential(
            torch.nn.Conv2d(3, 16, 3),
            torch.nn.ReLU(),
            torch.nn.Conv2d(16, 16, 3),
            torch.nn.Flatten(),
            torch.nn.Linear(256, 4),
        )
        return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]

    def batch(self, where: torch.device, seed: int) -> torch.Tensor:
        images = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(seed))
        return images.to(where).to(memory_format=torch.channels_last)


class Recurrent(Case):
    def model(self) -> torch.nn.Module:
        return torch.nn.LSTM(16, 24, num_layers=2)

    def loss(self, model: torch.nn.Module, where: torch.device, seed: int) -> torch.Tensor:
        return model(self.batch(where, seed).unsqueeze(1))[0].square().mean()  # type: ignore[no-any-return]


class TiedAndFrozen(Case):
    def model(self) -> torch.nn.Module:
        layers = [torch.nn.Linear(16, 16) for _ in range(3)]
        layers[2].weight = layers[0].weight
        layers[1].requires_grad_(False)
        return torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1], layers[2])


class _Mixed(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wide = torch.nn.Linear(16, 32)
        self.narrow = torch.nn.Linear(32, 4).bfloat16()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.narrow(self.wide(x).bfloat16())  # type: ignore[no-any-return]


class TwoTypes(Case):
    def model(self) -> torch.nn.Module:
        return _Mixed()


class BFloat16(Case):
    def model(self) -> torch.nn.Module:
        return super().model().bfloat16()

    def batch(self, where: torch.device, seed: int) -> torch.Tensor:
        return super().batch(where, seed).bfloat16()


class Autocast(Case):
    def loss(self, model: torch.nn.Module, where: torch.device, seed: int) -> torch.Tensor:
        with torch.autocast(where.type, torch.bfloat16):
            return super().loss(model, where, seed)


class Checkpointing(Case):
    reentrant = False

    def loss(self, model: torch.nn.Module, where: torch.device, seed: int) -> torch.Tensor:
        x = self.batch(where, seed).requires_grad_()
        return checkpoint(model, x, use_reentrant=self.reentrant).square().mean()  # type: ignore[no-any-return]


class CheckpointingReentrantly(Checkpointing):
    reentrant = True


class Meeting(Case):
    def step(self, model: torch.nn.Module, optimizer: Any, where: torch.device, seed: int, step: int) -> None:
        super().step(model, optimizer, where, seed, step)
        if step % 3 == 2:
            with optimizer.together():  # sets go, and come again
                pass


class OnAnotherThread(Case):
    def backward(self, model: torch.nn.Module, optimizer: Any, where: torch.device, seed: int) -> None:
        errors: list[BaseException] = []

        def work() -> None:
            try:
                self.loss(model, where, seed).backward()
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        if errors:
            raise errors[0]


class OnAStreamOfItsOwn(Case):
    """All of a step is on a current stream that is not the default one."""

    hardware = True

    def step(self, model: torch.nn.Module, optimizer: Any, where: torch.device, seed: int, step: int) -> None:
        stream = torch.cuda.Stream(where)
        stream.wait_stream(torch.cuda.current_stream(where))
        with torch.cuda.stream(stream):
            super().step(model, optimizer, where, seed, step)
        torch.cuda.current_stream(where).wait_stream(stream)


class OnSeveralStreams(Case):
    """Two layers are computed on two streams, so that gradients of one bucket come from both."""

    hardware = True

    def model(self) -> torch.nn.Module:
        return torch.nn.ModuleList([torch.nn.Linear(16, 16) for _ in range(2)])

    def loss(self, model: torch.nn.Module, where: torch.device, seed: int) -> torch.Tensor:
        x, first = self.batch(where, seed), torch.cuda.current_stream(where)
        parts = []
        for layer in model.children():
            stream = torch.cuda.Stream(where)
            stream.wait_stream(first)
            with torch.cuda.stream(stream):
                parts.append(layer(x).square().mean())
            first.wait_stream(stream)
        return torch.stack(parts).sum()


class GraphedCallables(Case):
    hardware = True

    def __init__(self) -> None:
        self._graphed: dict[torch.nn.Module, Any] = {}

    def loss(self, model: torch.nn.Module, where: torch.device, seed: int) -> torch.Tensor:
        x = self.batch(where, seed)
        if model not in self._graphed:
            self._graphed[model] = torch.cuda.make_graphed_callables(model, (x.clone(),))
        return self._graphed[model](x).square().mean()  # type: ignore[no-any-return]


class CapturedPasses(Case):
    """Forward and backward are one graph, which is replayed in each step."""

    hardware = True

    def __init__(self) -> None:
        self._graph: torch.cuda.CUDAGraph | None = None

    def step(self, model: torch.nn.Module, optimizer: Any, where: torch.device, seed: int, step: int) -> None:
        x = self.batch(where, seed)
        if self._graph is None:
            stream = torch.cuda.Stream(where)
            stream.wait_stream(torch.cuda.current_stream(where))
            with torch.cuda.stream(stream):  # what libraries do once is not to be in the graph
                optimizer.zero_grad()
                model(x).square().mean().backward()
            torch.cuda.current_stream(where).wait_stream(stream)
            optimizer.zero_grad()
            self._x, self._graph = x.clone(), torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                model(self._x).square().mean().backward()
        optimizer.zero_grad()
        self._x.copy_(x)
        self._graph.replay()
        optimizer.step()


class Compiled(Case):
    hardware = True  # on a CPU a compiler is started

    def __init__(self) -> None:
        self._compiled: dict[torch.nn.Module, Any] = {}

    def loss(self, model: torch.nn.Module, where: torch.device, seed: int) -> torch.Tensor:
        if model not in self._compiled:
            self._compiled[model] = torch.compile(model)
        return self._compiled[model](self.batch(where, seed)).square().mean()  # type: ignore[no-any-return]


class Late(Case):
    """The last rank comes late to every second step."""

    exact = False
    ranks = (2, 4)

    def step(self, model: torch.nn.Module, optimizer: Any, where: torch.device, seed: int, step: int) -> None:
        if stretto.rank() == stretto.size() - 1 and step % 2 == 0:
            time.sleep(0.01)
        super().step(model, optimizer, where, seed, step)


class LateUnderSolo(Late):
    algorithm = "eager-solo"


class LateUnderQuorum(Late):
    algorithm = "eager-quorum"


class AloneUnderQuorum(Case):
    algorithm = "eager-quorum"
    ranks = (1,)


class LocalSteps(Case):
    algorithm = "local"
    options = {"sync_every": STEPS // 2}


class OuterSteps(Case):
    algorithm = "diloco"
    options = {"sync_every": STEPS // 2}
    exact = False


class Groups(Late):
    algorithm = "wagma-quorum:2"


class Servers(Late):
    algorithm = "ps-async"


def _classes(of: type[Case]) -> Iterator[type[Case]]:
    for heir in of.__subclasses__():
        yield heir
        yield from _classes(heir)


CASES = {case.__name__: case for case in _classes(Case) if case is not Late}


def cases_for(ranks: int, made_up: bool) -> list[str]:
    return [name for name, case in CASES.items() if ranks in case.ranks and not (made_up and case.hardware)]
