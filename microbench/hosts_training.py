#!/usr/bin/env python3
"""What not waiting gains on several hosts, beside one: `stretto train vowels` with 8 ranks, on one host and on four of
two ranks (network namespaces, tests/hosts/hosts.sh), by turns.

    sudo microbench/hosts_training.py [--build build/release] [--epochs 16] [--rounds 5]

For each imbalance the batches/s of either place, and how many times those of sync a quorum of half and solo make:
medians with the least and the greatest. The last number of a line is the ratio of the two places, of which 1 is wanted.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess

HOSTS = pathlib.Path(__file__).resolve().parents[1] / "tests/hosts/hosts.sh"
RANKS = 8
ALGORITHMS = ("sync", "eager-quorum:4", "eager-solo")
IMBALANCES = {"natural": "none", "rank 3 three times slower": "persistent:rank=3,factor=3"}


def throughput(program: str, hosts: int, options: list[str], state: dict[str, str]) -> float:
    command = [program, "train", "vowels", "--batch", "4", "--pace", "400us", "--json", *options]
    ranks = []
    for rank in range(RANKS if hosts > 1 else 1):
        place = {"STRETTO_MEETING": "10.77.0.1:4711", "STRETTO_RANK": str(rank), "STRETTO_RANKS": str(RANKS)}
        on_host = [HOSTS, "exec", str(1 + rank * hosts // RANKS), *command]
        ranks.append(
            subprocess.Popen(
                on_host if hosts > 1 else [*command, "--ranks", str(RANKS)],
                env=state | (place if hosts > 1 else {}),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    ends = [(*rank.communicate(), rank.returncode) for rank in ranks]
    for _, err, status in ends:
        if status != 0:
            raise SystemExit(err)
    return json.loads(ends[0][0])["throughput"]


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.3g} [{min(values):.3g}, {max(values):.3g}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--epochs", default="16")
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    program = str(pathlib.Path(asked.build).resolve() / "bin/stretto")
    state = {**os.environ, "HOSTS_STATE": f"/run/stretto-hosts-training-{os.getpid()}"}
    subprocess.run([HOSTS, "up", "4"], env=state, check=True)
    try:
        for name, imbalance in IMBALANCES.items():
            found: dict[tuple[int, str], list[float]] = {}
            for seed in range(1, asked.rounds + 1):
                for algorithm in ALGORITHMS:
                    for hosts in (1, 4) if seed % 2 else (4, 1):
                        options = ["--algorithm", algorithm, "--imbalance", imbalance, "--epochs", asked.epochs]
                        rate = throughput(program, hosts, [*options, "--seed", str(seed)], state)
                        found.setdefault((hosts, algorithm), []).append(rate)
            print(f"{name}: sync on one host {spread(found[1, 'sync'])}, on four {spread(found[4, 'sync'])} batches/s")
            for algorithm in ALGORITHMS[1:]:
                gain = {}
                for hosts in (1, 4):
                    gain[hosts] = [a / b for a, b in zip(found[hosts, algorithm], found[hosts, "sync"])]
                both = [four / one for one, four in zip(gain[1], gain[4])]
                print(
                    f"  {algorithm}: {spread(gain[1])} times on one, {spread(gain[4])} on four: {spread(both)}",
                    flush=True,
                )
    finally:
        subprocess.run([HOSTS, "down"], env=state, check=True)


if __name__ == "__main__":
    main()
