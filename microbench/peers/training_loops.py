"""One small program under each framework: the loop that a user writes, and what is measured of it.

restarts.py and living.py start these as processes of their own:

    training_loops.py LOOP FOLDER

FOLDER has `job.json`, what Job is made of; the processes add their lines to `log` there. A line that ends in `# beside`
is one that the loop has beside, or in the place of, those of train_plain(), which is what a single process would run.

What is needed, once (PyTorch without CUDA is taken where the machine has it; 2.13.0 is what the tables were made with):

    python3 -m venv .cache/peers
    .cache/peers/bin/pip install torch==2.13.0 numpy accelerate torchft-nightly hivemind
"""

import inspect
import json
import logging
import os
import pathlib
import random
import signal
import sys
import time

import torch
from torch.nn.parallel import DistributedDataParallel

SYNC_EVERY = 8  # steps of its own that a rank takes between two averages, in each loop that has such
CHECKPOINT_EVERY = 50  # steps
INPUTS, CLASSES, BATCH = 64, 10, 32
VICTIM = 1  # the rank that is killed: not 0, which has DDP's store and hivemind's first peer


class Delay(torch.nn.Module):
    """Takes a batch's time, in the forward pass: a framework may do its own meanwhile."""

    def __init__(self, job):
        super().__init__()
        self.job = [job]  # no module looks into a list

    def forward(self, x):
        self.job[0].delay()
        return x


