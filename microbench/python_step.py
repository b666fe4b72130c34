"""What a step of the Python package costs, beside the plain optimizer and DDP with Gloo, in the same processes:

    python microbench/python_step.py [--only NAME,...] [--blocks N] [--scale S] [--json FILE]

`make bench-python` runs all of it. Each variant takes its turn in every block of steps, in rotating order; what is
printed are medians over blocks, and the quartiles. Needs the packages torch and stretto. What each benchmark promises
stands in PROMISES; --once runs one short block of each and judges nothing, as a test.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

PROMISES = {
    "tensors": "one rank: step() and zero_grad() add at most 1.5 µs a parameter tensor of less than 1,000 elements",
    "small": "2 ranks, sync, 9 thousand parameters in 6 tensors: at most 1/6 of what DDP adds is added",
    "large": "2 ranks, sync, 1.2 million parameters: a step takes at most as long as DDP's",
    "overlap": "2 ranks, sync, 8 layers of 4 MiB whose backward passes sleep 2.5 ms each: what overlap=True hides",
    "slow": "4 ranks that sleep 5, 5, 5 and 15 ms: the three at their own pace within 20 %, 2.0 times DDP's batches",
    "pause": "one of 4 ranks sleeps 200 ms once: the others lose nothing up to max_lag rounds",
    "attached": "`small` after attach(), which DDP's forward pass is part of: no promise",
    "slow-attached": "`slow` after attach()",
    "pause-attached": "`pause` after attach()",
}
TENSORS = ((100, 64), (400, 64), (20, 65536))  # how many, of how many elements
LAYERS, LAYER_ELEMENTS, LAYER_SLEEP = 8, 1 << 20, 0.0025
SLEEPS = (0.005, 0.005, 0.005, 0.015)
PAUSE = 0.2
MAX_LAG = 4

Blocks = dict[str, list[float]]  # of each variant: seconds a step in each block
Variant = Callable[[int], float]  # makes so many steps; returns the seconds that count


# ---- in a rank's process ----


class Rank:
    """What a benchmark needs of the process it runs in. Torch is loaded here."""

    def __init__(self, settings: dict[str, Any]) -> None:
        import torch
        import torch.distributed as dist

        import stretto

        self.torch, self.dist, self.stretto = torch, dist, stretto
        self.rank, self.ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.blocks, self.scale = settings["blocks"], settings["scale"]
        torch.set_num_threads(1)
        if self.ranks > 1:
            dist.init_process_group(
                "gloo", init_method=f"file://{settings['folder']}/gloo", rank=self.rank, world_size=self.ranks
            )

    def steps(self, wanted: int) -> int:
        return max(2, int(wanted * self.scale))

    def start_together(self) -> None:
        if self.ranks > 1:
            self.dist.barrier()

    def in_turns(self, variants: dict[str, Variant], steps: int) -> Blocks:
        times: Blocks = {name: [] for name in variants}
        names = list(variants)
        for make in variants.values():
            make(min(steps, 20))
        for block in range(self.blocks):
            for i in range(len(names)):
                name = names[(block + i) % len(names)]
                self.start_together()
                times[name].append(variants[name](steps) / steps)
        return times

    def perceptron(self, widths: Sequence[int]) -> Any:
        nn = self.torch.nn
        self.torch.manual_seed(0)
        layers: list[Any] = []
        for i in range(len(widths) - 1):
            layers += [nn.Linear(widths[i], widths[i + 1]), nn.ReLU()]
        return nn.Sequential(*layers[:-1])

    def sgd(self, parameters: Any) -> Any:
        return self.torch.optim.SGD(parameters, lr=1e-3, momentum=0.9)

    def data_parallel(self, model: Any) -> Any:
        return self.torch.nn.parallel.DistributedDataParallel(model)

    def wrapped(self, model: Any, attached: bool, algorithm: str) -> tuple[Any, Any]:
        """The model, in a DistributedDataParallel where it is to be attached, and its optimizer."""
        if attached:
            model = self.data_parallel(model)
        optimizer = self.stretto.Optimizer(self.sgd(model.parameters()), model, algorithm, max_lag=MAX_LAG)
        if attached:
            self.stretto.attach(model, optimizer)
        return model, optimizer


def training(rank: Rank, model: Any, optimizer: Any, inputs: int, sleep: float = 0) -> Variant:
    """A loop as users write it, on one made-up batch."""
    torch = rank.torch
    x = torch.randn(8, inputs)
    y = torch.randint(10, (8,))
    loss_of = torch.nn.functional.cross_entropy

    def run(steps: int) -> float:
        begin = time.perf_counter()
        for _ in range(steps):
            if sleep:
                time.sleep(sleep)
            optimizer.zero_grad()
            loss_of(model(x), y).backward()
            optimizer.step()
        return time.perf_counter() - begin

    return run


def measure_tensors(rank: Rank, number: int, elements: int) -> Blocks:
    torch = rank.torch

    class Feed(torch.autograd.Function):  # type: ignore[misc]
        """A model that takes no time: gradients that are there already."""

        @staticmethod
        def forward(ctx: Any, gradients: Any, *parameters: Any) -> Any:
            ctx.gradients = gradients
            return parameters[0].new_zeros(())

        @staticmethod
        def backward(ctx: Any, _: Any) -> Any:
            return (None, *ctx.gradients)

    gradients = [torch.full((elements,), 1e-3) for _ in range(number)]

    def variant(wrap: Callable[[Any], Any]) -> Variant:
        parameters = [torch.nn.Parameter(torch.zeros(elements)) for _ in range(number)]
        optimizer = wrap(rank.sgd(parameters))

        def run(steps: int) -> float:
            taken = 0.0
            for _ in range(steps):
                begin = time.perf_counter()
                optimizer.zero_grad()
                taken += time.perf_counter() - begin
                Feed.apply(gradients, *parameters).backward()
                begin = time.perf_counter()
                optimizer.step()
                taken += time.perf_counter() - begin
            return taken

        def whole(steps: int) -> float:
            begin = time.perf_counter()
            run(steps)
            return time.perf_counter() - begin

        return whole if wrap.__name__.endswith("loop") else run

    def plain(optimizer: Any) -> Any:
        return optimizer

    def plain_loop(optimizer: Any) -> Any:
        return optimizer

    def stretto(optimizer: Any) -> Any:
        return rank.stretto.Optimizer(optimizer, algorithm="sync")

    def stretto_loop(optimizer: Any) -> Any:
        return stretto(optimizer)

    variants = {wrap.__name__: variant(wrap) for wrap in (plain, stretto, plain_loop, stretto_loop)}
    return rank.in_turns(variants, rank.steps(20000 // number if elements < 1000 else 100))


def measure_training(rank: Rank, widths: Sequence[int], steps: int, attached: bool) -> Blocks:
    plain, ddp, ours = (rank.perceptron(widths) for _ in range(3))
    variants = {
        "plain": training(rank, plain, rank.sgd(plain.parameters()), widths[0]),
        "ddp": training(rank, rank.data_parallel(ddp), rank.sgd(ddp.parameters()), widths[0]),
        "stretto": training(rank, *rank.wrapped(ours, attached, "sync"), widths[0]),
    }
    return rank.in_turns(variants, rank.steps(steps))


def measure_overlap(rank: Rank) -> Blocks:
    """Backward passes that sleep, as those of an accelerator let the host's core idle."""
    torch = rank.torch

    class Layer(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any, weight: Any) -> Any:
            ctx.gradient = torch.full_like(weight, 1e-3)
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            time.sleep(LAYER_SLEEP)
            return gradient, ctx.gradient

    def variant(wrap: Callable[[Any], Any]) -> Variant:
        weights = [torch.nn.Parameter(torch.zeros(LAYER_ELEMENTS)) for _ in range(LAYERS)]
        optimizer = wrap(torch.optim.SGD(weights, lr=1e-3))

        def run(steps: int) -> float:
            begin = time.perf_counter()
            for _ in range(steps):
                optimizer.zero_grad()
                x = torch.zeros((), requires_grad=True)
                for weight in weights:
                    x = Layer.apply(x, weight)
                x.backward()
                optimizer.step()
            return time.perf_counter() - begin

        return run

    variants = {
        "plain": variant(lambda optimizer: optimizer),
        "blocking": variant(lambda optimizer: rank.stretto.Optimizer(optimizer, algorithm="sync")),
        "overlapped": variant(lambda optimizer: rank.stretto.Optimizer(optimizer, algorithm="sync", overlap=True)),
    }
    return rank.in_turns(variants, rank.steps(20))


