"""What is installed: fifteen headers, one of the program, what these include below detail, nothing else. Each compiles alone."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = sys.argv.pop()
API, DETAIL = 15, 49


class Headers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        subprocess.run(["cmake", "--install", BUILD, "--prefix", folder.name], check=True, stdout=subprocess.DEVNULL)
        cls.include = pathlib.Path(folder.name, "include")
        cls.headers = sorted(str(path.relative_to(cls.include)) for path in cls.include.rglob("*") if path.is_file())
        cls.api = [name for name in cls.headers if not name.startswith("stretto/detail/")]
        cls.library = [name for name in cls.api if name != "stretto/command.h"]

    def test_there_are_few_and_few_behind_them(self):
        self.assertLessEqual(len(self.library), API, self.library)
        self.assertLessEqual(len(self.headers) - len(self.api), DETAIL, self.headers)
        self.assertIn("stretto/membership/job.h", self.api)

    def test_no_helper_of_tests_is_among_them(self):
        self.assertEqual([name for name in self.headers if "test" in name or not name.endswith(".h")], [])

    def assert_compiles(self, compiler, names):
        source = "".join(f'#include "{name}"\n' for name in names)
        result = subprocess.run([compiler, "-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
                                 "-Wno-missing-field-initializers", "-I", self.include, "-x", "c++", "-"],
                                cwd=self.include, input=source, text=True, capture_output=True, check=False)
        self.assertEqual(result.returncode, 0, f"{compiler}\n{source}{result.stderr}")

    def test_each_compiles_alone(self):
        if shutil.which("clang++") is None:
            self.skipTest("clang++ is not installed")
        for name in self.api:
            self.assert_compiles("clang++", [name])

    def test_all_compile_together(self):
        self.assert_compiles("c++", self.api)


if __name__ == "__main__":
    unittest.main(verbosity=2)
