__global__ void register_tile(const float* a, const float* b, float* out, int n) {
    __shared__ float a_tile[64][17], b_tile[16][64];  // 16 steps of k; a word of padding
    int t = threadIdx.x;
    int block_row = blockIdx.y * 64, block_col = blockIdx.x * 64;
    int row = t / 16 * 4, col = t % 16 * 4;  // the thread's first element in the block's 64 x 64
    float sum[4][4] = {};
    for (int k0 = 0; k0 < n; k0 += 16) {
        for (int i = t; i < 64 * 16; i += 256) {
            int r = block_row + i / 16, s = block_col + i % 64;
            int ka = k0 + i % 16, kb = k0 + i / 64;
            a_tile[i / 16][i % 16] = r < n && ka < n ? a[r * n + ka] : 0;
            b_tile[i / 64][i % 64] = s < n && kb < n ? b[kb * n + s] : 0;
        }
        __syncthreads();
        for (int k = 0; k < 16; ++k) {
            float a_values[4], b_values[4];
            for (int i = 0; i < 4; ++i) a_values[i] = a_tile[row + i][k];
            for (int j = 0; j < 4; ++j) b_values[j] = b_tile[k][col + j];
            for (int i = 0; i < 4; ++i) {
                for (int j = 0; j < 4; ++j) sum[i][j] += a_values[i] * b_values[j];
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 4; ++j) {
            int r = block_row + row + i, s = block_col + col + j;
            if (r < n && s < n) out[r * n + s] = sum[i][j];
        }
    }
}
