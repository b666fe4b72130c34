"""Parameters of bfloat16 and float16: bits of plain Torch on one rank, exact sums on several, gradients of float32."""

import itertools

import pytest
import torch

import stretto
from ranks import values

CAN_WIDEN = hasattr(torch.Tensor, "grad_dtype")  # not in the oldest Torch
needs_grad_dtype = pytest.mark.skipif(not CAN_WIDEN, reason="this Torch has no Tensor.grad_dtype")
DTYPES = ("bfloat16", "float16")
STEPS = 12
SCALE = 4.0


def start(dtype, optimizer="SGD", wrap=True, grad_dtype=None, **options):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.LayerNorm(5), torch.nn.Linear(5, 2))
    model[0].to(getattr(torch, dtype))
    model[3].to(getattr(torch, dtype))  # the norm keeps float32
    inner = getattr(torch.optim, optimizer)(model.parameters(), lr=0.0625, **options)
    if wrap:
        return model, stretto.Optimizer(inner, model, "sync", grad_dtype=grad_dtype)
    if grad_dtype is not None:
        for p in model.parameters():
            if p.dtype != torch.float32:
                p.grad_dtype = grad_dtype
    return model, inner


def loss_of(model, seed):
    x = torch.randn(8, 6, generator=torch.Generator().manual_seed(seed)).to(model[0].weight.dtype)
    hidden = model[2](model[1](model[0](x)).float())
    return model[3](hidden.to(x.dtype)).float().square().mean()


def take_step(optimizer, dtype, *losses):
    """A step by the gradients of all losses. Those of float16 need a GradScaler. As Torch's refuses plain optimizers of
    float16, gradients of these are divided by hand: by a power of two, which changes no bits."""
    optimizer.zero_grad()
    if dtype == "float16" and isinstance(optimizer, stretto.Optimizer):
        scaler = torch.amp.GradScaler("cpu", init_scale=SCALE)
        for loss in losses:
            scaler.scale(loss).backward()
        scaler.step(optimizer)
        return
    scale = SCALE if dtype == "float16" else 1.0
    for loss in losses:
        (loss * scale).backward()
    for group in optimizer.param_groups:
        for p in group["params"]:
            p.grad.div_(scale)
    optimizer.step()


def bits(model):
    parameters = list(model.parameters())
    return [p.detach().float().numpy().tobytes() for p in parameters], [str(p.dtype) for p in parameters]


def one_rank():
    found = {}
    eps = {"eps": 2**-7}  # the default is 0 in float16
    cases = [("SGD", {"momentum": 0.5}), ("SGD", {"weight_decay": 0.25}), ("AdamW", eps), ("RMSprop", eps)]
    for dtype, (optimizer, options) in itertools.product(DTYPES, cases):
        for grad_dtype in (None, torch.float32) if CAN_WIDEN else (None,):
            if optimizer == "AdamW" and grad_dtype is not None:
                continue
            ends = []
            for wrap in (False, True):
                model, stepping = start(dtype, optimizer, wrap, grad_dtype, **options)
                for step in range(STEPS):  # gradients are added up in their own type
                    take_step(stepping, dtype, loss_of(model, step), loss_of(model, 100 + step))
                if wrap:
                    stepping.finish()
                assert all(p.isfinite().all() for p in model.parameters())
                ends.append(bits(model))
            found[f"{dtype} {optimizer} {options} {grad_dtype}"] = ends[0] == ends[1]
    return found


def test_a_rank_alone_has_the_bits_of_torch():
    (found,) = values(one_rank, ranks=1)
    assert all(found.values()), found
    assert len(found) == (14 if CAN_WIDEN else 8)


def sums(wide, gradients_of):
    """By type what add_up() returns."""
    return {dtype: add_up(dtype, wide, gradients) for dtype, gradients in gradients_of.items()}


