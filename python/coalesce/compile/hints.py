"""Adds advice to the compiler's error messages: what to install, pass, change or remove."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

from coalesce.compile.device_headers.headers import is_for_host
from coalesce.cxx.signature import plain_name

DEVICE_CODE_ONLY = (
    "Only device code is compiled here. Leave out main(), the headers that only main() needs, and "
    "calls of the CUDA runtime. Launch the kernel from Python: kernel[grid, block](arguments)."
)
RUNTIME_IN_A_KERNEL = (
    "Device code calls a function of the CUDA runtime here (dynamic parallelism), which is not "
    "supported. Only host code can call it. Create arrays in Python, and launch from "
    "Python: kernel[grid, block](arguments). In a kernel, malloc() allocates memory."
)
# The largest shared memory of a block, in bytes, for any GPU that NVRTC compiles for (CUDA C++
# Programming Guide, "Technical Specifications per Compute Capability").
_MOST_SHARED = 227 * 1024
_OPENCL = re.compile(r"\b__kernel\b|\bget_(?:global|local)_id\b")
_HOST_CLASSES = re.compile(
    r'"std" has no member "(vector|string|map|unordered_map|set|list|deque|cout|cerr|endl|thread'
    r'|shared_ptr|unique_ptr|ifstream|ofstream|ostream)"'
)
_RUNTIME = re.compile(r'identifier "(cuda[A-Z]\w*|cublas\w+)" is undefined')
_WHEELS = (
    (r"(?:nv|cuda|cub|thrust)/", "nvidia-cuda-cccl"),
    (r"crt/", "nvidia-cuda-crt"),
    (r"curand", "nvidia-curand"),
    (r"cutlass/|cute/", "nvidia-cutlass"),
    (r"(?:cuda|cooperative|mma|vector_|math_|sm_|device_)", "nvidia-cuda-runtime"),
)


# Extensions of C++ that nvcc accepts in device code, and NVRTC does not.
_GNU = (
    (r"\bcase\b[^:\n]*\.\.\.", "ranges of cases (`case 1 ... 4:`)"),
    (r"\(\s*\{", "statements in expressions (`({ ... })`)"),
    (r"\?\s*:", "conditional expressions without a second operand (`a ?: b`)"),
    (r"\{\s*\.\w+\s*=", "names of members in initializers before `-std=c++20`"),
)


def error_message(title: str, log: str, architectures: Sequence[int]) -> str:
    """Return the message of a CompileError: the title, the compiler's log, and advice.

    `architectures` are the compute capabilities that the compiler knows, such as 90.
    """
    advice = [*_missing_header(log), *_host_code(log), *_missing_function(log), *_removed(log)]
    advice += [*for_pasted_text(log), *_template_arguments(log), *_shared_memory(log)]
    advice += [*_constant_memory(log), *_gnu(log), *for_device_code(log)]
    if 'error: expected a ";"' in log:
        advice.append('If a ";" is missing, it is often missing at the end of the line before.')
    if "Loop in catastrophic error processing" in log:
        advice.append("The compiler ran out of memory: a macro or an expression grows too large.")
    if "invalid value for --gpu-architecture" in log:
        known = ", ".join(f"sm_{number}" for number in architectures)
        advice.append(f"This NVRTC can compile for {known}.")
    return "\n  ".join([f"{title}\n{_shortened(log)}", *advice])


def for_pasted_text(log: str) -> Iterator[str]:
    """Yield advice for a source with pasted text that is not CUDA C++, such as Markdown.

    Users often copy such text together with a kernel. `log` is the compiler's log.
    """
    shown = [line.strip() for line in log.splitlines()]
    if any(line.startswith("```") for line in shown):
        yield "Leave out the lines that start with ```. They mark code in Markdown."
    if command := next((line for line in shown if re.match(r"%%?[A-Za-z]", line)), None):
        yield f"Leave out the line `{command}`. It is a command of a notebook."
    if _OPENCL.search(log):
        yield (
            "This is a kernel for OpenCL. In CUDA, write `__global__ void` in place of "
            "`__kernel void`, leave out `__global` before parameters, and write "
            "blockIdx.x * blockDim.x + threadIdx.x in place of get_global_id(0)."
        )
    if "unrecognized token" in log:
        others = dict.fromkeys(c for line in shown for c in line if ord(c) > 127)
        if any(c.isalpha() for c in others):
            yield (
                "NVRTC accepts only ASCII letters in names (nvcc accepts others, too, except in "
                "names of kernels, device functions and device variables). Rename them."
            )
        signs = [c for c in others if not c.isalpha()]
        names = ", ".join(f"{unicodedata.name(c, '')} (U+{ord(c):04X})" for c in signs)
        if names:
            yield (
                "The source has characters that are not C++; text that was copied from a page or "
                f"a document may have them: {names}. Type ordinary quotes, dashes and spaces there."
            )
    if of_host := _HOST_CLASSES.search(log):
        yield for_host_class(f"std::{of_host[1]}")


def for_device_code(log: str) -> Iterator[str]:
    """Yield advice for names and sizes that only the host knows."""
    if "a variable length array cannot have static storage duration" in log:
        yield (
            "The size of a __shared__ array must be a constant. For a size that is known at the "
            "launch, declare `extern __shared__ float s[];`, and pass the number of bytes as the "
            "launch's size of shared memory."
        )
    for name in dict.fromkeys(re.findall(r'identifier "(\w+)" is undefined in device code', log)):
        yield (
            f"`{name}` is a variable of the host, which a kernel cannot read. Make it constexpr or "
            "a macro, or pass it as an argument."
        )


def _template_arguments(log: str) -> Iterator[str]:
    """Yield advice for an argument `entry` that names an instantiation unknown to the compiler."""
    if "__nv_name_map" not in log:
        return
    if "cannot determine which instance" in log:
        yield (
            "The template arguments in entry= do not fit the template. Give one for each template "
            'parameter that has no default, in order, such as entry="kernel<float, 16>".'
        )
    elif unknown := re.search(r'__nv_name_map.*identifier "(\w+)" is undefined', log):
        yield (
            f"The source has no template {unknown[1]} outside a namespace. If the template is in a "
            f'namespace, write the namespace, too: entry="name::{unknown[1]}<float>".'
        )


def for_host_class(name: str) -> str:
    """Return advice about a class of the C++ standard library that kernels cannot use."""
    return (
        f"{name} is for host code only. For an array, give the kernel a pointer and a number of "
        "elements, such as (float *v, int n). To print, call printf()."
    )


def for_host_headers(headers: Sequence[str]) -> str:
    """Return advice about host headers whose ``#include`` lines were removed from the source."""
    listed = ", ".join(headers[:8]) + ", ..." * (len(headers) > 8)
    return (
        f"These headers are for the host and were left out: {listed}. If kernels use types or "
        "functions from these headers, define them in the source."
    )


