#!/usr/bin/env python3
"""Draws what `stretto reproduce ordering` has predicted: plot_ordering.py FOLDER/ordering.csv

Writes beside the file what the rows are there for. ordering-weak.svg and ordering-strong.svg: samples a second over the
number of ranks, beside linear scaling, and the gain over the coordinator (Pumma et al., CCGrid 2020, Figs 3, 10 and 12);
ordering-parts.svg: of what a step consists, under the coordinator and under topo (Figs 4, 5 and 11);
ordering-networks.svg: the gain of topo by network (Fig. 13). Marked is what the paper's text says of each: all else of its
figures is drawn there without numbers.
"""

import collections
import csv
import pathlib
import sys

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

COORDINATOR, TOPO = "coordinator", "topo"
PARTS = ("computing", "overhead", "waiting", "transfer")
PAPER_GAINS = {"gs": 10, "nbcs": 16, "scp": 18, "topo": 21}  # %, on the most ranks
PAPER_BELOW_LINEAR = 3.3  # times, the coordinator on the most ranks
PAPER_OVERHEAD = {COORDINATOR: 0.46, TOPO: 0.034}  # of a step, on the most ranks
PAPER_STRONG_GAIN = 19  # %, the largest of all
MOST_RANKS = 24576
# %, from … to; a single number twice.
PAPER_NETWORKS = {"GoogLeNet": (25, 35), "Inception-v3": (10, 18), "ResNet-18": (5, 21), "ResNet-34": (5, 21),
                  "ResNet-50": (21, 21), "ResNet-101": (5, 21), "ResNet-152": (5, 21), "VGG16": (2, 6), "AlexNet": (-6, -6)}


def read(path):
    """{experiment: {ordering: {ranks: row}}}, in the order of the file."""
    runs = collections.defaultdict(lambda: collections.defaultdict(dict))
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            numbers = {name: float(value) for name, value in row.items() if name not in ("experiment", "ordering")}
            runs[row["experiment"]][row["ordering"]][int(row["ranks"])] = numbers
    return runs


def gain(orderings, ordering, ranks):
    return 100 * (orderings[COORDINATOR][ranks]["step"] / orderings[ordering][ranks]["step"] - 1)


def save(figure, path):
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def draw_scaling(orderings, paper_gains, path):
    figure, (rates, gains) = plt.subplots(1, 2, figsize=(11, 4.2))
    for axes in (rates, gains):
        axes.set_xscale("log", base=2)
        axes.set_xlabel("ranks")
        axes.grid(alpha=0.3)
    for ordering, by_ranks in orderings.items():
        rates.plot(list(by_ranks), [row["samples_per_second"] for row in by_ranks.values()], marker="o", markersize=3,
                   label=ordering)
        gains.plot(list(by_ranks), [gain(orderings, ordering, ranks) for ranks in by_ranks], marker="o", markersize=3)
        if ordering in paper_gains and MOST_RANKS in by_ranks:
            gains.plot([MOST_RANKS], [paper_gains[ordering]], marker="x", linestyle="", color=gains.lines[-1].get_color())
    if paper_gains:
        ranks = list(orderings[COORDINATOR])
        one = orderings[COORDINATOR][ranks[0]]["samples"] / min(row["computing"] for row in orderings[TOPO].values())
        rates.plot(ranks, [one * each for each in ranks], color="black", linewidth=1, label="linear")
        if MOST_RANKS in ranks:
            rates.plot([MOST_RANKS], [one * MOST_RANKS / PAPER_BELOW_LINEAR], marker="x", linestyle="", color="C0",
                       label="the paper, coordinator")
        gains.plot([], [], marker="x", linestyle="", color="black", label="the paper")
        gains.legend(fontsize=8)
    else:
        gains.axhline(PAPER_STRONG_GAIN, color="black", linewidth=1, linestyle=":", label="the paper: up to this")
        gains.legend(fontsize=8)
    rates.set_yscale("log")
    rates.set_ylabel("samples/s (simulated)")
    gains.set_ylabel("gain over the coordinator, %")
    rates.legend(fontsize=8)
    save(figure, path)


def draw_parts(orderings, path):
    figure, panels = plt.subplots(1, 2, figsize=(11, 4.2), sharey=True)
    for axes, ordering in zip(panels, (COORDINATOR, TOPO)):
        labels = [str(ranks) for ranks in orderings[ordering]]
        bottom = [0.0] * len(labels)
        for part in PARTS:
            values = [1e3 * row[part] for row in orderings[ordering].values()]
            axes.bar(labels, values, bottom=bottom, label=part)
            bottom = [below + value for below, value in zip(bottom, values)]
        if MOST_RANKS in orderings[ordering]:
            row = orderings[ordering][MOST_RANKS]
            axes.plot([labels[-1]], [1e3 * (row["computing"] + PAPER_OVERHEAD[ordering] * row["step"])], marker="x",
                      linestyle="", color="black", label="end of overhead by the paper's share")
        axes.set_title(ordering)
        axes.set_xlabel("ranks")
        axes.tick_params(axis="x", labelrotation=45)
        axes.grid(axis="y", alpha=0.3)
    panels[0].set_ylabel("ms of a step (simulated)")
    panels[0].legend(fontsize=8)
    save(figure, path)


def draw_networks(runs, path):
    names = [name for name in PAPER_NETWORKS if name in runs]
    gains = []
    for name in names:
        (ranks,) = runs[name][TOPO]
        gains.append(gain(runs[name], TOPO, ranks))
    figure, axes = plt.subplots(figsize=(8, 4.2))
    axes.barh(names, gains, color="C0", label="simulated")
    for place, name in enumerate(names):
        low, high = PAPER_NETWORKS[name]
        axes.plot([low, high], [place, place], color="black", marker="|", label="the paper" if place == 0 else None)
    axes.invert_yaxis()
    axes.set_xlabel("gain of topo over the coordinator, %")
    axes.grid(axis="x", alpha=0.3)
    axes.legend(fontsize=8)
    save(figure, path)


def main():
    path = pathlib.Path(sys.argv[1])
    runs = read(path)
    if "weak" in runs:
        draw_scaling(runs["weak"], PAPER_GAINS, path.with_name("ordering-weak.svg"))
        draw_parts(runs["weak"], path.with_name("ordering-parts.svg"))
    if "strong" in runs:
        draw_scaling(runs["strong"], {}, path.with_name("ordering-strong.svg"))
    if any(name in runs for name in PAPER_NETWORKS):
        draw_networks(runs, path.with_name("ordering-networks.svg"))


if __name__ == "__main__":
    main()