class Job:
    """What a process knows of its job, the model and the data: the same under each framework.

    A batch is known by its number, which says what is in it and how long its step sleeps.
    """

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.__dict__.update(json.loads((self.folder / "job.json").read_text()))  # SETTINGS of jobs_of_loops.py
        member = os.environ.get("STRETTO_MEMBER")
        self.rank = int(member.split("/")[1]) if member else int(os.environ["RANK"])
        self.log = os.open(self.folder / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        generator = torch.Generator().manual_seed(0)
        self.teacher = [torch.randn(INPUTS, 32, generator=generator), torch.randn(32, CLASSES, generator=generator)]
        self.computing, self.taken = None, 0  # the batch whose delay is still to come; steps of this process
        self.say("started")

    def say(self, *words):
        os.write(self.log, (" ".join(map(str, (time.time(), os.getpid(), self.rank, *words))) + "\n").encode())

    def said(self, word):
        """How many lines have this word."""
        return sum(line.split()[3] == word for line in (self.folder / "log").read_text().splitlines())

    def model(self):
        torch.manual_seed(1)
        layers = (torch.nn.Linear(INPUTS, self.hidden), torch.nn.ReLU(), torch.nn.Linear(self.hidden, CLASSES))
        return torch.nn.Sequential(Delay(self), *layers)

    def data(self, number, size=BATCH):
        x = torch.randn(size, INPUTS, generator=torch.Generator().manual_seed(number))
        return x, ((x @ self.teacher[0]).relu() @ self.teacher[1]).argmax(1)

    def sleep_of(self, number):
        """Seconds of the injected delay."""
        if self.kind == "log-normal":
            return self.step * random.Random(number).lognormvariate(-0.5, 1)  # sigma 1; its mean is the step
        return self.step * (3 if self.kind == "one-slow" and self.rank == self.ranks - 1 else 1)

    def steps(self, numbers, applied=None):
        """Goes through batches by their numbers, as a DataLoader would. Waits for the others before the first one.

        `applied()`: grows with each step that has changed the model, where a framework may discard one.
        """
        self.say("ready")
        while self.said("ready") < self.ranks:
            time.sleep(0.01)
        self.say("begins", processor_seconds())
        for number in numbers:
            number = number[0] if isinstance(number, list) else number
            before = applied() if applied else 0
            self.say("computes", number)
            self.computing = number
            yield self.data(number)
            self.taken += 1
            self.say("stepped" if applied is None or applied() > before else "discarded", number)

    def delay(self):
        """What the model calls as it computes. The rank that is killed dies here, in the middle of a step."""
        if self.computing is None:
            return
        time.sleep(self.sleep_of(self.computing))
        self.computing = None
        if self.rank == VICTIM and self.taken == self.kill_at:
            self.die_once()

    def die_once(self):
        try:
            os.close(os.open(self.folder / "died", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        self.say("killed")
        os.kill(os.getpid(), signal.SIGKILL)

    def end(self, model):
        """Says what the loop has come to, and waits for the others, so that no framework takes an end for a loss."""
        processor = processor_seconds()
        with torch.no_grad():
            x, y = self.data(1 << 40, 4096 if self.hidden < 4096 else 64)  # which take memory by the feature
            loss = torch.nn.functional.cross_entropy(model(x), y).item()
        self.say("ended", processor, loss, peak_mebibytes())
        left, deadline = self.ranks - (self.folder / "died").exists(), time.monotonic() + 10
        while self.said("ended") < left and time.monotonic() < deadline:
            time.sleep(0.01)


def family():
    """This process and what it has started, by their folders in /proc."""
    parents = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, ValueError):
            continue
    found = [os.getpid()]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return [pathlib.Path(f"/proc/{pid}") for pid in found]


def processor_seconds():
    ticks = 0
    for folder in family():
        fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def peak_mebibytes():
    """The most that this process and its own ones have had resident, each at its time; shared pages count in each."""
    lines = [line for folder in family() for line in (folder / "status").read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024


loss_of = torch.nn.functional.cross_entropy


def train_plain(job):
    model = job.model()
    optimizer = torch.optim.SGD(model.parameters(), job.rate, momentum=0.9)
    for x, y in job.steps(range(job.batches)):
        optimizer.zero_grad()
        loss_of(model(x), y).backward()
        optimizer.step()
    return model


def train_ddp(job):
    torch.distributed.init_process_group("gloo")  # beside
    model = job.model()
    ddp = DistributedDataParallel(model)  # beside
    optimizer = torch.optim.SGD(model.parameters(), job.rate, momentum=0.9)
    for x, y in job.steps(range(job.rank, job.batches, job.ranks)):  # beside
        optimizer.zero_grad()
        loss_of(ddp(x), y).backward()  # beside
        optimizer.step()
    return model


def train_ddp_checkpoints(job):
    """Under torchrun, which starts all ranks anew when one is lost: they go on from the last checkpoint."""
    import torch.distributed as dist  # beside

    # A store of one's own for each attempt: in that of the one before stand addresses of processes that are gone.
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)  # beside
    store = dist.PrefixStore(os.environ["TORCHELASTIC_RESTART_COUNT"], store)  # beside
    dist.init_process_group("gloo", store=store, rank=job.rank, world_size=job.ranks)  # beside
    model = job.model()
    ddp = DistributedDataParallel(model)  # beside
    optimizer = torch.optim.SGD(model.parameters(), job.rate, momentum=0.9)
    step, checkpoint = 0, job.folder / "checkpoint"  # beside
    if checkpoint.exists():  # beside
        step, weights, state = torch.load(checkpoint)  # beside
        model.load_state_dict(weights)  # beside
        optimizer.load_state_dict(state)  # beside
    for x, y in job.steps(range(step * job.ranks + job.rank, job.batches, job.ranks)):  # beside
        optimizer.zero_grad()
        loss_of(ddp(x), y).backward()  # beside
        optimizer.step()
        step += 1  # beside
        if job.rank == 0 and step % CHECKPOINT_EVERY == 0:  # beside
            torch.save((step, model.state_dict(), optimizer.state_dict()), checkpoint.with_suffix(".new"))  # beside
            checkpoint.with_suffix(".new").rename(checkpoint)  # beside
    return model


def train_post_local(job):
    import torch.distributed as dist  # beside
    from torch.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook as post_local  # beside
    from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager  # beside
    from torch.distributed.optim import PostLocalSGDOptimizer  # beside

    dist.init_process_group("gloo")  # beside
    model = job.model()
    ddp = DistributedDataParallel(model)  # beside
    alone, _ = dist.new_subgroups(group_size=1)  # beside
    state = post_local.PostLocalSGDState(None, alone, 0, post_local_gradient_allreduce=False)  # beside
    ddp.register_comm_hook(state, post_local.post_localSGD_hook)  # beside
    sgd = torch.optim.SGD(model.parameters(), job.rate, momentum=0.9)
    optimizer = PostLocalSGDOptimizer(sgd, PeriodicModelAverager(SYNC_EVERY, warmup_steps=0))  # beside
    for x, y in job.steps(range(job.rank, job.batches, job.ranks)):  # beside
        optimizer.zero_grad()
        loss_of(ddp(x), y).backward()  # beside
        optimizer.step()
    return model


def train_accelerate(job):
    from accelerate import Accelerator  # beside
    from accelerate.local_sgd import LocalSGD  # beside

    accelerator = Accelerator(cpu=True)  # beside
    model = job.model()
    optimizer = torch.optim.SGD(model.parameters(), job.rate, momentum=0.9)
    ddp, optimizer = accelerator.prepare(model, optimizer)  # beside
    with LocalSGD(accelerator, ddp, SYNC_EVERY) as local_sgd:  # beside
        for x, y in job.steps(range(job.rank, job.batches, job.ranks)):  # beside
            optimizer.zero_grad()
            accelerator.backward(loss_of(ddp(x), y))  # beside
            optimizer.step()
            local_sgd.step()  # beside
    return model


def own_store():
    """The store that torchrun would have made for a group of one process."""
    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(store.port), RANK="0", WORLD_SIZE="1")
    return store


def train_torchft_ddp(job):
    from datetime import timedelta  # beside

    from torchft import DistributedDataParallel, Manager, Optimizer, ProcessGroupGloo  # beside

    store = own_store()  # noqa: F841
    model = job.model()
    sgd = torch.optim.SGD(model.parameters(), job.rate, momentum=0.9)

    def load(state):  # beside
        model.load_state_dict(state["model"])  # beside
        sgd.load_state_dict(state["optimizer"])  # beside

    manager = Manager(  # beside
        pg=ProcessGroupGloo(timeout=timedelta(seconds=job.timeout)),  # beside
        min_replica_size=job.ranks - 1,  # beside
        load_state_dict=load,  # beside
        state_dict=lambda: {"model": model.state_dict(), "optimizer": sgd.state_dict()},  # beside
        replica_id=f"member_{job.rank}",  # beside
    )
    ddp = DistributedDataParallel(manager, model)  # beside
    optimizer = Optimizer(manager, sgd)  # beside

    def numbers():  # what a process that comes later goes on with is known by the steps of all
        while manager.current_step() < job.batches // job.ranks:  # beside
            yield manager.current_step() * job.ranks + job.rank  # beside

    for x, y in job.steps(numbers(), manager.batches_committed):
        optimizer.zero_grad()
        loss_of(ddp(x), y).backward()  # beside
        optimizer.step()
    return model


def train_torchft_local(job):
    from datetime import timedelta  # beside

    from torchft import Manager, ProcessGroupGloo  # beside
    from torchft.local_sgd import LocalSGD  # beside

    store = own_store()  # noqa: F841
    model = job.model()
    optimizer = torch.optim.SGD(model.parameters(), job.rate, momentum=0.9)

    def load(state):  # beside
        model.load_state_dict(state["model"])  # beside
        optimizer.load_state_dict(state["optimizer"])  # beside

    manager = Manager(  # beside
        pg=ProcessGroupGloo(timeout=timedelta(seconds=job.timeout)),  # beside
        min_replica_size=job.ranks - 1,  # beside
        load_state_dict=load,  # beside
        state_dict=lambda: {"model": model.state_dict(), "optimizer": optimizer.state_dict()},  # beside
        replica_id=f"member_{job.rank}",  # beside
        use_async_quorum=False,  # beside
    )

    def numbers():
        while manager.current_step() < job.batches // job.ranks // SYNC_EVERY:  # beside
            for own in range(SYNC_EVERY):
                yield (manager.current_step() * SYNC_EVERY + own) * job.ranks + job.rank  # beside

    with LocalSGD(manager, model, optimizer, SYNC_EVERY):  # beside
        for x, y in job.steps(numbers()):
            optimizer.zero_grad()
            loss_of(model(x), y).backward()
            optimizer.step()
    return model


def first_peers(job, dht):
    """Leaves rank 0's addresses where the others find them, as a user would hand them on by hand."""
    if job.rank == 0:
        (job.folder / "peers.new").write_text(json.dumps([str(address) for address in dht.get_visible_maddrs()]))
        (job.folder / "peers.new").rename(job.folder / "peers")


def peers_of(job):
    while job.rank > 0 and not (job.folder / "peers").exists():
        time.sleep(0.01)
    return [] if job.rank == 0 else json.loads((job.folder / "peers").read_text())


def train_hivemind(job):
    import hivemind  # beside

    model = job.model()
    dht = hivemind.DHT(initial_peers=peers_of(job), start=True)  # beside
    first_peers(job, dht)  # beside
    optimizer = hivemind.Optimizer(  # beside
        dht=dht,  # beside
        run_id="job",  # beside
        batch_size_per_step=BATCH,  # beside
        target_batch_size=BATCH * job.ranks * SYNC_EVERY * 4,  # beside
        optimizer=torch.optim.SGD(model.parameters(), job.rate, momentum=0.9),  # beside
        use_local_updates=True,  # beside
        matchmaking_time=0.5,  # beside
        averaging_timeout=5.0,  # beside
    )
    for x, y in job.steps(range(job.rank, job.batches, job.ranks)):  # beside
        optimizer.zero_grad()
        loss_of(model(x), y).backward()
        optimizer.step()
    return model


def train_stretto(job):
    import stretto  # beside

    model = job.model()
    sgd = torch.optim.SGD(model.parameters(), job.rate, momentum=0.9)
    every = SYNC_EVERY if job.algorithm in ("diloco", "local") else 0
    optimizer = stretto.Optimizer(sgd, model, job.algorithm, sync_every=every)  # beside
    fixed = range(job.rank, job.batches, job.ranks)
    for x, y in job.steps(stretto.Sampler(job.batches) if job.pool else fixed):  # beside
        optimizer.zero_grad()
        loss_of(model(x), y).backward()
        optimizer.step()
    optimizer.finish()  # beside
    return model


def lines_beside(train):
    return sum(line.rstrip().endswith("# beside") for line in inspect.getsource(train).splitlines())


LOOPS = {name.removeprefix("train_"): loop for name, loop in list(globals().items()) if name.startswith("train_")}


def main():
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)  # torchft has a line a step
    job = Job(sys.argv[2])
    job.end(LOOPS[sys.argv[1]](job))
    if sys.argv[1] != "stretto":
        os._exit(0)  # the threads and processes of some frameworks outlive their loop


if __name__ == "__main__":
    main()
