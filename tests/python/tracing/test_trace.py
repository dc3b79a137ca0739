"""Recorded events agree with the kernel's indices, however the host runs the blocks."""

import json
import pickle

import numpy as np
import pytest
from both_ways import bound

import coalesce
from coalesce import _core
from coalesce.launch.simulated import simulate
from coalesce.simulate import counting
from coalesce.simulate.recorded import trace_of
from coalesce.tracing import run as tracing_run

ROWS = """
extern "C" __global__ void rows(const float* a, double* out, int rows, int cols) {
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows || col >= cols) return;
    double sum = 0;
    for (int k = 0; k < 3; ++k)
        sum += a[row * cols + (col + k) % cols];
    out[row * cols + col] = sum;
}
"""
GRID, BLOCK, SHAPE = (3, 4), (16, 8), (30, 40)


@pytest.fixture
def rows(on_simulator):
    return coalesce.Kernel(ROWS, device=on_simulator)


@pytest.fixture
def arrays(random):
    return random.random(SHAPE).astype(np.float32), np.zeros(SHAPE)


def expected(block, warp, k):
    """Return the active lanes of a warp and the element of `a` that each reads in iteration k."""
    thread = 32 * warp + np.arange(32)
    row = block[1] * BLOCK[1] + thread // BLOCK[0]
    col = block[0] * BLOCK[0] + thread % BLOCK[0]
    active = (row < SHAPE[0]) & (col < SHAPE[1])
    return active, row * SHAPE[1] + (col + k) % SHAPE[1]


def test_events_agree_with_the_indices(rows, arrays):
    a, out = arrays
    trace = rows.trace(GRID, BLOCK, a, out, *SHAPE)
    assert trace.omitted == 0
    loads = trace.select(kind="load")
    assert set(loads.line) == {
        ROWS.splitlines().index("        sum += a[row * cols + (col + k) % cols];") + 1
    }
    seen = set()
    by_warp = {}
    for event in loads:
        k = by_warp.setdefault((event.block, event.warp), 0)
        by_warp[event.block, event.warp] += 1
        active, index = expected(event.block, event.warp, k)
        np.testing.assert_array_equal(event.index, np.where(active, index, -1))
        assert event.mask == sum(1 << i for i in np.flatnonzero(active))
        assert not event.addresses[~active].any()
        assert event.array == 0
        assert event.width == 4
        seen.add((event.block, event.warp))
    warps = {(x, y, 0, w) for x in range(3) for y in range(4) for w in range(4)}
    there = {(*b, w) for *b, w in warps if expected(b, w, 0)[0].any()}
    assert {(*b, w) for b, w in seen} == there
    assert set(by_warp.values()) == {3}
    stores = trace.select(kind="store", array="out")
    assert len(stores) == len(there)
    assert set(stores.width) == {8}
    np.testing.assert_allclose(out, sum(np.roll(a.astype(float), -k, axis=1) for k in range(3)))


def test_order_within_a_warp(rows, arrays):
    trace = rows.trace(GRID, BLOCK, *arrays, *SHAPE, blocks=0, warps=1)
    np.testing.assert_array_equal(trace.step, range(4))
    assert list(trace.kind) == ["load", "load", "load", "store"]


def test_loop_iterations_are_numbered(on_simulator):
    source = """extern "C" __global__ void k(const int* x, int* y, int n) {
        int sum = 0;
        #pragma unroll 1
        for (int i = 0; i < n; ++i) sum += x[32 * i + threadIdx.x];
        y[threadIdx.x] = sum;
    }"""
    kernel = coalesce.Kernel(source, device=on_simulator)
    x, y = np.arange(320, dtype=np.int32), np.zeros(32, np.int32)
    loads = kernel.trace(1, 32, x, y, 10).select(kind="load")
    np.testing.assert_array_equal(loads.execution, range(10))
    np.testing.assert_array_equal(loads.index, np.arange(320).reshape(10, 32))
    assert loads.select(execution=[2, 5]).index[:, 0].tolist() == [64, 160]


