"""Runs tests of GPUs where the library that simulates whole programs takes the place of the driver.

A file of such tests ends with a test that calls `run_tests`, so that it needs no GPU.
"""

import os
import subprocess
import sys
from pathlib import Path

from coalesce.compile import runtime_library
from coalesce.launch import module

DRIVER = str(runtime_library.library())
SIMULATED = os.environ.get("COALESCE_CUDA_DRIVER") == DRIVER  # in this process
if SIMULATED:  # this driver loads PTX only
    module._image = lambda compiled, _device: compiled.ptx.encode()


def _run(*words: str) -> str:
    environment = {**os.environ, "COALESCE_CUDA_DRIVER": DRIVER}
    command = [sys.executable, *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return done.stdout


def run(script: str) -> str:
    """Run a script in a process of its own, on this driver. Return what it printed."""
    folder = str(Path(__file__).parent)
    return _run("-c", f"import sys\nsys.path.append({folder!r})\nimport simulated_driver\n{script}")


def run_tests(file: str) -> None:
    """Run a file of tests in a process of its own, on this driver."""
    printed = _run("-m", "pytest", "-q", "-p", "no:cacheprovider", "--device", "cuda", file)
    assert "failed" not in printed.splitlines()[-1]
