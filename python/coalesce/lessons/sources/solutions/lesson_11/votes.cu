__global__ void votes(const int* ballots, int* winner, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n) return;
    int count[4] = {0, 0, 0, 0};
    for (int j = 0; j < 16; ++j) {
        int ballot = ballots[j * n + i];
        for (int k = 0; k < 4; ++k) count[k] += ballot == k;
    }
    int best = 0, most = count[0];
    for (int k = 1; k < 4; ++k)
        if (count[k] > most) {
            best = k;
            most = count[k];
        }
    winner[i] = best;
}
