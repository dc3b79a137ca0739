"""Lanes, warps and blocks that wait for each other: locks, flags, barriers."""

import numpy as np
import pytest
from both_ways import run


def test_calls_that_are_interleaved(device):
    """Lanes of one warp wait for each other in different functions, each with its own registers."""
    out = np.zeros((2, 32))
    run(
        device,
        """
        __device__ __noinline__ double wide(volatile int *turn, int i, double a) {
            double x[6];
            for (int j = 0; j < 6; ++j) x[j] = a * (j + 1);
            double s = 0;
            for (int round = 0; round < 40; ++round) {
                while (*turn % 2 != 0) {}
                for (int j = 0; j < 6; ++j) s += x[j] * (round + i), x[j] += 1;
                __threadfence_block();
                *turn = *turn + 1;
            }
            return s;
        }
        __device__ __noinline__ int narrow(volatile int *turn, int i, int a) {
            int p = a, q = a + 1, r = a + 2, t = a + 3;
            for (int round = 0; round < 40; ++round) {
                while (*turn % 2 != 1) {}
                p += q * round, q ^= r + round, r += t - round, t = t * 3 + i;
                __threadfence_block();
                *turn = *turn + 1;
            }
            return p ^ q ^ r ^ t;
        }
        extern "C" __global__ void k(double *out) {
            __shared__ int turn[16];
            int i = threadIdx.x;
            if (i < 16) turn[i] = 0;
            __syncthreads();
            out[i] = i < 16 ? wide(turn + i, i, i * 0.5) : narrow(turn + i - 16, i, i);
        }""",
        out,
    )

    def wide(i: int) -> float:
        x, s = [i * 0.5 * (j + 1) for j in range(6)], 0.0
        for r in range(40):
            for j in range(6):
                s += x[j] * (r + i)
                x[j] += 1
        return s

    def wrap(v: int) -> int:
        return (v + 2**31) % 2**32 - 2**31

    def narrow(i: int) -> int:
        p, q, r, t = i, i + 1, i + 2, i + 3
        for n in range(40):
            p = wrap(p + q * n)
            q = wrap(q ^ (r + n))
            r = wrap(r + t - n)
            t = wrap(t * 3 + i)
        return p ^ q ^ r ^ t

    np.testing.assert_allclose(out[0][:16], [wide(i) for i in range(16)], rtol=1e-12)
    np.testing.assert_array_equal(out[0][16:], [narrow(i) for i in range(16, 32)])


@pytest.mark.parametrize("threads", [96, 352])
def test_a_lock_that_is_held_in_any_warp(device, threads):
    """Lanes of all warps must continue with the lock, however many warps wait for it."""
    total = np.zeros(1, np.int32)
    run(
        device,
        """
        __device__ int lock;
        extern "C" __global__ void k(int *total) {
            while (atomicCAS(&lock, 0, 1) != 0) {}
            *(volatile int *)total = *(volatile int *)total + threadIdx.x;
            __threadfence();
            atomicExch(&lock, 0);
        }""",
        total,
        block=threads,
    )
    assert total == threads * (threads - 1) // 2


def test_barriers_do_not_wait_for_exited_threads(device):
    """Since compute capability 7.0, a barrier waits only for threads that have not exited."""
    out = np.zeros((3, 96), np.int32)
    run(
        device,
        """
        extern "C" __global__ void k(int *out, int n) {
            __shared__ int s[96];
            int i = threadIdx.x;
            if (i >= n) return;  // a part of a warp, and whole warps
            s[i] = i * i;
            __syncthreads();
            out[i] = s[n - 1 - i];
            out[96 + i] = __syncthreads_count(i % 3 == 0);
            out[192 + i] = __syncthreads_and(i < n) + 2 * __syncthreads_or(i >= n);
        }""",
        out,
        41,
        block=96,
    )
    i = np.arange(41)
    np.testing.assert_array_equal(out[0, :41], (40 - i) ** 2)
    assert (out[1, :41] == 14).all()
    assert (out[2, :41] == 1).all()
    assert not out[:, 41:].any()


def test_threads_that_leave_while_others_wait(device):
    """In each iteration a barrier waits for some threads, which then exit and never arrive."""
    out = np.zeros((2, 128), np.int32)
    run(
        device,
        """
        extern "C" __global__ void k(volatile int *from, int *out) {
            int i = threadIdx.x;
            for (int round = 0; round < 128; round += 8) {
                if (i < round + 8 && i >= round) {
                    int s = 0;
                    for (int j = 0; j < 1000; ++j) s ^= from[j % 128] & j;
                    atomicAdd(out + 128 + i, (s & 0) + round);
                    return;
                }
                __syncthreads();
                atomicAdd(out + i, 1);
            }
        }""",
        np.ones(128, np.int32),
        out,
        block=128,
    )
    np.testing.assert_array_equal(out, [np.arange(128) // 8, np.arange(128) // 8 * 8])


def test_a_barrier_of_so_many_threads_counts_whole_warps(device):
    """A named barrier of 64 threads counts whole warps, with exited lanes (PTX ISA, barrier)."""
    out = np.zeros(64, np.int32)
    run(
        device,
        """
        extern "C" __global__ void k(int *out) {
            __shared__ int s[64];
            int i = threadIdx.x;
            s[i] = i;
            if (i % 32 >= 20) return;
            asm volatile("bar.sync 1, 64;" ::: "memory");
            out[i] = s[63 - i];
        }""",
        out,
        block=64,
    )
    i = np.arange(64)
    np.testing.assert_array_equal(out, np.where(i % 32 < 20, 63 - i, 0))
