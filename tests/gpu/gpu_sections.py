"""The sections of tools/gpu_check, each run in a process of its own: gpu_sections.py SECTION [--fake].

A section prints lines of JSON: a row {"what", "value", "unit", "limit", "goal"}, or a case {"case", "passed", "why"}.
"""

import concurrent.futures
import contextlib
import ctypes
import json
import mmap
import multiprocessing
import os
import pathlib
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import gpu_cases
import gpu_faults
import gpu_hardware
import gpu_times
import gpu_training
import torch

import stretto
from stretto._device import PAGE


def row(what, value, unit="", limit=None, goal=None):
    print(json.dumps({"what": what, "value": value, "unit": unit, "limit": limit, "goal": goal}), flush=True)


def case(name, passed, why=""):
    print(json.dumps({"case": name, "passed": bool(passed), "why": why}), flush=True)


def on_ranks(gpu, work, arguments, ranks, timeout):
    """What work(*arguments) returns on each rank: started as users start it, or forked where all is made up.

    Raises stretto.Error, what a rank has raised, or AssertionError, where one ends in another way.
    """
    if not gpu.fake:
        return stretto.spawn(gpu_training.call, (work, arguments), ranks=ranks, timeout=timeout)
    import ranks as forked_ranks

    return forked_ranks.values(work, ranks, timeout, args=arguments)


# ---- machine ----


def section_machine(gpu):
    fields = "name,driver_version,pcie.link.gen.current,pcie.link.width.current,memory.total,compute_mode"
    if not gpu.fake:
        asked = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"]
        said = subprocess.run(asked, capture_output=True, text=True, check=False)
        row("card, driver, link, memory, mode", said.stdout.strip() or said.stderr.strip())
    row("torch", f"{torch.__version__}, Python {sys.version.split()[0]}, {len(os.sched_getaffinity(0))} cores")
    for file in ("shmem_enabled", "enabled"):
        path = pathlib.Path("/sys/kernel/mm/transparent_hugepage") / file
        row(f"huge pages, {file}", path.read_text().strip() if path.exists() else "not there")
    row("RLIMIT_MEMLOCK", resource.getrlimit(resource.RLIMIT_MEMLOCK)[0], "bytes")
    row("GPUs", gpu.cuda.device_count())


# ---- copies: facts on which the design rests, without the package ----


def shared(size, huge=False):
    """As the job's memory: a memfd, shared; and by which path a process of the same user opens it."""
    descriptor = os.memfd_create("gpu_check")
    os.ftruncate(descriptor, size)
    memory = mmap.mmap(descriptor, size)
    if huge:
        with contextlib.suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory, f"/proc/{os.getpid()}/fd/{descriptor}"


def section_copies(gpu):
    size = gpu.size(1 << 30, 1 << 20)
    device = torch.ones(size, dtype=torch.uint8, device=gpu.where)
    for name, huge, touched in (("untouched", False, False), ("touched", False, True), ("huge, touched", True, True)):
        memory, path = shared(size, huge)
        host = torch.frombuffer(memory, dtype=torch.uint8)
        if touched:
            host.fill_(1)
        begin = time.perf_counter()
        why_not = gpu.driver.register(host.data_ptr(), size)
        row(f"registering 1 GiB of memfd, {name}", round(1e3 * (time.perf_counter() - begin), 1), "ms", goal=100)
        case(f"memfd can be registered, {name}", not why_not, why_not)
        if name == "touched":
            measure_copies(gpu, device, host, "pinned")
            if not gpu.fake:
                register_in_two_processes(host, path, size)
        gpu.driver.unregister(host.data_ptr())
        if name == "huge, touched":
            measure_copies(gpu, device, host, "pageable")
    other = torch.empty_like(device)
    row("device to device, read and written", round(2e-9 * size / gpu.seconds(lambda: other.copy_(device))), "GB/s")
    a, b, c = (torch.ones(gpu.size(25_000_000, 1000), device=gpu.where) for _ in range(3))
    row("one addition of 100 MB", round(1e3 * gpu.seconds(lambda: torch.add(a, b, out=c)), 3), "ms")
    ranges_on_one_page(gpu)
    bell(gpu)
    handles(gpu)


def measure_copies(gpu, device, host, how):
    out, back, half = gpu.cuda.Stream(), gpu.cuda.Stream(), len(host) // 2

    def both():
        with gpu.cuda.stream(out):
            host[:half].copy_(device[:half], non_blocking=True)
        with gpu.cuda.stream(back):
            device[half:].copy_(host[half:], non_blocking=True)

    def rate(size, work):
        return round(size / gpu.seconds(work) / 1e9, 1)

    row(f"{how}: to the host", rate(len(host), lambda: host.copy_(device, non_blocking=True)), "GB/s")
    row(f"{how}: to the device", rate(len(host), lambda: device.copy_(host, non_blocking=True)), "GB/s")
    row(f"{how}: both at once, each", rate(half, both), "GB/s")


