"""What a lost rank costs, beside restarts: the same small program, one of whose ranks is killed once.

    PYTHONPATH=build/release/package .cache/peers/bin/python microbench/peers/restarts.py [--times N] [--only NAME,...] [--hidden N]

Jobs: `stretto run --ranks MIN:MAX`, without and with --restarts; torchrun --max-restarts, of DistributedDataParallel
with a checkpoint every 50 steps; torchft, whose lost process is started again. training_loops.py has the programs, and
how to make the environment. A step sleeps 20 ms, and the rank is killed in its 71st, in the middle between two
checkpoints.

Of each kill: seconds until a step is over that a rank has begun after it; the longest time in which another rank ended
no step (ranks of LocalSGD take steps of their own before they notice), beside the median step before; batches that were
computed twice; processes that were started after the first ones. Medians, and the ranges. --hidden 350000 makes a model of
105 MB.
"""

import argparse
import os
import sys

import jobs_of_loops
from training_loops import SYNC_EVERY, VICTIM

RANKS = jobs_of_loops.SETTINGS["ranks"]


def torchrun(ranks):
    options = ["--standalone", "--nproc-per-node", ranks, "--max-restarts", 3]
    return [sys.executable, "-m", "torch.distributed.run", *options, jobs_of_loops.LOOPS, "ddp_checkpoints"]


def jobs_of(ranks):
    """Of each job: what it is, its command, how it is started, and its settings."""
    least = f"{ranks - 1}:{ranks}"
    run = f"`stretto run --ranks {least}"
    once, again = jobs_of_loops.stretto_run(least), jobs_of_loops.stretto_run(least, "--restarts", 1)
    loop = [sys.executable, jobs_of_loops.LOOPS]
    torchft = {"single": True, "replace": True, "lighthouse": []}
    soon = {**torchft, "lighthouse": ["--heartbeat_timeout_ms", 1000]}
    local = f"torchft, LocalSGD, an average every {SYNC_EVERY} steps"
    return {
        "stretto": (f"{run}`, sync: nobody comes", once, {}, {"algorithm": "sync"}),
        "stretto-restarts": (f"{run} --restarts 1`, sync", again, {}, {"algorithm": "sync"}),
        "stretto-quorum": (f"{run} --restarts 1`, eager-quorum", again, {}, {"algorithm": "eager-quorum"}),
        "torchrun": ("`torchrun --max-restarts 3`, DDP with checkpoints", torchrun(ranks), {}, {}),
        "torchft": ("torchft, DDP, timeouts of 5 s as in its examples", [*loop, "torchft_ddp"], torchft, {}),
        "torchft-1s": ("torchft, DDP, timeouts of 1 s", [*loop, "torchft_ddp"], soon, {"timeout": 1}),
        "torchft-local": (local, [*loop, "torchft_local"], torchft, {}),
    }


def costs_of(story):
    if not story.ended() or not story.of("killed"):
        return None
    killed = story.killed_at()
    waits = story.next_step(), story.standstill(killed, VICTIM), story.median_step(killed)
    return *waits, story.computed_again(), len(story.of("started")) - RANKS


def main():
    jobs = jobs_of(RANKS)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--batches", type=int, default=1200)
    parser.add_argument("--hidden", type=int, default=256, help="features in the middle of the model, of 75 numbers each")
    parser.add_argument("--kill-at", type=int, default=70, help="steps of its own that the rank has made by then")
    parser.add_argument("--watchdog", type=float, default=60, help="seconds without a step: a job has failed")
    parser.add_argument("--only", default=",".join(jobs), help="of these jobs, with commas between them")
    options = parser.parse_args()
    only = options.only.split(",")
    costs = {name: [] for name in only}
    loads = []
    for turn, name in jobs_of_loops.each_in_turns(only, options.times):
        _, command, start, more = jobs[name]
        loads.append(os.getloadavg()[0])
        settings = {"batches": options.batches, "step": 0.02, "kill_at": options.kill_at, "hidden": options.hidden, **more}
        story = jobs_of_loops.run(command, watchdog=options.watchdog, **start, **settings)
        cost = costs_of(story)
        costs[name].append(cost)
        print(f"# {turn} {name}: {cost or 'has not come to its end: ' + story.output[-1000:]}", flush=True)
    print(f"\n{RANKS} ranks, a kill, {options.times} times, in turns; {jobs_of_loops.machine(loads)}\n")
    print("| | s to the next step | longest standstill, s | median step, s | batches computed twice | processes started |")
    print("|---|---|---|---|---|---|")
    for name in only:
        ended = [cost for cost in costs[name] if cost]
        columns = zip(zip(*ended), (3, 3, 3, 0, 0))
        cells = [jobs_of_loops.spread(values, digits) for values, digits in columns] or ["never"] * 5
        failed = f" ({len(ended)} of {options.times} jobs came to their end)" if len(ended) < options.times else ""
        print(f"| {jobs[name][0]}{failed} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
