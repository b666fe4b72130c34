"""`stretto compare FILE.py:FUNCTION`, by the program of the package."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

TRAIN = """
import os

import stretto
import torch


def train():
    torch.set_num_threads(1)
    torch.manual_seed(int(os.environ["STRETTO_SEED"]))
    model = torch.nn.Linear(4, 1)
    optimizer = stretto.Optimizer(torch.optim.SGD(model.parameters(), 0.01), model)
    for _ in range(12):
        optimizer.zero_grad()
        model(torch.ones(1, 4)).sum().backward()
        optimizer.step()
    optimizer.finish()
    return 0.5 + stretto.rank()


def fail():
    raise LookupError("no such word")
"""


def compare(folder: pathlib.Path, function: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "training.py").write_text(TRAIN)
    command = [sys.executable, "-m", "stretto", "compare", f"{folder / 'training.py'}:{function}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)


def test_a_function_is_compared(tmp_path: pathlib.Path) -> None:
    ended = compare(tmp_path, "train", "--algorithms", "sync,eager-quorum", "--ranks", "2", "--repeats", "1")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    for algorithm in ("sync", "eager-quorum"):
        (row,) = re.findall(rf"^ *{algorithm} +\d.*", ended.stdout, re.MULTILINE)
        assert re.search(r"\s1\.00\s", row), ended.stdout  # the metric: the mean of 0.5 and 1.5


def test_what_is_wrong_with_the_function_is_said(tmp_path: pathlib.Path) -> None:
    unknown = compare(tmp_path, "trian", "--algorithms", "sync", "--ranks", "2")
    assert unknown.returncode == 2 and "training.py has no function trian: did you mean train?" in unknown.stderr
    failed = compare(tmp_path, "fail", "--algorithms", "sync", "--ranks", "2")
    assert failed.returncode != 0 and "LookupError: no such word" in failed.stderr, failed.stdout + failed.stderr
