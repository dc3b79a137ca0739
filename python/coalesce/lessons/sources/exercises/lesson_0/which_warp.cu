__global__ void which_warp(int* warp, int width, int height) {
    int x = threadIdx.x, y = threadIdx.y;
    warp[y * width + x] = y;  // a warp for each row
}
