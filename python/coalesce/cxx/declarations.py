"""Reads the parameters of a kernel from its CUDA C++ declaration.

This module is not a C++ parser, but it can read the declarations that kernels usually have. It
replaces the name of a type or macro by its definition, if only one definition is possible
(definitions.py). In a template, it replaces each template parameter by its argument. If it cannot
read a declaration, the result is None. A source may have several declarations of a kernel. If the
type of a parameter differs between them, this type counts as unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from coalesce.cxx import element_types
from coalesce.cxx.definitions import UNKNOWN, is_conditional, replacements


@dataclass(frozen=True)
class Declared:
    """A parameter as the source declares it."""

    name: str  # "" for a parameter without a name
    type: str  # the type without const and pointers, "unsigned int"; "" for an unknown type
    pointer: bool = False
    const: bool = False  # a pointer to const elements
    certain: bool = True  # False if the type is not certain from the text
    restrict: bool = False  # a __restrict__ pointer
    reference: bool = False

    @property
    def spelled(self) -> str:
        """The type as messages show it, such as "const float *". Empty for an unknown type."""
        if not self.type:
            return ""
        return ("const " if self.const else "") + self.type + (" *" if self.pointer else "")


_COMMENT_OR_TEXT = re.compile(
    r'//[^\n]*|/\*.*?(?:\*/|\Z)|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL
)
_CONTINUED = re.compile(r"^(?:[^\n]*\\\n)+[^\n]*", re.MULTILINE)
_TEMPLATE = re.compile(r"\btemplate\s*<([^{};]*)>\s*(?:static|inline|extern|\"\"|\s)*$")
_WITH_ARGUMENTS = {
    "__launch_bounds__",
    "__cluster_dims__",
    "__block_size__",
    "__maxnreg__",
    "__attribute__",
    "alignas",
}
NOT_TYPES = {
    "__restrict__",
    "__restrict",
    "restrict",
    "volatile",
    "struct",
    "class",
    "typename",
} | {
    "__grid_constant__",
    "register",
    "enum",
    "std",
}


def parameters_of(
    source: str,
    name: str,
    count: int,
    options: Sequence[str] = (),
    expression: str | None = None,
) -> list[Declared] | None:
    """Return the parameters of kernel `name` as its declaration in `source` gives them.

    `count` is the number of parameters. Declarations with more or fewer parameters are ignored.
    `options` are the compiler's options, which may define macros. `expression` is the
    instantiation of a template, such as ``"scale<float, 4>"``, or None if the kernel is not a
    template.

    If no declaration can be read, return None.
    """
    text = bare(source)
    known = replacements(text, options)
    candidates: list[list[Declared]] = []
    for template, kernel, inside, place in _kernels(text):
        if kernel != name:
            continue
        arguments = _template_arguments(template, expression)
        parts = split(inside)
        declared = [_parameter(part, {**known, **arguments}) for part in parts]
        if is_conditional(text, place):
            declared = [replace(parameter, certain=False) for parameter in declared]
        if len(declared) == count and declared not in candidates:
            candidates.append(declared)
    if not candidates:
        return None
    first = candidates[0]
    for other in candidates[1:]:
        # The kernel has several declarations: overloads, or versions under #if. Keep only the
        # parameters that are the same in all of them.
        first = [_shared(a, b) for a, b in zip(first, other, strict=True)]
    return first


def is_same(a: Declared, b: Declared) -> bool:
    """Return whether two parameters have the same type.

    One type can have several names: "size_t" and "unsigned long" are the same type.
    """
    if (a.pointer, a.const) != (b.pointer, b.const):
        return False
    (dtypes, size), (others, other_size) = map(element_types.element_types, (a.type, b.type))
    return a.type == b.type or (size == other_size and not set(dtypes).isdisjoint(others))


def _shared(a: Declared, b: Declared) -> Declared:
    if a == b:
        return a
    return Declared(a.name if a.name == b.name else "", "", certain=False)


def as_compiled(text: str) -> Declared:
    """Read a type that the compiler wrote, such as "float const*".

    The result is a parameter whose name is empty.
    """
    if "(" in text or "&" in text:
        return Declared("", "")
    head, *stars = text.split("*")
    words = re.findall(r"\w+|[<>:,]", head)
    base = normalized([word for word in words if word != "const"])
    # The name of a member of a template, such as A<int>::type, does not say which type it is.
    if "::" in base.rpartition(">")[2] and ">" in base:
        return Declared("", "", certain=False)
    if not element_types.compiler_shows(base):
        base = ""
    if len(stars) > 1:
        return Declared("", f"{base} *", True)
    return Declared("", base, bool(stars), bool(stars) and "const" in words)


def lines_of(source: str) -> list[str]:
    """Split a source into lines as the compiler does: only at newlines.

    Python's `str.splitlines` would also split at other characters, such as a form feed.
    """
    return [line.removesuffix("\r") for line in source.removesuffix("\n").split("\n")]


def bare(source: str) -> str:
    """Return a source without comments and without the contents of string literals.

    A line that ends with a backslash is joined with the next line. Joined lines and lines of
    comments leave empty lines behind, so all other lines keep their numbers.
    """
    text = _COMMENT_OR_TEXT.sub(
        lambda m: '""' if m[0][0] in "\"'" else " " + "\n" * m[0].count("\n"), source
    )
    return _CONTINUED.sub(lambda m: m[0].replace("\\\n", " ") + "\n" * m[0].count("\\\n"), text)


def kernel_template_arguments(text: str, expression: str | None) -> dict[str, str]:
    """Return a dict from each template parameter of a kernel to its argument.

    `text` is a source without comments. `expression` is the instantiation: for
    ``template <class T, int N> scale`` and "scale<float, 4>", the result is
    ``{"T": "float", "N": "4"}``. If the kernel is not a template, the dict is empty.
    """
    if not expression or "<" not in expression:
        return {}
    wanted = expression.partition("<")[0].split("::")[-1].strip()
    for template, kernel, *_ in _kernels(text):
        if kernel == wanted:
            return _template_arguments(template, expression)
    return {}


def is_in_kernel(text: str, place: int, expression: str | None) -> bool:
    """Return whether position `place` is in the kernel whose instantiation is `expression`.

    `text` is a source without comments. The result is also False if another function with
    ``__device__`` or ``__global__`` begins between the kernel and `place`.
    """
    return bool(expression) and kernel_around(text, place) == name_of(expression)


def is_in_other_kernel(text: str, place: int, expression: str | None) -> bool:
    """Return whether position `place` is in another kernel than that of `expression`.

    If the text has no kernel with the name in `expression`, the result is False.
    """
    name = name_of(expression)
    around = kernel_around(text, place)
    return around not in ("", name) and any(body[0] == name for body in kernel_bodies(text))


def name_of(expression: str | None) -> str:
    """Return the name of a kernel without namespaces and template arguments."""
    return (expression or "").partition("<")[0].split("::")[-1].strip()


def kernel_around(text: str, place: int) -> str:
    """Return the name of the kernel whose body contains position `place`, or "" if there is none.

    The result is also "" if another function with ``__device__`` begins between the kernel and
    `place`.
    """
    for name, start, end in kernel_bodies(text):
        if start < place < end:
            return "" if "__device__" in text[start:place] else name
    return ""


@lru_cache(maxsize=8)
def kernel_bodies(text: str) -> tuple[tuple[str, int, int], ...]:
    """Return the name of each kernel in a text, and where its body starts and ends."""
    bodies = []
    for _, name, parameters, mark in _kernels(text):
        after = text.find(parameters, mark) + len(parameters)
        opened = re.compile(r"[^;{}]*\{").match(text, after)
        if opened is None:  # a declaration without a body
            continue
        depth, end = 1, len(text)
        for brace in re.compile(r"[{}]").finditer(text, opened.end()):
            depth += 1 if brace[0] == "{" else -1
            if depth == 0:
                end = brace.end()
                break
        bodies.append((name, opened.end(), end))
    return tuple(bodies)


def _kernels(text: str) -> list[tuple[str, str, str, int]]:
    """Return a tuple for each __global__ function in a text.

    It has the text of the template parameters, the name, the text of the parameters, and the
    position of the word __global__.
    """
    kernels = []
    for match in re.finditer(r"\b__global__\b", text):
        before = _TEMPLATE.search(text[max(0, match.start() - 500) : match.start()])
        place, name = match.end(), ""
        while token := re.compile(r"\s*(\w+|.)", re.DOTALL).match(text, place):
            place = token.end()
            word = token[1]
            if word == "(":
                end = closing(text, place)
                if end < 0:  # in code that #if leaves out, parentheses may be unbalanced
                    break
                if name in _WITH_ARGUMENTS:
                    place = end
                    continue
                template = before[1] if before else ""
                kernels.append((template, name, text[place : end - 1], match.start()))
                break
            if word in "{};":
                break
            name = word
    return kernels


def closing(text: str, place: int) -> int:
    """Return the position after the closing parenthesis, or -1 if there is none.

    The opening parenthesis is the character before position `place`: for the text "f(a, b);" and
    place 2, the result is 7.
    """
    depth = 1
    for match in re.compile(r"[()]").finditer(text, place):
        depth += 1 if match[0] == "(" else -1
        if depth == 0:
            return match.end()
    return -1


def split(text: str) -> list[str]:
    """Split a list of parameters or arguments at its commas, but not at commas inside brackets.

    For the text "void", the result is an empty list.
    """
    parts, depth, start = [], 0, 0
    for i, char in enumerate(text):
        if char in "([{<":
            depth += 1
        elif char in ")]}>":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip() not in ("", "void")]


def _template_arguments(template: str, expression: str | None) -> dict[str, str]:
    """Return the value of each template parameter in the instantiation `expression`."""
    if not template or not expression or "<" not in expression:
        return {}
    arguments = split(expression[expression.index("<") + 1 : expression.rindex(">")])
    result = {}
    for i, parameter in enumerate(split(template)):
        declared, _, default = parameter.partition("=")
        words = re.findall(r"\w+", declared)
        value = arguments[i] if i < len(arguments) else default.strip()
        if words and value:
            result[words[-1]] = value
    return result


def _parameter(text: str, known: Mapping[str, str]) -> Declared:
    text = text.partition("=")[0].strip()
    name_match = re.search(r"(\w+)\s*(?:\[[^\]]*\]\s*)*$", text)
    name = name_match[1] if name_match else ""
    type_text = text[: name_match.start(1)] if name_match else text
    arrays = text[name_match.end(1) :].count("[") if name_match else 0
    type_text = replaced(type_text, known)
    if not re.search(r"\w", re.sub(r"\bconst\b", "", type_text)):
        type_text, name = replaced(text, known), ""  # the parameter has no name
    if "#" in text or UNKNOWN in type_text or "&" in type_text or "(" in type_text:
        reference = type_text.rstrip().endswith("&") and "#" not in text and name != ""
        return Declared(name if "#" not in text else "", "", certain=False, reference=reference)
    restrict = re.search(r"\b(?:__)?restrict(?:__)?\b", text) is not None
    head, *stars = type_text.split("*")
    pointers = len(stars) + arrays
    words = [w for w in re.findall(r"\w+|[<>:,]", head) if w not in NOT_TYPES]
    const = "const" in words
    words = [w for w in words if w != "const"]
    certain = all(is_settled(word, known) for word in words)
    base = normalized(words)
    if pointers > 1:
        base, const = f"{base} *", False
    return Declared(name, base, pointers > 0, const and pointers > 0, certain, restrict)


_KEYWORDS = {"void", "unsigned", "signed", "wchar_t", "char16_t", "char32_t", "__int128", "auto"}


def is_settled(word: str, known: Mapping[str, str]) -> bool:
    """Return whether it is certain which type a word means.

    This is certain for a type of C++ or CUDA, such as "float", and for a class of the source.
    `known` is a dict from each name that the source defines to its definition. The definition of a
    class is the class's name. Names of macros and typedefs must be replaced before this call (see
    `replaced`).
    """
    if not re.match(r"[A-Za-z_]", word):
        return True
    if word in known:
        return known[word] == word  # a class means itself; a typedef may mean another type
    return word in _KEYWORDS or element_types.is_known(word)


def replaced(text: str, known: Mapping[str, str]) -> str:
    """Replace the names of macros and types in a text by their definitions, and return the text.

    `known` is a dict from each name to its definition.
    """
    for _ in range(8):
        after = re.sub(r"\b[A-Za-z_]\w*\b", lambda m: known.get(m[0], m[0]), text)
        if after == text or len(after) > 1000:
            break
        text = after
    return text


def normalized(words: Sequence[str]) -> str:
    """Return the usual spelling of a type: "unsigned long" for ``["long", "unsigned", "int"]``."""
    arithmetic = {"unsigned", "signed", "long", "short", "int", "char"}
    if not words or not set(words) <= arithmetic:
        return "".join(words)
    sign = "unsigned " if "unsigned" in words else ""
    if "char" in words:
        return "signed char" if "signed" in words else sign + "char"
    if "short" in words:
        return sign + "short"
    return sign + (" ".join(["long"] * words.count("long")) or "int")
