"""The Python package in empty environments of each Python that it supports: installed, imported without Torch, and run.

Pythons are those on PATH, or, before these, in the folders or files that STRETTO_PYTHONS names, separated by colons. A
Python that is not found is skipped. Figures are printed: `ctest --test-dir build/release -R python.versions -V` shows
them; the assertion on time is ten times what is promised.
"""

import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import unittest

from wheel import make_wheel, problems, run

SERVED = {"3.10": "3.10", "3.11": "3.11", "3.12": "3.12", "3.13": "3.12"}  # Python: the one its wheel is made with
MOST_SECONDS = 0.050
IMPORT = """import sys, time
start = time.perf_counter()
import stretto
print(time.perf_counter() - start)
assert "torch" not in sys.modules
"""


def find_python(version):
    """The program of that Python, or None. A shim that has no Python behind it is none."""
    named = [place for place in os.environ.get("STRETTO_PYTHONS", "").split(":") if place]
    names = ("", f"/python{version}", f"/bin/python{version}")
    candidates = [place + name for place in named for name in names]
    candidates += filter(None, [shutil.which(f"python{version}"), f"/usr/bin/python{version}"])
    for candidate in candidates:
        if not os.path.isfile(candidate):
            continue
        done = subprocess.run([candidate, "-c", "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"],
                              capture_output=True, text=True, check=False)
        if done.returncode == 0 and done.stdout.strip() == version:
            return candidate
    return None


class Versions(unittest.TestCase):
    made = {}

    def wheel_for(self, version):
        maker = find_python(SERVED[version]) or find_python(version)
        name = SERVED[version]
        if name not in self.made:
            own = name == f"{sys.version_info.major}.{sys.version_info.minor}"
            self.made[name] = make_wheel() if own else make_wheel(maker)
        return self.made[name]

    def check(self, version):
        python = find_python(version)
        if python is None:
            self.skipTest(f"no Python {version} on PATH or in STRETTO_PYTHONS")
        wheel = self.wheel_for(version)
        with tempfile.TemporaryDirectory() as work:
            work = pathlib.Path(work)
            self.assertEqual(problems(wheel, work / "unpacked"), [])
            run(python, "-m", "venv", work / "empty")
            bare = work / "empty" / "bin"
            run(bare / "python", "-m", "pip", "install", "--disable-pip-version-check", "--no-index", wheel)
            seconds = statistics.median(float(run(bare / "python", "-c", IMPORT, cwd=work)) for _ in range(11))
            print(f"Python {version}, {wheel.name}: {wheel.stat().st_size / 1e6:.2f} MB; "
                  f"import stretto without Torch: {seconds * 1e3:.1f} ms (median of 11)")
            self.assertLess(seconds, 10 * MOST_SECONDS)
            program = run(bare / "stretto", "--version", cwd=work)
            self.assertEqual(program, f"stretto {wheel.name.split('-')[1]}\n")
            self.assertIn("no violation", run(bare / "python", "-m", "stretto", "check", "--rounds", "1000", cwd=work))
            run(bare / "python", "-m", "pip", "check", "--disable-pip-version-check")

    def test_3_10(self):
        self.check("3.10")

    def test_3_11(self):
        self.check("3.11")

    def test_3_12(self):
        self.check("3.12")

    def test_3_13(self):
        self.check("3.13")


if __name__ == "__main__":
    unittest.main()
