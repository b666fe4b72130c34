"""The benchmark of the package runs: what it measures is judged on a quiet machine."""

import json
import os
import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).parents[2] / "microbench" / "python_step.py"


def test_benchmark_runs_once(tmp_path: Path) -> None:
    out = tmp_path / "results.json"
    chosen = ["tensors", "small", "overlap", "slow-attached"]
    if os.environ.get("STRETTO_LONG_TESTS"):
        chosen += ["large", "slow", "pause", "attached"]
    command = [sys.executable, str(BENCHMARK), "--once", "--only", ",".join(chosen), "--json", str(out)]
    subprocess.run(command, check=True, timeout=600, stdout=subprocess.DEVNULL)
    results = json.loads(out.read_text())["results"]
    assert {row["benchmark"].split(" ")[0] for row in results} == {"100", *chosen[1:]}
    assert all(len(row["values"]) == 1 for row in results)
    # Both algorithms have made steps: sleeps are not what is measured.
    assert all(row["median"] > 0 for row in results if row["what"].startswith("a step"))
