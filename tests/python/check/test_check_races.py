"""Planted data races: a check finds each race, and finds nothing in the corrected kernel."""

import numpy as np
import pytest

import coalesce

pytestmark = pytest.mark.usefixtures("on_simulator")


def check(source, grid, block, *arguments, entry="k", options=(), **settings):
    kernel = coalesce.Kernel(source, entry, options=options)
    return kernel.check(grid, block, *arguments, **settings)


def kinds(findings):
    return {(f.kind, f.severity) for f in findings}


RACE = {("race", "error")}
LOCKSTEP = {("lockstep", "warning")}
FENCE = {("fence", "warning")}


def integers(*shape):
    return np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)


def zeros(*shape):
    return np.zeros(shape, np.int32)


# name: (source with a placeholder, missing text, (grid, block, arguments), findings without it)
PLANTED = {
    "no barrier after filling a tile": (
        """extern "C" __global__ void k(int *x) {
            __shared__ int tile[64];
            int i = threadIdx.x;
            tile[i] = x[i];
            HOLE
            x[i] = tile[63 - i];
        }""",
        "__syncthreads();",
        lambda: (1, 64, integers(64)),
        RACE,
    ),
    "no barrier before a tile is filled again": (
        """extern "C" __global__ void k(const int *x, int *out) {
            __shared__ int tile[64];
            int i = threadIdx.x, sum = 0;
            for (int r = 0; r < 3; ++r) {
                tile[i] = x[64 * r + i];
                __syncthreads();
                sum += tile[63 - i];
                HOLE
            }
            out[i] = sum;
        }""",
        "__syncthreads();",
        lambda: (1, 64, integers(3, 64), zeros(64)),
        RACE,
    ),
    "no barrier between the steps of a sum": (
        """extern "C" __global__ void k(int *x) {
            __shared__ int s[128];
            int i = threadIdx.x;
            s[i] = x[i];
            __syncthreads();
            for (int half = 64; half > 0; half /= 2) {
                if (i < half) s[i] += s[i + half];
                HOLE
            }
            if (i == 0) x[0] = s[0];
        }""",
        "__syncthreads();",
        lambda: (1, 128, integers(128)),
        RACE,
    ),
    "a shared histogram read without a barrier": (
        """extern "C" __global__ void k(const int *x, int *out) {
            __shared__ int bins[8];
            if (threadIdx.x < 8) bins[threadIdx.x] = 0;
            __syncthreads();
            atomicAdd(&bins[x[threadIdx.x] % 8], 1);
            HOLE
            if (threadIdx.x < 8) out[threadIdx.x] = bins[threadIdx.x];
        }""",
        "__syncthreads();",
        lambda: (1, 96, integers(96), zeros(8)),
        RACE,
    ),
    "the barrier of one buffer too few": (
        """extern "C" __global__ void k(const int *x, int *out) {
            __shared__ int tile[2][64];
            int i = threadIdx.x, sum = 0;
            for (int r = 0; r < 4; ++r) {
                tile[r % 2][i] = x[64 * r + i];
                HOLE
                sum += tile[r % 2][63 - i];
            }
            out[i] = sum;
        }""",
        "__syncthreads();",
        lambda: (1, 64, integers(4, 64), zeros(64)),
        RACE,
    ),
    "branches of one warp": (
        """extern "C" __global__ void k(int *x, int *out) {
            __shared__ int s[32];
            int i = threadIdx.x, n = x[i], sum = 0;
            s[i] = 0;
            __syncwarp();
            if (i < 16) {
                for (int j = 0; j <= n % 7; ++j) sum += x[j];
                s[i] = sum;
                HOLE
            } else {
                for (int j = 0; j <= n % 5; ++j) sum += x[j] * j;
                HOLE
                out[i] = s[i - 16] + sum;
            }
        }""",
        "__syncwarp();",
        lambda: (1, 32, integers(32), zeros(32)),
        RACE,
    ),
    "a named barrier for too few warps": (
        """extern "C" __global__ void k(int *out) {
            __shared__ int s[32];
            int i = threadIdx.x % 32, w = threadIdx.x / 32;
            if (w == 0) s[i] = i;
            if (w < 2 HOLE) asm volatile("barrier.cta.sync 1, %0;" ::"r"(N) : "memory");
            if (w > 0) out[threadIdx.x] = s[31 - i];
        }""",
        "|| true",
        lambda: (1, 96, zeros(96)),
        RACE,
    ),
    "an arrival taken for a barrier": (
        """extern "C" __global__ void k(int *x) {
            __shared__ int tile[64];
            int i = threadIdx.x;
            tile[i] = x[i];
            asm volatile("bar.BAR 0, 64;" ::: "memory");
            x[i] = tile[63 - i];
        }""",
        "BAR",
        lambda: (1, 64, integers(64)),
        RACE,
    ),
    "a copy that nobody waits for": (
        """#include <cuda_pipeline.h>
        extern "C" __global__ void k(const int *x, int *out) {
            __shared__ int tile[32];
            int i = threadIdx.x;
            __pipeline_memcpy_async(tile + i, x + i, 4);
            __pipeline_commit();
            HOLE
            __syncwarp();
            out[i] = tile[31 - i];
        }""",
        "__pipeline_wait_prior(0);",
        lambda: (1, 32, integers(32), zeros(32)),
        RACE,
    ),
    "a copy that only its own thread waited for": (
        """#include <cuda_pipeline.h>
        extern "C" __global__ void k(const int *x, int *out) {
            __shared__ int tile[64];
            int i = threadIdx.x;
            __pipeline_memcpy_async(tile + i, x + i, 4);
            __pipeline_commit();
            __pipeline_wait_prior(0);
            HOLE
            out[i] = tile[63 - i];
        }""",
        "__syncthreads();",
        lambda: (1, 64, integers(64), zeros(64)),
        RACE,
    ),
    "a copy into a buffer that is still read": (
        """#include <cuda_pipeline.h>
        extern "C" __global__ void k(const int *x, int *out) {
            __shared__ int tile[64];
            int i = threadIdx.x, sum = 0;
            for (int r = 0; r < 3; ++r) {
                __pipeline_memcpy_async(tile + i, x + 64 * r + i, 4);
                __pipeline_commit();
                __pipeline_wait_prior(0);
                __syncthreads();
                sum += tile[63 - i];
                HOLE
            }
            out[i] = sum;
        }""",
        "__syncthreads();",
        lambda: (1, 64, integers(3, 64), zeros(64)),
        RACE,
    ),
    "a flag within a block without fences": (
        """extern "C" __global__ void k(const int *x, int *out) {
            __shared__ int data;
            __shared__ volatile int ready;
            if (threadIdx.x == 0) ready = 0;
            __syncthreads();
            if (threadIdx.x == 0) {
                data = x[0];
                HOLE
                ready = 1;
            }
            if (threadIdx.x == 32) {
                while (!ready) {}
                __threadfence_block();
                out[0] = data;
            }
        }""",
        "__threadfence_block();",
        lambda: (1, 64, integers(1), zeros(1)),
        RACE,
    ),
    "lanes that rely on lockstep": (
        """extern "C" __global__ void k(int *x) {
            __shared__ int s[32];
            int i = threadIdx.x;
            s[i] = x[i];
            HOLE
            x[i] = s[31 - i];
        }""",
        "__syncwarp();",
        lambda: (1, 32, integers(32)),
        LOCKSTEP,
    ),
    "a volatile sum in lockstep": (
        """extern "C" __global__ void k(int *x) {
            __shared__ volatile int s[64];
            int i = threadIdx.x;
            s[i] = x[i];
            s[i + 32] = x[i + 32];
            __syncwarp();
            for (int half = 32; half > 0; half /= 2) {
                int other = s[i + half % 64];
                HOLE
                if (i < half) s[i] = s[i] + other;
                HOLE
            }
            if (i == 0) x[0] = s[0];
        }""",
        "__syncwarp();",
        lambda: (1, 32, integers(64)),
        LOCKSTEP,
    ),
    "a shuffle taken for a barrier": (
        """extern "C" __global__ void k(int *x) {
            __shared__ int s[32];
            int i = threadIdx.x;
            s[i] = x[i];
            int v = __shfl_xor_sync(~0u, x[i], 1);
            HOLE
            x[i] = s[31 - i] + v;
        }""",
        "__syncwarp();",
        lambda: (1, 32, integers(32)),
        LOCKSTEP,
    ),
    "a lane published by another without a warp barrier": (
        """extern "C" __global__ void k(volatile int *data, int *flags, int *out) {
            int i = threadIdx.x;
            if (blockIdx.x == 0) {
                ((int *)data)[i] = i + 1;
                __threadfence();
                HOLE
                if (i == 0) atomicExch(flags, 1);
            } else {
                if (i == 0) while (atomicAdd(flags, 0) == 0) {}
                __syncwarp();
                out[i] = ((int *)data)[31 - i];
            }
        }""",
        "__syncwarp();",
        lambda: (2, 32, zeros(32), zeros(1), zeros(32)),
        LOCKSTEP,
    ),
    "blocks that add to one element": (
        """extern "C" __global__ void k(int *sum) {
            if (threadIdx.x == 0) ADD;
        }""",
        "ADD",
        lambda: (8, 32, zeros(1)),
        RACE,
    ),
    "neighbours read while they are written": (
        """extern "C" __global__ void k(int *x, int *y, int n) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            int sum = (i > 0 ? x[i - 1] : 0) + (i + 1 < n ? x[i + 1] : 0);
            TO[i] = sum;
        }""",
        "TO",
        lambda: (4, 32, integers(128), zeros(128), 128),
        RACE,
    ),
    "a counter set to zero by the kernel that counts": (
        """extern "C" __global__ void k(int *count) {
            if (blockIdx.x == 0 && threadIdx.x == 0) START;
            __syncthreads();
            atomicAdd(count, 1);
        }""",
        "START",
        lambda: (6, 32, zeros(1)),
        RACE,
    ),
    "the last block without a fence": (
        """extern "C" __global__ void k(int *partial, int *count, int *out) {
            __shared__ bool last;
            if (threadIdx.x == 0) {
                partial[blockIdx.x] = blockIdx.x;
                HOLE
                last = atomicAdd(count, 1) == gridDim.x - 1;
            }
            __syncthreads();
            if (last && threadIdx.x == 0) {
                int sum = 0;
                for (int b = 0; b < gridDim.x; ++b) sum += partial[b];
                *out = sum;
            }
        }""",
        "__threadfence();",
        lambda: (9, 64, zeros(9), zeros(1), zeros(1)),
        RACE,
    ),
    "a fence for the block where the device's is needed": (
        """extern "C" __global__ void k(int *partial, int *count, int *out) {
            if (threadIdx.x) return;
            partial[blockIdx.x] = blockIdx.x;
            __threadfenceHOLE();
            if (atomicAdd(count, 1) == gridDim.x - 1) {
                int sum = 0;
                for (int b = 0; b < gridDim.x; ++b) sum += partial[b];
                *out = sum;
            }
        }""",
        "",
        lambda: (9, 64, zeros(9), zeros(1), zeros(1)),
        RACE,
    ),
    "an element that its reader updates, too": (
        """extern "C" __global__ void k(int *sum, int *flag, int *out) {
            if (threadIdx.x) return;
            if (blockIdx.x != 0) {
                atomicAdd(sum, 1);
                HOLE
                atomicAdd(flag, 1);
                return;
            }
            while (atomicAdd(flag, 0) < gridDim.x - 1) {}
            atomicAdd(sum, 1);
            *out = *sum;
        }""",
        "__threadfence();",
        lambda: (5, 32, zeros(1), zeros(1), zeros(1)),
        RACE,
    ),
    "the last block of a barrier too few": (
        """extern "C" __global__ void k(int *partial, int *count, int *out) {
            __shared__ bool last;
            int i = threadIdx.x;
            partial[blockIdx.x * 64 + i] = i;
            __threadfence();
            HOLE
            if (i == 0) last = atomicAdd(count, 1) == gridDim.x - 1;
            __syncthreads();
            if (!last) return;
            int sum = 0;
            for (int b = 0; b < gridDim.x; ++b) sum += partial[b * 64 + i];
            out[i] = sum;
        }""",
        "__syncthreads();",
        lambda: (5, 64, zeros(5 * 64), zeros(1), zeros(64)),
        RACE,
    ),
    "a lock without fences": (
        """extern "C" __global__ void k(int *lock, int *sum) {
            if (threadIdx.x) return;
            while (atomicCAS(lock, 0, 1) != 0) {}
            HOLE
            *sum += 1;
            HOLE
            atomicExch(lock, 0);
        }""",
        "__threadfence();",
        lambda: (8, 32, zeros(1), zeros(1)),
        RACE,
    ),
    "a lock without a fence after it is taken": (
        """extern "C" __global__ void k(int *lock, int *sum) {
            if (threadIdx.x) return;
            while (atomicCAS(lock, 0, 1) != 0) {}
            HOLE
            *sum += 1;
            __threadfence();
            atomicExch(lock, 0);
        }""",
        "__threadfence();",
        lambda: (8, 32, zeros(1), zeros(1)),
        FENCE,
    ),
    "one thread takes a lock without a fence": (
        """extern "C" __global__ void k(int *lock, int *sum) {
            if (threadIdx.x % 32) return;
            while (atomicCAS_block(lock, 0, 1) != 0) {}
            if (threadIdx.x) { __threadfence_block(); } else { HOLE }
            *sum += threadIdx.x;
            __threadfence_block();
            atomicExch_block(lock, 0);
        }""",
        "__threadfence_block();",
        lambda: (1, 64, zeros(1), zeros(1)),
        FENCE,
    ),
    "a flag that is not volatile": (
        """extern "C" __global__ void k(int *data, int *flag, int *out) {
            if (threadIdx.x) return;
            if (blockIdx.x == 0) {
                *data = 5;
                __threadfence();
                STORE;
            } else {
                while (atomicAdd(flag, 0) == 0) {}
                *out = *data;
            }
        }""",
        "STORE",
        lambda: (2, 32, zeros(1), zeros(1), zeros(1)),
        RACE,
    ),
    "no barrier of the grid": (
        """__device__ void everyone(int *arrived, int blocks) {
            __syncthreads();
            if (threadIdx.x == 0) {
                __threadfence();
                atomicAdd(arrived, 1);
                while (*(volatile int *)arrived < blocks) {}
                __threadfence();
            }
            __syncthreads();
        }
        extern "C" __global__ void k(int *x, int *y, int *arrived, int n) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            y[i] = x[i] + 1;
            HOLE
            x[i] = y[n - 1 - i];
        }""",
        "everyone(arrived, gridDim.x);",
        lambda: (4, 32, integers(128), zeros(128), zeros(1), 128),
        RACE,
    ),
    "an atomic against a plain read": (
        """extern "C" __global__ void k(int *count, int *out) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            atomicAdd(count, 1);
            out[i] = READ;
        }""",
        "READ",
        lambda: (3, 32, zeros(1), zeros(96)),
        RACE,
    ),
    "atomics of block scope between blocks": (
        """extern "C" __global__ void k(int *count) {
            atomicAddHOLE(count, 1);
        }""",
        "",
        lambda: (3, 32, zeros(1)),
        RACE,
    ),
    "two blocks that write one element": (
        """extern "C" __global__ void k(int *out) {
            int i = blockIdx.x * STEP + threadIdx.x;
            out[i] = i + blockIdx.x;
        }""",
        "STEP",
        lambda: (3, 32, zeros(96)),
        RACE,
    ),
    "two blocks that write one value": (
        """extern "C" __global__ void k(int *out) {
            int i = blockIdx.x * STEP + threadIdx.x;
            out[i] = 1;
        }""",
        "STEP",
        lambda: (3, 32, zeros(96)),
        {("same_value", "warning")},
    ),
    "a write of all lanes at once": (
        """extern "C" __global__ void k(int *out) {
            out[threadIdx.x / STEP] = threadIdx.x;
        }""",
        "STEP",
        lambda: (1, 32, zeros(32)),
        RACE,
    ),
    "a row too long": (
        """extern "C" __global__ void k(const int *a, int *out, int rows, int cols) {
            int row = blockIdx.x;
            for (int c = threadIdx.x; c < cols HOLE; c += blockDim.x)
                out[row * cols + c] = 2 * a[row * cols + c] + row;
        }""",
        "",
        lambda: (3, 32, integers(4, 33), zeros(4, 33), 3, 33),
        RACE,
    ),
    "the read-only cache of an array that is written": (
        """extern "C" __global__ void k(int *x, int n, int zero) {
            int i = threadIdx.x;
            for (int r = 0; r < n; ++r) x[i] = LOAD(x + i + r * zero) + 1;
        }""",
        "LOAD",
        lambda: (1, 32, integers(32), 3, 0),
        {("stale_read", "error")},
    ),
}
# The text that replaces the placeholder: first in the faulty kernel, then in the corrected kernel.
# A kernel that is not listed lacks a statement: `HOLE` becomes nothing in the faulty kernel, and
# the missing statement in the corrected kernel.
FILLINGS = {
    "an arrival taken for a barrier": ("arrive", "sync"),
    "blocks that add to one element": ("*sum += 1", "atomicAdd(sum, 1)"),
    "neighbours read while they are written": ("x", "y"),
    "a counter set to zero by the kernel that counts": ("*count = 0", "(void)0"),
    "a flag that is not volatile": ("*flag = 1", "*(volatile int *)flag = 1"),
    "an atomic against a plain read": ("*count", "atomicAdd(count, 0)"),
    "two blocks that write one element": ("16", "32"),
    "two blocks that write one value": ("16", "32"),
    "a write of all lanes at once": ("32", "1"),
    "a fence for the block where the device's is needed": ("_block", ""),
    "atomics of block scope between blocks": ("_block", ""),
    "a row too long": ("+ 1", ""),
    "the read-only cache of an array that is written": ("__ldg", "*"),
}


