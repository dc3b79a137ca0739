// Each kernel executes one ldmatrix or stmatrix in one warp. The addresses of the rows come from a
// table, as in patterns.cu.
//
// Row `pattern` of the table holds a byte offset for each of the 32 lanes. All lanes must be
// active. For `count` matrices, the first 8 * count lanes pass the addresses.

typedef unsigned int u32;

const u32 shared_bytes = 16384;

__device__ u32 window(const void* p) { return u32(__cvta_generic_to_shared(p)); }

#define MATRICES(transposed, trans)                                                                \
    __device__ u32 load(Count<1>, Transposed<transposed>, u32 a) {                                 \
        u32 x;                                                                                     \
        asm volatile("ldmatrix.sync.aligned.m8n8.x1" trans ".shared.b16 {%0}, [%1];"               \
                     : "=r"(x)                                                                     \
                     : "r"(a)                                                                      \
                     : "memory");                                                                  \
        return x;                                                                                  \
    }                                                                                              \
    __device__ u32 load(Count<2>, Transposed<transposed>, u32 a) {                                 \
        u32 x, y;                                                                                  \
        asm volatile("ldmatrix.sync.aligned.m8n8.x2" trans ".shared.b16 {%0, %1}, [%2];"           \
                     : "=r"(x), "=r"(y)                                                            \
                     : "r"(a)                                                                      \
                     : "memory");                                                                  \
        return x ^ y;                                                                              \
    }                                                                                              \
    __device__ u32 load(Count<4>, Transposed<transposed>, u32 a) {                                 \
        u32 x, y, z, w;                                                                            \
        asm volatile("ldmatrix.sync.aligned.m8n8.x4" trans ".shared.b16 {%0, %1, %2, %3}, [%4];"   \
                     : "=r"(x), "=r"(y), "=r"(z), "=r"(w)                                          \
                     : "r"(a)                                                                      \
                     : "memory");                                                                  \
        return x ^ y ^ z ^ w;                                                                      \
    }                                                                                              \
    __device__ void store(Count<1>, Transposed<transposed>, u32 a, u32 x) {                        \
        asm volatile("stmatrix.sync.aligned.m8n8.x1" trans ".shared.b16 [%0], {%1};" ::"r"(a),     \
                     "r"(x)                                                                        \
                     : "memory");                                                                  \
    }                                                                                              \
    __device__ void store(Count<2>, Transposed<transposed>, u32 a, u32 x) {                        \
        asm volatile("stmatrix.sync.aligned.m8n8.x2" trans ".shared.b16 [%0], {%1, %1};" ::"r"(a), \
                     "r"(x)                                                                        \
                     : "memory");                                                                  \
    }                                                                                              \
    __device__ void store(Count<4>, Transposed<transposed>, u32 a, u32 x) {                        \
        asm volatile("stmatrix.sync.aligned.m8n8.x4" trans                                         \
                     ".shared.b16 [%0], {%1, %1, %1, %1};" ::"r"(a),                               \
                     "r"(x)                                                                        \
                     : "memory");                                                                  \
    }

template <int count>
struct Count {};
template <bool transposed>
struct Transposed {};
MATRICES(false, "")
MATRICES(true, ".trans")

template <int count, bool transposed>
__global__ void load_matrices(const u32* table, char* data, u32* out, int pattern) {
    __shared__ __align__(128) char memory[shared_bytes];
    const u32 offset = table[pattern * 32 + threadIdx.x];
    out[threadIdx.x] = load(Count<count>(), Transposed<transposed>(), window(memory) + offset);
}

template <int count, bool transposed>
__global__ void store_matrices(const u32* table, char* data, u32* out, int pattern) {
    __shared__ __align__(128) char memory[shared_bytes];
    const u32 offset = table[pattern * 32 + threadIdx.x];
    store(Count<count>(), Transposed<transposed>(), window(memory) + offset, threadIdx.x);
}

// The instantiations that are tested. One compilation makes all of them.
void instantiations() {
    load_matrices<1,false><<<1, 32>>>();
    load_matrices<1,true><<<1, 32>>>();
    load_matrices<2,false><<<1, 32>>>();
    load_matrices<2,true><<<1, 32>>>();
    load_matrices<4,false><<<1, 32>>>();
    load_matrices<4,true><<<1, 32>>>();
    store_matrices<1,false><<<1, 32>>>();
    store_matrices<1,true><<<1, 32>>>();
    store_matrices<2,false><<<1, 32>>>();
    store_matrices<2,true><<<1, 32>>>();
    store_matrices<4,false><<<1, 32>>>();
    store_matrices<4,true><<<1, 32>>>();
}
