"""How ranks end: by themselves, by an exception, by a signal. The others hear of it in time, and nothing is left."""

import itertools
import os
import pickle
import random
import select
import signal
import statistics
import sys
import time
import traceback

import pytest
import stretto
from ranks import Ranks, run, said
from traces import Traces

MOMENTS = 10 if os.environ.get("STRETTO_LONG_TESTS") else 4  # of each kind of end


def five_lines(rank, steps=40, algorithm="eager-quorum"):
    """README's training; returns what tells whether replicas are equal and nothing is lost."""
    import hashlib

    import stretto
    import torch

    torch.manual_seed(rank)
    model = torch.nn.Sequential(torch.nn.Linear(10, 20), torch.nn.ReLU(), torch.nn.Linear(20, 2))
    optimizer = stretto.Optimizer(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), model, algorithm)
    for _ in range(steps):
        features = torch.randn(8, 10)
        loss = torch.nn.functional.cross_entropy(model(features), (features.sum(1) > 0).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    optimizer.finish()
    weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
    return hashlib.sha256(weights).hexdigest(), optimizer.batches_applied


# ---- moments: one process loads Torch, and forks the ranks of every job before they join ----


class Fork:
    """A rank that calls `work(rank)`; hands back what it returns, or how it raised and when."""

    def __init__(self, rank, ranks, job, work):
        self.receive, send = os.pipe()
        self.told, tell = os.pipe()
        self.pid = os.fork()
        if self.pid != 0:
            os.close(send)
            os.close(tell)
            return
        try:
            os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_WORLD_SIZE=str(ranks), STRETTO_JOB=job)
            try:
                outcome = ("returned", work(rank, lambda: os.write(tell, b".")), None, time.monotonic())
            except BaseException as error:
                now = time.monotonic()
                outcome = (type(error).__name__, str(error), getattr(error, "rank", None), now)
                import stretto

                stretto._job.fail(error)
            with open(send, "wb") as pipe:
                pickle.dump(outcome, pipe)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)

    def wait_until_told(self, seconds=30):
        assert select.select([self.told], [], [], seconds)[0], "a rank does not begin"

    def outcome(self, seconds=30):
        """None for one that was killed."""
        if not select.select([self.receive], [], [], seconds)[0]:
            os.kill(self.pid, signal.SIGABRT)
            raise AssertionError("a rank hangs")
        with open(self.receive, "rb") as pipe:
            content = pipe.read()
        os.waitpid(self.pid, 0)
        os.close(self.told)
        return pickle.loads(content) if content else None


def train_for_ever(rank, begun, algorithm, ending=None, how=""):
    """Until the rank is ended, or ends itself after `ending` seconds."""
    import stretto
    import torch

    model = torch.nn.Linear(10, 2)
    optimizer = stretto.Optimizer(torch.optim.SGD(model.parameters(), lr=0.001), model, algorithm)
    begun()
    end = None if ending is None else time.monotonic() + ending
    for step in itertools.count():
        optimizer.zero_grad()
        model(torch.ones(4, 10)).sum().backward()
        optimizer.step()
        if step % 50 == 49 and algorithm == "sync":
            with optimizer.together():
                pass
        if end is not None and time.monotonic() > end:
            if how == "exits":
                os._exit(3)
            raise ValueError(f"rank {rank} has had enough")


def at_random_moments(how, seed, traces):
    """Seconds from the end of a rank to the exceptions of the others, and what these were; what the jobs had."""
    import stretto  # noqa: F401
    import torch

    torch.set_num_threads(1)
    torch.optim.SGD([torch.zeros(1)])  # the first one loads much of Torch
    random_moments = random.Random(seed)
    outcomes = []
    for number in range(MOMENTS):
        victim = random_moments.randrange(4)
        moment = random_moments.uniform(0, 0.3)
        algorithm = random_moments.choice(["eager-quorum", "eager-solo", "sync", "local"])

        def work(rank, begun, algorithm=algorithm, victim=victim, moment=moment):
            ending = moment if how in ENDS_ITSELF and rank == victim else None
            return train_for_ever(rank, begun, algorithm, ending, how)

        ranks = [Fork(rank, 4, f"{os.environ['STRETTO_JOB']} {number}", work) for rank in range(4)]
        for rank in ranks:
            rank.wait_until_told()
        traces.look()
        if how == "exits":
            os.waitid(os.P_PID, ranks[victim].pid, os.WEXITED | os.WNOWAIT)
            ended = time.monotonic()
        elif how != "raises":
            time.sleep(moment)
            os.kill(ranks[victim].pid, signal.SIGKILL if how == "killed" else signal.SIGINT)
            ended = time.monotonic()
        all_outcomes = [rank.outcome() for rank in ranks]
        if how == "raises":
            ended = all_outcomes[victim][3]
        outcomes.append((victim, algorithm, ended, all_outcomes))
    return outcomes, traces