def register_in_two_processes(host, path, size):
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    second = context.Process(target=register_elsewhere, args=(path, size, theirs))
    second.start()
    why_not = ours.recv() if ours.poll(30) else "nothing heard"
    second.join(10)
    case("the same pages registered in a second process", not why_not, why_not)
    case("what the second process's GPU wrote is seen by this one", (host == 7).all())


def register_elsewhere(path, size, pipe):
    torch.zeros(1, device="cuda")
    host = torch.frombuffer(mmap.mmap(os.open(path, os.O_RDWR), size), dtype=torch.uint8)
    why_not = gpu_hardware.Driver().register(host.data_ptr(), size)
    host.copy_(torch.full((size,), 7, dtype=torch.uint8, device="cuda"), non_blocking=True)
    torch.cuda.synchronize()
    pipe.send(why_not)


def ranges_on_one_page(gpu):
    """Two ranges without common bytes on one page; and what the next kernel says after a refusal of the runtime."""
    memory, _ = shared(4 * PAGE)
    at = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    refusals = [gpu.driver.register(at, PAGE + 64), gpu.driver.register(at + PAGE + 64, PAGE)]
    row("ranges that share a page: refusals of the driver", refusals)
    torch.zeros(8, device=gpu.where).sum().item()
    case("a kernel runs after the driver's refusal", True)
    if not gpu.fake:
        runtime = torch.cuda.cudart()
        refused = int(runtime.cudaHostRegister(at, PAGE, 0))
        try:
            torch.zeros(8, device=gpu.where).sum().item()
            pending = "nothing"
        except RuntimeError as error:
            pending = str(error).splitlines()[0]
        row("the runtime's refusal, and what the next kernel says", f"{refused}: {pending}")
    if not refusals[1]:
        gpu.driver.unregister(at + PAGE + 64)
    gpu.driver.unregister(at)


def bell(gpu):
    """From a copy's launch until a sleeping thread runs again, which sem_post() as host function or an event wakes."""
    libc = ctypes.CDLL(None)
    semaphore = ctypes.create_string_buffer(64)
    libc.sem_init(semaphore, 0, 0)
    function = ctypes.cast(libc.sem_post, ctypes.c_void_p)
    copies, bells = gpu.cuda.Stream(), gpu.cuda.Stream()
    device = torch.ones(1 << 20, device=gpu.where)
    host = torch.empty(1 << 20, pin_memory=not gpu.fake)
    by_bell, by_event = [], []
    for _ in range(gpu.size(200, 5)):
        gpu.cuda.synchronize()
        begin = time.perf_counter()
        with gpu.cuda.stream(copies):
            host.copy_(device, non_blocking=True)
        bells.wait_stream(copies)
        error = gpu.driver("cuLaunchHostFunc", bells.cuda_stream, function, ctypes.addressof(semaphore))
        if error:
            case("a host function is called", False, f"error {error}")
            return
        libc.sem_wait(semaphore)
        by_bell.append(time.perf_counter() - begin)
        gpu.cuda.synchronize()
        event = gpu.cuda.Event(blocking=True)
        begin = time.perf_counter()
        with gpu.cuda.stream(copies):
            host.copy_(device, non_blocking=True)
            event.record()
        event.synchronize()
        by_event.append(time.perf_counter() - begin)
    case("a host function is called", True)
    row("4 MiB and a bell / a blocking event", [round(1e6 * statistics.median(x)) for x in (by_bell, by_event)], "µs")


class DeviceMemory:
    """For torch.as_tensor(): bytes on a device."""

    def __init__(self, address, size):
        self.__cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (address, False), "version": 3}


