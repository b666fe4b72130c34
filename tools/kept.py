"""What tools keep from one run to the next: in the compiler cache's folder, since a runner that keeps anything keeps that.

`python3 -B tools/kept.py` prints the folder. It may be deleted at any time.
"""

import functools
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent


@functools.cache
def folder():
    """.cache of the checkout where there is no compiler cache."""
    try:
        found = subprocess.run(["ccache", "--get-config", "cache_dir"], capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        found = ""
    path = pathlib.Path(found) / "stretto" if found else ROOT / ".cache"
    path.mkdir(parents=True, exist_ok=True)
    return path


if __name__ == "__main__":
    print(folder())
