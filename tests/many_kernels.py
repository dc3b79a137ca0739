"""Puts generated kernels into fewer sources, so that the disassembler starts less often.

The disassembler needs half a second to start, and little time for one more kernel. So a
source with several kernels takes much less time than one source for each of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable


def together(sources: Iterable[str], entry: str, at_most: int = 16) -> dict[str, tuple[str, str]]:
    """Map each source to a longer source that contains its kernel, and to the kernel's name there.

    Each source defines one kernel with the name `entry` and no other name that a second source may
    define. In the longer source, the kernels have numbers at the end of their names.
    """
    texts = list(dict.fromkeys(sources))
    kernels: dict[str, tuple[str, str]] = {}
    for first in range(0, len(texts), at_most):
        some = texts[first : first + at_most]
        names = [f"{entry}_{number}" for number in range(first, first + len(some))]
        renamed = [
            re.sub(rf"\b{entry}\b", name, text) for name, text in zip(names, some, strict=True)
        ]
        whole = "\n".join(renamed)
        kernels.update((text, (whole, name)) for text, name in zip(some, names, strict=True))
    return kernels
