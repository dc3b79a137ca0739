"""Finds the members of structures that a kernel takes as parameters.

PTX has only the size of a structure. Therefore the source is compiled with the option ``-G``, which
adds debug information in the format DWARF 2. This information has the name, type and offset of each
member of each parameter, including the members of base classes. The library pyelftools reads the
debug information.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from coalesce._core import demangled
from coalesce.cxx.element_types import SCALARS, compiler_shows, element_types
from coalesce.cxx.signature import Parameter

# The kind of a NumPy dtype for each encoding of a base type in DWARF (DW_ATE_...).
_KINDS = {2: "b", 4: "f", 5: "i", 6: "i", 7: "u", 8: "u", 16: "u"}
_LOCATION = 0x23  # DW_OP_plus_uconst: a member's offset follows


@dataclass(frozen=True)
class Array:
    """The type of a member that is an array, such as ``float m[2][3]``."""

    element: Structure | Parameter
    shape: tuple[int, ...]
    item_bytes: int


@dataclass(frozen=True)
class Member:
    """A member of a structure, such as ``int n;``."""

    name: str  # "" for an anonymous structure or union
    offset: int  # in bytes from the start of the structure
    type: Structure | Array | Parameter
    # For a bit field: the position of its lowest bit, and the number of its bits.
    bits: tuple[int, int] | None = None


@dataclass(frozen=True)
class Structure:
    """A structure, class or union. The members of its base classes come first."""

    name: str
    kind: Literal["structure", "union"]
    bytes: int
    members: tuple[Member, ...]


def of_parameters(cubin: bytes, entry: str) -> list[Structure | Array | Parameter]:
    """Return a list with the type of each parameter of kernel `entry`.

    `cubin` must be compiled with ``-G``. If it has no debug information about the kernel, the list
    is empty.
    """
    from elftools.elf.elffile import ELFFile  # only needed for structures

    file = ELFFile(io.BytesIO(cubin))
    if not file.has_dwarf_info():
        return []
    # Relocations only change addresses of code. They are not needed here, so they are not applied.
    for unit in file.get_dwarf_info(relocate_dwarf_sections=False).iter_CUs():
        for die in unit.iter_DIEs():
            if die.tag != "DW_TAG_subprogram":
                continue
            names = _text(die, "DW_AT_MIPS_linkage_name"), _text(die, "DW_AT_name")
            if comparable(entry) in map(comparable, names):
                reader = TypeReader()
                return [
                    reader.type(child)
                    for child in die.iter_children()
                    if child.tag == "DW_TAG_formal_parameter"
                ]
    return []


def comparable(name: str) -> str:
    """Remove the names of anonymous namespaces from a mangled name, so that names can be compared.

    Each compilation chooses different names for anonymous namespaces.
    """
    while match := re.search(r"(\d+)(?=_(?:GLOBAL__N_|INTERNAL_))", name):
        name = name[: match.start()] + name[match.end() + int(match[1]) :]
    return name


def _text(die: Any, attribute: str) -> str:
    entry = die.attributes.get(attribute)
    return "" if entry is None else str(entry.value.decode())


def _number(die: Any, attribute: str) -> int:
    entry = die.attributes.get(attribute)
    return 0 if entry is None else int(entry.value)


def _name(die: Any) -> str:
    name = _text(die, "DW_AT_name")
    return demangled(name) if name.startswith("_Z") else name


class TypeReader:
    """Reads the types that debug information describes."""

    def __init__(self) -> None:
        self._readers: dict[str, Callable[[Any], Structure | Array | Parameter]] = {
            "DW_TAG_base_type": self._base,
            "DW_TAG_enumeration_type": self._enumeration,
            "DW_TAG_pointer_type": self._pointer,
            "DW_TAG_reference_type": self._pointer,
            "DW_TAG_array_type": self._array,
            "DW_TAG_structure_type": self._structure,
            "DW_TAG_class_type": self._structure,
            "DW_TAG_union_type": self._structure,
        }

    def type(self, die: Any) -> Structure | Array | Parameter:
        """Return the type of a member, a parameter or a typedef. `die` is its DWARF entry."""
        target, name, _ = self._target(die)
        if target is None or target.tag not in self._readers:
            size = 0 if target is None else _number(target, "DW_AT_byte_size")
            return Parameter("", "struct", size, spelled=name)
        type_ = self._readers[target.tag](target)
        if isinstance(type_, Parameter) and type_.kind == "scalar" and name in SCALARS:
            return replace(type_, spelled=name)  # the name of a typedef, such as size_t
        return type_

    def _target(self, die: Any) -> tuple[Any, str, bool]:
        """Return the DWARF entry of the type of `die`, the type's name, and whether it is const."""
        name, const = "", False
        while "DW_AT_type" in die.attributes:
            die = die.get_DIE_from_attribute("DW_AT_type")
            const |= die.tag == "DW_TAG_const_type"
            if die.tag not in ("DW_TAG_typedef", "DW_TAG_const_type", "DW_TAG_volatile_type"):
                return die, name or _name(die), const
            name = name or _text(die, "DW_AT_name")
        return None, name, const

    def _base(self, die: Any) -> Parameter:
        name, size = _name(die), _number(die, "DW_AT_byte_size")
        code = f"{_KINDS.get(_number(die, 'DW_AT_encoding'), 'V')}{size}"
        if code[0] == "V" or size > 8:
            return Parameter("", "struct", size, spelled=name)
        return Parameter("", "scalar", size, (code,), spelled=name)

    def _enumeration(self, die: Any) -> Parameter:
        size = _number(die, "DW_AT_byte_size")
        return Parameter("", "scalar", size, (f"i{size}", f"u{size}"), spelled=f"enum {_name(die)}")

    def _pointer(self, die: Any) -> Parameter:
        target, name, const = self._target(die)
        if target is not None and target.tag == "DW_TAG_subroutine_type":
            return Parameter("", "scalar", 8, ("u8",), spelled="a pointer to a function")
        if target is None or target.tag == "DW_TAG_unspecified_type":
            name = "void"
        elif target.tag == "DW_TAG_pointer_type":
            name = f"{self._pointer(target).spelled}"
        elif target.tag == "DW_TAG_base_type":
            name = _name(target)  # the built-in type, not the name of a typedef
        accepted, size = element_types(name if compiler_shows(name) else _name(target))
        size = size or (0 if target is None else _number(target, "DW_AT_byte_size"))
        spelled = f"{'const ' * const}{name}{'' if name.endswith('*') else ' '}*"
        return Parameter("", "pointer", 8, accepted, const, spelled, size)

    def _array(self, die: Any) -> Array:
        element = self.type(die)
        assert not isinstance(element, Array)
        shape = [
            _number(child, "DW_AT_count") or _number(child, "DW_AT_upper_bound") + 1
            for child in die.iter_children()
            if child.tag == "DW_TAG_subrange_type"
        ]
        return Array(element, tuple(shape), element.bytes)

    def _structure(self, die: Any) -> Structure | Parameter:
        name, size = _name(die), _number(die, "DW_AT_byte_size")
        if name in SCALARS and compiler_shows(name):  # __half and __nv_bfloat16
            return Parameter("", "scalar", size, (SCALARS[name],), spelled=name)
        members = tuple(self._members(die))
        if any(m.name.startswith(("__vptr", "_vptr")) for m in members):
            return Parameter("", "struct", size, spelled=name)
        kind: Literal["structure", "union"] = "structure"
        if die.tag == "DW_TAG_union_type":
            kind = "union"
        return Structure(name, kind, size, members)

    def _members(self, die: Any) -> Iterator[Member]:
        for child in die.iter_children():
            if child.tag not in ("DW_TAG_inheritance", "DW_TAG_member"):
                continue
            offset = _offset(child)
            if offset is None:
                continue  # a static member
            type_ = self.type(child)
            name = _text(child, "DW_AT_name")
            # NVRTC 13.0 describes some base classes as members whose names begin with __b_.
            is_base = child.tag == "DW_TAG_inheritance" or name.startswith("__b_")
            if is_base and isinstance(type_, Structure):
                for member in type_.members:
                    yield replace(member, offset=offset + member.offset)
                continue
            yield Member(name, offset, type_, _bits(child))


def _offset(die: Any) -> int | None:
    """Return the offset of a member, or None if the structure does not contain it."""
    entry = die.attributes.get("DW_AT_data_member_location")
    if entry is None or isinstance(entry.value, int):
        return None if entry is None else int(entry.value)
    operation, *digits = entry.value
    if operation != _LOCATION:
        return None
    return uleb128(digits)


def uleb128(digits: Sequence[int]) -> int:
    """Return a number that DWARF stores in 7 bits of each byte, the lowest ones first."""
    return sum((digit & 0x7F) << (7 * i) for i, digit in enumerate(digits))


def _bits(die: Any) -> tuple[int, int] | None:
    count = _number(die, "DW_AT_bit_size")
    if not count:
        return None
    # DWARF 2 has the distance from the highest bit of the member's bytes to the highest bit of the
    # field. The result has the position of the lowest bit, counted from the lowest bit.
    return 8 * _number(die, "DW_AT_byte_size") - _number(die, "DW_AT_bit_offset") - count, count
