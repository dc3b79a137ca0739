"""Reads the structure of a CUDA C++ file: its preprocessor directives, macros and syntax tree.

The parser (tree-sitter) does not run the preprocessor. Therefore the parser gets a changed text:
directives (such as #include), comments and the contents of string literals are replaced by spaces.
If the #if branch or the #else branch opens a brace without closing it, the changed text has only
one of these branches. The changed text is as long as the file, so a position in the syntax tree is
a position in the file.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from coalesce.cxx.declarations import closing, kernel_bodies

_TOKEN = re.compile(
    r'//(?:\\\n|[^\n])*|/\*.*?(?:\*/|\Z)|R"(?P<raw>[^()\s]{0,16})\(.*?\)(?P=raw)"'
    r'|"(?:\\.|[^"\\\n])*"|(?<!\d)\'(?:\\.|[^\'\\\n])*\'',
    re.DOTALL,
)
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w*)((?:\\\r?\n|[^\n])*)", re.MULTILINE)
_DEFINE = re.compile(r"\s*([A-Za-z_]\w*)(\([^)]*\))?(.*)", re.DOTALL)
WORD = re.compile(r"[A-Za-z_]\w*")
# Attributes of classes and variables that the parser does not know.
_ATTRIBUTE = re.compile(
    r"\b(?:__align__|alignas|__attribute__|__declspec)\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
    r"|\b__(?:host__\s+)?builtin_align__\b"
)
# The text before a brace whose contents are still at namespace scope, such as ``namespace a``.
_TRANSPARENT = re.compile(r"(?:\bnamespace\b[\w\s:]*|\bextern\s*\"[^\"]*\"\s*)$")
# The end of a line, if no line with an opening brace follows.
_END_OF_LINE = re.compile(r"[ \t]*;?[ \t]*(?=\r?\n(?!\s*\{)|\Z)")
# The words that mark a kernel, and the functions and variables of the device.
_DEVICE_WORDS = {"__global__", "__device__", "__constant__", "__shared__", "__managed__"}
# Macros of systems and libraries. The compiler knows those of CUDA.
_OF_SYSTEMS = re.compile(
    r"(?!__CUDA|__NV|__cplusplus|__has_|CUDA|THRUST|CUB|CCCL)"
    r"(?:_\w+|\w*VERSION\w*|CLOCK\w*|[A-Z]+_(?:MAX|MIN|BIT|SET)|EOF|\w*(?:ENDIAN|BYTE_ORDER)"
    r"|unix|linux|WIN\d+)"
)


@dataclass(frozen=True)
class Directive:
    """A preprocessor directive, such as ``#include <cmath>``. It may have several lines."""

    kind: str  # the directive's name, such as "include"
    text: str  # the rest of the line after the kind, without comments
    start: int
    end: int


@dataclass
class Layout:
    """A CUDA C++ file: its text, its directives and its macros.

    The parser does not read `text`. It reads a changed text, `parsed`.

    A device macro is a macro whose definition contains a word such as ``__device__``. All other
    macros are host macros.
    """

    text: str
    bare: str  # `text` with blanks for comments and the contents of string literals
    directives: list[Directive]
    # For each macro, the words in its definition; also "{" or "}" if it opens or closes a brace.
    macros: dict[str, set[str]] = field(default_factory=dict)
    # The macros without parameters whose every definition is empty, or only ``__extension__``.
    empty: set[str] = field(default_factory=set)
    parsed: str = ""  # the text that the parser reads
    # Start and end of each use of a host macro that stands alone on a line.
    host_macros: list[tuple[int, int]] = field(default_factory=list)
    # Start, end and words of each use of a device macro that stands alone on a line.
    device_macros: list[tuple[int, int, set[str]]] = field(default_factory=list)

    def text_with_host_macros(self) -> str:
        """Return a copy of `parsed` that contains the uses of host macros.

        In `parsed`, the text that the parser reads, spaces replace these uses, because the parser
        cannot expand macros.
        """
        text = self.parsed
        for start, end in self.host_macros:
            text = text[:start] + ascii_of(self.bare[start:end]) + text[end:]
        return text


def layout_of(text: str) -> Layout:
    """Return the directives and macros of a file with this text, without parsing the C++ code."""
    bare = _TOKEN.sub(_blank_token, text)
    directives = [
        # `bare` has spaces instead of string literals. Therefore the name of a header is read from
        # `text`.
        Directive(m[1], text[m.start(2) : m.end(2)] if m[1] == "include" else m[2], *m.span())
        for m in _DIRECTIVE.finditer(bare)
    ]
    layout = Layout(text, bare, directives)
    definitions: dict[str, set[str]] = {}
    for directive in directives:
        if directive.kind == "define" and (match := _DEFINE.match(directive.text)):
            words = set(WORD.findall(match[3])) - set(WORD.findall(match[2] or ""))
            open_braces = match[3].count("{") - match[3].count("}")
            words |= {"{"} if open_braces > 0 else {"}"} if open_braces < 0 else set()
            layout.macros.setdefault(match[1], set()).update(words)
            definitions.setdefault(match[1], set()).add((match[2] or "") + match[3].strip())
    layout.empty = {
        name
        for name, values in definitions.items()
        if values <= {"", "__extension__"} and not name.startswith("__")
    } | {"__extension__"}
    return layout


