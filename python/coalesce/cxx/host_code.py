"""Removes the host code of a CUDA C++ file. Every remaining line keeps its number.

NVIDIA's compiler nvcc compiles a file for the host and for the device. NVRTC, the compiler library
that this package uses, compiles only device code. It rejects main(), headers of the host, launches
and variables of the host. Therefore this module keeps only two kinds of code:

- functions, variables and macros with a device mark, such as ``__device__``
- types, constants and names that this code uses, directly or indirectly
"""

from __future__ import annotations

import bisect
import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from coalesce.cxx import launches
from coalesce.cxx.declarations import name_of
from coalesce.cxx.file_layout import (
    Directive,
    Layout,
    device_words,
    errors_of_systems,
    layout_of,
    parse,
    with_macros,
    without_directives,
    words_of_macros,
)
from coalesce.cxx.macros import WORD, Macro, to_expand

# A header's text; True if the compiler finds the header itself; None if there is no such header.
Find = Callable[[str], str | bool | None]

_SCOPES = {"namespace_definition", "linkage_specification", "declaration_list"}
_CLASSES = {"struct_specifier", "class_specifier", "union_specifier"}
_TYPES = _CLASSES | {"enum_specifier", "type_definition", "alias_declaration"}
_TYPES |= {"concept_definition", "namespace_alias_definition"}
# Namespaces that headers for the device define.
_NAMESPACES = {"std", "cuda", "cub", "nvcuda", "cooperative_groups", "nv", "literals"}
_EVALUATED = {"constexpr", "consteval"}
# The sizes in bytes of classes that only host code can use, in GCC's library for 64-bit systems.
_SIZES = {
    **dict.fromkeys(("map", "multimap", "set", "multiset"), 48),
    **dict.fromkeys(("unordered_map", "unordered_set"), 56),
    **dict.fromkeys(("deque", "queue", "stack"), 80),
    **dict.fromkeys(("chrono::time_point", "chrono::duration<double>"), 8),
    "chrono::steady_clock::time_point": 8,
    "chrono::system_clock::time_point": 8,
    "chrono::high_resolution_clock::time_point": 8,
    "vector<bool>": 40,
    "vector": 24,
    "string": 32,
    "list": 24,
    "function": 32,
    "shared_ptr": 16,
    "weak_ptr": 16,
    "unique_ptr": 8,
    "thread": 8,
    "mutex": 40,
    "ifstream": 520,
    "ofstream": 512,
    "mt19937": 5000,
}
_OF_HOST = re.compile(rf"(?:::)?std::({'|'.join(_SIZES)})(?:<.*>)?")
_ONCE = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+once\b", re.MULTILINE)
_INCLUDE = re.compile(r"\s*(?:<([^>\n]+)>|\"([^\"\n]+)\")")


@dataclass
class Item:
    """A declaration in a file, outside of all functions and classes."""

    kind: str  # "function", "variable", "type" or "other"
    start: int  # in the text that the parser reads, as all positions except `source`
    end: int
    source: tuple[int, int]  # the start and the end in the file
    names: set[str]
    words: set[str]
    device: bool  # device code, which is always kept
    keepable: bool = True  # kept if device code uses it
    # The ranges of the text inside the item that are left out even if the item is kept.
    cuts: list[tuple[int, int]] = field(default_factory=list)
    stand_ins: dict[int, str] = field(default_factory=dict)  # the texts in place of some cuts
    locals: set[str] = field(default_factory=set)  # the names of a function's local variables
    node: Any = None
    launches: bool = False  # a function that contains <<<
    # The functions with a device mark that it declares without a body: (class or "", name).
    declares: set[tuple[str, str]] = field(default_factory=set)
    unmarked: bool = False  # it has constexpr functions without __device__
    initial: set[str] = field(default_factory=set)  # the words in a variable's initial values
    const_end: int | None = None  # the end of the word const of a floating-point constant


@dataclass
class SourceFile:
    """A file of the program: the source itself, or a header that the user wrote.

    The source itself has the name "".
    """

    name: str
    layout: Layout
    # The lines that are left out, with the name of the header that was not found, or None.
    missing: list[tuple[str | None, Directive]] = field(default_factory=list)
    tree: Any = None
    items: list[Item] = field(default_factory=list)


