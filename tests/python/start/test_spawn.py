"""stretto.spawn(): what crosses to the ranks and back, and how they end. Needs no Torch."""

import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time

import pytest
import stretto

not_in_a_rank = True  # of a process that was forked from this one it would be true, too


def square(rank, offset):
    return rank * rank + offset, os.getpid(), not_in_a_rank


def fail_on_two(rank):
    stretto.init()
    if rank == 2:
        raise LookupError("no such word: übermorgen")
    stretto._job.current().leave()


class Unusual(Exception):
    def __init__(self, first, second):
        super().__init__("first and second")


def raise_unusual(rank):
    raise Unusual(1, 2)


def end_on_one(rank, how):
    if rank != 1:
        return
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "exit":
        sys.exit(3)
    if how == "at once":
        os._exit(0)
    sys.exit()


def sleep_on_two(rank, seconds):
    if rank == 2:
        time.sleep(seconds)


def write_in_pieces(rank, lines):
    for line in range(lines):
        for piece in (f"<{rank}", f" {line}", ">\n"):
            sys.stdout.write(piece)
            sys.stdout.flush()


def environment(rank):
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "OMP_NUM_THREADS")
    return stretto.rank(), stretto.size(), [os.environ[name] for name in names]


def return_lock(rank):
    import threading

    return threading.Lock()


def large(rank, content):
    return bytes(content) * 2


def start_another(rank):
    child = subprocess.Popen(["sleep", "600"])
    return child.pid


