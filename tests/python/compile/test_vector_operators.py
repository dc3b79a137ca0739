"""Operators on vectors for kernels that include "helper_math.h" when that header is missing."""

from pathlib import Path

import numpy as np
import pytest

import coalesce

SOURCE = """
#include <cuda_runtime.h>
#include "HEADER"
__global__ void k(float3* a, float4* b, int2* c, float* out) {
    int i = threadIdx.x;
    float3 p = a[i];
    p += make_float3(1.0f) * 2.0f - make_float3(b[i]) / 4.0f;
    p = 1.0f - p;
    float3 q = normalize(cross(p, make_float3(0, 1, 0)));
    a[i] = lerp(p, q, 0.5f);
    b[i] = clamp(fabs(b[i]) * make_float4(p, 1.0f), 0.0f, 1.0f);
    c[i] = max(c[i] - 3 + -c[i] * 2, make_int2(4));
    c[i] += 2 * c[i];
    out[i] = dot(p, q) + length(p) + clamp(p.x, 0.0f, 1.0f) + smoothstep(0.0f, 1.0f, p.y);
    out[i] += fracf(p.z);
}
"""
PROGRAM = SOURCE + "int main() { k<<<1, 32>>>(0, 0, 0, 0); }"


@pytest.mark.parametrize("header", ["helper_math.h", "../common/inc/helper_math.h", "cutil_math.h"])
@pytest.mark.parametrize("source", [SOURCE, PROGRAM])
def test_operators_on_vectors(source: str, header: str) -> None:
    kernel = coalesce.Kernel(source.replace("HEADER", header))
    random = np.random.default_rng(0)
    a, b = random.random((32, 3), np.float32), random.random((32, 4), np.float32)
    c, out = random.integers(-9, 9, (32, 2)).astype(np.int32), np.zeros(32, np.float32)
    before = a.copy(), b.copy(), c.copy()
    kernel[1, 32](a, b, c, out)
    p = 1 - (before[0] + 2 - before[1][:, :3] / 4)
    q = np.cross(p, [0, 1, 0])
    q /= np.linalg.norm(q, axis=1)[:, None]
    np.testing.assert_allclose(a, (p + q) / 2, rtol=1e-5, atol=1e-6)
    scaled = before[1] * np.c_[p, np.ones(32)]
    np.testing.assert_allclose(b, scaled.clip(0, 1), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(c, 3 * np.maximum(-before[2] - 3, 4))
    t = p[:, 1].clip(0, 1)
    expected = (p * q).sum(1) + np.linalg.norm(p, axis=1) + p[:, 0].clip(0, 1)
    expected += t * t * (3 - 2 * t) + p[:, 2] - np.floor(p[:, 2])
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)
    said = f"#include {header} (not found; replaced by coalesce's own operators on vectors)"
    assert kernel.left_out[0] == said


@pytest.mark.parametrize("main", ["", "int main() { k<<<1, 32>>>(0); }"])
def test_a_header_that_is_found_is_used(tmp_path: Path, main: str) -> None:
    own = "inline __device__ float3 operator+(float3 a, float3) { a.x = 7; return a; }\n"
    (tmp_path / "helper_math.h").write_text(own)
    file = tmp_path / "k.cu"
    file.write_text(
        '#include "helper_math.h"\n__global__ void k(float3* a) { a[0] = a[0] + a[0]; }' + main
    )
    kernel, a = coalesce.Kernel(file), np.ones((1, 3), np.float32)
    kernel[1, 1](a)
    np.testing.assert_array_equal(a, [[7, 1, 1]])
    assert not any("replaced" in said for said in kernel.left_out)
