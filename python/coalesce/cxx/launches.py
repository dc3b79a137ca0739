"""Finds the instantiations of kernel templates that a program's host code launches.

The launch ``scale<float, N><<<grid, block>>>(x)`` runs an instantiation of the template `scale`.
This module must find the value of N to know the instantiation:

- If N is a constant, the value is in its definition.
- If N is a template parameter of the function around the launch, the value is in the calls of this
  function.
- If the launch has no template arguments, as ``scale<<<grid, block>>>(x)``, the types of the
  kernel's arguments determine the template arguments.

If the value cannot be found, the result does not contain the instantiation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from coalesce.cxx.macros import WORD

_MOST = 64
_LITERALS = (
    (r"\d+[uU]?", "int"),
    (r"[\d.]+(?:[eE][-+]?\d+)?[fF]", "float"),
    (r"[\d.]+(?:[eE][-+]?\d+)?", "double"),
    (r"true|false", "bool"),
)
_NOT_OF_A_TYPE = re.compile(
    r"\b(?:const|volatile|__restrict__|__restrict|restrict|static|struct)\b"
)

# A macro of PyTorch that calls a lambda with the element type `scalar_t` of a tensor.
_DISPATCH = re.compile(r"AT_DISPATCH_\w*FLOATING\w*\s*\(")

Values = Mapping[str, str]


@dataclass
class _Template:
    """A function template: its parameters and where the program uses it."""

    name: str  # the name with its namespaces
    # The name and the default ("" for no default) of each parameter.
    parameters: list[tuple[str, str]]
    arguments: list[tuple[str, str]]  # the type and the name of each argument of the function
    is_kernel: bool
    uses: list[tuple[_Tree, Any]] = field(default_factory=list)


class _Tree:
    """A file's syntax tree and its text."""

    def __init__(self, root: Any, text: str) -> None:
        self.root = root
        self._text = text

    def text(self, node: Any) -> str:
        return self._text[node.start_byte : node.end_byte]

    def walk(self) -> Iterator[Any]:
        waiting = [self.root]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += reversed(node.named_children)


def kernels(trees: Sequence[tuple[Any, str]]) -> list[str]:
    """Return the names of a program's kernels. The name of a kernel template ends in ``<>``.

    `trees` has a (syntax tree, text) pair for each file.
    """
    names: dict[str, None] = {}
    for tree in (_Tree(*pair) for pair in trees):
        for node in tree.walk():
            if node.type == "function_definition" and "__global__" in _head(tree, node):
                is_template = node.parent.type == "template_declaration"
                name = _name(tree, node)
                if name and "<" not in name:
                    names[name + "<>" * is_template] = None
    return list(names)


def instantiations(trees: Sequence[tuple[Any, str]], known: set[str]) -> list[str]:
    """Return the kernel instantiations that host code launches, such as ``["scale<float, 4>"]``.

    `trees` has a (syntax tree, text) pair for each file. `known` are the names of types, constants
    and macros that device code may use.
    """
    readable = [_Tree(*pair) for pair in trees]
    templates: dict[str, _Template] = {}
    for tree in readable:
        for node in tree.walk():
            if node.type == "template_declaration":
                _add_template(tree, node, templates)
    if not any(template.is_kernel for template in templates.values()):
        return []
    for tree in readable:
        for node in tree.walk():
            if node.type in ("template_function", "call_expression"):
                named = node if node.type == "template_function" else node.children[0]
                own = named.type in ("template_function", "identifier")
                name = WORD.match(tree.text(named)) if own else None
                template = templates.get(name[0]) if name is not None else None
                # For scale<float>(x), the node of scale<float> is recorded, not that of the call.
                inside = node.type == "call_expression" and named.type == "template_function"
                if template is not None and not inside:
                    template.uses.append((tree, node))
    expressions: dict[str, None] = {}
    for template in templates.values():
        if template.is_kernel:
            for values in _bindings(template, templates, known, ()):
                arguments = [values[name] for name, _ in template.parameters]
                expressions[f"{template.name}<{', '.join(arguments)}>"] = None
    return list(expressions)[:_MOST]


def _head(tree: _Tree, node: Any) -> str:
    body = node.child_by_field_name("body")
    text = tree.text(node)
    return text[: body.start_byte - node.start_byte] if body is not None else text


