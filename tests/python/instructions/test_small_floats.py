"""Conversions of fp4 and fp6 by CUDA's headers: with integers on sm_90, with cvt on sm_100a."""

import numpy as np
import pytest
from both_ways import same_as_gpu

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


@pytest.mark.parametrize("arch", ["sm_90", "sm_100a"])
def test_conversions_of_fp4_and_fp6(arch: str) -> None:
    x = operands()
    four, back = np.zeros(64, np.uint8), np.zeros((128, 2), np.float32)
    six = [np.zeros(64, np.uint16) for _ in range(2)]
    coalesce.Kernel(SOURCE, device="sim", arch=arch)[1, 64](x, four, *six, back)
    wanted = encoded(x, 2, 1)
    np.testing.assert_array_equal(four, wanted[:, 0] | wanted[:, 1] << 4)
    signed = np.concatenate([numbers(2, 1), -numbers(2, 1)])
    np.testing.assert_array_equal(back[:64], signed[wanted])
    for decoded, (exponent, fraction) in zip(six, ((2, 3), (3, 2)), strict=True):
        wanted = encoded(x, exponent, fraction)
        np.testing.assert_array_equal(decoded, wanted[:, 0] | wanted[:, 1] << 8)
    signed = np.concatenate([numbers(3, 2), -numbers(3, 2)])
    np.testing.assert_array_equal(back[64:], signed[wanted])


OTHERS = """
#include <cuda_fp4.h>
#include <cuda_fp6.h>
__global__ void convert(const __half2* x, const __nv_bfloat162* y, unsigned* out) {
    const int t = threadIdx.x;
    const __half2_raw h = x[t];
    const __nv_bfloat162_raw b = y[t];
    const float2 f = __half22float2(x[t]);
    unsigned* next = out + t;
#define PUT(value) *next = (value), next += blockDim.x
    for (const auto mode : {cudaRoundNearest, cudaRoundZero}) {
        PUT(__nv_cvt_halfraw2_to_fp4x2(h, __NV_E2M1, mode));
        PUT(__nv_cvt_bfloat16raw2_to_fp4x2(b, __NV_E2M1, mode));
        PUT(__nv_cvt_float2_to_fp4x2(f, __NV_E2M1, mode));
        for (const auto format : {__NV_E2M3, __NV_E3M2}) {
            PUT(__nv_cvt_halfraw2_to_fp6x2(h, format, mode));
            PUT(__nv_cvt_bfloat16raw2_to_fp6x2(b, format, mode));
            PUT(__nv_cvt_float2_to_fp6x2(f, format, mode));
        }
    }
    __half2_raw back = __nv_cvt_fp4x2_to_halfraw2(t, __NV_E2M1);
    PUT(back.x | back.y << 16);
    for (const auto format : {__NV_E2M3, __NV_E3M2}) {
        back = __nv_cvt_fp6x2_to_halfraw2(t % 64 | (t + 7) % 64 << 8, format);
        PUT(back.x | back.y << 16);
    }
}
"""


