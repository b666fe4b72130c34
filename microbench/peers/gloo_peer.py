"""Gloo's collectives, through torch.distributed, beside ours, for `stretto bench`, which starts it:

    gloo_peer.py RANKS BENCHMARK ARGUMENTS... BYTES...

Rank 0 prints a line a size. What each benchmark measures, and what its line has, stands in mpi_BENCHMARK.cc; Python's
share of a call is in the times here.
"""

import ctypes
import os
import resource
import signal
import sys
import tempfile
import time

import torch
import torch.distributed as dist

PR_SET_PDEATHSIG = 1
PR_SET_TIMERSLACK = 29
MOST_CALLS = 1_000_000
ENOUGH = 0.7  # of the time wanted
LARGE = 1 << 20
LEAD = 0.002  # from the end of a barrier to the start that all have in common
SETTLE = 0.02
SLEEPS_LONGER = 3


class Job:
    def __init__(self, rank, ranks, arguments):
        self.rank, self.ranks = rank, ranks
        self.arguments = arguments

    def number(self, i):
        return float(self.arguments[i])

    def sizes(self, i):
        return [int(size) for size in self.arguments[i:]]

    def print(self, size, *values):
        if self.rank == 0:
            print(size, *(f"{value:.7g}" for value in values), flush=True)


