"""tools/check_api on copies of the headers, each with one planted mistake."""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

PROJECT = pathlib.Path(__file__).resolve().parents[2]
PASSES = (0, "api: every public member has its comment\n")


@unittest.skipUnless(shutil.which("doxygen"), "doxygen is not installed")
class CheckApi(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        for path in [*PROJECT.glob("stretto/**/*.h"), *PROJECT.glob("cmake/install*.cmake"), *PROJECT.glob("docs/api.*")]:
            copy = self.root / path.relative_to(PROJECT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)

    def run_tool(self, *options):
        """(exit status, output)"""
        done = subprocess.run([sys.executable, PROJECT / "tools" / "check_api", "--root", self.root, *options],
                              capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def change(self, name, old, new):
        path = self.root / name
        text = path.read_text(encoding="utf-8")
        self.assertEqual(text.count(old), 1, f"{name}: {old}")
        path.write_text(text.replace(old, new), encoding="utf-8")
        return text[:text.index(old)].count("\n") + 1

    def expect_finding(self, place, words):
        status, output = self.run_tool()
        first = output.split("\n")[0]
        self.assertEqual(status, 1, output)
        self.assertTrue(first.startswith(place + ": ") and words in first, output)

    def test_headers_that_are_right(self):
        self.assertEqual(self.run_tool(), PASSES)

    def test_function_without_its_comment(self):
        line = self.change("stretto/schedule/print.h", "/// For a person: ", "// For a person: ")
        self.expect_finding(f"stretto/schedule/print.h:{line + 1}", "to_text(const Schedule &schedule) (function)")

    def test_option_without_its_comment(self):
        name = "stretto/train/options/distributed_options.h"  # installed below stretto/detail/
        text = (self.root / name).read_text(encoding="utf-8")
        comment = re.search(r"int max_lag = 4;( *///<[^\n]*)", text).group(1)
        line = self.change(name, comment, "")
        self.expect_finding(f"{name}:{line}", "max_lag")

    def test_parameter_that_is_not_there(self):
        self.change("stretto/schedule/print.h", "/// For a person: ", "/// \\param plan  is none\n/// For a person: ")
        status, output = self.run_tool()
        self.assertEqual(status, 1, output)
        self.assertRegex(output, r"(?m)^stretto/schedule/print\.h:\d+: .*'plan'.*not found")

    def test_reference_to_what_is_not_there(self):
        line = self.change("stretto/schedule/print.h", "/// For a person: ", "/// \\ref to_html\n/// For a person: ")
        self.expect_finding(f"stretto/schedule/print.h:{line}", "to_html")

    def test_member_that_has_gone(self):
        line = self.change("stretto/schedule/print.h", "/// For a person: ", "/// See Schedule::to_html(). ")
        self.expect_finding(f"stretto/schedule/print.h:{line}", "Schedule::to_html")

    def test_page_that_names_what_is_not_there(self):
        line = self.change("docs/api.md", "stretto::JobOptions", "stretto::Options")
        self.expect_finding(f"docs/api.md:{line}", "stretto::Options")

    def test_header_that_comes_new(self):
        (self.root / "stretto/base/new.h").write_text("#pragma once\nnamespace stretto {\nint added();\n}\n")
        self.change("stretto/schedule/print.h", "#include <string>\n", '#include "stretto/base/new.h"\n')
        self.expect_finding("stretto/base/new.h:3", "added")

    def test_pattern_that_excludes_nothing(self):
        line = self.change("docs/api.doxyfile", "*/detail/base/words.h", "*/detail/base/gone.h */detail/base/words.h")
        self.expect_finding(f"docs/api.doxyfile:{line}", "base/gone.h")

    def test_pages_are_of_the_headers_with_the_paths_they_are_installed_at(self):
        html = self.root / "build" / "api"
        self.assertEqual(self.run_tool("--html", html), PASSES)
        self.assertIn("classstretto_1_1PartialAllreduce.html", (html / "index.html").read_text(encoding="utf-8"))
        page = (html / "structstretto_1_1DistributedOptions.html").read_text(encoding="utf-8")
        self.assertIn("stretto/detail/train/options/distributed_options.h", page)
        self.assertFalse((html / "classstretto_1_1Inbox.html").exists())


if __name__ == "__main__":
    unittest.main()