def _declarator(node: Any) -> Any:
    """Return the name and parameters of a function definition (its declarator).

    For any other node of the syntax tree, return None.
    """
    declarator = node.child_by_field_name("declarator")
    while declarator is not None and declarator.type != "function_declarator":
        declarator = declarator.child_by_field_name("declarator")
    return declarator


def _name(tree: _Tree, node: Any) -> str:
    """Return a function's name with its namespaces."""
    declarator = _declarator(node)
    if declarator is None:
        return ""
    parts = [tree.text(declarator.child_by_field_name("declarator"))]
    around = node.parent
    while around is not None:
        if around.type == "namespace_definition" and (name := around.child_by_field_name("name")):
            parts.insert(0, tree.text(name))
        around = around.parent
    return "::".join(parts)


def _add_template(tree: _Tree, node: Any, templates: dict[str, _Template]) -> None:
    function = node.named_children[-1]
    declarator = _declarator(function) if function.type == "function_definition" else None
    if declarator is None:
        return
    parameters = []
    for parameter in node.child_by_field_name("parameters").named_children:
        text, _, default = tree.text(parameter).partition("=")
        words = WORD.findall(text)
        if not words or "..." in text:
            return
        parameters.append((words[-1], default.strip()))
    arguments = []
    for parameter in declarator.child_by_field_name("parameters").named_children:
        text = tree.text(parameter).partition("=")[0]
        match = re.fullmatch(r"(.*?)(\w+)\s*((?:\[.*\])?)", text.strip(), re.DOTALL)
        arguments.append((match[1] + "*" * bool(match[3]), match[2]) if match else ("", ""))
    name = _name(tree, function)
    is_kernel = "__global__" in _head(tree, function)
    if parameters and (is_kernel or "__device__" not in _head(tree, function)):
        templates[name.split("::")[-1]] = _Template(name, parameters, arguments, is_kernel)


def _bindings(
    template: _Template, templates: Mapping[str, _Template], known: set[str], above: tuple[str, ...]
) -> Iterator[dict[str, str]]:
    """For each use of a template, yield the values of the template's parameters."""
    if len(above) > 4 or template.name in above:
        return
    seen = set()
    for tree, node in template.uses:
        scope = _Scope(tree, node)
        around = templates.get(scope.template) if scope.template else None
        outer: Iterator[dict[str, str]] = iter([{}])
        if scope.template:
            if around is None:
                continue
            outer = _bindings(around, templates, known, (*above, template.name))
        for values in outer:
            bindings = _bound(template, tree, node, scope, values, known)
            if bindings is not None and tuple(bindings.values()) not in seen:
                seen.add(tuple(bindings.values()))
                yield bindings
                if len(seen) >= _MOST:
                    return


def _bound(
    template: _Template, tree: _Tree, node: Any, scope: _Scope, values: Values, known: set[str]
) -> dict[str, str] | None:
    arguments: list[str] = []
    call = node
    if node.type == "template_function":
        listed = node.child_by_field_name("arguments")
        arguments = [tree.text(argument) for argument in listed.named_children]
        call = node.parent if node.parent.type == "call_expression" else None
    passed: list[str] = []
    if call is not None:
        passed = [tree.text(a) for a in call.child_by_field_name("arguments").named_children]
    bindings: dict[str, str] = {}
    for i, (name, default) in enumerate(template.parameters):
        if i < len(arguments):
            value = scope.settled(arguments[i], values)
        else:
            value = _deduced(name, template, passed, scope, values)
            if not value and default:
                value = scope.settled(default, {**values, **bindings})
        # The compiler knows the names that CUDA's headers define. It does not know variables of the
        # host.
        if not value or set(WORD.findall(value)) & scope.variables - known:
            return None
        bindings[name] = value
    return bindings


def _deduced(
    name: str, template: _Template, passed: Sequence[str], scope: _Scope, values: Values
) -> str:
    """Return the type of a template parameter, deduced from the arguments of a call."""
    for (declared, _), argument in zip(template.arguments, passed, strict=False):
        plain = _NOT_OF_A_TYPE.sub("", declared).replace("&", "").split()
        shape = "".join(plain)
        if shape.rstrip("*") != name:
            continue
        own = _plain_type(scope.settled(scope.type_of(argument), values))
        stars = shape.count("*")
        if own and own.count("*") >= stars:
            return own[: len(own) - stars].strip() if stars else own
    return ""


