"""The types of parameters and variables as the compiler sees them.

The compiler gives a C++ kernel a mangled name, which contains the types of the parameters. Two
cases have no such name: kernels that are declared `extern "C"`, and variables. For them, the source
is compiled once more, with an additional template at its end. The template is instantiated for
``decltype(...)`` of the kernel or variable. The mangled name of this instance contains the type.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from coalesce._core import demangled
from coalesce.common.errors import CompileError
from coalesce.cxx import declarations
from coalesce.cxx.declarations import Declared

# A function that returns the types of C++ expressions, as the compiler writes them. Expressions
# that the compiler refuses are left out.
Ask = Callable[[Sequence[str]], Mapping[str, str]]

_PROBE = "coalesce_probe_"
_TEMPLATE = f"\nnamespace {_PROBE} {{ template <class> __device__ char type; }}\n"


def asked(
    expressions: Sequence[str], lowered: Callable[[str, Sequence[str]], Mapping[str, str]]
) -> dict[str, str]:
    """Return the types of the C++ expressions that the compiler accepts. See `of_expressions`."""
    try:
        return of_expressions(expressions, lowered)
    except CompileError:
        if len(expressions) == 1:
            return {}
        return {e: t for one in expressions for e, t in asked([one], lowered).items()}


def of_expressions(
    expressions: Sequence[str], lowered: Callable[[str, Sequence[str]], Mapping[str, str]]
) -> dict[str, str]:
    """Return the types of C++ expressions. Raises CompileError if the compiler refuses one.

    `lowered` is a function that compiles the source with a text added to its end, and returns the
    mangled names of expressions.
    """
    probes = {f"&{_PROBE}::type<decltype({e})>": e for e in expressions}
    types = {}
    for probe, name in lowered(_TEMPLATE, list(probes)).items():
        match = re.fullmatch(rf"{_PROBE}::type<(.*)>", demangled(name), re.DOTALL)
        if match is not None:
            types[probes[probe]] = match[1].strip()
    return types


def of_mangled(entry: str) -> list[Declared] | None:
    """Return the parameter types in a mangled name: ``_Z1kPKfi`` has (float const*, int)."""
    text = demangled(entry) if entry.startswith("_Z") else ""
    return _parameters(text) if text.endswith(")") else None


def of_function(name: str, ask: Ask) -> list[Declared] | None:
    """Ask the compiler for the parameter types of a function.

    Returns None if the compiler does not accept the name.
    """
    expression = f"&{name}"
    return _parameters(ask([expression]).get(expression, "").removesuffix(" noexcept"))


def _parameters(function: str) -> list[Declared] | None:
    """Return the parameter types of a function from its demangled name or its type.

    They are in the last pair of parentheses.
    """
    depth = 0
    for place in range(len(function) - 1, -1, -1):
        depth += (function[place] == ")") - (function[place] == "(")
        if depth == 0:
            if function[place] != "(":
                return None
            parts = declarations.split(function[place + 1 : -1])
            return [declarations.as_compiled(part) for part in parts]
    return None
