"""Reads the parameters of a kernel from its CUDA C++ declaration.

This module is not a C++ parser, but it can read the declarations that kernels usually have. It
replaces a name by its definition if the meaning of the name is certain (definitions.py). In a
template, it replaces the template parameters by the arguments of the instantiation. If a
declaration cannot be read, the result is None. If a kernel has several declarations, the parameters
that differ between them have no type.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

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

    @property
    def spelled(self) -> str:
        """The type as messages show it."""
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
    """Return the `count` parameters of kernel `name`, or None if the source does not show them."""
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
    """Whether two spellings mean the same type: "size_t" and "unsigned long"."""
    if (a.pointer, a.const) != (b.pointer, b.const):
        return False
    (dtypes, size), (others, other_size) = map(element_types.element_types, (a.type, b.type))
    return a.type == b.type or (size == other_size and not set(dtypes).isdisjoint(others))


def _shared(a: Declared, b: Declared) -> Declared:
    if a == b:
        return a
    return Declared(a.name if a.name == b.name else "", "", certain=False)


def as_compiled(text: str) -> Declared:
    """Read a type that the compiler wrote, such as "float const*". The result has no name."""
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
    """Return the lines as the compiler counts them. Unlike in Python, a form feed ends no line."""
    return [line.removesuffix("\r") for line in source.removesuffix("\n").split("\n")]


def bare(source: str) -> str:
    """Return the source without comments and string literals, with continued lines joined.

    Lines keep their numbers: a line that is a comment or was joined to another becomes empty.
    """
    text = _COMMENT_OR_TEXT.sub(
        lambda m: '""' if m[0][0] in "\"'" else " " + "\n" * m[0].count("\n"), source
    )
    return _CONTINUED.sub(lambda m: m[0].replace("\\\n", " ") + "\n" * m[0].count("\\\n"), text)


def instantiated(text: str, expression: str | None) -> dict[str, str]:
    """Return the values of template parameters for the instantiation `expression` of a kernel."""
    if not expression or "<" not in expression:
        return {}
    wanted = expression.partition("<")[0].split("::")[-1].strip()
    for template, kernel, *_ in _kernels(text):
        if kernel == wanted:
            return _template_arguments(template, expression)
    return {}


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
    """Return the position after the ")" that closes the "(" just before `place`, or -1."""
    depth = 1
    for match in re.compile(r"[()]").finditer(text, place):
        depth += 1 if match[0] == "(" else -1
        if depth == 0:
            return match.end()
    return -1


def split(text: str) -> list[str]:
    """Split at commas that are outside all brackets."""
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
    given = split(expression[expression.index("<") + 1 : expression.rindex(">")])
    result = {}
    for i, parameter in enumerate(split(template)):
        declared, _, default = parameter.partition("=")
        words = re.findall(r"\w+", declared)
        value = given[i] if i < len(given) else default.strip()
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
        return Declared(name if "#" not in text else "", "", certain=False)
    head, *stars = type_text.split("*")
    pointers = len(stars) + arrays
    words = [w for w in re.findall(r"\w+|[<>:,]", head) if w not in NOT_TYPES]
    const = "const" in words
    words = [w for w in words if w != "const"]
    certain = all(is_settled(word, known) for word in words)
    base = normalized(words)
    if pointers > 1:
        base, const = f"{base} *", False
    return Declared(name, base, pointers > 0, const and pointers > 0, certain)


_KEYWORDS = {"void", "unsigned", "signed", "wchar_t", "char16_t", "char32_t", "__int128", "auto"}


def is_settled(word: str, known: Mapping[str, str]) -> bool:
    """Whether the meaning of a word in a type is certain.

    Call `replaced` first, which replaces names in the type by their definitions.
    """
    if not re.match(r"[A-Za-z_]", word):
        return True
    if word in known:
        return known[word] == word  # a class means itself; a typedef may mean another type
    return word in _KEYWORDS or element_types.is_known(word)


def replaced(text: str, known: Mapping[str, str]) -> str:
    """Replace macros and type names with their definitions."""
    for _ in range(8):
        after = re.sub(r"\b[A-Za-z_]\w*\b", lambda m: known.get(m[0], m[0]), text)
        if after == text or len(after) > 1000:
            break
        text = after
    return text


def normalized(words: Sequence[str]) -> str:
    """Return the usual spelling of a built-in type: "unsigned long" for "long unsigned"."""
    arithmetic = {"unsigned", "signed", "long", "short", "int", "char"}
    if not words or not set(words) <= arithmetic:
        return "".join(words)
    sign = "unsigned " if "unsigned" in words else ""
    if "char" in words:
        return "signed char" if "signed" in words else sign + "char"
    if "short" in words:
        return sign + "short"
    return sign + (" ".join(["long"] * words.count("long")) or "int")
