"""Who is refused where ranks meet, and processes and threads that have no place in a job."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pathlib
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import stretto
from ranks import Ranks, Result, run, said, values
from traces import Traces

OF_TWO = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}


def place() -> tuple[int, int]:
    return stretto.rank(), stretto.size()


def join(seconds: float) -> tuple[str, str]:
    """How init() ends."""
    try:
        stretto.init(timeout=seconds)
    except stretto.Error as error:
        return type(error).__name__, str(error)
    return "joined", ""


# ---- several hosts, of which only RANK and WORLD_SIZE tell ----

SEVERAL_HOSTS = {
    "a foreign address": ({"MASTER_ADDR": "192.0.2.7"}, "MASTER_ADDR=192.0.2.7 is no address of this host"),
    "nodes": ({"PET_NNODES": "2"}, "PET_NNODES=2 are several hosts"),
    "a group": ({"GROUP_WORLD_SIZE": "2"}, "GROUP_WORLD_SIZE=2 are several hosts"),
    "a local rank": ({"LOCAL_RANK": "1"}, "RANK=0 with LOCAL_RANK=1 is of a job of several hosts"),
}


@pytest.mark.parametrize("case", SEVERAL_HOSTS)
def test_ranks_of_several_hosts_are_refused_at_once(case: str) -> None:
    environment, why = SEVERAL_HOSTS[case]
    of_rank_0 = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "", **environment}
    with Ranks(join, 1, env_of_rank=lambda _: of_rank_0, args=(60,), fresh=True) as ranks:
        (result,) = ranks.wait(30)
    assert result.value == (
        "UsageError",
        f"RANK=0 WORLD_SIZE=2, and {why}: expected all ranks on one host, in whose memory they meet; "
        "LOCAL_WORLD_SIZE=2 says that they are",
    )


def test_a_rank_that_has_waited_in_vain_says_for_which_hosts() -> None:
    for address in ("127.0.0.1", "no.such.host.invalid", "localhost"):
        of_rank_0 = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "", "MASTER_ADDR": address}
        with Ranks(join, 1, env_of_rank=lambda _, of=of_rank_0: of, args=(0.01,), fresh=True) as ranks:
            (result,) = ranks.wait(60)
        assert result.value[0] == "Timeout"
        assert result.value[1] == (
            f"rank 1 has not come within 0.01 s; ranks of other hosts cannot come (MASTER_ADDR={address}): expected "
            "all on this one"
        )


def test_ranks_of_one_host_need_no_local_world_size() -> None:
    with Ranks(place, 2, env_of_rank=lambda _: {"LOCAL_WORLD_SIZE": "", "LOCAL_RANK": ""}) as ranks:
        assert [result.value for result in ranks.wait()] == [(0, 2), (1, 2)]


# ---- another user's process ----


@contextlib.contextmanager
def job(name: str) -> Iterator[tuple[dict[str, str], str]]:
    """Environment of the ranks of a job, and the name of the abstract socket at which they meet: rank 0 opens it.

    The environment that traces are found by is the one that a process was started with.
    """
    environment = {"STRETTO_JOB": name, "MASTER_PORT": "1"}
    traces = Traces()
    with Ranks(join, 1, {**environment, **traces.environment, **OF_TWO}, (60,), lambda _: OF_TWO, fresh=True) as first:
        traces.look_until(lambda: len(traces.sockets) == 1)
        (address,) = traces.sockets
        first.processes[0].kill()
        first.wait()
    assert traces.left() == []
    yield environment, "\0" + address[1:]


@contextlib.contextmanager
def another_user(work: Any) -> Iterator[None]:
    """A process of the user nobody, which has called `work` and waits."""
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgid(65534)
            os.setuid(65534)
            kept = work()
            os.write(send, b".")
            signal.pause()
            del kept
        finally:
            os._exit(1)
    os.close(send)
    try:
        assert os.read(receive, 1) == b".", "the other user's process has failed"
        yield
    finally:
        os.close(receive)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def bound(name: str) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made.bind(name)
    made.listen()
    return made


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has processes of other users")


@needs_root
def test_another_users_socket_in_the_place_of_rank_0_is_refused_by_all() -> None:
    with job("squatted") as (environment, name), another_user(lambda: bound(name)):
        first, second = run(join, 2, env=environment, args=(20,))
    assert first.value[0] == "UsageError" and "of user 65534 is rank 0 of this job already" in first.value[1]
    assert second.value[0] == "UsageError" and "of another user (65534); STRETTO_JOB gives this job" in second.value[1]


@needs_root
def test_another_users_process_that_knocks_is_not_let_in() -> None:
    """Rank 0 waits while the other comes, and rank 1 comes after it."""

    def knock() -> socket.socket:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for _ in range(6000):
            try:
                made.connect(name)
                break
            except ConnectionRefusedError:
                time.sleep(0.01)
        made.settimeout(30)
        assert made.recv(1) == b""  # closed by rank 0
        return made

    with job("knocked") as (environment, name):
        with Ranks(place, 1, {**environment, **OF_TWO}, env_of_rank=lambda _: OF_TWO) as first, another_user(knock):
            second_place = {**OF_TWO, "RANK": "1", "LOCAL_RANK": "1"}
            with Ranks(place, 1, environment, env_of_rank=lambda _: second_place) as second:
                assert [r.value for r in (*first.wait(), *second.wait())] == [(0, 2), (1, 2)]


# ---- versions ----


def test_another_version_is_refused_with_both(tmp_path: pathlib.Path) -> None:
    """Rank 1 has a copy of the package in which the version has been changed."""
    package = pathlib.Path(stretto.__file__).parent
    copy = tmp_path / "stretto"
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("bin", "__pycache__"))
    (module,) = copy.glob("_core*.so")
    own = stretto.__version__
    other = own[:-1] + str((int(own[-1]) + 1) % 10)
    content = module.read_bytes()
    assert own.encode() + b"\0" in content
    module.write_bytes(content.replace(own.encode() + b"\0", other.encode() + b"\0"))
    old = os.environ.get("PYTHONPATH", "")

    def of_rank(rank: int) -> dict[str, str]:
        return {"PYTHONPATH": f"{tmp_path}:{old}"} if rank == 1 else {}

    with Ranks(join, 2, args=(60,), env_of_rank=of_rank, fresh=True) as ranks:
        results = ranks.wait()
    for result in results:
        kind, text = result.value
        assert kind == "UsageError" and f"rank 1 has stretto {other}, rank 0 stretto {own}" in text, said(results)


# ---- a job that was killed ----


def test_a_job_that_was_killed_keeps_no_name() -> None:
    """The name of an abstract socket goes with its process."""
    with job("killed") as (environment, _):
        results = run(place, 2, env=environment)
    assert [result.value for result in results] == [(0, 2), (1, 2)], said(results)


# ---- children and threads of a rank ----


def _ask(answers: Any) -> None:
    """In a child."""
    try:
        answers.put(f"rank {stretto.rank()}")
    except stretto.UsageError as error:
        answers.put(str(error))


def start_children() -> tuple[str, int | None]:
    """What multiprocessing's forked child hears that asks for its rank. The job goes on."""
    stretto.init()
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=_ask, args=(answers,))
    child.start()
    heard = answers.get(timeout=60)
    child.join(60)
    stretto.barrier()
    return heard, child.exitcode


