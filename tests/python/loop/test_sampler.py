"""stretto.Sampler where the ranks stay: each sample is in one batch an epoch, whichever rank draws it."""

import collections
import itertools

from ranks import values

SAMPLES, BATCH, EPOCHS = 103, 4, 3  # an epoch ends inside of a batch


def optimizer_of(rank):
    import torch

    import stretto

    torch.manual_seed(rank)
    model = torch.nn.Linear(3, 1)
    return stretto.Optimizer(torch.optim.SGD(model.parameters(), 0.1), model, "eager-quorum"), model


def step(optimizer, model, batches=1):
    import torch

    optimizer.zero_grad()
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step(batches=batches)


def drawn(**options):
    """Epoch by epoch the batches that this rank has drawn."""
    import stretto

    optimizer, model = optimizer_of(stretto.rank())
    sampler = stretto.Sampler(SAMPLES, BATCH, epochs=EPOCHS, **options)
    batches = []
    for epoch in sampler.epochs():
        assert epoch == len(batches)
        batches.append([])
        for batch in sampler:
            batches[-1].append(batch)
            step(optimizer, model)
    optimizer.finish()
    assert list(sampler) == []
    return batches, optimizer.batches_applied, len(sampler), sampler.batches


def samples_of(of_ranks):
    return collections.Counter(sample for rank in of_ranks for epoch in rank for batch in epoch for sample in batch)


def assert_each_sample_is_there(of_ranks):
    assert samples_of(of_ranks) == dict.fromkeys(range(SAMPLES), EPOCHS)
    for epoch in range(EPOCHS):  # but for the batch in which one ends and the next begins
        of_epoch = samples_of([[rank[epoch]] for rank in of_ranks])
        assert SAMPLES - BATCH <= len(of_epoch)
        assert max(of_epoch.values()) <= 2
        assert sum(of_epoch.values()) - len(of_epoch) < BATCH


def test_each_sample_is_in_one_batch_an_epoch():
    results = values(drawn, ranks=3)
    assert_each_sample_is_there([batches for batches, *_ in results])
    in_all = -(-SAMPLES * EPOCHS // BATCH)
    assert {applied for _, applied, *_ in results} == {in_all}
    assert {tuple(rest) for _, _, *rest in results} == {(9, 26)}  # of 26 batches


def draws_by_length():
    return drawn(lengths=[sample % 10 for sample in range(SAMPLES)])[0]


def test_batches_of_similar_length():
    of_ranks = values(draws_by_length, ranks=2)
    assert_each_sample_is_there(of_ranks)
    spread = [max(s % 10 for s in b) - min(s % 10 for s in b) for rank in of_ranks for epoch in rank for b in epoch]
    assert sum(spread) / len(spread) < 2


def draws_with_seed(seed):
    return drawn(seed=seed)[0]


def test_the_order_is_drawn_by_the_seed():
    [[first]], [[again]], [[other]] = ([values(draws_with_seed, ranks=1, args=(seed,))] for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert first[0] != first[1]  # each epoch anew


def leaves_an_epoch_early():
    import stretto

    optimizer, model = optimizer_of(stretto.rank())
    sampler = stretto.Sampler(SAMPLES, BATCH, epochs=EPOCHS)
    batches = []
    for epoch in range(EPOCHS):
        batches.append([])
        for batch in itertools.islice(sampler, 5 if epoch == 1 else None):
            batches[-1].append(batch)
            step(optimizer, model)
    optimizer.finish()
    return batches


def test_a_pass_that_is_left_goes_on_in_the_next():
    [batches] = values(leaves_an_epoch_early, ranks=1)
    assert len(batches[1]) == 5
    assert samples_of([batches]) == dict.fromkeys(range(SAMPLES), EPOCHS)  # the batch it was left at was not drawn


def has_a_scaler_that_drops():
    import stretto
    import torch

    optimizer, model = optimizer_of(stretto.rank())
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    sampler = stretto.Sampler(40, BATCH)
    dropped = 0
    for number, _ in enumerate(sampler):
        optimizer.zero_grad()
        scaler.scale(model(torch.ones(2, 3)).sum()).backward()
        if number == stretto.rank():  # the second rank may come to one batch alone
            model.weight.grad[0, 0] = float("inf")
            dropped += 1
        scaler.step(optimizer)
        scaler.update()
    optimizer.finish()
    return dropped, optimizer.batches_applied


def test_batches_that_a_scaler_drops_are_in_no_round():
    dropped, applied = zip(*values(has_a_scaler_that_drops, ranks=2), strict=True)
    assert sum(dropped) > 0
    assert set(applied) == {10 - sum(dropped)}


def has_another(batch_size):
    import stretto

    optimizer, _ = optimizer_of(stretto.rank())
    try:
        next(iter(stretto.Sampler(SAMPLES, batch_size + stretto.rank())))
    except stretto.UsageError as error:
        return str(error)


def test_ranks_that_differ_are_told():
    for told in values(has_another, ranks=2, args=(3,)):
        assert told == "rank 1 differs from rank 0 in its batches"