@dataclass(frozen=True)
class DeviceCode:
    """A CUDA C++ file without its host code.

    Attributes
    ----------
    text : str
        The source without host code. Every line keeps its number.
    headers : dict
        The texts of the user's own headers, without host code. The key of a header is its name in
        the ``#include`` line.
    left_out : tuple of str
        What was left out, with its lines: ``"main() (lines 30-52)"``.
    missing : tuple of str
        The names of headers that were not found.
    host_names : dict
        The host functions and host variables that device code uses by mistake. A kernel
        that uses them does not compile. The dict maps each name to the line number of its
        definition.
    expressions : tuple of str
        The instantiations of kernel templates that the host code launches: ``"scale<float, 4>"``.
    kernels : tuple of str
        The names of the kernels. The name of a kernel template ends in ``<>``.
    has_unmarked : bool
        Whether `text` has constexpr functions without ``__device__``. A kernel can use them only if
        the compiler gets the option ``-default-device``.
    """

    text: str
    headers: dict[str, str]
    left_out: tuple[str, ...]
    missing: tuple[str, ...]
    host_names: dict[str, int]
    expressions: tuple[str, ...]
    kernels: tuple[str, ...]
    has_unmarked: bool
    # What to compile if this does not compile: without the #error lines that may depend on a header
    # that was left out, and then also without the functions that launch kernels. `launching` has
    # the names of these functions.
    instead: tuple[DeviceCode, ...] = ()
    launching: frozenset[str] = frozenset()


def without_host_code(source: str, find: Find, chosen: Sequence[str] = ()) -> DeviceCode:
    """Remove the host code of a source.

    `find` is a function that takes the name of a header. It returns one of these:

    - the text of the header, if the user wrote the header
    - True, if the compiler finds the header without help
    - None, if there is no such header

    `chosen` are the template instantiations that the caller wants to compile, such as
    ``["scale<Particle>"]``. In this example, the source keeps the type ``Particle``, even if no
    device code uses it.
    """
    files = list(_files(source, find))
    definitions: dict[str, list[Macro]] = {}
    for file in files:
        for name, each in file.layout.definitions.items():
            definitions.setdefault(name, []).extend(each)
    macros = words_of_macros(definitions)
    marks = device_words(macros)
    text = "\n".join(without_directives(file.layout) for file in files)
    chosen_macros = to_expand(definitions, marks, text)
    empty = {"__extension__"} | {
        name
        for name, each in definitions.items()
        if all(m.parameters is None and m.body in ("", "__extension__") for m in each)
        and not name.startswith("__")
    }
    of_kernels = with_macros({"__global__"}, macros)
    for file in files:
        file.tree = parse(file.layout, chosen_macros, empty)
        file.items = list(_items(file.tree, file.layout, marks))
        for item in file.items:
            # If the parser takes a kernel for a part of something else, the compiler decides.
            if item.kind != "type" and item.words & of_kernels:
                item.device = item.keepable = True
    items = [item for file in files for item in file.items]
    declared = {key for item in items for key in item.declares}
    for item in items:  # nvcc takes the marks of such a definition from the declaration
        if item.kind == "function" and declared & _keys(
            item.node.child_by_field_name("declarator")
        ):
            item.device = item.keepable = True
    trees = [(file.tree, file.layout.parsed) for file in files]
    reached = _reached(items, macros, set())
    known = {name for item in items if item.keepable for name in item.names} | set(macros)
    expressions = launches.instantiations(trees, known)
    wanted = {word for e in (*expressions, *chosen) for word in WORD.findall(e)}
    reached |= _reached(items, macros, wanted)
    kernels = launches.kernels(trees)
    code = _device_code(files, reached, expressions, kernels)
    instead = []
    errors = errors_of_systems([file.layout for file in files])
    if any(errors):
        for file, lines in zip(files, errors, strict=True):
            file.missing += [(None, line) for line in lines]
        instead.append(_device_code(files, reached, expressions, kernels))
    if left := _launching(items):
        names = frozenset(name for item in left for name in item.names)
        reached -= {id(item) for item in left}
        expressions = [e for e in expressions if name_of(e) not in names]
        kernels = [kernel for kernel in kernels if name_of(kernel) not in names]
        more = _device_code(files, reached, expressions, kernels)
        instead.append(replace(more, launching=names))
    return replace(code, instead=tuple(instead))