def alive(pid):
    """Whether a process is there that is no zombie."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until_gone(pids, seconds=20):
    end = time.monotonic() + seconds
    while any(map(alive, pids)):
        assert time.monotonic() < end, f"of {pids} there are left {[pid for pid in pids if alive(pid)]}"
        time.sleep(0.01)


def run_script(tmp_path, text, *, stdin=False, status=0):
    """What a script writes, which nothing guards against being run in a rank."""
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(text))
    ended = subprocess.run(
        [sys.executable, "-"] if stdin else [sys.executable, script],
        input=script.read_text() if stdin else "",
        capture_output=True,
        text=True,
        timeout=100,
        cwd=tmp_path,
    )
    assert ended.returncode == status, ended.stdout + ended.stderr
    return ended.stdout


def test_results_come_by_rank_from_fresh_processes(monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "not_in_a_rank", False)
    results = stretto.spawn(square, (5,), 4)
    assert [value for value, _, _ in results] == [5, 6, 9, 14]
    assert len({os.getpid(), *(pid for _, pid, _ in results)}) == 5
    assert all(fresh for _, _, fresh in results)
    assert not any(alive(pid) for _, pid, _ in results)


def test_a_rank_has_its_place_and_its_share_of_the_cores(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    cores = len(os.sched_getaffinity(0))
    assert stretto.spawn(environment, ranks=cores + 1)[1] == (
        (1, cores + 1, ["1", "1", str(cores + 1), str(cores + 1), "1"])
    )
    assert stretto.spawn(environment, ranks=1)[0][2][4] == str(cores)
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert stretto.spawn(environment, ranks=1)[0][2][4] == "7"


def test_arguments_and_results_larger_than_a_pipe():
    content = bytes(range(256)) * 10_000
    assert stretto.spawn(large, (content,), 2) == [content * 2] * 2


def test_an_exception_comes_with_its_rank_its_text_and_its_traceback():
    with pytest.raises(LookupError, match="no such word: übermorgen") as raised:
        stretto.spawn(fail_on_two, ranks=4)
    assert raised.value.rank == 2
    cause = str(raised.value.__cause__)
    assert cause.startswith("rank 2 has raised\nTraceback") and "in fail_on_two" in cause
    assert "_spawned" not in cause


def test_an_exception_that_pickle_cannot_send_comes_as_its_text():
    with pytest.raises(stretto.Error, match="^Unusual: first and second$") as raised:
        stretto.spawn(raise_unusual, ranks=1)
    assert raised.value.rank == 0


@pytest.mark.parametrize(
    "how, kind, text",
    [
        ("killed", stretto.RankLost, "rank 1 was killed by SIGKILL"),
        ("exit", stretto.Error, r"rank 1: sys.exit\(3\) before end_on_one has returned"),
        ("at once", stretto.Error, "rank 1 has ended with exit status 0 before end_on_one has returned"),
    ],
)
def test_a_rank_that_ends_without_returning_is_named(how, kind, text):
    with pytest.raises(kind, match=text) as raised:
        stretto.spawn(end_on_one, (how,), 3)
    assert raised.value.rank == 1


def test_exit_with_status_zero_is_a_return():
    assert stretto.spawn(end_on_one, ("exit with 0",), 2) == [None, None]


def test_a_rank_that_does_not_return_in_time_is_named_and_shows_where_it_is(capsys):
    with pytest.raises(stretto.Timeout, match=r"spawn\(sleep_on_two\): rank 2 has not returned within 15 s") as raised:
        stretto.spawn(sleep_on_two, (600,), 3, timeout=15)
    assert raised.value.rank == 2
    assert "in sleep_on_two" in capsys.readouterr().err


def test_lines_come_out_whole(capsys):
    stretto.spawn(write_in_pieces, (300,), 3)
    lines = capsys.readouterr().out.splitlines()
    assert sorted(lines) == sorted(f"<{rank} {line}>" for rank in range(3) for line in range(300))
    for rank in range(3):
        assert [line for line in lines if line.startswith(f"<{rank} ")] == [f"<{rank} {line}>" for line in range(300)]


def test_nothing_is_left_behind():
    def descriptors():
        return sorted(os.readlink(entry.path) for entry in os.scandir("/proc/self/fd") if os.path.lexists(entry.path))

    before = descriptors()
    pids = stretto.spawn(start_another, ranks=2)
    wait_until_gone(pids)
    with pytest.raises(LookupError):
        stretto.spawn(fail_on_two, ranks=3)
    assert len(descriptors()) == len(before)


@pytest.mark.parametrize(
    "arguments, text",
    [
        ((3,), r"spawn\(3\): expected a function"),
        ((square, "ab"), r"spawn\(args='ab'\): expected a tuple of the arguments that follow the rank"),
        ((square, (), 0), r"spawn\(ranks=0\): expected a number of ranks, from 1"),
        ((return_lock,), r"spawn\(return_lock\): what it returns cannot go to another process \(TypeError"),
    ],
)
def test_bad_input_is_named(arguments, text):
    with pytest.raises(stretto.UsageError, match=text):
        stretto.spawn(*arguments)


def test_a_closure_is_refused_by_what_it_has_captured():
    captured = 5

    def closure(rank):
        return captured

    with pytest.raises(stretto.UsageError, match="closure is a closure over captured: expected a function that takes"):
        stretto.spawn(closure)


def test_a_local_function_that_captures_nothing_goes():
    def local(rank, *, factor=10):
        return square(rank, factor)[0]

    assert stretto.spawn(local, ranks=2) == [10, 11]


SCRIPT = """
    import collections, dataclasses, enum, functools, sys
    import xml.dom.minidom
    import stretto

    print("once")
    WIDTH = 3

    def noted(fn):
        @functools.wraps(fn)
        def wrapper(*args):
            return "noted", fn(*args)
        return wrapper

    class Color(enum.Enum):
        red = 1

    @dataclasses.dataclass
    class Config:
        width: int = WIDTH
        color: Color = Color.red

    class Base:
        class Inner:
            value = 7
        def __init__(self, config):
            self.config = config

    class Model(Base):
        def __init__(self, config):
            super().__init__(config)
        def total(self, rank):
            return add(rank, self.config.width) + self.Inner.value

    @noted
    def add_noted(a, b):
        return add(a, b)

    def add(a, b):
        return a + b if not isinstance(a, Model) else even(a)

    def even(n):
        return n == 0 or odd(n - 1)

    def odd(n):
        return n != 0 and even(n - 1)

    model = Model(Config())
    holder = {"model": model}
    lines = sys.stdin  # cannot be sent, and is not used

    def run(rank, config):
        lines = "local"
        return (
            model.total(rank), holder["model"] is model, config == model.config, add_noted(1, 2), even(rank),
            xml.dom.minidom.__name__, __name__, Base.Inner.value, lines,
        )

    for result in stretto.spawn(run, (Config(),), 2):
        print(result)
    print(stretto.spawn(functools.partial(run, config=None), ranks=1)[0][2])
    print(stretto.spawn(lambda rank: (rank + WIDTH, Config(4)), ranks=2))
