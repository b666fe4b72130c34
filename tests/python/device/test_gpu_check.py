"""tools/gpu_check: with the made-up device each section runs to its end; with a GPU, where there is one."""

import importlib.machinery
import importlib.util
import json
import pathlib
import subprocess
import sys

import pytest

TOOL = pathlib.Path(__file__).parents[3] / "tools/gpu_check"


def check(*options, timeout):
    return subprocess.run(
        [sys.executable, TOOL, *options], capture_output=True, text=True, timeout=timeout, check=False
    )


@pytest.fixture(scope="module")
def tool():
    loader = importlib.machinery.SourceFileLoader("gpu_check", str(TOOL))
    loaded = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
    loader.exec_module(loaded)
    return loaded


def test_sections_leave_time_for_the_start(tool):
    assert sum(tool.SECTIONS.values()) <= tool.BUDGET - 10


def test_made_up_device(tmp_path, tool):
    done = check("--fake", "--out", tmp_path, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads((tmp_path / "gpu_check.json").read_text())
    assert list(results) == list(tool.SECTIONS)
    assert {found["state"] for found in results.values()} == {"complete"}
    passed = {line["case"]: line["passed"] for found in results.values() for line in found["rows"] if "case" in line}
    assert all(passed.values())
    left_out = "left out: compute_after() waits"
    for name in ("1 ranks: Plain", "4 ranks: LateUnderQuorum", left_out, "rank 1 is killed, 1"):
        assert name in passed
    assert "made-up device, toy sizes: no number below is a measurement" in done.stdout


def test_hardware(tmp_path):
    done = check("--out", tmp_path, timeout=900)
    if done.returncode == 77:
        assert done.stdout == "no GPU: nothing was checked\n"
        pytest.skip("no GPU: nothing was checked")
    assert done.returncode == 0, done.stdout + done.stderr


def section(says):
    """What starts a section that is this Python program."""
    return lambda _, output: subprocess.Popen([sys.executable, "-S", "-c", says], stdout=output, stderr=output)


def test_what_went_wrong_is_told(tool, capsys):
    row = '{"what": "a copy", "value": 60, "unit": "ms", "limit": 27, "goal": 40}'
    case = '{"case": "bits", "passed": false, "why": "off by 1"}'
    results = {
        "hangs": tool.run_section("hangs", section("import time; print('so far', flush=True); time.sleep(600)"), 1),
        "raises": tool.run_section("raises", section("raise ValueError('seven')"), 60),
        "fails": tool.run_section("fails", section(f"print('{row}'); print('{case}')"), 60),
    }
    assert [found["state"] for found in results.values()] == ["cut off", "ended with status 1", "complete"]
    assert tool.tell(results, made_up=False) == 3
    said = capsys.readouterr().out
    assert "so far" in said
    assert "ValueError: seven" in said
    assert "a copy" in said and "60 ms; limit 27; goal 40; missed by 20" in said
    assert "FAILED bits: off by 1" in said
