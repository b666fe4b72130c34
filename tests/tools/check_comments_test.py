"""tools/check_comments on small headers, with and without a planted comment that names no subject."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "check_comments"
BASE = """#pragma once
/// A seat at a board.
/// What it holds stands in the next line of the same comment.
/// It may. Those may. One that may.
struct Seat {
  int rank = 0;   ///< the rank that sits here.
                  ///< What goes on in the second line.
  int other = 0;  // Whatever; Items; One thatch
  // https://example.org/What
};
"""


def run_on(header, name="stretto/board/seat.h"):
    """(exit status, output) of the tool on this header."""
    with tempfile.TemporaryDirectory() as root:
        path = pathlib.Path(root, name)
        path.parent.mkdir(parents=True)
        path.write_text(header)
        done = subprocess.run([sys.executable, TOOL, root], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr


class CheckComments(unittest.TestCase):
    def test_subjects_that_are_named(self):
        self.assertEqual(run_on(BASE), (0, "comments: each begins with its subject\n"))

    def test_each_word_on_its_own_line_and_behind_code(self):
        header, expected = BASE, ""
        for word in ("One that", "Those", "What", "It"):
            for line in ("/// {} sits.\n", "//! {} sits.\n", "  // {}\n", "int a;  ///< {} sits\n", "int a;  // {}: sits\n"):
                header += "int gap;\n" + line.format(word)
                number = header.count("\n")
                expected += f'stretto/board/seat.h:{number}: a comment begins with "{word}": name its subject\n'
        self.assertEqual(run_on(header), (1, expected))

    def test_a_comment_below_the_comment_of_a_member(self):
        status, output = run_on("int a;  ///< a number\n/// What b is.\nint b;\n")
        self.assertEqual((status, output.split(": ")[0]), (1, "stretto/board/seat.h:2"))

    def test_sources_are_left_alone(self):
        self.assertEqual(run_on("// What it is.\n", "stretto/board/seat.cc")[0], 0)


if __name__ == "__main__":
    unittest.main()
