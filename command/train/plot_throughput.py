#!/usr/bin/env python3
"""Draws what a reproduction of throughput has written: plot_throughput.py FOLDER/throughput.csv

Writes throughput.svg beside the file: batches a second over the number of ranks, above all of them the ideal without
communication, and below it the share of this ideal; bars where there is one number of ranks. Each imbalance has a column of
panels of its own; how many of the ranks are late may differ with their number.
"""

import collections
import csv
import itertools
import pathlib
import re
import statistics
import sys

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402
from cycler import cycler  # noqa: E402

IDEAL = "no communication (ideal)"


def read(path):
    """{imbalance: {algorithm: {ranks: (batches a second, the ideal)}}}, means over the seeds, in the order of the file."""
    runs = collections.defaultdict(lambda: collections.defaultdict(lambda: collections.defaultdict(list)))
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            figures = float(row["batches_per_second"]), float(row["no_communication"])
            imbalance = re.sub(r"\branks=\d+,", "", row["imbalance"])
            runs[imbalance][row["algorithm"]][int(row["ranks"])].append(figures)
    return {imbalance: {algorithm: {ranks: tuple(map(statistics.fmean, zip(*figures)))
                                    for ranks, figures in sorted(by_ranks.items())}
                        for algorithm, by_ranks in algorithms.items()}
            for imbalance, algorithms in runs.items()}


def ideal_of(algorithms):
    """{ranks: batches a second that nobody can exceed}: the delays drawn differ a little with who takes which batch."""
    ideal = {}
    for by_ranks in algorithms.values():
        for ranks, (_, without) in by_ranks.items():
            ideal[ranks] = max(without, ideal.get(ranks, 0))
    return dict(sorted(ideal.items()))


def draw_lines(above, below, algorithms):
    ideal = ideal_of(algorithms)
    styles = itertools.cycle(cycler(linestyle=["-", "--", ":"]) * plt.rcParams["axes.prop_cycle"])
    for axes in (above, below):
        axes.set_xscale("log", base=2)
        axes.set_xticks(list(ideal), [str(ranks) for ranks in ideal])
        axes.grid(alpha=0.3)
    for (algorithm, by_ranks), style in zip(algorithms.items(), styles):
        rates = [rate for rate, _ in by_ranks.values()]
        above.plot(list(by_ranks), rates, marker="o", markersize=3, label=algorithm, **style)
        below.plot(list(by_ranks), [rate / ideal[ranks] for ranks, rate in zip(by_ranks, rates)], marker="o", markersize=3,
                   **style)
    above.plot(list(ideal), list(ideal.values()), color="black", linewidth=1, label=IDEAL)
    below.axhline(1, color="black", linewidth=1)
    above.set_yscale("log")
    below.set_xlabel("ranks")


def draw_bars(axes, algorithms):
    labels = list(algorithms)
    rates = [next(iter(by_ranks.values()))[0] for by_ranks in algorithms.values()]
    axes.barh(labels, rates, color=[f"C{i % 10}" for i in range(len(labels))])
    (ranks, ideal), = ideal_of(algorithms).items()
    axes.axvline(ideal, color="black", linewidth=1)
    axes.invert_yaxis()
    axes.set_xlabel(f"batches/s on {ranks} ranks; the line: {IDEAL}")


def draw(runs, path):
    one_number = all(len(ideal_of(algorithms)) == 1 for algorithms in runs.values())
    rows = 1 if one_number else 2
    figure, panels = plt.subplots(rows, len(runs), figsize=(2.5 + 5 * len(runs), 1 + 3.2 * rows), squeeze=False)
    for column, (imbalance, algorithms) in enumerate(runs.items()):
        panels[0][column].set_title(imbalance, fontsize=10)
        if one_number:
            draw_bars(panels[0][column], algorithms)
        else:
            draw_lines(panels[0][column], panels[1][column], algorithms)
    if not one_number:
        panels[0][0].set_ylabel("batches/s")
        panels[1][0].set_ylabel("share of the ideal")
        panels[0][-1].legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize=8)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def main():
    path = pathlib.Path(sys.argv[1])
    draw(read(path), path.with_suffix(".svg"))


if __name__ == "__main__":
    main()
