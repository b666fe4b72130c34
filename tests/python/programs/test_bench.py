"""The benchmark of the package runs: what it measures is judged on a quiet machine."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ranks import run, said

BENCHMARK = Path(__file__).parents[3] / "microbench" / "python_step.py"
LONG = bool(os.environ.get("STRETTO_LONG_TESTS"))


def run_forked(arguments: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The benchmark in this process, whose ranks are forked: to import PyTorch takes longer than all that they do."""
    monkeypatch.syspath_prepend(BENCHMARK.parent)
    import python_step

    def run_ranks(ranks: int, settings: dict[str, object]) -> list[object]:
        own = folder / f"job{len(list(folder.iterdir()))}"
        own.mkdir()
        results = run(python_step.run_rank, ranks, args=(settings | {"folder": str(own)},))
        assert all(result.status == 0 for result in results), said(results)
        return [json.loads(result.stdout.splitlines()[-1]) for result in results]

    monkeypatch.setattr(python_step, "run_ranks", run_ranks)
    monkeypatch.setattr(sys, "argv", [str(BENCHMARK), *arguments])
    python_step.main()


def test_benchmark_runs_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "results.json"
    chosen = ["tensors", "small", "overlap", "slow-attached"]
    if LONG:
        chosen += ["large", "slow", "pause", "attached"]
    arguments = ["--once", "--only", ",".join(chosen), "--json", str(out)]
    if LONG:
        command = [sys.executable, str(BENCHMARK), *arguments]
        subprocess.run(command, check=True, timeout=600, stdout=subprocess.DEVNULL)
    else:
        run_forked(arguments, tmp_path, monkeypatch)
    results = json.loads(out.read_text())["results"]
    assert {row["benchmark"].split(" ")[0] for row in results} == {"100", *chosen[1:]}
    assert all(len(row["values"]) == 1 for row in results)
    # Both algorithms have made steps: sleeps are not what is measured.
    assert all(row["median"] > 0 for row in results if row["what"].startswith("a step"))


def test_the_interval_of_a_median(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARK.parent)
    import no_cost

    assert no_cost.interval([1.0] * 5) is None  # 2 / 2^5 is more than 5 %
    assert no_cost.interval([6.0, 1.0, 2.0, 5.0, 3.0, 4.0]) == (1.0, 6.0)
    assert no_cost.interval([float(value) for value in range(1, 11)]) == (2.0, 9.0)  # a table of the sign test
    assert no_cost.interval([float(value) for value in range(1, 21)]) == (6.0, 15.0)


def test_a_build_is_slower_where_all_of_the_interval_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARK.parent)
    import no_cost

    assert no_cost.judged([1.02, 1.03, 1.02, 1.04, 1.02, 1.05])[1]
    assert not no_cost.judged([1.02, 1.03, 1.0, 1.04, 1.02, 1.05])[1]
    assert not no_cost.judged([1.5] * 5)[1]  # too few to tell
