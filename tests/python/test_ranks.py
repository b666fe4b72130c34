"""The helper that the other tests run their ranks by: what it reports is what happened."""

import os
import signal

import pytest

from ranks import Ranks, run, values


def place(factor):
    import stretto

    print(f"I am {stretto.rank()}")
    return factor * stretto.rank(), stretto.size()


def exit_with_rank():
    raise SystemExit(int(os.environ["RANK"]))


def hang_in_this_function():
    signal.pause()


def test_values_come_by_rank():
    assert values(place, ranks=3, args=(10,)) == [(0, 3), (10, 3), (20, 3)]


def test_what_is_written_and_how_it_ended_comes_by_rank():
    assert [r.stdout for r in run(place, ranks=2, args=(1,))] == ["I am 0\n", "I am 1\n"]
    assert [(r.status, r.value) for r in run(exit_with_rank, ranks=3)] == [(0, None), (1, None), (2, None)]


def test_a_rank_that_failed_fails_the_test_with_what_it_said():
    with pytest.raises(AssertionError, match="rank 1, status 1"):
        values(exit_with_rank, ranks=2)


def test_a_rank_that_hangs_shows_where():
    for timeout in (1.5, 15, 150):  # on a busy machine the rank has not come to the function yet
        with pytest.raises(AssertionError) as raised:
            run(hang_in_this_function, ranks=1, timeout=timeout)
        if "hang_in_this_function" in str(raised.value):
            return
    pytest.fail(str(raised.value))


def test_a_killed_rank_has_the_signal_as_its_status():
    with Ranks(hang_in_this_function, ranks=2) as ranks:
        for process in ranks.processes:
            process.kill()
        assert [r.status for r in ranks.wait()] == [-signal.SIGKILL] * 2


def test_a_script_is_run_with_its_arguments(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import os, sys\nprint(os.environ['RANK'], sys.argv[1:])\n")
    assert [r.stdout for r in run(script, ranks=2, args=(5, "x"))] == ["0 ['5', 'x']\n", "1 ['5', 'x']\n"]
