"""What `stretto compare FILE.py:FUNCTION` runs: `python -m stretto._compare_entry FILE FUNCTION ARGUMENTS…`, a run by
the algorithm that the environment names. With --check before FILE it says in a line what is wrong with them.
"""

from __future__ import annotations

import ast
import difflib
import importlib.util
import json
import os
import pathlib
import sys

from stretto._compare import number_of, run_on_ranks, text_of
from stretto._errors import UsageError

_RANKS = 4  # where the environment has no other number


def check(file: str, function: str) -> str:
    """What is wrong with a function of a file; empty: nothing. Does not run the file."""
    name = pathlib.Path(file).name
    try:
        tree = ast.parse(pathlib.Path(file).read_bytes(), file)
    except (SyntaxError, ValueError, OSError) as error:
        return f"{name}: {error}"
    known: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            known.append(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            known.append(node.id)  # as train = functools.partial(…)
        elif isinstance(node, ast.alias):
            known.append(node.asname or node.name)
    if function in known or "*" in known:
        return ""
    near = difflib.get_close_matches(function, known, 1)
    return f"{name} has no function {function}" + (f": did you mean {near[0]}?" if near else "")


def call(rank: int, file: str, function: str) -> float | None:
    """On each rank: imports the file, not as `__main__`, and calls its function."""
    path = pathlib.Path(file)
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    found = getattr(module, function, None)
    if not callable(found):
        raise UsageError(f"{path.name} has no function {function}")
    return number_of(found())


def run(file: str, function: str) -> None:
    """One run on all ranks. What the ranks return becomes a number of the report in STRETTO_OUT."""
    metric = run_on_ranks(call, (file, function), int(os.environ.get("STRETTO_RANKS", _RANKS)), {})
    path = pathlib.Path(os.environ.get("STRETTO_OUT", "."), "optimizer-0", "report.json")
    if metric is None or not path.exists():
        return
    report = json.loads(path.read_text(encoding="utf-8"))
    report["recorded"]["metric"] = metric
    path.write_text(json.dumps(report, indent=2), encoding="utf-8")


def main(arguments: list[str]) -> None:
    if arguments[0] == "--check":
        sys.stdout.write(check(*arguments[1:]))
        return
    file, function, *rest = arguments
    sys.argv = [file, *rest]
    try:
        run(file, function)
    except Exception as error:
        raise SystemExit(f"{error.__cause__ or ''}\n{text_of(error)}") from None


if __name__ == "__main__":
    main(sys.argv[1:])
