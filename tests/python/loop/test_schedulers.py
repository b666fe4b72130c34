"""Schedulers of torch.optim.lr_scheduler: one rank as plain Torch; several with the same rates at the same rounds."""

import copy
import inspect
import random
import time
import warnings

import pytest

from ranks import run, said, values

STEPS = 24


def made(name, optimizer):
    from torch.optim import lr_scheduler as s

    return {
        "OneCycle": lambda: s.OneCycleLR(optimizer, max_lr=0.25, total_steps=STEPS + 1),
        "Cosine": lambda: s.CosineAnnealingLR(optimizer, T_max=STEPS),
        "WarmRestarts": lambda: s.CosineAnnealingWarmRestarts(optimizer, T_0=5, T_mult=2),
        "Lambda": lambda: s.LambdaLR(optimizer, lambda step: 1 / (1 + step)),
        "Multiplicative": lambda: s.MultiplicativeLR(optimizer, lambda step: 0.9),
        "Step": lambda: s.StepLR(optimizer, 3),
        "MultiStep": lambda: s.MultiStepLR(optimizer, [2, 7]),
        "Constant": lambda: s.ConstantLR(optimizer, total_iters=4),
        "Polynomial": lambda: s.PolynomialLR(optimizer, total_iters=9),
        "Exponential": lambda: s.ExponentialLR(optimizer, 0.9),
        "Cyclic": lambda: s.CyclicLR(optimizer, 0.01, 0.1, step_size_up=4),
        "Sequential": lambda: s.SequentialLR(
            optimizer,
            [s.LinearLR(optimizer, 0.1, total_iters=5), s.CosineAnnealingLR(optimizer, T_max=STEPS)],
            milestones=[5],
        ),
        "Chained": lambda: s.ChainedScheduler(
            [s.ConstantLR(optimizer, 0.1, total_iters=4), s.ExponentialLR(optimizer, 0.9)]
        ),
        "Plateau": lambda: s.ReduceLROnPlateau(optimizer, patience=1, factor=0.5),
    }[name]()


BY_CALLS = [
    "OneCycle", "Cosine", "WarmRestarts", "Lambda", "Multiplicative", "Step", "MultiStep", "Constant", "Polynomial",
    "Exponential", "Cyclic", "Sequential", "Chained",
]  # fmt: skip


def recording_sgd():
    import torch

    class Recording(torch.optim.SGD):
        """Says the rate by which each step has moved the weights."""

        def __init__(self, *args, **options):
            self.rates = []
            super().__init__(*args, **options)

        def step(self, closure=None):
            self.rates.append([group["lr"] for group in self.param_groups])
            return super().step(closure)

    return Recording


def start(algorithm=None, lr=0.5):
    """A model with two groups of parameters, and its optimizer, wrapped where an algorithm is said."""
    import torch

    import stretto

    torch.manual_seed(1)
    model = torch.nn.Linear(3, 2)
    inner = recording_sgd()(
        [{"params": [model.weight]}, {"params": [model.bias], "lr": lr / 4}], lr=lr, momentum=0.5
    )
    return model, inner, inner if algorithm is None else stretto.Optimizer(inner, model, algorithm)


def batch(model, optimizer, seed):
    import torch

    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(seed))
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()


def bits(model):
    return [p.detach().numpy().tobytes() for p in model.parameters()]


# The rates that plain Torch steps by, and those that it has in the end.
def plain_rates(name, calls):
    model, inner, _ = start()
    scheduler = made(name, inner)
    for step in range(calls):
        batch(model, inner, step)
        scheduler.step()
    return inner.rates, scheduler.get_last_lr()


def fail_at_warnings():
    warnings.simplefilter("error")
    # Of SequentialLR itself, in old versions of PyTorch.
    warnings.filterwarnings("ignore", "The epoch parameter in `scheduler.step")


def one_rank():
    fail_at_warnings()
    found = {}
    for name in [*BY_CALLS, "Plateau"]:
        for on_inner in (False, True):
            traces = []
            for algorithm in (None, "eager-quorum"):
                model, inner, optimizer = start(algorithm)
                scheduler = made(name, inner if on_inner else optimizer)
                trace = []
                for step in range(STEPS):
                    batch(model, optimizer, step)
                    scheduler.step(*([1.0 / (step % 5 + 1)] if name == "Plateau" else []))
                    state = {k: v for k, v in scheduler.state_dict().items() if not callable(v)}
                    trace.append((bits(model), scheduler.get_last_lr(), repr(state)))
                if algorithm:
                    optimizer.finish()
                traces.append(trace)
            found[name, on_inner] = traces[0] == traces[1]
    return found


