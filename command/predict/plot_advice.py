#!/usr/bin/env python3
"""Draws what `stretto advise` has found: plot_advice.py ADVICE.json PICTURE (.svg or .png)

Above, for each setting, the fastest first: batches a second with their 95 % interval, beside those of sync and of an ideal that
never waits, and the share of fresh contributions. Below, where another than sync is recommended: what it gains over sync where
ranks differ less than in the job, and more.
"""

import json
import math
import sys
import textwrap

import matplotlib

matplotlib.use("agg")  # for PNG; an SVG has its own
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.ticker import PercentFormatter  # noqa: E402

# Of the palette of Okabe and Ito, which is told apart with every kind of colour vision; shapes differ, too.
BEST = {"color": "#0072B2", "marker": "D", "markersize": 6}
SYNC = {"color": "#D55E00", "marker": "s", "markersize": 5}
OTHER = {"color": "#555555", "marker": "o", "markersize": 4}
WORTHWHILE = 1.05  # as the verdict has it

WIDTH = 8.4  # inches, here and below
ROW = 0.2
FRAME = 1.1  # of the upper panels, beside their rows
GAINS = 2.7
LINE = 105  # characters of the title

# Behind words that a line may cross.
PAPER = {"facecolor": "white", "edgecolor": "none", "pad": 1}


def style_of(setting, advice):
    if setting["algorithm"] == advice["recommended"]:
        return BEST
    return SYNC if setting["algorithm"] == "sync" else OTHER


def words_of(setting, advice):
    """What stands beside its dot."""
    if setting["algorithm"] not in ("sync", advice["recommended"]):
        return ""
    from_skew = advice["crossover_s"]
    to_leave = advice["recommended"] != "sync" and from_skew is not None and from_skew <= advice["skew_s"]
    if setting["algorithm"] == ("sync" if not to_leave else advice["recommended"]):
        return "recommended"
    return "" if to_leave else "gains less than 5 %"


def milliseconds(seconds):
    return f"{1e3 * seconds:.3g} ms"


def draw_settings(rates, fresh, advice):
    settings = advice["settings"]
    sync = next(setting["batches_per_s"] for setting in settings if setting["algorithm"] == "sync")
    ideal = advice["ideal_batches_per_s"]
    for row, setting in enumerate(settings):
        style = style_of(setting, advice)
        rate = setting["batches_per_s"]
        low, high = (rate if end is None else end for end in setting["batches_per_s_interval"])
        rates.plot([low, high], [row, row], color=style["color"], linewidth=1.5, solid_capstyle="butt")
        rates.plot(rate, row, linestyle="none", **style)
        if setting["fresh_share"] is not None:
            fresh.plot(setting["fresh_share"], row, linestyle="none", clip_on=False, zorder=3, **style)
        to_left = rate > ideal / 3
        rates.annotate(words_of(setting, advice), (low if to_left else high, row), (-8 if to_left else 8, 0),
                       textcoords="offset points", ha="right" if to_left else "left", va="center", color=style["color"],
                       weight="bold", bbox=PAPER)
    rates.set_yticks(range(len(settings)), [setting["algorithm"] for setting in settings])
    for label, setting in zip(rates.get_yticklabels(), settings):
        style = style_of(setting, advice)
        label.set(color=style["color"], weight="normal" if style is OTHER else "bold")
    rates.set_ylim(len(settings) + 0.4, -0.6)
    rates.set_xlim(0, 1.04 * ideal)
    rates.axvline(ideal, color="black", linewidth=1)
    rates.axvline(sync, color=SYNC["color"], linewidth=1, linestyle="--", zorder=0)
    rates.annotate("ideal: nobody waits", (ideal, len(settings)), (-4, 0), textcoords="offset points", ha="right", va="center",
                   bbox=PAPER)
    rates.set_xlabel("batches/s, with 95 % interval")
    above = rates.secondary_xaxis("top", functions=(lambda rate: rate / sync, lambda gain: gain * sync))
    above.set_xlabel("times sync")
    fresh.set_xlim(0, 1)
    fresh.xaxis.set_major_formatter(PercentFormatter(1, symbol=" %"))
    fresh.set_xticks([0, 0.5, 1])
    fresh.set_xlabel("fresh contributions")
    fresh.tick_params(axis="y", left=False, labelleft=False)
    for axes in (rates, fresh):
        axes.grid(axis="y", alpha=0.25)
        axes.set_axisbelow(True)


