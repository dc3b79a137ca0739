__global__ void votes(const int* ballots, int* winner, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n) return;
    int count[4] = {0, 0, 0, 0};
    for (int j = 0; j < 16; ++j) ++count[ballots[j * n + i]];
    int best = 0;
    for (int k = 1; k < 4; ++k)
        if (count[k] > count[best]) best = k;
    winner[i] = best;
}