def filled(name, corrected):
    source, missing, _, _ = PLANTED[name]
    hole = missing if missing.isupper() else "HOLE"
    text = FILLINGS.get(name, ("", missing))[corrected]
    # The named barrier has as many threads as arrive at it.
    return source.replace(hole, text).replace("(N)", "(96)" if corrected else "(64)")


# The table of planted faults, and the test that is parametrized with their names.
TABLES = {"PLANTED": "test_planted_race"}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_race(name):
    _, _, launch, expected = PLANTED[name]
    findings = check(filled(name, corrected=False), *launch())
    assert kinds(findings) == expected, str(findings)
    for f in findings:
        assert len(f.accesses) == 2
        assert all(0 < line <= len(PLANTED[name][0].splitlines()) for line in f.lines)


@pytest.mark.parametrize("name", PLANTED)
def test_corrected_twin(name):
    findings = check(filled(name, corrected=True), *PLANTED[name][2]())
    assert not findings, str(findings)


def test_the_report_of_a_race():
    findings = check(filled("no barrier after filling a tile", False), 1, 64, integers(64))
    (race,) = findings
    assert race.space == "shared"
    assert race.array == "tile"
    assert race.bytes == 4
    assert race.lines == (6, 4)
    assert [a.what for a in race.accesses] == ["read", "write"]
    assert race.first.text == "x[i] = tile[63 - i];"
    (i,) = race.index
    # Lane 0 of the first warp runs first here. It reads the element that a thread of the other warp
    # writes later.
    assert race.first.thread[0] == 63 - i < 32 <= i == race.second.thread[0]
    assert race.count == 64
    assert str(race).startswith(
        f"error: data race on tile[{i}]: a read and a write are not ordered"
    )
    assert "no __syncthreads() is between the two accesses" in race.details


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("a copy that nobody waits for", "the copy may not be complete: wait for it first"),
        ("a copy that only its own thread waited for", "no __syncthreads() is between the two"),
        ("a copy into a buffer that is still read", "put it before the copy"),
    ],
)
def test_the_advice_for_an_asynchronous_copy(name, advice):
    findings = check(filled(name, corrected=False), *PLANTED[name][2]())
    assert all(any(advice in d for d in finding.details) for finding in findings), str(findings)


