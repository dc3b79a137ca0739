// out = alpha * (the sum of `slices` matrices) + beta * c: the second launch of matmul/17_split_k.
//
// x holds the matrices one after another, n elements each. Each thread adds up one element, always
// in the same order. Loads and stores are coalesced. c is not read if beta is 0.
//
// The launch starts while the first one ends, and waits for it (programmatic dependent launch).

extern "C" __global__ void add_slices(
    const float* __restrict__ x, const float* __restrict__ c, float* __restrict__ out, size_t n,
    int slices, float alpha, float beta) {
    asm volatile("griddepcontrol.wait;" ::: "memory");
    const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0;
#pragma unroll 8
    for (int slice = 0; slice < slices; ++slice) sum += x[slice * n + i];
    out[i] = alpha * sum + (beta != 0 ? beta * c[i] : 0);
}
