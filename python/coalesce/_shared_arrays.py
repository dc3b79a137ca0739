"""How the source declares a kernel's shared variables: their shapes and types, for messages.

PTX only tells how many bytes a shared variable has. What the source says is held against them by
the simulator, so that a shape that was misread is not shown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from coalesce import _globals, _signature

# (shape, bytes of an item, type); an extent of -1 is to be found from the variable's bytes.
Shape = tuple[tuple[int, ...], int, str]

_SHARED = re.compile(r"\b__shared__\b")


def shared_arrays(
    source: str, options: Sequence[str] = (), expression: str | None = None
) -> dict[str, Shape]:
    """Return {name: (shape, bytes of an item, type)} of the shared variables in `source`.

    `expression` is the instantiation of a template that runs, such as ``"tile<16>"``. Left out is
    what is not understood, or declared twice in different ways.
    """
    found: dict[str, Shape] = {}
    for name, v in _globals.variables_of(source, options, _SHARED, expression).items():
        extents = [-1 if n is None or n < 1 else n for n in v.extents] or [1]
        item_bytes = _signature.element_types(v.type)[1] if v.type else 0
        if item_bytes and extents.count(-1) <= 1:
            found[name] = tuple(extents), item_bytes, v.type
    return found
