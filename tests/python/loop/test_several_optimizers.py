"""Several optimizers of a process: their ranks meet in all of them where they meet in one."""

import stretto
import torch
from ranks import run, said, values

STEPS = (5, 8, 7)  # of each rank in an epoch


def make(algorithm):
    """Two models that begin alike, and their optimizers."""
    torch.manual_seed(0)
    models = [torch.nn.Linear(3, 2) for _ in range(2)]
    return models, [stretto.Optimizer(torch.optim.SGD(m.parameters(), 0.01), m, algorithm) for m in models]


def train(models, optimizers, steps):
    for _ in range(steps):
        for model, optimizer in zip(models, optimizers):
            optimizer.zero_grad()
            model(torch.ones(4, 3)).sum().backward()
            optimizer.step()


def applied(optimizers):
    return [optimizer.batches_applied for optimizer in optimizers]


def weights(models):
    return [p.tolist() for model in models for p in model.parameters()]


def one_calls(algorithm):
    """All meet in the one that is asked, and the other one goes on, too."""
    models, (first, second) = make(algorithm)
    seen = []
    for optimizer in (first, second):
        train(models, (first, second), STEPS[stretto.rank()])
        with optimizer.together():
            seen.append((applied((first, second)), weights(models)))
            try:
                second.step()
            except stretto.UsageError as error:
                seen.append(str(error).split(":")[0])
    first.finish()
    second.finish()
    return seen, weights(models)


def both_call(algorithm):
    models, (first, second) = make(algorithm)
    seen = []
    for _ in range(2):
        train(models, (first, second), STEPS[stretto.rank()])
        with second.together(), first.together():
            seen.append((applied((first, second)), weights(models)))
    first.finish()
    second.finish()
    return seen, weights(models)


def one_rank_is_through(algorithm):
    """Rank 0 has finished after an epoch, and the others meet once more and twice."""
    models, optimizers = make(algorithm)
    for _ in range(1 if stretto.rank() == 0 else 3):
        train(models, optimizers, STEPS[stretto.rank()])
        if stretto.rank() > 0:
            with optimizers[1].together(), optimizers[0].together():
                pass
    for optimizer in reversed(optimizers):
        optimizer.finish()
    return applied(optimizers), weights(models)


def after_one_has_finished(algorithm):
    """The other one meets, and takes steps again."""
    models, (first, second) = make(algorithm)
    train(models, (first, second), STEPS[stretto.rank()])
    first.finish()
    with second.together():
        met = second.batches_applied
    train(models[1:], [second], STEPS[stretto.rank()])
    second.finish()
    return met, second.batches_applied, weights(models)


def all_cases():
    return [
        (algorithm, case.__name__, case(algorithm))
        for algorithm in ("sync", "eager-quorum")
        for case in (one_calls, both_call, one_rank_is_through, after_one_has_finished)
    ]


def test_ranks_that_meet_in_one_meet_in_all():
    first, *others = values(all_cases, ranks=3, timeout=240)
    assert others == [first, first]
    epoch = sum(STEPS)
    inside = "step() inside together()"
    for algorithm, case, found in first:
        if case == "one_calls":
            assert [seen[0] if isinstance(seen, tuple) else seen for seen in found[0]] == [
                [epoch, epoch],
                inside,
                [2 * epoch, 2 * epoch],
                inside,
            ], algorithm
        elif case == "both_call":
            assert [seen for seen, _ in found[0]] == [[epoch, epoch], [2 * epoch, 2 * epoch]], algorithm
        elif case == "one_rank_is_through":
            batches = STEPS[0] + 3 * (STEPS[1] + STEPS[2])
            assert found[0] == [batches, batches], algorithm
        else:
            assert found[:2] == (epoch, 2 * epoch), algorithm


def finish_in_another_order():
    _, optimizers = make("sync")
    for optimizer in optimizers if stretto.rank() == 0 else reversed(optimizers):
        optimizer.finish()


def test_another_order_is_refused_everywhere():
    results = run(finish_in_another_order, ranks=2, timeout=120)
    for result in results:
        assert result.status == 1
        assert "rank 1 finishes optimizer 2 of its optimizers, and rank 0 1" in result.stderr, said(results)
