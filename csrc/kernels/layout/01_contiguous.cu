// out[row, col] = x[first + row * row_stride + col * col_stride]: a contiguous copy.
//
// The package runs this before a kernel that needs operands in C order, if a GPU array has another
// layout. Strides count elements and may be negative; `first` is the place of element (0, 0).
// Stores are coalesced; the cost of the loads depends on the strides.

#ifndef ELEMENT
#define ELEMENT float
#endif

extern "C" __global__ void contiguous(
    const ELEMENT* __restrict__ x, ELEMENT* __restrict__ out, size_t n, size_t cols,
    long long first, long long row_stride, long long col_stride) {
    const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    // A division of 64 bits takes many more instructions than one of 32 bits.
    const long long row = n >> 32 != 0 ? i / cols : unsigned(i) / unsigned(cols);
    const long long col = i - row * cols;
    out[i] = x[first + row * row_stride + col * col_stride];
}
