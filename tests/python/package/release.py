"""Makes the wheels of a release and checks them: each Python and machine that is served, from one C library on.

It fails where a Python is not found: a release has all wheels. `make wheels` runs it, with Pythons on PATH or in
STRETTO_PYTHONS, as versions.py beside it looks for them.
"""

import re
import sys
import tempfile
import unittest
from pathlib import Path

from versions import SERVED, find_python
from wheel import make_wheel, problems

GLIBC = 28  # 2.28, of 2018
MACHINES = ("x86_64", "aarch64")


class Release(unittest.TestCase):
    def test_each_wheel(self):
        for version in sorted(set(SERVED.values())):
            for machine in MACHINES:
                with self.subTest(version, machine=machine):
                    self.check(version, machine)

    def check(self, version, machine):
        own = version == "%d.%d" % sys.version_info[:2]
        python = sys.executable if own else find_python(version)
        self.assertIsNotNone(python, f"no Python {version} on PATH or in STRETTO_PYTHONS")
        wheel = make_wheel("--target", f"{machine}-linux-gnu.2.{GLIBC}", *([] if own else [python]))
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.2f} MB")
        with tempfile.TemporaryDirectory() as work:
            self.assertEqual(problems(wheel, Path(work)), [])
            self.assertTrue((Path(work) / "stretto" / "_core.pyi").exists())
        tag = re.search(rf"manylinux_2_(\d+)_{machine}", wheel.name)
        self.assertIsNotNone(tag, wheel.name)
        self.assertLessEqual(int(tag[1]), GLIBC, wheel.name)


if __name__ == "__main__":
    unittest.main()
