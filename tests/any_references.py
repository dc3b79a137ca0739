"""Compares the kernels of a folder of .cu files with the same kernels run by g++ on the host.

    python tests/any_references.py FOLDER... [--size N] [--seconds S] [--table FILE]

Each file is passed to `coalesce.Kernel` as it is, with made-up arguments (see `any_files.py`). The
reference is the kernel's own source: g++ compiles it with `tests/host/device_code.hpp`, and its
threads run one after the other. So the reference depends neither on NVRTC nor on the simulator.
Needs g++.

Integers and bytes must be equal. Floats may differ by rounding: by 0.2 %, and by 2e-5 of the
largest number of the array. If arrays differ, the check of coalesce says whether the result is
defined at all: it is not if threads race, or read what nobody wrote.

Some files are left out: those with inline assembly, tensor cores, cooperative groups, CUB, cuRAND,
textures, or variables of the module.
"""

from __future__ import annotations

import argparse
import pickle
import re
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import any_files
import numpy as np
from any_files import How, Row

import coalesce
from coalesce.compile import nvrtc

HOST = Path(__file__).parent / "host"
LEFT_OUT = re.compile(
    r"\basm\b|cooperative_groups|\bcub/|\bwmma\b|curand|\bcuda/|\btex[123]D|thrust/"
)
# Launches of kernels that use only x, and of the others. The first that ends is compared.
FLAT: tuple[Any, ...] = ((4, 64), (2, 256), (1, 32), (1, 1))
SQUARE: tuple[Any, ...] = (
    ((2, 2), (16, 16)),
    ((2, 2), (32, 8)),
    (1, (32, 32)),
    ((2, 1, 2), (8, 8, 4)),
    ((4, 4), (4, 4)),
)
_DYNAMIC = re.compile(
    r"extern\s+(?:volatile\s+)?__shared__\s+(?:__align__\s*\(\s*\d+\s*\)\s*)?"
    r"((?:[\w:]+\s+)*?[\w:]+(?:\s*<[^<>;]*>)?)\s+(?:__align__\s*\(\s*\d+\s*\)\s*)?(\w+)\s*\[\s*\]\s*;"
)
_OF_HOST = re.compile(
    r"#include\s*[<\"](?:device_launch_parameters|sm_\w+|device_functions|helper_\w+"
    r"|cuda_profiler_api|cublas\w*|cusparse\w*|cudnn)[.\w]*[>\"]"
)
# Runs a kernel in its own process, because wrong code ends the process.
_WORKER = """
import ctypes, pickle, sys
import numpy as np
library, which, extents, shared, file = pickle.load(open(sys.argv[1], "rb"))
given = pickle.load(open(file, "rb"))
kept, places = [], []
for value in given:
    data = value.ctypes.data.to_bytes(8, "little") if getattr(value, "ndim", 0) else b""
    data = data or np.asarray(value).tobytes()
    kept.append(ctypes.create_string_buffer(data, max(8, len(data))))
    places.append(ctypes.addressof(kept[-1]))
run = ctypes.CDLL(library).run
run(which, (ctypes.c_void_p * max(1, len(places)))(*places), *map(ctypes.c_uint, extents), shared)
pickle.dump([value for value in given if getattr(value, "ndim", 0)], open(file, "wb"))
"""


def on_host(text: str) -> str:
    """Return a source that g++ compiles with `device_code.hpp`."""
    text = _OF_HOST.sub("", text)
    return _DYNAMIC.sub(
        lambda m: f"{m[1]} *{m[2]} = reinterpret_cast<{m[1]} *>(host::dynamic_shared);", text
    )


