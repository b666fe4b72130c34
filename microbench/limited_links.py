#!/usr/bin/env python3
"""How far the predictions of docs/prediction.md are off where links are slow: real links between network namespaces.

    sudo microbench/limited_links.py [--rates 100mbit,1gbit] [--workers 1,2,4] [--steps N] [--json FILE]

Makes a namespace for each rank (tests/hosts/hosts.sh), with a link that tbf limits both ways; starts `stretto train`
there by mpirun over TCP, one rank a namespace; and compares batches a second with what `stretto predict` says of the
profile of one worker, which computes as it does in the job, and of the link. Computing is paced, so that the cores are
not what limits; the machine has to be quiet for it. A server is a rank of its own, which does nothing else. At the end
`stretto predict fit` chooses the threshold that the asynchronous runs speak for. Needs root, iproute2 and Open MPI.
"""

from __future__ import annotations

import argparse
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
# Of a full frame's 1,514 bytes 1,448 are the sender's, by TCP with time stamps. tbf does not count what else Ethernet
# sends with it: preamble, checksum and gap.
PAYLOAD = 1448 / 1514
BURST = "8kb"  # far less than a model: of a longer one small models would take no time
ALGORITHMS = ("ps-async", "ssp:3", "ps-sync", "sync")
BATCH = 16  # of 4 ms each, so that what several processes do on few cores matters little

Job = dict[str, Any]


def output_of(*command: str | os.PathLike[str], **more: Any) -> str:
    words = [str(word) for word in command]
    done: subprocess.CompletedProcess[str] = subprocess.run(words, capture_output=True, text=True, check=False, **more)
    if done.returncode != 0:
        sys.exit(f"limited_links: {' '.join(map(str, command))}\n{done.stderr}{done.stdout}")
    return done.stdout


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

    def limit(self, rate: str) -> None:
        tbf = ("root", "tbf", "rate", rate, "burst", BURST, "latency", "1s")
        for host in range(1, self.count + 1):
            output_of(HOSTS, "exec", str(host), "tc", "qdisc", "replace", "dev", "eth0", *tbf, env=self.environment)
            output_of(HOSTS, "exec", "0", "tc", "qdisc", "replace", "dev", f"port{host}", *tbf, env=self.environment)

    def run(self, ranks: int, *command: str) -> str:
        hosts = ",".join(f"h{host}" for host in range(1, ranks + 1))
        settings = {"pml": "ob1", "btl": "tcp,self", "osc": "^ucx", "btl_tcp_if_include": "eth0",
                    "oob_tcp_if_include": "10.77.0.0/24", "plm_rsh_agent": f"{HOSTS} rsh"}
        words = [word for name, value in settings.items() for word in ("--mca", name, value)]
        return output_of(HOSTS, "exec", "0", "mpirun", "-n", str(ranks), "--host", hosts, *words, *command,
                         env=self.environment, timeout=300)


def options(algorithm: str, steps: int, pace: str) -> list[str]:
    words = ["digits", "--algorithm", algorithm, "--batch", str(BATCH), "--pace", pace, "--steps", str(steps),
             "--json"]
    if algorithm != "sync":
        words += ["--servers", "dedicated:1", "--data", "shared"]
    return words


def bytes_a_second(rate: str) -> float:
    number, unit = re.fullmatch(r"(\d+)(mbit|gbit)", rate).groups()  # type: ignore[union-attr]
    return int(number) * {"mbit": 1e6, "gbit": 1e9}[unit] / 8 * PAYLOAD


def profile(program: str, pace: str, steps: int) -> Job:
    """A worker's steps, layer by layer, each longer by so much that the mean is that of a worker alone at this pace."""
    job = json.loads(output_of(program, "profile", "digits", "--batch", str(BATCH)))
    alone = json.loads(output_of(program, "train", "--ranks", "1", *options("sync", steps, pace)))
    profiled = job["workers"][0]["profile"]
    update = statistics.fmean(sum(layer["update"] for layer in layers) for layers in profiled)
    computed = [sum(layer["forward"] + layer["backward"] for layer in layers) for layers in profiled]
    paced = 1 / alone["throughput"] - update - statistics.fmean(computed)
    for layers, own in zip(profiled, computed, strict=True):
        for layer in layers:
            layer["forward"] *= 1 + paced / own
            layer["backward"] *= 1 + paced / own
    return {"profile": profiled, "update": update, "bytes": sum(layer["bytes"] for layer in profiled[0]),
            "forward": statistics.fmean(sum(layer["forward"] for layer in layers) for layers in profiled),
            "backward": statistics.fmean(sum(layer["backward"] for layer in layers) for layers in profiled)}