def draw_gains(axes, advice):
    skews, gains = zip(*((1e3 * at["skew_s"], at["gain"]) for at in advice["gains"]))
    axes.plot(skews, gains, **BEST, clip_on=False)
    axes.axhline(1, color=SYNC["color"], linewidth=1, linestyle="--")
    axes.axhline(WORTHWHILE, color=OTHER["color"], linewidth=1, linestyle=":")
    axes.axvline(1e3 * advice["skew_s"], color="black", linewidth=1)
    axes.set_xlim(0, skews[-1])
    low, high = min(1, *gains), max(WORTHWHILE, *gains)
    axes.set_ylim(low - 0.08 * (high - low), high + 0.2 * (high - low))
    axes.annotate(f"this job: {milliseconds(advice['skew_s'])}", (1e3 * advice["skew_s"], 1), (4, -2), ha="left", va="top",
                  xycoords=("data", "axes fraction"), textcoords="offset points")
    axes.annotate("5 % more than sync", (1, WORTHWHILE), (-4, 3), ha="right", va="bottom", color=OTHER["color"],
                  xycoords=("axes fraction", "data"), textcoords="offset points")
    crossover = advice["crossover_s"]
    if crossover:  # neither null nor 0: it pays from some skew on
        axes.plot(1e3 * crossover, WORTHWHILE, marker="o", markersize=9, markerfacecolor="none", markeredgewidth=1.5,
                  color="black")
        axes.annotate(f"worthwhile from {milliseconds(crossover)} on", (1e3 * crossover, WORTHWHILE), (0.02, 0.97), va="top",
                      textcoords="axes fraction",
                      arrowprops={"arrowstyle": "-", "linewidth": 0.7, "shrinkB": 5, "relpos": (0, 0)})
    axes.set_xlabel("skew: from the first to the last rank of a step, ms")
    axes.set_ylabel(f"{advice['recommended']},\ntimes sync")
    axes.grid(alpha=0.25)


def draw(advice, path):
    upper = FRAME + ROW * len(advice["settings"])
    gains = advice.get("gains", [])
    verdict = advice["verdict"].replace(" ms", "\u00a0ms")
    lines = math.ceil(len(verdict) / LINE)
    title = textwrap.fill(verdict, len(verdict) // lines + 10)  # of equal length, but for a word
    head = 0.5 + 0.2 * lines
    heights = [upper, GAINS] if gains else [upper]
    figure = plt.figure(figsize=(WIDTH, head + sum(heights)), layout="constrained")
    grid = figure.add_gridspec(len(heights), 2, width_ratios=[3.2, 1], height_ratios=heights)
    rates = figure.add_subplot(grid[0, 0])
    draw_settings(rates, figure.add_subplot(grid[0, 1], sharey=rates), advice)
    if gains:
        draw_gains(figure.add_subplot(grid[1, :]), advice)
    figure.suptitle(f"{title}\n{advice['ranks']} ranks, steps of {milliseconds(advice['mean_s'])} in the mean", fontsize=10,
                    x=0.01, ha="left")
    figure.savefig(path, dpi=150, metadata={"Date": None} if path.endswith(".svg") else None)
    plt.close(figure)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        draw(json.load(file), sys.argv[2])


if __name__ == "__main__":
    plt.rcParams.update({"font.size": 8.5, "axes.spines.right": False, "axes.spines.top": False, "svg.hashsalt": "stretto"})
    main()