@pytest.mark.parametrize(("grid", "block"), [(1, 32), (1, 64), (2, 1)])
def test_a_race_of_updates_needs_an_atomic(grid, block):
    source = "__global__ void k(int *h, const int *x) { h[x[threadIdx.x] & 1]++; }"
    for finding in check(source, grid, block, zeros(2), zeros(64)):
        assert any("use an atomic, such as atomicAdd()" in d for d in finding.details)


def test_a_race_of_a_sum_needs_a_barrier():
    """The racing accesses are on one line, but only one of them belongs to the update."""
    source = """__global__ void k(int *x) {
        for (int n = blockDim.x / 2; n > 0; n /= 2)
            if (threadIdx.x < n) x[threadIdx.x] += x[threadIdx.x + n];
    }"""
    findings = check(source, 1, 128, integers(128))
    assert findings
    assert not any("an atomic" in d for finding in findings for d in finding.details)


@pytest.mark.parametrize(
    ("line", "updates"),
    [
        ("h[0] = h[0] * v + 1;", True),
        ("int old = h[0];\n old = 2 * old + v;\n h[0] = old;", True),
        ("if (h[0] < v) h[0] = v;", True),
        ("h[0] = changed(h[0]);", True),
        ("h[0] = v; out[i] = out[i] / h[0];", False),
        ("h[0] = v; out[i] += h[0];", False),
        ("out[i] = h[0]; h[0] = v;", False),
        ("h[0] = v + (out[h[0] & 63] = i);", False),
    ],
)
def test_what_updates_an_element(line, updates):
    """The data flow decides: the store writes a value that was computed from the loaded one."""
    source = f"""__device__ __noinline__ int changed(int x) {{ return x * x + 1; }}
    __global__ void k(volatile int *x, int *h, int *out) {{
        int i = threadIdx.x, v = x[i];
        {line}
    }}"""
    for options in [], ["-G"]:
        kernel = coalesce.Kernel(source, "k", options=options)
        found = [
            f for f in kernel.check(1, 64, integers(64), zeros(1), zeros(64)) if f.array == "h"
        ]
        said = [any("an atomic" in d for d in f.details) for f in found]
        assert found
        assert any(said) if updates else not any(said), options