def test_events_add_up_to_the_counts(rows, arrays):
    """Requests and sectors that follow from the trace equal the counts."""
    trace = rows.trace(GRID, BLOCK, *arrays, *SHAPE)
    counts = rows.launch(GRID, BLOCK, *arrays, *SHAPE, counts=True).counts
    for kind in ("load", "store"):
        part = trace.select(kind=kind, space="global")
        assert len(part) == getattr(counts, f"global_{kind}_requests")
        sectors = sum(
            len(np.unique(addresses[active] // 32))
            for addresses, active in zip(part.addresses, part.active, strict=True)
        )
        assert sectors == getattr(counts, f"global_{kind}_sectors")


def test_threads_of_lanes(on_simulator):
    source = """extern "C" __global__ void k(int* x, int* y, int* z) {
        int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
        x[t] = threadIdx.x; y[t] = threadIdx.y; z[t] = threadIdx.z;
    }"""
    kernel = coalesce.Kernel(source, device=on_simulator)
    block = (5, 3, 7)
    indices = [np.zeros(105, np.int32) for _ in range(3)]
    trace = kernel.trace(1, block, *indices)
    assert trace.thread.shape == (12, 32, 3)
    for axis, values in enumerate(indices):
        part = trace.select(array="xyz"[axis])
        np.testing.assert_array_equal(
            part.thread[..., axis][part.active], values[part.index[part.active]]
        )
    assert np.bitwise_count(trace.mask).sum() if hasattr(np, "bitwise_count") else True
    assert trace.active.sum() == 3 * 105


@pytest.mark.parametrize("limit", [1, 7, 100, 10**6])
def test_omitted_events_are_reported(rows, arrays, limit):
    whole = rows.trace(GRID, BLOCK, *arrays, *SHAPE, limit=None)
    trace = rows.trace(GRID, BLOCK, *arrays, *SHAPE, limit=limit)
    assert len(trace) == min(limit, len(whole))
    assert trace.omitted == len(whole) - len(trace)
    assert ("omitted" in repr(trace)) == (trace.omitted > 0)
    if trace.omitted:
        assert f"{trace.omitted:,} more omitted" in repr(trace)
    order = [tuple(b[::-1]) for b in trace.block.tolist()]
    assert order == sorted(order)


def launch(rows, arrays, **options):
    prepared = bound(rows, GRID, BLOCK, [*arrays, *SHAPE])
    return trace_of(prepared, simulate(prepared, **options))


@pytest.mark.parametrize("limit", [None, 50])
def test_the_number_of_host_threads_changes_nothing(rows, arrays, limit):
    recording = _core.sim.Recording(limit=limit)
    traces = [launch(rows, arrays, record=recording, workers=n) for n in (1, 2, 5, 16)]
    assert all(trace == traces[0] for trace in traces)
    examples = [launch(rows, arrays, exemplars=16, workers=n) for n in (1, 2, 5, 16)]
    assert all(trace == examples[0] for trace in examples)


def test_chosen_blocks_and_warps(rows, arrays):
    a, out = arrays
    whole = rows.trace(GRID, BLOCK, a, out.copy(), *SHAPE)
    part = rows.trace(GRID, BLOCK, a, out, *SHAPE, blocks=[(1, 2), 0], warps=[3, 1])
    assert not out.any()  # the kernel wrote a copy
    assert {tuple(b) for b in part.block.tolist()} == {(0, 0, 0), (1, 2, 0)}
    assert set(part.warp) == {1, 3}
    for block in ((0, 0), (1, 2)):
        for warp in (1, 3):
            assert part.select(block=block, warp=warp) == whole.select(block=block, warp=warp)


def test_blocks_see_the_whole_grid(on_simulator):
    source = """extern "C" __global__ void k(unsigned* out) {
        out[blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z)] = 1;
    }"""
    kernel = coalesce.Kernel(source, device=on_simulator)
    trace = kernel.trace((3, 4, 5), 1, np.zeros(60, np.uint32), blocks=[(2, 3, 4), (0, 1, 2)])
    assert trace.index[:, 0].tolist() == [27, 59]


def test_a_line(rows, arrays):
    line = next(n for n, text in enumerate(ROWS.splitlines(), 1) if "out[" in text)
    trace = rows.trace(GRID, BLOCK, *arrays, *SHAPE, lines=line)
    assert set(trace.kind) == {"store"}
    assert set(trace.step) == {3}  # steps count all events of the warp


def test_arrays_of_another_layout_are_updated_too(rows, arrays):
    a, _ = arrays
    out = np.zeros(SHAPE[::-1]).T
    rows.trace(GRID, BLOCK, a, out, *SHAPE)
    np.testing.assert_allclose(out, sum(np.roll(a.astype(float), -k, axis=1) for k in range(3)))


def test_asynchronous_copies_have_two_sides(on_simulator):
    source = """#include <cuda_pipeline.h>
    extern "C" __global__ void k(const float4* x, float4* y) {
        __shared__ float4 s[64];
        __pipeline_memcpy_async(&s[threadIdx.x + 32], &x[threadIdx.x], 16);
        __pipeline_commit();
        __pipeline_wait_prior(0);
        y[threadIdx.x] = s[threadIdx.x + 32];
    }"""
    kernel = coalesce.Kernel(source, device=on_simulator)
    x = np.arange(128, dtype=np.float32)
    trace = kernel.trace(1, 32, x, np.zeros(128, np.float32))
    source_side, shared_side = trace.select(kind="async_copy")
    assert (source_side.space, shared_side.space) == ("global", "shared")
    assert source_side.instruction == shared_side.instruction
    assert source_side.execution == shared_side.execution == 0
    assert source_side.index.tolist() == list(range(0, 128, 4))
    assert shared_side.addresses.tolist() == list(range(512, 1024, 16))
    assert trace.arrays[shared_side.array].name == "s"


def test_shared_and_module_variables_have_names(on_simulator):
    source = """__constant__ int table[8];
    __device__ int total[4];
    extern "C" __global__ void k(int* y) {
        __shared__ int left[32];
        __shared__ int right[32];
        extern __shared__ int dynamic[];
        left[threadIdx.x] = table[threadIdx.x & 7];
        right[31 - threadIdx.x] = total[threadIdx.x & 3];
        dynamic[threadIdx.x] = 1;
        __syncthreads();
        y[threadIdx.x] = left[31 - threadIdx.x] + right[threadIdx.x] + dynamic[threadIdx.x ^ 1];
    }"""
    kernel = coalesce.Kernel(source, device=on_simulator)
    trace = kernel.trace(1, 32, np.zeros(32, np.int32), shared_bytes=128)
    accesses = {(trace.arrays[e.array].name, e.kind): e for e in trace}
    assert set(accesses) == {
        ("table", "load"),
        ("total", "load"),
        ("left", "store"),
        ("right", "store"),
        ("left", "load"),
        ("right", "load"),
        ("dynamic shared memory", "store"),
        ("dynamic shared memory", "load"),
        ("y", "store"),
    }
    assert accesses["right", "store"].index.tolist() == list(range(31, -1, -1))
    assert accesses["table", "load"].index.tolist() == 4 * list(range(8))


def test_operations(on_simulator):
    a = np.ones((64, 48), np.float32)
    trace = coalesce.trace(
        "transpose", a, variant="naive_read", device=on_simulator, blocks=0, warps=0
    )
    assert trace.kernel == "naive_read"
    load, store = trace.select(array="in"), trace.select(array="out")
    assert load.index[0].tolist() == list(range(32))
    assert store.index[0].tolist() == list(range(0, 32 * 64, 64))


def test_preparations_are_run_but_not_traced(on_simulator):
    a = np.ones((64, 64), np.float32)
    trace = coalesce.trace("matmul", a, a, variant="corner_turned", device=on_simulator, blocks=1)
    assert trace.kernel == "corner_turned"
    assert {tuple(b) for b in trace.block.tolist()} == {(1, 0, 0)}


def test_an_array_passed_twice_has_the_used_name(on_simulator):
    a = np.ones((64, 64), np.float32)
    trace = coalesce.trace("matmul", a, a, variant="coalesced", device=on_simulator, blocks=0)
    loads = trace.select(kind="load")
    assert {trace.arrays[n].name for n in np.unique(loads.array)} == {"a", "b"}
    broadcast = loads.addresses[:, 0] == loads.addresses[:, 31]
    assert set(loads.array[broadcast]) == {0}
    assert set(loads.array[~broadcast]) == {1}


def test_element_names(rows, arrays):
    trace = rows.trace(GRID, BLOCK, *arrays, *SHAPE, blocks=(1, 2), warps=1)
    assert trace.element(0, 0) == "a[18, 16]"
    assert trace.element(1, 16) == "a[19, 17]"
    assert trace.element(3, 31) == "out[19, 31]"
    partial = rows.trace(GRID, BLOCK, *arrays, *SHAPE, blocks=(2, 0), warps=0)
    with pytest.raises(ValueError, match="lane 9 is not active in event 0"):
        partial.element(0, 9)


SHARED = """
#define ROWS 32
constexpr int COLS = ROWS + 1;
enum {{ EIGHT = 8 }};
struct Pair {{ float a, b; }};
template <class T, int N> __global__ void k(float* y, int i) {{
    __shared__ {declaration};
    tile{index} = {value};
    __syncthreads();
    y[0] = *(float*)&tile{index};
}}
"""


@pytest.mark.parametrize(
    ("declaration", "index", "shape", "dtype", "name"),
    [
        ("float tile[32][33]", "[i][i + 2]", (32, 33), "float32", "tile[1][3]"),
        ("float tile[ROWS][COLS]", "[i][i + 2]", (32, 33), "float32", "tile[1][3]"),
        ("T tile[N][N / 2][2]", "[i][3][i]", (8, 4, 2), "float64", "tile[1][3][1]"),
        ("unsigned tile[48]", "[i]", (48,), "uint32", "tile[1]"),
        ("char tile[4][64]", "[i][4 * i]", (4, 64), "int8", "tile[1][4]"),
        ("float4 tile[4][8]", "[i][5].y", (4, 8), "V16", "tile[1][5] + 4 bytes"),
        # Values of enumerations are not read. One unknown extent follows from the variable's size.
        ("float tile[EIGHT][5]", "[i][4]", (8, 5), "float32", "tile[1][4]"),
        # The shape is not known.
        ("float tile[EIGHT][EIGHT]", "[i][4]", (64,), "uint32", "tile[12]"),
        ("float tile[sizeof(Pair)][5]", "[i][4]", (40,), "uint32", "tile[9]"),
        ("Pair tile[4][5]", "[i][3].b", (40,), "uint32", "tile[17]"),
    ],
)
def test_elements_of_shared_arrays_have_names_in_cpp_notation(
    on_simulator, declaration, index, shape, dtype, name
):
    value = "double(i)" if declaration.startswith("T") else "i"
    source = SHARED.format(declaration=declaration, index=index, value=value)
    kernel = coalesce.Kernel(source, "k<double, 8>", device=on_simulator)
    trace = kernel.trace(1, 1, np.zeros(1, np.float32), 1)
    (array,) = (a for a in trace.arrays if a.space == "shared")
    assert (array.name, array.shape, array.dtype) == ("tile", shape, dtype)
    shared = trace.select(space="shared")
    assert len(shared)
    assert {shared.element(event, 0) for event in range(len(shared))} == {name}
    assert name in str(trace)
    assert pickle.loads(pickle.dumps(trace)) == trace
    assert json.loads(json.dumps(trace.to_dict()))["arrays"][-1]["shape"] == list(shape)


@pytest.mark.parametrize(("name", "shape"), [("first", (16, 64)), ("second", (32, 32))])
def test_shared_arrays_of_two_kernels_with_one_name(name, shape, on_simulator):
    kernel = "__global__ void {}(float* y) {{ __shared__ float tile{}; {} }}"
    use = "tile[threadIdx.x][3] = y[0]; __syncthreads(); y[1] = tile[threadIdx.y][3];"
    extents = [("first", "[16][64]"), ("second", "[32][32]")]
    source = "\n".join(kernel.format(*each, use) for each in extents)
    trace = coalesce.Kernel(source, name, device=on_simulator).trace(1, 1, np.zeros(2, np.float32))
    assert trace.arrays[-1][:3] == ("tile", shape, "float32")


def test_exemplars_show_every_instruction(on_simulator):
    """Exemplars include instructions that only one block in the middle of the grid executes."""
    source = """extern "C" __global__ void k(volatile int* x, int* y, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        #pragma unroll 1
        for (int j = 0; j < n; ++j) x[i] += j;
        if (blockIdx.x == 17 && threadIdx.x == 40) y[0] = x[i];
    }"""
    kernel = coalesce.Kernel(source, device=on_simulator)
    x, y = np.zeros(100 * 96, np.int32), np.zeros(1, np.int32)
    counted = counting.count(bound(kernel, 100, 96, [x, y, 100]), exemplars=64)
    trace = counted.exemplars
    table = counted.counts.table()
    assert set(trace.instruction) == set(np.flatnonzero(table["requests"]))
    assert np.bincount(trace.instruction).max() <= 64
    rare = trace.select(array="y")
    assert len(rare) == 1
    assert rare.block.tolist() == [[17, 0, 0]]
    assert rare.step.tolist() == [-1]
    stores = trace.select(array="x", kind="store")
    assert {tuple(b) for b in stores.block.tolist()} == {(0, 0, 0), (50, 0, 0), (99, 0, 0)}
    assert set(stores.warp) == {0, 1, 2}
    assert stores.select(block=(50,), warp=1).execution.tolist() == [0, 1, 2, 3, 4, 8, 16]


def test_exemplars_are_part_of_the_trace(rows, arrays, monkeypatch):
    monkeypatch.setenv("COALESCE_COUNT_PTX", "1")  # a trace has the instructions of the PTX
    counted = counting.count(bound(rows, GRID, BLOCK, [*arrays, *SHAPE]), exemplars=64)
    whole = rows.trace(GRID, BLOCK, *arrays, *SHAPE)
    places = {(e.block, e.warp, e.step): e for e in whole}
    assert len(counted.exemplars) > 0
    for event in counted.exemplars:
        same = places[event.block, event.warp, event.step]
        np.testing.assert_array_equal(event.addresses, same.addresses)
        assert event.instruction == same.instruction
    assert counted.counts == rows.launch(GRID, BLOCK, *arrays, *SHAPE, counts=True).counts


def test_as_other_types(rows, arrays):
    trace = rows.trace(GRID, BLOCK, *arrays, *SHAPE, limit=20)
    assert pickle.loads(pickle.dumps(trace)) == trace
    record = json.loads(json.dumps(trace.to_dict()))
    assert record["omitted"] == trace.omitted > 0
    assert record["events"]["addresses"] == trace.addresses.tolist()
    assert record["arrays"][0]["name"] == "a"
    assert {len(column) for column in record["events"].values()} == {20}


def test_dataframe(rows, arrays):
    pytest.importorskip("pandas")
    trace = rows.trace(GRID, BLOCK, *arrays, *SHAPE, limit=20)
    frame = trace.to_dataframe()
    assert len(frame) == 20
    assert set(frame["array"]) == {"a", "out"}
    lanes = trace.to_dataframe(lanes=True)
    assert len(lanes) == trace.active.sum()
    first = lanes[lanes.event == 0]
    np.testing.assert_array_equal(first["index"], trace.index[0][trace.active[0]])


def test_slices(rows, arrays):
    trace = rows.trace(GRID, BLOCK, *arrays, *SHAPE)
    assert len(trace[3:7]) == 4
    assert trace[3:7][0].step == trace[3].step
    assert trace[-1].block == tuple(trace.block[-1])
    assert trace[trace.kind == "store"] == trace.select(kind="store")
    with pytest.raises(IndexError):
        trace[len(trace)]
    assert "out[" in str(trace[trace.kind == "store"])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"blocks": 12}, ValueError, "no block 12; the grid's 12 blocks have the numbers 0 to 11"),
        ({"blocks": (3, 0)}, ValueError, r"no block \(3, 0, 0\) in a grid of 3 x 4 x 1 blocks"),
        ({"warps": 4}, ValueError, "no warp 4; a block's 4 warps have the numbers 0 to 3"),
        (
            {"lines": 1},
            ValueError,
            "there is no memory instruction on line 1; rows accesses memory on lines",
        ),
    ],
)
def test_wrong_arguments_are_reported(rows, arrays, options, error, message):
    with pytest.raises(error, match=message):
        rows.trace(GRID, BLOCK, *arrays, *SHAPE, **options)


