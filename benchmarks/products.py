"""The matmul rungs as calls on GPU memory: what benchmarks/ladder.py and best.py time."""

from __future__ import annotations

import ctypes as c
from typing import Any

import numpy as np
from gpu import Gpu, Work

from coalesce.catalogue import pack


class Product:
    """Random matrices of one shape, float32, and the rungs that multiply them."""

    def __init__(self, gpu: Gpu, m: int, n: int, k: int) -> None:
        random = np.random.default_rng(1)
        self.gpu, self.shape = gpu, (m, n, k)
        self.a_host = random.random((m, k), np.float32) * 2 - 1
        self.b_host = random.random((k, n), np.float32) * 2 - 1
        self.a, self.b = gpu.put(self.a_host), gpu.put(self.b_host)
        self.out = gpu.empty(4 * m * n)
        self._scratch: list[Any] = []

    def rung(self, variant: str, tile: int = 0) -> Work:
        """Return what runs a rung, with all that it does to its operands first."""
        m, n, k = self.shape
        tail = [c.c_int(m), c.c_int(n), c.c_int(k), c.c_float(1), c.c_float(0)]
        if variant != "tma":
            arguments = [self.a, self.b, self.out, self.out, *tail]
            return self.gpu.kernel("matmul", variant, (m, n), arguments, tile=tile)
        blocks = self.gpu.multiprocessors
        depth, pitch = -(-k // 32) * 32, -(-n // 4) * 4
        strips = self._empty(4 * (-(-m // 128) * 128 * depth + 256))
        ready, partial = self._empty(4 * blocks), self._empty(4 * blocks * pack.PARTIAL)
        sizes = [c.c_int(x) for x in (m, k, depth, blocks)]
        steps = [self.gpu.kernel("layout", "packed", (m, k), [self.a, strips, ready, *sizes])]
        b = self.b
        if pitch != n:
            b = self._empty(4 * k * pitch)
            count = k * pitch - (pitch - n)
            strides = [c.c_longlong(x) for x in (0, n, 1)]
            moved = [self.b, b, c.c_ulonglong(count), c.c_ulonglong(pitch), *strides]
            steps.append(self.gpu.kernel("layout", "contiguous", (k * pitch, 1), moved))
        arguments = [strips, b, self.out, self.out, *tail, c.c_int(pitch), partial, ready]
        steps.append(self.gpu.kernel("matmul", "tma", (m, n), arguments))

        def work() -> None:
            for step in steps:
                step()

        return work

    def cublas(self) -> Work | None:
        """Return cuBLAS' product."""
        return self.gpu.sgemm(*self.shape, self.a, self.b, self.out)

    def error(self, work: Work, rows: int = 64) -> float:
        """Return the largest error of some rows, scaled by what rounding K products may do."""
        m, n, k = self.shape
        self.gpu.fill(self.out, 0xFF, 4 * m * n)  # NaN
        work()
        result = self.gpu.get(self.out, (m, n), np.float32)
        some = np.unique(np.linspace(0, m - 1, min(m, rows)).astype(int))
        a, b = self.a_host[some].astype(float), self.b_host.astype(float)
        bound = np.finfo(np.float32).eps * np.sqrt(k) * (np.abs(a) @ np.abs(b))
        if not np.isfinite(result).all():
            return float("inf")
        return float((np.abs(result[some] - a @ b) / bound).max())

    def free(self) -> None:
        """Give the memory back."""
        self.gpu.free(self.a, self.b, self.out, *self._scratch)

    def _empty(self, size: int) -> Any:
        self._scratch.append(self.gpu.empty(size))
        return self._scratch[-1]
