"""Reads the definitions of names in a CUDA C++ source: macros, types and integer constants.

A definition is used only if it is certain:

- The source defines the name only once, outside of ``#if`` and similar conditions.
- No included header can define the same name.

The definition of any other name is `UNKNOWN`. If such a name is used in the type of a parameter,
the compiler is asked for the type (compiled_types.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from coalesce.cxx import element_types

UNKNOWN = "__coalesce_unknown__"

_TOKEN = re.compile(
    r"^[ \t]*\#[ \t]*(?P<directive>\w+)(?P<rest>[^\n]*)$"
    r"|\b(?P<alias>using)\s+(?P<name>\w+)\s*=\s*(?P<value>[^;{}]{1,400});"
    r"|\b(?P<typedef>typedef)\b(?P<declared>[^;{}#]{0,400})(?P<end>[;{]?)"
    r"|\b(?P<class>struct|class|union|enum(?:\s+(?:class|struct))?)\s+"
    r"(?:(?:alignas|__align__)\s*\([^()]*\)\s*)?(?P<tag>\w+)\s*(?=[:{;]|final\b)"
    r"|\btemplate\s*<(?P<template>[^{};]{0,500}?)>\s*(?=\w)"
    r"|\b(?:constexpr|const)\s+(?:static\s+)?(?:unsigned\s+)?"
    r"(?:int|long|unsigned|size_t|short|auto)\s+(?P<constant>\w+)\s*=\s*(?P<number>[^;,{}]{1,200});",
    re.MULTILINE,
)
# These headers do not define names that a source also defines. Therefore a source may include them,
# although this module does not read them.
_KNOWN_HEADER = re.compile(
    r"\s*<(?:(?:cuda|cub|thrust|nv|crt|cooperative_groups)/[\w./]+"
    r"|cuda(?:_(?:fp(?:16|8|6|4)|bf16|pipeline\w*|awbarrier\w*|runtime|runtime_api))?\.h(?:pp)?"
    r"|(?:cooperative_groups|mma|curand_kernel|cuComplex|vector_types|vector_functions|math_constants"
    r"|device_functions|device_launch_parameters)\.h|(?:math|assert|float|limits|std\w+|string)\.h"
    r"|c(?:math|assert|float|limits|std\w+|string|type|time)|limits|type_traits|utility"
    r"|algorithm|array|atomic|bitset|chrono|condition_variable|deque|exception"
    r"|(?:io?|o|i?f|s)stream|functional|future|iomanip|iterator|list|map|memory|mutex|numeric|optional|queue"
    r"|random|set|stack|stdexcept|string|string_view|thread|tuple|unordered_(?:map|set)"
    r"|variant|vector|time\.h|sys/time\.h|unistd\.h)>\s*"
)
_TYPE_WORDS = {"const", "volatile", "unsigned", "signed", "struct", "class", "union", "enum"}
# Options that make the compiler read other files, too.
READING_OPTION = re.compile(r"-I|-isystem|--include-path|-include|--pre-include|--use-pch|--pch")


def replacements(text: str, options: Sequence[str] = ()) -> dict[str, str]:
    """Return the definitions in a source and in the compiler's options (such as ``-DN=4``).

    The result is a dict from each name to its definition. For a class, the definition is the name
    itself. A definition that is not certain is `UNKNOWN`. `text` is the result of
    `declarations.bare`: the source without comments and without the contents of string literals.
    """
    values_of: dict[str, list[str]] = {}
    for name, value in _of_options(options):
        values_of.setdefault(name, []).append(value)
    names = set(values_of)
    for name, value in _of_text(text, names):
        values_of.setdefault(name, []).append(value)
    others = _includes_others(text, options)
    for name, values in values_of.items():
        if others or element_types.is_known(name):
            values.append(UNKNOWN)
    return {
        name: values[0] if len(set(values)) == 1 else UNKNOWN for name, values in values_of.items()
    }


def is_conditional(text: str, place: int) -> bool:
    """Return whether position `place` of a source is inside ``#if``, ``#ifdef`` or ``#ifndef``.

    `text` is the source without comments.
    """
    conditions = re.findall(r"^[ \t]*#[ \t]*(if|endif)", text[:place], re.MULTILINE)
    return conditions.count("if") != conditions.count("endif")


def _of_options(options: Sequence[str]) -> Iterator[tuple[str, str]]:
    words = iter(options)
    for option in words:
        if match := re.match(r"(?:-D|--define-macro)[= ]?", option):
            macro, _, value = (option[match.end() :] or next(words, "")).partition("=")
            name, function, _ = macro.partition("(")
            yield name.strip(), UNKNOWN if function else value.strip()
        elif match := re.match(r"(?:-U|--undefine-macro)[= ]?", option):
            yield (option[match.end() :] or next(words, "")).strip(), UNKNOWN


def _of_text(text: str, names: set[str]) -> Iterator[tuple[str, str]]:
    """Yield the name and the definition of each definition in the text.

    `names` are the names of macros that options define. A definition inside ``#ifndef`` is only a
    default, so it is left out if its name is in `names`.
    """
    conditions: list[str] = []  # the name in each open #ifndef; "" for any other condition
    for match in _TOKEN.finditer(text):
        if directive := match["directive"]:
            rest = match["rest"].strip()
            if directive in ("define", "undef"):
                name = re.match(r"\w*", rest)[0]  # type: ignore[index]
                value = rest[len(name) :]
                plain = directive == "define" and not value.startswith("(")
                # In "#ifndef NAME, #define NAME value, #endif", the value is a default. The value
                # of a -D option takes precedence.
                default = conditions == [name]
                if not (default and name in names):
                    yield name, value.strip() if plain and (default or not conditions) else UNKNOWN
            elif directive in ("if", "ifdef", "ifndef"):
                conditions.append(rest if directive == "ifndef" else "")
            elif directive in ("else", "elif", "elifdef", "elifndef") and conditions:
                conditions[-1] = ""
            elif directive == "endif" and conditions:
                conditions.pop()
        elif match["alias"]:
            # If T is a pointer, the const in "const T x" belongs to the pointer.
            simple = not conditions and not re.search(r"[*&(\[]", match["value"])
            yield match["name"], match["value"].strip() if simple else UNKNOWN
        elif match["typedef"]:
            yield from _of_typedef(match["declared"], not conditions and match["end"] == ";")
        elif match["tag"]:
            tag = match["tag"]
            yield tag, UNKNOWN if element_types.is_known(tag) else tag
        elif match["constant"]:
            yield match["constant"], UNKNOWN if conditions else f"({match['number'].strip()})"
        elif match["template"] is not None:
            for parameter in match["template"].split(","):
                if words := re.findall(r"\w+", parameter.partition("=")[0]):
                    yield words[-1], UNKNOWN


def _of_typedef(declared: str, settled: bool) -> Iterator[tuple[str, str]]:
    simple = re.fullmatch(r"\s*([\w\s:<>,]{1,200}?)\s*\b(\w+)\s*", declared)
    if simple is not None and simple[1].strip() and ("," not in declared or "<" in declared):
        yield simple[2], simple[1] if settled else UNKNOWN
    else:  # pointers, arrays, functions, or several names
        for name in re.findall(r"[A-Za-z_]\w*", declared):
            if name not in _TYPE_WORDS and not element_types.is_known(name):
                yield name, UNKNOWN


def _includes_others(text: str, options: Sequence[str]) -> bool:
    """Return whether the source includes a header that may define a name which the source uses."""
    if any(READING_OPTION.match(option) for option in options):
        return True
    included = re.findall(r"^[ \t]*#[ \t]*include\b([^\n]*)$", text, re.MULTILINE)
    return not all(_KNOWN_HEADER.fullmatch(header) for header in included)
