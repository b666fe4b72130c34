"""tools/check_headers and tools/check_sources on small trees of sources, each with one planted mistake."""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

PROJECT = pathlib.Path(__file__).resolve().parents[2]
COUNTER = """#pragma once
#include "stretto/base/mutex.h"
namespace stretto {
class Counter {
 public:
  void add() {%s ++count_; }

 private:
  Mutex mutex_;
  int count_ GUARDED_BY(mutex_) = 0;
};
}  // namespace stretto
"""


class Tree:
    """A checkout with the annotations of base and the given files; each .cc is one that CMake knows."""

    def __init__(self, files):
        self._folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self._folder.name)
        for name in (".clang-tidy", "stretto/base/mutex.h", "stretto/base/clock.h"):
            files = {**files, name: (PROJECT / name).read_text()}
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        commands = [{"directory": str(self.root), "file": str(self.root / name),
                     "command": f"g++ -std=c++20 -I{self.root} -c {name}"} for name in files if name.endswith(".cc")]
        (self.root / "build").mkdir()
        (self.root / "build" / "compile_commands.json").write_text(json.dumps(commands))

    def run(self, tool):
        """(exit status, output)"""
        done = subprocess.run([sys.executable, PROJECT / "tools" / tool, "--root", self.root, "--build", "build", "-j2"],
                              capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._folder.cleanup()


class CheckSources(unittest.TestCase):
    def test_a_member_used_without_its_mutex(self):
        with Tree({"stretto/base/counter.h": COUNTER % "",
                   "stretto/base/counter.cc": '#include "stretto/base/counter.h"\n'}) as tree:
            status, output = tree.run("check_sources")
            self.assertEqual(status, 1, output)
            self.assertIn("requires holding mutex 'mutex_'", output)

    def test_a_pass_is_remembered_until_a_header_changes(self):
        with Tree({"stretto/base/counter.h": COUNTER % " MutexLock lock(mutex_);",
                   "stretto/base/counter.cc": '#include "stretto/base/counter.h"\n'}) as tree:
            self.assertEqual(tree.run("check_sources"), (0, "1 checks: 0 known to pass, 1 passed now, 0 failed\n"))
            self.assertEqual(tree.run("check_sources"), (0, "1 checks: 1 known to pass, 0 passed now, 0 failed\n"))
            (tree.root / "stretto/base/counter.h").write_text(COUNTER % "")
            status, output = tree.run("check_sources")
            self.assertEqual(status, 1, output)

    def test_sources_that_do_not_go_together_pass_by_themselves(self):
        with Tree({"stretto/base/long.cc": "typedef long Count;\n", "stretto/base/short.cc": "typedef short Count;\n"}) as tree:
            self.assertEqual(tree.run("check_sources"), (0, "2 checks: 0 known to pass, 2 passed now, 0 failed\n"))

    def test_of_sources_together_the_one_that_fails_is_named(self):
        with Tree({"stretto/base/one.cc": "int one();\n", "stretto/base/two.cc": "int Two();\n"}) as tree:
            status, output = tree.run("check_sources")
            self.assertEqual(status, 1, output)
            self.assertIn("stretto/base/two.cc: failed", output)
            self.assertIn("2 checks: 0 known to pass, 1 passed now, 1 failed", output)

    def test_a_name_of_another_style(self):
        with Tree({"stretto/base/sum.cc": "int SumOf(int a, int b) { return a + b; }\n"}) as tree:
            status, output = tree.run("check_sources")
            self.assertEqual(status, 1, output)
            self.assertIn("SumOf", output)

    def test_a_test_that_cmake_does_not_know(self):
        with Tree({"stretto/base/sum.cc": "int sum_of(int a, int b) { return a + b; }\n"}) as tree:
            (tree.root / "stretto/base/sum_test.cc").write_text("\n")
            status, output = tree.run("check_sources")
            self.assertEqual(status, 1, output)
            self.assertIn("stretto/base/sum_test.cc: in no CMakeLists.txt", output)


class CheckHeaders(unittest.TestCase):
    def test_headers_that_compile_alone(self):
        with Tree({}) as tree:
            self.assertEqual(tree.run("check_headers"), (0, "2 checks: 0 known to pass, 2 passed now, 0 failed\n"))

    def test_a_header_that_its_own_source_includes_first(self):
        files = {"stretto/base/names.h": "#pragma once\n#include <string>\nstd::string name();\n",
                 "stretto/base/names.cc": '#include "stretto/base/names.h"\n#include <vector>\n'}
        with Tree(files) as tree:
            self.assertEqual(tree.run("check_headers"), (0, "2 checks: 0 known to pass, 2 passed now, 0 failed\n"))
        files["stretto/base/names.cc"] = '#include <string>\n#include "stretto/base/names.h"\n'
        files["stretto/base/names.h"] = "#pragma once\nstd::string name();\n"
        with Tree(files) as tree:
            self.assertEqual(tree.run("check_headers")[0], 1)

    def test_a_header_that_needs_another_before_it(self):
        with Tree({"stretto/base/names.h": "#pragma once\nstd::string name();\n"}) as tree:
            status, output = tree.run("check_headers")
            self.assertEqual(status, 1, output)
            self.assertIn("stretto/base/names.h", output)


if __name__ == "__main__":
    unittest.main()
