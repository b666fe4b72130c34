#!/usr/bin/env python3
"""Trains on two processes over gloo, one of them late in each second step, and leaves the trace of each in a folder.

The traces are those of PyTorch's profiler, reduced to what tells who was late (README.md). Needs PyTorch.
"""

import json
import os
import pathlib
import sys
import time

import torch
from torch.nn.parallel import DistributedDataParallel

STEPS = 6
LATE = 0.1  # seconds
KEPT = ("gloo:", "c10d::", "DistributedDataParallel.forward")


def reduced(trace):
    """Few of its events, on a clock that begins a millisecond before the first that counts."""
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    kept = sorted((event for event in events if event["name"].startswith(KEPT)), key=lambda event: event["ts"])
    others = [event for event in events if event.get("cat") == "cpu_op" and event not in kept][:3]
    begin = kept[0]["ts"] - 1000
    lines = [json.dumps({key: value for key, value in {**event, "ts": round(event["ts"] - begin, 3)}.items() if key != "args"})
             for event in others + kept]
    info = json.dumps(trace["distributedInfo"])
    return f'{{"distributedInfo": {info},\n "traceEvents": [\n  ' + ",\n  ".join(lines) + "]}\n"


def train(rank, folder):
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    model = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512), torch.nn.ReLU(),
                                torch.nn.Linear(512, 8))
    model = DistributedDataParallel(model, bucket_cap_mb=0.5)
    sgd = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(number):
        x = torch.randn(32, 64)
        if rank == 1 and number % 2 == 1:
            time.sleep(LATE)
        loss = model(x).square().mean()
        sgd.zero_grad()
        loss.backward()
        sgd.step()

    step(0)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        for number in range(STEPS):
            step(number)
    path = folder / f"rank{rank}.json"
    profiler.export_chrome_trace(str(path))
    path.write_text(reduced(json.loads(path.read_text(encoding="utf-8"))), encoding="utf-8")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    torch.multiprocessing.spawn(train, args=(pathlib.Path(sys.argv[1]).resolve(),), nprocs=2)
