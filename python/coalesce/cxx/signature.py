"""Determines the name, type and size of each parameter of a kernel.

The sizes come from the PTX. The PTX does not have the names of parameters, and it does not say to
which type a pointer points. The names and types come from the source, in this order:

1. declarations.py reads the declaration of the kernel in the source.
2. If the result is not certain, the compiler is asked for the types (compiled_types.py).
3. If the compiler does not know the types either, the parameters are called arg0, arg1 and so on.
   Then a pointer accepts arrays of every dtype.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from coalesce.cxx import compiled_types, declarations
from coalesce.cxx.compiled_types import Ask
from coalesce.cxx.declarations import Declared
from coalesce.cxx.element_types import SCALARS, element_types
from coalesce.cxx.numba import NumbaArgument, arguments_of

# If only the PTX type of a parameter is known: the types that a scalar may have.
_OF_PTX = {
    "u8": ("u1", "i1", "b1"),
    "s8": ("i1",),
    "b8": ("u1", "i1", "b1"),
    "u16": ("u2", "i2"),
    "s16": ("i2",),
    "b16": ("u2", "i2", "f2"),
    "f16": ("f2",),
    "u32": ("i4", "u4"),
    "s32": ("i4",),
    "b32": ("i4", "u4", "f4"),
    "f32": ("f4",),
    "u64": ("i8", "u8"),
    "s64": ("i8",),
    "b64": ("i8", "u8", "f8"),
    "f64": ("f8",),
}


@dataclass(frozen=True)
class PtxParameter:
    """A kernel's parameter, as the PTX declares it."""

    type: str  # the PTX type, such as "u64"
    bytes: int
    align: int
    pointer: bool  # the PTX marks the parameter with .ptr


@dataclass(frozen=True)
class Parameter:
    """The name, type and size of a kernel's parameter. Its name and type may be unknown."""

    name: str
    # "word": the parameter has 8 bytes and an unknown type. It accepts an array or an integer.
    kind: Literal["pointer", "scalar", "struct", "word"]
    bytes: int
    # NumPy's codes, such as "f4", of the accepted types: those of a scalar, or of the elements
    # behind a pointer. If there are no codes, every type is accepted.
    accepted: tuple[str, ...] = ()
    const: bool = False
    spelled: str = ""  # the C++ type, such as "const float *"
    item_bytes: int = 0  # the size of the element behind a pointer; 0 if unknown
    restrict: bool = False  # a __restrict__ pointer
    reference: bool = False  # a C++ reference, which a kernel cannot have

    def __str__(self) -> str:
        return f"`{self.name}` ({self.spelled})" if self.spelled else f"`{self.name}`"


@dataclass(frozen=True)
class Signature:
    """The signature of a kernel: its name in the PTX, its name in messages, and its parameters."""

    entry: str  # the (mangled) name in the PTX
    name: str  # the name in messages
    parameters: tuple[Parameter, ...]
    numba: tuple[NumbaArgument, ...] | None = None  # for Numba's PTX: the arguments of a launch
    # This function returns the type of each parameter (compile/layouts.py). It returns an empty
    # sequence if the types are not known.
    structures: Callable[[], Sequence[Any]] = field(default=tuple, compare=False, repr=False)

    def __str__(self) -> str:
        items = []
        for p in self.parameters:
            spelled = p.spelled or f"{p.bytes} bytes"
            items.append(spelled + p.name if spelled.endswith("*") else f"{spelled} {p.name}")
        if self.numba is not None:
            items = [f"{a.spelled} arg{i}" for i, a in enumerate(self.numba)]
        return f"{self.name}({', '.join(items)})"


_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_ENTRY = re.compile(r"\.entry\s+([A-Za-z_$%.][\w$.]*)\s*(?:\(([^)]*)\))?")
_PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+(?P<align1>\d+)\s+)?\.(?P<type>[a-z]\w*)\s*"
    r"(?P<pointer>\.ptr(?:\s+\.(?:global|shared|local|const))?)?\s*(?:\.align\s+\d+\s+)?"
    r"(?P<name>[A-Za-z_$%][\w$]*)\s*(?:\[(?P<count>\d+)\])?"
)


