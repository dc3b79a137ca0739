"""The advice about a bank conflict is true: with the proposed padding, the conflict is gone."""

import re

import numpy as np
import pytest

import coalesce
from coalesce import lessons
from coalesce.profiling import Access, Padding

KERNEL = """
struct Pair {{ float a, b; }};
__device__ float sum(float4 v) {{ return v.x + v.y + v.z + v.w; }}
__global__ void k(float* y, int n) {{
    {declaration};
    int t = threadIdx.x + blockDim.x * threadIdx.y;
    for (int i = t; i < n; i += 32) ((char*)tile)[i] = i;
    __syncthreads();
    y[t] = {access};
}}
"""


def load_of(declaration: str, access: str, block: object = 32, shared_bytes: int = 0) -> Access:
    """Return the profile's access for a load from `tile`."""
    kernel = coalesce.Kernel(KERNEL.format(declaration=declaration, access=access), device="sim")
    y = np.zeros(1024, np.float32)
    profile = kernel.profile(1, block, y, 64, shared_bytes=shared_bytes)
    (found,) = (a for a in profile.accesses() if a.space == "shared" and a.kind == "load")
    return found


def padded(declaration: str, elements: int) -> str:
    """Add elements to each row of the tile."""
    head, _, last = declaration.rpartition("[")
    return f"{head}[{int(last.rstrip(']')) + elements}]"


def ways(access: Access) -> int:
    assert access.pattern is not None
    conflict = re.match(r"(\d+)-way", access.pattern.name)
    return int(conflict[1]) if conflict else 1


# The declaration, the access, the block, and the elements that the advice adds to each row.
REMOVED = [
    ("float tile[32][32]", "tile[t][5]", 32, 1),
    ("float tile[32][16]", "tile[t][5]", 32, 1),
    ("float tile[32][34]", "tile[t][5]", 32, 1),  # padded, but by the wrong number of elements
    ("float tile[32][33]", "tile[t][31 - t]", 32, 1),
    ("float tile[32][33]", "tile[t / 8][t % 8]", 32, 7),
    ("float tile[4][8][32]", "tile[t / 8][t % 8][3]", 32, 1),
    ("float tile[16][16]", "tile[threadIdx.x][threadIdx.y]", (16, 16), 2),
    ("float tile[16][17]", "tile[threadIdx.x][threadIdx.y]", (16, 16), 1),
    ("double tile[32][32]", "tile[t][5]", 32, 1),
    ("float4 tile[32][8]", "sum(tile[t][5])", 32, 1),
    ("float tile[32][32]", "sum(*(float4*)&tile[t][4])", 32, 4),
    ("char tile[32][128]", "tile[t][5]", 32, 4),
]


@pytest.mark.parametrize(("declaration", "access", "block", "elements"), REMOVED)
def test_the_proposed_padding_removes_the_conflict(declaration, access, block, elements):
    before = load_of(f"__shared__ __align__(16) {declaration}", access, block)
    assert before.padding == Padding(elements, 1)
    length = int(re.findall(r"\d+", declaration)[-1]) + elements
    by = "one element" if elements == 1 else f"{elements} elements"
    swizzled = f"Pad the rows of the array by {by}, or swizzle its columns."
    assert before.sentence.endswith((swizzled, f"Pad the rows of the array to {length} elements."))
    after = load_of(f"__shared__ __align__(16) {padded(declaration, elements)}", access, block)
    assert (ways(before) > 1, ways(after)) == (True, 1)


NO_PADDING = "Padding the rows of the array does not help."
ONE_BANK = "Lanes 0 and 16 access tile[0][5] and tile[32][5], which are in the same bank."
NEIGHBOURS = "Let neighbouring lanes access neighbouring words."

# The last item is the end of the advice.
NOT_REMOVED = [
    ("float tile[64][33]", "tile[t * 2][5]", f"{ONE_BANK} {NEIGHBOURS} {NO_PADDING}"),
    ("float tile[32][33]", "tile[t / 8][t % 8 * 2]", f"{NEIGHBOURS} {NO_PADDING}"),
    ("float4 tile[32][9]", "tile[t][5].x", f"{NEIGHBOURS} {NO_PADDING}"),
    ("double tile[2][66]", "tile[0][t * 2]", f"{NEIGHBOURS} {NO_PADDING}"),
    (
        "float tile[64][32]",
        "tile[t * 2][5]",
        f"{NEIGHBOURS} Rows of 33 elements would only reduce the conflict to 2-way.",
    ),
    (
        "float4 tile[32][8]",
        "tile[t][5].x",
        f"{NEIGHBOURS} Rows of 9 elements would only reduce the conflict to 4-way.",
    ),
]