def test_messages_for_one_block_of_one_warp(rows, arrays):
    with pytest.raises(ValueError, match="no warp 1; a block's only warp has the number 0"):
        rows.trace(1, 32, *arrays, *SHAPE, warps=1)
    with pytest.raises(ValueError, match="no block 1; the grid's only block has the number 0"):
        rows.trace(1, 32, *arrays, *SHAPE, blocks=1)
    with pytest.raises(coalesce.LaunchError, match="the grid's only block has the number 0"):
        simulate(bound(rows, 1, 32, [*arrays, *SHAPE]), blocks=[7])
    store = rows.trace(1, 32, *arrays, *SHAPE).select(kind="store")
    with pytest.raises(IndexError, match=r"there is no event 1; the trace has 1 event\Z"):
        store[1]


def test_operations_refuse_what_they_cannot_trace(on_simulator):
    a = np.ones((4, 4), np.float32)
    with pytest.raises(ValueError, match="unknown operation: 'matmult'; did you mean 'matmul'"):
        coalesce.trace("matmult", a, a)
    with pytest.raises(TypeError, match=r"trace\(\) has no option `out`"):
        coalesce.trace("transpose", a, out=a)
    with pytest.raises(ValueError, match="there is nothing to trace"):
        coalesce.trace("transpose", a[:0], device=on_simulator)
    with pytest.raises(ValueError, match="no array is named 'q'; the arrays are in, out"):
        coalesce.trace("transpose", a, device=on_simulator).select(array="q")


def test_a_block_that_waits_for_a_block_that_does_not_run(on_simulator, monkeypatch):
    monkeypatch.setattr(tracing_run, "WAITING_LIMIT", 1_000_000)
    source = """extern "C" __global__ void k(volatile int* flag) {
        if (blockIdx.x == 0) while (*flag == 0);
        *flag = 1;
    }"""
    kernel = coalesce.Kernel(source, device=on_simulator)
    with pytest.raises(coalesce.LaunchError, match="waits for a block that does not run"):
        kernel.trace(2, 1, np.zeros(1, np.int32), blocks=0)
    assert len(kernel.trace(2, 1, np.zeros(1, np.int32), blocks=[0, 1])) > 2