"""


def test_a_script_needs_no_guard_and_its_definitions_go_along(tmp_path):
    first = "(10, True, True, ('noted', 3), True, 'xml.dom.minidom', '__main__', 7, 'local')"
    second = "(11, True, True, ('noted', 3), False, 'xml.dom.minidom', '__main__', 7, 'local')"
    configs = ", ".join(f"({n}, Config(width=4, color=<Color.red: 1>))" for n in (3, 4))
    assert run_script(tmp_path, SCRIPT).splitlines() == ["once", first, second, "False", f"[{configs}]"]


def test_functions_from_standard_input(tmp_path):
    text = """
        import stretto
        OFFSET = 4
        def f(rank): return g(rank) + OFFSET
        def g(rank): return 10 * rank
        print(stretto.spawn(f, ranks=3))
    """
    assert run_script(tmp_path, text, stdin=True) == "[4, 14, 24]\n"


def test_a_global_that_cannot_go_is_named(tmp_path):
    text = """
        import stretto, threading
        lock = threading.Lock()
        def f(rank):
            with lock: pass
        try:
            stretto.spawn(f)
        except stretto.UsageError as error:
            print(error)
    """
    assert run_script(tmp_path, text).startswith("spawn(f): the global lock cannot go to another process (TypeError: ")


def test_the_traceback_of_a_script_shows_its_lines(tmp_path):
    text = """
        import stretto
        def f(rank):
            raise ValueError("here")  # this line
        try:
            stretto.spawn(f)
        except ValueError as error:
            print(error.__cause__)
    """
    assert "# this line" in run_script(tmp_path, text)


WAITING = """
    import os, pathlib, subprocess, sys, time
    import stretto
    def wait(rank):
        child = subprocess.Popen(["sleep", "600"])
        pathlib.Path(f"pids.{rank}.new").write_text(f"{os.getpid()} {child.pid}")
        os.rename(f"pids.{rank}.new", f"pids.{rank}")
        try:
            time.sleep(600)
        finally:
            print("cleaned up", rank)
    stretto.spawn(wait, ranks=3)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_ranks_end_with_the_process_that_has_started_them(tmp_path, number):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(WAITING))
    started = subprocess.Popen(
        [sys.executable, script], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        files = [tmp_path / f"pids.{rank}" for rank in range(3)]
        end = time.monotonic() + 60
        while not all(file.exists() for file in files):
            assert time.monotonic() < end
            time.sleep(0.01)
        ranks, children = zip(*(map(int, file.read_text().split()) for file in files))
        started.send_signal(number)
        out, errors = started.communicate(timeout=60)
        wait_until_gone(ranks)
        if number == signal.SIGINT:
            assert "KeyboardInterrupt" in errors and started.returncode == -signal.SIGINT
            assert sorted(out.splitlines()) == [f"cleaned up {rank}" for rank in range(3)]
            wait_until_gone(children)
    finally:
        started.kill()
        started.wait()
        for child in children:
            if alive(child):
                os.kill(child, signal.SIGKILL)
