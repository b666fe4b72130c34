#!/usr/bin/env python3
"""Draws the medians that `stretto bench plot` has written: plot_allreduce.py FOLDER/allreduce.csv

Writes allreduce.png and allreduce.svg beside the file: latency (above) and bus bandwidth (below) over size, a column of
panels for each number of ranks, a line for each library.
"""

import csv
import pathlib
import sys

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt  # noqa: E402

KIB = 1024


def read(path):
    """{ranks: {library: [(bytes, microseconds, low, high, gb_per_s)]}}, in the order of the file."""
    panels = {}
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            points = panels.setdefault(int(row["ranks"]), {}).setdefault(row["library"], [])
            points.append(tuple(float(row[name]) for name in ("bytes", "microseconds", "low", "high", "gb_per_s")))
    return panels


def size_text(size, _):
    for factor, unit in ((KIB ** 3, "GiB"), (KIB ** 2, "MiB"), (KIB, "KiB")):
        if size >= factor:
            return f"{size / factor:g} {unit}"
    return f"{size:g} B"


def draw(panels, path):
    figure, axes = plt.subplots(2, len(panels), figsize=(1 + 3.6 * len(panels), 6.4), sharex=True, squeeze=False)
    libraries = list(dict.fromkeys(library for lines in panels.values() for library in lines))
    colors = {library: f"C{i}" for i, library in enumerate(libraries)}
    for column, (ranks, lines) in enumerate(sorted(panels.items())):
        latency, bandwidth = axes[0][column], axes[1][column]
        for library, points in lines.items():
            sizes, microseconds, low, high, gb_per_s = zip(*points)
            style = {"color": colors[library], "label": library, "marker": "o", "markersize": 3}
            latency.plot(sizes, microseconds, **style)
            latency.fill_between(sizes, low, high, color=colors[library], alpha=0.2, linewidth=0)
            bandwidth.plot(sizes, gb_per_s, **style)
        latency.set_title(f"{ranks} rank{'' if ranks == 1 else 's'}")
        latency.set_yscale("log")
        if column > 0:
            latency.sharey(axes[0][0])
        for panel in (latency, bandwidth):
            panel.set_xscale("log", base=2)
            panel.xaxis.set_major_formatter(size_text)
            panel.tick_params(axis="x", labelrotation=45)
            panel.grid(alpha=0.3)
        bandwidth.set_xlabel("size")
    axes[0][0].set_ylabel("time of a call, µs")
    axes[1][0].set_ylabel("bus bandwidth, GB/s")
    axes[0][0].legend()
    figure.tight_layout()
    figure.savefig(path.with_suffix(".png"), dpi=150)
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    plt.close(figure)


def main():
    path = pathlib.Path(sys.argv[1])
    draw(read(path), path)


if __name__ == "__main__":
    main()
