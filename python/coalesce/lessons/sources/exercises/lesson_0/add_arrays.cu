__global__ void add_arrays(const float* a, const float* b, float* out, int n) {
    int i = threadIdx.x;  // the element of this thread
    out[i] = a[i] + b[i];
}
