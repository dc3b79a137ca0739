// Structure of arrays: each thread reads one field of its structure.
//
// Every field has its own array, so the same field of 32 neighbouring structures is contiguous.
// A load costs 4 sectors (float), however many fields a structure has.

#ifndef ELEMENT
#define ELEMENT float
#endif

extern "C" __global__ void soa(
    const ELEMENT* __restrict__ x, ELEMENT* __restrict__ out, size_t n, size_t fields,
    size_t field) {
    const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = x[field * n + i];
}
