"""tools/check_citations on small projects, each with one planted mistake."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "check_citations"
BASE = {"docs/protocol.md": "The board: `board/seat.h`; see [threads](threads.md) and docs/protocol.md.\n",
        "docs/threads.md": "Back to [the rooms](../ARCHITECTURE.md); https://example.org/far/away.md is not ours.\n",
        "ARCHITECTURE.md": "`docs/protocol.md`\n",
        "stretto/board/seat.h": '#include "stretto/none/such.h"\n#include <linux/futex.h>\n// docs/protocol.md, rule 2\n'}


def run_on(files):
    """(exit status, output) of the tool in a repository with these files."""
    with tempfile.TemporaryDirectory() as root:
        for name, text in files.items():
            path = pathlib.Path(root, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        subprocess.run(["git", "init", "-q", root], check=True)
        done = subprocess.run([sys.executable, TOOL, root], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr


class CheckCitations(unittest.TestCase):
    def expect_finding(self, name, text, finding):
        status, output = run_on({**BASE, name: BASE.get(name, "") + text})
        self.assertEqual((status, output), (1, finding + " is no file of the project\n"))

    def test_citations_that_are_right(self):
        self.assertEqual(run_on(BASE), (0, "citations: all are of files that are there\n"))

    def test_page_that_is_not_there(self):
        self.expect_finding("stretto/board/seat.h", "// see docs/design.md\n", "stretto/board/seat.h:4: docs/design.md")

    def test_comment_that_does_not_say_where_the_page_is(self):
        self.expect_finding("stretto/board/seat.h", "// protocol.md, I4\n", "stretto/board/seat.h:4: protocol.md")

    def test_source_that_has_moved(self):
        self.expect_finding("docs/threads.md", "`collective/engine.cc`\n", "docs/threads.md:2: collective/engine.cc")


if __name__ == "__main__":
    unittest.main()
