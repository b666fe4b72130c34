"""A program on one rank, and what it has left in FOLDER/RANK.json.

recorded.py FOLDER script PROGRAM          as a launcher has started it
recorded.py FOLDER group PROGRAM RANK      a rank of four of a process group that it makes by hand
recorded.py FOLDER spawn PROGRAM HOST      two ranks of four, by mp.spawn(), as in DDP's tutorial; HOST from 0
"""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import runpy
import socket
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import stretto


def leave(folder: str, optimizer: stretto.Optimizer) -> None:
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    found = {
        "ranks": stretto.size(),
        "host": socket.gethostname(),
        "local": [stretto.local_rank(), stretto.local_size()],
        "batches": optimizer.batches_applied,
        "weights": hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in parameters)).hexdigest(),
    }
    (pathlib.Path(folder) / f"{stretto.rank()}.json").write_text(json.dumps(found))


def record(folder: str, program: str) -> None:
    made: list[stretto.Optimizer] = []
    construct = stretto.Optimizer.__init__

    def keep(self: stretto.Optimizer, *words: object, **options: object) -> None:
        construct(self, *words, **options)
        made.append(self)

    stretto.Optimizer.__init__ = keep
    sys.argv = [program, f"{folder}/checkpoint"]
    runpy.run_path(program, run_name="__main__")
    leave(folder, made[-1])


def spawned(local_rank: int, folder: str, program: str, host: int) -> None:
    dist.init_process_group("gloo", rank=2 * host + local_rank, world_size=4)
    record(folder, program)


def main(folder: str, start: str, program: str, number: str = "0") -> None:
    torch.set_num_threads(1)
    if start == "spawn":
        mp.spawn(spawned, (folder, program, int(number)), nprocs=2)
        return
    if start == "group":
        store = f"tcp://{os.environ['MASTER_ADDR']}:29500"
        dist.init_process_group("gloo", init_method=store, rank=int(number), world_size=4)
    record(folder, program)


if __name__ == "__main__":
    main(*sys.argv[1:])
