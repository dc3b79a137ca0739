__global__ void pad(const float* x, float* room, float* sums, int n) {
    const int length = 65;  // of a row in `room`, which has space for 64 rows of 80 floats
    int t = threadIdx.x;
    for (int row = 0; row < n; ++row) {
        if (t < n) room[row * length + t] = x[row * n + t];
    }
    __syncthreads();  // no thread continues before the copy is complete (lesson 3)

    float sum = 0;
    for (int col = 0; col < n; ++col) {
        if (t < n) sum += room[t * length + col];  // a thread for each row
    }
    if (t < n) sums[t] = sum;
}
