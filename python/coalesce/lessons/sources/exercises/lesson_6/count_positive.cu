__global__ void count_positive(const float* x, int* counts, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (threadIdx.x % 32 != 0 || i >= n) return;  // lane 0 counts for its warp
    int count = 0;
    for (int j = i; j < min(i + 32, n); ++j) count += x[j] > 0;
    counts[i / 32] = count;
}
