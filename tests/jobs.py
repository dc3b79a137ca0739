"""Functions that tests send to other processes.

Another process cannot import test files in the way pytest does. This folder is on the path that
other processes inherit.
"""

import numpy as np

import coalesce


def launched(kernel: coalesce.Kernel, values: np.ndarray) -> np.ndarray:
    """Return a copy of one-dimensional `values` that the kernel has changed."""
    out = values.copy()
    kernel[-(-out.size // 64), 64](out, out.size)
    return out