def test_a_rank_alone_has_weights_rates_and_states_of_torch_after_every_step():
    (found,) = values(one_rank, ranks=1)
    assert all(found.values()), found


def sync(names):
    import stretto

    fail_at_warnings()
    found = {}
    for name in names:
        expected, last = plain_rates(name, STEPS)
        model, inner, optimizer = start("sync")
        scheduler = made(name, optimizer)
        for step in range(STEPS):
            batch(model, optimizer, 100 * step + stretto.rank())
            scheduler.step()
        optimizer.finish()
        found[name] = (inner.rates == expected, scheduler.get_last_lr() == last, bits(model))
    return found


def test_under_sync_the_rates_are_those_of_torch():
    a, b = values(sync, ranks=2, args=(BY_CALLS,))
    assert a == b
    assert all(found[:2] == (True, True) for found in a.values()), {k: v[:2] for k, v in a.items()}


CALLS = (40, 28, 17, 0)


def uneven(names, on_inner):
    import stretto

    fail_at_warnings()
    rank = stretto.rank()
    found = {}
    for name in names:
        expected, last = plain_rates(name, sum(CALLS) // len(CALLS))
        model, inner, optimizer = start("eager-solo")
        scheduler = made(name, inner if on_inner else optimizer)
        wait = random.Random(rank)
        for step in range(CALLS[rank]):
            time.sleep(wait.random() * 0.002 * (rank + 1))
            batch(model, optimizer, 100 * step + rank)
            scheduler.step()
        optimizer.finish()
        rates = [rates for i, rates in enumerate(inner.rates) if i == 0 or rates != inner.rates[i - 1]]
        # A step of the scheduler may change no rate, and several may fall to one round.
        follows = iter([*expected, last])
        found[name] = (
            all(any(rate == other for other in follows) for rate in rates),
            scheduler.get_last_lr() == last,
            inner.rates,
            bits(model),
        )
    return found


@pytest.mark.parametrize("on_inner", [False, True])
def test_ranks_with_different_numbers_of_steps_have_equal_rates_at_every_round(on_inner):
    found = values(uneven, args=(["OneCycle", "Cosine", "Sequential", "Chained", "WarmRestarts"], on_inner))
    assert all(theirs == found[0] for theirs in found)
    assert all(f[:2] == (True, True) for f in found[0].values()), {k: f[:2] for k, f in found[0].items()}


def once_an_epoch():
    import stretto

    rank = stretto.rank()
    model, inner, optimizer = start("eager-solo")
    scheduler = made("Exponential", optimizer)
    each_batch = made("Lambda", start()[2])  # of another optimizer: steps at once
    for epoch in range(5):
        for step in range(6 + rank):
            batch(model, optimizer, 100 * step + rank)
            each_batch.step()
        scheduler.step()
    optimizer.finish()
    steps = scheduler.last_epoch
    return steps, scheduler.get_last_lr(), inner.rates, bits(model), each_batch.last_epoch - 5 * rank


def test_a_call_an_epoch_is_a_step_an_epoch():
    found = values(once_an_epoch)
    assert all(theirs == found[0] for theirs in found)
    assert found[0][0] == 5
    assert found[0][1] == plain_rates("Exponential", 5)[1]
    assert found[0][4] == 30


# A rank's metric goes by its own numbers, and one rank has finished long before.
def plateau(metrics):
    import stretto

    rank = stretto.rank()
    model, inner, optimizer = start("eager-quorum")
    scheduler = made("Plateau", optimizer)
    each_batch = made("Cyclic", optimizer)
    for epoch in range(len(metrics[0]) if rank != 3 else 0):
        for step in range(3 + rank):
            batch(model, optimizer, 100 * step + rank)
            each_batch.step()
        with optimizer.together():
            if rank != 1:
                scheduler.step(metrics[rank][epoch])
    optimizer.finish()
    return scheduler.state_dict(), each_batch.last_epoch, inner.rates, bits(model)


def test_a_metric_is_the_mean_of_the_ranks_that_give_one_and_reaches_ranks_that_have_finished():
    # The means of ranks 0 and 2 fall three times, then rise; rank 0's alone never fall.
    metrics = [[4, 4, 4, 4, 4, 4], [0] * 6, [12, 8, 4, 6, 8, 10]]
    found = values(plateau, args=(metrics,))
    assert all(theirs[1:] == found[0][1:] for theirs in found)
    state = found[0][0]
    assert all(theirs[0] == state for theirs in found)
    assert (state["last_epoch"], state["best"], state["num_bad_epochs"]) == (6, 4.0, 1)
    assert found[0][1] == 6 * (3 + 4 + 5) // 4


def steps_within_together():
    import stretto

    rank = stretto.rank()
    model, inner, optimizer = start("eager-quorum")
    batch(model, optimizer, rank)
    scheduler = made("Step", optimizer)
    restarts = made("WarmRestarts", optimizer)
    for _ in range(2):
        with optimizer.together():
            if rank == 1:
                for _ in range(3):
                    scheduler.step()
                restarts.step(2.5)
    optimizer.finish()
    return scheduler.last_epoch, restarts.T_cur, [group["lr"] for group in inner.param_groups]


def test_calls_within_together_are_made_on_all_ranks():
    found = values(steps_within_together, ranks=3)
    assert found[0] == found[1] == found[2]
    assert found[0][:2] == (6, 2.5)


def refused():
    import stretto

    _, _, optimizer = start("eager-quorum")
    sequential = made("Sequential", optimizer)
    calls = [
        lambda: made("Plateau", optimizer).step(1.0),
        lambda: made("WarmRestarts", optimizer).step(2.5),
        lambda: sequential._schedulers[0].step(),
    ]
    found = []
    for call in calls:
        with pytest.raises(stretto.UsageError) as raised:
            call()
        found.append(str(raised.value))
    optimizer.finish()
    return found


def test_what_ranks_would_differ_in_is_refused_with_what_would_work():
    for metric, epoch, part in values(refused, ranks=2):
        assert metric == (
            "ReduceLROnPlateau.step() with a metric in the loop of one of several ranks, which would have different "
            "ones at different rounds: expected it within `with optimizer.together():`, where it gets the mean of all "
            "ranks'"
        )
        assert epoch.startswith("CosineAnnealingWarmRestarts.step() with an epoch in the loop of one of several ranks")
        assert epoch.endswith("within `with optimizer.together():`, or step() without one")
        assert part == "LinearLR is a part of another scheduler: expected step() of that which it is a part of"


def missing_on_rank_1():
    import stretto

    model, _, optimizer = start("sync")
    scheduler = made("Step", optimizer if stretto.rank() == 0 else start()[1])
    for group in optimizer.param_groups:
        group["initial_lr"] = group["lr"]  # as the constructor of a scheduler has it: the options differ nowhere
    for step in range(5):
        batch(model, optimizer, step)
        scheduler.step()
    optimizer.finish()


def test_a_scheduler_that_another_rank_has_not_is_named():
    results = run(missing_on_rank_1, ranks=2)
    assert all(result.status == 1 for result in results), said(results)
    text = "another rank has stepped its scheduler number 0, and this one has 0: expected the same schedulers"
    assert all(text in result.stderr for result in results), said(results)


def local():
    import stretto

    model, inner, optimizer = start("local")
    scheduler = made("Step", optimizer)
    for step in range(3 * (1 + stretto.rank())):
        batch(model, optimizer, step)
        scheduler.step()
    last = scheduler.last_epoch
    optimizer.finish()
    return last


def test_where_models_are_averaged_a_rank_steps_by_its_own_calls():
    assert values(local, ranks=2) == [3, 6]


def what_torch_sees():
    from torch.optim import lr_scheduler

    before = inspect.signature(lr_scheduler.OneCycleLR)
    model, inner, _ = start()
    early = made("Sequential", inner)  # before the first Optimizer of the process

    import stretto

    optimizer = stretto.Optimizer(inner, model, "sync")

    class Own(lr_scheduler.LRScheduler):
        def __init__(self, optimizer):
            self.steps = 0
            super().__init__(optimizer)

        def get_lr(self):
            return [group["lr"] for group in self.optimizer.param_groups]

        def step(self, epoch=None):
            self.steps += 1
            super().step(epoch)

    own = Own(optimizer)
    state = set(own.__dict__)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in range(4):
            batch(model, optimizer, step)
            early.step()
            own.step()
            own.step()
        optimizer.finish()
    return {
        "signature": inspect.signature(lr_scheduler.OneCycleLR) == before,
        "early": early.last_epoch,
        "own": (own.steps, own.last_epoch),
        "state": set(own.__dict__) - state,
        "warnings": [str(w.message) for w in caught],
        "counter": hasattr(optimizer.step, "_wrapped_by_lr_sched"),
        "copy": copy.copy(own).last_epoch,
    }


def test_schedulers_made_before_and_classes_made_after_are_taken_over_and_torch_sees_no_difference():
    for found in values(what_torch_sees, ranks=2):
        assert found == {
            "signature": True,
            "early": 4,
            "own": (9, 8),
            "state": set(),
            "warnings": [],
            "counter": True,
            "copy": 8,
        }
