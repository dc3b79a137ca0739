"""Converts arguments that are C++ structures: makes their bytes from the values of the members."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from coalesce.common import require
from coalesce.common.dtypes import is_native
from coalesce.common.words import plural
from coalesce.compile.binaries.layouts import Array, Member, Structure
from coalesce.cxx.signature import Parameter


@dataclass(frozen=True)
class PackedStructure:
    """The bytes of a structure that contains pointers to arrays.

    The arrays become additional arguments of the launch, after the kernel's own arguments. The
    addresses of the arrays are unknown until the launch. `filled` puts them into the bytes.
    """

    packed: bytes
    # For each pointer: its offset in the bytes, and the number of the array's argument.
    pointers: tuple[tuple[int, int], ...]
    parameters: tuple[Parameter, ...]  # describe the arrays

    def filled(self, addresses: Mapping[int, bytes]) -> bytes:
        """Return the bytes of the structure, with the addresses of the arrays in them.

        `addresses` is a dict. A key is the position of an array in the arguments of the launch. The
        value is the array's address, as 8 bytes.
        """
        result = bytearray(self.packed)
        for offset, number in self.pointers:
            result[offset : offset + 8] = addresses[number]
        return bytes(result)


def is_members(value: Any) -> bool:
    """Return whether a value is a dict, tuple or list. All three can hold a structure's members."""
    return isinstance(value, Mapping | tuple | list)