@pytest.mark.parametrize("pitch", [32, 64, 65, 101, 130])
@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize(("rows", "condition"), [(64, "true"), (53, "true"), (64, "r % 3 == 1")])
def test_a_write_into_rows_that_others_have_read(pitch, down, rows, condition):
    """Lanes walk along rows of a matrix, also in warps of which only some lanes are active."""
    source = f"""__global__ void k(float *a, float *out, int rows, int pitch, int wrong) {{
        int r = blockIdx.x * blockDim.x + threadIdx.x;
        float sum = 0;
        if (r < rows && {condition})
            for (int j = 0; j < pitch; ++j) {{
                int k = {"pitch - 1 - j" if down else "j"};
                sum += a[r * pitch + k];
                if (blockIdx.y == 3 && j == wrong) a[r * pitch + k] = sum;
            }}
        out[(blockIdx.y * blockDim.y + threadIdx.y) * rows + r % rows] = sum;
    }}"""
    kernel = coalesce.Kernel(source, "k")
    size = (rows, pitch), (8, rows)
    for wrong in -1, 0, pitch // 2, pitch - 1:
        arrays = (np.ones(s, np.float32) for s in size)
        found = kernel.check((2, 4), (32, 2), *arrays, np.int32(rows), np.int32(pitch), wrong)
        races = [f for f in found if f.array == "a"]
        column = pitch - 1 - wrong if down else wrong
        assert {f.index[1] for f in races} == ({column} if wrong >= 0 else set())


