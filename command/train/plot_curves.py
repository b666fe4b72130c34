#!/usr/bin/env python3
"""Draws the curves of trained algorithms beside each other: plot_curves.py FOLDER/curves.csv

Writes curves-batches.svg and curves-time.svg beside the file: training loss over batches applied and over time, for each
algorithm the mean over its seeds, smoothed, and, faintly, every run. A cross marks where each has come to the loss that all of
them reach.
Where models were evaluated while the runs went on, their accuracy on test data, or the loss on it, is drawn below.
"""

import csv
import itertools
import pathlib
import sys

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402
from cycler import cycler  # noqa: E402

POINTS = 200  # of a mean curve
SMOOTHED = 9  # of them are averaged with each other

MEASURES = {"loss": "training loss", "accuracy": "test accuracy", "test_loss": "test loss"}


def read(path):
    """{measure: {algorithm: {seed: [(batches, seconds, value)]}}}, in the order of the file."""
    runs = {measure: {} for measure in MEASURES}
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            for measure, algorithms in runs.items():
                if row[measure]:
                    points = algorithms.setdefault(row["algorithm"], {}).setdefault(row["seed"], [])
                    points.append((float(row["batches"]), float(row["seconds"]), float(row[measure])))
    return runs


def mean_curve(seeds, column, width):
    """One algorithm's curves, a pair of arrays each, and their mean on a grid, over so many neighbouring points of it."""
    curves = [(np.asarray([point[column] for point in points]), np.asarray([point[2] for point in points]))
              for points in seeds.values()]
    start = max(x[0] for x, _ in curves)
    end = min(x[-1] for x, _ in curves)
    grid = np.linspace(start, end, POINTS) if end > start else curves[0][0]
    mean = np.mean([np.interp(grid, x, y) for x, y in curves], axis=0)
    window = np.ones(min(width, len(grid)))
    return curves, grid, np.convolve(mean, window, "same") / np.convolve(np.ones(len(grid)), window, "same")


def draw_curves(axes, algorithms, column, loss):
    """`loss`: a noisy one, of which is marked where each algorithm comes to the value that all come to."""
    styles = itertools.cycle(cycler(linestyle=["-", "--", ":"]) * plt.rcParams["axes.prop_cycle"])
    means = {algorithm: mean_curve(seeds, column, SMOOTHED if loss else 1) for algorithm, seeds in algorithms.items()}
    reached = max(np.nanmin(mean) for _, _, mean in means.values())
    for (algorithm, (curves, grid, mean)), style in zip(means.items(), styles):
        first = int(np.argmax(mean <= reached))
        axes.plot(grid, mean, label=f"{algorithm}: {reached:.2g} after {grid[first]:.3g}" if loss else algorithm, **style)
        if loss:
            axes.plot(grid[first], mean[first], marker="x", color=style["color"], markersize=9, markeredgewidth=2)
        for x, y in curves:
            axes.plot(x, y, color=style["color"], alpha=0.15, linewidth=0.8)
    if loss and reached > 0:
        axes.set_yscale("log")
    axes.grid(alpha=0.3)


def draw(runs, measures, column, label, path):
    size = (7, 4.2 * len(measures)) if len(runs["loss"]) <= 6 else (10, 4.2 * len(measures))
    figure, panels = plt.subplots(len(measures), figsize=size, sharex=True, squeeze=False)
    for axes, measure in zip(panels[:, 0], measures):
        draw_curves(axes, runs[measure], column, measure == "loss")
        axes.set_ylabel(MEASURES[measure])
    panels[-1][0].set_xlabel(label)
    outside = {"loc": "upper left", "bbox_to_anchor": (1, 1), "fontsize": 8}
    panels[0][0].legend(**({} if len(runs["loss"]) <= 6 else outside))
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def main():
    path = pathlib.Path(sys.argv[1])
    runs = read(path)
    if not runs["loss"]:
        return
    # The end alone is no curve.
    evaluated = [measure for measure in ("accuracy", "test_loss")
                 if any(len(points) > 1 for seeds in runs[measure].values() for points in seeds.values())]
    measures = ["loss", *evaluated[:1]]
    draw(runs, measures, 0, "batches applied", path.with_name("curves-batches.svg"))
    draw(runs, measures, 1, "seconds", path.with_name("curves-time.svg"))


if __name__ == "__main__":
    main()
