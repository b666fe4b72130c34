"""Jobs of `stretto run --ranks MIN:MAX`, whose ranks are killed at steps drawn by a seed, and whose places others take: of
each job all that are there at the end must have applied each batch, and have the same weights to the bit.

loops.py STRETTO LOOP_OF_MEMBERS [--jobs N] [--seed S]
"""

import argparse
import random
import re
import subprocess
import sys

ALGORITHMS = ["sync", "eager-quorum", "eager-solo", "eager-majority", "eager-deadline:2,1ms"]
BATCHES = 900
WATCHDOG = 60  # seconds, where a job takes about one
LINE = re.compile(r"member (\d+) began after (\d+), applied (\d+), (numbers .*), equal")


def fault_of(result):
    """What is wrong with a job; nothing where nothing is."""
    members = [LINE.fullmatch(line) for line in result.stdout.splitlines()]
    if result.returncode != 0 or None in members or not members:
        return f"exit status {result.returncode}"
    if {int(member[3]) for member in members} != {BATCHES}:
        return "not every batch is applied once"
    if len({member[4] for member in members}) != 1:
        return "weights differ"
    return ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("stretto")
    parser.add_argument("loop")
    parser.add_argument("--jobs", type=int, default=25)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    faults, came = 0, 0
    for job in range(arguments.jobs):
        ranks, restarts = random.randint(2, 6), random.randint(0, 3)
        # Number 0 stays, or too few might be left.
        dying = [f"{number}:{random.randint(1, 120)}" for number in range(1, ranks + restarts) if random.random() < 1 / 3]
        command = [arguments.stretto, "run", "--ranks", f"1:{ranks}", "--restarts", str(restarts), "--", arguments.loop,
                   random.choice(ALGORITHMS), str(BATCHES), *dying]
        try:
            result = subprocess.run(command, capture_output=True, text=True, timeout=WATCHDOG)
            fault = fault_of(result)
            came += result.stderr.count("takes its place")
        except subprocess.TimeoutExpired as expired:
            result, fault = expired, "no end"
        if fault:
            faults += 1
            print(f"job {job}: {fault}: {' '.join(command)}\n{result.stdout}\n{result.stderr}", flush=True)
    print(f"{arguments.jobs} jobs, {came} processes came in, {faults} faults")
    if came == 0:
        print("no process came into any job: nothing was tested")
    return 1 if faults or came == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
