"""Reads the debug information in the PTX of a build with ``-G``.

The PTX ends with sections in the format DWARF 2, as lists of numbers and labels. They describe the
variables of each function: the name, the type, the scope (the code in which the name is known), and
the place in local memory. Here, labels of the code are replaced by the numbers of their lines in
the PTX. So a range of addresses becomes a range of lines of the PTX.
"""

from __future__ import annotations

import inspect
import io
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from coalesce.compile.binaries.layouts import Array, Structure, TypeReader, uleb128
from coalesce.cxx.signature import Parameter

Range = tuple[int, int]  # the first line, and the line after the last one

_SECTION = re.compile(r"\.section\s+\.(debug_\w+)\s*\{([^}]*)\}")
_LABEL = re.compile(r"\s*([\w$]+):")
_NUMBERS = re.compile(r"\.b(8|16|32|64)\s+([^\n]+)")
_DEPOT = "__local_depot"  # the compiler's name for the local memory of a function
_ADDRESS, _PLUS = 0x03, 0x23  # DW_OP_addr, DW_OP_plus_uconst
_REGISTER, _SIGNED, _VALUE = 0x90, 0x11, 0x9F  # DW_OP_regx, DW_OP_consts, DW_OP_stack_value
# The address of other symbols than labels, and of a function's local memory.
_NO_LABEL, _LOCAL = 1 << 40, 1 << 41


@dataclass(frozen=True)
class Value:
    """Where the value of a variable is, in a range of the code: a register, or a constant."""

    code: Range
    register: str  # "" if the value is constant
    constant: int


@dataclass(frozen=True)
class Variable:
    """A local variable or a parameter of a function.

    Attributes
    ----------
    name : str
        The name in the source.
    type : Parameter, Array or Structure
        The type.
    file, line : int
        The declaration. `file` is a number of the PTX's ``.file`` lines.
    scope : tuple of Range
        The code of the scope. The compiler may put other code between parts of a scope, and this
        code is included.
    code : tuple of Range
        The code of the function, or of this copy of an inlined function.
    depth : int
        The number of scopes and of inlined functions around the variable.
    inlined : int
        The number of inlined functions around the variable.
    is_parameter : bool
        Whether it is a parameter of a function, which has a value from the start.
    offset : int or None
        The position in the local memory of the function. None if the variable is not there.
    values : tuple of Value
        Where its value is if it is not in memory.
    in_list : bool
        Whether `values` is a list. Otherwise one register has the value in the whole function.
    """

    name: str
    type: Structure | Array | Parameter
    file: int
    line: int
    scope: tuple[Range, ...]
    code: tuple[Range, ...]
    depth: int
    inlined: int
    is_parameter: bool
    offset: int | None
    values: tuple[Value, ...] = ()
    in_list: bool = False


@dataclass
class Function:
    """A function: its code, its variables, and the functions that are inlined in it.

    `inlined` has the code of each inlined function, and how many inlined functions are around it,
    with itself.
    """

    code: Range
    variables: list[Variable] = field(default_factory=list)
    inlined: list[tuple[tuple[Range, ...], int]] = field(default_factory=list)


@dataclass(frozen=True)
class DebugInfo:
    """The functions that debug information describes, and the lines of the labels in the PTX."""

    functions: Sequence[Function]
    labels: Mapping[str, int]


def read(ptx: str) -> DebugInfo:
    """Read the debug information of a PTX. Without any, the result has no functions."""
    labels: dict[str, int] = {}
    for number, line in enumerate(ptx.split("\n"), start=1):
        if m := _LABEL.match(line):
            # Linked code without debug information follows. It may have labels of the same names.
            labels.setdefault(m[1], number)
    sections = {m[1]: _assembled(m[2], labels) for m in _SECTION.finditer(ptx)}
    known = "debug_info" in sections
    return DebugInfo(list(_Reader(sections).functions()) if known else [], labels)


