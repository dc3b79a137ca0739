"""Times that the simulator cannot model are not shown, everywhere in the same way."""

import json
import math

import numpy as np
import pytest

import coalesce
from coalesce.profiling.hardware import exactness

A = np.random.default_rng(1).random((128, 128), dtype=np.float32)

MMA = """
extern "C" __global__ void mma(float* out, int n) {
    float d[4] = {};
    unsigned a[4] = {0x3c003c00, 0x3c003c00, 0x3c003c00, 0x3c003c00}, b[2] = {a[0], a[0]};
    for (int i = 0; i < n; ++i)
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
            "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    out[blockIdx.x * blockDim.x + threadIdx.x] = d[0] + d[1] + d[2] + d[3];
}
"""


@pytest.mark.parametrize("variant", ["tma", "tensor_map", "tf32"])
def test_copies_and_products_of_warpgroups_have_no_time(variant: str) -> None:
    _, timing = coalesce.matmul(A, A, variant=variant, device="sim", return_timing=True)
    assert all(map(math.isnan, (timing.kernel_ms, timing.gflops, timing.gbps)))
    assert "their time is not modelled" in timing.no_time
    assert repr(timing).startswith("Timing(no time modelled on sim:")
    profile = coalesce.profile("matmul", A, A, variant=variant, device="sim")
    assert profile.modelled_ms is None
    assert profile.not_modelled == timing.no_time
    assert f"Caches and time are not modelled: {timing.no_time}." in " ".join(str(profile).split())
    assert "modelled estimates" not in " ".join(str(profile).split())


def test_a_benchmark_shows_no_time_and_says_why() -> None:
    table = coalesce.benchmark(
        "matmul", A, A, variants=["tma", "tiled", "naive"], device="sim", runs=1
    )
    row = next(line for line in str(table).splitlines() if line.strip().startswith("tma"))
    assert row.split()[1:4] == ["-", "-", "-"]
    assert "- for tma: no time is modelled, because bulk copies" in " ".join(str(table).split())
    assert [r.speedup for r in table] == [None, None, None]
    assert json.loads(json.dumps(table.to_dict(), allow_nan=False))["rows"][0]["timing"]["no_time"]
    assert "tma" in (table.to_html() or "")


def test_a_plot_of_a_missing_time_is_refused() -> None:
    pytest.importorskip("matplotlib")
    _, timing = coalesce.matmul(A, A, variant="tma", device="sim", return_timing=True)
    with pytest.raises(ValueError, match="'tma' has no time: bulk copies"):
        coalesce.plots.ladder({"tma": timing})


def test_products_of_warps_take_the_time_of_the_tensor_cores() -> None:
    kernel = coalesce.Kernel(MMA, "mma", device="sim")
    record = kernel.launch(132 * 4, 256, np.zeros(132 * 4 * 256, np.float32), 300, runs=1)
    assert record.modelled is not None
    assert record.modelled.bound == "tensor"
    # A multiprocessor executes 4 blocks of 8 warps, and each warp makes 300 products. One product
    # takes 6 cycles of one of its four tensor cores (mma_counters_h200.json).
    assert record.modelled.cycles["tensor"] == 4 * 8 * 300 * 6 / 4


def test_products_on_ptx_have_no_time() -> None:
    ptx = coalesce.Kernel(MMA, "mma", device="sim").ptx
    record = coalesce.Kernel(ptx, "mma", device="sim").launch(
        1, 32, np.zeros(32, np.float32), 1, runs=1
    )
    assert not record.counts.machine_code
    assert "PTX" in record.no_time
    assert math.isnan(record.kernel_ms)