# What the rank that ends raises, what the others raise, and what these say.
ENDS = {
    "killed": (None, "RankLost", ""),
    "exits": (None, "RankLost", ""),
    "raises": ("ValueError", "Aborted", "ValueError: rank {rank} has had enough"),
    "interrupted": ("KeyboardInterrupt", "Aborted", "KeyboardInterrupt"),
}
ENDS_ITSELF = ("exits", "raises")


@pytest.mark.parametrize("how", ENDS)
def test_the_others_hear_of_the_end_of_a_rank_at_random_moments(how):
    seed = int(time.time())
    print(f"seed {seed}")
    raises, others_raise, others_say = ENDS[how]
    waited = []
    traces = Traces()
    with Ranks(at_random_moments, 1, traces.environment, (how, seed, traces), fresh=True) as started:
        (ended_well,) = started.wait(300)
        assert ended_well.status == 0, said([ended_well])
        all_outcomes, traces = ended_well.value
        assert traces.num_memories == MOMENTS and not traces.sockets  # which are closed when all have met
        assert traces.left() == []
    for victim, algorithm, ended, outcomes in all_outcomes:
        for rank, outcome in enumerate(outcomes):
            if rank == victim:
                assert (outcome and outcome[0]) == raises, (algorithm, outcome)
                continue
            kind, text, about, when = outcome
            assert (kind, about) == (others_raise, victim), (algorithm, outcome)
            assert others_say.format(rank=victim) in text
            waited.append(when - ended)
    assert len(waited) == 3 * MOMENTS
    print(f"{how}: others raise after a median of {statistics.median(waited):.3f} s, at most {max(waited):.3f} s")
    assert max(waited) < 5  # ten times the promise


# ---- ends of whole processes ----


def test_replicas_are_equal_to_the_bit_and_nothing_is_lost_by_spawn():
    results = stretto.spawn(five_lines, ranks=4)
    assert len({weights for weights, _ in results}) == 1
    assert [batches for _, batches in results] == [4 * 40] * 4


def stop_in_the_middle(how):
    """Rank 1 ends while rank 0 trains on."""
    import threading

    import stretto

    if how == "joined before Torch is loaded":
        stretto.init()
    import torch

    model = torch.nn.Linear(10, 2)
    optimizer = stretto.Optimizer(torch.optim.SGD(model.parameters(), lr=0.001), model)

    def train(steps):
        for _ in range(steps):
            optimizer.zero_grad()
            model(torch.ones(4, 10)).sum().backward()
            optimizer.step()
            time.sleep(0.001)

    if how in ("never finishes", "joined before Torch is loaded"):
        return train(20 if stretto.rank() == 0 else 40)
    if stretto.rank() == 0:
        try:
            train(50)
            optimizer.finish()
        except stretto.Error as error:
            return type(error).__name__, error.rank, str(error)
        return optimizer.batches_applied
    if how == "exit":
        train(20)
        sys.exit(3)
    thread = threading.Thread(target=lambda: train(20) or [].pop())
    thread.start()
    thread.join()
    train(10)
    return optimizer.finish()


def test_a_script_that_never_finishes_does_so_at_exit():
    for how in ("never finishes", "joined before Torch is loaded"):
        for result in run(stop_in_the_middle, ranks=2, args=(how,)):
            assert (result.status, result.stderr) == (0, ""), result


def test_an_exit_counts_as_the_end_of_this_ranks_batches():
    first, second = run(stop_in_the_middle, ranks=2, args=("exit",))
    assert (first.status, first.value, second.status) == (0, 70, 3), said([first, second])


def train_in_a_thread():
    """As Ray's workers do, whose main thread waits for something else. Rank 1 raises, and its process goes on."""
    import threading

    import stretto
    import torch

    stretto.init()
    heard = []

    def train():
        model = torch.nn.Linear(10, 2)
        optimizer = stretto.Optimizer(torch.optim.SGD(model.parameters(), lr=0.001), model, "sync")
        try:
            for step in itertools.count():
                optimizer.zero_grad()
                model(torch.ones(4, 10)).sum().backward()
                optimizer.step()
                if step == 20 and stretto.rank() == 1:
                    raise ValueError("enough of this")
        except stretto.Error as error:
            heard.append((type(error).__name__, error.rank, str(error)))

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    return heard


def test_the_others_hear_of_an_exception_in_the_thread_that_trains():
    first, second = run(train_in_a_thread, ranks=2)
    assert first.value == [("Aborted", 1, "rank 1 stopped the job: ValueError: enough of this")], said([first, second])
    assert (second.status, second.value) == (0, []), said([first, second])
    assert "ValueError: enough of this" in second.stderr


def test_an_exception_in_a_thread_ends_that_thread_alone():
    first, second = run(stop_in_the_middle, ranks=2, args=("thread",))
    assert (first.status, first.value, second.status) == (0, 80, 0), said([first, second])
    assert "pop from empty list" in second.stderr
