"""tools/check_rooms on small trees of sources, each with one planted mistake."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "check_rooms"


def run_on(files):
    """(exit status, output) of the tool on a tree with these files."""
    with tempfile.TemporaryDirectory() as root:
        for name, text in files.items():
            path = pathlib.Path(root, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        done = subprocess.run([sys.executable, TOOL, root], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr


BASE = {"stretto/base/clock.h": "#pragma once\n#include <chrono>\n",
        "stretto/engine/engine.h": '#pragma once\n#include "stretto/base/clock.h"\n',
        "stretto/collective/rounds/front.h": '#pragma once\n#include "stretto/engine/engine.h"\n',
        "stretto/train/replica.cc": '#include "stretto/collective/rounds/front.h"\n#include <torch/nn.h>\n',
        "command/main.cc": '#include <fmt/format.h>\n#include "stretto/collective/rounds/front.h"\n'}


class CheckRooms(unittest.TestCase):
    def expect_finding(self, files, *words):
        status, output = run_on({**BASE, **files})
        self.assertEqual(status, 1, output)
        self.assertEqual(len(output.splitlines()), 1, output)
        for word in words:
            self.assertIn(word, output)

    def test_sources_that_keep_to_their_floors(self):
        status, output = run_on(BASE)
        self.assertEqual((status, output), (0, "rooms: 5 files keep to their floors\n"))

    def test_include_from_a_higher_floor(self):
        self.expect_finding({"stretto/engine/late.cc": '// why\n#include "stretto/collective/rounds/front.h"\n'},
                            "stretto/engine/late.cc:2:", "engine (floor 3)", "collective/rounds/front.h (floor 4)")

    def test_include_from_the_same_floor(self):
        self.expect_finding({"stretto/simulate/cluster.h": '#pragma once\n#include "stretto/collective/rounds/front.h"\n'},
                            "stretto/simulate/cluster.h:2:", "(floor 4)")

    def test_a_test_has_the_floor_of_its_room(self):
        self.expect_finding({"stretto/base/clock_test.cc": '#include "stretto/engine/engine.h"\n'},
                            "stretto/base/clock_test.cc:1:")

    def test_include_of_a_file_that_is_not_there(self):
        self.expect_finding({"stretto/engine/engine.cc": '#include "engine.h"\n'}, '"engine.h" is no file')

    def test_room_that_nobody_knows(self):
        self.expect_finding({"stretto/misc/bits.h": "#pragma once\n"}, "'misc' is no room")

    def test_torch_in_the_core(self):
        for header in ("torch/torch.h", "ATen/core/Tensor.h", "c10/util/Half.h"):
            self.expect_finding({"stretto/engine/engine.cc": f"#include <{header}>\n"}, f"<{header}> in engine")

    def test_fmt_in_the_library(self):
        self.expect_finding({"stretto/engine/engine.cc": "#include <fmt/format.h>\n"}, "<fmt/format.h> in engine")

    def test_torch_and_fmt_together_in_the_command(self):
        self.expect_finding({"command/train.h": "#pragma once\n#include <torch/nn.h>\n",
                             "command/train/train.cc": '#include <fmt/format.h>\n#include "command/train.h"\n'},
                            "command/train/train.cc", "both Torch and fmt")

    def test_foreign_header_in_a_header_of_the_library(self):
        self.expect_finding({"stretto/engine/json.h": "#pragma once\n#include <nlohmann/json.hpp>\n"}, "nlohmann")
        self.expect_finding({"stretto/transport/tcp.h": "#pragma once\n#include <asio/ip/tcp.hpp>\n"}, "asio")
        own = {"stretto/transport/hosts/tcp.h": "#pragma once\n#include <asio/ip/tcp.hpp>\n"}
        self.assertEqual(run_on({**BASE, **own})[0], 0)

    def test_circle_between_folders_of_a_room(self):
        files = {"stretto/train/job/run.h": '#pragma once\n#include "stretto/train/recipes/recipe.h"\n',
                 "stretto/train/recipes/recipe.h": '#pragma once\n#include "stretto/train/replica/flat.h"\n',
                 "stretto/train/replica/flat.h": "#pragma once\n"}
        self.assertEqual(run_on({**BASE, **files})[0], 0)
        files["stretto/train/replica/flat.h"] += '#include "stretto/train/job/run.h"\n'
        status, output = run_on({**BASE, **files})
        self.assertEqual(status, 1, output)
        self.assertIn("stretto/train/replica/flat.h:2: stretto/train/replica includes from stretto/train/job, which", output)

    def test_circle_between_a_room_and_its_folders(self):
        status, output = run_on({**BASE, "stretto/train/replica.cc": '#include "stretto/train/job/run.h"\n',
                                 "stretto/train/job/run.h": '#pragma once\n#include "stretto/train/options.h"\n',
                                 "stretto/train/options.h": "#pragma once\n"})
        self.assertEqual(status, 1, output)
        self.assertIn("stretto/train/job includes from stretto/train, which includes from stretto/train/job", output)

    def test_circle_between_modules_of_the_python_package(self):
        files = {"python/stretto/__init__.py": "import sys\nfrom stretto import _core, _job\n",
                 "python/stretto/_job.py": "import stretto._core as _core\nfrom stretto._parts import Part\n",
                 "python/stretto/_parts.py": "import torch\n"}
        self.assertEqual(run_on({**BASE, **files})[0], 0)
        for back in ("import stretto._job", "from stretto import _job", "from . import _job", "import stretto",
                     "if TYPE_CHECKING:\n    from stretto._job import Job", "def late():\n    from ._job import Job"):
            status, output = run_on({**BASE, **files, "python/stretto/_parts.py": f"import torch\n{back}\n"})
            self.assertEqual(status, 1, output)
            self.assertIn(f"python/stretto/_parts.py:{2 + back.count(chr(10))}: _parts imports", output)

    def test_helper_of_tests_outside_a_test(self):
        files = {"stretto/engine/testing/count.h": "#pragma once\n",
                 "stretto/engine/engine_test.cc": '#include "stretto/engine/testing/count.h"\n'}
        self.assertEqual(run_on({**BASE, **files})[0], 0)
        self.expect_finding({**files, "stretto/engine/engine.cc": '#include "stretto/engine/testing/count.h"\n'},
                            "stretto/engine/engine.cc:1:", "outside a test")

    def test_folder_that_nobody_can_look_over(self):
        files = {f"stretto/base/f{i}.h": "#pragma once\n" for i in range(45)}
        self.expect_finding(files, "stretto/base:1:", "46 files")

    def test_floor_of_a_room_that_is_not_there(self):
        status, output = run_on({**BASE, "ARCHITECTURE.md": ""})
        self.assertEqual(status, 1, output)
        self.assertIn("there is no room 'kernel'", output)

    def test_header_without_guard(self):
        self.expect_finding({"stretto/base/text.h": "\n"}, "#pragma once")

    def test_file_that_is_too_long(self):
        self.expect_finding({"stretto/base/text.cc": "\n" * 501}, "stretto/base/text.cc:501:", "501 lines")


if __name__ == "__main__":
    unittest.main()
