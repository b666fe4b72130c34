"""The driver's functions: with libraries that are made up, in the place of libcuda."""

from __future__ import annotations

import ctypes
import os
import pathlib
import subprocess
import sys

import pytest

from stretto._cuda import Driver

REFUSES = """
int cuMemHostRegister_v2(void* at, unsigned long size, unsigned flags) { return size == 4096 && flags == 0 ? 0 : 712; }
int cuMemHostUnregister(void* at) { return 0; }
int cuGetErrorString(int error, const char** text) {
  if (error == 712) *text = "part of it is registered";
  return 0;
}
"""


def made(folder: pathlib.Path, source: str) -> pathlib.Path:
    (folder / "cuda.c").write_text(source)
    library = folder / "libcuda.so.1"
    subprocess.run(["cc", "-shared", "-o", library, folder / "cuda.c"], check=True)
    return library


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (REFUSES, "cuMemHostRegister: part of it is registered"),
        (REFUSES.replace("error == 712", "0"), "cuMemHostRegister: error 712"),
        (REFUSES.replace("cuMemHostRegister_v2", "cuMemHostRegister"), "undefined symbol: cuMemHostRegister_v2"),
        (None, "cannot open shared object file"),
    ],
)
def test_what_the_driver_refuses_or_lacks_is_said(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, source: str | None, said: str
) -> None:
    library = tmp_path / "libcuda.so.1" if source is None else made(tmp_path, source)
    load = ctypes.CDLL
    monkeypatch.setattr(ctypes, "CDLL", lambda name: load(str(library.with_name(name))))
    driver = Driver()
    refused = [driver.register(8192, 8192), driver.register(8192, 4096)]
    assert said in refused[0]
    if not refused[1]:
        driver.unregister(8192)
    assert (refused[1] == "") == said.startswith("cuMem")


TRAINS = """
import stretto, torch
model = torch.nn.Linear(2, 2)
optimizer = stretto.Optimizer(torch.optim.SGD(model.parameters(), 0.1), model)
model(torch.ones(1, 2)).sum().backward()
optimizer.step()
optimizer.finish()
print("trained")
"""


def test_who_trains_on_the_cpu_needs_no_driver(tmp_path: pathlib.Path) -> None:
    made(tmp_path, '#include <stdio.h>\n__attribute__((constructor)) static void loaded(void) { puts("loaded"); }')
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": str(tmp_path),
        "CUDA_VISIBLE_DEVICES": "",
        "STRETTO_DEVICE": "stage",
    }
    done = subprocess.run([sys.executable, "-c", TRAINS], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "trained\n", done.stdout + done.stderr
