"""Counts as a table of instructions: sums, comparisons and conversions to other formats."""

import pickle

import numpy as np
import pytest

import coalesce

SOURCE = """#include <cooperative_groups.h>
__device__ float twice(const float* x, int i) {
    return 2 * x[i];
}
extern "C" __global__ void k(const float* x, float* y, unsigned* total, int n) {
    __shared__ float s[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        s[threadIdx.x] = twice(x, i);
        auto warp = cooperative_groups::coalesced_threads();
        y[i] = s[threadIdx.x ^ 1];
        atomicAdd(total, 1u);
        y[i + n] = warp.shfl(y[i], 3);
    }
}
"""
LINES = SOURCE.splitlines()


def line_of(text):
    """Return the number of the only line that contains a text."""
    (number,) = (n for n, line in enumerate(LINES, 1) if text in line)
    return number


@pytest.fixture
def kernel(on_simulator):
    return coalesce.Kernel(SOURCE, "k", device=on_simulator)


def counted(kernel, blocks, n=None):
    n = 64 * blocks if n is None else n
    x = np.ones(64 * blocks, np.float32)
    y, total = np.empty(2 * x.size, np.float32), np.zeros(1, np.uint32)
    return kernel.launch(blocks, 64, x, y, total, n, counts=True).counts


def accesses(table):
    """Return the rows of instructions that access memory, by line, kind and space."""
    rows = np.flatnonzero(table["kind"] != "")
    keys = ("line", "kind", "space")
    return {tuple(table[key][row].item() for key in keys): row for row in rows}


def test_table_describes_each_instruction(kernel):
    table = counted(kernel, 2).table()
    assert {array.shape for array in table.values()} == {table["opcode"].shape}
    rows = accesses(table)
    expected = {
        (line_of("2 * x[i]"), "load", "global"),
        (line_of("s[threadIdx.x] = twice"), "store", "shared"),
        (line_of("y[i] = s["), "load", "shared"),
        (line_of("y[i] = s["), "store", "global"),
        (line_of("warp.shfl"), "store", "global"),
    }
    assert expected <= set(rows)
    assert any(kind in ("atomic", "reduction") for _, kind, _ in rows)
    ptx = kernel.ptx.splitlines()
    for (line, kind, space), row in rows.items():
        if kind in ("load", "store"):
            spelled = ptx[table["ptx_line"][row] - 1]
            assert f"{kind[:2].replace('lo', 'ld')}.{space}" in spelled, line
    assert all(table["width"][row] == 4 for row in rows.values())


def test_table_sums_to_the_totals(kernel):
    counts = counted(kernel, 3, n=150)
    table = counts.table()
    assert table["executed"].dtype == np.uint64
    assert table["executed"].sum() == counts.instructions
    assert table["threads"].sum() == counts.thread_instructions
    loads = (table["space"] == "global") & (table["kind"] == "load")
    assert table["requests"][loads].sum() == counts.global_load_requests
    assert table["sectors"][loads].sum() == counts.global_load_sectors
    assert np.all(table["bytes"][loads] == 4 * table["accesses"][loads])


def test_accesses_in_a_header_have_the_calling_line(kernel):
    """Accesses that `shfl` inlines are attributed to the calling line, not to the header."""
    counts = counted(kernel, 1)
    table = counts.table()
    own = table["file"] == counts.source_file
    assert set(table["file"][own | (table["line"] == 0)]) == {counts.source_file}
    shuffles = [i for i, opcode in enumerate(table["opcode"]) if opcode.upper().startswith("SHFL")]
    assert shuffles
    assert {table["line"][i].item() for i in shuffles} == {line_of("warp.shfl")}
    assert {table["file"][i].item() for i in shuffles} == {counts.source_file}


def test_generic_accesses_are_counted_by_state_space(on_simulator):
    source = """
    extern "C" __global__ void k(int* out, int which) {
        __shared__ int s[32];
        int* volatile places[2] = {s, out};
        places[which][threadIdx.x] = 1;
    }"""
    kernel = coalesce.Kernel(source, device=on_simulator)
    for which, space in enumerate(("shared", "global")):
        table = kernel.launch(1, 32, np.zeros(32, np.int32), which, counts=True).counts.table()
        generic = [i for i, opcode in enumerate(table["opcode"]) if opcode in ("st.u32", "ST.E")]
        assert [table["space"][i] for i in generic] == [space]


