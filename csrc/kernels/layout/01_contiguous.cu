// out[row, col] = x[first + row * row_stride + col * col_stride]: a copy in C order.
//
// The package runs this before a kernel that needs operands in C order, if a GPU array has another
// layout, and before a kernel that needs rows at aligned addresses. Rows of `out` have `pitch`
// elements. The elements after the last column are zeros, for which nothing is read. Strides count
// elements and may be negative; `first` is the place of element (0, 0). Stores are coalesced; the
// cost of the loads depends on the strides.

#ifndef ELEMENT
#define ELEMENT float
#endif
using Element = ELEMENT;

extern "C" __global__ void contiguous(
    const Element* __restrict__ x, Element* __restrict__ out, size_t n, size_t cols, size_t pitch,
    long long first, long long row_stride, long long col_stride) {
    const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    // A division of 64 bits takes many more instructions than one of 32 bits.
    const long long row = n >> 32 != 0 ? i / pitch : unsigned(i) / unsigned(pitch);
    const long long col = i - row * pitch;
    out[i] = col < (long long)cols ? x[first + row * row_stride + col * col_stride] : Element{};
}