def _device_code(
    files: Sequence[SourceFile],
    reached: set[int],
    expressions: Sequence[str],
    kernels: Sequence[str],
) -> DeviceCode:
    items = [item for file in files for item in file.items if id(item) in reached]
    initial = {word for item in items for word in item.initial}
    texts = {file.name: _rendered(file, reached, initial) for file in files}
    left_out = [text for file in files for text in _descriptions(file, reached)]
    return DeviceCode(
        text=texts.pop(""),
        headers=texts,
        left_out=tuple(left_out),
        missing=tuple(name for file in files for name, _ in file.missing if name is not None),
        host_names=_host_names(files[0], reached),
        expressions=tuple(expressions),
        kernels=tuple(kernels),
        has_unmarked=any(item.unmarked for item in items),
    )


def _launching(items: Sequence[Item]) -> list[Item]:
    """Return the device functions that launch kernels, directly or by calling other functions."""
    functions = [item for item in items if item.device and item.kind == "function"]
    found: list[Item] = []
    names: set[str] = set()
    while more := [
        item
        for item in functions
        if item not in found and (item.launches or names & (item.words - item.locals - item.names))
    ]:
        found += more
        names |= {name for item in more for name in item.names}
    return found


def _files(source: str, find: Find) -> Iterator[SourceFile]:
    """Yield the source, and each of the user's own headers that the source includes."""
    seen: set[str] = {""}
    first_name: dict[str, str] = {}  # the name of each text with #pragma once
    waiting = [("", source, "")]
    while waiting:
        name, text, folder = waiting.pop()
        file = SourceFile(name, layout_of(text))
        for directive in file.layout.directives:
            match = _INCLUDE.match(directive.text) if directive.kind == "include" else None
            if match is None:
                continue
            header = match[1] or match[2]
            # The compiler looks first in the folder of the file that has the #include.
            path = posixpath.join(folder, header)
            path_or_text = find(path) if folder and match[2] else None
            if not isinstance(path_or_text, str):
                path, path_or_text = header, find(header)
            if path_or_text is None:
                file.missing.append((header, directive))
            elif isinstance(path_or_text, str) and header not in seen:
                seen.add(header)
                # A header may be included by two names, such as "a/b.h" and "b.h". NVRTC would
                # compile it twice, because for NVRTC, #pragma once depends on the name.
                first = header
                if _ONCE.search(path_or_text):
                    first = first_name.setdefault(path_or_text, header)
                text = path_or_text if first == header else f'#include "{first}"\n'
                waiting.append((header, text, posixpath.dirname(path)))
        yield file


def _items(node: Any, layout: Layout, marks: set[str]) -> Iterator[Item]:
    for child in node.children:
        if child.type == "linkage_specification" and not _is_block(child):
            yield _item(child, child.children[-1], _kind(child.children[-1]), layout, marks)
        elif child.type in _SCOPES:
            yield from _items(child, layout, marks)
        elif child.type == "using_declaration" and child.children[1].type == "namespace":
            yield _item(child, child, "using", layout, marks)
        elif child.is_named and child.type not in (
            *("comment", "string_literal", "namespace_identifier", "nested_namespace_specifier"),
            "identifier",
        ):
            inner = child
            while inner.type == "template_declaration":
                inner = inner.children[-1] if inner.children[-1].is_named else inner.children[-2]
            yield _item(child, inner, _kind(inner), layout, marks)


def _is_block(node: Any) -> bool:
    """Return whether this is an ``extern "C"`` block in braces, not a single declaration."""
    return bool(node.children[-1].type == "declaration_list")


def _kind(node: Any) -> str:
    if node.type in _TYPES:
        return "type"
    if node.type in ("function_definition", "template_instantiation"):
        return "function"
    if node.type == "declaration":
        declarator = node.child_by_field_name("declarator")
        return "function" if _innermost(declarator) == "function_declarator" else "variable"
    return "other"


