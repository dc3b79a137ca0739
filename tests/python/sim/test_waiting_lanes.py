"""Lanes of a warp wait for each other in correct programs: none is refused, and results are right.

Each lane that a member mask names arrives in the end: in another branch, after the branch, in
another iteration, from another function, or after it was given a lock.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

import coalesce

pytestmark = pytest.mark.usefixtures("machine_code")


@dataclass(frozen=True)
class Case:
    body: str
    expected: Callable[[np.ndarray], np.ndarray]
    functions: str = ""


def _pairs(x: np.ndarray) -> np.ndarray:
    t = np.arange(x.size)
    from_even, from_odd = (x * 7)[t ^ 1], np.where(x & 2, x * 3, x)[t ^ 1]
    return np.where(t & 1, x + from_even, x ^ from_odd)


def _after(x: np.ndarray) -> np.ndarray:
    out = x * 7
    out[0] = x[0] + x[1] * 5
    return out


def _cases(x: np.ndarray) -> np.ndarray:
    t = np.arange(x.size)
    for _ in range(3):
        x = x + x[t ^ 4] * np.uint32(3)
    return x


def _trips(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    for warp in range(0, x.size, 32):
        lanes = np.arange(warp, min(warp + 32, x.size))
        for i in range(7):
            there = lanes[lanes % 7 >= i]
            if there.size:
                x[there] = x[there] * 3 + x[there[0]]
    return x


def _functions(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    for t in range(x.size):
        y = x[t] + np.uint32(t % 3 == 0)
        if t & 1:
            y = y * 3 + 1
        else:
            for i in range(t % 32):
                y = y * 5 + np.uint32(i)
        x[t] = y
    return _plus_sum_of_warp(x, x)


def _plus_sum_of_warp(x: np.ndarray, values: np.ndarray) -> np.ndarray:
    first = range(0, x.size, 32)
    sums = [values[i : i + 32].sum(dtype=np.uint32) for i in first]
    return x + np.repeat(np.array(sums, np.uint32), 32)[: x.size]


def _groups(x: np.ndarray) -> np.ndarray:
    y = np.zeros_like(x)
    for warp in range(0, x.size, 32):
        lanes = np.arange(warp, min(warp + 32, x.size))
        for key in range(3):
            group = lanes[x[lanes] % 3 == key]
            y[group] = np.bitwise_xor.reduce(np.full(group.size, 31, np.uint32))
    y = np.where(y & 1, y + 3, y).astype(np.uint32)
    return _plus_sum_of_warp(y, x)


def _locked(x: np.ndarray) -> np.ndarray:
    return np.full_like(x, x.sum(dtype=np.uint32))


CASES = {
    "pairs in two branches": Case(
        """
        volatile __shared__ unsigned m[128];
        const unsigned pair = 3u << (t & 30);
        if (t & 1) {
            m[t] = x;
            if (x & 2) m[t] = m[t] * 3;
            __syncwarp(pair);
            x += m[t ^ 1];
        } else {
            m[t] = x * 7;
            __syncwarp(pair);
            x ^= m[t ^ 1];
        }
        """,
        _pairs,
    ),
    "after the branch": Case(
        """
        volatile __shared__ unsigned m[128];
        m[t] = x;
        if (t == 0) {
            __syncwarp(3);
            x += m[1] * 5;
        } else {
            x = x * 7;
        }
        if (t == 1) __syncwarp(3);
        """,
        _after,
    ),
    "groups of eight in the cases of a switch": Case(
        """
        volatile __shared__ unsigned m[128];
        const unsigned group = 0xffu << (t & 24);
        for (int round = 0; round < 3; ++round) {
            m[t] = x;
            switch (t & 3) {
                case 0: __syncwarp(group); break;
                case 1: x += 1; __syncwarp(group); x -= 1; break;
                case 2: if (x & 1) m[t] = x; __syncwarp(group); break;
                default: __syncwarp(group);
            }
            x += m[t ^ 4] * 3;
            __syncwarp(group);
        }
        """,
        _cases,
    ),
    "loops with different numbers of iterations": Case(
        """
        const unsigned last = t % 7;
        for (unsigned i = 0, mask = __activemask(); i <= last; ++i) {
            x = x * 3 + __shfl_sync(mask, x, __ffs(mask) - 1);
            mask = __ballot_sync(mask, i < last);
        }
        """,
        _trips,
    ),
    "functions that return early": Case(
        "x = t % 3 ? f(x, t) : f(x + 1, t); x += __reduce_add_sync(~0u, x);",
        _functions,
        """
        __device__ __noinline__ unsigned f(unsigned x, unsigned t) {
            if (t & 1) { x *= 3; __syncwarp(); return x + 1; }
            for (unsigned i = 0; i < t % 32; ++i) x = x * 5 + i;
            __syncwarp();
            return x;
        }
        """,
    ),
    "all lanes after groups": Case(
        """
        __shared__ unsigned m[128];
        m[t] = x;
        __syncthreads();
        x = m[t];
        const unsigned mask = __match_any_sync(__activemask(), x % 3);
        __match_any_sync(mask, (unsigned long long)(t % 3) << 32);
        unsigned y = __reduce_xor_sync(mask, 31u);
        if (y & 1) y = functions[y % 2](y);
        x = y + __reduce_add_sync(~0u, x);
        """,
        _groups,
        """
        typedef unsigned (*Function)(unsigned);
        __device__ __noinline__ unsigned f0(unsigned x) { return x * 2654435761u ^ x >> 7; }
        __device__ __noinline__ unsigned f1(unsigned x) { return x + 3; }
        __device__ Function functions[2] = {f0, f1};
        extern "C" __global__ void other(unsigned* out) { out[0] = functions[out[1] % 2](out[2]); }
        """,
    ),
    "a lock that a function takes": Case(
        """
        __shared__ unsigned mutex, total;
        if (t == 0) mutex = total = 0;
        __syncthreads();
        lock(&mutex);
        *(volatile unsigned*)&total = *(volatile unsigned*)&total + x;
        unlock(&mutex);
        __syncthreads();
        x = total;
        """,
        _locked,
        """
        __device__ __noinline__ void lock(unsigned* m) { while (atomicCAS(m, 0u, 1u)) {} }
        __device__ __noinline__ void unlock(unsigned* m) { __threadfence(); atomicExch(m, 0u); }
        """,
    ),
}


@pytest.mark.parametrize("threads", [32, 40, 96, 8])
@pytest.mark.parametrize("name", CASES)
def test_no_lane_waits_for_ever(name: str, threads: int) -> None:
    case = CASES[name]
    source = f"""{case.functions}
        extern "C" __global__ void k(const unsigned* in, unsigned* out) {{
            const unsigned t = threadIdx.x;
            unsigned x = in[t];
            {case.body}
            out[t] = x;
        }}"""
    kernel = coalesce.Kernel(source, "k", device="sim", instruction_limit=10_000_000)
    x = np.random.default_rng(3).integers(0, 2**32, threads, dtype=np.uint32)
    with np.errstate(over="ignore"):
        expected = case.expected(x)
    for how in (kernel.launch, kernel.profile, kernel.trace, kernel.check):
        out = np.zeros_like(x)
        result = how(1, threads, x, out)
        np.testing.assert_array_equal(out, expected, err_msg=how.__name__)
    assert not [str(finding) for finding in result]
