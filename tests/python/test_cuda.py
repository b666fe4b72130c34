"""The driver's functions: with libraries that are made up, in the place of libcuda."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

REFUSES = """
int cuMemHostRegister_v2(void* at, unsigned long size, unsigned flags) { return size == 4096 && flags == 0 ? 0 : 712; }
int cuMemHostUnregister(void* at) { return 0; }
int cuGetErrorString(int error, const char** text) {
  if (error == 712) *text = "part of it is registered";
  return 0;
}
"""
CALLS = """
from stretto._cuda import Driver
driver = Driver()
said = [driver.register(8192, 4096), driver.register(8192, 8192)]
if not said[0]:
    driver.unregister(8192)
print(said)
"""


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (REFUSES, "['', 'cuMemHostRegister: part of it is registered']"),
        (REFUSES.replace("error == 712", "0"), "['', 'cuMemHostRegister: error 712']"),
        (REFUSES.replace("cuMemHostRegister_v2", "cuMemHostRegister"), "undefined symbol: cuMemHostRegister_v2"),
        ("", "libcuda.so.1: file too short"),
    ],
)
def test_what_the_driver_refuses_or_lacks_is_said(tmp_path: pathlib.Path, source: str, said: str) -> None:
    library, code = tmp_path / "libcuda.so.1", tmp_path / "cuda.c"
    library.write_text("")
    if source:
        code.write_text(source)
        subprocess.run(["cc", "-shared", "-o", library, code], check=True)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", CALLS], env=environment, capture_output=True, text=True, check=False)
    assert said in done.stdout, done.stderr