def _innermost(declarator: Any) -> str:
    """Return the innermost declarator, inside pointers and references."""
    while declarator is not None:
        if declarator.type == "function_declarator":
            inner = declarator.child_by_field_name("declarator")
            return "pointer" if inner.type == "parenthesized_declarator" else declarator.type
        if declarator.type not in ("pointer_declarator", "reference_declarator"):
            break
        declarator = declarator.child_by_field_name("declarator") or declarator.children[-1]
    return ""


def _item(whole: Any, node: Any, kind: str, layout: Layout, marks: set[str]) -> Item:
    text = layout.parsed
    head = _head(node, kind, text, whole.start_byte)
    words = set(WORD.findall(head))
    device = bool(words & marks)
    start, end = whole.start_byte, whole.end_byte
    source = layout.code.source_range(layout.start(start), end)
    item = Item(kind, start, end, source, set(), set(), device, node=node)
    if kind == "using":
        item.names = {"using " + re.sub(r"\s+", "", text[start:end])[14:].strip(";:")}
    elif kind == "function":
        item.names = _declared(node.child_by_field_name("declarator"), text)
        item.keepable = device or bool(words & _EVALUATED) or _is_for_types(node, text)
        item.unmarked = not device
        item.launches = "<<<" in text[start:end]
        if device and node.type == "declaration":
            item.declares = _keys(node.child_by_field_name("declarator"))
    elif kind == "variable":
        item.keepable = device or bool(words & {"const", "constexpr"})
        for declarator in node.children_by_field_name("declarator"):
            item.names |= _declared(declarator, text)
            value = declarator.child_by_field_name("value")
            if value is not None:
                item.initial |= set(WORD.findall(text[value.start_byte : value.end_byte]))
                item.unmarked |= value.type == "lambda_expression" or any(
                    part.type == "lambda_expression" for part in value.named_children
                )
        item.const_end = None if device else _const_end(node, text)
        own = node.child_by_field_name("type")
        if own is not None and own.type in _TYPES and own.child_by_field_name("body"):
            # In "struct A { ... } a", kernels may need the type, but they never need the variable
            # of the host.
            item.names |= _type_names(own, text)
            if not item.keepable:
                item.cuts.append((own.end_byte, end - 1))
                item.keepable = True
    elif kind == "type":
        item.names = _type_names(node, text)
    else:
        item.names = set(WORD.findall(text[start:end])) if node.type != "ERROR" else set()
        # The parser may fail to understand a kernel. So a text that it does not understand is kept
        # if it may be device code. Then the compiler decides whether the text is correct.
        words = set(WORD.findall(text[start:end]))
        item.device = device = node.type == "ERROR" and bool(words & marks)
        item.keepable = device or node.type == "using_declaration"
        if node.type == "using_declaration":
            item.names = set(WORD.findall(text[start:end])[-1:])
    for part in _classes_in(node):
        item.declares.update(_declared_members(part, text, marks))
        for member, is_host in _unmarked_members(part, text, marks):
            item.unmarked |= not is_host
            if is_host:
                item.cuts.append((layout.start(member[0]), member[1]))
        for start_of_cut, end_of_cut, stand_in in _stand_ins(part, text, marks):
            item.cuts.append((start_of_cut, end_of_cut))
            item.stand_ins[start_of_cut] = stand_in
    item.words = set(WORD.findall(_cut(text, start, end, item.cuts)))
    item.locals = _locals(node, text) if kind == "function" else set()
    return item


def _const_end(node: Any, text: str) -> int | None:
    """Return the end of the word const in ``const float x = 1;``, for any type but an integer."""
    own = node.child_by_field_name("type")
    if own is None or own.type not in ("primitive_type", "type_identifier"):
        return None
    if own.type == "primitive_type" and own.text not in (b"float", b"double"):
        return None
    for declarator in node.children_by_field_name("declarator"):
        inner = declarator.child_by_field_name("declarator")
        if declarator.type != "init_declarator" or inner.type != "identifier":
            return None
    for child in node.children:
        if child.type == "type_qualifier" and text[child.start_byte : child.end_byte] == "const":
            return int(child.end_byte)
    return None


