"""The part of the C++ standard library that kernels can use, as a small header.

CCCL, NVIDIA's C++ library, has the standard library in ``cuda::std``, but takes two seconds to
compile. The header `TEXT` takes milliseconds. It has the parts that kernels use most: limits, type
traits, min and max, and mathematical functions. `COSTLY` names the headers of CCCL with the other
parts.
"""

from __future__ import annotations

import re
from pathlib import Path

TEXT = Path(__file__).with_name("standard_library.h").read_text(encoding="utf-8")
USES = re.compile(r"(?<!cuda::)(?<!/)\bstd\b")
# Headers of CCCL, each with the names in it that kernels use.
COSTLY = {
    "array": "array",
    "atomic": "atomic|atomic_ref|memory_order_\\w+",
    "complex": "complex",
    "optional": "optional",
    "span": "span",
    "tuple": "tuple|make_tuple|tie|get",
}


def costly(header: str, text: str) -> str:
    """Return a header with the parts of `std` from CCCL that `text` uses. It may be empty."""
    used = sorted(set(re.findall(rf"\bstd\s*::\s*({COSTLY[header]})\b", text)))
    if re.search(r"\busing\s+namespace\s+std\b", text):
        used += re.findall(rf"\b({header})\s*<", text)[:1]
    if not used:
        return "#pragma once\n"
    names = "".join(f"using cuda::std::{name};\n" for name in dict.fromkeys(used))
    return f"#pragma once\n#include <cuda/std/{header}>\nnamespace std {{\n{names}}}\n"