def for_missing_headers(headers: Sequence[str]) -> str:
    """Return advice about headers that were not found: what to install, or what to pass."""
    listed = ", ".join(headers[:8]) + ", ..." * (len(headers) > 8)
    wheels = {wheel: None for header in headers for wheel in _wheel(header)}
    install = f" Install {' '.join(wheels)} (pip install), or pass" if wheels else " Pass"
    return (
        f"These headers were not found and were left out: {listed}.{install} their folder with "
        'options=["-Ifolder"] or their texts with headers={"name": text}.'
    )


def _wheel(header: str) -> list[str]:
    return next(([wheel] for start, wheel in _WHEELS if re.match(start, header)), [])


def _shortened(log: str, lines: int = 200, columns: int = 500) -> str:
    """Cut a log that is too long to read."""
    log_lines = log.rstrip().splitlines()
    shown = [
        line if len(line) <= columns else line[:columns] + " ..." for line in log_lines[:lines]
    ]
    if len(log_lines) > lines:
        shown.append(f"... {len(log_lines) - lines} more lines")
    return "\n".join(shown)


def _missing_header(log: str) -> list[str]:
    missing = re.search(r'cannot open source file "([^"]+)"', log)
    if missing is None:
        return []
    header = missing[1]
    if is_for_host(header):
        return [f"<{header}> is for the host. {DEVICE_CODE_ONLY}"]
    if wheel := _wheel(header):
        return [f"{header} comes with: pip install {wheel[0]}"]
    advice = (
        f"The header {header} was not found. NVRTC compiles only device code, and has no headers "
        f'for host code. Pass the text of the header with headers={{"{header}": ...}}, or its '
        'folder with options=["-Ifolder"].'
    )
    return [advice]