def _locals(function: Any, text: str) -> set[str]:
    """Return the names of a function's parameters and variables."""
    names: set[str] = set()
    waiting = [function]
    while waiting:
        node = waiting.pop()
        if node.type in ("parameter_declaration", "declaration"):
            for declarator in node.children_by_field_name("declarator"):
                names |= _declared(declarator, text)
        waiting += node.named_children
    return names


def _head(node: Any, kind: str, text: str, start: int) -> str:
    """Return a declaration without its body or initial value, or "" for other kinds of items."""
    body = node.child_by_field_name("body") if kind == "function" else None
    end = body.start_byte if body is not None else node.end_byte
    if kind == "variable":
        own = node.child_by_field_name("type")
        if own is not None and own.type in _CLASSES:
            return text[start : own.start_byte] + text[own.end_byte : end]
        first = re.search(r"[={]", text[start:end])
        end = start + first.start() if first else end
    return text[start:end] if kind in ("function", "variable") else ""


def _declared(declarator: Any, text: str) -> set[str]:
    """Return the name in a declarator, without its scope."""
    while declarator is not None:
        inner = declarator.child_by_field_name("declarator")
        if declarator.type == "parenthesized_declarator" or (
            inner is None and declarator.type in ("reference_declarator", "init_declarator")
        ):
            inner = declarator.named_children[0] if declarator.named_children else None
        if inner is None:
            name = re.match(r"[^<(\[]*", text[declarator.start_byte : declarator.end_byte])
            return set(WORD.findall(name[0])[-1:]) if name else set()
        declarator = inner
    return set()


def _keys(declarator: Any) -> set[tuple[str, str]]:
    """Return (class or "", name) of the function in a declarator; empty for other declarators."""
    while declarator is not None and declarator.type != "function_declarator":
        declarator = declarator.child_by_field_name("declarator") or (
            declarator.named_children[-1] if declarator.type == "reference_declarator" else None
        )
    if declarator is None:
        return set()
    name = re.sub(r"\s", "", declarator.child_by_field_name("declarator").text.decode())
    while "::" in name and (shorter := re.sub(r"<[^<>]*>(?=::)", "", name)) != name:
        name = shorter
    *scopes, name = name.split("::")
    return {(scopes[-1] if scopes else "", name)}


def _declared_members(own: Any, text: str, marks: set[str]) -> Iterator[tuple[str, str]]:
    """Yield (class, name) of each member function that a class declares for the device."""
    name = own.child_by_field_name("name")
    for member in own.child_by_field_name("body").named_children:
        while member.type == "template_declaration":
            member = member.named_children[-1]
        for nested in _classes_in(member):
            yield from _declared_members(nested, text, marks)
        words = set(WORD.findall(text[member.start_byte : member.end_byte]))
        if name is not None and words & marks and member.type.endswith("declaration"):
            for _, function in _keys(member.child_by_field_name("declarator")):
                yield name.text.decode().partition("<")[0], function


def _type_names(node: Any, text: str) -> set[str]:
    """Return the names that a type declaration defines: of the type and of its enumerators."""
    names = set()
    waiting = [node]
    while waiting:
        part = waiting.pop()
        name = part.child_by_field_name("name")
        if name is not None:
            names.update(WORD.findall(text[name.start_byte : name.end_byte])[:1])
        if part.type == "type_definition":
            for declarator in part.children_by_field_name("declarator"):
                names |= _declared(declarator, text)
            own = part.child_by_field_name("type")
            waiting += [own] if own is not None else []
        body = part.child_by_field_name("body")
        if part.type == "enum_specifier" and body is not None:
            waiting += body.named_children
    return names


def _classes_in(node: Any) -> Iterator[Any]:
    """Yield the class that a declaration defines."""
    own = node if node.type in _CLASSES else node.child_by_field_name("type")
    if own is not None and own.type in _CLASSES and own.child_by_field_name("body") is not None:
        yield own


