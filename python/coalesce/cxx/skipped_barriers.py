"""Finds barriers that threads can skip only by an early end: by `return` or `goto`.

The compiler may merge the code before a `return` with the end of the kernel. Then the PTX of these
kernels has the same form:

    if (done) { store(); return; }      if (!done) {
    __syncthreads();                        __syncthreads();
    store();                            }
                                        store();

In the left kernel, threads end early, which GPUs allow. In the right kernel, a condition of the
barrier is probably a mistake. Only the source shows the difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from coalesce.cxx.file_layout import layout_of, parse

_BARRIERS = {
    *("__syncthreads", "__syncthreads_count", "__syncthreads_and", "__syncthreads_or"),
    *("__barrier_sync", "sync"),
}
_CONDITIONS = {
    *("if_statement", "switch_statement", "conditional_expression", "lambda_expression"),
    "binary_expression",  # && and || evaluate their second operand only sometimes
}
_LOOPS = {"for_statement", "while_statement", "do_statement", "for_range_loop"}
_JUMPS = {"return_statement", "goto_statement"}


def skipped_by_jumps(source: str) -> set[int]:
    """Return the lines of a source whose barriers threads skip only by an early end.

    These are barriers of kernels that are in no condition. If they are in a loop, the kernel has a
    `return` or `goto` before the end of the loop.
    """
    lines: dict[int, bool] = {}
    for call in _all(parse(layout_of(source), {}, ()), {"call_expression"}):
        called = call.child_by_field_name("function").text.decode("ascii")
        if called.replace("->", ".").replace("::", ".").rsplit(".", 1)[-1] in _BARRIERS:
            line = call.start_point[0] + 1
            lines[line] = lines.get(line, True) and _is_skipped_by_jumps(call)
    return {line for line, skipped in lines.items() if skipped}


def _is_skipped_by_jumps(barrier: Any) -> bool:
    loop, node = None, barrier.parent
    while node is not None and node.type != "function_definition":
        if node.type in _CONDITIONS:
            return False
        if node.type in _LOOPS:
            loop = node
        node = node.parent
    if node is None or b"__global__" not in node.text.split(b"(", 1)[0]:
        return False
    return loop is None or any(jump.start_byte < loop.end_byte for jump in _all(node, _JUMPS))


def _all(node: Any, types: set[str]) -> Iterator[Any]:
    """Yield the nodes of these types in a syntax tree."""
    waiting = [node]
    while waiting:
        at = waiting.pop()
        if at.type in types:
            yield at
        waiting.extend(at.children)
