"""allreduce(), broadcast() and barrier(): exact, over tensors and arrays, and what is refused."""

import array
import functools
import operator
import os
import random
import signal
import sys
import threading
import time

import pytest
import stretto
from ranks import Ranks, run, said, values

SIZES = (0, 1, 127, 128, 129, 8191, 8193, 600_001)  # in pieces of one kind and of several


def numbers_of(rank, count, seed):
    """Of 16 bits: sums of some are exact in every type."""
    return array.array("h", random.Random(f"{seed} {rank}").randbytes(2 * count)).tolist()


def reduce_arrays():
    """What differs from a sequential reduction."""
    wrong = []
    rank, size = stretto.rank(), stretto.size()
    for letter in "fdiq":
        for count in SIZES:
            all_numbers = [numbers_of(r, count, letter) for r in range(size)]
            mine = array.array(letter, all_numbers[rank])
            folds = [("sum", operator.add), ("min", min), ("max", max)]
            if letter in "iq":
                folds.append(("bit_and", operator.and_))
            for op, fold in folds:
                expected = array.array(letter, functools.reduce(functools.partial(map, fold), all_numbers))
                if stretto.allreduce(mine, op) != expected:
                    wrong.append((letter, count, op))
            if stretto.broadcast(mine, src=size - 1) != array.array(letter, all_numbers[-1]):
                wrong.append((letter, count, "broadcast"))
            if mine != array.array(letter, all_numbers[rank]):
                wrong.append((letter, count, "changed"))
    return wrong, "torch" in sys.modules, "numpy" in sys.modules


def reduce_tensors():
    import torch

    rank, size = stretto.rank(), stretto.size()
    wrong = []
    for type in (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int32, torch.int64):
        for shape in ((), (0,), (3, 5), (2, 70, 61)):
            all_tensors = []
            for r in range(size):
                made = torch.Generator().manual_seed(r)
                all_tensors.append(torch.randint(-20, 20, shape, generator=made).to(type))  # exact in every type
            mine = all_tensors[rank]
            stacked = torch.stack(all_tensors)
            for op, expected in (
                ("sum", stacked.sum(0).to(type)),
                ("min", stacked.amin(0)),
                ("max", stacked.amax(0)),
            ):
                got = stretto.allreduce(mine, op)
                if not (got.dtype == type and got.shape == mine.shape and torch.equal(got, expected)):
                    wrong.append((type, shape, op))
    column = torch.arange(12.0).reshape(3, 4)[:, rank]
    if not torch.equal(stretto.allreduce(column), sum(torch.arange(12.0).reshape(3, 4)[:, r] for r in range(size))):
        wrong.append("strided")
    weight = torch.nn.Parameter(torch.tensor([1.5, float("nan")]))
    total = stretto.allreduce(weight)
    if total.requires_grad or total[0] != 1.5 * size or not total[1].isnan() or weight[0] != 1.5:
        wrong.append("parameter")
    refused = []
    for bad in (torch.zeros(2, dtype=torch.bool), torch.zeros(2, device="meta"), torch.eye(2).to_sparse()):
        try:
            stretto.allreduce(bad)
        except stretto.UsageError as error:
            refused.append(str(error))
    return wrong, refused


def differ():
    rank = stretto.rank()
    heard = []
    for call in (
        lambda: stretto.allreduce(array.array("f", [1.0] * (4 if rank == 1 else 3))),
        lambda: stretto.allreduce(array.array("d" if rank == 1 else "f", [1.0])),
        lambda: stretto.allreduce(array.array("f", [1.0]), "max" if rank == 1 else "sum"),
        lambda: stretto.broadcast(array.array("f", [1.0]), src=1 if rank == 1 else 0),
        lambda: stretto.barrier() if rank == 1 else stretto.allreduce(array.array("i", [1])),
    ):
        try:
            call()
        except stretto.UsageError as error:
            heard.append(str(error))
    return heard, list(stretto.allreduce(array.array("i", [1])))


def meet_late():
    """The barrier holds the early ranks: none passes before the last has come."""
    stretto.barrier()
    if stretto.rank() == 2:
        time.sleep(0.3)
    came = time.monotonic()
    stretto.barrier()
    return came, time.monotonic()


def wait_for_rank_one(how):
    try:
        stretto.barrier()  # another rank may still be in it when rank 1 ends
        if stretto.rank() == 1:
            print("here", flush=True)
            if how == "raises":
                raise ValueError("no allreduce from here")
            time.sleep(600)
        if how == "interrupted" and stretto.rank() == 0:
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        stretto.allreduce(array.array("f", [1.0]))
    except stretto.Error as error:
        return type(error).__name__, error.rank, str(error)
    except KeyboardInterrupt:
        return "KeyboardInterrupt", None, ""
    return None


