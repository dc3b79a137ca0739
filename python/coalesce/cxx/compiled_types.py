"""Asks the compiler for the types of parameters and variables.

The compiler gives a C++ kernel a mangled name, which contains the types of the parameters:
``_Z1kPKfi`` is ``k(float const*, int)``. Variables, and kernels declared `extern "C"`, have no such
name. To find the type of a variable x, this module compiles the source again, with a template at
its end. The template is instantiated with ``decltype(x)``. So the mangled name of the instantiation
contains the type of x.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from coalesce._core import demangled
from coalesce.common.errors import CompileError
from coalesce.cxx import declarations
from coalesce.cxx.declarations import Declared

# A function that takes C++ expressions and returns a dict from each expression to its type, as the
# compiler writes the type. Expressions that the compiler rejects are left out.
Ask = Callable[[Sequence[str]], Mapping[str, str]]

_PROBE = "coalesce_probe_"
_TEMPLATE = f"\nnamespace {_PROBE} {{ template <class> __device__ char type; }}\n"


def of_valid_expressions(
    expressions: Sequence[str], lowered: Callable[[str, Sequence[str]], Mapping[str, str]]
) -> dict[str, str]:
    """Return a dict from each C++ expression to its type: ``{"threadIdx.x": "unsigned int"}``.

    If the compiler rejects an expression, the dict does not contain it. For the parameters, see
    `of_expressions`.
    """
    try:
        return of_expressions(expressions, lowered)
    except CompileError:
        if len(expressions) == 1:
            return {}
        types: dict[str, str] = {}
        for expression in expressions:
            types |= of_valid_expressions([expression], lowered)
        return types


def of_expressions(
    expressions: Sequence[str], lowered: Callable[[str, Sequence[str]], Mapping[str, str]]
) -> dict[str, str]:
    """Return a dict from each C++ expression to its type: ``{"threadIdx.x": "unsigned int"}``.

    Raises CompileError if the compiler rejects an expression. The caller passes a function
    `lowered`. ``lowered(code, probes)`` adds `code` at the end of the CUDA C++ source, and compiles
    the source again. `probes` is a list of C++ expressions. The result of `lowered` is a dict from
    each probe to its mangled name.
    """
    probes = {f"&{_PROBE}::type<decltype({e})>": e for e in expressions}
    types = {}
    for probe, name in lowered(_TEMPLATE, list(probes)).items():
        match = re.fullmatch(rf"{_PROBE}::type<(.*)>", demangled(name), re.DOTALL)
        if match is not None:
            types[probes[probe]] = match[1].strip()
    return types


def of_mangled(entry: str) -> list[Declared] | None:
    """Return the parameter types in a mangled name: ``_Z1kPKfi`` has (float const*, int).

    If the name has no parameter types, return None.
    """
    text = demangled(entry) if entry.startswith("_Z") else ""
    return _parameters(text) if text.endswith(")") else None


def of_function(name: str, ask: Ask) -> list[Declared] | None:
    """Ask the compiler for the parameter types of function `name`.

    If the compiler does not accept the name, return None. `ask` is a function that returns the
    types of C++ expressions.
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