def add_up(dtype, wide, gradients):
    """Weights of zeros moved by −1 times the mean of the gradients that ranks bring, as they are after each step."""
    rank = stretto.rank()
    w = torch.nn.Parameter(torch.zeros(3, dtype=getattr(torch, dtype)))
    norm = torch.nn.Parameter(torch.zeros(2))
    inner = torch.optim.SGD([w, norm], lr=1.0)
    optimizer = stretto.Optimizer(inner, algorithm="sync", grad_dtype=torch.float32 if wide else None)
    after = []
    for step in gradients:
        take_step(optimizer, dtype, (w * torch.tensor(step[rank], dtype=w.dtype)).sum() + norm.sum() * (rank + 1))
        after.append((w.float().tolist(), norm.tolist(), str(w.grad.dtype), w.grad.float().tolist()))
    optimizer.finish()
    return after, str(w.dtype)


@pytest.mark.parametrize("wide", [False, pytest.param(True, marks=needs_grad_dtype)])
def test_ranks_add_up_small_integers_exactly(wide):
    gradients = [[[1, 2, 3], [4, 8, -12], [7, 6, 5], [0, 4, 16]], [[8, 8, 8], [16, 0, 0], [0, 0, 4], [0, 0, 0]]]
    found = values(sums, args=(wide, dict.fromkeys(DTYPES, gradients)))
    for rank, dtype in itertools.product(found, DTYPES):
        after, of = rank[dtype]
        kind = "torch.float32" if wide else f"torch.{dtype}"
        assert of == f"torch.{dtype}"
        assert after[0] == ([-3, -5, -3], [-2.5, -2.5], kind, [3, 5, 3])
        assert after[1] == ([-9, -7, -6], [-5, -5], kind, [6, 2, 3])


@needs_grad_dtype
def test_gradients_of_float32_keep_what_16_bits_round_away():
    after_it = {"bfloat16": 256, "float16": 2048}  # not every whole number is one of these types
    gradients_of = {d: [[[n, 1, 0], [1, n, 1], [1, 1, n], [1, 1, 1]]] for d, n in after_it.items()}

    def added_up(of_sums, gradients):
        a, b, c, d = (torch.tensor(one, dtype=of_sums) for one in gradients[0])
        return (((a + b) + (c + d)).float() / 4).tolist()  # the fixed order of four ranks

    for wide in (False, True):
        found = values(sums, args=(wide, gradients_of))
        for dtype, gradients in gradients_of.items():
            expected = added_up(torch.float32 if wide else getattr(torch, dtype), gradients)
            assert all(rank[dtype][0][0][3] == expected for rank in found), found
            quarter = after_it[dtype] / 4
            assert expected == [quarter + more for more in ((0.75, 0.75, 0.5) if wide else (0.5, 0.5, 0))]


def uneven(algorithm, wide):
    rank = stretto.rank()
    model, _ = start("bfloat16", wrap=False)
    inner = torch.optim.SGD(model.parameters(), lr=0.0625, momentum=0.5)
    optimizer = stretto.Optimizer(inner, model, algorithm, grad_dtype=torch.float32 if wide else None)
    for step in range((12, 9, 5, 0)[rank]):
        optimizer.zero_grad()
        loss_of(model, 100 * step + rank).backward()
        optimizer.step()
    optimizer.finish()
    return bits(model), optimizer.batches_applied


@pytest.mark.parametrize("algorithm", ["eager-quorum", "local"])
@pytest.mark.parametrize("wide", [False, pytest.param(True, marks=needs_grad_dtype)])
def test_replicas_of_bfloat16_stay_equal(algorithm, wide):
    found = values(uneven, args=(algorithm, wide))
    assert all(theirs == found[0] for theirs in found)
    assert found[0][1] == 26


def refused():
    found = []
    for optimizer, dtype in [("AdamW", torch.float32), ("SGD", torch.float64)]:
        with pytest.raises(stretto.UsageError) as raised:
            start("bfloat16", optimizer, grad_dtype=dtype)
        found.append(str(raised.value))
    return found


@needs_grad_dtype
def test_what_cannot_be_is_refused_with_what_would_work():
    ((adam, double),) = values(refused, ranks=1)
    assert adam.startswith("AdamW does not take gradients of torch.float32 for parameters of 16 bits (")
    assert adam.endswith("): expected no grad_dtype, or an optimizer such as SGD")
    assert double == "grad_dtype torch.float64: expected torch.float32, or none for the types of the parameters"
