"""What a rank of the Python package takes in memory beside its model, DDP with Gloo, and a process alone:

    python microbench/python_memory.py [--ranks N] [--layers N] [VARIANT ...]

A variant is an algorithm, or `ddp`, or `plain`. Printed is, in sizes of the model, the least and the most of the ranks,
once it is constructed and after six steps; of memory that ranks share, a rank's part. What malloc() keeps for later is
given back first. Needs the packages torch and stretto.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import pathlib
from typing import Any

WIDTH = 1000  # a layer is WIDTH × WIDTH of float32
VARIANTS = ("plain", "ddp", "sync", "eager-quorum", "eager-solo", "wagma", "wagma-quorum", "local", "diloco", "ad-psgd")


def _taken() -> int:
    import stretto

    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    stretto.barrier()
    rollup = pathlib.Path("/proc/self/smaps_rollup").read_text()
    stretto.barrier()
    return int(rollup.split("\nPss:")[1].split()[0]) << 10


def train(rank: int, variant: str, layers: int) -> tuple[float, float]:
    import torch
    import torch.distributed as dist

    import stretto

    torch.set_num_threads(1)
    model: torch.nn.Module = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(layers)))
    optimizer: Any = torch.optim.SGD(model.parameters(), 1e-5)

    def steps(number: int) -> None:
        for _ in range(number):
            optimizer.zero_grad()
            model(torch.ones(4, WIDTH)).square().mean().backward()
            optimizer.step()
        if number < 6:
            optimizer.zero_grad()

    steps(3)  # Torch keeps something of the first ones
    if variant == "ddp":
        dist.init_process_group("gloo")
    before = _taken()
    if variant == "ddp":
        model = torch.nn.parallel.DistributedDataParallel(model)
    elif variant != "plain":
        optimizer = stretto.Optimizer(optimizer, model, variant)
    constructed = _taken()
    steps(6)
    trained = _taken()
    if isinstance(optimizer, stretto.Optimizer):
        optimizer.finish()
    size = 4 * WIDTH * WIDTH * layers
    return (constructed - before) / size, (trained - before) / size


def main() -> None:
    import stretto

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("variants", nargs="*", default=VARIANTS, metavar="VARIANT")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--layers", type=int, default=10, help=f"of {WIDTH} by {WIDTH} float32 numbers, 3.8 MiB each")
    options = parser.parse_args()
    print(f"{options.ranks} ranks, {options.layers} layers; sizes of the model beside it\n")
    print(f"{'variant':14}  constructed  after steps")
    for variant in options.variants:
        of_ranks = stretto.spawn(train, (variant, options.layers), ranks=options.ranks)
        ranges = (f"{min(sizes):.1f}–{max(sizes):.1f}" for sizes in zip(*of_ranks))
        print(f"{variant:14}  {next(ranges):>11}  {next(ranges):>11}")


if __name__ == "__main__":
    main()
