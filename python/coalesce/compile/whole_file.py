"""Compiles the device code of a CUDA C++ file that may also have host code.

First, this module compiles the unchanged source. If that fails, it removes the host code
(cxx/host_code.py) and compiles the rest. A source that launches kernels or has a main() cannot be
compiled unchanged. For such a source, the first compilation is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from coalesce.common.errors import CompileError
from coalesce.compile import hints, nvrtc
from coalesce.compile.device_headers.headers import (
    INCLUDE_OPTION,
    STANDARD,
    folders_of,
    has_replacement,
    is_for_host,
)
from coalesce.compile.nvrtc import Compiled
from coalesce.cxx import host_code
from coalesce.cxx.declarations import name_of
from coalesce.cxx.file_layout import layout_of
from coalesce.cxx.host_code import DeviceCode
from coalesce.cxx.signature import plain_name

_ANNOTATIONS = re.compile(r"(?<=\])(?:\s*\b__(?:host|device)__)+(?=\s*[({])")
_ERROR_LINE = re.compile(r"^\s*(\S+\(\d+\)): error", re.MULTILINE)
_HAS_HOST_CODE = re.compile(r"<<<|\bmain\s*\(")


def compile_whole(
    source: str,
    *,
    arch: str,
    options: Sequence[str],
    name: str,
    headers: Mapping[str, str],
    expressions: Sequence[str],
    entry: str | None,
) -> tuple[Compiled, DeviceCode | None]:
    """Compile a source, without its host code if necessary.

    Return a pair: the result of the compilation, and the source without its host code. The second
    item is None if the unchanged source was compiled.

    `expressions` are the template instantiations to compile. If there are none, the function
    compiles the instantiations that the removed host code launches. If `entry` names a
    kernel, only the instantiations of this kernel are compiled. The other parameters are the same
    as for `nvrtc.compile_cuda`.
    """
    first: CompileError | None = None
    if not _has_host_code(source):
        try:
            return nvrtc.compile_cuda(
                source,
                arch=arch,
                options=options,
                name=name,
                headers=headers,
                expressions=expressions,
            ), None
        except CompileError as error:
            first = error
    try:
        code = device_code(source, options, headers, expressions)
    except RecursionError:
        raise first or CompileError(f"{name}: the source is nested too deeply") from None
    of_host = bool(code.missing) if first is None else _is_of_host(first, code)
    if of_host and not code.kernels and "__global__" not in source:
        missing = (
            f"\n  These headers were not found: {', '.join(code.missing)}. If kernels are in "
            'one of them, pass its folder with options=["-Ifolder"] or its text with headers='
            '{"name": text}.'
        )
        program = (
            f"\n  To run the whole program, also the kernels of its libraries: coalesce run {name}"
        )
        raise CompileError(
            f"{name} has no kernel; a kernel is a function declared __global__."
            + (missing if code.missing else f"\n{first}")
            + program * (re.search(r"\bmain\s*\(", source) is not None)
        ) from first
    unchanged = code.text == source and not code.headers and not code.instead
    if first is not None and (unchanged or not code.kernels):
        if unchanged and code.kernels and not re.search(r"\bmain\s*\(", source):
            message = str(first).replace(hints.DEVICE_CODE_ONLY, hints.RUNTIME_IN_A_KERNEL)
            raise CompileError(message) from None
        raise first
    given = (source, arch, options, name, headers, expressions, entry)
    try:
        return _compiled(code, *given), code
    except CompileError as error:
        without: list[str] = []
        asked = {name_of(plain_name(each)) for each in (entry, *expressions) if each is not None}
        for other in code.instead:
            if not other.launching or (asked and not asked & other.launching):
                try:
                    return _compiled(other, *given), other
                except CompileError as later:
                    if _ERROR_LINE.findall(str(later)) != _ERROR_LINE.findall(str(error)):
                        without.append(f"  Without the #error lines, too:\n{later}")
        if first is not None and _is_of_removal(error, first):
            raise first from None
        raise CompileError("\n".join([str(error), *without])) from None


def compiler_input(
    source: str, code: DeviceCode | None, options: Sequence[str], headers: Mapping[str, str]
) -> tuple[str, list[str], dict[str, str]]:
    """Return the text, the options and the headers with which the compiler compiles a source.

    `code` is the source without its host code, or None if it is compiled unchanged. `options` and
    `headers` are those of the user.
    """
    if code is None:
        return source, list(options), dict(headers)
    # The texts of all headers are passed to the compiler, so it needs no folders of the user.
    own = [option for option in options if INCLUDE_OPTION.match(option) is None]
    if code.has_unmarked:
        own.append("-default-device")
    return code.text, own, {**headers, **code.headers}


def _is_of_removal(error: CompileError, first: CompileError) -> bool:
    """Return whether `error` has mistakes that only the removal of host code caused.

    For example, a macro may hide a ``__device__``, so that a needed function is removed. `first` is
    the compiler's error for the unchanged source. If the compiler stopped at a missing header,
    `first` does not list all mistakes.
    """
    if "catastrophic error" in str(first):
        return False
    # The two compilations may name the folder of a header differently.
    before, after = (
        {line.rpartition("/")[2] for line in _ERROR_LINE.findall(str(e))} for e in (first, error)
    )
    return not after <= before


def _is_of_host(error: CompileError, code: DeviceCode) -> bool:
    """Return whether compilation failed because the source has no kernels, only host code."""
    return bool(code.missing) or "is considered a host" in str(error)


def _has_host_code(source: str) -> bool:
    """Return whether a source launches kernels or has a main(), which NVRTC cannot compile."""
    if _HAS_HOST_CODE.search(source) is None:
        return False
    return _HAS_HOST_CODE.search(layout_of(source).bare) is not None  # `bare` has no comments


def device_code(
    source: str,
    options: Sequence[str],
    headers: Mapping[str, str],
    expressions: Sequence[str] = (),
) -> DeviceCode:
    """Return a source without its host code.

    `options` may name folders of headers, and `headers` is a dict from names of headers to texts.
    `expressions` are template instantiations that the caller needs, such as ``"scale<Particle>"``.
    In this example, the source keeps the type ``Particle``, even if no other device code uses it.
    """
    folders = folders_of(options)

    def find(header: str) -> str | bool | None:
        if header in headers:
            return headers[header]
        if is_for_host(header):
            return True if header in STANDARD or has_replacement(header) else None
        for folder in folders:
            path = folder / header
            if path.is_file() and path.stat().st_size < 16 << 20:
                return path.read_bytes().decode("utf-8-sig", "replace")
        if header in STANDARD or has_replacement(header):
            return True
        return any((Path(folder) / header).is_file() for folder in nvrtc.include_folders()) or None

    code = host_code.without_host_code(source, find, expressions)

    def plain(code: DeviceCode) -> DeviceCode:
        texts = {header: _plain_lambdas(text) for header, text in code.headers.items()}
        instead = tuple(map(plain, code.instead))
        return replace(code, text=_plain_lambdas(code.text), headers=texts, instead=instead)

    return plain(code)


def _plain_lambdas(text: str) -> str:
    """Replace the words __host__ and __device__ in lambdas by spaces: ``[] __device__ () {}``.

    NVRTC rejects these words there. They are not needed, because a lambda in device code is always
    device code.
    """
    return _ANNOTATIONS.sub(lambda match: re.sub(r"\S", " ", match[0]), text)


def _compiled(
    code: DeviceCode,
    source: str,
    arch: str,
    options: Sequence[str],
    name: str,
    headers: Mapping[str, str],
    chosen: Sequence[str],
    entry: str | None,
) -> Compiled:
    """Compile the device code. The other parameters are the same as for `compile_whole`.

    `chosen` are the instantiations to compile. If there are none, those of `code` are compiled; if
    the compiler rejects one of these, it is left out.
    """
    wanted = list(chosen)
    if not wanted:
        mangled = entry is not None and entry.startswith("_Z")
        wanted = [e for e in code.expressions if mangled or entry in (None, e.partition("<")[0])]
    text, options, headers = compiler_input(source, code, options, headers)

    def compiled(expressions: Sequence[str]) -> Compiled:
        return nvrtc.compile_cuda(
            text, arch=arch, options=options, name=name, headers=headers, expressions=expressions
        )

    try:
        return compiled(wanted)
    except CompileError as error:
        if not wanted or chosen:
            raise _in_the_users_lines(error, code, source, name) from None
    try:
        compiled(())
    except CompileError as error:
        raise _in_the_users_lines(error, code, source, name) from None
    accepted: list[str] = []
    refused: CompileError | None = None
    for expression in wanted:
        try:
            compiled([expression])
        except CompileError as error:
            if "__nv_name_map" not in str(error):  # the kernel is wrong, not the expression
                refused = refused or error
            continue
        accepted.append(expression)
    if refused and not accepted and all(kernel.endswith("<>") for kernel in code.kernels):
        raise _in_the_users_lines(refused, code, source, name) from None
    return compiled(accepted)


def _in_the_users_lines(
    error: CompileError, code: DeviceCode, source: str, name: str
) -> CompileError:
    """Return the compiler's error for the source as the user wrote it.

    The message quotes the user's lines, and says which host code was left out.
    """
    own, changed = source.split("\n"), code.text.split("\n")
    text = str(error).replace(hints.DEVICE_CODE_ONLY, hints.RUNTIME_IN_A_KERNEL)
    lines = text.split("\n")
    for i, line in enumerate(lines):
        match = re.match(rf"{re.escape(name)}\((\d+)\): ", line)
        number = int(match[1]) - 1 if match else len(own)
        if number < len(own) and own[number] != changed[number]:
            for j in range(i + 1, min(i + 4, len(lines))):
                if lines[j].strip() == changed[number].strip():
                    lines[j] = own[number]
                    break
    more = [
        f"`{called}` (line {line}) is host code, because it has no __device__. "
        "It was left out. Mark it __device__ if kernels use it."
        for called, line in code.host_names.items()
        if re.search(rf'"{re.escape(called)}["(<]', str(error))
        and "texture refer" not in str(error)
    ]
    used = re.search(r'::<unnamed>(?:" has no member| \[)', text)  # a stand-in of host_code.py
    if used and any("void *of_host[" in part for part in (code.text, *code.headers.values())):
        more.append(
            hints.for_host_class("A member of the C++ standard library, such as std::vector,")
        )
    more += [hint for hint in hints.for_pasted_text("\n".join(lines)) if hint not in text]
    unknown = [header for header in code.missing if not is_for_host(header)]
    if unknown:
        more.append(hints.for_missing_headers(unknown))
    elif code.missing and re.search(r'name followed by "::"|is undefined|has no member', text):
        more.append(hints.for_host_headers(code.missing))
    return CompileError("\n  ".join(["\n".join(lines), *more]))
