#!/usr/bin/env python3
"""Times stretto.allreduce() beside Gloo's, between hosts of this machine (network namespaces, tests/hosts/hosts.sh).

    sudo microbench/hosts_allreduce.py [--hosts 2] [--ranks 1] [--rate 1gbit] [--bytes 8,4194304] [--blocks 20] [--calls 50]

Both in each rank's process, block by block in turn; needs the package in build/release/package, and .cache/python-test.
A line for each size: rank 0's median of either of all calls, the least of the blocks' medians, and the median of the blocks' ratios
with the quartiles. --pause SECONDS: ranks sleep so long before each call.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
HOSTS = ROOT / "tests/hosts/hosts.sh"
PYTHON = ROOT / ".cache/python-test/bin/python"


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--ranks", type=int, default=1, help="of each host")
    parser.add_argument("--rate", default="", help="of each host's link, as 1gbit")
    parser.add_argument("--bytes", default="8,4194304")
    parser.add_argument("--blocks", type=int, default=20)
    parser.add_argument("--calls", type=int, default=50, help="in a block")
    parser.add_argument("--pause", type=float, default=0.0)
    return parser.parse_args()


def be_rank(options: argparse.Namespace) -> None:
    import torch
    import torch.distributed as dist

    import stretto

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    stretto.init()
    calls = {"stretto": stretto.allreduce, "Gloo": dist.all_reduce}
    for size in map(int, options.bytes.split(",")):
        tensor = torch.zeros(max(1, size // 4))
        medians: dict[str, list[float]] = {name: [] for name in calls}
        every: dict[str, list[float]] = {name: [] for name in calls}
        for block in range(-1, options.blocks):
            for name in calls if block % 2 == 0 else reversed(calls):
                times = []
                for _ in range(options.calls):
                    time.sleep(options.pause)
                    begin = time.perf_counter()
                    calls[name](tensor)
                    times.append(time.perf_counter() - begin)
                if block >= 0:  # the first has connected
                    medians[name].append(statistics.median(times))
                    every[name] += times
        if stretto.rank() == 0:
            ratios = [ours / theirs for ours, theirs in zip(medians["stretto"], medians["Gloo"])]
            low, middle, high = statistics.quantiles(ratios, n=4)
            said = ", ".join(
                f"{name} {statistics.median(every[name]) * 1e3:.3f} ms (least block {min(medians[name]) * 1e3:.3f})"
                for name in calls
            )
            print(f"{size} B: {said}; ratio {middle:.2f} ({low:.2f} to {high:.2f})", flush=True)
    dist.barrier()


def main() -> None:
    options = parsed()
    if "RANK" in os.environ:
        return be_rank(options)
    state = {**os.environ, "HOSTS_STATE": f"/run/stretto-hosts-bench-{os.getpid()}"}
    subprocess.run([HOSTS, "up", str(options.hosts), *filter(None, [options.rate])], env=state, check=True)
    ranks = options.hosts * options.ranks
    processes = []
    for rank in range(ranks):
        environment = state | {
            "RANK": str(rank),
            "WORLD_SIZE": str(ranks),
            "MASTER_ADDR": "10.77.0.1",
            "MASTER_PORT": "29500",
            "GLOO_SOCKET_IFNAME": "eth0",
            "STRETTO_MEETING": "10.77.0.1:4711",
            "STRETTO_RANK": str(rank),
            "STRETTO_RANKS": str(ranks),
            "PYTHONPATH": str(ROOT / "build/release/package"),
        }
        host = str(1 + rank // options.ranks)
        command = [HOSTS, "exec", host, PYTHON, "-W", "ignore", __file__, *sys.argv[1:]]
        processes.append(subprocess.Popen(command, env=environment))
    status = [process.wait() for process in processes]
    subprocess.run([HOSTS, "down"], env=state, check=True)
    sys.exit(max(status, key=abs))


if __name__ == "__main__":
    main()
