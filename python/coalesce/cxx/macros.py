"""Expands the macros of a CUDA C++ file, so that the parser sees the declarations that they make.

For example, ``RUN(k)`` may become ``k<<<1, 32>>>()``, and ``BEGIN`` may become ``namespace a {``. A
macro such as ``#define N 4`` is not expanded: the parser understands the name.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from coalesce.cxx.declarations import closing

WORD = re.compile(r"[A-Za-z_]\w*")
_DEFINITION = re.compile(r"\s*([A-Za-z_]\w*)(?:\(([^)]*)\))?(.*)", re.DOTALL)
# What the parser must see of a macro without parameters.
_STRUCTURE = re.compile(
    r"[{};]|<<<|\b(?:__attribute__|__declspec|alignas|__align__|inline|static|extern|virtual|explicit"
    r"|__host__|constexpr|friend|template|typename|noexcept|override|__forceinline__|__inline__|__noinline__)\b"
)
_DEPTH = 12  # macros within macros
_LONGEST = 1 << 20  # characters of an expanded file


@dataclass(frozen=True)
class Macro:
    """The definition of a macro, such as ``#define RUN(k) k<<<1, 32>>>()``."""

    parameters: tuple[str, ...] | None  # None for a macro without parentheses
    body: str


@dataclass
class Expanded:
    """A text in which macros are expanded, and the places of the expansions."""

    text: str = ""
    # Start and end of each expansion in `text`, and start and end of the macro in the source.
    spans: list[tuple[int, int, int, int]] = field(default_factory=list)

    def source_range(self, start: int, end: int) -> tuple[int, int]:
        """Return the range in the source from which a range of `text` was made."""
        return self._source(start, False)[0], self._source(end, True)[0]

    def is_exact(self, start: int, end: int) -> bool:
        """Return whether no expansion is partly inside a range of `text`."""
        return self._source(start, False)[1] and self._source(end, True)[1]

    def _source(self, place: int, is_end: bool) -> tuple[int, bool]:
        index = bisect.bisect_right(self.spans, (place - is_end, len(self.text) + 1)) - 1
        if index < 0:
            return place, True
        start, end, source_start, source_end = self.spans[index]
        if place - is_end < end:
            return (source_end, place == end) if is_end else (source_start, place == start)
        return place - end + source_end, True


def definition(text: str) -> tuple[str, Macro] | None:
    """Return the name and the definition of the macro in a line ``#define``, without this word."""
    match = _DEFINITION.match(text)
    if match is None:
        return None
    parameters = None if match[2] is None else tuple(part.strip() for part in match[2].split(","))
    return match[1], Macro(parameters, re.sub(r"\\\r?\n", " ", match[3]).strip())


def to_expand(
    definitions: Mapping[str, Iterable[Macro]], marks: set[str], text: str
) -> dict[str, Macro]:
    """Return the macros to expand. Of several definitions, one that marks device code is chosen.

    `marks` are words such as ``__device__``. `text` is the program without directives. If it
    defines a function with the name of a macro, the macro is for another compiler.
    """
    chosen = {}
    for name, macros in definitions.items():
        best = max(
            macros,
            key=lambda macro: (bool(marks & set(WORD.findall(macro.body))), bool(macro.body)),
        )
        if best.parameters is None:
            if not _STRUCTURE.search(best.body) and not marks & set(WORD.findall(best.body)):
                continue
        elif re.search(rf"[\w*&>]\s+{name}\s*\([^()]*\)\s*\{{", text):
            continue
        chosen[name] = best
    return chosen


def expanded(text: str, macros: Mapping[str, Macro]) -> Expanded:
    """Replace the uses of macros in a text by their definitions."""
    result = Expanded()
    if not macros:
        return Expanded(text)
    place, length, parts = 0, 0, []
    for start, end, inner in _uses(text, macros, frozenset()):
        parts += [text[place:start], inner]
        length += start - place
        result.spans.append((length, length + len(inner), start, end))
        length += len(inner)
        place = end
        if length > _LONGEST:
            return Expanded(text)
    result.text = "".join([*parts, text[place:]])
    return result


def _uses(
    text: str, macros: Mapping[str, Macro], inside: frozenset[str]
) -> list[tuple[int, int, str]]:
    """Return start, end and expansion of each use of a macro.

    `inside` are the macros whose definitions contain `text`. They are not expanded again.
    """
    found: list[tuple[int, int, str]] = []
    place = 0
    for match in WORD.finditer(text):
        macro = macros.get(match[0])
        if macro is None or match[0] in inside or match.start() < place:
            continue
        end, body = match.end(), macro.body
        if macro.parameters is not None:
            opened = re.compile(r"\s*\(").match(text, end)
            end = closing(text, opened.end()) if opened else -1
            if opened is None or end < 0:
                continue
            arguments = _split(text[opened.end() : end - 1])
            body = _substituted(macro.parameters, body, arguments)
        if len(inside) < _DEPTH:
            body = _expanded_text(body, macros, inside | {match[0]})
        found.append((match.start(), end, body))
        place = end
    return found


def _expanded_text(text: str, macros: Mapping[str, Macro], inside: frozenset[str]) -> str:
    parts, place = [], 0
    for start, end, inner in _uses(text, macros, inside):
        parts += [text[place:start], inner]
        place = end
        if sum(map(len, parts)) > _LONGEST:
            return text
    return "".join([*parts, text[place:]])


def _split(text: str) -> list[str]:
    """Split the arguments of a macro at commas outside parentheses."""
    parts, depth, start = [], 0, 0
    for match in re.finditer(r"[(),]", text):
        depth += {"(": 1, ")": -1, ",": 0}[match[0]]
        if match[0] == "," and depth == 0:
            parts.append(text[start : match.start()])
            start = match.end()
    return [part.strip() for part in (*parts, text[start:])]


def _substituted(parameters: Sequence[str], body: str, arguments: Sequence[str]) -> str:
    values = dict(zip(parameters, arguments, strict=False))
    if parameters and parameters[-1].endswith("..."):
        name = parameters[-1].removesuffix("...").strip() or "__VA_ARGS__"
        values[name] = ", ".join(arguments[len(parameters) - 1 :])
    body = re.sub(r"(?<!#)#\s*([A-Za-z_]\w*)", lambda m: '""' if m[1] in values else m[0], body)
    body = WORD.sub(lambda m: values.get(m[0], m[0]), body)
    return re.sub(r"\s*##\s*", "", body)
