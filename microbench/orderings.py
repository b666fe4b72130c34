#!/usr/bin/env python3
"""What an order of gradients costs on this machine, live: the lines of docs/lab/ordering_costs.md that need real ranks.

    microbench/orderings.py [--repeats 10] [--json FILE] [--only PART,…] [PROGRAM]

Runs `stretto train` with each ordering in turn, again and again, so that what the machine does meanwhile meets all of them
alike; prints medians over the repeats, the smallest and the largest, and beside them what is asked. The input pipeline's
threads burn real processor time; steps are paced, so that two cores are enough for the computation itself. Wants an idle machine.
Rows of scp run with `--cores shared`: on fewer than three cores its background thread has none of its own, and no figure of
these rows says what such a core would bring. How long a rank waits that nobody can help is timed by ordering_test, which lies
beside PROGRAM where the tests were built.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
Run = dict[str, Any]

SHARED = "scp --cores shared"


def busy(ranks: int, load: str = "8ms") -> tuple[str, ...]:
    return ("digits", "--ranks", str(ranks), "--batch", "16", "--pace", "1ms", "--steps", "60", "--input-threads", "2",
            "--input-load", load)


@dataclasses.dataclass
class Setting:
    """One way to run the job."""

    name: str
    words: tuple[str, ...]
    runs: list[Run] = dataclasses.field(default_factory=list)

    def values(self, figure: Callable[[Run], float]) -> list[float]:
        return [figure(run) for run in self.runs]

    def median(self, figure: Callable[[Run], float]) -> float:
        return statistics.median(self.values(figure))


def step(run: Run) -> float:
    return run["step_seconds"]["p50"]


def cost(name: str) -> Callable[[Run], float]:
    """A figure of all ranks together, a step."""
    return lambda run: run["ordering"]["all"][name]


def skew(run: Run) -> float:
    return run["ordering"]["skew_p50"]


def cascade(run: Run) -> float:
    return run["ordering"]["cascade"][0]


def share_of_a_core(name: str) -> Callable[[Run], float]:
    return lambda run: run["ordering"]["all"][name] / step(run)


def ordered(ordering: str, *more: str) -> tuple[str, ...]:
    return ("--ordering", *ordering.split(), *more)


class Bench:
    """Runs settings in turn."""

    def __init__(self, program: str, repeats: int) -> None:
        self.program = program
        self.repeats = repeats
        self.results: list[dict[str, Any]] = []

    def call(self, *command: str) -> str:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        if done.returncode != 0:
            sys.exit(f"orderings: {' '.join(command)}\n{done.stderr}")
        return done.stdout

    def json(self, *command: str) -> Any:
        return json.loads(self.call(*command))

    def run(self, words: tuple[str, ...]) -> Run:
        return self.json(self.program, "train", *words, "--json")

    def interleave(self, *settings: Setting, repeats: int | None = None) -> None:
        for repeat in range(repeats or self.repeats):
            for setting in settings[repeat % len(settings):] + settings[:repeat % len(settings)]:
                setting.runs.append(self.run(setting.words))

    def say(self, what: str, values: list[float], asked: str = "", met: bool | None = None, unit: str = "") -> None:
        middle, low, high = statistics.median(values), min(values), max(values)
        verdict = "" if met is None else ("  met" if met else "  MISSED")
        print(f"  {what:<58} {middle:9.4g}{unit} ({low:.4g} to {high:.4g})  {asked}{verdict}", flush=True)
        self.results.append({"what": what, "median": middle, "low": low, "high": high, "unit": unit, "asked": asked,
                             "met": met})

    def say_ratio(self, what: str, a: Setting, b: Setting, figure: Callable[[Run], float], asked: str,
                  holds: Callable[[float], bool]) -> None:
        ratios = [x / y if y > 0 else 0.0 for x, y in zip(a.values(figure), b.values(figure), strict=True)]
        self.say(what, ratios, asked, holds(statistics.median(ratios)), " ×")


def same_bits(settings: list[Setting]) -> bool:
    return len({run["loss"] for setting in settings for run in setting.runs}) == 1


def costs(bench: Bench) -> None:
    print("topo beside fixed buckets and the coordinator (4 ranks, unpaced; by messages and on a board)")
    for workload, (seats, words) in itertools.product(
            ("digits", "digits-wide"), (("messages", ("--seats", "1")), ("a board", ()))):
        job = (workload, "--ranks", "4", "--batch", "64", "--steps", "400", *words)
        none = Setting("none", (*job, *ordered("none")))
        topo = Setting("topo", (*job, *ordered("topo")))
        coordinator = Setting("coordinator", (*job, *ordered("coordinator")))
        bench.interleave(none, topo, coordinator)
        where = f"{workload}, {seats}"
        bench.say_ratio(f"step of topo / none, {where}", topo, none, step, "≤ 1.03", lambda r: r <= 1.03)
        bench.say_ratio(f"step of topo / coordinator, {where}", topo, coordinator, step, "≤ 1", lambda r: r <= 1)
        bench.say(f"the same bits, {where}", [float(same_bits([none, topo, coordinator]))], "1",
                  same_bits([none, topo, coordinator]))
        bench.say(f"step of none, {where}", [1000 * s for s in none.values(step)], unit=" ms")
    few, many = (bench.run(("digits", "--ranks", "4", "--steps", steps, *ordered("topo"))) for steps in ("20", "220"))
    for steps, run in ((20, few), (220, many)):  # how many cycles the first step takes hangs on the machine
        bench.say(f"control messages of a rank in {steps} steps of topo", [steps * cost("control_messages")(run)])


def idle(bench: Bench) -> None:
    print("an idle library (digits, 3 ranks, steps of 160 ms, nothing else runs)")
    job = ("digits", "--ranks", "3", "--batch", "16", "--pace", "10ms", "--steps", "20")
    topo = Setting("topo", (*job, *ordered("topo")))
    coordinator = Setting("coordinator", (*job, *ordered("coordinator")))
    bench.interleave(topo, coordinator)
    shares = [100 * share for share in topo.values(share_of_a_core("background_cpu"))]
    bench.say("background thread under topo, of a core", shares, "≤ 1 %", statistics.median(shares) <= 1, " %")
    bench.say("the same under the coordinator", [100 * s for s in coordinator.values(share_of_a_core("background_cpu"))],
              unit=" %")


def mechanism(bench: Bench) -> None:
    print("the cascade (digits, 3 ranks, steps of 16 ms, two input threads a rank burn 8 ms a step)")
    sleeping = {name: Setting(name, (*busy(3), *ordered(name, "--background-only", "yes")))
                for name in ("coordinator", "gs", "nbcs", SHARED, "topo")}
    bench.interleave(*sleeping.values())
    coordinator, gs, topo = sleeping["coordinator"], sleeping["gs"], sleeping["topo"]
    bench.say("autocorrelation of skew, coordinator", coordinator.values(cascade), "≥ 0.8",
              coordinator.median(cascade) >= 0.8)
    bench.say("autocorrelation of skew, gs", gs.values(cascade), "≤ 0.4", gs.median(cascade) <= 0.4)
    bench.say_ratio("median skew of gs / coordinator", gs, coordinator, skew, "≤ 0.1", lambda r: r <= 0.1)
    bench.say_ratio("negotiation of topo / coordinator", topo, coordinator, cost("negotiation"), "≤ 0.1",
                    lambda r: r <= 0.1)
    for name, setting in sleeping.items():
        bench.say(f"step, {name}", [1000 * s for s in setting.values(step)], unit=" ms")
    bench.say(f"autocorrelation of skew, {SHARED}", sleeping[SHARED].values(cascade))
    spinning = {name: Setting(name, (*busy(3), *ordered(name, "--background-only", "yes", "--negotiation-wait", "spin")))
                for name in ("coordinator", "gs", "nbcs", SHARED)}
    print("the same, spinning in agreements, as MPI does")
    bench.interleave(*spinning.values())
    spun = share_of_a_core("spin_cpu")
    bench.say("burnt in agreements, coordinator, of a core", spinning["coordinator"].values(spun), "≥ 0.3",
              spinning["coordinator"].median(spun) >= 0.3)
    bench.say_ratio("burnt by nbcs / coordinator", spinning["nbcs"], spinning["coordinator"], spun, "≤ 0.2",
                    lambda r: r <= 0.2)
    for name, setting in spinning.items():
        bench.say(f"autocorrelation of skew, {name}", setting.values(cascade))
        bench.say(f"step, {name}", [1000 * s for s in setting.values(step)], unit=" ms")
        bench.say(f"cycle p50, beside 5 ms, {name}", [1000 * s for s in setting.values(cost("cycle_p50"))], unit=" ms")


def other_numbers_of_ranks(bench: Bench) -> None:
    repeats = min(bench.repeats, 5)
    for ranks, load in ((2, "8ms"), (4, "8ms"), (4, "4ms")):  # 4 ranks that burn 8 ms wait for turns of two cores, too
        print(f"the cascade on {ranks} ranks that burn {load} a step, asleep in agreements ({repeats} runs)")
        coordinator, gs = (Setting(name, (*busy(ranks, load), *ordered(name, "--background-only", "yes")))
                           for name in ("coordinator", "gs"))
        bench.interleave(coordinator, gs, repeats=repeats)
        where = f"{ranks} ranks, {load}"
        bench.say(f"autocorrelation of skew, coordinator, {where}", coordinator.values(cascade), "≥ 0.8",
                  coordinator.median(cascade) >= 0.8)
        bench.say(f"autocorrelation of skew, gs, {where}", gs.values(cascade), "≤ 0.4", gs.median(cascade) <= 0.4)
        bench.say_ratio(f"median skew of gs / coordinator, {where}", gs, coordinator, skew, "≤ 0.1", lambda r: r <= 0.1)


def planning(bench: Bench) -> None:
    print("planning, of a run of 1,000 steps (each planned once, by a process that has planned nothing before)")
    for workload in ("digits", "digits-wide", "resnet-small"):
        run = bench.run((workload, "--ranks", "2", "--steps", "30", *ordered("topo")))
        shares = []
        for _ in range(bench.repeats):
            plan = bench.json(bench.program, "schedule", "plan", workload, "--json")
            shares.append(100 * plan["planning_seconds"] / (1000 * step(run)))
        bench.say(f"planning / 1,000 steps, {workload}", shares, "≤ 0.1 %", statistics.median(shares) <= 0.1, " %")


def branch(bench: Bench) -> None:
    print("a branch of one rank alone, in which it and the others wait for each other: from the begin of the step to the error")
    test = pathlib.Path(bench.program).with_name("ordering_test")
    if not test.exists():
        print("  not measured: no ordering_test beside the program")
        return
    times: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "branch.json"
        for _ in range(bench.repeats):
            bench.call(str(test), "--gtest_filter=Branch.InWhichNobodyCanGoOnIsNamedInThreads", f"--gtest_output=json:{file}")
            found = json.loads(file.read_text(encoding="utf-8"))["testsuites"][0]["testsuite"][0]
            for name in ("coordinator", "nbcs", "topo"):
                times.setdefault(name, []).append(int(found[name]) / 1000)
    for name, values in times.items():
        bench.say(f"until the error, {name}, 3 ranks", values, "≤ 1000 ms", statistics.median(values) <= 1000, " ms")


def change(bench: Bench) -> None:
    print("a graph that changes in every tenth step (branches, 4 ranks)")
    job = ("branches", "--ranks", "4", "--steps", "60")
    none = Setting("none", (*job, *ordered("none")))
    topo = Setting("topo", (*job, *ordered("topo")))
    coordinator = Setting("coordinator", (*job, *ordered("coordinator")))
    bench.interleave(none, topo, coordinator)
    bench.say("the same bits", [float(same_bits([none, topo, coordinator]))], "1", same_bits([none, topo, coordinator]))
    wall = lambda run: run["wall_seconds"]  # noqa: E731
    bench.say_ratio("wall time of topo / coordinator", topo, coordinator, wall, "≤ 1.2", lambda r: r <= 1.2)


PARTS = {"costs": costs, "idle": idle, "mechanism": mechanism, "ranks": other_numbers_of_ranks, "planning": planning,
         "change": change, "branch": branch}


def parts(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in PARTS:
            raise argparse.ArgumentTypeError(f"{name}: expected {', '.join(PARTS)}")
    return names


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?", default=str(ROOT / "build/release/bin/stretto"))
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--only", metavar="PART,…", type=parts, default=list(PARTS), help=", ".join(PARTS))
    arguments = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; medians of {arguments.repeats} interleaved runs")
    bench = Bench(arguments.program, arguments.repeats)
    for name in arguments.only:
        PARTS[name](bench)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(bench.results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