def device_words(macros: dict[str, set[str]]) -> set[str]:
    """Return the words that mark device code: ``__global__``, ``__device__`` and so on.

    A macro whose definition contains such a word is a mark, too; see `with_macros`.
    """
    return with_macros(_DEVICE_WORDS, macros)


def with_macros(words: Iterable[str], macros: Mapping[str, set[str]]) -> set[str]:
    """Return words, and the macros that contain one of them, directly or in other macros.

    `macros` is a dict from the name of each macro to the words of its definition.
    """
    found = set(words)
    while more := {name for name, used in macros.items() if used & found} - found:
        found |= more
    return found


def errors_of_systems(layouts: Sequence[Layout]) -> list[list[Directive]]:
    """Return, for each file, the #error lines that may depend on headers that were left out.

    Such a line is under a condition on a macro that systems or libraries define, as in
    ``#if _POSIX_VERSION < 200112L``.
    """
    uses: dict[str, set[str]] = {}  # the words on which each macro depends
    errors: list[list[tuple[Directive, set[str]]]] = []
    for layout in layouts:
        conditions: list[set[str]] = []
        errors.append([])
        for directive in layout.directives:
            words = set(WORD.findall(directive.text))
            if directive.kind in ("if", "ifdef", "ifndef"):
                conditions.append(words)
            elif directive.kind.startswith("elif") and conditions:
                conditions[-1] = conditions[-1] | words
            elif directive.kind == "endif" and conditions:
                conditions.pop()
            elif directive.kind == "error":
                errors[-1].append((directive, set().union(*conditions)))
            elif directive.kind == "define" and (match := _DEFINE.match(directive.text)):
                uses.setdefault(match[1], set()).update(words - {match[1]}, *conditions)
    unknown = set().union(*uses.values(), *(words for each in errors for _, words in each))
    system = {word for word in unknown - set(uses) if _OF_SYSTEMS.fullmatch(word)}
    depends = with_macros(system, uses)
    return [[line for line, words in each if words & depends] for each in errors]


def parse(layout: Layout, marks: set[str]) -> Any:
    """Parse a file and return the root of its syntax tree.

    `marks` are the words that mark device code. The function also changes `layout`: it sets
    `parsed` (the text that the parser reads), and adds the uses of macros to `host_macros` and
    `device_macros`.
    """
    text = list(layout.bare)
    for directive in layout.directives:
        _erase(text, directive.start, directive.end)
    for start, end in _branches_left_out(layout):
        _erase(text, start, end)
    layout.parsed = ascii_of(text)
    # At some places, such as before a union, the parser does not understand an empty macro.
    names = "|".join(sorted(layout.empty))
    layout.parsed = re.sub(rf"\b(?:{names})\b", lambda m: " " * len(m[0]), layout.parsed)
    layout.parsed = _ATTRIBUTE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), layout.parsed)
    # A line may consist of a macro that defines functions. The parser does not expand macros and
    # would not understand this line, so `layout.parsed` has blanks in its place.
    scopes = _namespace_scope(layout.parsed)
    done = 0
    for match in re.finditer(r"^[ \t]*(\w+)[ \t]*\(", layout.parsed, re.MULTILINE):
        if match[1] not in layout.macros or match.start() < done:
            continue
        host = match[1] not in marks
        if host and not scopes[bisect.bisect(scopes, (match.start(), True)) - 1][1]:
            continue
        if not _begins_declaration(layout, match.start()):
            continue
        end = closing(layout.parsed, match.end())
        if end > 0 and (rest := _END_OF_LINE.match(layout.parsed, end)):
            end = rest.end()
            if not host and "{" in layout.macros[match[1]]:
                end = _end_of_macros(layout, end)
            done = end
            if not host:
                words = set(WORD.findall(layout.parsed[match.start() : end]))
                layout.device_macros.append((match.start(), end, words))
            blank = re.sub(r"[^\n]", " ", layout.parsed[match.start() : end])
            layout.parsed = layout.parsed[: match.start()] + blank + layout.parsed[end:]
            if host:
                layout.host_macros.append((match.start(), end))
    return tree_of(layout.parsed)