def test_a_race_with_a_right_result_is_found():
    """The simulator runs one warp after another, so the result is right.

    The check still finds the race.
    """
    x, out = integers(64), zeros(64)
    source = """extern "C" __global__ void k(const int *x, int *out) {
        __shared__ int s[64];
        s[threadIdx.x] = x[threadIdx.x];
        if (threadIdx.x >= 32) out[threadIdx.x] = s[threadIdx.x - 32];
    }"""
    findings = check(source, 1, 64, x, out)
    np.testing.assert_array_equal(out[32:], x[:32])
    assert kinds(findings) == RACE
    assert findings[0].count == 32


def test_values_of_two_writers():
    different = check(filled("two blocks that write one element", False), 3, 32, zeros(96))
    assert (
        different[0].title
        == "two blocks write different values to out[16], and the writes are not ordered"
    )
    assert different[0].count == 32
    same = check(filled("two blocks that write one value", False), 3, 32, zeros(96))
    assert (
        same[0].title
        == "two blocks write the same value to out[16], and the writes are not ordered"
    )
    at_once = check(filled("a write of all lanes at once", False), 1, 32, zeros(32))
    assert at_once[0].title == (
        "lanes of one warp write different values to out[0] in one instruction"
    )
    assert at_once[0].count == 31


def test_values_are_not_compared_across_atomics():
    """Both blocks write 0.

    But the atomics in between change the value that the second block replaces.
    """
    source = """extern "C" __global__ void k(int *count) {
        if (threadIdx.x == 0) *count = 0;
        __syncthreads();
        atomicAdd(count, 1);
    }"""
    findings = check(source, 2, 32, zeros(1))
    assert kinds(findings) == RACE
    assert "data race on count[0]: a write and a write are not ordered" in [
        f.title for f in findings
    ]


