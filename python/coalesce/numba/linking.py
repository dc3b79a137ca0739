"""Links the PTX of a kernel with the code that it needs: other files, and functions of the grid.

On a GPU, NVIDIA's linker makes machine code from all files. The simulator needs one PTX text. So
the PTX texts are joined. (Numba itself compiles files of CUDA C++ to PTX.)
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from typing import Any

from numba.cuda.cudadrv import driver

from coalesce.compile import nvrtc

# These functions are in NVIDIA's library cudadevrt, without source code.
_GRID = """
#include <cooperative_groups.h>
extern "C" __device__ unsigned long long cudaCGGetIntrinsicHandle(cudaCGScope) { return 1; }
extern "C" __device__ cudaError_t cudaCGSynchronize(unsigned long long, unsigned) {
    cooperative_groups::this_grid().sync();
    return cudaSuccess;
}
"""
_HEADER = re.compile(r"^\s*\.(?:version|target|address_size)\b.*$", re.MULTILINE)
_LINE = re.compile(
    r"^\s*\.(?:file|loc)\b[^\n]*$|^\s*\.section\b[^{]*\{.*?^\s*\}", re.MULTILINE | re.DOTALL
)
_EXTERNAL = re.compile(r"\.extern(\s+\.func\b[^;{]*?([\w$]+)\s*(?:\([^;{]*?\))?\s*;)", re.DOTALL)
_DEFINED = re.compile(r"\.(visible|weak)\s+\.func\b[^;{]*?([\w$]+)\s*\([^;{]*?\)\s*\{", re.DOTALL)


class _Linker(driver._Linker):  # type: ignore[misc]
    """Collects the code of all files."""

    def add_library(self, lib: bytes, name: str = "") -> None:
        """Add a library. Numba itself adds only cudadevrt, which is replaced."""
        if "cudadevrt" not in name:
            super().add_library(lib, name)
            return
        arch = f"compute_{self.cc[0]}{self.cc[1]}"
        made = nvrtc.compile_cuda(_GRID, arch=arch, options=("-rdc=true",), name="grid.cu")
        self.add_ptx(made.ptx.encode(), name)

    @property
    def texts(self) -> Iterator[str]:
        """The PTX of all files."""
        for code in self._object_codes:
            kind = getattr(code, "code_type", None) or code._code_type  # since cuda-core 0.4
            if kind != "ptx":
                name = getattr(code, "name", "a file")
                raise driver.LinkerError(
                    f"the simulator cannot link {name}, because it is {kind}; link CUDA C++ or PTX"
                )
            text = code.code if isinstance(code.code, str) else code.code.decode()
            yield text.rstrip("\0")


def linked_ptx(library: Any) -> tuple[str, tuple[int, ...]]:
    """Return the PTX of a kernel with all that it needs, and its architecture, such as (9, 0).

    `library` is Numba's object with the code of the kernel.
    """
    architecture = library._ensure_cc(None)
    linker = _Linker(cc=architecture, lto=False)
    with warnings.catch_warnings():
        # The compiler may be newer than the version that the simulated driver reports.
        warnings.filterwarnings("ignore", "The CUDA driver version is older", RuntimeWarning)
        library._link_all(linker, architecture)
    return joined(*linker.texts), architecture


def joined(first: str, *others: str) -> str:
    """Join PTX texts to one. Only the first one keeps its source lines."""
    if not others:
        return first
    text = "\n".join([first, *(_LINE.sub("", _HEADER.sub("", other)) for other in others)])
    # With debug=True, Numba's compiler makes weak functions.
    defined = {name: linkage for linkage, name in _DEFINED.findall(text)}
    # A function that is defined later in the text needs a declaration.
    return _EXTERNAL.sub(
        lambda found: f".{defined[found[2]]}{found[1]}" if found[2] in defined else found[0], text
    )
