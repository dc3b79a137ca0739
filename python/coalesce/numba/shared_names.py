"""Gives shared arrays the names that they have in the Python code.

Numba calls the shared arrays of a process _cudapy_smem_1, _cudapy_smem_2 and so on. When it
compiles ``tile = cuda.shared.array(...)``, this module notes the name `tile` in the object for the
compiled code, Numba's library. `named` then changes the PTX: each shared array gets the name that a
CUDA C++ compiler would give to a shared array `tile`.
"""

from __future__ import annotations

import re
from typing import Any

from numba.cuda import cudaimpl, lowering
from numba.cuda.core import ir

_SYMBOL = re.compile(r"\b_cudapy_smem_\d+\b")


def install() -> None:
    """Let Numba's compiler note the names."""
    lower_assign, new_symbol = lowering.Lower.lower_assign, cudaimpl._get_unique_smem_id
    current: list[tuple[Any, Any]] = []  # the lowering of the innermost assignment, and its target

    def lower_named_assign(self: Any, ty: Any, inst: Any) -> Any:
        current.append((self, inst.target.name))
        try:
            return lower_assign(self, ty, inst)
        finally:
            current.pop()

    def new_named_symbol(prefix: str) -> str:
        symbol: str = new_symbol(prefix)
        if current and (name := _variable(*current[-1])):
            vars(current[-1][0].library).setdefault("_coalesce_names", {})[symbol] = name
        return symbol

    lowering.Lower.lower_assign = lower_named_assign
    cudaimpl._get_unique_smem_id = new_named_symbol


def named(ptx: str, library: Any) -> str:
    """Return the PTX of a library with the names of its shared arrays."""
    names: dict[str, str] = {}
    waiting, known = [library], set()
    while waiting:
        part = waiting.pop()
        if id(part) not in known:
            known.add(id(part))
            names |= vars(part).get("_coalesce_names", {})
            waiting += getattr(part, "_linking_libraries", ())
    return _SYMBOL.sub(lambda found: _mangled(found[0], names.get(found[0])), ptx)


def _variable(lower: Any, name: str) -> str | None:
    """Return the variable that gets the value of a target, which may be a temporary one."""
    if name.startswith("$"):
        copies = (
            statement.target.name
            for block in lower.func_ir.blocks.values()
            for statement in block.body
            if isinstance(statement, ir.Assign)
            and isinstance(statement.value, ir.Var)
            and statement.value.name == name
        )
        name = next(copies, name)
    variable = name.partition(".")[0]  # x.1 is the second version of x
    return variable if variable.isidentifier() and variable.isascii() else None


def _mangled(symbol: str, name: str | None) -> str:
    """Return the C++ symbol of a variable in a function whose name is `symbol`."""
    return symbol if name is None else f"_ZZ{len(symbol)}{symbol}vE{len(name)}{name}"