def _plain_type(text: str) -> str:
    return " ".join(_NOT_OF_A_TYPE.sub("", text).replace("&", "").split()).replace(" *", "*")


class _Scope:
    """The constants, types and template parameters that are visible at a place in host code."""

    def __init__(self, tree: _Tree, node: Any) -> None:
        self.template = ""  # the name of the function template around the launch
        self._constants: dict[str, str] = {}
        self._types: dict[str, str] = {}
        self._parameters: set[str] = set()  # the names of the template's parameters
        place, around = node.start_byte, node.parent
        while around is not None:
            if around.type in ("compound_statement", "translation_unit", "declaration_list"):
                for child in around.children:
                    if child.start_byte < place or around.type != "compound_statement":
                        self._declare(tree, child, around.type == "compound_statement")
            elif around.type == "call_expression" and _DISPATCH.match(tree.text(around)):
                self._add_constant("scalar_t", "float")  # one of the types that it can stand for
            elif around.type == "function_definition":
                declarator = _declarator(around)
                if declarator is not None:
                    for parameter in declarator.child_by_field_name("parameters").named_children:
                        self._declare(tree, parameter, True)
                    if around.parent.type == "template_declaration":
                        self.template = _name(tree, around).split("::")[-1]
                        listed = around.parent.child_by_field_name("parameters")
                        for parameter in listed.named_children:
                            self._parameters |= set(WORD.findall(tree.text(parameter))[-1:])
            around = around.parent

    @property
    def variables(self) -> set[str]:
        """The variables that are not constants, and the enclosing template's parameters."""
        return (set(self._types) | self._parameters) - set(self._constants)

    def settled(self, text: str, values: Values) -> str:
        """Replace constants and template parameters with their values."""
        for _ in range(8):
            after = WORD.sub(lambda m: values.get(m[0], self._constants.get(m[0], m[0])), text)
            if after == text or len(after) > 500:
                break
            text = after
        return text

    def type_of(self, argument: str) -> str:
        """Return the type of a simple expression, or "" if it is not simple."""
        text = argument.strip()
        if cast := re.match(r"\(\s*([\w\s:]+\*+)\s*\)", text):
            return cast[1]
        if text.startswith("&") and (own := self._types.get(text[1:].strip())):
            return own + "*"
        for pattern, own in _LITERALS:
            if re.fullmatch(pattern, text):
                return own
        if member := re.match(r"(\w+)\s*(?:\[[^\]]*\]|\+.*|\.get\(\))?\Z", text):
            own = self._types.get(member[1], "")
            return own[:-1] if "[" in text and own.endswith("*") else own
        return ""

    def _declare(self, tree: _Tree, node: Any, inside: bool) -> None:
        if node.type in ("alias_declaration", "type_definition") and inside:
            own = node.child_by_field_name("type")
            name = node.child_by_field_name("name") or node.child_by_field_name("declarator")
            if own is not None and name is not None:
                self._constants.setdefault(tree.text(name), tree.text(own))
            return
        if node.type not in ("declaration", "parameter_declaration"):
            return
        own = node.child_by_field_name("type")
        if own is None:
            return
        text = tree.text(node)
        constant = re.match(r"(?:static\s+)?(?:const|constexpr)\b", text) is not None
        for declarator in node.children_by_field_name("declarator"):
            written, _, value = tree.text(declarator).partition("=")
            of_object = declarator.type in ("init_declarator", "function_declarator")
            if inside and of_object and not value:  # an object: type name(arguments)
                written = written.partition("(")[0]
            if value.startswith("=") or "(" in written:
                continue
            names = WORD.findall(written.partition("[")[0])
            if not names:
                continue
            stars = written.count("*") + written.count("[")
            self._types.setdefault(names[-1], tree.text(own) + "*" * stars)
            if inside and constant and not stars and 0 < len(value.strip()) < 100:
                self._add_constant(names[-1], value)

    def _add_constant(self, name: str, value: str) -> None:
        value = value.strip()
        simple = re.fullmatch(r"\w+", value) is not None
        self._constants.setdefault(name, value if simple else f"({value})")
