__global__ void register_tile(const float* a, const float* b, float* out, int n) {
    __shared__ float a_tile[64][17], b_tile[16][64];  // 16 steps of k; a word of padding
    int t = threadIdx.x;
    int block_row = blockIdx.y * 64, block_col = blockIdx.x * 64;
    int row = t / 64 * 16, col = t % 64;  // the thread's first element in the block's 64 x 64
    float sum[16] = {};
    for (int k0 = 0; k0 < n; k0 += 16) {
        for (int i = t; i < 64 * 16; i += 256) {
            int r = block_row + i / 16, s = block_col + i % 64;
            int ka = k0 + i % 16, kb = k0 + i / 64;
            a_tile[i / 16][i % 16] = r < n && ka < n ? a[r * n + ka] : 0;
            b_tile[i / 64][i % 64] = s < n && kb < n ? b[kb * n + s] : 0;
        }
        __syncthreads();
        for (int k = 0; k < 16; ++k) {
            for (int i = 0; i < 16; ++i) sum[i] += a_tile[row + i][k] * b_tile[k][col];
        }
        __syncthreads();
    }
    for (int i = 0; i < 16; ++i) {
        int r = block_row + row + i, s = block_col + col;
        if (r < n && s < n) out[r * n + s] = sum[i];
    }
}
