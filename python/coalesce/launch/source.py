"""Reads the source text of a kernel from a file or a string, and checks it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from coalesce._core import programs
from coalesce.common import require
from coalesce.compile import nvrtc
from coalesce.cxx import signature
from coalesce.launch.module import Module

MOST_SOURCE_BYTES = 32 << 20  # five times the size of CUDA's largest headers together

_FAT_BINARY = b"\x50\xed\x55\xba"
_ANY = 999  # a compute capability that is newer than all

_FILE_NAME = re.compile(r"[^\n;{}()]+\.(cu|cuh|hip|cpp|cc|cxx|c|h|hpp|ptx|txt|cubin|fatbin)\s*")


def _name_for_ptx(name: str) -> str:
    """Return the name of a file in the form that PTX allows."""
    return "".join(c if c.isprintable() and c not in '"\\' else "_" for c in name)


def _check_source(source: Any) -> None:
    if not isinstance(source, str):
        raise TypeError(f"`source` must be a string, bytes or a path; got {require.shown(source)}")
    if len(source) > MOST_SOURCE_BYTES:
        raise ValueError(
            f"`source` has {len(source):,} characters; at most {MOST_SOURCE_BYTES:,} are allowed"
        )
    if len(source) < 4096 and _FILE_NAME.fullmatch(source):
        raise ValueError(
            f"there is no file {source.strip()!r} in {Path.cwd()}; `source` must be the path of a "
            "file, or the text of a kernel"
        )
    if len(source) < 250 and source.startswith("/") and Path(source.strip()).is_dir():
        raise _folder_error(Path(source.strip()))
    if bad := re.search("[\0\ud800-\udfff]", source):
        line = source.count("\n", 0, bad.start()) + 1
        kind = "NUL character" if bad[0] == "\0" else f"surrogate ({bad[0]!r}), which is not text,"
        raise ValueError(f"`source` has a {kind} in line {line}")


def _folder_error(path: Path) -> ValueError:
    return ValueError(f"{str(path)!r} is a folder; `source` must be the path of a file")


def _read(path: Path) -> tuple[str, list[str]]:
    """Return the text of a file, and the options for reading files beside it."""
    if path.is_dir():
        raise _folder_error(path)
    # Without O_NONBLOCK, the opening of a pipe to which nobody writes would wait for ever.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        os.set_blocking(file.fileno(), True)
        # A device such as /dev/zero has no end.
        content = file.read(4 * MOST_SOURCE_BYTES + 1)
    if len(content) > 4 * MOST_SOURCE_BYTES:
        raise ValueError(
            f"the file {path} has more than the {4 * MOST_SOURCE_BYTES:,} bytes that are allowed"
        )
    text = _text_of(content, f"the file {path}")
    folder = path.resolve().parent
    # PTX names the file that it was compiled from, and messages show lines of it.
    beside = signature.is_ptx(text) or _includes_neighbours(text, folder)
    return text, [f"-I{folder}"] if beside else []


def _text_of(content: bytes, name: str) -> str:
    """Return the text in the bytes of a source. `name` names the source in messages.

    If the source is a fat binary, this is its PTX.
    """
    if content[:4] == _FAT_BINARY:
        texts = [ptx for _, ptx, *_ in programs.device_code(content, _ANY) if ptx]
        if texts:
            return texts[0].rstrip("\0")
    if content[:4] in (b"\x7fELF", _FAT_BINARY):
        raise ValueError(
            f"{name} is machine code without PTX; `source` must be CUDA C++ or PTX, so let the "
            "compiler make PTX, too"
        )
    return _decoded(content).rstrip("\0")  # compilers end PTX with a NUL character


def _decoded(content: bytes) -> str:
    """Decode the text of a file.

    A file that begins with the mark of UTF-16 is UTF-16. Any other file is UTF-8. If it is not
    valid UTF-8, each byte becomes a character. This may be wrong, but only comments and string
    literals contain characters beyond ASCII.
    """
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return content.decode("utf-16", "replace")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def _includes_neighbours(text: str, folder: Path) -> bool:
    """Return whether a file includes other files of its folder."""
    includes = re.findall(r'^[ \t]*#[ \t]*include[ \t]*(?:"|<([^>\n]+)>)', text, re.MULTILINE)
    return any(not name or (folder / name).is_file() for name in includes)


def module_of(
    source: Any,
    entry: str | None,
    options: Sequence[str],
    arch: str | int | None,
    headers: Mapping[str, str] | None,
    filename: str | None,
    declaration: str | None = None,
) -> Module:
    """Make the `Module` of a source. The parameters are the same as for `coalesce.Kernel`."""
    chosen = nvrtc.checked_options(options)
    filename = nvrtc.checked_filename(filename)
    texts = nvrtc.checked_headers(headers)
    if isinstance(source, str) and len(source) < 4096 and _FILE_NAME.fullmatch(source):
        source = Path(source.strip()) if Path(source.strip()).is_file() else source
    if isinstance(source, os.PathLike) and not isinstance(source, type):
        path = Path(require.path("source", source))
        source, options_in_file = _read(path)
        filename = filename or _name_for_ptx(path.name)
        chosen += options_in_file
    if isinstance(source, bytes):
        source = _text_of(source, "`source`")
    _check_source(source)
    source = source.removeprefix("\ufeff")  # a byte order mark, which editors on Windows write
    is_ptx = signature.is_ptx(source)
    architecture = nvrtc.architecture_name(arch)
    if architecture is not None and is_ptx:
        raise ValueError(
            f"arch={arch!r}: the source is PTX, and its .target line sets the architecture; "
            "leave out `arch`"
        )
    if declaration is not None:
        require.text("signature", declaration)
        if not is_ptx:
            raise ValueError("`signature` is for PTX; the source is CUDA C++, which declares it")
    name = filename or ("kernel.ptx" if is_ptx else "kernel.cu")
    expression = entry if entry is not None and "<" in entry else None
    template = entry if expression is None else None
    parts = architecture, texts, name, expression, template, declaration or ""
    return Module(source, tuple(chosen), *parts)
