"""torch.amp.GradScaler: bits of plain Torch on one rank; on several, infinities of some make nobody wait."""

import pytest

from ranks import run, said, values

STEPS = 40


def start(algorithm=None, dtype="float32"):
    import torch

    import stretto

    torch.manual_seed(1)
    model = torch.nn.Linear(5, 3).to(getattr(torch, dtype))
    inner = torch.optim.SGD(model.parameters(), lr=0.0625, momentum=0.5)
    return model, inner if algorithm is None else stretto.Optimizer(inner, model, algorithm)


def new_scaler(scale=1024.0):
    import torch

    return torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=3)


def loss_of(model, seed):
    import torch

    x = torch.randn(4, 5, generator=torch.Generator().manual_seed(seed)).to(next(model.parameters()).dtype)
    return model(x).square().mean()


def batch(model, optimizer, scaler, seed, infinite=False, clip=False):
    import torch

    optimizer.zero_grad()
    scaler.scale(loss_of(model, seed) * (float("inf") if infinite else 1.0)).backward()
    if clip:
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    scaler.step(optimizer)
    scaler.update()


def bits(model):
    return [p.detach().numpy().tobytes() for p in model.parameters()]


def one_rank(clip):
    traces = []
    for algorithm in (None, "eager-quorum", "sync"):
        model, optimizer = start(algorithm)
        scaler = new_scaler()
        trace = []
        for step in range(STEPS):
            batch(model, optimizer, scaler, step, infinite=step % 10 == 4, clip=clip)
            trace.append((bits(model), scaler.get_scale()))
        if algorithm:
            optimizer.finish()
            trace.append(optimizer.batches_applied)
        traces.append(trace)
    return traces


@pytest.mark.parametrize("clip", [False, True])
def test_a_rank_alone_has_the_bits_and_scales_of_torch(clip):
    ((plain, eager, sync),) = values(one_rank, ranks=1, args=(clip,))
    assert eager == sync == [*plain, STEPS - STEPS // 10]
    assert plain[3][0] == plain[4][0] != plain[5][0]  # the infinity has skipped a step, and only that


def several(algorithm):
    import stretto

    rank = stretto.rank()
    model, optimizer = start(algorithm)
    scaler = new_scaler(1024.0 * 2**rank)
    scales = []
    for step in range(STEPS):
        batch(model, optimizer, scaler, 100 * step + rank, infinite=rank == 1 and step % 10 == 4)
        scales.append(scaler.get_scale())
    rounds = optimizer.rounds
    optimizer.finish()
    return bits(model), optimizer.batches_applied, rounds, scales


@pytest.mark.parametrize("algorithm", ["sync", "eager-solo", "eager-quorum"])
def test_a_rank_with_infinities_drops_these_batches_and_nobody_waits(algorithm):
    found = values(several, args=(algorithm,))
    assert all(theirs[:2] == found[0][:2] for theirs in found)
    assert found[0][1] == 4 * STEPS - STEPS // 10
    if algorithm == "sync":  # a rank that skipped its step, instead of arriving, would shift all that follow
        assert [theirs[2] for theirs in found] == [STEPS] * 4
    assert found[0][3] != found[1][3] != found[2][3]


def by_hand(scale_of_rank):
    """Gradients that are small integers: the sum says what each rank has brought."""
    import torch

    import stretto

    rank = stretto.rank()
    w = torch.nn.Parameter(torch.zeros(3))
    optimizer = stretto.Optimizer(torch.optim.SGD([w], lr=1.0), algorithm="sync", normalize="contributors")
    scaler = new_scaler(scale_of_rank[rank])
    steps = []
    for step in range(3):
        optimizer.zero_grad()
        infinite = step == 1 and rank == 2
        loss = (w * torch.tensor([1.0, 10.0, 100.0]) * (rank + 1)).sum()
        scaler.scale(loss * (float("inf") if infinite else 1.0)).backward()
        scaler.step(optimizer)
        steps.append(w.tolist())
        scaler.update()
    optimizer.finish()
    return steps


def test_gradients_are_divided_by_each_ranks_own_scale_once():
    # Ranks bring 1, 2, 3, 4 times (1, 10, 100); rank 2 drops its second.
    for steps in values(by_hand, args=([1.0, 256.0, 2.0**16, 0.5],)):
        assert steps[0] == [-2.5, -25.0, -250.0]
        means = [float32(7 / 3), float32(70 / 3), float32(700 / 3)]
        assert steps[1] == [float32(w - mean) for w, mean in zip(steps[0], means)]
        assert steps[2] == [float32(w - mean) for w, mean in zip(steps[1], [2.5, 25.0, 250.0])]


def float32(x):
    import numpy

    return float(numpy.float32(x))


def float16(with_scaler):
    model, optimizer = start("sync", "float16")
    scaler = new_scaler(256.0)
    for step in range(5):
        if with_scaler:
            batch(model, optimizer, scaler, step)
        else:
            optimizer.zero_grad()
            loss_of(model, step).backward()
            optimizer.step()
    optimizer.finish()
    return bits(model)


def test_float16_trains_with_a_scaler_and_is_refused_without():
    a, b = values(float16, ranks=2, args=(True,))
    assert a == b
    results = run(float16, ranks=2, args=(False,))
    assert all(result.status == 1 for result in results)
    text = (
        "UsageError: parameter weight is torch.float16, and no torch.amp.GradScaler has called step(): expected "
        "scaler.scale(loss).backward() and scaler.step(optimizer), or a model of bfloat16"
    )
    assert any(text in result.stderr for result in results), said(results)


def nan_without_scaler():
    import stretto

    model, optimizer = start("sync")
    optimizer.zero_grad()
    (loss_of(model, 1) * (float("nan") if stretto.rank() == 1 else 1)).backward()
    optimizer.step()


def test_without_a_scaler_a_gradient_of_nan_ends_the_job():
    results = run(nan_without_scaler, ranks=2)
    assert all(result.status == 1 for result in results)
    assert all("(element 0 is nan)" in result.stderr for result in results), said(results)
