#!/usr/bin/env python3
"""How far the predictions of docs/prediction.md are off where links are slow: real links between network namespaces.

    sudo microbench/limited_links.py [--queue fair] [--workloads digits,digits-wide] [--rates 300mbit,1gbit] [--workers 1,2,4]

Makes a namespace for each rank (tests/hosts/hosts.sh), with a link that is limited both ways; starts `stretto train`
there by mpirun over TCP, one rank a namespace; and compares batches a second with what `stretto predict` says of the
profile of one worker, which computes as it does in the job, and of the link as `stretto bench link` measures it, with
how evenly two ranks share the card of a third. That depends on the link's queue and on TCP. With --queue fair peers take
turns (htb, with a class for each), which is what the predictor assumes of a link that is shared. With one queue for all
(tbf, the default) what comes first keeps a lead, by how much depends on TCP's congestion control: reno (the default
here) splits a link in halves among what begins together, bbr does not (--congestion).

Computing is paced, so that the cores are not what limits; the machine has to be quiet for it. A server is a rank of its
own, which does nothing else. At the end come the errors of each family beside those of the paper, and `stretto predict
fit` chooses the threshold that the asynchronous runs speak for. Needs root, iproute2, nftables (--queue fair) and Open
MPI.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
HOSTS = ROOT / "tests/hosts/hosts.sh"
BURST = "32kb"  # far less than a model: of a longer one small models would take no time
PACKETS = 16384  # bytes, at most, where peers take turns
LATE = 64e-6  # seconds that the kernel may be late to send a packet, in that case: a burst is what the link sends in it
QUEUES = ("fifo", "fair")
LAYERWISE = " by layer"  # pushes and asks for a layer while others are computed
ALGORITHMS = ("ps-async", "ssp:3", "ps-sync", "sync", "ps-async" + LAYERWISE, "ps-sync" + LAYERWISE)
BATCH = 16  # of 4 ms each, so that what several processes do on few cores matters little

# Families of runs, and how far each model is off there: a line of its own, and the paper's mean and largest error.
FAMILIES = (
    ("asynchronous, a server", ("ps-async", "ssp:3"), (
        ("coarse", "by formulas (eq 5)", "4.7 % (11.1 %)"), ("FCFS alone", "without the switch (eq 2)", ""),
        ("fine", "by simulation of each operation", "5.4 % (15.0 %)"), ("run", "by running the algorithm", ""),
        ("in order", "the same, links in order", ""))),
    ("the same, layer by layer", ("ps-async" + LAYERWISE,), (
        ("overlap", "by formulas, with overlap (eq 6)", "4.7 % (15.2 %)"), ("coarse", "without that (eq 5)", ""),
        ("fine", "by simulation of each operation", "4.4 % (11.4 %)"), ("run", "by running the algorithm", ""),
        ("in order", "the same, links in order", ""))),
    ("synchronous, a server", ("ps-sync",), (
        ("coarse", "by formulas (eq 9)", "3.2 % (10.0 %)"), ("FCFS alone", "links in order alone (eq 8)", ""),
        ("fine", "by simulation of each operation", "5.2 % (11.9 %)"), ("run", "by running the algorithm", ""),
        ("in order", "the same, links in order", ""))),
    ("the same, layer by layer", ("ps-sync" + LAYERWISE,), (
        ("overlap", "by formulas, with overlap (eq 10)", "4.1 % (10.5 %)"), ("coarse", "without that (eq 9)", ""),
        ("fine", "by simulation of each operation", "4.7 % (10.2 %)"), ("run", "by running the algorithm", ""),
        ("in order", "the same, links in order", ""))),
    ("allreduce", ("sync",), (
        ("coarse", "by formulas, a ring (eq 11)", "5.0 % (11.6 %)"), ("fine", "by simulation, a ring", "2.5 % (9.3 %)"),
        ("run", "by running the algorithm", ""), ("in order", "the same, links in order", ""))))

Job = dict[str, Any]


def output_of(*command: str | os.PathLike[str], **more: Any) -> str:
    words = [str(word) for word in command]
    done: subprocess.CompletedProcess[str] = subprocess.run(words, capture_output=True, text=True, check=False, **more)
    if done.returncode != 0:
        sys.exit(f"limited_links: {' '.join(map(str, command))}\n{done.stderr}{done.stdout}")
    return done.stdout


def bits_a_second(rate: str) -> int:
    """Of a rate as tc writes it."""
    known = re.fullmatch(r"([\d.]+)([kmg]bit)", rate)
    if not known:
        sys.exit(f"limited_links: --rates {rate}: expected kbit, mbit or gbit, as in 300mbit")
    return round(float(known[1]) * {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}[known[2]])


class Hosts:
    """Namespaces h1, h2, …, each behind a link of so many bits a second."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.folder = tempfile.TemporaryDirectory(prefix="limited-links-")
        self.environment = os.environ | {
            "HOSTS_STATE": f"{self.folder.name}/hosts", "HOSTS_OWNER": str(os.getpid()),
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

    def __enter__(self) -> Hosts:
        output_of(HOSTS, "up", str(self.count), env=self.environment)
        return self

    def __exit__(self, *_: object) -> None:
        output_of(HOSTS, "down", env=self.environment)
        self.folder.cleanup()

    def limit(self, rate: str, congestion: str, queue: str) -> None:
        """Both ways of each host's link. Queue "fifo": one for all (tbf), so that what comes first may keep its lead;
        "fair": one for each peer, and they take turns (htb)."""
        for host in range(1, self.count + 1):
            # No job shall begin with what the kernel remembers of the one before it, and no connection shall begin anew
            # because a batch has been computed since it was used.
            self.on(host, "sysctl", "-qw", f"net.ipv4.tcp_congestion_control={congestion}",
                    "net.ipv4.tcp_no_metrics_save=1", "net.ipv4.tcp_slow_start_after_idle=0")
            for where, device in ((host, "eth0"), (0, f"port{host}")):
                if queue == "fair":
                    self.take_turns(where, device, bits_a_second(rate))
                else:
                    self.on(where, "tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate", rate, "burst", BURST,
                            "latency", "1s")
        if queue == "fair":
            for host in range(1, self.count + 1):
                self.name_peers(host, "inet", "daddr")
            self.name_peers(0, "bridge", "saddr")

    def on(self, host: int, *command: str, **more: Any) -> str:
        return output_of(HOSTS, "exec", str(host), *command, env=self.environment, **more)

    def take_turns(self, where: int, device: str, rate: int) -> None:
        """A class for each peer, which may have the whole rate where the others are silent."""
        def tc(what: str, *words: str) -> None:
            self.on(where, "tc", what, "replace", "dev", device, *words)

        # htb sends packets as long as the kernel makes them, of which turns would be long.
        self.on(where, "ip", "link", "set", "dev", device, "gso_max_size", str(PACKETS))
        tc("qdisc", "root", "pfifo")  # an htb cannot take the place of another
        tc("qdisc", "root", "handle", "1:", "htb")
        burst = str(max(2000, round(rate / 8 * LATE)))
        limits = ("ceil", f"{rate}bit", "burst", burst, "cburst", burst, "quantum", str(PACKETS))
        tc("class", "parent", "1:", "classid", "1:1", "htb", "rate", f"{rate}bit", *limits)
        for peer in range(1, self.count + 1):
            tc("class", "parent", "1:1", "classid", f"1:{10 + peer}", "htb", "rate", f"{rate // self.count}bit", *limits)

    def name_peers(self, where: int, family: str, address: str) -> None:
        """Puts packets into the class of the peer whose address they bear. Class numbers are hexadecimal."""
        classes = ", ".join(f"10.77.0.{peer} : 1:{10 + peer}" for peer in range(1, self.count + 1))
        self.on(where, "nft", "-f", "-", input=(
            f"table {family} peers {{}}\ndelete table {family} peers\ntable {family} peers {{ chain classes {{ "
            f"type filter hook postrouting priority 0; meta priority set ip {address} map {{ {classes} }}\n}}\n}}\n"))

    def run(self, ranks: int, *command: str) -> str:
        hosts = ",".join(f"h{host}" for host in range(1, ranks + 1))
        settings = {"pml": "ob1", "btl": "tcp,self", "osc": "^ucx", "btl_tcp_if_include": "eth0",
                    "oob_tcp_if_include": "10.77.0.0/24", "btl_tcp_eager_limit": "4194304",
                    "btl_tcp_max_send_size": "4194304", "plm_rsh_agent": f"{HOSTS} rsh"}
        words = [word for name, value in settings.items() for word in ("--mca", name, value)]
        words += ["-x", "STRETTO_BETWEEN=mpi"]
        return self.on(0, "mpirun", "-n", str(ranks), "--host", hosts, *words, *command, timeout=300)


def options(workload: str, algorithm: str, steps: int, pace: str) -> list[str]:
    words = [workload, "--algorithm", algorithm.removesuffix(LAYERWISE), "--batch", str(BATCH), "--pace", pace,
             "--steps", str(steps), "--json"]
    if algorithm != "sync":
        words += ["--servers", "dedicated:1", "--data", "shared", "--layerwise",
                  "yes" if algorithm.endswith(LAYERWISE) else "no"]
    return words


class Link:
    """What `stretto bench link` measures: the time of a message by its size, and how two messages share a card."""

    def __init__(self, hosts: Hosts, program: str, model_sizes: list[int]) -> None:
        measured = json.loads(hosts.run(2, program, "bench", "link", "--json"))
        self.latency: float = measured["latency"]
        self.times = [(row["bytes"], row["seconds"]) for row in measured["rows"]]
        # Of any message; long ones tell it from the packets by which two of them end apart.
        longest = max(model_sizes)
        self.unevenness: float = self.shared(hosts, program, [longest, 4 * longest, 16 * longest])["unevenness"]
        # By bytes of the model. A busy link has no burst of tbf to give away, so two messages show a lower bandwidth.
        self.busy_bandwidth: dict[int, float] = {}
        # Of messages that go in both directions at a time, as those of an allreduce do: latency and bandwidth.
        self.exchange: dict[int, tuple[float, float]] = {}
        for size in model_sizes:
            parts = ",".join(str(size // (4 * parts) * 4) for parts in (8, 4, 2, 1))
            both = json.loads(hosts.run(2, program, "bench", "link", "--both-ways", "--sizes", parts, "--time", "1s",
                                        "--json"))
            self.exchange[size] = (both["latency"], both["bandwidth"])
            rows = self.shared(hosts, program, [4, size])["rows"]
            self.busy_bandwidth[size] = 2 * size / statistics.median(row["last"] for row in rows if row["bytes"] == size)

    @staticmethod
    def shared(hosts: Hosts, program: str, sizes: list[int]) -> Job:
        words = ("bench", "link", "--sharing", "--sizes", ",".join(map(str, sizes)), "--time", "1s", "--json")
        found: Job = json.loads(hosts.run(3, program, *words))
        return found

    def bandwidth(self, size: float) -> float:
        """Bytes a second of a message of that size, without the latency."""
        (low, fast), (high, slow) = next(pair for pair in itertools.pairwise(self.times) if size <= pair[1][0])
        seconds = fast + (slow - fast) * (size - low) / (high - low)
        return size / (seconds - self.latency)


def profile(program: str, workload: str, pace: str, steps: int) -> Job:
    """A worker's steps, layer by layer, each longer by so much that the mean is that of a worker alone at this pace.

    How much they vary ("noise", as a share of their mean) is that worker's, too.

    A pace makes a pass last longer as a slower machine would: each layer by its bytes, its backward pass twice as much
    as its forward pass (Replica::on_progress).
    """
    job = json.loads(output_of(program, "profile", workload, "--batch", str(BATCH)))
    with tempfile.TemporaryDirectory() as folder:
        alone = json.loads(output_of(program, "train", "--ranks", "1", *options(workload, "sync", steps, pace),
                                     "--out", f"{folder}/run"))
        records = [json.loads(line) for line in pathlib.Path(folder, "run/records-0.jsonl").read_text().splitlines()]
    profiled = job["workers"][0]["profile"]
    update = statistics.fmean(sum(layer["update"] for layer in layers) for layers in profiled)
    computed = 1 / alone["throughput"] - update
    for layers in profiled:
        whole = sum(layer["bytes"] for layer in layers)
        for layer in layers:
            layer["forward"] = computed / 3 * layer["bytes"] / whole
            layer["backward"] = 2 * layer["forward"]
    # A tenth of its steps is shorter than the middle by 1.28 deviations, and a tenth longer: single pauses count for nothing.
    tenths = statistics.quantiles((then["begin"] - now["begin"] for now, then in itertools.pairwise(records)), n=10)
    noise = (tenths[8] - tenths[0]) / 2 / 1.2816 * alone["throughput"]
    return {"profile": profiled, "update": update, "noise": noise, "bytes": sum(layer["bytes"] for layer in profiled[0]),
            "forward": statistics.fmean(sum(layer["forward"] for layer in layers) for layers in profiled),
            "backward": statistics.fmean(sum(layer["backward"] for layer in layers) for layers in profiled)}


def plain_job(worker: Job, link: Link, workers: int) -> Job:
    """What the formulas need."""
    return {"bandwidth": link.bandwidth(worker["bytes"]), "update": worker["update"], "model_bytes": worker["bytes"],
            "workers": [{"count": workers, "batch": BATCH} | {part: worker[part] for part in ("forward", "backward")}]}


def as_run(program: str, algorithm: str, worker: Job, link: Link, workers: int, steps: int, sharing: str) -> float:
    """Batches a second by `stretto predict run`: the algorithm itself, over links of that rate."""
    # A server applies what comes, so no rank computes that beside its step.
    layers = [[layer if algorithm == "sync" else layer | {"update": 0} for layer in step] for step in worker["profile"]]
    name, layerwise = algorithm.removesuffix(LAYERWISE), algorithm.endswith(LAYERWISE)
    setting = name if name == "sync" else f"{name}, servers = dedicated:1, layerwise = {'yes' if layerwise else 'no'}"
    ranks = workers + (name != "sync")
    latency, bandwidth = (link.exchange[worker["bytes"]] if name == "sync"
                          else (link.latency, link.busy_bandwidth[worker["bytes"]]))
    job = {"bandwidth": bandwidth, "workers": [{"count": ranks, "batch": BATCH, "profile": layers}]}
    run = json.loads(output_of(
        program, "predict", "run", "-", "--noise", f"{worker['noise']:.5f}", "--steps", str(steps), "--replicas", "3",
        "--algorithms", setting, "--network", f"latency={latency * 1e6:.0f}us,bandwidth={bandwidth:.0f}B/s,{sharing}",
        "--json", input=json.dumps(job)))
    batches: float = run["algorithms"][0]["batches_per_s"]
    return batches


def predictions(program: str, algorithm: str, worker: Job, link: Link, workers: int,
                steps: int) -> dict[str, float]:
    """Batches a second of the job, by each of the models that apply."""
    layerwise = algorithm.endswith(LAYERWISE)
    mode = {"sync": "allreduce", "ps-sync": "sync"}.get(algorithm.removesuffix(LAYERWISE), "async")
    plain = plain_job(worker, link, workers)
    layered = {**plain, "mode": mode, "steps": 200, "overlap": layerwise,
               "workers": [{"count": workers, "batch": BATCH, "profile": worker["profile"]}]}

    def predict(kind: str, job: Job) -> Job:
        found: Job = json.loads(output_of(program, "predict", kind, "-", "--json", input=json.dumps(job)))
        return found

    coarse = predict("coarse", plain)
    if mode == "allreduce":
        found = {"coarse": workers / coarse["sync"]["ring"]}
    elif mode == "sync":
        found = {"coarse": workers / coarse["sync"]["mean"], "FCFS alone": workers / coarse["sync"]["fcfs"],
                 "overlap": workers / coarse["sync"]["overlap"]}
    else:
        found = {"coarse": coarse["async"]["steps_per_s"], "FCFS alone": coarse["async"]["fcfs"],
                 "overlap": coarse["async"]["overlap"]["steps_per_s"]}
    found["fine"] = predict("fine", layered)["steps_per_s"]
    fair = f"sharing=fair,unevenness={link.unevenness:.4f}"
    found["run"] = as_run(program, algorithm, worker, link, workers, steps, fair)
    found["in order"] = as_run(program, algorithm, worker, link, workers, steps, "sharing=fifo")
    return found


def errors_by_family(rows: list[Job]) -> str:
    """Of each model the mean error, and the largest, beside those of the paper's Table 1."""
    lines = ["mean (largest) error of batches a second; the paper's Table 1, on its clusters"]
    for family, algorithms, models in FAMILIES:
        of_family = [row for row in rows if row["algorithm"] in algorithms]
        if not of_family:
            continue
        lines.append(f"{family}, {len(of_family)} runs")
        for name, words, theirs in models:
            off = [abs(row["predicted"][name] / row["measured"] - 1) for row in of_family]
            lines.append(f"  {words:40} {statistics.fmean(off):6.1%} ({max(off):.1%}), median "
                         f"{statistics.median(off):.1%}   {theirs}")
    for workload in (*{row["workload"]: None for row in rows}, None):
        off = sorted(abs(row["predicted"]["run"] / row["measured"] - 1) for row in rows
                     if "run" in row["predicted"] and workload in (None, row["workload"]))
        if off:
            lines.append(f"by running the algorithm, {workload or 'all'}, {len(off)} runs: median "
                         f"{statistics.median(off):.1%}, 95 % {off[int(0.95 * len(off))]:.1%}, largest {off[-1]:.1%}")
    return "\n".join(lines)


def fitted(program: str, workers: dict[str, Job], links: dict[str, Link], rows: list[Job]) -> str:
    """The threshold that the asynchronous runs speak for, and the error of each candidate."""
    jobs = []
    for workload, rate in {(row["workload"], row["rate"]): None for row in rows}:
        measured = [{"workers": row["workers"], "steps_per_s": row["measured"]} for row in rows
                    if (row["workload"], row["rate"], row["algorithm"]) == (workload, rate, "ps-async")]
        jobs.append(plain_job(workers[workload], links[rate], 1) | {"measured": measured, "overlap": False})
    with tempfile.TemporaryDirectory() as folder:
        files = [pathlib.Path(folder, f"{number}.json") for number in range(len(jobs))]
        for file, job in zip(files, jobs, strict=True):
            file.write_text(json.dumps(job))
        return output_of(program, "predict", "fit", *files)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build/release/bin/stretto"))
    parser.add_argument("--workloads", default="digits,digits-wide")
    parser.add_argument("--rates", default="300mbit,1gbit")
    parser.add_argument("--congestion", default="reno", help="TCP's congestion control on all hosts")
    parser.add_argument("--queue", choices=QUEUES, default="fifo",
                        help="of a link: one for all that goes through it, or one for each peer, in turns (htb, nft)")
    parser.add_argument("--workers", default="1,2,4")
    parser.add_argument("--algorithms", default=",".join(ALGORITHMS))
    parser.add_argument("--steps", type=int, default=100, help="of each worker")
    parser.add_argument("--pace", default="4ms", help="of an image of the batch")
    parser.add_argument("--json", help="a file for the figures")
    parser.add_argument("--read", nargs="+", type=pathlib.Path, metavar="FILE",
                        help="runs nothing: the errors of all jobs in these files of --json")
    parser.add_argument("--out", type=pathlib.Path, metavar="DIR", help="a run folder for each job, with records of every step")
    arguments = parser.parse_args()
    if arguments.read:
        print(errors_by_family([row for file in arguments.read for row in json.loads(file.read_text())["rows"]]))
        return 0
    if os.geteuid() != 0:
        parser.error("needs root, to make network namespaces")

    counts = [int(count) for count in arguments.workers.split(",")]
    profiles = {workload: profile(arguments.program, workload, arguments.pace, arguments.steps)
                for workload in arguments.workloads.split(",")}
    rows = []
    with Hosts(max(3, max(counts) + 1)) as hosts:
        links = {}
        for rate, workload, workers, algorithm in itertools.product(
                arguments.rates.split(","), profiles, counts, arguments.algorithms.split(",")):
            if rate not in links:
                hosts.limit(rate, arguments.congestion, arguments.queue)
                links[rate] = Link(hosts, arguments.program, [profile["bytes"] for profile in profiles.values()])
                speeds = ", ".join(f"{links[rate].bandwidth(profile['bytes']) * 8e-6:.0f} Mbit/s for {name}"
                                   for name, profile in profiles.items())
                print(f"{rate}: {links[rate].latency * 1e6:.0f} us, {speeds}, unevenness {links[rate].unevenness:.4f}",
                      flush=True)
            ranks = workers + (algorithm != "sync")
            if ranks == 1:
                continue
            words = options(workload, algorithm, arguments.steps, arguments.pace)
            if arguments.out:
                name = "-".join((workload, rate, str(workers), algorithm.replace(" ", "-").replace(":", "-")))
                words += ["--out", str(arguments.out.absolute() / name)]
            run = json.loads(hosts.run(ranks, arguments.program, "train", *words))
            found = predictions(arguments.program, algorithm, profiles[workload], links[rate], workers,
                                arguments.steps)
            rows.append({"workload": workload, "rate": rate, "workers": workers, "algorithm": algorithm,
                         "measured": run["throughput"], "predicted": found})
            errors = ", ".join(f"{name} {value:.1f} ({value / run['throughput'] - 1:+.1%})"
                               for name, value in found.items())
            print(f"{workload}, {rate}, {workers} workers, {algorithm}: {run['throughput']:.1f} batches/s; {errors}",
                  flush=True)
    print(errors_by_family(rows))
    if any(row["algorithm"] == "ps-async" for row in rows):
        print(fitted(arguments.program, profiles, links, rows))
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps({"profiles": profiles, "rows": rows}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
