"""Adds tests of indices to a source, for accesses to array members such as ``s.a[i]``.

A structure that a kernel gets by value may have members that are arrays. The compiled code does
not show whether an index is outside such an array. ``s.a[4]`` and ``s.b[0]`` can be the same
address, and the compiler adds constants in an index to the address. Therefore a check compiles
another source. There, the last index of each such access is passed through a function::

    s.a[i]   becomes   s.a[(::coalesce_members::within<...>(0, (i)))]

The function is in compile/member_accesses.h. It returns the index, and reports it if it is outside
the array. If there are several indices, as in ``s.m[i][j]``, the others are arguments, too. So they
are evaluated twice.

The types come from the compiler, through ``decltype``. So an access through a pointer, a reference
or an overloaded operator[] is never tested. Only the index of a subscript is tested: pointer
arithmetic, casts, copies of the structure and other members of a union are not affected.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from coalesce.cxx.declarations import closing
from coalesce.cxx.file_layout import layout_of
from coalesce.cxx.macros import WORD

HEADER = "coalesce_members.h"

_MEMBER = re.compile(r"\s*\.\s*([A-Za-z_]\w*)")
_SUBSCRIPT = re.compile(r"\s*\[")
_PARAMETERS = re.compile(r"\s*\w+\(([^)]*)\)")  # of a macro, after the word "define"
_ASSERTION = re.compile(r"\b(?:static_)?assert\s*\(")
# What may follow an expression that is written to, and what may precede it.
_WRITES = re.compile(r"\s*(?:=(?!=)|[-+*/%&|^]=|<<=|>>=|\+\+|--)")
_WRITTEN = re.compile(r"(?:\+\+|--)\Z")
# What precedes a name that is itself a member, or an expression whose address is taken.
_QUALIFIED = re.compile(r"(?:\.|->|::)\Z")
_ADDRESS = re.compile(r"(?:(?<!&)&|\baddressof)\Z")
# An index that may be evaluated twice: it has no calls, assignments, subscripts or literals with
# quotes.
_REPEATABLE = re.compile(r"(?:(?!\+\+|--)[\w\s.+\-*/%<>&|^?:~])+")
_MOST_DIMENSIONS = 3


@dataclass(frozen=True)
class MemberAccess:
    """An access to an element of an array member, such as ``s.a[i]``."""

    array: str  # "s.a"
    verb: str  # "read" or "write"


@dataclass
class _Part:
    """A part of an expression: a variable or a member, and the subscripts that follow it."""

    end: int  # the end of the name
    # The start and the end of each index, without the brackets.
    indices: list[tuple[int, int]] = field(default_factory=list)


def with_tests(source: str, names: Iterable[str]) -> tuple[str, list[MemberAccess]]:
    """Return a source with tests of indices, and a list of the tested accesses.

    `names` are the names of the parameters that are structures. Every line of the source keeps its
    number. If there is nothing to test, the list is empty.
    """
    wanted = "|".join(re.escape(name) for name in names)
    if not wanted or "[" not in source:
        return source, []
    layout = layout_of(source)
    bare = layout.bare
    # Ranges of the source in which names are left out: the start, the end, and the names (""
    # stands for all names). One kind are assertions, because a failed assertion shows its text. The
    # other kind are macros, because a macro's parameter may have the name of a kernel's parameter.
    hidden = [(m.start(), closing(bare, m.end()), "") for m in _ASSERTION.finditer(bare)]
    hidden += [
        (directive.start, directive.end, macro[1])
        for directive in layout.directives
        if directive.kind == "define" and (macro := _PARAMETERS.match(directive.text))
    ]
    accesses: list[MemberAccess] = []
    added: list[tuple[int, str]] = []  # texts, and the places at which they are inserted
    for match in re.compile(rf"\b(?:{wanted})\b(?=\s*\.)").finditer(bare):
        start = match.start()
        before = _text_before(bare, start)
        if _QUALIFIED.search(before) or _ADDRESS.search(before):
            continue
        own = [hide for first, last, hide in hidden if first <= start < last]
        if any(not hide or match[0] in WORD.findall(hide) for hide in own):
            continue
        parts, end = _chain(bare, match.end())
        for number, part in enumerate(parts[1:], 1):
            if not part.indices:
                continue
            call = _test(bare, start, parts[: number + 1], len(accesses))
            if call is None:
                continue
            writes = _WRITES.match(bare, end) or _WRITTEN.search(before)
            array = "".join(bare[start : part.end].split())
            accesses.append(MemberAccess(array, "write" if writes else "read"))
            first, last = part.indices[-1]
            added += [(first, f"({call}("), (last, ")))")]
    text = []
    place = 0
    for at, new in sorted(added, key=lambda item: item[0]):
        text += [source[place:at], new]
        place = at
    return "".join([*text, source[place:]]), accesses


def _text_before(text: str, place: int) -> str:
    """Return a few characters before a place, without the spaces and parentheses at their end."""
    while place > 0 and text[place - 1] in " \t\r\n\v\f\\(":
        place -= 1
    return text[max(0, place - 20) : place]


def _chain(text: str, end: int) -> tuple[list[_Part], int]:
    """Read the members and subscripts that follow a variable, whose name ends at `end`."""
    parts = [_Part(end)]
    while True:
        if member := _MEMBER.match(text, end):
            end = member.end()
            parts.append(_Part(end))
        elif bracket := _SUBSCRIPT.match(text, end):
            last = _closing_bracket(text, bracket.end())
            if last < 0:
                return parts, end
            parts[-1].indices.append((bracket.end(), last))
            end = last + 1
        else:
            return parts, end


def _closing_bracket(text: str, place: int) -> int:
    """Return the position of the bracket that closes the one before `place`, or -1."""
    depth = 0
    for match in re.compile(r"[][(){};]").finditer(text, place):
        if match[0] in "([{":
            depth += 1
        elif match[0] == ";" and depth == 0:
            return -1
        elif match[0] in ")]}":
            if depth == 0:
                return match.start() if match[0] == "]" else -1
            depth -= 1
    return -1


def _test(bare: str, start: int, parts: list[_Part], number: int) -> str | None:
    """Return the first part of the test's call, up to the last index, or None for no test."""
    indices = parts[-1].indices
    texts = [_one_line(bare[first:last]) for first, last in indices]
    before = _one_line(bare[start : parts[-1].end])
    if len(indices) > _MOST_DIMENSIONS or not all(text.strip() for text in texts):
        return None
    if not all(_REPEATABLE.fullmatch(text) for text in texts[:-1]):
        return None
    if '"' in before or "'" in before:
        return None  # `bare` does not have the contents of a string
    types = [
        f"::coalesce_members::part<decltype({_one_line(bare[start : part.end])}), "
        f"{len(part.indices)}>"
        for part in parts
    ]
    earlier = "".join(f"({text}), " for text in texts[:-1])
    chain = f"::coalesce_members::chain< {', '.join(types)} >"
    return f"::coalesce_members::within< {chain} >({number}, {earlier}"


def _one_line(text: str) -> str:
    return " ".join(text.replace("\\\n", " ").split())