def test_arrays_are_reduced_exactly_without_torch_and_numpy():
    assert values(reduce_arrays, ranks=3, timeout=120, fresh=True) == [([], False, False)] * 3


def test_tensors_of_all_types_are_reduced_exactly():
    for wrong, refused in values(reduce_tensors, ranks=3, timeout=120):
        assert wrong == []
        assert refused == [
            "allreduce() of bool: expected float32, float64, int32, int64, bfloat16, float16",
            "allreduce() of a tensor on meta of layout torch.strided: expected a dense one on cpu",
            "allreduce() of a tensor on cpu of layout torch.sparse_coo: expected a dense one on cpu",
        ]


def test_numpy_arrays():
    numpy = pytest.importorskip("numpy")
    expected = numpy.arange(6.0).reshape(2, 3)
    for how, got in values(reduce_numpy, ranks=2):
        assert how == ["ndarray", "int32"]
        assert numpy.array_equal(got, 2 * expected)


def reduce_numpy():
    import numpy

    got = stretto.allreduce(numpy.arange(6.0).reshape(2, 3))
    with pytest.raises(stretto.UsageError, match="expected a contiguous copy"):
        stretto.allreduce(numpy.zeros((3, 4), order="F"))
    return [type(got).__name__, str(stretto.broadcast(numpy.zeros(3, dtype=numpy.int32)).dtype)], got


def test_what_differs_is_named_on_all_ranks_and_they_go_on():
    calls = [
        ("allreduce(op='sum') of float32 [4]", "allreduce(op='sum') of float32 [3]"),
        ("allreduce(op='sum') of float64 [1]", "allreduce(op='sum') of float32 [1]"),
        ("allreduce(op='max') of float32 [1]", "allreduce(op='sum') of float32 [1]"),
        ("broadcast(src=1) of float32 [1]", "broadcast(src=0) of float32 [1]"),
        ("barrier()", "allreduce(op='sum') of int32 [1]"),
    ]
    expected = "expected the same collective, of the same shape and type, on all ranks"
    for heard, after in values(differ, ranks=3):
        assert heard == [f"rank 1 has called {one}, rank 0 {other}: {expected}" for one, other in calls]
        assert after == [3]


def test_a_barrier_holds_all_until_the_last_has_come():
    times = values(meet_late, ranks=4)
    assert min(passed for _, passed in times) >= max(came for came, _ in times)


@pytest.mark.parametrize("array_of_none", [3, [1.0], "text", None])
def test_what_is_no_array_is_refused(array_of_none):
    with pytest.raises(stretto.UsageError, match=f"of a {type(array_of_none).__name__}: expected a tensor or an array"):
        stretto.allreduce(array_of_none)


def test_other_bad_input_is_refused():
    ones = array.array("f", [1.0])
    with pytest.raises(stretto.UsageError, match=r"allreduce\(op='mean'\): expected sum, min, max or bit_and"):
        stretto.allreduce(ones, "mean")
    with pytest.raises(stretto.UsageError, match=r"broadcast\(src=1\) on 1 ranks: expected a rank from 0 to 0"):
        stretto.broadcast(ones, 1)
    with pytest.raises(stretto.UsageError, match="a buffer of format 'B': expected float32"):
        stretto.allreduce(bytearray(3))


def test_those_that_wait_hear_of_a_rank_that_is_killed():
    with Ranks(wait_for_rank_one, ranks=3, args=("killed",)) as ranks:
        ranks.wait_for("here", [1])
        ranks.processes[1].kill()
        results = ranks.wait()
    assert [results[0].value[:2], results[2].value[:2]] == [("RankLost", 1)] * 2, said(results)


def test_those_that_wait_hear_of_an_exception():
    results = run(wait_for_rank_one, ranks=3, args=("raises",))
    for result in (results[0], results[2]):
        kind, rank, text = result.value
        assert (kind, rank) == ("Aborted", 1) and "ValueError: no allreduce from here" in text, said(results)


def test_a_wait_can_be_interrupted_and_the_others_hear_of_it():
    with Ranks(wait_for_rank_one, ranks=3, args=("interrupted",)) as ranks:
        for rank in (0, 2):  # neither waits for the one that sleeps
            ranks.processes[rank].wait(60)
        ranks.processes[1].kill()
        results = ranks.wait()
    assert results[0].value == ("KeyboardInterrupt", None, ""), said(results)
    kind, rank, text = results[2].value
    assert (kind, rank) == ("Aborted", 0) and "KeyboardInterrupt" in text, said(results)
