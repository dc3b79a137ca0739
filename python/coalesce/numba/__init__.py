"""Runs Numba's CUDA kernels on the simulator, and analyses them.

>>> from coalesce.numba import cuda
>>> @cuda.jit
... def scale(x, factor):
...     i = cuda.grid(1)
...     if i < x.size:
...         x[i] *= factor
>>> x = np.arange(5, dtype=np.float32)
>>> scale[1, 32](x, 2.0)
>>> x
array([0., 2., 4., 6., 8.], dtype=float32)
>>> scale.check(1, 32, x, 2.0)
check of scale: nothing found

`cuda` is ``numba.cuda`` itself: Numba types and compiles the kernels, and its own functions copy
arrays, make streams and so on. This module gives Numba a simulated GPU (`setup`), whose kernels run
as those of `coalesce.Kernel` do (`launches`). So after ``import coalesce.numba``, a
program with ``from numba import cuda`` runs on the simulator, too.

If the machine has a GPU, Numba uses this GPU. To use the simulator anyway, set the environment
variable ``COALESCE_DEVICE`` to ``sim``.
"""

from __future__ import annotations

from coalesce.launched import checked
from coalesce.numba.setup import cuda, simulated

__all__ = ["checked", "cuda", "simulated"]
