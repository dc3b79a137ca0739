"""A small header with the parts of the C++ standard library that kernels use most.

NVIDIA's C++ library CCCL has a standard library for kernels (``cuda::std``), but it takes two
seconds to compile. The header `TEXT` takes milliseconds. It has ``numeric_limits``, type traits,
min and max, and mathematical functions. For other parts, headers of CCCL are used. `COSTLY` lists
these headers.
"""

from __future__ import annotations

import re
from pathlib import Path

TEXT = Path(__file__).with_name("standard_library.h").read_text(encoding="utf-8")
USES = re.compile(r"(?<!cuda::)(?<!/)\bstd\b")
# For each header of CCCL, a pattern for the names that kernels use from it.
COSTLY = {
    "array": "array",
    "atomic": "atomic|atomic_ref|memory_order_\\w+",
    "complex": "complex",
    "optional": "optional",
    "span": "span",
    "tuple": "tuple|make_tuple|tie|get",
}


def header_text(header: str, text: str) -> str:
    """Return the text of the standard header `header`, such as "tuple", for a kernel.

    `text` is the source of the kernel. If `text` uses names from the header, such as
    ``std::tuple``, the result includes the header of CCCL, NVIDIA's C++ library. CCCL's headers
    take long to compile. So if `text` uses no such names, the result is an empty header.
    """
    used = sorted(set(re.findall(rf"\bstd\s*::\s*({COSTLY[header]})\b", text)))
    if re.search(r"\busing\s+namespace\s+std\b", text):
        used += re.findall(rf"\b({header})\s*<", text)[:1]
    if not used:
        return "#pragma once\n"
    names = "".join(f"using cuda::std::{name};\n" for name in dict.fromkeys(used))
    return f"#pragma once\n#include <cuda/std/{header}>\nnamespace std {{\n{names}}}\n"
