"""Every shipped kernel compiles with NVRTC and nvcc and matches its entry in the catalogue."""

import functools
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import many_kernels
import pytest

from coalesce import _core, catalogue
from coalesce.compile import nvrtc

ENTRIES = _core.ops.variants()
NVCC = shutil.which("nvcc")


def source_of(compiled):
    """Return one source for several (variant, tile, real)."""
    return many_kernels.of_files(
        (entry.file, catalogue.read_kernel(entry.file), entry.name, macros(entry, tile, real))
        for entry, tile, real in compiled
    )


def macros(entry, tile, real):
    result = [f"REAL={real}", f"ELEMENT={real}"]
    return [*result, f"TILE={tile}"] if entry.tiles else result


def arch_of(entry, arch="sm_90"):
    """Return the architecture to compile a variant for; only sm_90a has the Hopper instructions."""
    return "sm_90a" if entry.tensor_maps else arch


def precisions(entry):
    """Return the values of REAL that make a difference."""
    text = catalogue.read_kernel(entry.file)
    return ("float", "double") if re.search(r"\b(REAL|ELEMENT)\b", text) else ("float",)


def reads_macros(entry):
    """Return whether `macros` makes a difference."""
    return bool(entry.tiles) or len(precisions(entry)) > 1


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


SIZES = [
    (entry, tile, real)
    for entry in ENTRIES
    if entry.operation != "access"
    for tile in entry.tiles or (32,)
    for real in precisions(entry)
]


@functools.cache
def ptx_of_sizes(arch):
    """Compile those SIZES that differ in macros, and return the PTX of each kernel."""
    compiled = [size for size in SIZES if arch_of(size[0]) == arch and reads_macros(size[0])]
    # For this name of the architecture, no machine code is made.
    ptx = nvrtc.compile_cuda(source_of(compiled), arch=arch.replace("sm_", "compute_")).ptx
    start, *parts = re.split(r"^\.visible \.entry ", ptx, flags=re.MULTILINE)
    assert not shared_arrays(start)  # each array is in the part of its kernel
    by_name = {part.partition("(")[0]: part for part in parts}
    return {size: by_name[f"{size[0].name}_{n}"] for n, size in enumerate(compiled)}


def shared_arrays(ptx):
    """Return the sizes of the arrays in static shared memory."""
    return [int(n) for n in re.findall(r"\.shared\s+\.align\s+\d+\s+\.b8\s+\w+\[(\d+)\]", ptx)]


@pytest.mark.parametrize(("entry", "tile", "real"), SIZES, ids=ids)
def test_static_shared_memory_matches_the_catalogue(entry, tile, real):
    arch = arch_of(entry)
    if reads_macros(entry):
        ptx = ptx_of_sizes(arch)[entry, tile, real]
    else:  # the test above has compiled it
        ptx = nvrtc.compile_cuda(catalogue.read_kernel(entry.file), arch=arch).ptx
    item_size = 4 if real == "float" else 8
    assert sum(shared_arrays(ptx)) == entry.static_shared_bytes(tile, item_size)


PRECISIONS = [(entry, 32, real) for entry in ENTRIES for real in precisions(entry)]


@functools.cache
def compiled_by_nvcc(arch):
    """Compile PRECISIONS for an architecture with nvcc. Return what it printed, and the order."""
    compiled = [some for some in PRECISIONS if arch_of(some[0]) == arch]
    number = arch.removeprefix("sm_")
    target = f"-gencode=arch=compute_{number},code=sm_{number}"
    command = [NVCC, "-cubin", target, "-Xptxas", "-v", "-Werror", "all-warnings"]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernels.cu"
        source.write_text(source_of(compiled))
        command += ["-o", source.with_suffix(".cubin"), source]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done, compiled


@pytest.mark.skipif(NVCC is None, reason="there is no nvcc")
@pytest.mark.parametrize(("entry", "tile", "real"), PRECISIONS, ids=ids)
def test_nvcc_compiles_it_without_spills(entry, tile, real):
    done, compiled = compiled_by_nvcc(arch_of(entry))
    assert done.returncode == 0, done.stderr
    kernel = f"{entry.name}_{compiled.index((entry, tile, real))}"
    of_kernel = re.search(
        rf"Compiling entry function '{kernel}'(.*?)Used \d", done.stderr, re.DOTALL
    )
    spilled = int(re.search(r"(\d+) bytes spill stores", of_kernel[1])[1])
    assert spilled <= 8  # one register, around the inner loop of corner_turned