def _host_code(log: str) -> list[str]:
    """Return advice for a source that contains host code beside its kernels."""
    functions = re.findall(r"error: A function without execution space annotations.*\n\s*(.*)", log)
    names = [match[1] for line in functions if (match := re.search(r"(\w+)\s*\(", line))]
    if "device-side kernel launch" in log:
        advice = (
            "A kernel launches a kernel here (dynamic parallelism), which is not supported. "
            "Launch the inner kernel from Python: kernel[grid, block](arguments). A kernel that "
            "launches none can be used: give its name."
        )
        return [advice]
    if "main" in names or _RUNTIME.search(log) or re.search(r"<<<.*\n\s*\^", log):
        return [DEVICE_CODE_ONLY]
    if names:
        example = f"__device__ ... {names[0]}(...)"
        return [f"A function that a kernel calls must be declared __device__: {example}"]
    return []


def _missing_function(log: str) -> list[str]:
    missing = re.search(r"Unresolved extern function '(\w+)'", log)
    if missing is None:
        return []
    name = plain_name(missing[1])
    advice = (
        f"{name} is declared, but this source does not contain its body. Each source is compiled "
        "alone, so put the body into this source."
    )
    return [advice]


def _gnu(log: str) -> Iterator[str]:
    """Yield advice for extensions of GNU C++ in lines with errors."""
    lines = re.findall(r"\berror: .*\n\s*(.*)", log)
    for pattern, name in _GNU:
        if any(re.search(pattern, line) for line in lines):
            yield f"NVRTC does not support {name}, which nvcc accepts. Write standard C++ here."


def _shared_memory(log: str) -> Iterator[str]:
    """Yield advice for a kernel with too much static shared memory."""
    for name, used, most in re.findall(
        r"Entry function '(\w+)' uses too much shared data \((0x\w+) bytes, (0x\w+) max\)", log
    ):
        advice = (
            "For more, declare the array as extern __shared__, and pass its size as shared_bytes "
            "of the launch."
            if int(used, 16) <= _MOST_SHARED
            else f"Even with extern __shared__, a block has at most {_MOST_SHARED}, on compute "
            "capability 9.0. Use smaller arrays, or global memory."
        )
        yield (
            f"{plain_name(name)} has {int(used, 16)} bytes of static shared memory; at most "
            f"{int(most, 16)} bytes are allowed. {advice}"
        )


def _constant_memory(log: str) -> list[str]:
    """Return advice for a source with too many ``__constant__`` variables."""
    match = re.search(r"too much global constant data \((0x\w+) bytes, (0x\w+) max\)", log)
    if match is None:
        return []
    used, most = (int(number, 16) for number in match.groups())
    advice = (
        f"The __constant__ variables of the source have {used} bytes; at most {most} bytes are "
        "allowed. Declare large arrays as __device__, or pass them as const arguments."
    )
    return [advice]


def _removed(log: str) -> list[str]:
    """If the log names a function that CUDA removed, say which function replaces it."""
    advice = []
    if vote := re.search(
        r'identifier "__(shfl(?:_up|_down|_xor)?|any|all|ballot)" is undefined', log
    ):
        advice.append(
            f"CUDA has no __{vote[1]} since compute capability 7.0. Write "
            f"__{vote[1]}_sync(0xffffffff, ...), with the mask of the lanes that take part."
        )
    if re.search(r'texture is not a template|overloaded function "tex[123]D', log):
        advice.append(
            "CUDA has no texture references (texture<...>) since CUDA 12. Give the kernel a "
            "parameter `cudaTextureObject_t t`, fetch by tex1Dfetch<float>(t, i), and pass "
            "coalesce.texture(array, linear_memory=True); for tex2D pass coalesce.texture(array). "
            "`coalesce run` runs whole programs that have texture references."
        )
    return advice