def _unmarked_members(
    own: Any, text: str, marks: set[str]
) -> Iterator[tuple[tuple[int, int], bool]]:
    """Yield member functions without a mark such as ``__device__``, and whether to remove each.

    Host code is removed. A constexpr function is kept, because kernels can use it. A function that
    only selects a type is kept, too.
    """
    for member in own.child_by_field_name("body").named_children:
        inner = member
        while inner.type == "template_declaration":
            inner = inner.named_children[-1]
        for nested in _classes_in(inner):
            yield from _unmarked_members(nested, text, marks)
        body = inner.child_by_field_name("body")
        head = text[member.start_byte : body.start_byte if body else member.end_byte]
        words = set(WORD.findall(head))
        if inner.type == "friend_declaration":
            function = "(" in head
        elif inner.type == "function_definition":
            made = inner.children[-1].type in ("default_method_clause", "delete_method_clause")
            function = not made or "virtual" in words
        else:
            function = inner.type in ("declaration", "field_declaration") and (
                _innermost(inner.child_by_field_name("declarator")) == "function_declarator"
                and ("virtual" in words or not re.search(r"=\s*(?:default|delete)\s*;", head))
            )
        if function and not words & marks:
            needed = words & _EVALUATED or ("static" in words and _is_for_types(inner, text))
            yield (member.start_byte, member.end_byte), not needed


def _is_for_types(function: Any, text: str) -> bool:
    """Return whether a function has no body, and sizeof or decltype uses it.

    Such a function is never called. It selects a type, as in ``sizeof(test<T>(0)) == sizeof(yes)``.
    """
    if function.child_by_field_name("body") is not None:
        return False
    names = _declared(function.child_by_field_name("declarator"), text)
    use = r"\b(?:sizeof|decltype)\s*\([^;{}]*\b%s\s*[<(]"
    return any(re.search(use % re.escape(name), text) for name in names)


def _stand_ins(own: Any, text: str, marks: set[str]) -> Iterator[tuple[int, int, str]]:
    """Yield parts of a class that only the host needs, and texts that take the same memory.

    Kernels may need the other members of the class, at their places. The parts are virtual
    functions of the host, and members such as ``std::vector<int> names;``.
    """
    virtual, device = [], False
    for member in own.child_by_field_name("body").named_children:
        nested = list(_classes_in(member))
        for inner in nested:
            yield from _stand_ins(inner, text, marks)
        if nested:
            continue
        words = set(WORD.findall(text[member.start_byte : member.end_byte].partition("{")[0]))
        if "virtual" in words:
            virtual.append(member.start_byte)
            device |= bool(words & marks)
        kind = member.child_by_field_name("type")
        if member.type != "field_declaration" or kind is None or words & {"static", "virtual"}:
            continue
        of_host = _OF_HOST.fullmatch(re.sub(r"\s", "", text[kind.start_byte : kind.end_byte]))
        if of_host is None or _innermost(member.child_by_field_name("declarator")):
            continue
        if of_host[1] != "unique_ptr" or "," not in of_host[0]:  # no deleter, which may have a size
            pointers = _SIZES[of_host[1]] // 8
            yield kind.start_byte, kind.end_byte, f"class {{ void *of_host[{pointers}]; }}"
            for value in member.children_by_field_name("default_value"):
                before = text[: value.start_byte].rstrip()
                yield len(before) - before.endswith("="), value.end_byte, ""
    if virtual and not device:  # an object with virtual functions has a pointer to their table
        yield virtual[0], virtual[0], "__device__ virtual void of_host() {}"


def _reached(items: list[Item], macros: dict[str, set[str]], wanted: set[str]) -> set[int]:
    """Return the `id` of each item that device code needs, directly or through other items.

    `wanted` has further names that are needed.
    """
    by_name: dict[str, list[Item]] = {}
    for item in items:
        for name in item.names:
            by_name.setdefault(name, []).append(item)
    variables = {name for item in items if item.kind == "variable" for name in item.names}
    reached: set[int] = set()
    seen: set[str] = set()
    waiting = set(wanted)
    for item in items:
        if item.device:
            reached.add(id(item))
            waiting |= item.words - (item.locals & variables)
    while waiting:
        word = waiting.pop()
        seen.add(word)
        new = set(macros.get(word, ()))
        for item in by_name.get(word, ()):
            if item.keepable and id(item) not in reached:
                reached.add(id(item))
                new |= item.words - (item.locals & variables)
        waiting |= new - seen
    namespaces = _NAMESPACES | {name for item in items for name in _namespaces(item)}
    for item in items:
        if item.kind == "using":
            scopes = next(iter(item.names))[6:].split("::")
            # Device code has the namespace `std`, but not the namespaces inside it, such as
            # std::chrono.
            if scopes[0] in namespaces and (scopes == ["std"] or scopes[0] != "std"):
                reached.add(id(item))
    return reached


