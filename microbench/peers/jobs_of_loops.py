"""Starts a loop of training_loops.py as the processes of a job, and reads what they have said in their log."""

import collections
import importlib.metadata
import json
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

LOOPS = pathlib.Path(__file__).with_name("training_loops.py")
PROGRAMS = pathlib.Path(sys.executable).parent


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def stretto_run(ranks, *options):
    """The command that starts our loop. `ranks`: as `--ranks` takes them."""
    command = [sys.executable, "-m", "stretto", "run", "--ranks", ranks, *options]
    return [*command, "--", sys.executable, LOOPS, "stretto"]


# Of a Job. `step`: seconds that a step sleeps; `kind`: of delays; `rate`: of SGD; `kill_at`: of the victim's own steps,
# or -1; `pool`: whether ranks of Stretto draw from a pool; `timeout`: of torchft's process group, as in its examples.
SETTINGS = {"ranks": 4, "batches": 800, "kind": "balanced", "step": 0.01, "rate": 0.02, "kill_at": -1, "hidden": 256}
SETTINGS |= {"algorithm": "", "pool": True, "timeout": 5}


class Story:
    """What the processes of a job have said: lines of TIME PROCESS RANK WORD..."""

    def __init__(self, folder, output, cut_off, batches):
        log = folder / "log"
        lines = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
        self.lines = [(float(when), int(pid), int(rank), word, rest) for when, pid, rank, word, *rest in lines]
        self.batches = batches  # in all
        self.output, self.cut_off = output, cut_off  # what they have printed; whether the watchdog has ended them

    def of(self, word):
        return [line for line in self.lines if line[3] == word]

    def ended(self):
        """Whether the last process of each rank has come to the end of its loop, but for one that was killed."""
        last = {rank: pid for _, pid, rank, word, _ in self.lines if word == "computes"}
        left = set(last.values()) - {pid for _, pid, *_ in self.of("killed")}
        return bool(left) and left <= {pid for _, pid, *_ in self.of("ended")}

    def killed_at(self):
        return self.of("killed")[0][0]

    def next_step(self):
        """Seconds from the kill until a step is over that was begun after it; None where there was none.

        Of a process that was there before, where one lives on: a new one may discard its first steps when it gets the
        weights.
        """
        killed, begun = self.killed_at(), {}
        before = {pid for when, pid, _, word, _ in self.lines if word == "computes" and when < killed}
        live_on = before & {pid for _, pid, *_ in self.of("ended")}
        for when, pid, _, word, _ in self.lines:
            if word == "computes":
                begun[pid] = when
            if word == "stepped" and begun[pid] > killed and (pid in live_on or not live_on):
                return when - killed
        return None

    def standstill(self, since, but=None):
        """The longest time after this one in which one of the ranks `but` this one ended no step, in seconds."""
        last, longest = {}, 0.0
        for when, _, rank, word, _ in self.lines:
            if word == "stepped" and rank != but:
                longest = max(longest, when - last.get(rank, when) if when > since else 0)
                last[rank] = when
        return longest

    def median_step(self, until):
        """The time between two steps of a rank before then, in seconds."""
        last, times = {}, []
        for when, _, rank, word, _ in self.lines:
            if word == "stepped" and when < until:
                times += [when - last[rank]] if rank in last else []
                last[rank] = when
        return statistics.median(times)

    def computed_again(self):
        """Batches that were computed twice, but for that of the process that was killed, which was not completed."""
        times = collections.Counter(rest[0] for *_, word, rest in self.lines if word == "computes")
        unfinished = {pid: rest[0] for _, pid, _, word, rest in self.lines if word == "computes"}
        given_up = {unfinished[pid] for _, pid, *_ in self.of("killed") if pid in unfinished}
        return sum(count - 1 for count in times.values()) - sum(times[number] > 1 for number in given_up)

    def applied(self):
        return len({rest[0] for *_, rest in self.of("stepped")})

    def seconds(self):
        """From the first step's begin to the last end."""
        return max(when for when, *_ in self.of("ended")) - min(when for when, *_ in self.of("begins"))

    def processor_seconds(self):
        """Of all loops together."""
        begun = {pid: float(rest[0]) for _, pid, _, _, rest in self.of("begins")}
        return sum(float(rest[0]) - begun[pid] for _, pid, _, _, rest in self.of("ended"))


def each_in_turns(names, times):
    """The names, once each turn, in an order that rotates."""
    for turn in range(times):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            yield turn, name


def spread(values, digits):
    """The median, and the range where there is one."""
    if min(values) == max(values):
        return f"{values[0]:,.{digits}f}"
    return f"{statistics.median(values):,.{digits}f} ({min(values):,.{digits}f} to {max(values):,.{digits}f})"


def machine(loads):
    model = next((line for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), ":")
    packages = []
    for name in ("torch", "accelerate", "torchft-nightly", "hivemind"):
        try:
            packages.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            packages.append(f"no {name}")
    host = f"{os.cpu_count()} cores ({model.split(':')[1].strip()}), Linux {os.uname().release}"
    versions = ", ".join([f"Python {sys.version.split()[0]}", *packages])
    return f"{time.strftime('%Y-%m-%d')}, {host}, {versions}; load {min(loads):.1f} to {max(loads):.1f}"


def run(command, *, single=False, replace=False, watchdog=60, lighthouse=None, **settings):
    """Runs a job, and returns its Story. `command` gets the folder of the job as its last word.

    `single`: it is a process of a single rank, which is started once for each. `replace`: another one is started, once,
    for one that is killed. `lighthouse`: the options of torchft's, which is started beside. A job is ended when nobody
    has said anything for `watchdog` seconds.
    """
    with tempfile.TemporaryDirectory() as name:
        folder, settings = pathlib.Path(name), {**SETTINGS, **settings}
        (folder / "job.json").write_text(json.dumps(settings))
        variables = {**os.environ, "OMP_NUM_THREADS": "1"}
        output = (folder / "output").open("w")
        started = []

        def start(words, **more):
            process = subprocess.Popen(
                [*map(str, words)], env={**variables, **more}, stdout=output, stderr=output, start_new_session=True
            )
            started.append(process)
            return process

        if lighthouse is not None:
            port = free_port()
            variables["TORCHFT_LIGHTHOUSE"] = f"http://localhost:{port}"
            options = ["--min_replicas", settings["ranks"] - 1, "--quorum_tick_ms", 100, "--join_timeout_ms", 10000]
            start([PROGRAMS / "torchft_lighthouse", "--bind", f"[::]:{port}", *options, *lighthouse])
        words = [*command, folder]
        ranks = {}
        variables.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), WORLD_SIZE=str(settings["ranks"]))
        for rank in range(settings["ranks"] if single else 1):
            ranks[rank] = start(words, RANK=str(rank), LOCAL_RANK=str(rank)) if single else start(words)
        log, last_word = folder / "log", time.monotonic()
        size = 0
        while any(process.poll() is None for process in ranks.values()) and time.monotonic() - last_word < watchdog:
            time.sleep(0.02)
            if log.exists() and log.stat().st_size > size:
                size, last_word = log.stat().st_size, time.monotonic()
            for rank, process in ranks.items():
                if replace and process.poll() == -signal.SIGKILL:
                    replace = False
                    ranks[rank] = start(words, RANK=str(rank), LOCAL_RANK=str(rank))
        cut_off = any(process.poll() is None for process in ranks.values())
        for process in started:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        output.close()
        return Story(folder, (folder / "output").read_text(), cut_off, settings["batches"])
