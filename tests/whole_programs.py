"""What tests of whole CUDA programs need: nvcc, g++ and the command `coalesce`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import Any

import pytest

from coalesce.compile import nvcc


def _has_compilers() -> bool:
    try:
        nvcc.nvcc()
    except LookupError:
        return False
    return shutil.which("g++") is not None and sys.platform.startswith("linux")


NEEDS_COMPILERS = pytest.mark.skipif(
    not _has_compilers(), reason="needs nvcc (pip install 'coalesce-gpu[programs]') and g++"
)


def coalesce(*words: object, **settings: Any) -> subprocess.CompletedProcess[str]:
    """Run ``coalesce`` with these words in a new process; `settings` are those of its start."""
    return subprocess.run(
        [sys.executable, "-m", "coalesce", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        **settings,
    )
