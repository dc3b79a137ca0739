"""Names of element types: NumPy's, and the codes that array interfaces use."""

from __future__ import annotations

from typing import Any

import numpy as np


def code_of(dtype: np.dtype[Any]) -> str:
    """Return a dtype's typestr without byte order: "f4"; bfloat16's is "V2"."""
    return "V2" if dtype.name == "bfloat16" else dtype.str[1:]


def dtype_name(code: str) -> str:
    """Return what NumPy calls an element type: "float32"."""
    if code == "V2":
        return "bfloat16"
    try:
        return str(np.dtype(code).name)
    except TypeError:
        return code
