"""Expands macros that launch kernels. The macros are used in host code.

For example, ``RUN(k)`` may become ``k<<<1, 32>>>()``. The module `launches` finds the launches in
the expanded text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from coalesce.cxx.declarations import closing
from coalesce.cxx.file_layout import WORD, Layout

_DEFINITION = re.compile(r"\s*([A-Za-z_]\w*)\(([^)]*)\)(.*)", re.DOTALL)
_DEPTH = 6  # macros within macros
_LONGEST = 1 << 20  # characters of an expanded file


@dataclass(frozen=True)
class Macro:
    """The definition of a macro with parameters, such as ``#define RUN(k) k<<<1, 32>>>()``."""

    parameters: tuple[str, ...]
    body: str


def of_launches(layouts: Iterable[Layout]) -> dict[str, Macro]:
    """Return a dict of all macros that launch a kernel, directly or through another macro.

    The keys are the names of the macros. `layouts` are the files of the program.
    """
    macros: dict[str, Macro] = {}
    for layout in layouts:
        for directive in layout.directives:
            if directive.kind == "define" and (match := _DEFINITION.match(directive.text)):
                parameters = tuple(part.strip() for part in match[2].split(","))
                body = re.sub(r"\\\r?\n", " ", match[3])
                macros[match[1]] = Macro(parameters, body)
    launching = {name for name, macro in macros.items() if "<<<" in macro.body}
    while more := {n for n, m in macros.items() if launching & set(WORD.findall(m.body))}:
        if more <= launching:
            break
        launching |= more
    return {name: macros[name] for name in launching}


def expanded(text: str, macros: Mapping[str, Macro], depth: int = 0) -> str:
    """Replace the uses of macros in a text by their definitions, and return the text.

    A definition may use other macros. They are replaced, too, up to a depth of 6. `depth` is the
    depth of `text`: 0 for the source, and 1 for the definition of a macro in the source.
    """
    if not macros or depth == _DEPTH:
        return text
    uses = re.compile(rf"\b({'|'.join(map(re.escape, macros))})\s*\(")
    parts, place = [], 0
    for match in uses.finditer(text):
        end = closing(text, match.end()) if match.start() >= place else -1
        if end < 0:
            continue
        arguments = _split(text[match.end() : end - 1])
        inner = expanded(_substituted(macros[match[1]], arguments), macros, depth + 1)
        parts += [text[place : match.start()], inner]
        place = end
        if sum(map(len, parts)) > _LONGEST:
            return text
    return "".join([*parts, text[place:]])


def _split(text: str) -> list[str]:
    """Split the arguments of a macro at commas outside parentheses."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def _substituted(macro: Macro, arguments: Sequence[str]) -> str:
    values = dict(zip(macro.parameters, arguments, strict=False))
    if "..." in macro.parameters:
        values["__VA_ARGS__"] = ", ".join(arguments[macro.parameters.index("...") :])
    body = WORD.sub(lambda m: values.get(m[0], m[0]), macro.body)
    return re.sub(r"\s*##\s*", "", body)
