"""The zygote: what is forked from it, how that is reported, and that nothing is left when a client or owner ends."""

import contextlib
import os
import pathlib
import random
import signal
import subprocess
import sys
import textwrap
import time

import pytest

import forked
from in_zygote import run
from zygote import Zygote

FOLDER = pathlib.Path(__file__).parent

# Its ranks leave their numbers in the folder where pytest works, and wait to be killed.
HANGS = """
    import os, pathlib, signal
    from ranks import Ranks

    def hang():
        pathlib.Path(f"rank{os.environ['RANK']}").write_text(str(os.getpid()))
        signal.pause()

    def test_hang():
        pathlib.Path("pytest").write_text(str(os.getpid()))
        with Ranks(hang, ranks=2) as ranks:
            ranks.wait()
"""
HANGING = ("pytest", "rank0", "rank1")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where the test works, and where in_zygote.py, started by this process, looks for the zygote."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / str(os.getpid())
    path.mkdir()
    return path


@pytest.fixture
def zygote(folder):
    """One that has imported little, and so starts soon."""
    started = Zygote(folder, os.getpid(), ("pytest", "ranks"))
    yield started.folder
    with contextlib.suppress(OSError):
        forked.end(started.folder)
    started.process.wait()


def client(*arguments):
    return subprocess.Popen(
        [sys.executable, "-S", FOLDER / "in_zygote.py", "run", ".", "--disable-plugin-autoload", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def output_of(*arguments):
    """Status, and what it has written."""
    started = client(*arguments)
    return started.wait(100), started.stdout.read()


def file_of(text):
    pathlib.Path("test_of_a_test.py").write_text(textwrap.dedent(text))
    return "test_of_a_test.py"


def wait_until(condition, seconds=100):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def numbers_of_hanging():
    wait_until(lambda: all(os.path.exists(name) and pathlib.Path(name).read_text() for name in HANGING))
    return [int(pathlib.Path(name).read_text()) for name in HANGING]


def is_alive(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return False


def test_a_file_is_run_where_and_as_the_client_is_started(zygote, monkeypatch):
    monkeypatch.setenv("STRETTO_FOR_ALL", "ü")
    test = """
        import os
        def test_place(): print(os.getcwd(), os.environ["STRETTO_FOR_ALL"])
    """
    status, output = output_of("-s", file_of(test))
    assert status == 0 and f"{os.getcwd()} ü\n" in output, output


def test_the_status_is_that_of_pytest(zygote):
    status, output = output_of(file_of("def test_one(): assert 1 + 1 == 3"))
    assert status == 1 and "assert (1 + 1) == 3" in output
    status, output = output_of(file_of("import os, signal\ndef test_one(): os.kill(os.getpid(), signal.SIGKILL)"))
    assert status == signal.SIGKILL and output.endswith("pytest was killed by signal 9\n")


def test_a_file_that_cannot_be_imported_fails_and_says_why(zygote):
    status, output = output_of(file_of("import not_to_be_found"))
    assert status == 2 and "ModuleNotFoundError: No module named 'not_to_be_found'" in output
    test = """
        import os
        from ranks import values
        if "RANK" in os.environ:
            import not_to_be_found
        def test_ranks(): values(print, ranks=1)
        def returns(): pass
        def test_returns(): values(returns, ranks=1)
    """
    status, output = output_of(file_of(test), "-k", "returns")
    assert status == 1 and "-- rank 0, status 1" in output
    assert "ModuleNotFoundError: No module named 'not_to_be_found'" in output


def test_files_do_not_see_each_other(zygote):
    test = """
        import os, random, sys
        def test_state():
            assert "left" not in os.environ and not hasattr(sys, "left")
            os.environ["left"] = "1"
            sys.left = True
            os.chdir("/")
            print("random", random.random())
    """
    outputs = [output_of("-s", file_of(test)) for _ in range(2)]
    assert [status for status, _ in outputs] == [0, 0], outputs
    assert outputs[0][1].split("random ")[1].split()[0] != outputs[1][1].split("random ")[1].split()[0]


def test_a_client_that_is_killed_takes_pytest_and_its_ranks_along(zygote):
    started = client(file_of(HANGS))
    hanging = numbers_of_hanging()
    started.kill()
    started.wait()
    wait_until(lambda: not any(map(is_alive, hanging)))
    status, output = output_of(file_of("def test_one(): pass"))  # the zygote goes on
    assert status == 0, output


def test_what_a_killed_process_has_started_is_killed_with_it(zygote):
    test = """
        import pathlib, subprocess
        def test_start():
            for name, own_session in (("pytest", False), ("rank0", True), ("rank1", True)):
                child = subprocess.Popen(["sleep", "600"], start_new_session=own_session)
                pathlib.Path(name).write_text(str(child.pid))
            child.wait()
    """
    started = client(file_of(test))
    hanging = numbers_of_hanging()
    started.kill()
    started.wait()
    wait_until(lambda: not any(map(is_alive, hanging)))


@pytest.mark.parametrize("way", ["its owner is killed", "it is told to"])
def test_a_zygote_that_ends_leaves_nothing(folder, way):
    with subprocess.Popen(["sleep", "600"]) as owner:
        started = Zygote(folder, owner.pid, ("pytest", "ranks"))
        with client(file_of(HANGS)) as hanging_client:
            hanging = numbers_of_hanging()
            if way == "it is told to":
                forked.end(started.folder)
            owner.kill()
            assert started.process.wait(100) == 0
            assert not any(map(is_alive, hanging))
            assert hanging_client.wait(100) == 1
            assert "the zygote has ended" in hanging_client.stdout.read()
    assert not folder.exists()


def test_what_another_zygote_has_forked_goes_on_when_one_ends(tmp_path, monkeypatch):
    started = []
    for name in ("first", "second"):
        folder = tmp_path / name / str(os.getpid())
        folder.mkdir(parents=True)
        monkeypatch.chdir(folder.parent)
        zygote = Zygote(folder, os.getpid(), ("pytest", "ranks"))
        started.append((zygote, client(file_of(HANGS)), numbers_of_hanging()))
    random.shuffle(started)
    for zygote, of_zygote, hanging in started:
        assert all(map(is_alive, hanging))
        forked.end(zygote.folder)
        zygote.process.wait()
        of_zygote.communicate()
        assert not any(map(is_alive, hanging))


def test_without_a_zygote_the_client_says_what_starts_one(folder):
    status, output = output_of("test_any.py")
    assert status == 1 and "where CTest's test python.zygote starts a zygote" in output


def test_a_zygote_that_cannot_import_says_why(folder):
    started = Zygote(folder, os.getpid(), ("not_to_be_found",))
    with pytest.raises(ConnectionError):
        run(started.folder, ["--version"])
    assert started.process.wait() == 1
    assert "No module named 'not_to_be_found'" in started.log.read_text()
