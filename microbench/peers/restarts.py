"""What a lost rank costs, beside restarts: the same small program, one of whose ranks is killed once, under `stretto run --ranks
MIN:MAX`, and under `torchrun --max-restarts` with a checkpoint every 50 steps.

restarts.py [--ranks P] [--times N]

Prints of each: seconds from the kill to the next step that any rank completes, batches that were computed twice, and processes
started after the first ones. The median of each, and the range.
"""

import argparse
import collections
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import torch

BATCHES = 1200  # in all
KILL_AT = 70  # of its own steps: in the middle between two checkpoints
CHECKPOINT_EVERY = 50
STEP = 0.02  # seconds that a step takes beside computing


def model_of():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))


def loss_of(model, batch):
    torch.manual_seed(batch)
    x, y = torch.randn(32, 64), torch.randint(10, (32,))
    return torch.nn.functional.cross_entropy(model(x), y)


class Log:
    """Lines of all processes in one file."""

    def __init__(self, folder):
        self.fd = os.open(folder / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def say(self, *words):
        os.write(self.fd, (" ".join(map(str, (time.time(), os.getpid(), *words))) + "\n").encode())


def die_once(log, folder):
    try:
        os.close(os.open(folder / "died", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    log.say("killed")
    os.kill(os.getpid(), signal.SIGKILL)


def train_with_stretto(folder):
    import stretto

    log, model = Log(folder), model_of()
    dies = os.environ["STRETTO_MEMBER"].split("/")[1] == "1"
    log.say("started")
    optimizer = stretto.Optimizer(torch.optim.SGD(model.parameters(), 0.01, momentum=0.9), model, "sync")
    sampler = stretto.Sampler(BATCHES)
    for step, [batch] in enumerate(sampler):
        log.say("computes", batch)
        optimizer.zero_grad()
        loss_of(model, batch).backward()
        time.sleep(STEP)
        if dies and step == KILL_AT:
            die_once(log, folder)
        optimizer.step()
        log.say("stepped")
    optimizer.finish()


def train_with_ddp(folder):
    import torch.distributed as dist

    log, model = Log(folder), model_of()
    log.say("started")
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    ddp = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), 0.01, momentum=0.9)
    first, checkpoint = 0, folder / "checkpoint"
    if checkpoint.exists():
        first, weights, state = torch.load(checkpoint)
        model.load_state_dict(weights)
        optimizer.load_state_dict(state)
    for step in range(first, BATCHES // ranks):
        log.say("computes", step * ranks + rank)
        optimizer.zero_grad()
        loss = loss_of(ddp, step * ranks + rank)
        time.sleep(STEP)
        if rank == 1 and step == KILL_AT:
            die_once(log, folder)
        loss.backward()
        optimizer.step()
        log.say("stepped")
        if rank == 0 and (step + 1) % CHECKPOINT_EVERY == 0:
            torch.save((step + 1, model.state_dict(), optimizer.state_dict()), checkpoint.with_suffix(".new"))
            checkpoint.with_suffix(".new").rename(checkpoint)
    dist.destroy_process_group()


def cost_of(command, ranks, environment):
    """Of one job in which a rank is killed: seconds until the next step, batches computed twice, processes started."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        done = subprocess.run([*command, folder], env={**os.environ, **environment}, capture_output=True, text=True, timeout=300)
        lines = [line.split() for line in (folder / "log").read_text().splitlines()]
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(map(str, command))} ended with status {done.returncode}\n{done.stderr}")
    killed = next(float(when) for when, _, what, *_ in lines if what == "killed")
    # A step of all ranks that were there may have been under way: the next one has been computed after the kill.
    computing = {pid for when, pid, what, *_ in lines if what == "computes" and float(when) > killed}
    began = {}
    following = []
    for when, pid, what, *_ in lines:
        if what == "computes":
            began[pid] = float(when)
        if what == "stepped" and pid in computing and began.get(pid, 0) > killed:
            following.append(float(when))
    computed = collections.Counter(word[3] for word in lines if word[2] == "computes")
    twice = sum(times - 1 for times in computed.values()) - 1  # the batch of the one that is killed was not completed
    started = sum(line[2] == "started" for line in lines) - ranks
    return min(following) - killed, twice, started


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--times", type=int, default=5)
    arguments = parser.parse_args()
    here, ranks = [sys.executable, __file__], arguments.ranks
    least = f"{max(1, ranks - 1)}:{ranks}"
    jobs = {
        "stretto run": [sys.executable, "-m", "stretto", "run", "--ranks", least, "--", *here, "--as", "stretto"],
        "stretto run --restarts 1": [
            sys.executable, "-m", "stretto", "run", "--ranks", least, "--restarts", "1", "--", *here, "--as", "stretto"
        ],
        "torchrun --max-restarts 3": [
            sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks),
            "--max-restarts", "3", __file__, "--as", "ddp"
        ],
    }
    costs = {name: [] for name in jobs}
    for _ in range(arguments.times):
        for name, command in jobs.items():
            costs[name].append(cost_of(command, ranks, {"OMP_NUM_THREADS": "1"}))
    print(f"{ranks} ranks, a kill, {arguments.times} times: median (least to most)")
    for name, measured in costs.items():
        words = []
        for what, unit, digits in ((0, "s to the next step", 3), (1, "batches computed twice", 0), (2, "processes started", 0)):
            values = [cost[what] for cost in measured]
            words.append(f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f}) {unit}")
        print(f"{name}: {', '.join(words)}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--as"]:
        torch.set_num_threads(1)
        {"stretto": train_with_stretto, "ddp": train_with_ddp}[sys.argv[2]](pathlib.Path(sys.argv[3]))
    else:
        main()
