"""How a program gets Numba on the simulator: imports, the environment, the option of pytest."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import coalesce
from coalesce import launched
from coalesce.arrays import devices

pytest.importorskip("numba_cuda")
pytestmark = pytest.mark.usefixtures("on_simulator")

PROGRAM = """
import numpy as np
x = np.zeros(40, np.float32)

@cuda.jit
def ones(x):
    x[cuda.grid(1)] += 1

try:
    ones[2, 32](x)
except Exception as error:
    print(type(error).__name__, x.sum())
ones[1, 32](x)
print(x.sum(), *cuda.get_current_device().compute_capability, cuda.is_available())
"""


def run(*words: str, code: int = 0, gpu: str = "sim") -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *words],
        env={**os.environ, "COALESCE_DEVICE": gpu},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("imports", "gpu", "capability"),
    [
        ("from coalesce.numba import cuda", "sim", (9, 0)),
        ("import coalesce.numba; from numba import cuda", "sim:a100", (8, 0)),
        ("from numba import cuda; cuda.is_available(); import coalesce.numba", "sim", (9, 0)),
    ],
)
def test_a_program_runs_and_continues_after_a_fault(
    imports: str, gpu: str, capability: tuple[int, int]
) -> None:
    lines = run("-c", imports + PROGRAM, gpu=gpu).splitlines()
    assert lines == ["MemoryFault 0.0", f"32.0 {capability[0]} {capability[1]} True"]


def test_a_kernel_from_the_cache_knows_its_parameters(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    program = PROGRAM.replace("cuda.jit", "cuda.jit(cache=True)")
    program = program.replace("type(error).__name__", "error")
    file.write_text("from coalesce.numba import cuda" + program)
    for _ in range(2):
        assert "past the end of `x`" in run(str(file))


def test_a_missing_package_is_named() -> None:
    program = "import sys; sys.modules['numba_cuda'] = None; import coalesce.numba"
    assert "pip install 'numba-cuda[cu13]'" in run("-c", program, code=1)


def test_coalesce_itself_does_not_import_numba_or_triton() -> None:
    program = "import coalesce, sys; coalesce.Kernel; print({'numba', 'triton'} & set(sys.modules))"
    assert run("-c", program) == "set()\n"


def test_analyses_need_the_simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = replace(devices.resolve("sim"), name="cuda:0", kind="cuda")
    monkeypatch.setattr(devices, "resolve", lambda: gpu)
    with pytest.raises(coalesce.DeviceUnavailable, match="COALESCE_DEVICE=sim"):
        launched.check(lambda: None)
    with pytest.raises(coalesce.DeviceUnavailable, match="run on cuda:0"), launched.checked():
        pass


TESTS = """
import numpy as np
from numba import cuda

@cuda.jit
def turned(x):
    s = cuda.shared.array(64, np.float32)
    s[cuda.threadIdx.x] = x[cuda.threadIdx.x]
    x[cuda.threadIdx.x] = s[63 - cuda.threadIdx.x]

def test_race():
    turned[1, 64](np.zeros(64, np.float32))

def test_one_warp():
    turned[1, 1](np.zeros(64, np.float32))
"""


@pytest.mark.parametrize(("option", "passed"), [("--cuda-simulator", 2), ("--cuda-check", 0)])
def test_the_option_of_pytest(tmp_path: Path, option: str, passed: int) -> None:
    file = tmp_path / "test_turned.py"
    file.write_text(TESTS)
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={tmp_path}", option]
    text = run(*words, str(file), code=0 if passed else 1)
    if passed:
        assert "2 passed" in text
    else:
        assert "data race on" in text
        assert "x[cuda.threadIdx.x] = s[63 - cuda.threadIdx.x]" in text
