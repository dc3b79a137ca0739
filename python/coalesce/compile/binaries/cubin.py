"""Reads machine code: how many registers a kernel uses, and the addresses of functions.

A cubin is a file with machine code for a GPU, in the format ELF (System V ABI).

Registers: the section ``.nv.info`` is a sequence of records. Each record begins with its format
(1 byte), its attribute (1 byte), and the size of the rest (2 bytes). A record with attribute 0x2f
has the index of a kernel's symbol and the registers per thread. `cuobjdump -elf` calls this
attribute EIATTR_REGCOUNT.

Addresses: a pointer to a function contains the function's address. NVIDIA does not publish how the
assembler chooses these addresses. The following rule comes from assembling small modules (CUDA 13):

- If a module has one kernel, the address is the function's offset in the code of this kernel.
- If a module has several kernels, each kernel that calls functions through pointers has a section
  ``.nv.constant2``. This section begins with a table of items of 8 bytes. Item 0 is the number 1,
  for the null pointer. The next items are offsets of functions in the code of the kernel. If item n
  is the offset of a function, the address of this function is 8 * n.

The value of the symbol ``$kernel$function`` is the offset of the function.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

_SIZED, _REGISTERS = 0x04, 0x2F
_FUNCTION = 2  # a symbol's type (STT_FUNC)
_NO_BYTES = 8  # a section's type (SHT_NOBITS)
_NULL = 1


def registers(cubin: bytes | None, entry: str) -> int:
    """Return the number of registers that each thread of the kernel `entry` uses.

    The result is 0 if this is not known, for example if `cubin` is None.

    Examples
    --------
    >>> registers(None, "tiled")
    0
    """
    return 0 if cubin is None else _read(cubin).registers.get(entry, 0)


def functions(cubin: bytes | None) -> Mapping[str, int]:
    """Return a dict with the address of each function in a cubin.

    The keys are the names of the functions, as in the PTX. The address is the value of a
    pointer to the function. Functions whose address is not known are left out.

    Examples
    --------
    >>> functions(None)
    {}
    """
    return {} if cubin is None else _read(cubin).functions


def section(file: bytes, name: str) -> bytes:
    """Return the bytes of section `name` of an ELF file.

    If there is no such section, the result is empty. If `file` is not the contents of an ELF file,
    a ValueError is raised.
    """
    try:
        return _Cubin(file).contents(name)
    except struct.error:
        raise ValueError("the ELF file is not complete") from None


class _Known(NamedTuple):
    registers: Mapping[str, int]
    functions: Mapping[str, int]


@lru_cache(maxsize=64)
def _read(cubin: bytes) -> _Known:
    try:
        file = _Cubin(cubin)
        return _Known(dict(_registers(file)), _functions(file))
    except (struct.error, LookupError, ValueError):
        return _Known({}, {})


class _Symbol(NamedTuple):
    name: str
    is_function: bool
    section: int
    value: int


class _Cubin:
    """The sections of an ELF file by name, and its symbols."""

    def __init__(self, data: bytes) -> None:
        if data[:4] != b"\x7fELF":
            raise ValueError("the file is not an ELF file")
        self._data = data
        (table,) = struct.unpack_from("<Q", data, 0x28)
        size, count, names = struct.unpack_from("<HHH", data, 0x3A)
        # name, type, flags, address, offset, bytes, link, info, alignment, bytes of an entry
        self._sections = [
            struct.unpack_from("<IIQQQQIIQQ", data, table + n * size) for n in range(count)
        ]
        self.names = [self._text(names, section[0]) for section in self._sections]

    def _text(self, strings: int, at: int) -> str:
        start = self._sections[strings][4] + at
        return self._data[start : self._data.index(b"\0", start)].decode()

    def contents(self, name: str) -> bytes:
        """Return a section's bytes. It is empty if the file has no such section."""
        if name not in self.names:
            return b""
        section = self._sections[self.names.index(name)]
        return b"" if section[1] == _NO_BYTES else self._data[section[4] : section[4] + section[5]]

    def symbols(self) -> list[_Symbol]:
        strings = self._sections[self.names.index(".symtab")][6]
        return [
            _Symbol(self._text(strings, name), info & 15 == _FUNCTION, section, value)
            for name, info, _, section, value, _ in struct.iter_unpack(
                "<IBBHQQ", self.contents(".symtab")
            )
        ]


def _registers(file: _Cubin) -> Iterator[tuple[str, int]]:
    symbols, info = file.symbols(), file.contents(".nv.info")
    at = 0
    while at + 4 <= len(info):
        form, attribute, bytes_ = struct.unpack_from("<BBH", info, at)
        if form == _SIZED and attribute == _REGISTERS:
            symbol, number = struct.unpack_from("<II", info, at + 4)
            yield symbols[symbol].name, number
        at += 4 + (bytes_ if form == _SIZED else 0)


def _functions(file: _Cubin) -> dict[str, int]:
    kernels = [name.removeprefix(".text.") for name in file.names if name.startswith(".text.")]
    # For each kernel, function names by offset.
    code: dict[str, dict[int, str]] = {kernel: {} for kernel in kernels}
    for symbol in file.symbols():
        if symbol.is_function and symbol.section < len(file.names):
            kernel = file.names[symbol.section].removeprefix(".text.")
            if symbol.name.startswith(f"${kernel}$"):
                code[kernel][symbol.value] = symbol.name.removeprefix(f"${kernel}$")
    addresses: dict[str, int] = {}
    for kernel in kernels:
        table = file.contents(f".nv.constant2.{kernel}")
        offsets = [offset for (offset,) in struct.iter_unpack("<Q", table[: len(table) & ~7])]
        if offsets[:1] != [_NULL]:
            continue
        for place, offset in enumerate(offsets[1:], 1):
            if offset not in code[kernel]:
                break  # other constants follow
            addresses[code[kernel][offset]] = 8 * place
    if not addresses and len(kernels) == 1:
        addresses = {name: offset for offset, name in code[kernels[0]].items()}
    return addresses