def test_only_the_expected_value_of_a_compare_and_swap_may_be_read_plainly():
    """Other plain reads, and plain writes, race with a compare-and-swap as with any atomic."""
    source = """extern "C" __global__ void k(int *state, int *data, int *out) {
        int *mine = state + threadIdx.x;
        int seen = *mine;
        if (seen == 0) {
            data[threadIdx.x] = blockIdx.x;
            atomicCAS(mine, 0, 1);
        } else {
            out[threadIdx.x] = data[threadIdx.x];
        }
        END
    }"""
    ints = [np.zeros(32, np.int32) for _ in range(3)]
    roles = kinds_of(source.replace("END", ""), *ints)
    assert roles == {("race", "data")}
    ints = [np.zeros(32, np.int32) for _ in range(3)]
    roles = kinds_of(source.replace("END", "*mine = 3 + blockIdx.x;"), *ints)
    assert roles == {("race", "data"), ("race", "state")}


def kinds_of(source, *arguments):
    """Return the findings of a check of two blocks as (kind, array)."""
    return {(f.kind, f.array) for f in coalesce.Kernel(source, "k").check(2, 32, *arguments)}


@pytest.mark.parametrize("first", [0, 1])
def test_blocks_race_in_either_order(first):
    """One block writes and another reads. The race is found whichever block runs first."""
    source = """extern "C" __global__ void k(int *x, int *out, int first) {
        if (threadIdx.x == 0) {
            if (blockIdx.x == first) x[0] = 1;
            else out[blockIdx.x] = x[0];
        }
    }"""
    findings = check(source, 2, 32, zeros(1), zeros(2), first)
    assert kinds(findings) == RACE
    assert {a.what for a in findings[0].accesses} == {"read", "write"}
    assert {a.block for a in findings[0].accesses} == {(0, 0, 0), (1, 0, 0)}