def _namespaces(item: Item) -> Iterator[str]:
    """Yield the names of the namespaces around an item.

    If the item is an alias of a namespace, also yield the name of the alias.
    """
    if item.node.type == "namespace_alias_definition":
        yield from item.names
    around = item.node.parent
    while around is not None:
        if around.type == "namespace_definition" and (name := around.child_by_field_name("name")):
            yield from name.text.decode().split("::")
        around = around.parent


def _cut(text: str, start: int, end: int, cuts: list[tuple[int, int]]) -> str:
    parts = []
    for first, last in sorted(cuts):
        parts.append(text[start:first])
        start = max(start, last)
    return "".join([*parts, text[start:end]])


def _left_out(file: SourceFile, reached: set[int]) -> list[Item]:
    """Return the items that are left out: none that a macro makes together with a kept one."""
    kept = sorted(item.source for item in file.items if id(item) in reached)

    def is_beside_kept(start: int, end: int) -> bool:
        index = bisect.bisect_left(kept, (end,))
        return index > 0 and kept[index - 1][1] > start

    items = (item for item in file.items if id(item) not in reached)
    return [item for item in items if not is_beside_kept(*item.source)]


def _rendered(file: SourceFile, reached: set[int], initial: set[str]) -> str:
    """Return the file's text without the removed parts. The lines keep their places.

    `initial` are the words in the initial values of all variables. If a constant such as ``const
    float dx`` is among them, it becomes constexpr. nvcc also accepts ``1 / dx`` as the value of a
    constant if ``dx`` is only const, but NVRTC does not.
    """
    gone = [(d.start, d.end) for _, d in file.missing]
    kept = [item for item in file.items if id(item) in reached]
    gone += [item.source for item in _left_out(file, reached)]
    code = file.layout.code
    stand_ins: dict[int, str] = {}
    for item in kept:
        for cut in item.cuts:
            if code.is_exact(*cut):
                gone.append(code.source_range(*cut))
                stand_ins[gone[-1][0]] = item.stand_ins.get(cut[0], "")
    directives = [
        (d.start, d.end)
        for d in file.layout.directives
        if d.kind not in ("include", "pragma", "error")
    ]
    text = list(file.layout.text)
    for start, end in gone:
        inside = iter([d for d in directives if start < d[0] < end])
        stop, resume = next(inside, (end, end))
        for place in range(start, end):
            if place >= resume:
                stop, resume = next(inside, (end, end))
            if place < stop and text[place] not in "\n\r":
                text[place] = " "
    for place, stand_in in stand_ins.items():
        text[place] = stand_in + text[place]
    for item in kept:
        last = item.const_end
        if last is not None and item.names & initial and code.is_exact(last - 1, last):
            text[code.source_range(last - 1, last)[0]] = "texpr"
    return "".join(text)


def _descriptions(file: SourceFile, reached: set[int]) -> Iterator[str]:
    """Yield descriptions of what was removed from a file."""
    for name, directive in file.missing:
        line = file.layout.line(directive.start)
        yield " ".join(filter(None, (f"#{directive.kind}", name, f"(line {line})")))
    for item in _left_out(file, reached):
        if item.kind in ("function", "variable", "type"):
            first, last = map(file.layout.line, item.source)
            where = f"line {first}" if first == last else f"lines {first}-{last}"
            place = f"{file.name}, {where}" if file.name else where
            call = "()" if item.kind == "function" else ""
            for name in sorted(item.names):
                yield f"{name}{call} ({place})"


def _host_names(file: SourceFile, reached: set[int]) -> dict[str, int]:
    """Return the host's functions and variables that device code uses, with their lines."""
    words = {w for i in file.items if id(i) in reached for w in i.words - i.locals}
    return {
        name: file.layout.line(item.source[0])
        for item in file.items
        if id(item) not in reached and item.kind in ("function", "variable")
        for name in sorted(item.names & words)
    }