def plain_job(worker: Job, rate: str, workers: int) -> Job:
    """What the formulas need."""
    return {"bandwidth": bytes_a_second(rate), "update": worker["update"], "model_bytes": worker["bytes"],
            "workers": [{"count": workers, "batch": BATCH} | {part: worker[part] for part in ("forward", "backward")}]}


def predictions(program: str, algorithm: str, worker: Job, rate: str, workers: int) -> dict[str, float]:
    """Batches a second of the job, by each of the models that apply."""
    mode = {"sync": "allreduce", "ps-sync": "sync"}.get(algorithm, "async")
    plain = plain_job(worker, rate, workers)
    layered = {**plain, "mode": mode, "steps": 200,
               "workers": [{"count": workers, "batch": BATCH, "profile": worker["profile"]}]}

    def predict(kind: str, job: Job) -> Job:
        found: Job = json.loads(output_of(program, "predict", kind, "-", "--json", input=json.dumps(job)))
        return found

    coarse = predict("coarse", plain)
    found = {}
    if algorithm == "sync":
        found["coarse"] = workers / coarse["sync"]["ring"]
        computed = worker["forward"] + worker["backward"] + worker["update"]
        run = json.loads(output_of(
            program, "predict", "run", "--ranks", str(workers), "--compute", f"{computed * 1e6:.0f}us", "--imbalance",
            "none", "--steps", "100", "--replicas", "1", "--algorithms", "sync", "--model-bytes", str(worker["bytes"]),
            "--network", f"latency=50us,bandwidth={bytes_a_second(rate):.0f}B/s", "--json"))
        found["run"] = run["algorithms"][0]["batches_per_s"]
    elif algorithm == "ps-sync":
        found |= {"coarse": workers / coarse["sync"]["mean"], "FCFS alone": workers / coarse["sync"]["fcfs"],
                  "overlap": workers / coarse["sync"]["overlap"]}
    else:
        found |= {"coarse": coarse["async"]["steps_per_s"], "FCFS alone": coarse["async"]["fcfs"],
                  "overlap": coarse["async"]["overlap"]["steps_per_s"]}
    found["fine"] = predict("fine", layered)["steps_per_s"]
    return found


def fitted(program: str, worker: Job, rows: list[Job]) -> str:
    """The threshold that the asynchronous runs of each rate speak for, and the error of each candidate."""
    jobs = []
    for rate in {row["rate"]: None for row in rows}:
        measured = [{"workers": row["workers"], "steps_per_s": row["measured"]}
                    for row in rows if row["rate"] == rate and row["algorithm"] == "ps-async"]
        jobs.append(plain_job(worker, rate, 1) | {"measured": measured, "overlap": False})
    with tempfile.TemporaryDirectory() as folder:
        files = [pathlib.Path(folder, f"{number}.json") for number in range(len(jobs))]
        for file, job in zip(files, jobs, strict=True):
            file.write_text(json.dumps(job))
        return output_of(program, "predict", "fit", *files)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build/release/bin/stretto"))
    parser.add_argument("--rates", default="100mbit,300mbit,1gbit")
    parser.add_argument("--workers", default="1,2,4")
    parser.add_argument("--steps", type=int, default=100, help="of each worker")
    parser.add_argument("--pace", default="4ms", help="of an image of the batch")
    parser.add_argument("--json", help="a file for the figures")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        parser.error("needs root, to make network namespaces")

    counts = [int(count) for count in arguments.workers.split(",")]
    worker = profile(arguments.program, arguments.pace, arguments.steps)
    rows = []
    with Hosts(max(counts) + 1) as hosts:
        for rate in arguments.rates.split(","):
            hosts.limit(rate)
            for workers in counts:
                for algorithm in ALGORITHMS:
                    ranks = workers + (algorithm != "sync")
                    if ranks == 1:
                        continue
                    run = json.loads(hosts.run(ranks, arguments.program, "train",
                                               *options(algorithm, arguments.steps, arguments.pace)))
                    found = predictions(arguments.program, algorithm, worker, rate, workers)
                    rows.append({"rate": rate, "workers": workers, "algorithm": algorithm,
                                 "measured": run["throughput"], "predicted": found})
                    errors = ", ".join(f"{name} {value:.1f} ({value / run['throughput'] - 1:+.1%})"
                                       for name, value in found.items())
                    print(f"{rate}, {workers} workers, {algorithm}: {run['throughput']:.1f} batches/s; {errors}",
                          flush=True)
    for name in ("coarse", "FCFS alone", "overlap", "fine", "run"):
        off = [abs(row["predicted"][name] / row["measured"] - 1) for row in rows if name in row["predicted"]]
        if off:
            print(f"{name}: median error {statistics.median(off):.1%}, largest {max(off):.1%}, of {len(off)}")
    print(fitted(arguments.program, worker, rows))
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps({"profile": worker, "rows": rows}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
