"""What CTest runs: in_zygote.py ACTION FOLDER [ARGUMENT ...], with one zygote for all files of tests.

start: makes the zygote, which ends with the CTest that runs this. run: pytest with the arguments, in a process that is
forked from it, and which is killed where this one is killed. end: ends it. Each CTest has a zygote of its own, in
FOLDER, so that several at a time do not meet, also in one build tree.
"""

from __future__ import annotations

import os
import sys

import forked


def run(zygote: str, arguments: list[str]) -> int:
    process = forked.start(zygote, "pytest", arguments, dict(os.environ), os.getcwd(), (0, 1, 2))
    status = process.wait()
    if status < 0:
        print(f"pytest was killed by signal {-status}", file=sys.stderr)
    return abs(status)


def start(zygote: str) -> int:
    import shutil

    from zygote import Zygote

    package = os.environ.get("PYTHONPATH")
    if package and not os.path.exists(f"{package}/stretto/__init__.py"):  # another one would be tested unnoticed
        print(f"{package} holds no package stretto", file=sys.stderr)
        return 1
    shutil.rmtree(zygote, ignore_errors=True)  # of an earlier CTest that had this number
    os.makedirs(zygote, mode=0o700)
    started = Zygote(zygote, os.getppid())
    try:
        return run(zygote, ["--version"])
    except ConnectionError as error:
        print(f"{error}\n{started.log.read_text(errors='replace')}", file=sys.stderr)
        return 1


def main() -> int:
    action, folder, *arguments = sys.argv[1:]
    zygote = os.path.join(folder, str(os.getppid()))
    if action == "start":
        return start(zygote)
    try:
        if action == "run":
            return run(zygote, arguments)
        forked.end(zygote)
        return 0
    except OSError as error:
        print(f"{zygote}, where CTest's test python.zygote starts a zygote: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
