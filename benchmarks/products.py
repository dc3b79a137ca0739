"""The launches of operations on GPU memory, which ladder.py, best.py and kernels.py time."""

from __future__ import annotations

import ctypes as c
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from gpu import Gpu, Work

import coalesce
from coalesce.arrays import foreign
from coalesce.benchmarking import gpu as on_gpu

# The error from rounding the operands, relative to the sum of the magnitudes of the terms.
ROUNDING = {"bf16": 2.0**-7, "tf32": 2.0**-10}


def recorded(gpu: Gpu, operation: str, arrays: Sequence[Any], **options: Any) -> Work:
    """Return a function that enqueues all launches of an operation (see `launches`)."""
    works = launches(gpu, operation, arrays, **options)

    def work() -> None:
        for launch in works:
            launch()

    return work


def launches(gpu: Gpu, operation: str, arrays: Sequence[Any], **options: Any) -> list[Work]:
    """Return a function for each launch of an operation: it enqueues it on the benchmark's stream.

    `arrays` and the option `out` are in GPU memory. The launches are those of `coalesce`.
    """
    made = on_gpu.launches(operation, arrays, options, gpu.stream.value or 0)
    return [launch for _, launch in made]


class Product:
    """Random matrices of one shape and dtype, and the variants that multiply them."""

    def __init__(
        self, gpu: Gpu, m: int, n: int, k: int, dtype: str = "float32", result: str = ""
    ) -> None:
        """Make the matrices. `result` is "bfloat16", or empty for the dtype of the sums."""
        random = np.random.default_rng(1)
        self.gpu, self.shape, self.dtype, self.result = gpu, (m, n, k), dtype, result
        real = np.dtype(np.float64 if dtype == "float64" else np.float32)
        self.a_host = random.random((m, k), real) * 2 - 1
        self.b_host = random.random((k, n), real) * 2 - 1
        if dtype == "bfloat16":
            self.a_host, self.b_host = _rounded(self.a_host), _rounded(self.b_host)
        self.a, self.b = self._on_gpu(self.a_host), self._on_gpu(self.b_host)
        self.real = real
        self.memory = coalesce.empty((m, n), np.uint16 if result else real, device="cuda:0")
        self.out = (
            replace(foreign.require_gpu_array(self.memory), code="V2") if result else self.memory
        )
        gpu.synchronize()  # the benchmark's stream does not wait for the copies

    def rung(self, variant: str, tile: int = 0) -> Work:
        """Return a function that runs a variant, with the preparation of its operands."""
        options: dict[str, Any] = {"tile": tile} if tile else {}
        return recorded(
            self.gpu, "matmul", (self.a, self.b), variant=variant, out=self.out, **options
        )

    def cublas(self, kind: str = "") -> Work | None:
        """Return cuBLAS' product; `kind` is "tf32", or empty for the dtype's own arithmetic."""
        where = [c.c_uint64(_address(x)) for x in (self.a, self.b, self.out)]
        kind = kind or self.dtype + (" result" if self.result else "")
        return self.gpu.gemm(*self.shape, *where, kind)

    def computed(self) -> np.ndarray[Any, Any]:
        """Return the result; bfloat16 as float32."""
        found: np.ndarray[Any, Any] = self.memory.get()
        return (found.astype(np.uint32) << 16).view(np.float32) if self.result else found

    def norm(self, work: Work, rows: int = 64) -> float:
        """Return the error of some rows in the Frobenius norm, relative to the exact result."""
        work()
        self.gpu.synchronize()
        some = np.unique(np.linspace(0, self.shape[0] - 1, rows).astype(int))
        exact = self.a_host[some].astype(float) @ self.b_host.astype(float)
        return float(np.linalg.norm(self.computed()[some] - exact) / np.linalg.norm(exact))

    def error(self, work: Work, rows: int = 64, rounding: float = 0.0) -> float:
        """Return the largest error of some rows, relative to the error that rounding may cause."""
        m, _, k = self.shape
        # Fill the result with NaN.
        self.gpu.fill(c.c_uint64(_address(self.out)), 0xFF, self.memory.nbytes)
        work()
        self.gpu.synchronize()
        result = self.computed()
        some = np.unique(np.linspace(0, m - 1, min(m, rows)).astype(int))
        a, b = self.a_host[some].astype(float), self.b_host.astype(float)
        bound = np.finfo(self.real).eps * np.sqrt(k) + rounding
        scale = bound * (np.abs(a) @ np.abs(b))
        if not np.isfinite(result).all():
            return float("inf")
        return float((np.abs(result[some] - a @ b) / scale).max())

    def _on_gpu(self, x: np.ndarray[Any, Any]) -> Any:
        if self.dtype != "bfloat16":
            return coalesce.to_device(x, device="cuda:0")
        upper = (x.view(np.uint32) >> 16).astype(np.uint16)
        return replace(
            foreign.require_gpu_array(coalesce.to_device(upper, device="cuda:0")), code="V2"
        )


def _rounded(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return float32 values rounded to bfloat16, to nearest even."""
    bits = x.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)).view(np.float32)


def _address(array: Any) -> int:
    return foreign.require_gpu_array(array).address
