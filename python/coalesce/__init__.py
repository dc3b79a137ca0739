"""CUDA kernels from NumPy, on a GPU or on a warp-level simulator, with every memory access counted.

>>> import coalesce
>>> import numpy as np
>>> a = np.ones((64, 48), np.float32)
>>> b = np.ones((48, 32), np.float32)
>>> coalesce.matmul(a, b, variant="tiled")[0, 0]
np.float32(48.0)

Importing the package needs no GPU, no driver and no compiler: each is looked for when a call first
needs it. Start with `matmul`, `transpose`, `row_sums`, `column_sums` and `access`; `variants` lists
what each can be run with and `Kernel` runs CUDA C++ of your own.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coalesce import check as check
    from coalesce import draw, lessons, plots
    from coalesce import errors as errors
    from coalesce import stepping as stepping
    from coalesce.arrays.creation import asarray, empty, ones, to_device, zeros
    from coalesce.arrays.device_array import DeviceArray
    from coalesce.arrays.devices import Device, devices, gpu_status
    from coalesce.benchmarking import Benchmark, BenchmarkRow, benchmark
    from coalesce.catalogue import Variant, VariantTable, source, variants
    from coalesce.check import CheckError, Finding, Findings
    from coalesce.common.errors import (
        CoalesceError,
        CompileError,
        DeviceUnavailable,
        LaunchError,
        MemoryFault,
        PtxError,
        UnsupportedInstruction,
    )
    from coalesce.common.timing import Timing
    from coalesce.common.version import __version__
    from coalesce.kernel import Kernel
    from coalesce.operations import column_sums, matmul, row_sums, transpose
    from coalesce.patterns import access
    from coalesce.profiling import Profile, profile
    from coalesce.profiling.comparison import Comparison, compare
    from coalesce.simulate.events import Trace, TraceArray, TraceEvent
    from coalesce.tracing import trace
    from coalesce.warps import Transactions, thread_index, transactions, warp_of_thread

# Where each public name lives. A module is imported when one of its names is first asked for, so
# that `import coalesce` costs no more than this file (PEP 562).
_HOMES = {
    "Benchmark": "benchmarking",
    "BenchmarkRow": "benchmarking",
    "CheckError": "check",
    "CoalesceError": "common.errors",
    "Comparison": "profiling.comparison",
    "CompileError": "common.errors",
    "Device": "arrays.devices",
    "DeviceArray": "arrays.device_array",
    "DeviceUnavailable": "common.errors",
    "Finding": "check",
    "Findings": "check",
    "Kernel": "kernel",
    "LaunchError": "common.errors",
    "MemoryFault": "common.errors",
    "Profile": "profiling",
    "PtxError": "common.errors",
    "Timing": "common.timing",
    "Trace": "simulate.events",
    "TraceArray": "simulate.events",
    "TraceEvent": "simulate.events",
    "Transactions": "warps",
    "UnsupportedInstruction": "common.errors",
    "Variant": "catalogue",
    "VariantTable": "catalogue",
    "__version__": "common.version",
    "access": "patterns",
    "asarray": "arrays.creation",
    "benchmark": "benchmarking",
    "column_sums": "operations",
    "compare": "profiling.comparison",
    "devices": "arrays.devices",
    "empty": "arrays.creation",
    "gpu_status": "arrays.devices",
    "matmul": "operations",
    "ones": "arrays.creation",
    "profile": "profiling",
    "row_sums": "operations",
    "source": "catalogue",
    "thread_index": "warps",
    "to_device": "arrays.creation",
    "trace": "tracing",
    "transactions": "warps",
    "transpose": "operations",
    "variants": "catalogue",
    "warp_of_thread": "warps",
    "zeros": "arrays.creation",
}

_MODULES = ("check", "draw", "errors", "lessons", "plots", "stepping")

__all__ = [
    "Benchmark",
    "BenchmarkRow",
    "CheckError",
    "CoalesceError",
    "Comparison",
    "CompileError",
    "Device",
    "DeviceArray",
    "DeviceUnavailable",
    "Finding",
    "Findings",
    "Kernel",
    "LaunchError",
    "MemoryFault",
    "Profile",
    "PtxError",
    "Timing",
    "Trace",
    "TraceArray",
    "TraceEvent",
    "Transactions",
    "UnsupportedInstruction",
    "Variant",
    "VariantTable",
    "__version__",
    "access",
    "asarray",
    "benchmark",
    "column_sums",
    "compare",
    "devices",
    "draw",
    "empty",
    "gpu_status",
    "lessons",
    "matmul",
    "ones",
    "plots",
    "profile",
    "row_sums",
    "source",
    "thread_index",
    "to_device",
    "trace",
    "transactions",
    "transpose",
    "variants",
    "warp_of_thread",
    "zeros",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"coalesce.{name}")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'coalesce' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"coalesce.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


def load_ipython_extension(shell: Any) -> None:
    """Add the `%%cuda` magic: ``%load_ext coalesce`` in IPython and Jupyter."""
    from coalesce import notebook

    notebook.register(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Take the `%%cuda` magic away: ``%unload_ext coalesce``."""
    from coalesce import notebook

    notebook.unregister(shell)
