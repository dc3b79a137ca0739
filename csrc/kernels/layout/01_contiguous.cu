// out[row, col] = x[first + row * row_stride + col * col_stride]: a strided array made contiguous.
//
// What the package runs before a kernel that wants its operands row by row, when a GPU array comes
// in another layout. Strides count elements and may be negative; `first` is where element (0, 0)
// is. Stores are coalesced; loads cost what the strides make them cost.

#ifndef ELEMENT
#define ELEMENT float
#endif

extern "C" __global__ void contiguous(
    const ELEMENT* __restrict__ x, ELEMENT* __restrict__ out, size_t n, size_t cols,
    long long first, long long row_stride, long long col_stride) {
    const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const long long row = i / cols, col = i % cols;
    out[i] = x[first + row * row_stride + col * col_stride];
}
