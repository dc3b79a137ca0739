"""Computes the results of the operations in float64 with NumPy, to check the results of kernels.

A kernel rounds its sums. For a sum of K products, the rounding error is at most about K * u * s,
whatever the order of the additions. Here u is half the machine epsilon of the dtype, and s is the
sum of the absolute values of the products. (Source: N. J. Higham, Accuracy and Stability of
Numerical Algorithms, 2nd edition, section 3.1.) The error of a correct kernel is below this bound.
If a kernel forgets a tile or adds it twice, the error is above the bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from coalesce.catalogue.operands import is_bfloat16

Array = np.ndarray[Any, Any]


def operand_rounding(variant: str) -> float:
    """Return the largest relative error that a variant of matmul makes by rounding its operands.

    This is the error of the product of two rounded elements. It is 0 for variants that do not round
    their operands.
    """
    significant_bits = {"bf16": 8, "tf32": 11, "cublas_tf32": 11}
    if variant not in significant_bits:
        return 0.0
    each: float = 2.0 ** -significant_bits[variant]
    return 2.0 * each + each * each


@dataclass(frozen=True)
class Reference:
    """The correct result of an operation, and how large rounding errors may be.

    Attributes
    ----------
    exact : array
        The result in float64. If the operation only moves elements, it has the dtype of the
        operand.
    scale : array or None
        Each element of the result is a sum of terms. For each element, `scale` has the sum of the
        absolute values of these terms. For matmul, `scale` has an upper bound of this sum instead.
        The shape of `scale` may then be smaller than the shape of `exact` (`scale` can be
        broadcast). None if the operation only moves elements, because then nothing is rounded.
    terms : int
        The number of terms in the sum of each element.
    """

    exact: Array
    scale: Array | None = None
    terms: int = 0

    def error(self, result: Array) -> float:
        """Return the largest error of a result's elements, as a fraction of `scale`.

        If the operation only moves elements, return 0 if all elements are correct, and infinity
        otherwise.
        """
        if result.shape != self.exact.shape:
            return float("inf")
        if self.scale is None:
            same = np.array_equal(_bits(result), _bits(self.exact))
            return 0.0 if same else float("inf")
        limits = np.finfo(result.dtype)
        with np.errstate(all="ignore"):
            # If a term or the sum overflows the dtype, infinities and NaN are correct, too.
            usual = np.isfinite(self.exact) & (
                np.broadcast_to(self.scale, result.shape) < limits.max
            )
            if not np.isfinite(result[usual]).all():
                return float("inf")
            # A GPU may replace numbers below the smallest normal number by zero.
            scale = self.scale + limits.tiny / limits.eps
            errors = np.where(usual, np.abs(result - self.exact) / scale, 0.0)
        return float(errors.max(initial=0.0))

    def norm_error(self, result: Array) -> float | None:
        """Return the norm of the errors, divided by the norm of the exact result.

        Both are Frobenius norms: the square root of the sum of the squares of all elements. Return
        None if the operation only moves elements, or if one of the norms is not a finite number
        above 0.
        """
        if self.scale is None or result.shape != self.exact.shape:
            return None
        with np.errstate(all="ignore"):
            whole = float(np.linalg.norm(self.exact))
            error = float(np.linalg.norm(result - self.exact))
        return error / whole if 0 < whole < np.inf and error < np.inf else None

    def tolerance(
        self,
        dtype: np.dtype[Any],
        variant: str = "",
        *,
        operands: np.dtype[Any] | None = None,
        result: np.dtype[Any] | None = None,
    ) -> float:
        """Return the largest error, as a fraction of `scale`, that rounding can cause.

        It is the sum of up to three errors:

        - The kernel rounds its sums, whose dtype is `dtype`.
        - Some variants round their operands. (Operands of dtype bfloat16 need no rounding.)
        - A result of dtype bfloat16 is rounded at the end.

        `operands` and `result` are the dtypes of the operands and of the result. None means that
        the dtype is not bfloat16.
        """
        if self.scale is None:
            return 0.0
        exact_operands = operands is not None and is_bfloat16(operands)
        rounding = 0.0 if exact_operands else operand_rounding(variant)
        if result is not None and is_bfloat16(result):
            rounding += 2.0**-8  # bfloat16 has 8 significant bits
        return (self.terms + 4) * float(np.finfo(dtype).eps) + rounding


def reference(
    operation: str, variant: str, arrays: Sequence[Array], options: Mapping[str, Any]
) -> Reference:
    """Compute the result that a variant should return.

    `arrays` are the operands, and `options` are the options of the call.
    """
    if operation == "matmul":
        return _product(arrays[0], arrays[1], options)
    if operation == "transpose":
        return Reference(np.ascontiguousarray(arrays[0] if variant == "copy" else arrays[0].T))
    if operation == "access":
        return Reference(_PATTERNS[variant](arrays[0], options))
    axis = 1 if operation == "row_sums" else 0
    wide = arrays[0].astype(np.float64)
    total = wide.sum(axis)
    return Reference(total, np.abs(wide, out=wide).sum(axis), wide.shape[axis])


def _product(a: Array, b: Array, options: Mapping[str, Any]) -> Reference:
    alpha, beta = float(options.get("alpha", 1.0)), float(options.get("beta", 0.0))
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    shape = (a.shape[0], b.shape[1])
    if alpha == 0:  # as in BLAS, a and b are not read then
        exact, scale = np.zeros(shape), np.zeros(shape)
    else:
        exact = alpha * (wide_a @ wide_b)
        # The Cauchy-Schwarz inequality gives an upper bound of the sum of magnitudes. It takes less
        # work than the sum itself.
        scale = abs(alpha) * np.outer(
            np.linalg.norm(wide_a, axis=1), np.linalg.norm(wide_b, axis=0)
        )
    if beta != 0:
        addend = beta * np.asarray(options["c"]).astype(np.float64)
        exact, scale = exact + addend, scale + np.abs(addend)
    return Reference(exact, scale, a.shape[1])


def _permuted(x: Array, options: Mapping[str, Any]) -> Array:
    order = options.get("order")
    order = np.arange(31, -1, -1) if order is None else np.asarray(order)
    whole = len(x) // 32 * 32
    return np.concatenate([x[:whole].reshape(-1, 32)[:, order].ravel(), x[whole:]])


def _far_lane(x: Array, options: Mapping[str, Any]) -> Array:
    i = np.arange(len(x))
    distance = options.get("distance", len(x) // 2)
    return x[np.where(i % 32 == 31, (i + distance) % max(1, len(x)), i)]


_PATTERNS: dict[str, Callable[[Array, Mapping[str, Any]], Array]] = {
    "offset": lambda x, options: x[options.get("offset", 1) :],
    "stride": lambda x, options: x[:: options.get("stride", 2)],
    "permuted": _permuted,
    "broadcast": lambda x, _: np.repeat(x[::32], 32)[: len(x)],
    "gather": lambda x, options: x[np.asarray(options["index"])],
    "far_lane": _far_lane,
    "vector": lambda x, _: x,
    "aos": lambda x, options: x[:, options.get("field", 0)],
    "soa": lambda x, options: x[options.get("field", 0)],
}


def _bits(array: Array) -> Array:
    """Return the bits of the elements, for a comparison. (A NaN is not equal to itself.)"""
    size = array.dtype.itemsize
    return np.ascontiguousarray(array).view(f"u{size}" if size in (1, 2, 4, 8) else np.uint8)
