"""Translates machine code to text with NVIDIA's program nvdisasm, and keeps the text in the cache.

nvdisasm needs neither a GPU nor a driver. It comes from the PyPI wheel `nvidia-cuda-nvdisasm`, from
a CUDA toolkit or from conda. This package looks for nvdisasm only when it is first needed.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from coalesce.compile import cache, pathfinder

if TYPE_CHECKING:
    from coalesce.compile.nvrtc import Compiled

ARCHITECTURES = ("sm_90", "sm_90a")  # the simulator knows their launches and constant banks


def listing(compiled: Compiled) -> str:
    """Return the machine code of a compilation as text.

    Parameters
    ----------
    compiled : Compiled
        The result of the compilation.

    Returns
    -------
    str
        The output of nvdisasm: the instructions with the PTX line of each, the constants, and the
        sizes of shared memory.

    Raises
    ------
    LookupError
        There is no machine code, the code is for an architecture that the simulator does not know,
        or nvdisasm is missing. The message gives the reason, and says what to install.
    """
    if compiled.cubin is None:
        raise LookupError("there is no machine code, because the kernel was compiled only to PTX")
    if compiled.arch not in ARCHITECTURES:
        raise LookupError(
            f"the machine code is for {compiled.arch}; the simulator executes only code for "
            f"{ARCHITECTURES[0]}"
        )
    program = nvdisasm()
    key = cache.key_of(
        "listing with encodings", hashlib.sha256(compiled.cubin).hexdigest(), version()
    )
    if (known := cache.load(key)) is not None:
        return known[0]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(compiled.cubin)
        # -ndf (no dataflow analysis) saves a quarter of nvdisasm's time. The analysis only adds
        # comments to some instructions, such as (*"BRANCH_TARGETS .L_x_1"*). Nothing reads them.
        words = [program, "-ndf", "-gp", "-hex", str(path)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LookupError(f"nvdisasm failed: {done.stderr.strip()[:200]}")
    text = _without_unused_sections(done.stdout)
    cache.store(key, text, None, {})
    return text


@lru_cache(maxsize=1)
def nvdisasm() -> str:
    """Return the path of nvdisasm. If it is missing, a LookupError says what to install."""
    package = "nvidia-cuda-nvdisasm"
    path = pathfinder.pathfinder().find_nvidia_binary_utility("nvdisasm")
    path = path or pathfinder.file_of(package, "nvdisasm")
    if path is None:
        if installed := pathfinder.version_of(package):
            raise LookupError(
                f"{package} {installed} is installed, but its program nvdisasm is not found: "
                f"pip install --force-reinstall {package}"
            )
        raise LookupError(
            "the disassembler nvdisasm is not installed: pip install nvidia-cuda-nvdisasm "
            "(it needs no GPU and no driver)"
        )
    return str(path)


@lru_cache(maxsize=1)
def version() -> str:
    """Return the version of nvdisasm, such as "13.0.85"."""
    done = subprocess.run([nvdisasm(), "--version"], capture_output=True, text=True, check=False)
    match = re.search(r"release [\d.]+, V([\d.]+)", done.stdout)
    return match[1] if match else done.stdout


_SECTION = re.compile(r"^//-{10,} (\S+) +-{10,}$", re.MULTILINE)
_NEEDED = re.compile(r"\.text\.|\.nv\.constant[1-4]|\.nv\.shared\.")


def _without_unused_sections(text: str) -> str:
    """Remove the sections that are not used: debugging information, unwinding, notes."""
    starts = [*_SECTION.finditer(text)]
    ends = [*(match.start() for match in starts[1:]), len(text)]
    return "".join(
        text[match.start() : end]
        for match, end in zip(starts, ends, strict=True)
        if _NEEDED.match(match[1])
    )
