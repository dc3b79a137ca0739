"""Runs CUDA kernels from NumPy, on a GPU or on a simulator, and counts their memory accesses.

>>> import coalesce
>>> import numpy as np
>>> a = np.ones((64, 48), np.float32)
>>> b = np.ones((48, 32), np.float32)
>>> coalesce.matmul(a, b, variant="tiled")[0, 0]
np.float32(48.0)

You can import the package on a machine without a GPU, a driver or a compiler. The package looks for
them only when a call needs them. Start with `matmul`, `transpose`, `row_sums`, `column_sums` and
`access`. `variants` lists the kernels of these operations. `Kernel` runs your own CUDA C++.
"""

from __future__ import annotations

import lazy_loader

# `__init__.pyi` lists the public names. A module is imported when one of its names is first used,
# so that `import coalesce` imports nothing else.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def load_ipython_extension(shell: object) -> None:
    """Add the `%%cuda` magic to IPython or Jupyter. ``%load_ext coalesce`` calls this function."""
    from coalesce import notebook

    notebook.register(shell)


def unload_ipython_extension(shell: object) -> None:
    """Remove the `%%cuda` magic. ``%unload_ext coalesce`` calls this function."""
    from coalesce import notebook

    notebook.unregister(shell)
