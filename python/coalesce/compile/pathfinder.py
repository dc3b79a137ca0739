"""Finds the installed parts of CUDA with the package cuda-pathfinder.

The parts may come from wheels, from a CUDA toolkit or from conda.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

# The oldest version of cuda-pathfinder that is enough. In the wheels of CUDA 13, versions before
# 1.3.4 do not find the headers, and versions before 1.5.1 do not find the program nvdisasm.
# pyproject.toml requires this version, too.
OLDEST = "1.5.1"


@lru_cache(maxsize=1)
def pathfinder() -> Any:
    """Import cuda-pathfinder, and return the module.

    If it is missing or too old, a LookupError says what to install.
    """
    version = version_of("cuda-pathfinder")
    if version is None:
        raise LookupError("cuda-pathfinder is not installed: pip install cuda-pathfinder")
    if _numbers(version) < _numbers(OLDEST):
        raise LookupError(
            f"cuda-pathfinder {version} is too old to find CUDA's compiler tools: "
            f"pip install -U 'cuda-pathfinder>={OLDEST}'"
        )
    from cuda import pathfinder as module  # type: ignore[import-untyped]

    return module


def version_of(package: str) -> str | None:
    """Return the version of a Python package, or None if the package is not installed."""
    from importlib import metadata  # it takes longer than the other imports together

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def file_of(package: str, name: str) -> str | None:
    """Return the path of the file with the name `name` in a Python package.

    If the package is not installed or has no such file, return None. This function also looks in
    the folders of PYTHONPATH and of .pth files, which cuda-pathfinder does not search.
    """
    from importlib import metadata

    if version_of(package) is None:
        return None
    named = [file for file in metadata.files(package) or () if file.name == name]
    paths = (Path(str(file.locate())) for file in named)
    return next((str(path) for path in paths if path.is_file()), None)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])