def test_sum_is_that_of_all_blocks(kernel):
    parts = [counted(kernel, 2), counted(kernel, 5)]
    assert parts[0] + parts[1] == parts[1] + parts[0]
    whole = (parts[0] + parts[1]).table()
    for name in ("executed", "requests", "sectors", "wavefronts", "ideal", "lines"):
        expected = parts[0].table()[name] + parts[1].table()[name]
        np.testing.assert_array_equal(whole[name], expected, name)


def test_equality(kernel):
    assert counted(kernel, 2) == counted(kernel, 2)
    assert counted(kernel, 2) != counted(kernel, 3)
    assert counted(kernel, 2) != "counts"


def test_pickled_counts_are_equal(kernel):
    counts = counted(kernel, 2)
    again = pickle.loads(pickle.dumps(counts))
    assert again == counts
    assert again.metrics() == counts.metrics()
    assert again.files == counts.files
    assert again + counts == counts + counts
    for name, column in counts.table().items():
        np.testing.assert_array_equal(again.table()[name], column, name)


def test_counts_of_another_kernel_cannot_be_added(kernel, on_simulator):
    other = coalesce.Kernel('extern "C" __global__ void other() {}', device=on_simulator)
    counts = other.launch(1, 1, counts=True).counts
    with pytest.raises(coalesce.LaunchError, match="counts of k and the counts of other cannot"):
        counted(kernel, 1) + counts


def accessed(kernel, *arguments, **options):
    """Return which parameter or variable each memory instruction accesses, by name."""
    table = kernel.launch(1, 32, *arguments, counts=True, **options).counts.table()
    names = [p.name for p in kernel.signature.parameters]
    return [
        names[parameter] if parameter >= 0 else variable
        for kind, parameter, variable in zip(
            table["kind"], table["parameter"], table["variable"], strict=True
        )
        if kind
    ]


def test_every_shipped_kernel_names_what_it_accesses(on_simulator):
    """Every memory instruction of every variant names the array it accesses, and the right one."""
    from coalesce.catalogue.access import run_access
    from coalesce.catalogue.products import run_matmul, run_sums, run_transpose

    a = np.ones((64, 64), np.float32)
    x = np.arange(128, dtype=np.float32)
    where = {"device": on_simulator, "counts": True}
    simulated = [v.name for v in coalesce.variants("matmul") if not v.hopper]
    runs = [run_matmul(a, a, variant=v, **where) for v in simulated]
    runs += [run_transpose(a, variant=v, **where) for v in coalesce.variants("transpose").names]
    for operation in ("row_sums", "column_sums"):
        names = coalesce.variants(operation).names
        runs += [run_sums(operation, a, v, **where) for v in names]
    runs.append(run_access(x, pattern="gather", index=np.arange(128)[::-1], **where))
    runs.append(run_access(x, pattern="offset", **where))
    for _, run in runs:
        for name, record in run.records:
            table = record.counts.table()
            there = table["kind"] != ""
            named = (table["parameter"] >= 0) | (table["variable"] != "")
            assert named[there & (table["requests"] > 0)].all(), name
            shared = table["space"] == "shared"
            assert (table["parameter"][shared] == -1).all()
            assert (table["parameter"][there & ~shared] >= 0).all(), name


def test_arrays_are_named_only_if_certain(on_simulator):
    source = """__device__ int total[32];
    extern "C" __global__ void k(
        const int* x, const int* y, int** several, char* bytes, size_t offset, int* out, int which
    ) {
        const int* either = which ? x : y;
        bytes[offset + threadIdx.x] = 1;
        out[threadIdx.x] = either[threadIdx.x] + several[0][threadIdx.x] + total[threadIdx.x];
    }"""
    kernel = coalesce.Kernel(source, device=on_simulator)
    x, y, out = (np.zeros(32, np.int32) for _ in range(3))
    memory = coalesce.zeros(32, np.int32, device=on_simulator)
    pointer = np.array([memory._address], np.uint64)
    names = accessed(kernel, x, y, pointer, np.zeros(64, np.int8), 8, out, 1)
    assert sorted(names) == sorted(["bytes", "out", "", "several", "", "total"])
