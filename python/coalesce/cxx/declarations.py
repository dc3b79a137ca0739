"""Reads the parameters of a kernel off its CUDA C++ declaration.

Not a C++ parser: it knows declarations as kernels have them, follows simple macros (also those of
-D options), `using` and `typedef`, and fills in the arguments of a template's instantiation. Where
a declaration is beyond it, or two of the same name disagree, it says that it does not know.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Declared:
    """A parameter as the source declares it."""

    name: str  # "" where it has none
    type: str  # without const and pointers: "unsigned int"; "" where it is not understood
    pointer: bool = False
    const: bool = False  # what it points to is const

    @property
    def spelled(self) -> str:
        """The type as a message shows it."""
        if not self.type:
            return ""
        return ("const " if self.const else "") + self.type + (" *" if self.pointer else "")


_COMMENT_OR_TEXT = re.compile(
    r'//[^\n]*|/\*.*?(?:\*/|\Z)|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL
)
_CONTINUED = re.compile(r"^(?:[^\n]*\\\n)+[^\n]*", re.MULTILINE)
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+([^\n(][^\n]*)$", re.MULTILINE)
_USING = re.compile(r"\busing\s+(\w+)\s*=\s*([^;{}]{1,400});")
_TYPEDEF = re.compile(r"\btypedef\s+([\w\s:<>,]{1,200}?)\s*\b(\w+)\s*;")
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
    """Return the `count` parameters of kernel `name`; None where the source does not tell."""
    text = bare(source)
    known = replacements(text, options)
    found: list[list[Declared]] = []
    for template, kernel, inside in _kernels(text):
        if kernel != name:
            continue
        arguments = _template_arguments(template, expression)
        parts = split(inside)
        declared = [_parameter(part, {**known, **arguments}) for part in parts]
        if len(declared) == count and declared not in found:
            found.append(declared)
    if not found:
        return None
    first = found[0]
    for other in found[1:]:
        # Two versions, chosen by a condition of the preprocessor: keep what they share.
        first = [a if a == b else replace(a, type="") for a, b in zip(first, other, strict=True)]
    return first


def lines_of(source: str) -> list[str]:
    """Return the lines that the compiler counts: a form feed or a line separator ends none."""
    return [line.removesuffix("\r") for line in source.removesuffix("\n").split("\n")]


def bare(source: str) -> str:
    """Return the source without comments and texts, its continued lines joined.

    Lines keep their numbers: those of a comment, or joined to another, are left empty.
    """
    text = _COMMENT_OR_TEXT.sub(
        lambda m: '""' if m[0][0] in "\"'" else " " + "\n" * m[0].count("\n"), source
    )
    return _CONTINUED.sub(lambda m: m[0].replace("\\\n", " ") + "\n" * m[0].count("\\\n"), text)


def replacements(text: str, options: Sequence[str]) -> dict[str, str]:
    """Return what macros and type names stand for; -D options come before #define."""
    result: dict[str, str] = {}
    words = iter(options)
    for option in words:
        if not option.startswith(("-D", "--define-macro")):
            continue
        body = re.sub(r"^(-D|--define-macro)[= ]?", "", option) or next(words, "")
        macro, _, value = body.partition("=")
        result[macro.strip()] = value.strip()
    for match in _DEFINE.finditer(text):
        result.setdefault(match[1], match[2].strip())
    for match in _USING.finditer(text):
        result.setdefault(match[1], match[2].strip())
    for match in _TYPEDEF.finditer(text):
        result.setdefault(match[2], match[1].strip())
    return result


def instantiated(text: str, expression: str | None) -> dict[str, str]:
    """Return what template parameters stand for in the kernel instantiated as `expression`."""
    if not expression or "<" not in expression:
        return {}
    wanted = expression.partition("<")[0].split("::")[-1].strip()
    for template, kernel, _ in _kernels(text):
        if kernel == wanted:
            return _template_arguments(template, expression)
    return {}


def _kernels(text: str) -> list[tuple[str, str, str]]:
    """Return (template parameters, name, text between the parentheses) of every __global__."""
    kernels = []
    for match in re.finditer(r"\b__global__\b", text):
        before = _TEMPLATE.search(text[max(0, match.start() - 500) : match.start()])
        place, name = match.end(), ""
        while token := re.compile(r"\s*(\w+|.)", re.DOTALL).match(text, place):
            place = token.end()
            word = token[1]
            if word == "(":
                end = _closing(text, place)
                if name in _WITH_ARGUMENTS:
                    place = end + 1
                    continue
                if end > 0:
                    kernels.append((before[1] if before else "", name, text[place:end]))
                break
            if word in "{};":
                break
            name = word
    return kernels


def _closing(text: str, place: int) -> int:
    """Return where the parenthesis opened before `place` closes, or -1."""
    depth = 1
    for match in re.compile(r"[()]").finditer(text, place):
        depth += 1 if match[0] == "(" else -1
        if depth == 0:
            return match.start()
    return -1


def split(text: str) -> list[str]:
    """Split at the commas outside every bracket."""
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
    """Return what each template parameter stands for in the instantiation `expression`."""
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
        type_text, name = replaced(text, known), ""  # a type without a name
    if "&" in type_text or "(" in type_text:
        return Declared(name, "")
    head, *stars = type_text.split("*")
    pointers = len(stars) + arrays
    words = [w for w in re.findall(r"\w+|[<>:,]", head) if w not in NOT_TYPES]
    const = "const" in words
    base = normalized([w for w in words if w != "const"])
    if pointers > 1:
        base, const = f"{base} *", False
    return Declared(name, base, pointers > 0, const and pointers > 0)


def replaced(text: str, known: Mapping[str, str]) -> str:
    """Put what macros and type names stand for in their places."""
    for _ in range(8):
        after = re.sub(r"\b[A-Za-z_]\w*\b", lambda m: known.get(m[0], m[0]), text)
        if after == text or len(after) > 1000:
            break
        text = after
    return text


def normalized(words: Sequence[str]) -> str:
    """Return one spelling of each built-in type: "long unsigned" is "unsigned long"."""
    arithmetic = {"unsigned", "signed", "long", "short", "int", "char"}
    if not words or not set(words) <= arithmetic:
        return "".join(words)
    sign = "unsigned " if "unsigned" in words else ""
    if "char" in words:
        return "signed char" if "signed" in words else sign + "char"
    if "short" in words:
        return sign + "short"
    return sign + (" ".join(["long"] * words.count("long")) or "int")
