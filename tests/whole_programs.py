"""What tests of whole CUDA programs need: nvcc and g++."""

from __future__ import annotations

import shutil
import sys

import pytest

from coalesce.compile import program


def _has_compilers() -> bool:
    try:
        program.nvcc()
    except LookupError:
        return False
    return shutil.which("g++") is not None and sys.platform.startswith("linux")


NEEDS_COMPILERS = pytest.mark.skipif(
    not _has_compilers(), reason="needs nvcc (pip install 'coalesce-gpu[programs]') and g++"
)
