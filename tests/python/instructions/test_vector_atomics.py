"""Tests atomics that update several neighbouring numbers for each lane."""

import numpy as np
import pytest
from both_ways import both_ways

import coalesce

KERNEL = """
extern "C" __global__ void k({type} *x, const {type} *v, {type} *old, int n) {{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i % 5 != 3) {use}atomicAdd(x + i % n, v[i]);
}}"""

HALVES = """
extern "C" __global__ void k(char *x, const uint4 *v, int n) {{
    const uint4 u = v[threadIdx.x];
    char *p = x + threadIdx.x % n * {bytes};
    asm volatile("red.global.add.noftz.{form} [%0], {values};"
                 :: "l"(p), "r"(u.x), "r"(u.y), "r"(u.z), "r"(u.w));
}}"""


@pytest.mark.parametrize("returning", [False, True])
@pytest.mark.parametrize(("kind", "width"), [("float2", 2), ("float4", 4)])
@pytest.mark.parametrize("n", [1, 7, 128])
def test_floats(kind: str, width: int, n: int, returning: bool) -> None:
    source = KERNEL.format(type=kind, use="old[i] = " if returning else "")
    kernel = coalesce.Kernel(source, "k", device="sim")
    rng = np.random.default_rng(n)
    v = rng.integers(1, 9, (128, width)).astype(np.float32)
    x, old = np.zeros((n, width), np.float32), np.zeros((128, width), np.float32)
    got, _, got_old = both_ways(kernel, 1, 128, x, v, old, n)
    wanted, wanted_old = np.zeros_like(x), np.zeros_like(old)
    for i in range(128):
        if i % 5 != 3:
            wanted_old[i] = wanted[i % n]
            wanted[i % n] += v[i]
    np.testing.assert_array_equal(got, wanted)
    if returning:
        np.testing.assert_array_equal(got_old, wanted_old)


@pytest.mark.parametrize("blocks", [3, 40])
def test_blocks_add_to_the_same_place(blocks: int) -> None:
    kernel = coalesce.Kernel(KERNEL.format(type="float4", use=""), "k", device="sim")
    v = np.ones((blocks * 64, 4), np.float32)
    x = np.zeros((2, 4), np.float32)
    kernel[blocks, 64](x, v, np.zeros_like(v), 2)
    active = np.arange(blocks * 64)[np.arange(blocks * 64) % 5 != 3]
    np.testing.assert_array_equal(x, np.bincount(active % 2)[:, None] * np.ones(4))


@pytest.mark.parametrize(("form", "words"), [("f16x2", 1), ("v2.f16x2", 2), ("v4.f16x2", 4)])
def test_halves(form: str, words: int) -> None:
    names = ", ".join(f"%{i + 1}" for i in range(words))
    values = f"{{{names}}}" if words > 1 else names
    source = HALVES.format(form=form, bytes=4 * words, values=values)
    kernel = coalesce.Kernel(source, "k", device="sim")
    v = np.random.default_rng(3).integers(1, 5, (32, 8)).astype(np.float16)
    got = both_ways(kernel, 1, 32, np.zeros(16 * words, np.int8), v.view(np.uint32), 4)[0]
    got = got.view(np.float16).reshape(4, 2 * words)
    np.testing.assert_array_equal(got, v[:, : 2 * words].reshape(8, 4, -1).sum(0))


def test_counts_are_those_of_the_machine_code() -> None:
    kernel = coalesce.Kernel(KERNEL.format(type="float4", use=""), "k", device="sim")
    v = np.ones((32, 4), np.float32)
    profile = kernel.profile(1, 32, np.zeros((32, 4), np.float32), v, np.zeros_like(v), 32)
    requests = "l1tex__t_requests_pipe_lsu_mem_global_op_red.sum"
    sectors = "l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum"
    assert {requests, sectors} <= set(profile.exact)
    # 26 of 32 lanes add 16 bytes each. A sector has two of these elements.
    assert profile.metrics()[requests] == 1
    assert profile.metrics()[sectors] == 16
