"""A run without --check names a race, because its result may be right on a GPU by luck."""

import pytest
from whole_programs import NEEDS_COMPILERS, Program

pytestmark = NEEDS_COMPILERS

HEAD = "#include <cstdio>\n#include <cstdlib>\n"
KERNELS = r"""
__device__ int visits;
__device__ void last(volatile float *s, int i) {
    s[i] += s[i + 32]; s[i] += s[i + 16]; s[i] += s[i + 8]; s[i] += s[i + 4]; s[i] += s[i + 2];
    s[i] += s[i + 1];
}
template <bool fixed> __global__ void last_warp(float *y) {
    __shared__ float s[256];
    const int i = threadIdx.x;
    s[i] = 1.0f;
    for (int half = blockDim.x / 2; half > 32; half /= 2) {
        __syncthreads();
        if (i < half) s[i] += s[i + half];
    }
    if (fixed) __syncthreads();
    if (i < 32) last(s, i);
    if (i == 0) y[blockIdx.x] = s[0];
}
__global__ void same_row(float *y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < 8; ++k) y[i] += k;
}
__global__ void all_blocks(float *y) { if (threadIdx.x == 0) *y += 1; }
__global__ void atomic(float *y) { atomicAdd(y, 1.0f); }
// Block 0 waits for the last block, so the first blocks alone would never end.
__global__ void waits(float *y) {
    __shared__ bool done;
    if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0) atomicAdd(&visits, 1);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        while (atomicAdd(&visits, 0) == 0) { }
        done = true;
    }
    __syncthreads();
    if (blockIdx.x == 0) y[threadIdx.x] = done;
}
__global__ void to_surface(cudaSurfaceObject_t s, float *y) {
    surf1Dwrite(surf1Dread<float>(s, 0) + 1, s, 0);
    *y = surf1Dread<float>(s, 0);
}
static cudaSurfaceObject_t surface() {
    cudaArray_t array; cudaSurfaceObject_t made = 0;
    const auto floats = cudaCreateChannelDesc<float>();
    cudaMallocArray(&array, &floats, 8, 0, cudaArraySurfaceLoadStore);
    const float start = 5;
    cudaMemcpy2DToArray(array, 0, 0, &start, 4, 4, 1, cudaMemcpyHostToDevice);
    cudaResourceDesc what = {};
    what.resType = cudaResourceTypeArray;
    what.res.array.array = array;
    cudaCreateSurfaceObject(&made, &what);
    return made;
}
"""


LAUNCHES = (
    # the launch; what it prints; whether it has a race
    ("last_warp<false><<<40, 256>>>(y)", "", True),
    ("last_warp<true><<<40, 256>>>(y)", "256 0", False),
    ("same_row<<<32, dim3(32, 8)>>>(y)", "", True),
    ("same_row<<<32, 32>>>(y)", "28 0", False),
    ("all_blocks<<<32, 32>>>(y)", "", True),
    ("all_blocks<<<1, 32>>>(y)", "1 0", False),
    ("atomic<<<32, 32>>>(y)", "1024 0", False),
    ("waits<<<3, 32>>>(y)", "1 1", False),
    ("to_surface<<<1, 1>>>(surface(), y)", "6 0", False),
)


@pytest.mark.parametrize("number", range(len(LAUNCHES)), ids=[text for text, *_ in LAUNCHES])
@pytest.mark.program(
    """
    float *y, first = -1;
    int times = 0;
    cudaMallocManaged(&y, 1024 * sizeof *y);
    cudaMemset(y, 0, 1024 * sizeof *y);
    switch (atoi(getenv("LAUNCH"))) {
    """
    + "".join(f"case {n}: {text}; break;\n" for n, (text, *_) in enumerate(LAUNCHES))
    + """
    }
    cudaMemcpy(&first, y, sizeof first, cudaMemcpyDeviceToHost);
    cudaMemcpyFromSymbol(&times, visits, sizeof times);
    printf("%g %d\\n", first, times);
    cudaFree(y);
    """,
    KERNELS,
)
def test_the_first_race_of_a_kernel_is_named(program: Program, number: int) -> None:
    text, printed, races = LAUNCHES[number]
    done = program.run(environment={"LAUNCH": str(number)})
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("depends on the order of its threads") == races
    assert done.stderr.count("data race on") == races
    if races:
        assert f"the result of kernel {text.partition('<<<')[0]} depends" in done.stderr
    else:  # the search for races has changed nothing
        assert done.stdout == f"{printed}\n"