def is_ptx(source: str) -> bool:
    """Return whether a source is PTX and not CUDA C++. PTX begins with the word ``.version``."""
    return _COMMENT.sub("", source[:65536]).lstrip().startswith(".version")


def ptx_entries(ptx: str) -> dict[str, tuple[PtxParameter, ...]]:
    """Return a dict with the parameters of each kernel in a PTX text.

    The keys are the mangled names of the kernels, such as "_Z5naivePKf".
    """
    entries = {}
    for match in _ENTRY.finditer(_COMMENT.sub(" ", ptx)):
        parameters = []
        for item in _PARAMETER.finditer(match[2] or ""):
            size = int(item["type"][1:])  # the number of bits in a type name from "b8" to "f64"
            count = int(item["count"]) if item["count"] is not None else 1
            align = int(item["align1"] or size // 8)
            parameters.append(
                PtxParameter(item["type"], size // 8 * count, align, item["pointer"] is not None)
            )
        entries[match[1]] = tuple(parameters)
    return entries


def ptx_file(ptx: str) -> str:
    """Return the name of the file or notebook cell that a PTX text was compiled from, or ""."""
    first = re.search(r"^\s*\.loc\s+(\d+)\s", ptx, re.MULTILINE)
    if first is None:
        return ""
    named = re.search(rf'^\s*\.file\s+{first[1]}\s+"([^"\n]+)"', ptx, re.MULTILINE)
    return named[1] if named else ""


def plain_name(entry: str) -> str:
    """Return a function's name as in the source: "naive" for the mangled name "_Z5naivePKf"."""
    match = re.match(r"_ZN?L?(?=\d)", entry)
    if match is None:
        return entry
    place, parts = match.end(), []
    nested = entry.startswith("_ZN")
    while number := re.match(r"L?(\d+)", entry[place:]):
        place += number.end()
        parts.append(entry[place : place + int(number[1])])
        place += int(number[1])
        if not nested:
            break
    return "::".join(part for part in parts if not part.startswith(("_GLOBAL__N", "_INTERNAL_")))


def _instantiation(source: str, name: str = r"\w+") -> str:
    """Return an example of an instantiation of a kernel template: ``scale<float, 16>``."""
    match = re.search(
        rf"\btemplate\s*<([^;{{}}()]*)>\s*(?:static\s+|inline\s+)*__global__[^;{{}}]*?\b({name})\s*\(",
        re.sub(r"\b__launch_bounds__\s*\([^()]*\)", "", source),
    )
    if match is None:
        return f"{name if name.isidentifier() else 'kernel'}<float>"
    values = []
    for parameter in match[1].split(","):
        kind = parameter.replace("const ", " ").split()
        if "=" in parameter or not kind:
            break  # this and the following parameters have defaults
        values.append({"typename": "float", "class": "float", "bool": "true"}.get(kind[0], "16"))
    return f"{match[2]}<{', '.join(values)}>"


def as_compiled(name: str, instances: Iterable[str]) -> str:
    """Return the compiled instantiation that has the same name as `name`, except for spaces.

    For example, the result for ``"k<2,true>"`` can be ``"k<2, true>"``, with a space. `instances`
    are the compiled instantiations. If there is no such instantiation, return `name`.
    """
    same = [known for known in instances if _words_of(known) == _words_of(name)]
    return name if name in same or not same else same[0]


def _words_of(name: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", name)


def find_entry(
    entries: Sequence[str],
    wanted: str | None,
    source: str = "",
    instances: Mapping[str, str] | None = None,
    templates: Sequence[str] = (),
) -> str:
    """Find the kernel that the user wants, and return its name in the PTX.

    If the kernel cannot be determined, a ValueError lists the kernels.

    Parameters
    ----------
    entries : sequence of str
        The names of all kernels in the PTX. The names may be mangled.
    wanted : str or None
        The name that the user passed. It may be None if there is only one kernel.
    source : str
        The source of the kernels, for the advice in the error message.
    instances : mapping, optional
        The compiled instantiations of templates, and their mangled names:
        ``{"scale<4>": "_Z..."}``.
    templates : sequence of str
        The names of kernel templates that were not compiled, for the advice in the error message.
    """
    if wanted is None and len(entries) == 1:
        return entries[0]
    if wanted in entries:
        return str(wanted)
    if instances and wanted is not None and wanted in instances:
        return instances[wanted]
    names = {entry: plain_name(entry) for entry in entries}
    matches = [
        e
        for e, name in names.items()
        if wanted is not None and wanted in (name, name.split("::")[-1])
    ]
    if len(matches) == 1:
        return matches[0]
    if not entries and templates:
        raise ValueError(
            f"the kernels of the source are templates ({', '.join(templates)}), and no launch in "
            "the source gives their template arguments. Choose them, for example with "
            f'entry="{_instantiation(source, templates[0])}"'
        )
    if not entries:
        hint = (
            "it has a kernel template, but a template needs template arguments. Choose them, for "
            f'example with entry="{_instantiation(source)}"'
            if "template" in source and "__global__" in source
            else "a kernel is a function declared __global__"
        )
        raise ValueError(f"the source has no kernel that can be compiled; {hint}")
    names.update({entry: expression for expression, entry in (instances or {}).items()})
    listed = ", ".join(
        name if name == entry or "<" in name else f"{name} (as {entry})"
        for entry, name in names.items()
    )
    if wanted is None:
        raise ValueError(
            f"the source has {len(entries)} kernels; choose one with entry=NAME, or with --entry "
            f"NAME on the command line. The names are {listed}"
        )
    if matches:
        listed = ", ".join(names[entry] for entry in matches) if instances else listed
        raise ValueError(
            f"`entry`: {wanted!r} is the name of several kernels; choose one of {listed}"
        )
    if re.search(rf"\btemplate\b[^;{{}}]*\b{re.escape(wanted)}\s*\(", source):
        raise ValueError(
            f"kernel {wanted!r} is a template; choose its template arguments, for example with "
            f'entry="{_instantiation(source, wanted)}"'
        )
    mangled = (
        '. A name in parentheses is a mangled C++ name; extern "C" in the source avoids it'
        if "(as " in listed
        else ""
    )
    raise ValueError(
        f"`entry`: the source has no kernel {wanted!r}; "
        f"its {'kernel is' if len(entries) == 1 else 'kernels are'} {listed}{mangled}"
    )


def signature_of(
    entry: str,
    parameters: Sequence[PtxParameter],
    source: str = "",
    options: Sequence[str] = (),
    expression: str | None = None,
    ask: Ask | None = None,
) -> Signature:
    """Return a kernel's `Signature`: its name in the PTX, its name in messages, its parameters.

    `entry` is the kernel's name in the PTX, and `parameters` are the parameters that the PTX
    declares for the kernel. `source` is the CUDA C++ source, and `options` are the compiler's
    options. `expression` is the template instantiation that the user requested, or None. `ask` is a
    function that asks the compiler for the types of C++ expressions. If `ask` is None, the compiler
    is not asked.
    """
    name = plain_name(entry)
    base = name.split("::")[-1]
    numba = arguments_of(entry, len(parameters)) if not source else None
    if numba is not None:
        return Signature(entry, name, tuple(_of_numba(numba, parameters)), numba)
    declared = declarations.parameters_of(source, base, len(parameters), options, expression)
    compiled = compiled_types.of_mangled(entry) if source else None
    doubtful = declared is None or not all(d.certain for d in declared)
    if doubtful and source and ask is not None and not _all_known(compiled):
        compiled = compiled_types.of_function(expression or name, ask)
    text = declared or [declarations.Declared("", "")] * len(parameters)
    resolved = [
        replace(_agreed(d, p, i), restrict=text[i].restrict, reference=text[i].reference)
        for i, (d, p) in enumerate(
            zip(_merged(declared, compiled, len(parameters)), parameters, strict=True)
        )
    ]
    return Signature(entry, expression or name, tuple(resolved))


def _all_known(compiled: Sequence[Declared] | None) -> bool:
    return compiled is not None and all(c.certain for c in compiled)


def _merged(
    declared: Sequence[Declared] | None, compiled: Sequence[Declared] | None, count: int
) -> list[Declared]:
    """Return the names and types of the parameters, from the source and from the compiler.

    The names come from the source. If the compiler reports a type, this type is used. (If the type
    in the source is certainly the same, it is spelled as in the source.) If the compiler reports no
    type, the type in the source is used, provided that it is certain. An unknown type is "".
    """
    unknown = Declared("", "", certain=False)
    result = []
    for i in range(count):
        from_text = unknown if declared is None else declared[i]
        known = compiled is not None and len(compiled) == count and compiled[i].certain
        from_compiler = compiled[i] if known and compiled is not None else unknown
        if from_compiler.certain:
            same = from_text.certain and declarations.is_same(from_text, from_compiler)
            result.append(from_text if same else replace(from_compiler, name=from_text.name))
        elif from_text.certain:
            result.append(from_text)
        else:
            result.append(replace(unknown, name=from_text.name))
    return result


def _of_numba(
    arguments: Sequence[NumbaArgument], parameters: Sequence[PtxParameter]
) -> Iterator[Parameter]:
    """Return the parameters of a Numba kernel.

    Numba passes an array as several parameters. The parameter with the address gets the name of the
    array.
    """
    place = 0
    for i, argument in enumerate(arguments):
        name = f"arg{i}"
        for part in range(argument.count):
            ptx = parameters[place]
            place += 1
            if argument.kind == "pointer" or (argument.kind == "array" and part == 4):
                accepted = (argument.code,) if argument.code else ()
                item = int(argument.code[1:]) if argument.code else 0
                yield Parameter(
                    name, "pointer", 8, accepted, argument.read_only, argument.spelled, item
                )
            elif argument.kind == "scalar" and int(argument.code[1:]) == ptx.bytes:
                yield Parameter(
                    name, "scalar", ptx.bytes, (argument.code,), False, argument.spelled
                )
            else:  # Numba's internal addresses are 0; some versions mark them .ptr
                yield _from_ptx(name, replace(ptx, pointer=False))


def _agreed(declared: Declared, ptx: PtxParameter, place: int) -> Parameter:
    name = declared.name or f"arg{place}"
    spelled = declared.spelled
    if declared.pointer:
        if ptx.bytes != 8 or ptx.type not in ("u64", "b64", "s64"):
            return _from_ptx(name, ptx)
        if declared.type.endswith("*"):  # a pointer to pointers: the array contains addresses
            return Parameter(name, "pointer", 8, ("u8", "i8"), declared.const, spelled, 8)
        accepted, item_bytes = element_types(declared.type)
        return Parameter(name, "pointer", 8, accepted, declared.const, spelled, item_bytes)
    code = SCALARS.get(declared.type)
    if code is not None and int(code[1:]) == ptx.bytes:
        return Parameter(name, "scalar", ptx.bytes, (code,), spelled=spelled)
    known = _from_ptx(name, ptx)
    return Parameter(name, known.kind, ptx.bytes, known.accepted, spelled=spelled)


def _from_ptx(name: str, ptx: PtxParameter) -> Parameter:
    if ptx.pointer:
        return Parameter(name, "pointer", 8)
    if ptx.type not in _OF_PTX or (ptx.type == "b8" and ptx.bytes != 1):
        return Parameter(name, "struct", ptx.bytes)
    kind: Literal["word", "scalar"] = "word" if ptx.type in ("u64", "b64") else "scalar"
    return Parameter(name, kind, ptx.bytes, _OF_PTX.get(ptx.type, ()))
