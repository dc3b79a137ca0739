"""Programs with tensor maps and matrix products of warpgroups. Needs nvcc and g++."""

import subprocess
from pathlib import Path

import wgmma_cases
from wgmma_cases import A_BYTES, Wgmma
from whole_programs import NEEDS_COMPILERS, coalesce

pytestmark = NEEDS_COMPILERS

TENSOR_MAP = """
#include <cuda.h>
#include <cudaTypedefs.h>
#include <cstdio>
__global__ void tile(const __grid_constant__ CUtensorMap map, float *out) {
    __shared__ __align__(128) float box[8][32];
    __shared__ __align__(8) unsigned long long full;
    unsigned b = (unsigned)__cvta_generic_to_shared(&full);
    unsigned to = (unsigned)__cvta_generic_to_shared(box);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(b));
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                     :: "r"(b), "r"((int)sizeof box) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global"
                     ".mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                     :: "r"(to), "l"(&map), "r"(32), "r"(8), "r"(b) : "memory");
    }
    __syncthreads();
    asm volatile("{ .reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;"
                 " @!p bra W; }" :: "r"(b) : "memory");
    for (int i = 0; i < 8; ++i) out[32 * i + threadIdx.x] = box[i][threadIdx.x];
}
int main() {
    PFN_cuTensorMapEncodeTiled_v12000 encode = nullptr;
    cudaDriverEntryPointQueryResult status;
    cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", (void **)&encode, 12000,
                                     cudaEnableDefault, &status);
    const int rows = 12, cols = 48;
    float h[rows * cols], *a, *out, r[256];
    for (int i = 0; i < rows * cols; ++i) h[i] = i;
    cudaMalloc(&a, sizeof h); cudaMalloc(&out, sizeof r);
    cudaMemcpy(a, h, sizeof h, cudaMemcpyHostToDevice);
    CUtensorMap map;
    cuuint64_t extents[] = {cols, rows}, strides[] = {cols * 4};
    cuuint32_t box[] = {32, 8}, steps[] = {1, 1}, wide[] = {33, 8};
    auto make = [&](cuuint32_t *b) {
        return encode(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, a, extents, strides, b, steps,
                      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                      CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    };
    int wrong = make(wide), right = make(box);
    tile<<<1, 32>>>(map, out);
    cudaMemcpy(r, out, sizeof r, cudaMemcpyDeviceToHost);
    printf("%d %d %d %g %g %g %s\\n", status, wrong, right, r[0], r[15], r[16] + r[4 * 32],
           cudaGetErrorString(cudaGetLastError()));
    void *none = &status;
    cudaGetDriverEntryPointByVersion("cuNothing", &none, 12000, cudaEnableDefault, &status);
    printf("%d %d\\n", status, none == nullptr);
    cudaFree(a); cudaFree(out);
}
"""


def run(path: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    file = path / "program.cu"
    file.write_text(text)
    return coalesce("run", *options, file)


def test_a_tensor_map_of_the_driver_api(tmp_path: Path) -> None:
    done = run(tmp_path, TENSOR_MAP)
    lines = done.stdout.splitlines()
    # Elements outside the matrix are zero. A box that the hardware cannot copy is an error.
    assert lines[0] == "0 1 0 416 431 0 no error"
    assert lines[1] == "1 1"
    assert "must have a multiple of 16 bytes; got 132" in done.stderr
    # The cost of such copies is not known, so no time is modelled.
    row = next(line for line in done.stderr.splitlines() if line.startswith("tile"))
    assert row.split()[-1] == "-"
    assert "tile: no time is modelled, because bulk copies" in done.stderr
    assert "cuNothing() of the driver API is not simulated" in done.stderr
    checked = run(tmp_path, TENSOR_MAP, "--check")
    assert "error" not in checked.stdout.replace("no error", "")


def test_a_product_of_a_warpgroup(tmp_path: Path) -> None:
    """The program is compiled for sm_90a, because sm_90 has no wgmma."""
    case = Wgmma(8, "f32", "f16", "f16")
    a_at, b_at = case.at[0].encoded(), case.at[1].encoded(A_BYTES)
    text = (
        "#include <cstdio>\n"
        + wgmma_cases.source_of(case)
        + f"""
    int main() {{
        unsigned *d, *images, *a;
        cudaMalloc(&d, 2048), cudaMalloc(&images, 49152), cudaMalloc(&a, 2048);
        cudaMemset(d, 0, 2048), cudaMemset(images, 0x3c, 49152), cudaMemset(a, 0, 2048);
        multiply<<<1, 128, 49152>>>(d, images, a, {a_at}ull, {b_at}ull, 1);
        float h[512];
        cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
        printf("%g %g %s\\n", h[0], h[511], cudaGetErrorString(cudaGetLastError()));
        cudaFree(d), cudaFree(images), cudaFree(a);
    }}"""
    )
    done = run(tmp_path, text)
    assert done.stdout.splitlines()[0] == "17.9299 17.9299 no error"  # 16 * 0x1.0fp0 ** 2