def test_children_of_multiprocessing_are_no_ranks() -> None:
    for heard, status in values(start_children, 2, timeout=240):
        assert heard.startswith("this process was forked from one that had joined a job"), heard
        assert status == 0


def _loop() -> tuple[stretto.Optimizer, Any]:
    import torch

    torch.set_num_threads(1)
    model = torch.nn.Linear(10, 2)
    optimizer = stretto.Optimizer(torch.optim.SGD(model.parameters(), lr=0.001), model, "sync")

    def backward() -> None:
        optimizer.zero_grad()
        model(torch.ones(4, 10)).sum().backward()

    return optimizer, backward


class _Last:
    """In `sys`: has the other rank go on when the interpreter is at its end, and waits until it has."""

    def __init__(self) -> None:
        self._calls = open, time.sleep, os.environ["STRETTO_TEST_FILE"]  # globals are gone by then

    def __del__(self) -> None:
        opened, sleep, path = self._calls
        opened(path, "w").close()
        sleep(0.5)


def end_in_the_middle(how: str) -> str:
    """Rank 1 ends after five steps, and rank 0 waits in its sixth for it: what rank 0 hears."""
    optimizer, backward = _loop()
    for _ in range(5):
        backward()
        optimizer.step()
    if stretto.rank() == 0:
        while how.startswith("thread") and not os.path.exists(os.environ["STRETTO_TEST_FILE"]):
            time.sleep(0.01)  # until then rank 1's thread waits for this rank
        try:
            for _ in range(2):
                backward()
                optimizer.step()
        except stretto.Error as error:
            return f"{type(error).__name__} {error.rank}"
        return "nothing"
    if how == "os._exit":
        os._exit(3)
    backward()
    if how == "in a callback":
        optimizer.on_round(lambda done: sys.exit(3))
        optimizer.step()
    if "thread" in how:  # which is in a step while the main thread ends
        inside = threading.Event()
        if how == "callback of a thread":
            optimizer.before_step(lambda: (inside.set(), time.sleep(600)))
        threading.Thread(target=optimizer.step, daemon=True).start()
        while not (inside.is_set() if how == "callback of a thread" else optimizer._busy):
            time.sleep(0.001)
        if how == "thread, answered late":
            sys.last_of_test = _Last()  # type: ignore[attr-defined]
        else:
            open(os.environ["STRETTO_TEST_FILE"], "w").close()
        sys.exit(3)
    return "not reached"


@pytest.mark.parametrize(
    "how, heard",
    [
        ("os._exit", "RankLost 1"),
        ("in a callback", "Aborted 1"),
        ("thread", "RankLost 1"),
        ("thread, answered late", "RankLost 1"),
        ("callback of a thread", "RankLost 1"),
    ],
)
def test_a_rank_that_exits_in_the_middle_is_named(how: str, heard: str, tmp_path: pathlib.Path) -> None:
    environment = {"STRETTO_TEST_FILE": str(tmp_path / "in a step")}
    results: list[Result] = run(end_in_the_middle, 2, timeout=30, env=environment, args=(how,))
    assert (results[0].value, results[1].status) == (heard, 3), said(results)