def _assembled(text: str, labels: Mapping[str, int]) -> bytes:
    """Return the bytes of a section."""
    result = bytearray()
    for width, items in _NUMBERS.findall(text):
        for item in items.split(","):
            symbol, _, added = item.strip().partition("+")
            if symbol.startswith(".debug_"):
                value = int(added or 0)
            elif symbol.startswith(_DEPOT):
                value = _LOCAL
            elif symbol[0].isdigit() or symbol[0] == "-":
                value = int(symbol, 0)
            else:
                value = labels.get(symbol, _NO_LABEL)
            result += (value % (1 << int(width))).to_bytes(int(width) // 8, "little")
    return bytes(result)


class _Reader:
    def __init__(self, sections: Mapping[str, bytes]) -> None:
        from elftools.dwarf import dwarfinfo  # only needed for the stepper

        self._sections = sections
        self._types = TypeReader()
        known: dict[str, Any] = {}
        for name in inspect.signature(dwarfinfo.DWARFInfo).parameters:
            section = name.removesuffix("_sec")
            data = sections.get(section)
            known[name] = data and dwarfinfo.DebugSectionDescriptor(
                io.BytesIO(data), section, 0, len(data), 0
            )
        known["config"] = dwarfinfo.DwarfConfig(
            little_endian=True, machine_arch="CUDA", default_address_size=8
        )
        self._dwarf = dwarfinfo.DWARFInfo(**known)

    def functions(self) -> Iterator[Function]:
        for unit in self._dwarf.iter_CUs():
            for die in unit.iter_DIEs():
                if die.tag == "DW_TAG_subprogram" and "DW_AT_low_pc" in die.attributes:
                    code = self._ranges(die)
                    function = Function(code[0])
                    self._collect(die, code, code, 0, 0, function)
                    yield function

    def _collect(
        self,
        scope: Any,
        ranges: tuple[Range, ...],
        code: tuple[Range, ...],
        depth: int,
        inlined: int,
        function: Function,
    ) -> None:
        """Add the variables of a scope, and of the scopes in it, to a function."""
        for die in scope.iter_children():
            if die.tag in ("DW_TAG_formal_parameter", "DW_TAG_variable"):
                function.variables += self._variables(die, ranges, code, depth, inlined)
            elif die.tag in ("DW_TAG_lexical_block", "DW_TAG_inlined_subroutine"):
                inner = self._ranges(die) or ranges
                if die.tag == "DW_TAG_inlined_subroutine":
                    function.inlined.append((inner, inlined + 1))
                    self._collect(die, inner, inner, depth + 1, inlined + 1, function)
                else:
                    self._collect(die, inner, code, depth + 1, inlined, function)

    def _ranges(self, die: Any) -> tuple[Range, ...]:
        if "DW_AT_low_pc" in die.attributes:
            return ((die.attributes["DW_AT_low_pc"].value, die.attributes["DW_AT_high_pc"].value),)
        ranges: list[Range] = []
        if "DW_AT_ranges" in die.attributes:
            data, at = self._sections["debug_ranges"], die.attributes["DW_AT_ranges"].value
            while (pair := struct.unpack_from("<QQ", data, at + 16 * len(ranges))) != (0, 0):
                ranges.append(pair)
        return tuple(ranges)

    def _variables(
        self,
        die: Any,
        scope: tuple[Range, ...],
        code: tuple[Range, ...],
        depth: int,
        inlined: int,
    ) -> Iterator[Variable]:
        """Yield the variable of an entry. An entry without a name has none."""
        described = die
        if "DW_AT_abstract_origin" in die.attributes:  # of an inlined function
            described = die.get_DIE_from_attribute("DW_AT_abstract_origin")
        has = described.attributes
        if {"DW_AT_name", "DW_AT_type", "DW_AT_decl_file", "DW_AT_decl_line"} <= set(has):
            location = die.attributes.get("DW_AT_location")
            values = tuple(self._values(location, code))
            yield Variable(
                has["DW_AT_name"].value.decode(),
                self._types.type(described),
                has["DW_AT_decl_file"].value,
                has["DW_AT_decl_line"].value,
                scope,
                code,
                depth,
                inlined,
                die.tag == "DW_TAG_formal_parameter",
                _offset(location),
                values,
                location is not None and isinstance(location.value, int),
            )

    def _values(self, location: Any, code: tuple[Range, ...]) -> Iterator[Value]:
        """Yield where a variable's value is that is not in memory."""
        if location is None:
            return
        if not isinstance(location.value, int):
            yield from _value(bytes(location.value), code[0])
            return
        data, at = self._sections["debug_loc"], location.value
        while (code_range := struct.unpack_from("<QQ", data, at)) != (0, 0):
            (size,) = struct.unpack_from("<H", data, at + 16)
            yield from _value(data[at + 18 : at + 18 + size], code_range)
            at += 18 + size


def _offset(location: Any) -> int | None:
    """Return the position in the function's local memory; None for any other location."""
    if location is None or isinstance(location.value, int):
        return None
    expression = bytes(location.value)  # DW_OP_addr, the address, DW_OP_plus_uconst, the offset
    if len(expression) < 11 or (expression[0], expression[9]) != (_ADDRESS, _PLUS):
        return None
    (address,) = struct.unpack_from("<Q", expression, 1)
    return uleb128(expression[10:]) if address == _LOCAL else None


def _value(expression: bytes, code: Range) -> Iterator[Value]:
    """Yield the value that an expression describes; nothing for other expressions.

    The number of a register is its name, as bytes.
    """
    if expression[:1] == bytes([_REGISTER]):
        number = uleb128(expression[1:])
        name = number.to_bytes((number.bit_length() + 7) // 8, "big").decode("ascii", "replace")
        yield Value(code, name, 0)
    elif expression[:1] == bytes([_SIGNED]) and expression[-1] == _VALUE:
        digits = expression[1:-1]
        number = uleb128(digits)
        yield Value(code, "", number - (number >> 7 * len(digits) - 1 << 7 * len(digits)))