def measure_slow(rank: Rank, attached: bool) -> Blocks:
    """Each rank makes as many steps as fit into a block's time; ranks of DDP make the same number each."""
    widths = (64, 64, 64, 10)
    sleep = SLEEPS[rank.rank]
    plain, ddp, ours = (rank.perceptron(widths) for _ in range(3))
    model, optimizer = rank.wrapped(ours, attached, "eager-quorum")
    run_plain = training(rank, plain, rank.sgd(plain.parameters()), 64, sleep)
    run_ddp = training(rank, rank.data_parallel(ddp), rank.sgd(ddp.parameters()), 64, sleep)
    run_ours = training(rank, model, optimizer, 64, sleep)
    shared = rank.steps(100)
    own = int(shared * SLEEPS[-1] / sleep)

    def eager(steps: int) -> float:
        taken = run_ours(own)
        with optimizer.together():  # the next block begins at the same round
            pass
        return taken / own * steps

    return rank.in_turns({"plain": lambda n: run_plain(own) / own * n, "ddp": run_ddp, "stretto": eager}, shared)


def measure_pause(rank: Rank, attached: bool) -> Blocks:
    """Steps before the pause of rank 0, the `max_lag` steps that begin within it, and the longest of all."""
    widths = (64, 64, 64, 10)
    model, optimizer = rank.wrapped(rank.perceptron(widths), attached, "eager-quorum")
    run = training(rank, model, optimizer, 64, 0.002)
    times: Blocks = {"before": [], "within": [], "longest": []}
    run(5)
    for _ in range(rank.blocks):
        with optimizer.together():
            rank.start_together()
        before = [run(1) for _ in range(10)]
        with optimizer.together():
            rank.start_together()
        if rank.rank == 0:
            time.sleep(PAUSE)
        after = [run(1) for _ in range(MAX_LAG + 2)]
        times["before"].append(statistics.median(before))
        times["within"].append(sum(after[:MAX_LAG]) / MAX_LAG)
        times["longest"].append(max(after))
    return times