@pytest.mark.parametrize(("declaration", "access", "advice"), NOT_REMOVED)
def test_no_padding_is_proposed_if_it_does_not_remove_the_conflict(declaration, access, advice):
    before = load_of(f"__shared__ {declaration}", access)
    assert before.sentence.endswith(advice)
    assert "Pad the rows" not in before.sentence
    reduced = re.search(r"to (\d+)-way", advice)
    least = int(reduced[1]) if reduced else ways(before)
    after = [load_of(f"__shared__ {padded(declaration, n)}", access) for n in (1, 4)]
    assert min(map(ways, after)) == least
    assert ways(before) > 1


def test_rows_that_are_not_known():
    """The length of a row is not known in dynamic shared memory and in one-dimensional arrays."""
    dynamic = "extern __shared__ float tile[]"
    column = load_of(dynamic, "tile[32 * t]", shared_bytes=4096)
    assert column.sentence.endswith(
        "Let neighbouring lanes access neighbouring words. If this distance is the length of a "
        "row, pad the rows to 33 words."
    )
    assert column.padding is None
    for access in ("tile[2 * t]", "tile[66 * t]", "tile[t / 8 * 64 + t % 8]"):
        for declaration in (dynamic, "__shared__ float tile[2112]"):
            other = load_of(declaration, access, shared_bytes=8448 if declaration == dynamic else 0)
            assert ways(other) > 1
            assert other.sentence.endswith("Let neighbouring lanes access neighbouring words.")
    structures = load_of("__shared__ Pair tile[32][16]", "tile[t][5].b")
    assert "pad the rows to 33 words" in structures.sentence


def test_lanes_of_one_bank():
    example = load_of("__shared__ float tile[64][33]", "tile[t * 2][5]").example
    assert example is not None
    assert example.same_bank == (0, 16)
    free = load_of("__shared__ float tile[64][33]", "tile[t][5]").example
    assert free is not None
    assert free.same_bank is None


def test_padding_must_suit_all_accesses():
    """With rows of 40 elements, the load would be free, but the store would take 8 wavefronts."""
    source = """__global__ void k(float* y) {
        __shared__ float tile[32][33];
        int t = threadIdx.x;
        tile[t][0] = y[t];
        __syncthreads();
        y[t] = tile[t / 8][t % 8];
    }"""
    profile = coalesce.Kernel(source, device="sim").profile(1, 32, np.zeros(32, np.float32))
    store, found = sorted((a for a in profile.accesses() if a.space == "shared"), key=_line)
    assert store.padding is None
    assert found.padding == Padding(4, 2)
    assert found.sentence.endswith("Rows of 37 elements would only reduce the conflict to 2-way.")


def test_accesses_that_the_assembler_merged():
    """Rows of 33 floats do not allow the merged loads of 16 bytes, but the loads need not merge."""
    a = np.ones((32, 32), np.float32)
    profile = coalesce.profile("matmul", a, a, variant="tiled_transposed", device="sim")
    conflicts = [a for a in profile.accesses() if a.array == "b_tile"]
    assert [(a.kind, a.merged) for a in sorted(conflicts, key=_line)] == [("store", 1), ("load", 4)]
    assert {a.padding for a in conflicts} == {Padding(1, 1)}


def test_merged_accesses_that_become_half_as_wide():
    """Rows of 66 floats allow loads of 8 bytes, but not of 16 bytes."""
    solution = lessons.exercise("turned_tile").solution
    a = np.ones((64, 64), np.float32)
    for length, merged, padding in ((64, 4, Padding(2, 1)), (66, 2, None)):
        source = solution.replace("a_tile[16][66]", f"a_tile[16][{length}]")
        profile = coalesce.Kernel(source, device="sim").profile(1, 256, a, a, a.copy(), 64)
        store, load = sorted((x for x in profile.accesses() if x.array == "a_tile"), key=_line)
        assert (store.merged, load.merged) == (1, merged)
        assert (store.padding, load.padding) == (padding, None)


def _line(access: Access) -> int:
    return access.line