def map_values(value: Any, function: Callable[[Any], Any]) -> Any:
    """Apply a function to every value in nested dicts, tuples and lists.

    Return the same dicts, tuples and lists with the results in place of the values.
    """
    if isinstance(value, Mapping):
        return {name: map_values(item, function) for name, item in value.items()}
    if isinstance(value, tuple | list):
        items = [map_values(item, function) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    return function(value)


@dataclass(frozen=True)
class _Part:
    """A member of a structure, or a field of a NumPy dtype, with a simple type such as int.

    Attributes
    ----------
    kind : str
        A letter as in NumPy: "i" for integers and pointers, "f" for floats, "b" for bools, "V" for
        bytes whose meaning is not known.
    optional : bool
        Whether a dtype may lack this member, because it is in a union or is a bit field.
    shared : bool
        Whether the member is a bit field. Several bit fields share bytes, so a field of a dtype may
        be anywhere in these bytes.
    """

    path: str
    offset: int
    bytes: int
    kind: str
    optional: bool = False
    shared: bool = False

    def __str__(self) -> str:
        names = {"i": "integer", "f": "float", "b": "bool"}
        what = f"{names.get(self.kind, 'value')} of {self.bytes} byte{'s' * (self.bytes != 1)}"
        return f"`{self.path}` ({what} at byte {self.offset})"


@lru_cache(maxsize=256)
def wrong_layout(structure: Structure, dtype: np.dtype[Any]) -> str:
    """Compare the layout of a structured NumPy dtype with that of a C++ structure.

    Return a description of the first difference. If the layouts match, return "". The rules are:

    - A field with the name of a member must have the same offset, size and type as this member.
    - A field with any other name must have the same offset, size and type as one of the members.
      There is one exception: a field of raw bytes (dtype "V") may be anywhere.
    - Signed and unsigned integers count as the same type. Raw bytes match every type.
    - Fields must cover each member, except bit fields and members of unions.
    """
    members = list(_parts_of(structure, "", 0))
    named = {m.path: m for m in members}
    shared = [m for m in members if m.shared]
    places: dict[int, list[_Part]] = {}
    for member in members:
        places.setdefault(member.offset, []).append(member)
    covered = bytearray(structure.bytes)
    for field in _fields_of(dtype, "", 0):
        covered[field.offset : field.offset + field.bytes] = b"x" * field.bytes
        if field.path in named:
            if not _same(field, named[field.path]):
                return f"the field {field} is the member {named[field.path]}"
        elif field.kind != "V" and not any(
            _same(field, m) for m in (*places.get(field.offset, ()), *shared)
        ):
            there = ", ".join(map(str, places.get(field.offset, ())))
            return f"the field {field} is no member" + (f"; at this byte is {there}" * bool(there))
    for member in members:
        if not member.optional and 0 in covered[member.offset : member.offset + member.bytes]:
            return f"there is no field for the member {member}"
    return ""


def _same(field: _Part, member: _Part) -> bool:
    if member.shared:
        end = member.offset + member.bytes
        return member.offset <= field.offset and field.offset + field.bytes <= end
    kinds = {field.kind, member.kind}
    small = kinds == {"i", "b"} and field.bytes == 1  # C++ stores a bool in a byte
    alike = len(kinds) == 1 or "V" in kinds or small
    return alike and (field.offset, field.bytes) == (member.offset, member.bytes)


def _parts_of(
    kind: Structure | Array | Parameter, path: str, offset: int, optional: bool = False
) -> Iterator[_Part]:
    if isinstance(kind, Structure):
        optional |= kind.kind == "union"
        for member in kind.members:
            own = ".".join(filter(None, (path, member.name)))
            for part in _parts_of(member.type, own, offset + member.offset, optional):
                yield part if member.bits is None else replace(part, optional=True, shared=True)
    elif isinstance(kind, Array):
        for number, index in enumerate(np.ndindex(kind.shape)):
            own = path + "".join(f"[{i}]" for i in index)
            yield from _parts_of(kind.element, own, offset + number * kind.item_bytes, optional)
    else:
        letter = kind.accepted[0][0] if kind.kind == "scalar" and kind.accepted else "V"
        letter = "i" if kind.kind == "pointer" or letter == "u" else letter
        yield _Part(path, offset, kind.bytes, letter if letter in "ifb" else "V", optional)


def _fields_of(dtype: np.dtype[Any], path: str, offset: int) -> Iterator[_Part]:
    if dtype.names is not None:
        for name in dtype.names:
            kind, place = dtype.fields[name][:2]  # type: ignore[index]
            own = f"{path}.{name}" if path else name
            yield from _fields_of(kind, own, offset + place)
    elif dtype.subdtype is not None:
        element, shape = dtype.subdtype
        for number, index in enumerate(np.ndindex(shape)):
            own = path + "".join(f"[{i}]" for i in index)
            yield from _fields_of(element, own, offset + number * element.itemsize)
    elif dtype.kind == "c":
        half = dtype.itemsize // 2
        yield _Part(f"{path}.real", offset, half, "f")
        yield _Part(f"{path}.imag", offset + half, half, "f")
    else:
        letter = "i" if dtype.kind in "iumM" else dtype.kind
        yield _Part(path, offset, dtype.itemsize, letter if letter in "ifb" else "V")


class Packer:
    """Makes the bytes of a structure from the values of its members.

    `convert` is a function that converts the value of one member: a number or a pointer. It takes
    the member's description and the value. It returns bytes for a number, and an array for a
    pointer.
    """

    def __init__(self, convert: Callable[[Parameter, Any], Any]) -> None:
        self._convert = convert
        self._bytes = bytearray()
        self.pointers: list[tuple[int, Parameter, Any]] = []  # offset, parameter, array

    def pack(self, parameter: Parameter, structure: Structure, value: Any) -> bytes:
        """Return the bytes of a structure. `value` has the values of the members.

        `parameter` is the kernel's parameter for which the structure is passed. After this call,
        the attribute `pointers` lists the arrays that the structure points to.
        """
        self._bytes = bytearray(parameter.bytes)
        self._structure(str(parameter), parameter.name, structure, value, 0)
        return bytes(self._bytes)

    def _value(
        self, path: str, kind: Structure | Array | Parameter, value: Any, offset: int
    ) -> None:
        if isinstance(kind, Structure):
            self._structure(f"`{path}` ({kind.name})", path, kind, value, offset)
        elif isinstance(kind, Array):
            self._array(path, kind, value, offset)
        else:
            parameter = replace(kind, name=path)
            argument = self._convert(parameter, value)
            if isinstance(argument, bytes):
                self._bytes[offset : offset + len(argument)] = argument
            else:
                self.pointers.append((offset, parameter, argument))

    def _structure(
        self, shown: str, path: str, structure: Structure, value: Any, offset: int
    ) -> None:
        if isinstance(value, np.ndarray) and value.shape == () and value.dtype.names:
            value = value[()]
        if isinstance(value, np.void) and value.dtype.names:
            if value.dtype.itemsize == structure.bytes:
                if not is_native(value.dtype):
                    raise TypeError(
                        f"argument {shown} has dtype {value.dtype}, which does not have this "
                        f"machine's byte order; convert it: "
                        f"{path}.astype({path}.dtype.newbyteorder('='))"
                    )
                if wrong := wrong_layout(structure, value.dtype):
                    raise TypeError(
                        f"argument {shown}: the dtype {value.dtype} does not have the layout of "
                        f"the {structure.kind}: {wrong}"
                    )
                self._bytes[offset : offset + structure.bytes] = value.tobytes()
                return
            value = {name: value[name] for name in value.dtype.names}
        if isinstance(value, bytes | bytearray | memoryview) and len(value) == structure.bytes:
            self._bytes[offset : offset + structure.bytes] = value
            return
        if not is_members(value):
            raise TypeError(
                f"argument {shown} must be a {structure.kind} of {structure.bytes} bytes; pass one "
                f"of these: a tuple of its members ({_listed(structure)}), a dict of its members, "
                f"a NumPy structured scalar, bytes; got {require.shown(value)}"
            )
        pairs = _by_name if isinstance(value, Mapping) else _by_order
        for member, item in pairs(shown, structure, value):
            own = f"{path}.{member.name}" if member.name else path
            if member.bits is not None:
                self._bit_field(own, member, item, offset)
            else:
                self._value(own, member.type, item, offset + member.offset)

    def _array(self, path: str, array: Array, value: Any, offset: int) -> None:
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Sequence | np.ndarray):
            raise TypeError(
                f"argument `{path}` must be a list or a NumPy array of shape {array.shape}, as the "
                f"structure declares it; got {require.shown(value)}"
            )
        if len(value) != array.shape[0]:
            raise ValueError(
                f"argument `{path}` is an array of {array.shape[0]} elements; got {len(value)}"
            )
        part = replace(array, shape=array.shape[1:])
        step = int(np.prod(part.shape, dtype=np.int64)) * array.item_bytes
        for number, item in enumerate(value):
            kind = part if part.shape else array.element
            self._value(f"{path}[{number}]", kind, item, offset + number * step)

    def _bit_field(self, path: str, member: Member, value: Any, offset: int) -> None:
        assert isinstance(member.type, Parameter)
        assert member.bits is not None
        self._convert(replace(member.type, name=path), value)  # checks the type
        low, count = member.bits
        signed = member.type.accepted[0][0] == "i" and len(member.type.accepted) == 1
        least, most = (-(1 << count - 1), (1 << count - 1) - 1) if signed else (0, (1 << count) - 1)
        if not least <= int(value) <= most:
            raise ValueError(
                f"argument `{path}` is {value}, which does not fit a bit field of "
                f"{plural(count, 'bit')} ({least} to {most})"
            )
        place = slice(offset + member.offset, offset + member.offset + member.type.bytes)
        whole = int.from_bytes(self._bytes[place], "little")
        whole |= (int(value) & ((1 << count) - 1)) << low
        self._bytes[place] = whole.to_bytes(member.type.bytes, "little")


