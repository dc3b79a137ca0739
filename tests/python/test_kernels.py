"""Every shipped kernel compiles with NVRTC and nvcc and matches its entry in the catalogue."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from coalesce import _core, catalogue
from coalesce.compile import nvrtc

ENTRIES = _core.ops.variants()
NVCC = shutil.which("nvcc")


def defines(entry, tile, real):
    element = {"float": "float", "double": "double"}[real]
    result = [f"-DREAL={real}", f"-DELEMENT={element}"]
    return [*result, f"-DTILE={tile}"] if entry.tiles else result


def arch_of(entry, arch="sm_90"):
    """Return the architecture to compile a variant for; only sm_90a has the Hopper instructions."""
    return "sm_90a" if entry.tensor_maps else arch


def precisions(entry):
    """Return the values of REAL that make a difference."""
    text = catalogue.read_kernel(entry.file)
    return ("float", "double") if re.search(r"\b(REAL|ELEMENT)\b", text) else ("float",)


def ids(value):
    return f"{value.operation}-{value.name}" if isinstance(value, _core.ops.Variant) else None


@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_120"])
@pytest.mark.parametrize("entry", ENTRIES, ids=ids)
def test_compiles_for_every_architecture(entry, arch):
    if entry.hopper and arch == "sm_75":
        pytest.skip("needs sm_90")
    if entry.tensor_maps and arch == "sm_120":
        pytest.skip("needs sm_90a")
    arch = arch_of(entry, arch)
    text = catalogue.read_kernel(entry.file)
    compiled = nvrtc.compile_cuda(text, arch=arch)
    assert f".entry {entry.name}(" in compiled.ptx
    assert compiled.log == ""


@pytest.mark.parametrize(
    ("entry", "tile", "real"),
    [
        (e, tile, real)
        for e in ENTRIES
        if e.operation != "access"
        for tile in e.tiles or (32,)
        for real in precisions(e)
    ],
    ids=ids,
)
def test_static_shared_memory_matches_the_catalogue(entry, tile, real):
    text = catalogue.read_kernel(entry.file)
    # The PTX has the sizes. For this name of the architecture, no machine code is made.
    arch = arch_of(entry, nvrtc.DEFAULT_ARCH).replace("sm_", "compute_")
    ptx = nvrtc.compile_cuda(text, arch=arch, options=defines(entry, tile, real)).ptx
    sizes = re.findall(r"\.shared\s+\.align\s+\d+\s+\.b8\s+\w+\[(\d+)\]", ptx)
    item_size = 4 if real == "float" else 8
    assert sum(map(int, sizes)) == entry.static_shared_bytes(tile, item_size)


@pytest.mark.skipif(NVCC is None, reason="there is no nvcc")
@pytest.mark.parametrize(
    ("entry", "real"), [(e, real) for e in ENTRIES for real in precisions(e)], ids=ids
)
def test_nvcc_compiles_it_without_spills(entry, real, tmp_path):
    source = tmp_path / "kernel.cu"
    source.write_text(catalogue.read_kernel(entry.file))
    arch = arch_of(entry).removeprefix("sm_")
    target = f"-gencode=arch=compute_{arch},code=sm_{arch}"
    command = [NVCC, "-cubin", target, "-Xptxas", "-v", "-Werror", "all-warnings"]
    done = subprocess.run(
        [*command, *defines(entry, 32, real), "-o", tmp_path / "kernel.cubin", source],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    spilled = int(re.search(r"(\d+) bytes spill stores", done.stderr)[1])
    assert spilled <= 8  # one register, around the inner loop of corner_turned
