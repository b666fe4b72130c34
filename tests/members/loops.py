"""Jobs of `stretto run --ranks MIN:MAX`, whose ranks are killed, or told to leave, at steps drawn by a seed, and where others
take the places of the lost: of each job all that are there at the end must have applied each batch, and have the same weights
to the bit, and no batch may be handed over twice, or handed over and lost, by one that stays or by one that leaves.

loops.py STRETTO LOOP_OF_MEMBERS [--jobs N] [--seed S]
"""

import argparse
import random
import re
import subprocess
import sys

ALGORITHMS = ["sync", "eager-quorum", "eager-solo", "eager-majority", "eager-deadline:2,1ms"]
AVERAGED = ["wagma", "wagma-quorum", "d-psgd", "sgp", "osgp", "gossip-grad", "ad-psgd", "easgd", "easgd-async"]
BATCHES = 900
WATCHDOG = 60  # seconds, where a job takes about one
LINE = re.compile(r"member (\d+) began after (\d+), applied (\d+), (numbers .*), equal")
ACCOUNT = re.compile(r"member (\d+) handed over:((?: \d+)*)(, applied:((?: \d+)+))?")


def fault_of_batches(accounts, batches_applied):
    """What is wrong with the batches that members say that they have handed over, and with those of each member that are
    applied, as those that stayed say: so many in all."""
    counts = {account[4] for account in accounts if account[3]}
    if len(counts) != 1:
        return f"{len(counts)} accounts of the batches applied"
    applied = [int(word) for word in counts.pop().split()]
    if sum(applied) != batches_applied:
        return f"{sum(applied)} batches applied by member"
    seen = set()
    for account in accounts:
        number, batches = int(account[1]), [int(word) for word in account[2].split()]
        of_it = applied[number] if number < len(applied) else 0
        if len(batches) != of_it:
            return f"member {number} has handed over {len(batches)} batches, and {of_it} of it are applied"
        if seen & set(batches) or len(set(batches)) != len(batches):
            return f"batches are computed twice, at last by member {number}"
        seen.update(batches)
    return ""


def fault_of(result, batches=BATCHES):
    """What is wrong with a job of so many batches; nothing where nothing is."""
    lines = result.stdout.splitlines()
    accounts = [account for account in map(ACCOUNT.fullmatch, lines) if account]
    members = [LINE.fullmatch(line) for line in lines if not ACCOUNT.fullmatch(line)]
    if result.returncode != 0 or None in members or not members:
        return f"exit status {result.returncode}"
    left = sum(not account[3] for account in accounts)
    late = left - result.stderr.count(" has left\n")  # those that have come after the end leave at once, with nothing
    if not 0 <= late <= sum(not (account[2] or account[3]) for account in accounts) or len(accounts) != left + len(members):
        return f"{left} of {len(accounts)} members say that they have left"
    # Under an algorithm that averages models a lost rank takes along all that it has computed since the last full round.
    dropped = result.stderr.count("members were lost that may have been computing it")  # it may be what ends them
    if {int(member[3]) for member in members} != {batches - dropped}:
        return "not every batch is applied once"
    if len({member[4] for member in members}) != 1:
        return "weights differ"
    return fault_of_batches(accounts, batches - dropped)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("stretto")
    parser.add_argument("loop")
    parser.add_argument("--jobs", type=int, default=25)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--algorithms", nargs="+", default=ALGORITHMS + AVERAGED)
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    faults, came, left = 0, 0, 0
    for job in range(arguments.jobs):
        ranks, restarts = random.randint(2, 6), random.randint(0, 3)
        # Number 0 stays, or too few might be left.
        others = range(1, ranks + restarts)
        dying = [f"{number}:{random.randint(1, 120)}" for number in others if random.random() < 1 / 3]
        leaving = [f"{number}/{random.randint(1, 120)}" for number in others if random.random() < 1 / 3]
        full_rounds = random.choice([[], ["full"]])
        command = [arguments.stretto, "run", "--ranks", f"1:{ranks}", "--restarts", str(restarts), "--", arguments.loop,
                   random.choice(arguments.algorithms), str(BATCHES), "account", *full_rounds, *dying, *leaving]
        try:
            result = subprocess.run(command, capture_output=True, text=True, timeout=WATCHDOG)
            fault = fault_of(result)
            came += result.stderr.count("takes its place")
            left += result.stderr.count(" has left\n")
        except subprocess.TimeoutExpired as expired:
            result, fault = expired, "no end"
        if fault:
            faults += 1
            print(f"job {job}: {fault}: {' '.join(command)}\n{result.stdout}\n{result.stderr}", flush=True)
    print(f"{arguments.jobs} jobs, {came} processes came in, {left} left, {faults} faults")
    if came == 0 or left == 0:
        print("no process came into any job, or none left one: that was not tested")
    return 1 if faults or came == 0 or left == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