def _by_order(
    shown: str, structure: Structure, value: Sequence[Any]
) -> Iterator[tuple[Member, Any]]:
    if structure.kind == "union":
        raise TypeError(
            f"argument {shown} is a union; pass a dict with one of its members "
            f"({_listed(structure)}) or bytes; got {require.shown(value)}"
        )
    if len(value) != len(structure.members):
        raise TypeError(
            f"argument {shown} has {plural(len(structure.members), 'member')} "
            f"({_listed(structure)}); got a {type(value).__name__} of {len(value)}"
        )
    return zip(structure.members, value, strict=True)


def _by_name(
    shown: str, structure: Structure, value: Mapping[Any, Any]
) -> Iterator[tuple[Member, Any]]:
    left = dict(value)
    pairs: list[tuple[Member, Any]] = []
    for member in structure.members:
        if member.name:
            if member.name in left:
                pairs.append((member, left.pop(member.name)))
        elif isinstance(member.type, Structure):  # an anonymous union: its members have no prefix
            names = [name for name in _names(member.type) if name in left]
            if names:
                pairs.append((member, {name: left.pop(name) for name in names}))
    if left:
        raise TypeError(
            f"argument {shown} has no member {next(iter(left))!r}; its members are "
            f"{_listed(structure)}"
        )
    have = [member for member, _ in pairs]
    missing = [m for m in structure.members if m not in have and _needs_value(m)]
    if structure.kind == "union":
        if len(pairs) != 1:
            raise TypeError(
                f"argument {shown} is a union; pass exactly one of its members "
                f"({_listed(structure)}); got {len(pairs)} members"
            )
    elif missing:
        absent = ", ".join(name for m in missing for name in _names_of(m))
        raise TypeError(f"argument {shown}: no value was passed for the members {absent}")
    return iter(pairs)


def _needs_value(member: Member) -> bool:
    """Whether a member needs a value: unnamed bit fields and empty structures need none."""
    return bool(_names_of(member))


def _names_of(member: Member) -> list[str]:
    if member.name:
        return [member.name]
    return _names(member.type) if isinstance(member.type, Structure) else []


def _names(structure: Structure) -> list[str]:
    return [name for member in structure.members for name in _names_of(member)]


def _listed(structure: Structure) -> str:
    return ", ".join(_names(structure)) or "none"
