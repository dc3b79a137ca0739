// The same bytes in loads of 1 to 16 bytes a lane: wider accesses need fewer requests.
//
// A warp's load of 1 byte a lane is 1 sector, of 4 bytes 4 sectors, of 16 bytes (float4) 16. Every
// byte is used at every width, so the sectors of a copy stay the same; what falls is the number of
// instructions and requests that fetch them. ELEMENT is the type of an access.

#ifndef ELEMENT
#define ELEMENT float4
#endif

extern "C" __global__ void vector(
    const ELEMENT* __restrict__ x, ELEMENT* __restrict__ out, size_t n) {
    const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = x[i];
}
