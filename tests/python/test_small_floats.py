"""Conversions to fp4 and fp6 by CUDA's headers, which compute them with integers on sm_90."""

from __future__ import annotations

import numpy as np
import pytest

import coalesce

SOURCE = """
#include <cuda_fp4.h>
#include <cuda_fp6.h>
__global__ void convert(const float2* x, unsigned char* e2m1, unsigned short* e2m3,
                        unsigned short* e3m2, float2* back) {
    int i = threadIdx.x;
    e2m1[i] = __nv_cvt_float2_to_fp4x2(x[i], __NV_E2M1, cudaRoundNearest);
    e2m3[i] = __nv_cvt_float2_to_fp6x2(x[i], __NV_E2M3, cudaRoundNearest);
    e3m2[i] = __nv_cvt_float2_to_fp6x2(x[i], __NV_E3M2, cudaRoundNearest);
    back[i] = float2(__nv_fp4x2_e2m1(x[i]));
    __nv_fp6x2_e3m2 six;
    six.__x = e3m2[i];
    back[i + 64] = float2(six);
}
"""


def numbers(exponent: int, fraction: int) -> np.ndarray:
    """Return all numbers of a format that are not negative, by their bits."""
    bias = (1 << (exponent - 1)) - 1
    bits = np.arange(1 << (exponent + fraction))
    e, f = bits >> fraction, bits & ((1 << fraction) - 1)
    normal = (1 + f / 2**fraction) * 2.0 ** (e - bias)
    return np.where(e == 0, f * 2.0 ** (1 - bias - fraction), normal)


def encoded(x: np.ndarray, exponent: int, fraction: int) -> np.ndarray:
    """Return the bits of the nearest numbers; of two, those with an even last bit."""
    known = numbers(exponent, fraction)
    size = np.minimum(np.abs(x.astype(float)), known[-1])
    off = np.abs(known - size[..., None])
    nearest = off == off.min(-1, keepdims=True)
    even = nearest & (np.arange(known.size) % 2 == 0)
    bits = np.where(even.any(-1), even.argmax(-1), nearest.argmax(-1))
    return bits | np.signbit(x).astype(int) << (exponent + fraction)


def operands() -> np.ndarray:
    some = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5, -0.0, 1e30, -1e30, np.inf, -np.inf, 0.0625]
    some += [0.03125, 28, 27, 30, 7.25, 7.75, 7.5, 0.1875]
    return np.array([*np.linspace(-8, 8, 107), *some], np.float32).reshape(64, 2)


def test_conversions_of_fp4_and_fp6() -> None:
    x = operands()
    four, back = np.zeros(64, np.uint8), np.zeros((128, 2), np.float32)
    six = [np.zeros(64, np.uint16) for _ in range(2)]
    coalesce.Kernel(SOURCE)[1, 64](x, four, *six, back)
    wanted = encoded(x, 2, 1)
    np.testing.assert_array_equal(four, wanted[:, 0] | wanted[:, 1] << 4)
    signed = np.concatenate([numbers(2, 1), -numbers(2, 1)])
    np.testing.assert_array_equal(back[:64], signed[wanted])
    for found, (exponent, fraction) in zip(six, ((2, 3), (3, 2)), strict=True):
        wanted = encoded(x, exponent, fraction)
        np.testing.assert_array_equal(found, wanted[:, 0] | wanted[:, 1] << 8)
    signed = np.concatenate([numbers(3, 2), -numbers(3, 2)])
    np.testing.assert_array_equal(back[64:], signed[wanted])


def test_instructions_of_newer_architectures_are_refused() -> None:
    kernel = coalesce.Kernel(SOURCE, arch="sm_100a")
    given = (operands(), np.zeros(64, np.uint8), *(np.zeros(64, np.uint16),) * 2)
    with pytest.raises(coalesce.UnsupportedInstruction, match=r"cvt\.rn\.satfinite\.e2m1x2\.f32"):
        kernel[1, 64](*given, np.zeros((128, 2), np.float32))