def _begins_declaration(layout: Layout, place: int) -> bool:
    """Return whether a declaration may begin at a place: none is unfinished before it.

    In ``const int n =\\n MACRO(2);``, the line of the macro is the end of a declaration.
    """
    while place and layout.parsed[place - 1].isspace():
        place -= 1
    end = place
    while place and (layout.parsed[place - 1].isalnum() or layout.parsed[place - 1] == "_"):
        place -= 1
    before = layout.parsed[place - 1 : place] if place == end else layout.parsed[place:end]
    return before in ("", ";", "{", "}") or before in layout.macros


def without_kernel_bodies(text: str) -> str:
    """Return a source whose kernels have empty bodies. Directives and lines keep their places.

    The types of the parameters do not depend on the bodies.
    """
    layout = layout_of(text)
    changed = list(text)
    for _, start, end in kernel_bodies(layout.bare):
        _erase(changed, start, end - 1)
    for directive in layout.directives:
        if directive.kind != "include":  # it may include a part of a body
            changed[directive.start : directive.end] = text[directive.start : directive.end]
    return "".join(changed)


def _end_of_macros(layout: Layout, place: int) -> int:
    """Return the end of a definition that two macros make together.

    The macro that ends at `place` opens a brace, and a later macro closes this brace. The result is
    the end of the later macro, or `place` if no macro closes the brace.
    """
    for match in re.compile(r"^[ \t]*(\w+)[ \t]*(\()?", re.MULTILINE).finditer(
        layout.parsed, place
    ):
        if "}" in layout.macros.get(match[1], ()):
            end = closing(layout.parsed, match.end()) if match[2] else match.end()
            return max(end, match.end())
    return place


def ascii_of(text: Iterable[str]) -> str:
    """Return a text with "_" in place of each character that is not ASCII."""
    return "".join(c if c.isascii() else "_" for c in text)


def tree_of(text: str) -> Any:
    """Parse an ASCII text and return the root of its syntax tree."""
    return _parser().parse(text.encode("ascii")).root_node


@lru_cache(maxsize=1)
def _parser() -> Any:
    import tree_sitter
    import tree_sitter_cuda

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_cuda.language()))


def _blank_token(match: re.Match[str]) -> str:
    """Return spaces for a comment. For a literal, return its quotes with spaces between them."""
    token = match[0]
    blank = re.sub(r"[^\n]", " ", token)
    if token[0] == "/" or len(token) < 2:
        return blank
    # A character literal must not become empty, because C++ does not allow this. So each character
    # of the literal is replaced by a 0.
    return token[-1] + (blank[1:-1] if token[-1] == '"' else "0" * (len(token) - 2)) + token[-1]


def _erase(text: list[str], start: int, end: int) -> None:
    for place in range(start, end):
        if text[place] != "\n":
            text[place] = " "


def _branches_left_out(layout: Layout) -> Iterator[tuple[int, int]]:
    """Yield the branches of conditions that are hidden from the parser."""
    # The condition, start and end of each branch.
    open_groups: list[list[tuple[str, int, int]]] = []
    for directive in layout.directives:
        if directive.kind in ("if", "ifdef", "ifndef"):
            condition = directive.text.strip() if directive.kind == "if" else ""
            open_groups.append([(condition, directive.end, directive.end)])
        elif directive.kind in ("elif", "else", "endif", "elifdef", "elifndef") and open_groups:
            group = open_groups[-1]
            group[-1] = (group[-1][0], group[-1][1], directive.start)
            if directive.kind != "endif":
                group.append(("", directive.end, directive.end))
                continue
            open_groups.pop()
            never = [branch for branch in group if branch[0] == "0"]
            rest = [branch for branch in group if branch[0] != "0"]
            yield from ((start, end) for _, start, end in never)
            if any(_opened(layout.bare[start:end]) for _, start, end in rest):
                yield from ((start, end) for _, start, end in rest[1:])


def _opened(text: str) -> tuple[int, int] | None:
    """Return how many braces and parentheses a text leaves open, or None if it leaves none open."""
    counts = text.count("{") - text.count("}"), text.count("(") - text.count(")")
    return counts if any(counts) else None


def _namespace_scope(text: str) -> list[tuple[int, bool]]:
    """Return where a text enters and leaves the scope of namespaces and of ``extern "C"``."""
    changes = [(0, True)]
    scopes: list[bool] = []  # for each open brace: is the text inside it at namespace scope?
    start = 0
    for match in re.finditer(r"[{};]", text):
        if match[0] == "{":
            scopes.append(bool(_TRANSPARENT.search(text[start : match.start()])))
        elif match[0] == "}" and scopes:
            scopes.pop()
        start = match.end()
        if all(scopes) != changes[-1][1]:
            changes.append((start, all(scopes)))
    return changes
