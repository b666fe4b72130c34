#!/usr/bin/env python3
"""Draws who waits for whom: plot_waiting.py OUT.svg LABEL RUN_FOLDER [LABEL RUN_FOLDER ...]

A row of lanes for each run, a lane for each rank, over the same stretch of time: about twelve steps from the middle of the first
run. The colours can be told apart on a light and on a dark page, of which the background shines through.
"""

import json
import pathlib
import sys

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

STEPS = 12
COMPUTE, DELAY, WAIT, TEXT = "#4a86c5", "#c9a227", "#e0564f", "#808080"


def read(folder):
    """Steps of each rank that has made some: {rank: [(begin, computing, delayed, waiting)]} in seconds."""
    lanes = {}
    for path in pathlib.Path(folder).glob("records-*.jsonl"):  # of members that came to no step there may be none
        steps = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.endswith("}")]
        if steps:
            rank = int(path.stem.removeprefix("records-"))
            lanes[rank] = [(s["begin"], s["computed"] + s["paced"], s["delayed"], s["waited"]) for s in steps]
    return dict(sorted(lanes.items()))


def window(lanes):
    """Begin of the middle step of a run, and the time that so many steps take there on average."""
    steps = max(lanes.values(), key=len)
    middle = len(steps) // 2
    last = min(middle + STEPS, len(steps) - 1)
    per_step = (steps[last][0] - steps[middle][0]) / max(1, last - middle)
    return steps[middle][0], per_step * STEPS


def draw(axes, label, lanes, length):
    start, _ = window(lanes)
    for lane, steps in enumerate(lanes.values()):
        for begin, *parts in steps:
            at = begin - start
            for part, colour in zip(parts, (COMPUTE, DELAY, WAIT)):
                left, right = max(at, 0), min(at + part, length)
                if right > left:
                    axes.broken_barh([(1000 * left, 1000 * (right - left))], (lane - 0.4, 0.8), color=colour, linewidth=0)
                at += part
            if 0 <= begin - start <= length:
                axes.plot([1000 * (begin - start)] * 2, [lane - 0.4, lane + 0.4], color="white", linewidth=0.8)
    axes.set_title(label, loc="left", fontsize=10, color=TEXT)
    axes.set_yticks(range(len(lanes)), [f"rank {rank}" for rank in lanes])
    axes.invert_yaxis()
    axes.set_xlim(0, 1000 * length)
    axes.tick_params(colors=TEXT, length=0)
    for side in axes.spines.values():
        side.set_visible(False)


def main():
    out, names, folders = sys.argv[1], sys.argv[2::2], sys.argv[3::2]
    runs = [read(folder) for folder in folders]
    if not runs or not all(runs):
        sys.exit("no records of steps")
    _, length = window(runs[0])
    rows = max(len(lanes) for lanes in runs)
    figure, axes = plt.subplots(len(runs), 1, sharex=True, squeeze=False, figsize=(8, len(runs) * (0.5 + 0.24 * rows) + 0.5))
    for cell, name, lanes in zip(axes[:, 0], names, runs):
        draw(cell, name, lanes, length)
    axes[-1, 0].set_xlabel("milliseconds", color=TEXT)
    delayed = any(step[2] > 0 for lanes in runs for steps in lanes.values() for step in steps)
    kinds = [("computes", COMPUTE)] + [("is delayed (injected)", DELAY)] * delayed + [("waits for others", WAIT)]
    marks = [plt.Rectangle((0, 0), 1, 1, color=colour) for _, colour in kinds]
    figure.legend(marks, [kind for kind, _ in kinds], ncol=len(kinds), loc="upper right", frameon=False, fontsize=9,
                  labelcolor=TEXT)
    figure.tight_layout()
    figure.savefig(out, transparent=True, metadata={"Date": None})


if __name__ == "__main__":
    main()
