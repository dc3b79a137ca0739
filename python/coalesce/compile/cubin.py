"""What machine code says about itself: the registers that a kernel needs.

A cubin is an ELF file (the layout is that of the System V ABI); its section ``.nv.info`` has
records of four bytes, format, attribute and size of what follows. The attribute 0x2f is a symbol's
number and the registers a thread of it has, as `cuobjdump -elf` shows them (EIATTR_REGCOUNT).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import lru_cache

_SIZED, _REGISTERS = 0x04, 0x2F


def registers(cubin: bytes | None, entry: str) -> int:
    """Return the registers a thread of kernel `entry` has; 0 where the machine code does not say.

    Examples
    --------
    >>> registers(None, "tiled")
    0
    """
    return 0 if cubin is None else _all(cubin).get(entry, 0)


@lru_cache(maxsize=64)
def _all(cubin: bytes) -> dict[str, int]:
    try:
        return dict(_found(cubin))
    except (struct.error, LookupError, ValueError):
        return {}


def _found(cubin: bytes) -> Iterator[tuple[str, int]]:
    if cubin[:4] != b"\x7fELF":
        return
    (table,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    # name, type, flags, address, offset, bytes, link, info, alignment, bytes of an entry
    sections = [struct.unpack_from("<IIQQQQIIQQ", cubin, table + n * size) for n in range(count)]

    def text(strings: tuple[int, ...], at: int) -> str:
        start = strings[4] + at
        return cubin[start : cubin.index(b"\0", start)].decode()

    by_name = {text(sections[names], section[0]): section for section in sections}
    symbols, info = by_name[".symtab"], by_name[".nv.info"]
    strings = sections[symbols[6]]
    at, end = info[4], info[4] + info[5]
    while at + 4 <= end:
        form, attribute, bytes_ = struct.unpack_from("<BBH", cubin, at)
        if form == _SIZED and attribute == _REGISTERS:
            symbol, number = struct.unpack_from("<II", cubin, at + 4)
            (name,) = struct.unpack_from("<I", cubin, symbols[4] + symbol * symbols[9])
            yield text(strings, name), number
        at += 4 + (bytes_ if form == _SIZED else 0)
