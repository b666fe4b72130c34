"""`stretto` and `python -m stretto`: the program that lies in the package."""

import os
import pathlib
import sys


def main() -> None:
    """Becomes the program, with the same arguments."""
    program = pathlib.Path(__file__).parent / "bin" / "stretto"
    os.environ["STRETTO_PYTHON"] = sys.executable  # what `stretto compare FILE.py:FUNCTION` runs it by
    os.execv(program, ["stretto", *sys.argv[1:]])


if __name__ == "__main__":
    main()