def handles(gpu):
    """A process reads another's memory where it lies; then the other is killed, and it reads once more."""
    if gpu.fake:
        return
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    owner = context.Process(target=own_memory, args=(theirs,))
    owner.start()
    if not ours.poll(40):
        case("handles of memory open", False, "the owner said nothing")
        owner.kill()
        return
    handle, size, address = gpu_hardware.Handle(), 100_000_000, ctypes.c_uint64()
    ctypes.memmove(ctypes.byref(handle), ours.recv_bytes(), 64)
    error = gpu.driver("cuIpcOpenMemHandle_v2", ctypes.byref(address), handle, 1)  # lazy peer access
    case("handles of memory open", error == 0, f"error {error}")
    if error == 0:
        peer = torch.as_tensor(DeviceMemory(address.value, size), device="cuda").view(torch.float32)
        here = torch.empty_like(peer)
        case("a peer's numbers are read where they lie", (here.copy_(peer) == 3).all())
        row("reading a peer's 100 MB", round(1e3 * gpu.seconds(lambda: here.copy_(peer)), 3), "ms")
        owner.kill()
        owner.join()
        try:
            same = bool((here.copy_(peer) == 3).all())
            row("memory of a killed process", "still there" if same else "other numbers")
            gpu.driver("cuIpcCloseMemHandle", address)
        except RuntimeError as lost:
            row("memory of a killed process", f"the reader's context is lost: {str(lost).splitlines()[0]}")
    owner.kill()


def own_memory(pipe):
    driver = gpu_hardware.Driver()
    torch.zeros(1, device="cuda")
    address, handle = ctypes.c_uint64(), gpu_hardware.Handle()
    if driver("cuMemAlloc_v2", ctypes.byref(address), 100_000_000) == 0:
        torch.as_tensor(DeviceMemory(address.value, 100_000_000), device="cuda").view(torch.float32).fill_(3)
        torch.cuda.synchronize()  # told only after it has come to pass
        driver("cuIpcGetMemHandle", ctypes.byref(handle), address)
        pipe.send_bytes(ctypes.string_at(ctypes.byref(handle), 64))
    time.sleep(60)


# ---- correct, planted, ends ----


def section_correct(gpu):
    for ranks in (1, 2, 4):
        names = gpu_cases.cases_for(ranks, gpu.fake)
        ended = 0  # jobs that did not return
        while names and ended < 3:
            found, reached = run_cases(gpu, names, ranks)
            if reached:  # the cases before it run once more, with those after it
                names.remove(reached)
                ended += 1
                continue
            for outcomes in zip(*found):
                name = outcomes[0][0]
                why = next((why for _, why, _ in outcomes if why), "")
                if len({digest for _, _, digest in outcomes}) > 1:
                    why = f"replicas differ; {why}"
                case(f"{ranks} ranks: {name}", not why, why)
            names = []
        for name in names:
            case(f"{ranks} ranks: {name}", False, "not run, since three jobs have ended before")


def run_cases(gpu, names, ranks):
    """What gpu_training.run_cases() returns on each rank; or of which case the job ended, which has failed."""
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as progress:
        try:
            return on_ranks(gpu, gpu_training.run_cases, (names, gpu.fake, progress.name), ranks, 90), ""
        except (AssertionError, RuntimeError) as error:  # of a device, too
            reached = progress.read()
            if not reached:  # no rank came as far as to a case
                raise
            case(f"{ranks} ranks: {reached}", False, f"{type(error).__name__}: {error}")
            return [], reached


def several(gpu):
    """Most of a job's time is its start: several at once, where ranks are not forked from this process."""
    return concurrent.futures.ThreadPoolExecutor(gpu.size(5, 1))


def section_planted(gpu):
    with several(gpu) as jobs:
        for name, seconds, why_not, shown in jobs.map(lambda name: left_out(gpu, name), gpu_faults.PLANTED):
            first, *_ = shown.splitlines() or ["training went on as if nothing were wrong"]
            case(f"left out: {name}", shown and not why_not, why_not or first)
            if not why_not:
                row(f"left out: {name}: seen after", round(seconds, 1), "s", goal=30)


def left_out(gpu, name):
    """The name, how long a job took that leaves this out, why it ended by itself, and by what it showed it."""
    begin, why_not, shown = time.monotonic(), "", []
    try:
        shown = on_ranks(gpu, gpu_faults.run_planted, (name, gpu.fake), 2, 60)
    except (AssertionError, RuntimeError) as error:  # by itself, and not by what is left out
        why_not = f"{type(error).__name__}: {error}"
    return name, time.monotonic() - begin, why_not, "\n".join(filter(None, shown))


def section_ends(gpu):
    """A rank of three is killed at a moment of its steps: the others hear who it was, within a second, and all end."""
    moments = random.Random(1)
    kills = [(number, moments.uniform(0.0, 0.5)) for number in range(gpu.size(10, 2))]
    with several(gpu) as jobs:
        for name, killed, heard, why_not in jobs.map(lambda kill: end_of_a_job(gpu, *kill), kills):
            case(name, not why_not and heard - killed < 1, why_not or f"heard after {heard - killed:.2f} s")
            if not why_not:
                row(f"{name}: heard after", round(1e3 * (heard - killed)), "ms", goal=1000)
    children = pathlib.Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    case("no process is left", not children, " ".join(children))


