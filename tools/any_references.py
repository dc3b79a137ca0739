"""Compares kernels with the same kernels run by g++ on the host; any_repositories.py uses it.

The arguments are made up (see `any_files.py`). The reference is the kernel's own source: g++
compiles it with `tests/host/device_code.hpp`, and its threads run one after the other. So the
reference depends neither on NVRTC nor on the simulator. Needs g++. A profile, which executes the
machine code, and a trace must leave the same results as the plain run.

Integers and bytes must be equal. Floats may differ by rounding: by 0.2 %, and by 2e-5 of the
largest number of the array; bfloat16 by eight times as much. If arrays differ, the
check of coalesce says whether the result is defined at all: it is not if threads race, or read what
nobody wrote.

g++ refuses some kernels: those with inline assembly, CUB, cuRAND or textures.
"""

import contextlib
import functools
import operator
import os
import pickle
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import any_files
import numpy as np
from any_files import How

import coalesce
from coalesce.compile import nvrtc
from coalesce.launch.arguments import HostArray, prepare
from coalesce.launch.structures import PackedStructure

HOST = Path(__file__).parents[1] / "tests" / "host"
COMPILED = Path(tempfile.gettempdir()) / f"coalesce_host_{os.getuid()}"
GXX = ("g++", "-std=c++17", "-O1", "-ffp-contract=fast", "-march=native", "-fPIC", "-fpermissive")
GXX += ("-w",)
# Launches of kernels that use only x, and of the others. The first that ends is compared.
FLAT: tuple[Any, ...] = ((4, 64), (2, 256), (1, 32), (2, 128), (2, 512), (1, 1024), (1, 1))
SQUARE: tuple[Any, ...] = (
    ((2, 2), (16, 16)),
    ((2, 2), (32, 8)),
    (1, (32, 32)),
    ((2, 1, 2), (8, 8, 4)),
    ((4, 4), (4, 4)),
)
# The values of integers, and the elements of arrays, that are tried.
SIZES = (100, 1024, 128, 1, 32, 64, 16, 8, 4)
ELEMENTS = (1 << 17, 1 << 22)
# Outcomes; each says more than those before it.
ORDER = ("fault", "nothing written", "not compared", "not defined", "wrong", "right")
_DYNAMIC = re.compile(
    r"extern\s+(?:volatile\s+)?__shared__\s+(?:__align__\s*\(\s*\d+\s*\)\s*)?"
    r"((?:[\w:]+\s+)*?[\w:]+(?:\s*<[^<>;]*>)?(?:\s*\*)?)\s+(?:__align__\s*\(\s*\d+\s*\)\s*)?(\w+)\s*\[\s*\]\s*;"
)
_OF_HOST = re.compile(
    r"#\s*include\s*[<\"](?:cuda/(?:std/)?barrier|cooperative_groups\w*|cooperative_groups/\w+|mma|curand\w*|device_launch_parameters|sm_\w+|device_functions|helper_\w+"
    r"|cuda_profiler_api|hip/(?!hip_runtime\.h)\w+|cublas\w*|cusparse\w*|cudnn)[.\w]*[>\"]"
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
# A kernel up to its parameters; the name is the group.
_KERNEL = re.compile(
    r"(?:\btemplate\s*<[^;{}()]*>\s*)?"
    r"(?:\bstatic\s+|\binline\s+|\bextern\s+\"C\"\s+|__launch_bounds__\s*\([^()]*\)\s*)*"
    r"\b__global__\b(?:\s*__launch_bounds__\s*\([^()]*\))?[\w\s:]*?"
    r"(?:__launch_bounds__\s*\([^()]*\)\s*)?\b(\w+)\s*\("
)
# Headers that coalesce has its own text for.
_OWN_HEADERS = (
    (re.compile(r"#include\s*[<\"](?:torch|ATen|c10)/[^>\"]*[>\"]"), "torch_types.h"),
    (re.compile(r"#include\s*[<\"]hip/hip_runtime\.h[>\"]"), "hip_runtime.h"),
)
# Runs a kernel in its own process, because wrong code ends the process.
_WORKER = """
import ctypes, pickle, sys
import numpy as np
library, which, extents, shared, count, variables, file = pickle.load(open(sys.argv[1], "rb"))
given = pickle.load(open(file, "rb"))
kept = []
def raw(value):
    if isinstance(value, bytes):
        return value
    if len(value) == 2 and isinstance(value[0], np.ndarray):  # an array and an offset
        return (value[0].ctypes.data + value[1]).to_bytes(8, "little")
    if isinstance(value[0], bytes):  # a structure, and the numbers of the arrays behind pointers
        data = bytearray(value[0])
        for offset, number in value[1]:
            data[offset : offset + 8] = raw(given[number])
        return bytes(data)
    kept.append(value[0])  # a texture
    texels = value[0] if value[1] == 1 else value[0][..., 0]
    made = [value[0].ctypes.data, *(*texels.shape[::-1], 1, 1)[:3], value[1] * texels.itemsize]
    kept.append((ctypes.c_long * 5)(*made))
    return ctypes.addressof(kept[-1]).to_bytes(8, "little")
places = []
for data in map(raw, given[:count]):
    kept.append(ctypes.create_string_buffer(data, max(8, len(data))))
    places.append(ctypes.addressof(kept[-1]))
loaded = ctypes.CDLL(library)
loaded.variable.restype = ctypes.c_void_p
values = given[len(given) - variables :]
where = [(loaded.variable(n), value) for n, value in enumerate(values)]
for address, value in where:
    ctypes.memmove(address, value.ctypes.data, value.nbytes)
run = loaded.run
run(which, (ctypes.c_void_p * max(1, len(places)))(*places), *map(ctypes.c_uint, extents), shared)
for address, value in where:
    ctypes.memmove(value.ctypes.data, address, value.nbytes)
pairs = [value for value in given if isinstance(value, tuple) and len(value) == 2]
arrays = [value[0] for value in pairs if isinstance(value[0], np.ndarray)]
pickle.dump([*arrays, *values], open(file, "wb"))
"""


def on_host(text: str) -> str:
    """Return a source that g++ compiles with `device_code.hpp`."""
    for pattern, header in _OWN_HEADERS:
        text = pattern.sub(
            f'#include "{Path(nvrtc.__file__).parent / "device_headers" / header}"', text
        )
    text = re.sub(r"\bstatic\s+__shared__", "__shared__", _OF_HOST.sub("", text))
    text = re.sub(r"\b__shared__\s+extern\b", "extern __shared__", text)
    text = _DYNAMIC.sub(
        lambda m: f"{m[1]} *{m[2]} = reinterpret_cast<{m[1]} *>(host::dynamic_shared);", text
    )
    return re.sub(r"\bextern\s+__shared__", "__shared__", text)


def header_compiled() -> None:
    """Compile `device_code.hpp` once; g++ then reads the result instead of the header."""
    compiled = COMPILED / "device_code.hpp.gch"
    newest = max(path.stat().st_mtime for path in HOST.iterdir())
    if compiled.is_file() and compiled.stat().st_mtime > newest:
        return
    COMPILED.mkdir(exist_ok=True)
    made = COMPILED / f"{os.getpid()}.gch"
    folders = [HOST, *nvrtc.include_folders()]
    command = [*GXX, "-x", "c++-header", *(f"-I{f}" for f in folders), "-o", str(made)]
    subprocess.run([*command, str(HOST / "device_code.hpp")], check=True)
    made.replace(compiled)


def build(kernels: Sequence[coalesce.Kernel], folder: Path) -> tuple[Path | None, str]:
    """Compile the kernels of a file with g++; return the library, or the compiler's message.

    If g++ refuses the file, the first kernel is compiled without the other kernels of the file.
    """
    library, message = _built(kernels, folder, alone=False)
    if library is None:
        library, _ = _built(kernels[:1], folder, alone=True)
    return library, "" if library else message


def without_other_kernels(text: str, name: str) -> str:
    """Return a source without the kernels of other names, and without CUB if nothing uses it."""
    text = _COMMENT.sub(" ", text)
    kept, place = [], 0
    for match in _KERNEL.finditer(text):
        if match.start() < place or match[1] == name:
            continue
        opened = closed(text, match.end() - 1)
        body = re.compile(r"\s*\{").match(text, opened)
        if body is None:
            continue
        kept.append(text[place : match.start()])
        place = closed(text, body.end() - 1)
    text = "".join([*kept, text[place:]])
    return text if re.search(r"\bcub::", text) else re.sub(r"#\s*include\s*<cub/[^>]*>", "", text)


def closed(text: str, start: int) -> int:
    """Return the place behind the bracket that closes the one at `start`."""
    depth = 0
    for place in range(start, len(text)):
        depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(text[place], 0)
        if not depth:
            return place + 1
    return len(text)


def _built(
    kernels: Sequence[coalesce.Kernel], folder: Path, alone: bool
) -> tuple[Path | None, str]:
    module = kernels[0].module
    code = module.device_code
    text = module.source if code is None else code.text
    if alone:
        name = kernels[0].name.partition("<")[0].split("::")[-1]
        text = without_other_kernels(text, name)
    headers: Mapping[str, str] = {} if code is None else code.headers
    header_compiled()
    files = {f'"{name}"': f"header_{number}.h" for number, name in enumerate(headers)}
    for name, file in [*files.items(), ("", "")]:
        changed = on_host(headers[name[1:-1]] if name else text)
        for other, its_file in files.items():
            either = rf"#\s*include\s*(?:{re.escape(other)}|<{re.escape(other[1:-1])}>)"
            changed = re.sub(either, f'#include "{its_file}"', changed)
        if name:
            (folder / file).write_text(changed)
        else:
            text = changed
    cases = "".join(
        f"case {n}: host::call(&{kernel.name}, a, g, b, s); break;\n"
        for n, kernel in enumerate(kernels)
    )
    run = (
        'extern "C" void run(int n, void **a, unsigned gx, unsigned gy, unsigned gz, unsigned bx, '
        f"unsigned by, unsigned bz, int s) {{\ndim3 g(gx, gy, gz), b(bx, by, bz);\nswitch (n) {{\n"
        f"{cases}}}\n}}\n"
    )
    names = enumerate(kernels[0].globals)
    places = "".join(f"case {n}: return (void *)&{name};\n" for n, name in names)
    run += f'extern "C" void *variable(int n) {{\nswitch (n) {{\n{places}}}\nreturn nullptr;\n}}\n'
    parts = ['#include "device_code.hpp"\n', text, '\n#include "run_kernel.hpp"\n', run]
    (folder / "kernels.cpp").write_text("".join(parts))
    library = folder / "kernels.so"
    folders = [COMPILED, HOST, folder, *nvrtc.include_folders()]
    theirs = [option for option in module.options if option.startswith(("-I", "-D", "-std="))]
    command = [*GXX, "-shared", *(f"-I{f}" for f in folders), *theirs, "-o", str(library)]
    done = subprocess.run(
        [*command, str(folder / "kernels.cpp")], capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        return library, ""
    errors = [line for line in done.stderr.splitlines() if "error" in line]
    if assembly := re.search(r"no such instruction: `([\w.:]+)", done.stderr):
        errors.append(f"it has inline assembly, which g++ does not compile: {assembly[1]}")
    return None, (errors or ["g++ failed"])[0]


def _plain(argument: Any) -> Any:
    """Return a prepared argument as the process on the host takes it."""
    if isinstance(argument, PackedStructure):
        return argument.packed, argument.pointers
    if isinstance(argument, HostArray):
        if argument.texture is not None:
            _, options = any_files.texture_options.get(id(argument.original), (None, {}))
            return argument.original, options.get("channels", 1), "texture"
        return argument.original, argument.offset
    return argument


def reference(
    kernel: coalesce.Kernel,
    library: Path,
    which: int,
    shape: tuple[Any, Any],
    shared: int,
    arguments: list[Any],
    variables: list[np.ndarray[Any, Any]],
    seconds: float,
) -> tuple[list[np.ndarray[Any, Any]], str] | str:
    """Run a kernel on the host; return its arrays and what it printed, or why there are none.

    `variables` are those of the module. They are the last arrays of the result.
    """
    folder = library.parent
    extents = [(*np.atleast_1d(part).tolist(), 1, 1)[:3] for part in shape]
    file, job = folder / "given", folder / "job"
    made = prepare(kernel.signature, arguments)
    file.write_bytes(pickle.dumps([*map(_plain, made), *variables]))
    count = len(kernel.signature.parameters)
    sizes = [*extents[0], *extents[1]]
    request = (str(library), which, sizes, shared, count, len(variables), str(file))
    job.write_bytes(pickle.dumps(request))
    worker = [sys.executable, "-c", _WORKER, str(job)]
    try:
        done = subprocess.run(worker, capture_output=True, check=False, timeout=3 * seconds)
    except subprocess.TimeoutExpired:
        return "reference took too long"
    if done.returncode:
        return "reference failed"
    arrays: list[np.ndarray[Any, Any]] = pickle.loads(file.read_bytes())
    return arrays, done.stdout.decode("latin-1")


def differences(
    results: Sequence[np.ndarray[Any, Any]],
    wanted: Sequence[np.ndarray[Any, Any]],
    tolerance: float = 2e-3,
) -> str:
    """Say which elements differ by more than rounding; "" if none do."""
    said = []
    for number, (x, y) in enumerate(zip(results, wanted, strict=True)):
        x, y = np.atleast_1d(x, y)
        rounding = tolerance
        if x.dtype.str == "|V2":  # bfloat16, which has 8 bits
            x, y = (bits.view("u2").astype("u4").__lshift__(16).view("f4") for bits in (x, y))
            rounding *= 8
        if x.dtype.kind in "fc":
            largest = float(np.abs(y[np.isfinite(y)]).max(initial=0))
            nearly = rounding / 100 * min(largest, 1e30)
            same = np.isclose(x, y, rtol=rounding, atol=nearly, equal_nan=True)
        else:
            same = x.view("u1") == y.view("u1")
        if not same.all():
            said.append(f"array {number}: {int((~same).sum()):,} of {same.size:,} differ")
    return "; ".join(said)


def _is_square(kernel: coalesce.Kernel) -> bool:
    """Whether a kernel uses more than the x of its threads.

    The groups of cooperative groups use y and z, too. But such kernels are often written for blocks
    that have only x.
    """
    named = re.search(r"\bthreadIdx\s*\.\s*[yz]|\bthread_index\b", kernel.module.text)
    in_groups = "cooperative_groups" in kernel.module.text and named is None
    return re.search(r"tid\.[yz]", kernel.ptx) is not None and not in_groups


def compared(
    kernel: coalesce.Kernel,
    library: Path | None,
    number: int,
    seconds: float,
    sizes: Sequence[int] = SIZES,
    blocks: Sequence[Any] = (),
    own: any_files.Own | None = None,
) -> dict[str, Any]:
    """Launch a kernel on the simulator and on the host until a launch can be compared.

    Returns the outcome and its details. Blocks of the shapes `blocks` are tried first. Launches are
    made until a result is right or wrong, or until they took four times `seconds`. `own` may fix
    the arguments and the shape.
    """
    until = time.monotonic() + 4 * seconds
    best: dict[str, Any] = {"outcome": "fault", "detail": ""}
    shapes = SQUARE if _is_square(kernel) else FLAT
    integers = any_files.integers_of(kernel)
    undefined: set[int] = set()
    hows = [How(s, ELEMENTS[0], seconds) for s in sizes]
    if len(integers) > 1:  # one of them is 1, for example an offset or the first of a range
        hows += [How(s, ELEMENTS[0], seconds, one=n) for s in (1024, 100) for n in integers]
    hows += [How(s, ELEMENTS[1], seconds) for s in sizes]
    shapes = (*((2, b) for b in blocks), *shapes)
    if own and "arguments" in own:
        hows = [How(own.get("size", 100), ELEMENTS[0], seconds, own=own)]
    if own and "shared" in own:
        hows = [replace(how, shared=own["shared"]) for how in hows]
    if own and "grid" in own:
        shapes = ((_extent(own["grid"]), _extent(own["block"])),)
    for how, shape in [(h, s) for h in hows for s in shapes]:
        if time.monotonic() > until:
            return best
        if how.one is not None and best["outcome"] not in ("fault", "nothing written"):
            continue
        if "outside shared memory" in best["detail"] and not (own and "shared" in own):
            how = replace(how, shared=98304)
        if "before the start" in best["detail"]:
            how = replace(how, offset=4096)
        if how.size in undefined:
            continue
        started = time.monotonic()
        row = _compared(kernel, library, number, shape, how)
        if row["outcome"] == "not defined":  # a race, for example because tiles overlap
            undefined.add(how.size)
            until += time.monotonic() - started
        row["launch"] = f"{shape[0]}, {shape[1]}; integers {how.size}"
        row["how"] = {**{f.name: getattr(how, f.name) for f in fields(how) if f.name != "own"}}
        row["how"]["shape"] = shape
        if ORDER.index(row["outcome"]) > ORDER.index(best["outcome"]) or not best["detail"]:
            best = row
        enough = ("right", "wrong") if library or (own and "reference" in own) else ORDER[1:]
        if best["outcome"] in enough:
            return best
    return best


def of_addresses(kernel: coalesce.Kernel, given: Sequence[Any]) -> list[int]:
    """Return the numbers of the arrays whose elements are addresses."""
    pairs = zip(kernel.signature.parameters, prepare(kernel.signature, given), strict=False)
    arrays = [p for p, made in pairs if isinstance(made, HostArray) and made.texture is None]
    return [n for n, p in enumerate(arrays) if p.spelled.count("*") > 1]


def _relative(after: np.ndarray[Any, Any], before: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return addresses relative to the first address that the kernel wrote."""
    addresses = after.reshape(-1).view("i8").copy()
    written = addresses != before.reshape(-1).view("i8")
    addresses[written] -= addresses[written][:1]
    return addresses


def _extent(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _by_numpy(
    kernel: coalesce.Kernel, how: How, given: Sequence[Any], variables: Sequence[Any]
) -> tuple[list[Any], str]:
    """Return the arrays after the launch, as NumPy computes them (see `any_files.Own`)."""
    assert how.own
    known = {p.name: v for p, v in zip(kernel.signature.parameters, given, strict=True)}
    for name, value in how.own["reference"].items():
        array = functools.reduce(operator.getitem, name.split("."), known)
        wanted = np.asarray(any_files.own_value(value, known), array.dtype).ravel()
        array.reshape(-1)[: wanted.size] = wanted
    return [*any_files.arrays_of(kernel, given), *variables], ""


def _compared(
    kernel: coalesce.Kernel, library: Path | None, number: int, shape: tuple[Any, Any], how: How
) -> dict[str, Any]:
    with values(kernel, how.own) as variables:
        outcome = any_files.outcome(kernel, "run", shape, how)
        if outcome.error:
            return {"outcome": "fault", "detail": outcome.error}
        given = any_files.arguments_of(kernel, how)
        before = [a.copy() for a in (*any_files.arrays_of(kernel, given), *variables)]
        same = all(a.tobytes() == b.tobytes() for a, b in zip(outcome.arrays, before, strict=True))
        if same and not outcome.printed:
            return {"outcome": "nothing written", "detail": ""}
        wanted: tuple[list[Any], str] | str
        if how.own and "reference" in how.own:
            wanted = _by_numpy(kernel, how, given, variables)
        elif library is None:
            return {"outcome": "not compared", "detail": ""}
        else:
            shared = any_files.kernel_shared(kernel, how.shared)
            seconds = how.seconds
            wanted = reference(kernel, library, number, shape, shared, given, variables, seconds)
        if isinstance(wanted, str):
            return {"outcome": "not compared", "detail": wanted}
        for number in of_addresses(kernel, given):
            for arrays in (outcome.arrays, wanted[0]):
                arrays[number] = _relative(arrays[number], before[number])
        said = differences(outcome.arrays, wanted[0], (how.own or {}).get("tolerance", 2e-3))
        if sorted(outcome.printed.split()) != sorted(wanted[1].split()):  # threads have no order
            said = said or "the printed words differ"
        for mode in () if said or of_addresses(kernel, given) else ("profile", "trace"):
            other = any_files.outcome(kernel, mode, shape, how)
            why = other.error or differences(other.arrays, outcome.arrays, 2e-3)
            said = said or f"{mode}: {why}" * bool(why)
        if not said:
            by = "NumPy" if how.own and "reference" in how.own else "g++"
            return {"outcome": "right", "detail": "", "reference": by}
        longer = replace(how, seconds=8 * how.seconds)  # the check must end, to say why
        checked = any_files.outcome(kernel, "check", shape, longer)
        findings = checked.returned
        if checked.error:
            why = f"{said}; the check did not end: {checked.error}"
            return {"outcome": "not compared", "detail": why}
    titles = "; ".join(sorted({f.title for f in findings or ()}))
    if "%clock" in kernel.ptx:
        titles = "it reads a clock"
    return {"outcome": "not defined" if titles else "wrong", "detail": titles or said}


@contextlib.contextmanager
def values(
    kernel: coalesce.Kernel, own: any_files.Own | None = None
) -> Iterator[list[np.ndarray[Any, Any]]]:
    """Give the variables of a module values other than zero; return the values."""
    random = np.random.default_rng(2)
    before = {name: np.array(kernel.globals[name]) for name in kernel.globals}
    for name, value in (own or {}).get("variables", {}).items():
        kernel.globals[name] = any_files.own_value(value, {})
    for name, value in before.items():
        if name in (own or {}).get("variables", {}):
            continue
        if value.dtype.kind in "fiu" and not value.any():
            some = random.random(value.shape) * (1 if value.dtype.kind == "f" else 30)
            with contextlib.suppress(ValueError):  # a const variable cannot be written
                kernel.globals[name] = some.astype(value.dtype)
    try:
        yield [np.array(kernel.globals[name]) for name in kernel.globals]
    finally:
        for name, value in before.items():
            with contextlib.suppress(ValueError):
                kernel.globals[name] = value
