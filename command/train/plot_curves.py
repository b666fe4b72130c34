#!/usr/bin/env python3
"""Draws the curves of `stretto compare`: plot_curves.py FOLDER/curves.csv

Writes curves-batches.svg and curves-time.svg beside the file: training loss over batches applied and over time, for each
algorithm the mean over its seeds and, faintly, every run. A cross marks where each has come to the loss that all of them reach.
"""

import csv
import pathlib
import sys

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402


def read(path):
    """{algorithm: {seed: (batches, seconds, loss)}}, in the order of the file."""
    runs = {}
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            points = runs.setdefault(row["algorithm"], {}).setdefault(row["seed"], ([], [], []))
            for column, name in zip(points, ("batches", "seconds", "loss")):
                column.append(float(row[name]))
    return runs


def mean_curve(seeds, column):
    """One algorithm's curves, a pair of arrays each, and their mean on a grid."""
    curves = [(np.asarray(points[column]), np.asarray(points[2])) for points in seeds.values()]
    start = max(x[0] for x, _ in curves)
    end = min(x[-1] for x, _ in curves)
    grid = np.linspace(start, end, 200) if end > start else curves[0][0]
    return curves, grid, np.mean([np.interp(grid, x, y) for x, y in curves], axis=0)


def draw(runs, column, label, path):
    figure, axes = plt.subplots(figsize=(7, 4.2))
    means = {algorithm: mean_curve(seeds, column) for algorithm, seeds in runs.items()}
    reached = max(np.nanmin(mean) for _, _, mean in means.values())
    for algorithm, (curves, grid, mean) in means.items():
        first = int(np.argmax(mean <= reached))
        line, = axes.plot(grid, mean, label=f"{algorithm}: {reached:.2g} after {grid[first]:.3g}")
        axes.plot(grid[first], mean[first], marker="x", color=line.get_color(), markersize=9, markeredgewidth=2)
        if len(curves) > 1:
            for x, y in curves:
                axes.plot(x, y, color=line.get_color(), alpha=0.15, linewidth=0.8)
    if reached > 0:
        axes.set_yscale("log")
    axes.set_xlabel(label)
    axes.set_ylabel("training loss")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def main():
    path = pathlib.Path(sys.argv[1])
    runs = read(path)
    if runs:
        draw(runs, 0, "batches applied", path.with_name("curves-batches.svg"))
        draw(runs, 1, "seconds", path.with_name("curves-time.svg"))


if __name__ == "__main__":
    main()