def vector(size):
    """Zeros: each call replaces the values by their sum, which must not run out of range."""
    return torch.zeros(size // 4)


def check(job):
    one = torch.ones(1)
    dist.all_reduce(one)
    if one.item() != job.ranks:
        raise SystemExit("a sum came out wrong")


def agreed(value):
    """Rank 0's."""
    out = torch.tensor([value], dtype=torch.float64)
    dist.broadcast(out, 0)
    return out.item()


def largest(value):
    out = torch.tensor([value], dtype=torch.float64)
    dist.all_reduce(out, op=dist.ReduceOp.MAX)
    return out.item()


def total(value):
    out = torch.tensor([value], dtype=torch.float64)
    dist.all_reduce(out)
    return out.item()


def common_start(lead):
    dist.barrier()
    return agreed(time.monotonic() + lead)


def sleep_until(when):
    left = when - time.monotonic()
    if left > 0:
        time.sleep(left)


def quantile(values, q):
    """Linear between the values in order, as our own are."""
    ordered = sorted(values)
    place = q * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def median(values):
    return quantile(values, 0.5)


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def allreduce(job, _):
    def run(calls, values):
        dist.barrier()
        begin = time.perf_counter()
        for _ in range(calls):
            dist.all_reduce(values)
        return (time.perf_counter() - begin) / calls

    def measure(wanted, warm_up, values):
        once, calls, taken = run(warm_up, values), 0, 0
        while True:
            left = min((wanted - taken) / once, MOST_CALLS - calls)
            more = max(1, left) if calls == 0 else left if taken <= ENOUGH * wanted else 0
            more = int(agreed(more))
            if more <= 0:
                return calls, once
            taken += more * run(more, values)
            calls += more
            once = taken / calls

    def run_one_by_one(calls, values):
        out = []
        dist.barrier()
        before = time.perf_counter()
        for _ in range(calls):
            dist.all_reduce(values)
            after = time.perf_counter()
            out.append(1e6 * (after - before))
            before = after
        return out

    for size in job.sizes(2):
        values = vector(size)
        calls, once = measure(job.number(0), 20 if size < LARGE else 2, values)
        line = [calls, 1e6 * once]
        if job.number(1):
            each = run_one_by_one(calls, values)
            line += [median(each), quantile(each, 0.99)]
        job.print(size, *line)


def skew(job, _):
    def run(rounds, late, values):
        latency = 0
        for _ in range(rounds):
            sleep_until(common_start(LEAD) + late)
            begin = time.monotonic()
            dist.all_reduce(values)
            latency += time.monotonic() - begin
        return latency

    rounds, late = int(job.number(0)), job.number(1) / 1e9 * (job.rank + 1)
    for size in job.sizes(2):
        values = vector(size)
        run(5, 0, values)
        begin = common_start(LEAD)
        cpu_before = cpu_seconds()
        latency = run(rounds, late, values)
        end = common_start(LEAD)
        cpu = cpu_seconds() - cpu_before
        job.print(size, 1e3 * total(latency) / job.ranks / rounds, total(cpu) / (end - begin))


WORDS = torch.zeros(8192, dtype=torch.int32)


def timed_work(passes):
    begin = time.perf_counter()
    for _ in range(passes):
        WORDS.mul_(1664525).add_(1013904223)
    return time.perf_counter() - begin


def calibrated_passes(seconds):
    timed_work(64)  # the first takes longer
    passes = 64
    while (taken := timed_work(passes)) < 0.01:
        passes *= 2
    return max(1, int(passes * seconds / taken))


def spin(job, passes):
    def run(others_sleep, values):
        start = common_start(SETTLE)
        taken = 0
        if job.rank == 0:
            sleep_until(start)
            taken = timed_work(passes)
        elif others_sleep:
            sleep_until(start + SLEEPS_LONGER * job.number(1))
        dist.all_reduce(values)
        return taken

    for size in job.sizes(2):
        values = vector(size)
        asleep, waiting = [], []
        for pair in range(int(job.number(0))):
            for others_sleep in (pair % 2 == 0, pair % 2 != 0):
                (asleep if others_sleep else waiting).append(run(others_sleep, values))
        if job.rank == 0:
            slowdowns = [with_them / without for with_them, without in zip(waiting, asleep)]
            job.print(size, 1e3 * median(asleep), 1e3 * median(waiting), median(slowdowns))


def overlap(job, _):
    steps, num_buckets = int(job.number(0)), int(job.number(3))
    share = (job.number(1) + job.rank * job.number(2)) / num_buckets / 1e9

    def run(mode, steps, buckets):
        start = common_start(LEAD)
        sleep_until(start)
        for _ in range(steps):
            begin, pending = time.monotonic(), []
            for i, bucket in enumerate(buckets):
                if mode in ("compute", "blocking", "overlapped"):
                    sleep_until(begin + (i + 1) * share)
                if mode in ("at once", "overlapped"):
                    pending.append(dist.all_reduce(bucket, async_op=True))
            if mode in ("collective", "blocking"):
                for bucket in buckets:
                    dist.all_reduce(bucket)
            for work in pending:
                work.wait()
        return largest(1e3 * (time.monotonic() - start) / steps)

    for size in job.sizes(4):
        buckets = [vector(size // num_buckets) for _ in range(num_buckets)]
        run("collective", 5, buckets)
        modes = ("compute", "collective", "at once", "blocking", "overlapped")
        job.print(size, *(run(mode, steps, buckets) for mode in modes))


BENCHMARKS = {"allreduce": allreduce, "skew": skew, "spin": spin, "overlap": overlap}


def enter_network(rank):
    """That of the rank's host, where ranks are on several (`stretto bench --over`)."""
    networks = os.environ.get("GLOO_PEER_NETWORKS")
    if networks:
        with open(networks.split(":")[rank], "rb") as network:
            if ctypes.CDLL(None, use_errno=True).setns(network.fileno(), 0) != 0:
                raise OSError(ctypes.get_errno(), f"{network.name} cannot be entered")


def run_rank(rank, ranks, benchmark, arguments, meeting_place, passes):
    enter_network(rank)
    job = Job(rank, ranks, arguments)
    dist.init_process_group("gloo", init_method=f"file://{meeting_place}", rank=rank, world_size=ranks)
    BENCHMARKS[benchmark](job, passes)
    check(job)
    dist.destroy_process_group()


def main():
    ranks, benchmark, arguments = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    torch.set_num_threads(1)
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_TIMERSLACK, 1000)
    # Before the other processes are started: none waits yet.
    passes = calibrated_passes(float(arguments[1])) if benchmark == "spin" else 0
    with tempfile.TemporaryDirectory() as folder:
        meeting_place = os.path.join(folder, "meeting")
        children = []
        for rank in range(1, ranks):
            child = os.fork()
            if child == 0:
                libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
                status = 1
                try:
                    run_rank(rank, ranks, benchmark, arguments, meeting_place, passes)
                    status = 0
                finally:
                    os._exit(status)
            children.append(child)
        run_rank(0, ranks, benchmark, arguments, meeting_place, passes)
        for child in children:
            os.waitpid(child, 0)


if __name__ == "__main__":
    main()
