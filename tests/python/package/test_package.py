"""The package: its version, its program, and what importing it brings along."""

import ast
import inspect
import pathlib
import subprocess
import sys

import stretto
from stretto import _core
from stretto._replica import Replica

PROGRAM = [sys.executable, "-m", "stretto"]


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_one_version_of_package_and_program() -> None:
    assert run(*PROGRAM, "--version").stdout == f"stretto {stretto.__version__}\n"


def test_the_stub_of_the_binding_has_all_its_names() -> None:
    """What the classes have is compared by stubtest, in tools/lint."""
    stub = ast.parse(pathlib.Path(str(_core.__file__)).with_name("_core.pyi").read_text(encoding="utf-8"))
    named = {part.name for part in stub.body if isinstance(part, (ast.ClassDef, ast.FunctionDef))}
    assert named == {name for name in vars(_core) if not name.startswith("_")}
    assert {"Job", "Loop", "algorithms"} <= named


def test_the_binding_calls_the_methods_of_the_protocol() -> None:
    """That Tensors has them, with these types, is seen where it is handed to the binding, by mypy."""
    methods = {name for name, value in vars(Replica).items() if inspect.isfunction(value) and name[0] != "_"}
    assert methods == set(_core.replica_methods())


def test_import_leaves_torch_alone() -> None:
    done = run(sys.executable, "-c", "import stretto, sys; print('torch' in sys.modules)")
    assert done.stdout == "False\n", done.stderr


def test_elsewhere_than_on_linux_it_says_what_it_needs() -> None:
    done = run(sys.executable, "-c", "import sys; sys.platform = 'darwin'; import stretto")
    assert done.stderr.splitlines()[-1].startswith("stretto._errors.UsageError: stretto on darwin: needs Linux, where")


def test_program_checks_the_protocol() -> None:
    done = run(*PROGRAM, "check", "--rounds", "1000")
    assert done.returncode == 0, done.stderr


def test_program_passes_its_exit_status_on() -> None:
    assert run(*PROGRAM, "check", "--rounds", "many").returncode == 2
