"""What an installation of the wheel has beside the package: its description, and the program on PATH."""

import importlib.metadata
import pathlib
import subprocess
import sys

import stretto


def test_one_version_of_package_and_program() -> None:
    assert importlib.metadata.version("stretto") == stretto.__version__
    script = pathlib.Path(sys.executable).parent / "stretto"
    done = subprocess.run([str(script), "--version"], capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout == f"stretto {stretto.__version__}\n", done.stderr


def test_needs_nothing_but_torch_where_it_is_asked_for() -> None:
    requirements = importlib.metadata.requires("stretto") or []
    assert [requirement.replace('"', "'") for requirement in requirements] == ["torch>=2.4; extra == 'torch'"]


def test_program_says_what_training_needs() -> None:
    command = [sys.executable, "-m", "stretto", "train", "hyperplane"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode != 0
    assert "this build cannot train" in done.stderr
    assert "make build" in done.stderr
