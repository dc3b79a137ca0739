"""Reads the types and shapes of variables in device memory from a CUDA C++ source.

PTX has only the size of a variable in bytes. Two features also need its type and its shape:

- `Kernel.globals` returns the `__device__` and `__constant__` variables as arrays.
- Reports name elements of `__shared__` variables, such as ``tile[3][5]``. If a shape from the
  source does not match the size in the PTX, reports do not use this shape.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from coalesce._core import sim
from coalesce.cxx import declarations, definitions, element_types
from coalesce.cxx.definitions import UNKNOWN


@dataclass(frozen=True)
class DeclaredVariable:
    """A variable as the source declares it."""

    type: str  # "unsigned int", "float4", "Particle"; "" for an unknown type
    extents: tuple[int | None, ...] = ()  # the extents of an array; None for an unknown extent
    const: bool = False
    certain: bool = True  # False if the type is not certain from the text


_IN_MEMORY = re.compile(r"\b__(?:device|constant|managed)__\b")
_ALIGNMENT = re.compile(r"\b(?:alignas|__align__|__attribute__)\s*\([^;{}]{0,80}?\)+")
_NOT_PART_OF_A_TYPE = declarations.NOT_TYPES | {
    "const",
    "constexpr",
    "static",
    "extern",
    "inline",
    "C",
}
_BRACKETS = re.compile(r"\[[^\]]*\]")
_DIRECTIVE = re.compile(r"^[ \t]*#[^\n]*$", re.MULTILINE)


def variables_of(
    source: str,
    options: Sequence[str] = (),
    qualifier: re.Pattern[str] = _IN_MEMORY,
    expression: str | None = None,
) -> dict[str, DeclaredVariable]:
    """Return a dict with the declaration of each variable.

    The keys are the names of the variables, without namespaces. `source` is the CUDA C++ source,
    and `options` are the compiler's options. `qualifier` is a pattern for the words that mark the
    variables. By default, these words are ``__device__``, ``__constant__`` and ``__managed__``.
    `expression` is the name of the kernel that runs. Variables in other kernels are left out. If
    the kernel is a template, `expression` is its instantiation, such as ``"tile<16>"``.
    """
    text = declarations.bare(source)
    defined = definitions.replacements(text, options)
    arguments = declarations.kernel_template_arguments(text, expression)
    text = _ALIGNMENT.sub(" ", _DIRECTIVE.sub(lambda m: " " * len(m[0]), text))
    by_name: dict[str, DeclaredVariable] = {}
    for match in qualifier.finditer(text):
        at = match.start()
        if declarations.is_in_other_kernel(text, at, expression):
            continue
        start = max(text.rfind(c, max(0, at - 400), at) for c in ";{}>") + 1
        statement = text[start : _statement_end(text, match.end())]
        known = {**defined, **arguments}
        used = arguments.keys() & set(re.findall(r"\w+", "".join(_BRACKETS.findall(statement))))
        if len(used) > 1 and not declarations.is_in_kernel(text, at, expression):
            # A __device__ template may have the same parameters, but in another order.
            known = defined
        for name, variable in _declarators(qualifier.sub(" ", statement), known):
            # Two different variables may have this name, in two namespaces or under #if. Then it is
            # not known which of them is meant.
            first = by_name.setdefault(name, variable)
            if first != variable:
                by_name[name] = DeclaredVariable("", certain=False)
    return by_name


def as_compiled(text: str) -> DeclaredVariable:
    """Read a type as the compiler writes it, such as "float const [3][4]"."""
    base, _, rest = text.partition(" [")
    extents = tuple(int(extent) for extent in re.findall(r"(\d+)\]", rest))
    parameter = declarations.as_compiled(base)
    if parameter.pointer:
        return DeclaredVariable(base, extents)
    return DeclaredVariable(parameter.type, extents, "const" in base.split())


def _statement_end(text: str, place: int) -> int:
    """Return the end of the statement that begins at `place`. For a function, return `place`."""
    depth = 0
    for match in re.compile(r"[\[\]{}();=]").finditer(text, place):
        char = match[0]
        if char == "(" and depth == 0 and "=" not in text[place : match.start()]:
            return place
        depth += (char in "[{(") - (char in "]})")
        if depth < 0 or (char == ";" and depth == 0):
            return match.start()
    return len(text)


def _declarators(statement: str, known: Mapping[str, str]) -> list[tuple[str, DeclaredVariable]]:
    """Return the variables of ``float a[N] = {...}, b``."""
    variables: list[tuple[str, DeclaredVariable]] = []
    base, const, settled = "", False, True
    for part in declarations.split(statement):
        head = re.split(r"[={]", part, maxsplit=1)[0].strip()
        match = re.search(r"(\w+)\s*((?:\[[^\]]*\]\s*)*)$", head)
        if match is None or "(" in head:
            break
        before = head[: match.start()]
        if not variables:
            words = re.findall(r"\w+|[<>:,*]", declarations.replaced(before, known))
            const = "const" in words or "constexpr" in words
            words = [w for w in words if w not in _NOT_PART_OF_A_TYPE]
            settled = all(declarations.is_settled(word, known) for word in words)
            base = declarations.normalized(words) if settled else UNKNOWN
        if not base:
            break
        extents = tuple(
            _value(declarations.replaced(extent, known))
            for extent in re.findall(r"\[([^\]]*)\]", match[2])
        )
        type_ = base if settled else ""
        # If one extent is not known, it follows from the size in bytes.
        certain = settled and extents.count(None) < 2
        variables.append((match[1], DeclaredVariable(type_, extents, const, certain)))
    return variables


_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.Mod: operator.mod,
    ast.LShift: lambda a, b: a << min(b, 40),
}


def _value(text: str) -> int | None:
    """Return the value of an integer expression of literals, or None for other expressions."""

    def of(node: ast.expr) -> int:
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](of(node.left), of(node.right))
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return node.value
        raise ValueError

    plain = re.sub(r"\b(0[xX][0-9a-fA-F]+|\d+)[uUlL]+\b", r"\1", text).strip()
    try:
        return of(ast.parse(plain[:200], mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError):
        return None


# The shape, the bytes per element, and the type. An extent of -1 is unknown in the source. The size
# of the variable in the PTX determines it.
Shape = tuple[tuple[int, ...], int, str]

_SHARED = re.compile(r"\b__shared__\b")


def device_arrays(source: str) -> dict[str, Shape]:
    """Return the same dict as `shared_arrays`, for variables in the memory of the device."""
    return _shapes(variables_of(source))


def shared_arrays(
    source: str, options: Sequence[str] = (), expression: str | None = None
) -> dict[str, Shape]:
    """Return a dict from the name of each ``__shared__`` variable to its shape and type.

    A value is a tuple: the shape, the bytes per element, and the type. For example, the result is
    ``{"tile": ((32, 33), 4, "float")}``. In a shape, -1 stands for an unknown extent. `expression`
    is the name of the kernel that runs. If the kernel is a template, it is the instantiation, such
    as ``"tile<16>"``. A variable is left out if it is in another kernel, if its declaration cannot
    be read, or if there are two different declarations of it.
    """
    return dict(_shared_arrays(source, tuple(options), expression))


@lru_cache(maxsize=64)  # a profile or a check of a short kernel takes only a few times as long
def _shared_arrays(
    source: str, options: tuple[str, ...], expression: str | None
) -> dict[str, Shape]:
    return _shapes(variables_of(source, options, _SHARED, expression))


def _shapes(declared: Mapping[str, DeclaredVariable]) -> dict[str, Shape]:
    shapes: dict[str, Shape] = {}
    for name, v in declared.items():
        extents = [-1 if n is None or n < 1 else n for n in v.extents] or [1]
        item_bytes = element_types.element_types(v.type)[1] if v.type else 0
        if item_bytes and extents.count(-1) <= 1:
            shapes[name] = tuple(extents), item_bytes, v.type
    return shapes


def extents_in_memory(declared: Shape, size: int) -> tuple[int, ...] | None:
    """Return the extents of a variable that has `size` bytes in memory.

    If an extent is unknown in the source, it follows from the size. If the declaration does not fit
    the size, return None. For example, a variable of another kernel may have the same name.
    """
    extents, item_bytes, _ = declared
    return tuple(sim.extents_in_memory(extents, item_bytes, size)) or None