def test_many_lines_are_capped():
    """A report lists a hundred groups and counts the rest."""
    lines = "\n".join(f"x[{n}] += 1;" for n in range(120))
    source = f'extern "C" __global__ void k(int *x) {{\nif (threadIdx.x == 0) {{\n{lines}\n}} }}'
    findings = check(source, 2, 32, zeros(120))
    assert len(findings) == 100
    # Each line has a read and a write that conflict with a write of the other block.
    assert findings.left_out > 0
    assert "more findings, at other lines, are not listed" in str(findings)


@pytest.mark.parametrize("threads", [32, 64])
def test_a_race_names_the_instruction_that_reads(threads):
    """Two instructions of a warp read the same element; only the first races with the write."""
    source = """extern "C" __global__ void k(float *out) {
        __shared__ float s[64];
        int t = threadIdx.x;
        s[t] = t;
        __syncthreads();
        float left = t ? s[t - 1] : 0;
        float own = s[t];
        s[t] = own + left;
        __syncthreads();
        out[t] = s[t];
    }"""
    findings = check(source, 1, threads, np.zeros(64, np.float32))
    assert [f.lines for f in findings] == [(6, 8)], str(findings)
    read = next(a for a in findings[0].accesses if a.what == "read")
    assert read.text == "float left = t ? s[t - 1] : 0;"


def test_reads_of_two_instructions_leave_room_for_another_warp():
    """Warp 2 reads each element twice. Then it waits for warp 1, and meanwhile warp 0 reads."""
    source = """extern "C" __global__ void k(float *out) {
        __shared__ float s[32];
        int t = threadIdx.x % 32, warp = threadIdx.x / 32;
        if (warp == 2) s[t] = t;
        __syncthreads();
        if (warp == 2) out[t] = s[t] + s[31 - t];
        if (warp != 0) asm volatile("bar.sync 1, 64;");
        if (warp == 0) out[32 + t] = s[t];
        if (warp == 2) s[t] = 0;
    }"""
    findings = check(source, 1, 96, np.zeros(64, np.float32))
    # The read comes first in the report: it was simulated before the write.
    assert [f.lines for f in findings] == [(8, 9)], str(findings)


def elements(order, random):
    """Return the element of 192 that each of 128 threads chooses."""
    t = np.arange(128)
    chosen = {
        "in order": t,
        "shifted": (t + random.choice([1, 2, 5, 31, 32, 33, 64])) % 192,
        "exchanged": t ^ random.choice([1, 2, 4, 16, 31, 32]),
        "backwards": 127 - t,
        "apart": t * random.choice([5, 7, 25, 35]) % 192,
        "at random": random.permutation(192)[:128],
    }
    return chosen[order].astype(np.int32)


ORDERS = ["in order", "shifted", "exchanged", "backwards", "apart", "at random"]