def test_instructions_give_the_results_of_the_header() -> None:
    """On sm_100a, the header uses an instruction for each conversion; on sm_90, it computes."""
    random = np.random.default_rng(1)
    x = np.concatenate([random.normal(size=200) * 4, [0, -0.0, np.inf, -np.inf, 6e4, 2e-7] * 8])
    x = np.append(x, [np.nan] * 8).astype(np.float16)
    y = (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    results = []
    for arch in ("sm_90", "sm_100a"):
        kernel = coalesce.Kernel(OTHERS, device="sim", arch=arch)
        assert ("e2m1x2" in kernel.ptx) == (arch == "sm_100a")
        out = np.zeros((21, 128), np.uint32)
        kernel[1, 128](x, y, out)
        results.append(out)
    np.testing.assert_array_equal(*results)


def test_negative_numbers_become_zero() -> None:
    source = """
    __global__ void convert(const float2* x, unsigned short* out) {
        asm("cvt.rn.satfinite.relu.e3m2x2.f32 %0, %1, %2;"
            : "=h"(out[threadIdx.x]) : "f"(x[threadIdx.x].y), "f"(x[threadIdx.x].x));
    }"""
    x, out = operands(), np.zeros(64, np.uint16)
    coalesce.Kernel(source, device="sim", arch="sm_100a")[1, 64](x, out)
    wanted = encoded(np.maximum(x, 0) + 0, 3, 2)
    np.testing.assert_array_equal(out, wanted[:, 0] | wanted[:, 1] << 8)


def test_rounding_towards_zero() -> None:
    """The header uses .rz on newer architectures, so the text of the PTX is changed here."""
    source = """
    #include <cuda_fp6.h>
    extern "C" __global__ void convert(const float2* x, unsigned short* out) {
        out[threadIdx.x] = __nv_cvt_float2_to_fp6x2(x[threadIdx.x], __NV_E2M3, MODE);
    }"""
    x, out = operands(), np.zeros((2, 64), np.uint16)
    coalesce.Kernel(source.replace("MODE", "cudaRoundZero"), device="sim")[1, 64](x, out[0])
    nearest = source.replace("MODE", "cudaRoundNearest")
    ptx = coalesce.Kernel(nearest, device="sim", arch="sm_100a").ptx
    assert "cvt.rn.satfinite.e2m3x2" in ptx
    ptx = ptx.replace("cvt.rn.satfinite.e2m3x2", "cvt.rz.satfinite.e2m3x2")
    coalesce.Kernel(ptx, "convert", device="sim")[1, 64](x, out[1])
    np.testing.assert_array_equal(*out)


def test_conversions_to_bfloat16() -> None:
    """No header function returns bfloat16, so the text of the PTX is changed here."""
    source = """
    #include <cuda_fp4.h>
    extern "C" __global__ void convert(unsigned* out) {
        const __half2_raw back = __nv_cvt_fp4x2_to_halfraw2(threadIdx.x, __NV_E2M1);
        out[threadIdx.x] = back.x | back.y << 16;
    }"""
    ptx = coalesce.Kernel(source, device="sim", arch="sm_100a").ptx
    assert "cvt.rn.f16x2.e2m1x2" in ptx
    ptx = ptx.replace("cvt.rn.f16x2.e2m1x2", "cvt.rn.bf16x2.e2m1x2")
    out = np.zeros(256, np.uint32)
    coalesce.Kernel(ptx, "convert", device="sim")[1, 256](out)
    signed = np.concatenate([numbers(2, 1), -numbers(2, 1)]).astype(np.float32)
    upper, lower = divmod(np.arange(256), 16)
    np.testing.assert_array_equal((out << 16).view(np.float32), signed[lower])
    np.testing.assert_array_equal((out & 0xFFFF0000).view(np.float32), signed[upper])


def test_exponents_without_fraction_are_refused() -> None:
    source = """
    __global__ void convert(const float2* x, unsigned short* out) {
        asm("cvt.rp.satfinite.ue8m0x2.f32 %0, %1, %2;" : "=h"(*out) : "f"(x->y), "f"(x->x));
    }"""
    kernel = coalesce.Kernel(source, device="sim", arch="sm_100a")
    with pytest.raises(coalesce.UnsupportedInstruction, match=r"cvt\.rp\.satfinite\.ue8m0x2\.f32"):
        kernel[1, 1](operands(), np.zeros(1, np.uint16))


EVERY_16_BITS = np.arange(1 << 16, dtype=np.uint16)


@pytest.mark.usefixtures("machine_code")
def test_fp4_and_fp6(device: str) -> None:
    """All numbers of half and of bfloat16, in both roundings, and back."""
    source = OTHERS.replace("__global__ void convert", 'extern "C" __global__ void k')
    source = source.replace("const int t = threadIdx.x;", "const int t = 128 * blockIdx.x + I;")
    source = source.replace("+ I;", "+ threadIdx.x;").replace("blockDim.x", "32768")
    source = source.replace("(t, __NV_E2M1)", "(t & 255, __NV_E2M1)")
    out = np.zeros((21, 32768), np.uint32)
    same_as_gpu(source, device, 256, 128, EVERY_16_BITS.view(np.float16), EVERY_16_BITS, out)


FP8 = """
#include <cuda_fp8.h>
extern "C" __global__ void k(const __half_raw* x, const __nv_bfloat16_raw* y, const float* z,
                             unsigned* out) {
    const int t = 128 * blockIdx.x + threadIdx.x;
    unsigned* next = out + t;
#define PUT(value) *next = (value), next += 65536
    for (const auto format : {__NV_E4M3, __NV_E5M2}) {
        for (const auto saturation : {__NV_SATFINITE, __NV_NOSAT}) {
            PUT(__nv_cvt_halfraw_to_fp8(x[t], saturation, format));
            PUT(__nv_cvt_bfloat16raw_to_fp8(y[t], saturation, format));
            PUT(__nv_cvt_float_to_fp8(z[t], saturation, format));
            PUT(__nv_cvt_double_to_fp8(z[t], saturation, format));
            PUT(__nv_cvt_float2_to_fp8x2(make_float2(z[t], -z[t]), saturation, format));
        }
        const __half2_raw back = __nv_cvt_fp8x2_to_halfraw2(t, format);
        PUT(back.x | back.y << 16);
    }
    // The machine code puts two pairs into one register.
    const float4 four = make_float4(z[t], -z[t], 2 * z[t], z[t] + 1);
    const __half2 low = __halves2half2(x[t], x[t ^ 5]), high = __halves2half2(x[t ^ 3], x[t ^ 9]);
    PUT(__nv_fp8x4_e4m3(four).__x);
    PUT(__nv_fp8x4_e5m2(four).__x);
    PUT(__nv_fp8x4_e4m3(low, high).__x);
    PUT(__nv_fp8x4_e5m2(low, high).__x);
}
"""


@pytest.mark.usefixtures("machine_code")
def test_fp8(device: str, random: np.random.Generator) -> None:
    """All numbers of half and of bfloat16, random floats, and all numbers of fp8 back."""
    z = random.integers(0, 1 << 32, 65536, dtype=np.uint32)
    z[::2] = (z[::2] & 0x8FFFFFFF) + 0x38000000  # half of them near 1
    out = np.zeros((26, 65536), np.uint32)
    same_as_gpu(FP8, device, 512, 128, EVERY_16_BITS, EVERY_16_BITS, z.view(np.float32), out)
