"""Makes the wheel of the Python package, checks it, and installs it for the tests beside this file.

wheel.py PYTHON: of the environment that it is installed in. Its name is not that of a test for pytest: the other tests
need what this one installs.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
TOOLS = ROOT / ".cache" / "python-build" / "bin"
MOST_BYTES = 8_000_000  # 7.0 MB; 5.6 MB without the transport between hosts
MOST_BYTES_OF_SOURCES = 2_000_000
TORCH = re.compile(r"(?<![\w:])(?:c10|at|torch|caffe2)::")


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True, **options).stdout


def make_wheel(*python):
    """The path of a new wheel, for `python` or for that of .venv."""
    return ROOT / run(ROOT / "tools" / "build_wheel", *python).strip()


def symbols(module, which):
    """The names of a module's dynamic symbols."""
    return [line.split(maxsplit=1 if which == "--undefined-only" else 2)[-1]
            for line in run("nm", "-DC", which, module).splitlines()]


def problems(wheel, folder):
    """What is wrong with a wheel, as a list of sentences; it is unpacked into `folder`."""
    found = []
    if wheel.stat().st_size > MOST_BYTES:
        found.append(f"{wheel.name} has {wheel.stat().st_size} bytes; at most {MOST_BYTES} are wanted")
    shown = " ".join(run(TOOLS / "python", "-m", "auditwheel", "show", wheel).split())
    if not re.search(r'consistent with the following platform tag: "manylinux_2_\d+_', shown):
        found.append(f"auditwheel: {shown}")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    modules = [*folder.glob("stretto/_core*.so"), folder / "stretto" / "bin" / "stretto"]
    if len(modules) != 2:
        found.append(f"one compiled module is wanted in stretto/, not {len(modules) - 1}")
    for module in modules:
        foreign = [name for name in symbols(module, "--undefined-only") if TORCH.search(name)]
        if foreign:
            found.append(f"{module.name} needs symbols of Torch: {foreign[:5]}")
    shown = symbols(modules[0], "--defined-only")
    if shown != ["PyInit__core"]:
        found.append(f"{modules[0].name} shows more than PyInit__core: {shown[:5]}")
    return found


class Wheel(unittest.TestCase):
    python = ""

    def test_make_check_and_install(self):
        wheel = make_wheel()
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.2f} MB")
        self.assertEqual(problems(wheel, wheel.parents[1] / "wheel-unpacked"), [])
        run(self.python, "-m", "pip", "install", "--disable-pip-version-check", "--no-deps", "--force-reinstall", wheel)
        where = pathlib.Path(run(self.python, "-P", "-c", "import stretto; print(stretto.__file__)").strip())
        self.assertIn(pathlib.Path(self.python).absolute().parents[1], where.parents)

    def test_sources_are_complete_and_nothing_more(self):
        make = "import sys; from scikit_build_core.build import build_sdist; print(build_sdist(sys.argv[1]))"
        with tempfile.TemporaryDirectory() as work:
            archive = pathlib.Path(work, run(TOOLS / "python", "-c", make, work, cwd=ROOT).split()[-1])
            self.assertLess(archive.stat().st_size, MOST_BYTES_OF_SOURCES)
            shutil.unpack_archive(archive, work)
            sources = pathlib.Path(work, archive.name.removesuffix(".tar.gz"))
            found = {path.name for path in sources.iterdir()}
            self.assertEqual(found & {"build", "runs", "tests", "docs", ".venv", ".cache", ".git", ".ci"}, set())
            run("cmake", "-S", sources, "-B", f"{work}/build", "-G", "Ninja", "-DSTRETTO_PYTHON=ON",
                "-DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON", f"-DPython_EXECUTABLE={TOOLS}/python")  # fails without a source

    def test_symbols_of_torch_are_known(self):
        for name in ("c10::Error::Error(c10::SourceLocation)", "vtable for at::Tensor", "f(torch::Node*)"):
            self.assertTrue(TORCH.search(name), name)
        for name in ("std::vector<int>::at(unsigned long)", "stretto::torch::name()", "memcpy", "PyObject_Call"):
            self.assertFalse(TORCH.search(name), name)


if __name__ == "__main__":
    Wheel.python = sys.argv.pop(1)
    unittest.main()