# Kernels that wait for other blocks or use the heap, and kernels that only look like them.
WAITING = r"""
#include <cooperative_groups.h>
#include <cuda/atomic>
#define FIRST (threadIdx.x == 0)
extern "C" __global__ void lock(float* x, int* state) {
    if (FIRST) {
        while (atomicCAS(state, 0, 1) != 0) {}
        __threadfence();
        x[0] += 1.0f;
        __threadfence();
        atomicExch(state, 0);
    }
}
extern "C" __global__ void tickets(float* x, int* state) {
    if (FIRST) {
        const int mine = atomicAdd(&state[0], 1);
        while (*(volatile int*)&state[1] != mine) {}
        x[0] += 1.0f;
        __threadfence();
        atomicAdd(&state[1], 1);
    }
}
extern "C" __global__ void look_back(float* x, int* state) {
    if (FIRST && blockIdx.x) while (*(volatile int*)&state[blockIdx.x - 1] == 0) {}
    if (FIRST) {
        __threadfence();
        *(volatile int*)&state[blockIdx.x] = 1;
    }
}
extern "C" __global__ void lock_and_sleep(float* x, int* state) {
    if (FIRST) {
        while (atomicCAS(state, 0, 1)) __nanosleep(100);
        atomicExch(state, 0);
    }
}
extern "C" __global__ void flag_by_max(float* x, int* state) {
    if (blockIdx.x == 0 && FIRST) atomicExch(state, 1);
    if (blockIdx.x) while (atomicMax(state, int(0x80000000)) != 1) {}
}
extern "C" __global__ void flag_by_or(float* x, int* state) {
    if (blockIdx.x == 0 && FIRST) atomicExch(state, 1);
    if (blockIdx.x) while (!(atomicOr(state, 0) & 1)) __threadfence();
}
extern "C" __global__ void back_off(float* x, int* state) {
    if (blockIdx.x == 0 && FIRST) atomicExch(state, 1);
    unsigned ns = 8;
    if (blockIdx.x && FIRST)
        while (*(volatile int*)state == 0) __nanosleep(ns = min(2 * ns, 256u));
}
extern "C" __global__ void standard_atomic(float* x, int* state) {
    cuda::atomic_ref<int, cuda::thread_scope_device> flag(*state);
    if (blockIdx.x == 0 && FIRST) flag.store(1);
    if (blockIdx.x) flag.wait(0);
}
extern "C" __global__ void grid_barrier(float* x, int* state) {
    cooperative_groups::this_grid().sync();
    x[threadIdx.x] = 1;
}
extern "C" __global__ void maximum(float* x, int* state) {
    int* to = (int*)&x[threadIdx.x % 8];
    const float value = threadIdx.x * 37 % 101;
    int old = *to, assumed;
    do {
        assumed = old;
        if (__int_as_float(assumed) >= value) break;
        old = atomicCAS(to, assumed, __float_as_int(value));
    } while (old != assumed);
}
extern "C" __global__ void heap(float* x, int* state) {
    float* own = new float[4];
    own[threadIdx.x % 4] = threadIdx.x;
    x[threadIdx.x] = own[0];
    delete[] own;
}
extern "C" __global__ void heap_never(float* x, int* state) {
    if (state[1] == 12345) {
        float* own = new float[4];
        own[threadIdx.x % 4] = threadIdx.x;
        x[threadIdx.x] = own[0];
        delete[] own;
    }
}
extern "C" __global__ void last_block(float* x, int* state) {
    __shared__ bool last;
    __threadfence();
    if (FIRST) last = atomicAdd(&state[0], 1) == gridDim.x - 1;
    __syncthreads();
    if (last) x[threadIdx.x] = state[0];
}
extern "C" __global__ void volatile_loop(float* x, int* state) {
    float sum = 0;
    for (int i = 0; i < 16; ++i) sum += ((volatile float*)x)[i * 8 + threadIdx.x % 8];
    x[threadIdx.x] = sum;
}
extern "C" __global__ void volatile_sum(float* x, int* state) {
    float sum = 0;
    for (int i = 0; i < state[2] + 9; ++i) sum += ((volatile float*)x)[i];
    x[threadIdx.x] = sum;
}
extern "C" __global__ void volatile_list(float* x, int* state) {
    int at = threadIdx.x;
    while (at < 60) at = ((volatile int*)state)[at] + at + 1;
    x[threadIdx.x] = at;
}
extern "C" __global__ void volatile_search(float* x, int* state) {
    int low = 0, high = 64;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (((volatile int*)state)[middle] < int(threadIdx.x)) low = middle + 1;
        else high = middle;
    }
    x[threadIdx.x] = low;
}
extern "C" __global__ void queue(float* x, int* state) {
    int i;
    while ((i = atomicAdd(state, 1)) < 200) x[i] = i;
}
extern "C" __global__ void hash(float* x, int* state) {
    for (int at = threadIdx.x % 7;; at = (at + 1) % 64) {
        const int old = atomicCAS(&state[at], 0, int(threadIdx.x) + 1);
        if (old == 0 || old == int(threadIdx.x) + 1) break;
    }
}
"""


@pytest.mark.parametrize("machine_code", [True, False])
@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("lock", "until other blocks"),
        ("tickets", "until other blocks"),
        ("look_back", "until other blocks"),
        ("lock_and_sleep", "until other blocks"),
        ("flag_by_or", "until other blocks"),
        ("flag_by_max", "until other blocks"),
        ("back_off", "until other blocks"),
        ("standard_atomic", "until other blocks"),
        ("grid_barrier", "until other blocks"),
        ("maximum", "until other blocks"),
        ("heap", "device heap"),
        ("heap_never", ""),
        ("last_block", ""),
        ("volatile_loop", ""),
        ("volatile_sum", ""),
        ("volatile_list", ""),
        ("volatile_search", ""),
        ("queue", ""),
        ("hash", ""),
    ],
)
def test_kernels_that_wait_for_blocks_have_no_time(
    entry: str, why: str, machine_code: bool
) -> None:
    """The simulator's order of blocks decides how often they repeat; malloc's time is unknown."""
    kernel = coalesce.Kernel(WAITING, entry, device="sim")
    if not machine_code:
        kernel = coalesce.Kernel(kernel.ptx, entry, device="sim")
    x, state = np.zeros(256, np.float32), np.zeros(64, np.int32)
    record = kernel.launch(
        16, 64, x, state, runs=1, counts=True, cooperative=entry == "grid_barrier"
    )
    assert record.counts.machine_code is machine_code
    assert why in record.no_time
    assert bool(why) == bool(record.no_time) == math.isnan(record.kernel_ms)
    if machine_code:
        inexact = exactness.inexact(record.counts.table(), record.counts.metrics())
        assert "smsp__inst_executed.sum" in inexact or not why
