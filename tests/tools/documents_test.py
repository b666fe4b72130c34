"""Programs that a document shows are those that are built: a block that begins with the name of a file is part of it."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```\w+\n(?://|#) (\S+/\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Documents(unittest.TestCase):
    def test_blocks_are_parts_of_their_files(self):
        shown = []
        for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
            for name, text in BLOCK.findall(page.read_text(encoding="utf-8")):
                self.assertIn(text, (ROOT / name).read_text(encoding="utf-8"), f"{page.name}: {name}")
                shown.append(name)
        self.assertIn("examples/collective/neighbour_sum.cc", shown)


if __name__ == "__main__":
    unittest.main()
