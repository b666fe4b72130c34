"""Loops under frameworks that wait less for each other, or live on when a rank is lost: the same four processes of one
thread, model and batches, under each framework in turns.

    PYTHONPATH=build/release/package .cache/peers/bin/python microbench/peers/living.py [--times N] [--only NAME,...]

training_loops.py has the loops, and how to make the environment. Delays are injected: a step sleeps, always 10 ms, or
log-normally with that mean, or three times as long on the last rank; the same batch sleeps equally under each
framework. A loop's learning rate is the same everywhere, and tuned for none. What favours Stretto: its ranks draw
batches of one pool, so that fast ones take more; `stretto-quorum-fixed` has fixed shares, as the others have. What
favours local steps: no average before the end of eight of them. hivemind is made for averages every few minutes, and
has one every 32 steps of each rank here.

Prints two Markdown tables, of medians and ranges: batches applied a second, from the first step to the last end, and
the loss over other data at the end; then lines beside plain PyTorch, processor time of the ranks (with processes that
they start) a batch, their peak memory, how long a rank ended no step at most, the same after a kill of one rank in its
71st step, and batches that nobody has computed then.
"""

import argparse
import os
import statistics
import sys

import jobs_of_loops
import training_loops
from training_loops import LOOPS, SYNC_EVERY, VICTIM

KINDS = ("balanced", "log-normal", "one-slow")


def frameworks_of(ranks):
    """Of each: what it is, its loop, its command, how it is started, and its settings."""

    def alone(loop, **more):
        return loop, [sys.executable, jobs_of_loops.LOOPS, loop], {"single": True, **more}

    ours = ("stretto", jobs_of_loops.stretto_run(f"{ranks - 1}:{ranks}"), {})
    fixed = ("stretto", jobs_of_loops.stretto_run(str(ranks)), {})
    return {
        "ddp": ("DDP", *alone("ddp"), {}),
        "post-local": ("DDP, post-local SGD", *alone("post_local"), {}),
        "accelerate": ("accelerate, LocalSGD", *alone("accelerate"), {}),
        "torchft": ("torchft, DDP", *alone("torchft_ddp", lighthouse=[]), {}),
        "torchft-local": ("torchft, LocalSGD", *alone("torchft_local", lighthouse=[]), {}),
        "hivemind": ("hivemind, local updates", *alone("hivemind"), {}),
        "stretto-sync": ("Stretto, `sync`", *ours, {"algorithm": "sync"}),
        "stretto-quorum": ("Stretto, `eager-quorum`", *ours, {"algorithm": "eager-quorum"}),
        "stretto-quorum-fixed": ("… with fixed shares", *fixed, {"algorithm": "eager-quorum", "pool": False}),
        "stretto-local": ("Stretto, `local`", *ours, {"algorithm": "local"}),
        "stretto-diloco": ("Stretto, `diloco`", *ours, {"algorithm": "diloco"}),
    }


def measured(story, kind):
    """What a job shows, by the names of columns; None of what has no value."""
    if kind == "kill":
        never = "never (cut off)" if story.cut_off else "never (the others fail)"
        killed = story.of("killed")
        if not killed:
            return {"kill": "no kill"}
        lost = story.batches - story.applied()
        return {"kill": story.standstill(killed[0][0], VICTIM) if story.ended() else never, "lost": lost}
    if not story.ended():
        return {kind: "failed"}
    ended = [rest for *_, rest in story.of("ended")]
    values = {kind: story.applied() / story.seconds()}
    values[f"loss {kind}"] = statistics.mean(float(rest[1]) for rest in ended)
    if kind == "balanced":
        values["processor"] = 1000 * story.processor_seconds() / story.applied()
        values["memory"] = statistics.mean(float(rest[2]) for rest in ended)
        values["standstill"] = story.standstill(0)
    return values


def cell(values, digits):
    words = [value for value in values if isinstance(value, str)]
    numbers = [value for value in values if not isinstance(value, str)]
    parts = [jobs_of_loops.spread(numbers, digits)] if numbers else []
    parts += [f"{words.count(word)} × {word}" if numbers else word for word in dict.fromkeys(words)]
    return ", ".join(parts) or "–"


def print_table(head, rows):
    print(f"\n| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def main():
    frameworks = frameworks_of(jobs_of_loops.SETTINGS["ranks"])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--batches", type=int, default=800)
    parser.add_argument("--watchdog", type=float, default=60, help="seconds without a step: a job has failed")
    parser.add_argument("--only", default=",".join(frameworks), help="of these frameworks, with commas between them")
    parser.add_argument("--kinds", default=",".join((*KINDS, "kill")), help="of these kinds of runs")
    options = parser.parse_args()
    names, kinds, loads = options.only.split(","), options.kinds.split(","), []
    found = {name: {} for name in names}
    for turn, name in jobs_of_loops.each_in_turns(names, options.times):
        _, _, command, start, more = frameworks[name]
        for kind in kinds:
            loads.append(os.getloadavg()[0])
            settings = {"batches": options.batches, "kind": "balanced" if kind == "kill" else kind, **more}
            settings["kill_at"] = 70 if kind == "kill" else -1
            story = jobs_of_loops.run(command, watchdog=options.watchdog, **start, **settings)
            values = measured(story, kind)
            for column, value in values.items():
                found[name].setdefault(column, []).append(value)
            print(f"# {turn} {name} {kind}: {values}", flush=True)
            if not story.ended() and (kind != "kill" or "stretto" in name):
                print("#   " + story.output[-800:].replace("\n", "\n#   "), flush=True)
    print(f"\n{options.batches} batches, {options.times} times, in turns; an average every {SYNC_EVERY} steps where")
    print(f"ranks take steps of their own; {jobs_of_loops.machine(loads)}")

    def row(name, columns, *before):
        return [frameworks[name][0], *before, *(cell(found[name].get(key, []), digits) for key, digits in columns)]

    columns = [*((kind, 0) for kind in KINDS), *((f"loss {kind}", 3) for kind in KINDS)]
    head = [*(f"batches/s, {kind}" for kind in KINDS), *(f"loss, {kind}" for kind in KINDS)]
    print_table(["", *head], [row(name, columns) for name in names])
    columns = [("processor", 1), ("memory", 0), ("standstill", 2), ("kill", 2), ("lost", 0)]
    lines = {name: str(training_loops.lines_beside(LOOPS[frameworks[name][1]])) for name in names}
    head = ["lines", "processor ms a batch", "MiB a rank", "standstill, s", "after a kill, s", "not computed"]
    print_table(["", *head], [row(name, columns, lines[name]) for name in names])


if __name__ == "__main__":
    main()