def build(kernels: Sequence[coalesce.Kernel], folder: Path) -> tuple[Path | None, str]:
    """Compile the kernels of a file with g++; return the library, or the compiler's message."""
    module = kernels[0]._module
    code = module.device_code
    text = module.source if code is None else code.text
    headers: Mapping[str, str] = {} if code is None else code.headers
    if LEFT_OUT.search("\n".join([text, *headers.values()])):
        return None, ""
    text = on_host(text)
    for number, (name, header) in enumerate(headers.items()):
        (folder / f"header_{number}.h").write_text(on_host(header))
        text = text.replace(f'"{name}"', f'"header_{number}.h"')
    cases = "".join(
        f"case {n}: host::call(&{kernel.name}, a, g, b, s); break;\n"
        for n, kernel in enumerate(kernels)
    )
    run = (
        'extern "C" void run(int n, void **a, unsigned gx, unsigned gy, unsigned gz, unsigned bx, '
        f"unsigned by, unsigned bz, int s) {{\ndim3 g(gx, gy, gz), b(bx, by, bz);\nswitch (n) {{\n"
        f"{cases}}}\n}}\n"
    )
    parts = ['#include "device_code.hpp"\n', text, '\n#include "run_kernel.hpp"\n', run]
    (folder / "kernels.cpp").write_text("".join(parts))
    library = folder / "kernels.so"
    folders = [HOST, folder, *nvrtc.include_folders()]
    done = subprocess.run(
        ["g++", "-std=c++17", "-O1", "-ffp-contract=fast", "-march=native", "-fPIC", "-shared",
         "-fpermissive", "-w", *(f"-I{f}" for f in folders), "-o", str(library),
         str(folder / "kernels.cpp")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    errors = [line for line in done.stderr.splitlines() if "error" in line]
    return (library, "") if done.returncode == 0 else (None, (errors or ["g++ failed"])[0])


def reference(
    library: Path, which: int, shape: tuple[Any, Any], shared: int, given: list[Any], seconds: float
) -> list[np.ndarray[Any, Any]] | str:
    """Run a kernel on the host; return its arrays, or why there are none."""
    folder = library.parent
    extents = [(*np.atleast_1d(part).tolist(), 1, 1)[:3] for part in shape]
    file, job = folder / "given", folder / "job"
    file.write_bytes(pickle.dumps(given))
    told = (str(library), which, [*extents[0], *extents[1]], shared, str(file))
    job.write_bytes(pickle.dumps(told))
    worker = [sys.executable, "-c", _WORKER, str(job)]
    try:
        done = subprocess.run(worker, capture_output=True, check=False, timeout=3 * seconds)
    except subprocess.TimeoutExpired:
        return "reference took too long"
    if done.returncode:
        return "reference failed"
    arrays: list[np.ndarray[Any, Any]] = pickle.loads(file.read_bytes())
    return arrays


def differences(
    found: Sequence[np.ndarray[Any, Any]], wanted: Sequence[np.ndarray[Any, Any]]
) -> str:
    """Say which elements differ by more than rounding; "" if none do."""
    said = []
    for number, (x, y) in enumerate(zip(found, wanted, strict=True)):
        if x.dtype.kind in "fc":
            largest = float(np.abs(y[np.isfinite(y)]).max(initial=0))
            same = np.isclose(x, y, rtol=2e-3, atol=2e-5 * min(largest, 1e30), equal_nan=True)
        else:
            same = x.view("u1") == y.view("u1")
        if not same.all():
            said.append(f"array {number}: {int((~same).sum()):,} of {same.size:,} differ")
    return "; ".join(said)


def try_file(path: Path, size: int, seconds: float) -> Iterator[Row]:
    """Compare every kernel of a file."""
    try:
        kernels = any_files.kernels(path)
    except (coalesce.CoalesceError, ValueError) as error:
        yield Row(str(path), "", "refused", str(error))
        return
    with tempfile.TemporaryDirectory() as folder:
        library, message = build(kernels, Path(folder))
        if library is None:
            yield Row(str(path), "", "g++ refuses" if message else "left out", message)
            return
        for number, kernel in enumerate(kernels):
            result, detail = compared(kernel, library, number, size, seconds)
            yield Row(str(path), kernel.name, result, detail)


def compared(
    kernel: coalesce.Kernel, library: Path, number: int, size: int, seconds: float
) -> tuple[str, str]:
    """Launch a kernel on the simulator and on the host; return the verdict and its details."""
    if kernel.globals:
        return "left out", "the module has variables"
    ran = None
    for how in (How(size, 1 << 17, seconds), How(32, 1 << 17, seconds), How(32, 1 << 22, seconds)):
        for shape in SQUARE if "tid.y" in kernel.ptx or "ctaid.y" in kernel.ptx else FLAT:
            outcome = any_files.outcome(kernel, "run", shape, how)
            if not outcome.error:
                ran = how, shape, outcome
                break
        if ran:
            break
    if ran is None:
        return "fault", outcome.error
    how, shape, outcome = ran
    given = any_files.arguments_of(kernel, how)
    before = [a.copy() for a in given if isinstance(a, np.ndarray)]
    shared = any_files.kernel_shared(kernel)
    wanted = reference(library, number, shape, shared, given, seconds)
    if isinstance(wanted, str):
        return wanted, str(shape)
    if said := differences(outcome.arrays, wanted):
        findings = any_files.outcome(kernel, "check", shape, how).returned
        titles = "; ".join(sorted({f.title for f in findings or ()}))
        if "%clock" in kernel.ptx:
            titles = "it reads a clock"
        return ("not defined" if titles else "DIFFERENT"), titles or said
    if all(a.tobytes() == b.tobytes() for a, b in zip(outcome.arrays, before, strict=True)):
        return "equal, and nothing was written", str(shape)
    return "equal", str(shape)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--size", type=int, default=100, help="the value of integers (100)")
    parser.add_argument("--seconds", type=float, default=20, help="for one launch (20)")
    parser.add_argument("--table", type=argparse.FileType("w"), default=sys.stdout)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows: list[Row] = []
    for folder in options.folders:
        files = [folder] if folder.is_file() else sorted(folder.rglob("*.cu"))
        for path in files:
            for row in try_file(path, options.size, options.seconds):
                rows.append(row)
                print(row, file=options.table, flush=True)
    compared_files = {row.file for row in rows if row.result.startswith("equal")}
    print(f"{len({row.file for row in rows})} files, {len(compared_files)} compared")
    for result, number in Counter(row.result for row in rows).most_common():
        print(f"{number:6} {result}")
    return 1 if any(row.result == "DIFFERENT" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
