"""Gloo's allreduce, through torch.distributed, beside ours, for `stretto bench allreduce`, which starts it:

    gloo_allreduce.py RANKS SECONDS BYTES...

Prints one line a size: BYTES CALLS MICROSECONDS, the last for one call, Python's share of it included.
"""

import os
import sys
import tempfile
import time

import torch
import torch.distributed as dist

WARM_UP_CALLS = 20
MOST_CALLS = 1_000_000


def run(calls, values):
    """Seconds for one call."""
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(calls):
        dist.all_reduce(values)
    return (time.perf_counter() - begin) / calls


def measure(rank, ranks, meeting_place, wanted, sizes):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting_place}", rank=rank, world_size=ranks)
    for size in sizes:
        # Zeros: each call replaces the values by their sum, which must not run out of range.
        values = torch.zeros(size // 4)
        once = run(WARM_UP_CALLS, values)
        calls = torch.tensor([min(max(wanted / once, 1), MOST_CALLS)], dtype=torch.float64)
        dist.broadcast(calls, 0)
        taken = run(int(calls.item()), values)
        if rank == 0:
            print(size, int(calls.item()), f"{1e6 * taken:.4f}", flush=True)
    dist.destroy_process_group()


def main():
    ranks, wanted, sizes = int(sys.argv[1]), float(sys.argv[2]), [int(size) for size in sys.argv[3:]]
    with tempfile.TemporaryDirectory() as folder:
        meeting_place = os.path.join(folder, "meeting")
        children = []
        for rank in range(1, ranks):
            child = os.fork()
            if child == 0:
                measure(rank, ranks, meeting_place, wanted, sizes)
                os._exit(0)
            children.append(child)
        measure(0, ranks, meeting_place, wanted, sizes)
        for child in children:
            os.waitpid(child, 0)


if __name__ == "__main__":
    main()
