"""Finds the local variables of a source, and changes the source so that they stay in memory.

Even a build with ``-G`` keeps most variables in registers, and leaves out assignments whose value
is not used. Then nothing says that the variable has changed. A variable whose address is used stays
in local memory, with every assignment. So an empty piece of inline assembly gets the address::

    int x = a[i];   becomes   int x = a[i]; asm volatile("" :: "l"(address of x) : "memory");

Variables of loops and parameters get it at the start of the body. The lines keep their numbers.
Pointers and references are left out: the stepper does not show them, and in registers they show
which array an access belongs to.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from coalesce.cxx.file_layout import layout_of, parse

_DECLARATORS = ("init_declarator", "array_declarator", "parenthesized_declarator")
_OTHER_MEMORY = {"static", "extern", "typedef", "__shared__", "__constant__", "__device__"}
_PARAMETERS = ("parameter_declaration", "optional_parameter_declaration")
_BLOCKS = ("compound_statement", "case_statement")


def with_addresses(source: str) -> str:
    """Return the source with the address of each local variable in inline assembly."""
    added: list[tuple[int, str]] = []
    for names, node, body in _declarations(source):
        text = "".join(
            f' asm volatile("" :: "l"(__builtin_addressof({name.text.decode()})) : "memory");'
            for name in names
        )
        if body is None:
            added.append((node.end_byte, text))
        elif body.type == "compound_statement":
            added.append((body.start_byte + 1, text))
        elif body.type.endswith("_statement"):
            added += [(body.start_byte, "{" + text), (body.end_byte, "}")]
    for place, text in sorted(added, key=lambda item: item[0], reverse=True):
        source = source[:place] + text + source[place:]
    return source


@dataclass(frozen=True)
class Scope:
    """The lines on which a local variable can be named."""

    first: int  # of the lines that are in the scope as a whole
    whole: int  # the last of these lines
    end: int  # the last line of the scope. On it, the scope may end before other statements.


def scopes(source: str) -> dict[tuple[str, int], Scope]:
    """Return the scope of each local variable.

    A key is the name of a variable and the line of its name in the declaration. If a line declares
    two variables of the same name, they are left out.
    """
    found: dict[tuple[str, int], Scope | None] = {}
    lines = source.split("\n")
    for names, node, body in _declarations(source):
        scope = node
        while body is None and scope.type != "compound_statement":
            scope = scope.parent
        first = node.end_point[0] + 2  # after the declaration
        if body is not None:
            first = body.start_point[0] + (2 if body.type == "compound_statement" else 1)
        row, column = scope.end_point
        whole = not scope.text.endswith(b"}") and not lines[row][column:].strip()
        for name in names:
            key = name.text.decode(), name.start_point[0] + 1
            scope_of = Scope(max(first, key[1] + 1), row + whole, row + 1)
            found[key] = None if key in found else scope_of
    return {key: scope for key, scope in found.items() if scope is not None}


def _declarations(source: str) -> Iterator[tuple[list[Any], Any, Any]]:
    """Yield the names, the node and the body of each declaration of local variables.

    The node is a declaration, a loop, a condition or a function. A declaration has no body.
    """
    layout = layout_of(source)
    waiting = [parse(layout, {}, ())]  # macros are not expanded
    while waiting:
        node = waiting.pop()
        body = node.child_by_field_name("body") or node.child_by_field_name("consequence")
        if node.type == "function_definition" and body is not None:
            head = layout.code.text[node.start_byte : body.start_byte].split()
            if "constexpr" in head or "consteval" in head:  # no inline assembly before C++20
                continue
        waiting += node.children
        if node.type == "declaration" and node.parent.type in _BLOCKS:
            yield list(_names(node)), node, None
        elif body is not None and (names := list(_names_for_body(node))):
            yield names, node, body


def _names_for_body(node: Any) -> Iterator[Any]:
    """Yield the variables that are declared before a body: parameters, and those of a loop."""
    declarator = node.child_by_field_name("declarator")
    if node.type == "for_range_loop":
        yield from _name(declarator)
    elif node.type in ("function_definition", "lambda_expression"):
        while declarator is not None and not declarator.child_by_field_name("parameters"):
            declarator = declarator.named_children[-1] if declarator.named_children else None
        parameters = declarator and declarator.child_by_field_name("parameters")
        for child in parameters.children if parameters else []:
            if child.type in _PARAMETERS:
                yield from _name(child.child_by_field_name("declarator"))
    else:
        waiting = [node.child_by_field_name(field) for field in ("initializer", "condition")]
        while waiting:
            child = waiting.pop()
            if child is not None and child.type == "declaration":
                yield from _names(child)
            elif child is not None and child.type in ("condition_clause", "init_statement"):
                waiting += child.children


def _names(declaration: Any) -> Iterator[Any]:
    """Yield the variables of a declaration, if they are local."""
    words = {child.text.decode() for child in declaration.children}
    if not words & _OTHER_MEMORY:
        for declarator in declaration.children_by_field_name("declarator"):
            yield from _name(declarator)


def _name(declarator: Any) -> Iterator[Any]:
    """Yield the name in a declarator, such as ``x = 1`` or ``x[3]``, but not that of a pointer."""
    if declarator is not None and declarator.type == "identifier":
        yield declarator
    elif declarator is not None and declarator.type in _DECLARATORS:
        yield from _name(
            declarator.child_by_field_name("declarator") or declarator.named_children[0]
        )
