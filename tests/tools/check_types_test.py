"""tools/check_types on small trees of sources, with and without a planted clash."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "check_types"
BASE = {
    "stretto/board/seat.h": "namespace stretto {\nclass Seat;\nclass Seat final : public Place<int> {\n  struct Word {};\n};\n}\n",
    "stretto/engine/round.h": 'namespace stretto {\n/// class Seat { "\nstruct Round {\n  struct Word {};\n  int a = 1;\n};\n}\n',
    "stretto/engine/round.cc": "#define A { \\\n  {\nnamespace stretto {\nnamespace {\nstruct Seat {};\n}\nvoid f() { struct Round {}; }\n}\n",
    "command/main.cc": 'namespace stretto::command {\nstruct Round { char quote = \'"\'; };\n}\n',
    "stretto/engine/traits.h": "namespace stretto {\ntemplate <>\nstruct Traits<int> {};\ntemplate <>\nstruct Traits<char> {};\n}\n",
    "examples/one/main.cc": "struct Job {};\n",
    "examples/two/main.cc": "struct Job {};\n",
}


def run_on(files):
    """(exit status, output) of the tool on these files."""
    with tempfile.TemporaryDirectory() as root:
        for name, text in files.items():
            path = pathlib.Path(root, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        done = subprocess.run([sys.executable, TOOL, root], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr


class CheckTypes(unittest.TestCase):
    def test_names_that_differ(self):
        self.assertEqual(run_on(BASE), (0, "types: each has a name of its own\n"))

    def test_two_headers(self):
        files = {**BASE, "stretto/board/place.h": "namespace stretto {\n\nstruct Round {\n};\n}\n"}
        self.assertEqual(run_on(files),
                         (1, "stretto/engine/round.h:3: stretto::Round is defined in stretto/board/place.h:3, too\n"))

    def test_a_source_without_an_unnamed_namespace(self):
        files = {**BASE, "stretto/board/seat.cc": "namespace stretto {\nenum class Round { odd };\n}\n"}
        self.assertEqual(run_on(files),
                         (1, "stretto/engine/round.h:3: stretto::Round is defined in stretto/board/seat.cc:2, too\n"))


if __name__ == "__main__":
    unittest.main()
