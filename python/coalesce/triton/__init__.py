"""Runs Triton's kernels on the simulator, and analyses them.

>>> import coalesce.triton
>>> coalesce.triton.simulate(add)[(4,)](x, y, out, n, BLOCK=256)

Triton compiles the kernels itself, which needs no GPU. Importing this module gives Triton a driver
whose GPU is simulated (`driver`). The arguments are NumPy arrays, if you use `simulate`, or tensors
of PyTorch on the CPU. So ``kernel[grid](...)`` with tensors of the CPU works, too.

If the machine has a GPU, Triton uses this GPU. To use the simulator anyway, set the environment
variable ``COALESCE_DEVICE`` to ``sim``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from coalesce import launched
from coalesce.arrays import devices
from coalesce.launched import checked

if TYPE_CHECKING:
    from coalesce.check import Findings
    from coalesce.profiling import Profile
    from coalesce.simulate.events import Trace
    from coalesce.stepping import Stepper

__all__ = ["Simulated", "checked", "simulate"]


class Simulated:
    """A kernel of Triton on the simulator: see `simulate`."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel

    def __getitem__(self, grid: Any) -> Any:
        """Return a function that launches the kernel. Its arguments are those of the kernel."""
        grid = (grid,) if isinstance(grid, int) else grid

        def launch(*arguments: Any, **named: Any) -> Any:
            return self.kernel[grid](
                *map(_tensor, arguments), **{name: _tensor(item) for name, item in named.items()}
            )

        return launch

    def check(self, grid: Any, *arguments: Any, **named: Any) -> Findings:
        """Launch the kernel and report its mistakes. See `coalesce.Kernel.check`."""
        return launched.check(lambda: self[grid](*arguments, **named))

    def profile(self, grid: Any, *arguments: Any, **named: Any) -> Profile:
        """Launch the kernel and count what its accesses cost. See `coalesce.Kernel.profile`."""
        return launched.profile(lambda: self[grid](*arguments, **named))

    def trace(self, grid: Any, *arguments: Any, **named: Any) -> Trace:
        """Launch the kernel and record its accesses. See `coalesce.Kernel.trace`."""
        return launched.trace(lambda: self[grid](*arguments, **named))

    def step(self, grid: Any, *arguments: Any, **named: Any) -> Stepper:
        """Execute one block, instruction by instruction. See `coalesce.Kernel.step`."""
        return launched.step(lambda: self[grid](*arguments, **named))


def simulate(kernel: Any) -> Simulated:
    """Return an object that launches a kernel of Triton on the simulator.

    Parameters
    ----------
    kernel : triton.JITFunction
        A function with ``@triton.jit``, and perhaps with ``@triton.autotune`` or
        ``@triton.heuristics``. The autotuner compares modelled times.

    Returns
    -------
    Simulated
        ``simulated[grid](*arguments)`` launches the kernel. Pass NumPy arrays, or tensors of
        PyTorch on the CPU. The methods `check`, `profile`, `trace` and `step` get the grid, and
        then the arguments.
    """
    if not hasattr(kernel, "run"):
        raise TypeError(f"`kernel` must be a function with @triton.jit; got {kernel!r}")
    return Simulated(kernel)


def _tensor(value: Any) -> Any:
    from coalesce.triton.arguments import HostTensor

    return HostTensor(value) if isinstance(value, np.ndarray) else value


def _set_driver() -> None:
    try:
        from triton.runtime import driver
    except ImportError:
        raise ModuleNotFoundError(
            "coalesce.triton needs the package triton, which is not installed. Install it: "
            "pip install triton",
            name="triton",
        ) from None
    device = devices.resolve()
    if device.kind == "sim":
        from triton.backends.nvidia.compiler import CUDABackend

        from coalesce.triton import lines
        from coalesce.triton.driver import SimulatedDriver

        lines.install(CUDABackend)
        driver.set_active(SimulatedDriver(device))


_set_driver()