def end_of_a_job(gpu, number, moment):
    """Its name, when one of its ranks was killed, when the last of the others heard of it; or why that is not known."""
    victim, name = number % 3, f"rank {number % 3} is killed, {number}"
    with tempfile.TemporaryDirectory() as folder:
        try:
            on_ranks(gpu, gpu_faults.train_until_killed, (victim, moment, gpu.fake, folder), 3, 60)
            return name, 0, 0, "the job ended as if nothing were wrong"
        except (AssertionError, RuntimeError) as error:
            ended = f"{type(error).__name__}: {error}"
        notes = {int(file.name): file.read_text().split(" ", 1) for file in pathlib.Path(folder).iterdir()}
    killed = notes.pop(victim, None)
    # The launcher ends a rank that has not raised yet when another has: one is enough.
    if killed is None or {said for _, said in notes.values()} != {f"has lost rank {victim}"}:
        return name, 0, 0, f"{ended}; notes: {notes}"
    return name, float(killed[0]), max(float(when) for when, _ in notes.values()), ""


# ---- times ----


def timed(gpu, work, what, blocks):
    """Of four ranks: seconds by way, a list of blocks."""
    with tempfile.TemporaryDirectory() as folder:
        return on_ranks(gpu, work, (what, gpu.fake, blocks, folder), 4, 120)


def slowest(found, way):
    """Of each block the slowest rank."""
    return [max(times) for times in zip(*(rank[way] for rank in found))]


def spread(numbers):
    """The lowest, the median, the highest."""
    ordered = sorted(numbers)
    return [round(ordered[i], 2) for i in (0, len(ordered) // 2, -1)]


def section_round(gpu):
    goals = {100: 40}
    sizes = gpu.size((1, 25, 100, 1000), (1, 2))
    taken = timed(gpu, gpu_times.rounds, sizes, gpu.size(11, 2))
    for megabytes in sizes:
        found = [rank[megabytes] for rank in taken]
        staged, by_gloo = slowest(found, "staged"), slowest(found, "gloo")
        row(
            f"{megabytes} MB, 4 ranks: staged",
            round(1e3 * statistics.median(staged), 2),
            "ms",
            goal=goals.get(megabytes),
        )
        row(f"{megabytes} MB, 4 ranks: gloo", round(1e3 * statistics.median(by_gloo), 2), "ms")
        ratios = spread(theirs / ours for ours, theirs in zip(staged, by_gloo))
        row(f"{megabytes} MB: gloo over staged: lowest, median, highest", ratios, "×", goal=3.0)


def section_resnet50(gpu):
    together = timed(gpu, gpu_times.resnet, ["plain", "staged", "overlap", "gloo"], gpu.size(11, 1))
    plain = slowest(together, "plain")
    row("a step of 4 ranks without exchange", round(1e3 * statistics.median(plain), 1), "ms")
    for way, goal in (("staged", None), ("overlap", 15), ("gloo", None)):
        added = spread(1e3 * (with_it - without) for with_it, without in zip(slowest(together, way), plain))
        row(f"added by {way}: lowest, median, highest", added, "ms", goal=goal)
    eager, waiting = (timed(gpu, gpu_times.resnet, [way], gpu.size(7, 1)) for way in ("eager", "gloo"))

    def images_a_second(found, way):
        return sum(1 / statistics.median(rank[way]) for rank in found)

    gain = images_a_second(eager, "eager") / images_a_second(waiting, "gloo")
    row("rank 3 three times slower (injected): eager-quorum:3 over DDP with gloo", round(gain, 2), "×", goal=2.0)


def section_models(gpu):
    ways = ["plain", "local", "diloco"]
    found = timed(gpu, gpu_times.models, ways, gpu.size(11, 1))
    steps = found[0][1]
    taken = {way: slowest([rank for rank, _ in found], way) for way in ways}
    plain = statistics.median(taken["plain"]) / steps
    row("a step of 4 ranks of a transformer", round(1e3 * plain, 1), "ms")
    for way in ways[1:]:
        added = [with_it - without for with_it, without in zip(taken[way], taken["plain"])]
        row(f"an exchange of {way}: lowest, median, highest", spread(1e3 * cost for cost in added), "ms")
        of_fifty = spread(100 * cost / (50 * plain) for cost in added)
        row(f"{way} every 50 steps over plain steps: lowest, median, highest", of_fifty, "%", goal=2.0)


def main():
    section, *options = sys.argv[1:]
    globals()[f"section_{section}"](gpu_hardware.Gpu(fake="--fake" in options))


if __name__ == "__main__":
    main()