@pytest.mark.parametrize("read", ORDERS)
@pytest.mark.parametrize("written", ORDERS)
def test_every_race_counts_and_the_first_one_is_shown(written, read):
    """Every element has at most one writer and one reader. Warps run one after the other."""
    source = """extern "C" __global__ void k(const int *to, const int *from, int *out) {
        __shared__ TYPE s[192];
        int t = threadIdx.x, i = to[t], j = from[t];
        s[t] = 0;
        if (t < 64) s[128 + t] = 0;
        __syncthreads();
        s[i] = t;
        out[t] = s[j];
    }"""
    for seed, element in enumerate(["unsigned char", "int", "double"]):
        random = np.random.default_rng(seed)
        to, from_ = elements(written, random), elements(read, random)
        writers, readers = ({int(e): t for t, e in enumerate(x)} for x in (to, from_))
        # The warp that arrives last at the barrier continues first. The later of two warps finds
        # their race: at its writes, or at its reads after them.
        turn = [1, 2, 3, 0]
        races = []
        for e, t in writers.items():
            u = readers.get(e, t)
            late_write = turn[t // 32] > turn[u // 32]
            when = (turn[t // 32], 0, t) if late_write else (turn[u // 32], 1, u)
            if u != t:
                races.append((t // 32 == u // 32, when, e))
        findings = check(source.replace("TYPE", element), 1, 128, to, from_, zeros(128))
        assert sum(f.count for f in findings) == len(races), str(findings)
        shown = [[min(races)[2]]] if races else []  # a race of two warps, if there is one
        assert [list(f.index) for f in findings] == shown, str(findings)


STRICT = {
    "volatile data": (
        """extern "C" __global__ void k(volatile int *x) {
            HOLE = blockIdx.x;
        }""",
        ("x[threadIdx.x]", "x[threadIdx.x + blockIdx.x * blockDim.x]"),
        "race",
    ),
    "a volatile flag is no lock": (
        """extern "C" __global__ void k(volatile int *x) {
            if (threadIdx.x) return;
            if (blockIdx.x == 0) { x[1] = 7; __threadfence(); x[0] = 1; }
            else { HOLE x[2] = x[1]; }
        }""",
        ("if (x[0] == 0) return;", "while (x[0] == 0) {}"),
        "race",
    ),
    "lanes in lockstep": (
        """extern "C" __global__ void k(int *x) {
            __shared__ int s[32];
            s[threadIdx.x] = 1;
            HOLE
            x[threadIdx.x + 32 * blockIdx.x] = s[threadIdx.x ^ 1];
        }""",
        ("", "__syncwarp();"),
        "lockstep",
    ),
    "the same value": (
        """extern "C" __global__ void k(int *x) { HOLE x[0] = 1; }""",
        ("", "if (threadIdx.x == 0 && blockIdx.x == 0)"),
        "same_value",
    ),
}


@pytest.mark.parametrize("name", STRICT)
def test_strict_rules(name):
    source, (wrong, right), kind = STRICT[name]
    launch = (2, 32, zeros(64))
    findings = check(source.replace("HOLE", wrong), *launch, strict=True)
    assert kinds(findings) == {(kind, "error")}, str(findings)
    assert not check(source.replace("HOLE", wrong), *launch).errors
    assert not check(source.replace("HOLE", right), *launch, strict=True)


def test_a_barrier_of_more_blocks_than_run_at_once():
    source = """extern "C" __global__ void k(volatile int *x) {
        if (threadIdx.x) return;
        __threadfence();
        atomicAdd((int *)x, 1);
        while (*x < gridDim.x) {}
    }"""
    assert not check(source, 8, 1024, zeros(1), instruction_limit=100_000)
    (finding,) = check(source, 300, 1024, zeros(1), instruction_limit=100_000)
    assert finding.kind == "stopped"
    assert "has 300 blocks, and at most 264 can run at once" in str(finding)


@pytest.mark.parametrize("take", ["atomicExch(&lock, 1) != 0", "atomicCAS(&lock, 0, 1) != 0"])
@pytest.mark.parametrize("update", ["n++;", "n = n * 3 + i;"])
def test_a_lock_without_fences(take, update):
    source = f"""extern "C" __global__ void k(int *out) {{
        __shared__ int lock, n;
        int i = threadIdx.x;
        if (i == 0) lock = n = 0;
        __syncthreads();
        while ({take}) {{ }}
        FENCE {update} FENCE
        atomicExch(&lock, 0);
        __syncthreads();
        *out = n;
    }}"""
    out = np.zeros(1, np.int32)
    (race,) = (f for f in check(source.replace("FENCE", ""), 1, 64, out) if f.kind == "race")
    assert race.details[-1].startswith("if a lock protects the element: put __threadfence_block()")
    fixed = check(source.replace("FENCE", "__threadfence_block();"), 1, 64, out)
    assert {f.kind for f in fixed} == {"same_value"}  # of `*out = n`
