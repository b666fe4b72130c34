"""Strangers' scripts under `stretto run`: what they find where torchrun would have started them."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "STRETTO_JOB")

# Sums over the ranks, by torch.distributed alone.
GLOO = """
import os, torch
import torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(total)
print_line = {"rank": dist.get_rank(), "size": dist.get_world_size(), "sum": total.item(),
              "launched": dist.is_torchelastic_launched(), "threads": int(os.environ["OMP_NUM_THREADS"])}
dist.destroy_process_group()
"""

ACCELERATE = """
from accelerate import PartialState
state = PartialState(cpu=True)
print_line = {"rank": state.process_index, "size": state.num_processes, "local": state.local_process_index}
state.destroy_process_group()
"""

LIGHTNING = """
from lightning.fabric.plugins.environments import TorchElasticEnvironment
assert TorchElasticEnvironment.detect()
found = TorchElasticEnvironment()
found.validate_settings(num_devices=2, num_nodes=1)
print_line = {"rank": found.global_rank(), "size": found.world_size(), "local": found.local_rank(),
              "node": found.node_rank(), "external": found.creates_processes_externally, "port": found.main_port > 0}
"""

PRINT = """
import json, os
os.write(1, (json.dumps(print_line) + "\\n").encode())  # at once: ranks share the pipe
"""


def run(folder: pathlib.Path, ranks: int | str, text: str, environment: dict[str, str]) -> subprocess.Popen[str]:
    script = folder / "script.py"
    script.write_text(text + PRINT)
    kept = {name: value for name, value in os.environ.items() if name not in (*LAUNCHERS, "OMP_NUM_THREADS")}
    return subprocess.Popen(
        [sys.executable, "-m", "stretto", "run", "--ranks", str(ranks), "--", sys.executable, str(script)],
        env={**kept, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def lines_of(job: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """Those of the ranks, in their order, once the job has ended."""
    try:
        out, errors = job.communicate(timeout=240)
    finally:
        job.kill()
    assert job.returncode == 0, out + errors
    return sorted(map(json.loads, out.splitlines()), key=lambda line: line["rank"])


def test_torch_distributed_in_two_jobs_at_once(tmp_path: pathlib.Path) -> None:
    threads = {"OMP_NUM_THREADS": "3"}
    jobs = [run(tmp_path, 2, GLOO, environment) for environment in ({}, threads)]
    share = max(1, len(os.sched_getaffinity(0)) // 2)
    for job, expected in zip(jobs, (share, 3), strict=True):
        assert lines_of(job) == [
            {"rank": rank, "size": 2, "sum": 3.0, "launched": True, "threads": expected} for rank in range(2)
        ]


def test_inside_a_job_of_torchrun_s(tmp_path: pathlib.Path) -> None:
    outer = {"RANK": "3", "WORLD_SIZE": "5", "LOCAL_RANK": "3", "MASTER_PORT": "1", "MASTER_ADDR": "nowhere"}
    outer |= {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RUN_ID": "none"}
    found = lines_of(run(tmp_path, 2, GLOO, outer))
    assert [(line["size"], line["sum"]) for line in found] == [(2, 3.0)] * 2


def test_accelerate(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("accelerate")
    found = lines_of(run(tmp_path, 2, ACCELERATE, {"ACCELERATE_USE_CPU": "true"}))
    assert found == [{"rank": rank, "size": 2, "local": rank} for rank in range(2)]


def test_lightning(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("lightning")
    expected = {"size": 2, "node": 0, "external": True, "port": True}
    assert lines_of(run(tmp_path, 2, LIGHTNING, {})) == [{**expected, "rank": rank, "local": rank} for rank in range(2)]
