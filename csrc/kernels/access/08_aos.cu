// Array of structures: each thread reads one field of its structure.
//
// The fields of a structure are neighbours in memory. Neighbouring lanes read addresses `fields`
// elements apart: 4 * fields sectors per load (float, at most 32). The sectors also contain the
// other fields, which are moved but not used. 09_soa is better.

#ifndef ELEMENT
#define ELEMENT float
#endif

extern "C" __global__ void aos(
    const ELEMENT* __restrict__ x, ELEMENT* __restrict__ out, size_t n, size_t fields,
    size_t field) {
    const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = x[i * fields + field];
}