def run_rank(settings: dict[str, Any]) -> None:
    rank = Rank(settings)
    name = settings["benchmark"]
    attached = name.endswith("attached")
    if name == "tensors":
        blocks = measure_tensors(rank, settings["number"], settings["elements"])
    elif name in ("small", "attached"):
        blocks = measure_training(rank, (64, 64, 64, 10), 400, attached)
    elif name == "large":
        blocks = measure_training(rank, (784, 1024, 384, 10), 40, attached)
    elif name == "overlap":
        blocks = measure_overlap(rank)
    elif name.startswith("slow"):
        blocks = measure_slow(rank, attached)
    else:
        blocks = measure_pause(rank, attached)
    rank.start_together()
    rank.stretto.shutdown()
    print(json.dumps(blocks), flush=True)


# ---- in the process that starts them ----


def run_ranks(ranks: int, settings: dict[str, Any]) -> list[Blocks]:
    """What each rank has measured."""
    with tempfile.TemporaryDirectory() as folder:
        processes = []
        for rank in range(ranks):
            place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks}
            environment = os.environ | {name: str(value) for name, value in place.items()}
            environment["STRETTO_JOB"] = folder
            command = [sys.executable, __file__, "--rank", json.dumps(settings | {"folder": folder})]
            processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
        said = [process.communicate()[0] for process in processes]
        if any(process.returncode for process in processes):
            raise SystemExit(f"{settings['benchmark']}: a rank has failed")
        return [json.loads(lines.splitlines()[-1]) for lines in said]


def mean_of(ranks: Sequence[Blocks]) -> Blocks:
    """Over ranks, block by block."""
    return {name: [statistics.fmean(block) for block in zip(*(r[name] for r in ranks))] for name in ranks[0]}


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    if len(values) == 1:
        return values[0], values[0], values[0]
    below, middle, above = statistics.quantiles(values, n=4, method="inclusive")
    return below, middle, above


def added(blocks: Blocks, name: str, plain: str = "plain") -> list[float]:
    return [ours - theirs for ours, theirs in zip(blocks[name], blocks[plain])]


class Results:
    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.misses = 0

    def add(
        self, benchmark: str, what: str, unit: str, values: Sequence[float], limit: tuple[str, float] | None
    ) -> None:
        below, middle, above = quartiles(values)
        kept = limit is None or (middle <= limit[1] if limit[0] == "<=" else middle >= limit[1])
        self.misses += not kept
        promise = "" if limit is None else f"  asked {limit[0]} {limit[1]:.4g}{'' if kept else ': MISSED'}"
        print(f"{benchmark:16}{what:44}{middle:10.4g} {unit:12}[{below:.4g}, {above:.4g}]{promise}", flush=True)
        row = {"benchmark": benchmark, "what": what, "unit": unit, "median": middle, "quartiles": [below, above]}
        self.rows.append(row | {"values": list(values), "asked": limit})


def report_tensors(results: Results, settings: dict[str, Any]) -> None:
    for number, elements in TENSORS[: 1 if settings["once"] else None]:
        blocks = run_ranks(1, settings | {"number": number, "elements": elements})[0]
        name = f"{number} × {elements}"
        to_us = 1e6 / number
        results.add(name, "plain step() and zero_grad(), a tensor", "µs", [t * to_us for t in blocks["plain"]], None)
        limit = ("<=", 1.5) if elements < 1000 else None
        results.add(name, "added to them, a tensor", "µs", [t * to_us for t in added(blocks, "stretto")], limit)
        whole = added(blocks, "stretto_loop", "plain_loop")
        results.add(name, "added with the backward pass, a tensor", "µs", [t * to_us for t in whole], None)


