"""Reads the structure of a CUDA C++ file: its preprocessor directives, macros and syntax tree.

The parser (tree-sitter) does not run the preprocessor. Therefore the parser gets a changed text:
directives (such as #include), comments and the contents of string literals are replaced by spaces.
If the #if branch or the #else branch opens a brace without closing it, the changed text has only
one of these branches. Macros are expanded. `Layout.code` has the position in the file for each
position in the syntax tree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from coalesce.cxx.declarations import kernel_bodies
from coalesce.cxx.macros import WORD, Expanded, Macro, definition, expanded

_TOKEN = re.compile(
    r'//(?:\\\n|[^\n])*|/\*.*?(?:\*/|\Z)|R"(?P<raw>[^()\s]{0,16})\(.*?\)(?P=raw)"'
    r'|"(?:\\.|[^"\\\n])*"|(?<!\d)\'(?:\\.|[^\'\\\n])*\'',
    re.DOTALL,
)
_SPLICE = r"\\\r?\n"  # the end of a line that continues on the next one
_DIRECTIVE = re.compile(
    rf"^[^\S\n]*(?:#|%:)(?:[^\S\n]|{_SPLICE})*((?:\w|{_SPLICE})*)((?:{_SPLICE}|[^\n])*)",
    re.MULTILINE,
)
_INCLUDED = re.compile(r"<[^>\n]+>|\"[^\"\n]+\"|\w+")
# Attributes of classes and variables that the parser does not know.
_ATTRIBUTE = re.compile(
    r"\b(?:__align__|alignas|__attribute__|__declspec)\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
    r"|\b__(?:host__\s+)?builtin_align__\b"
)
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
    """A CUDA C++ file: its text, its directives and its macros."""

    text: str
    bare: str  # `text` with blanks for comments and the contents of string literals
    directives: list[Directive]
    definitions: dict[str, list[Macro]] = field(default_factory=dict)  # of macros
    code: Expanded = field(default_factory=Expanded)  # the text that the parser reads
    attributed: str = ""  # the same text with attributes, which the parser does not know

    @property
    def parsed(self) -> str:
        """The text that the parser reads."""
        return self.code.text

    def start(self, place: int) -> int:
        """Return where a declaration at a position of `parsed` starts, with its attributes."""
        blank = place
        while blank and self.parsed[blank - 1].isspace():
            blank -= 1
        attributes = self.attributed[blank:place]
        return blank + len(attributes) - len(attributes.lstrip())

    def line(self, place: int) -> int:
        """Return the number of the line at a position of `text`."""
        return self.text.count("\n", 0, place) + 1


def layout_of(text: str) -> Layout:
    """Return the directives and macros of a file with this text, without parsing the C++ code."""
    bare = _TOKEN.sub(_blank_token, text)
    directives = []
    for m in _DIRECTIVE.finditer(bare):
        kind, rest = re.sub(_SPLICE, "", m[1]), m[2]
        if kind.startswith("include"):  # `bare` has spaces instead of the name of a header
            rest = _TOKEN.sub(_without_comment, re.sub(_SPLICE, "", text[m.start(2) : m.end(2)]))
        directives.append(Directive(kind, rest, *m.span()))
    layout = Layout(text, bare, directives)
    for directive in directives:
        if directive.kind == "define" and (found := definition(directive.text)):
            layout.definitions.setdefault(found[0], []).append(found[1])
    return layout


@lru_cache(maxsize=1024)
def included(text: str) -> tuple[str, ...]:
    """Return what a file includes, as ``<name>``, ``"name"`` or a macro."""
    directives = [d for d in layout_of(text).directives if d.kind.startswith("include")]
    return tuple(m[0] for d in directives if (m := _INCLUDED.search(d.text)))


def words_of_macros(definitions: Mapping[str, Iterable[Macro]]) -> dict[str, set[str]]:
    """Return a dict from the name of each macro to the words of its definitions."""
    return {
        name: {
            word
            for macro in macros
            for word in set(WORD.findall(macro.body)) - set(macro.parameters or ())
        }
        for name, macros in definitions.items()
    }


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
            elif directive.kind == "define" and (found := definition(directive.text)):
                uses.setdefault(found[0], set()).update(words - {found[0]}, *conditions)
    unknown = set().union(*uses.values(), *(words for each in errors for _, words in each))
    system = {word for word in unknown - set(uses) if _OF_SYSTEMS.fullmatch(word)}
    depends = with_macros(system, uses)
    return [[line for line, words in each if words & depends] for each in errors]


def without_directives(layout: Layout) -> str:
    """Return the text of a file for the parser, as ASCII, before macros are expanded."""
    text = list(layout.bare)
    for directive in layout.directives:
        _erase(text, directive.start, directive.end)
    for start, end in _branches_left_out(layout):
        _erase(text, start, end)
    return ascii_of(text)


def parse(layout: Layout, macros: Mapping[str, Macro], empty: Iterable[str]) -> Any:
    """Parse a file and return the root of its syntax tree.

    `macros` are the macros to expand, and `empty` those that the parser does not understand at some
    places, such as before a union. The function also sets `layout.code`.
    """
    layout.code = expanded(without_directives(layout), macros)
    layout.attributed = text = layout.code.text
    if names := "|".join(sorted(empty)):
        text = re.sub(rf"\b(?:{names})\b", lambda m: " " * len(m[0]), text)
    layout.code.text = _ATTRIBUTE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
    return tree_of(layout.code.text)


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


def _without_comment(match: re.Match[str]) -> str:
    return " " if match[0].startswith("/*") else match[0]


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