def report_training(results: Results, settings: dict[str, Any]) -> None:
    name = settings["benchmark"]
    blocks = mean_of(run_ranks(2, settings))
    for variant, times in blocks.items():
        results.add(name, f"a step, {variant}", "µs", [t * 1e6 for t in times], None)
    ours, theirs = added(blocks, "stretto"), added(blocks, "ddp")
    limit = ("<=", 1 / 6) if name == "small" else None
    results.add(name, "added by stretto / added by DDP", "", [a / b for a, b in zip(ours, theirs)], limit)
    limit = ("<=", 1.0) if name == "large" else None
    whole = [a / b for a, b in zip(blocks["stretto"], blocks["ddp"])]
    results.add(name, "a step, stretto / DDP", "", whole, limit)


def report_overlap(results: Results, settings: dict[str, Any]) -> None:
    blocks = mean_of(run_ranks(2, settings))
    for variant, times in blocks.items():
        results.add("overlap", f"a step, {variant}", "ms", [t * 1e3 for t in times], None)
    hidden = [
        (blocking - overlapped) / (blocking - plain)
        for plain, blocking, overlapped in zip(blocks["plain"], blocks["blocking"], blocks["overlapped"])
    ]
    results.add("overlap", "hidden, of what blocking adds", "", hidden, None)


def report_slow(results: Results, settings: dict[str, Any]) -> None:
    name = settings["benchmark"]
    ranks = run_ranks(4, settings)
    fast = mean_of(ranks[:3])
    results.add(name, "a step of the three, plain", "ms", [t * 1e3 for t in fast["plain"]], None)
    results.add(name, "the same, eager-quorum / plain", "", [a / b for a, b in zip(fast["stretto"], fast["plain"])],
                ("<=", 1.2))
    rates = {
        variant: [sum(1 / times[variant][block] for times in ranks) for block in range(len(fast[variant]))]
        for variant in ("ddp", "stretto")
    }
    results.add(name, "batches a second, DDP", "", rates["ddp"], None)
    results.add(name, "batches a second, eager-quorum", "", rates["stretto"], None)
    gain = [a / b for a, b in zip(rates["stretto"], rates["ddp"])]
    results.add(name, "eager-quorum / DDP", "", gain, (">=", 2.0))


def report_pause(results: Results, settings: dict[str, Any]) -> None:
    name = settings["benchmark"]
    others = mean_of(run_ranks(4, settings)[1:])
    results.add(name, "a step of the three others before", "ms", [t * 1e3 for t in others["before"]], None)
    ratio = [a / b for a, b in zip(others["within"], others["before"])]
    results.add(name, f"the {MAX_LAG} within the pause / before", "", ratio, ("<=", 1.2))
    results.add(name, f"the longest step, at {MAX_LAG} rounds", "ms", [t * 1e3 for t in others["longest"]], None)


REPORTS = {
    "tensors": report_tensors,
    "small": report_training,
    "large": report_training,
    "overlap": report_overlap,
    "slow": report_slow,
    "pause": report_pause,
    "attached": report_training,
    "slow-attached": report_slow,
    "pause-attached": report_pause,
}


def machine() -> str:
    with open("/proc/cpuinfo", encoding="utf-8") as cpus:
        model = next((line.split(":")[1].strip() for line in cpus if line.startswith("model name")), "unknown")
    load = os.getloadavg()[0]
    return f"{os.cpu_count()} cores of {model}, load {load:.1f}, {time.strftime('%Y-%m-%d')}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default=",".join(REPORTS), help=f"some of {', '.join(REPORTS)}")
    parser.add_argument("--blocks", type=int, default=15, help="of steps, for each variant")
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of steps in a block")
    parser.add_argument("--once", action="store_true", help="one short block of each, judges nothing")
    parser.add_argument("--json", help="a file for all values")
    parser.add_argument("--rank", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.rank:
        return run_rank(json.loads(arguments.rank))
    chosen = arguments.only.split(",")
    if unknown := [name for name in chosen if name not in REPORTS]:
        parser.error(f"no benchmark {unknown[0]}: expected some of {', '.join(REPORTS)}")
    blocks, scale = (1, 0.02) if arguments.once else (arguments.blocks, arguments.scale)
    print(machine())
    results = Results()
    for name in chosen:
        print(f"\n{name}: {PROMISES[name]}")
        REPORTS[name](results, {"benchmark": name, "blocks": blocks, "scale": scale, "once": arguments.once})
    print(f"\n{machine()}")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as out:
            json.dump({"machine": machine(), "command": sys.argv, "results": results.rows}, out, indent=1)
    if results.misses and not arguments.once:
        raise SystemExit(f"{results.misses} promises missed")


if __name__ == "__main__":
    main()
