// Atomics that add several numbers for each lane, on global memory. They need compute
// capability 9.0. The patterns of the addresses are those of patterns.cu.
typedef unsigned int u32;

const u32 idle = 0xffffffff;  // the offset of a lane that makes no access

// Each lane adds several numbers. Additions of halves have no result here.
struct AddF32x2 {
    static __device__ u32 at(char* p) {
        const float2 old = atomicAdd((float2*)p, make_float2(1.0f + threadIdx.x, 2.0f));
        return u32(old.x + old.y);
    }
};
struct AddF32x4 {
    static __device__ u32 at(char* p) {
        const float4 added = make_float4(1.0f + threadIdx.x, 2.0f, 3.0f, 4.0f);
        const float4 old = atomicAdd((float4*)p, added);
        return u32(old.x + old.y + old.z + old.w);
    }
};
#define ADD_HALVES(name, type, values)                                 \
    struct name {                                                      \
        static __device__ u32 at(char* p) {                            \
            asm volatile("red.global.add.noftz." type " [%0], " values \
                         ";" ::"l"(__cvta_generic_to_global(p)),       \
                         "r"(threadIdx.x), "r"(1));                    \
            return 0;                                                  \
        }                                                              \
    };
ADD_HALVES(AddF16x2, "f16x2", "%1")
ADD_HALVES(AddF16x4, "v2.f16x2", "{%1, %2}")
ADD_HALVES(AddF16x8, "v4.f16x2", "{%1, %2, %1, %2}")
ADD_HALVES(AddBF16x2, "bf16x2", "%1")
ADD_HALVES(AddBF16x4, "v2.bf16x2", "{%1, %2}")
ADD_HALVES(AddBF16x8, "v4.bf16x2", "{%1, %2, %1, %2}")

template <class Operation, bool returning>
__global__ void global_atomic(const u32* table, char* data, u32* out, int pattern) {
    const u32 offset = table[pattern * 32 + threadIdx.x];
    u32 old = 0;
    if (offset != idle) old = Operation::at(data + offset);
    if (returning) out[threadIdx.x] = old;
}

// The launches say which kernels to compile. They have no arguments, because nobody calls this
// function.
void all() {
    global_atomic<AddF32x2, false><<<1, 32>>>();
    global_atomic<AddF32x2, true><<<1, 32>>>();
    global_atomic<AddF32x4, false><<<1, 32>>>();
    global_atomic<AddF32x4, true><<<1, 32>>>();
    global_atomic<AddF16x2, false><<<1, 32>>>();
    global_atomic<AddF16x4, false><<<1, 32>>>();
    global_atomic<AddF16x8, false><<<1, 32>>>();
    global_atomic<AddBF16x2, false><<<1, 32>>>();
    global_atomic<AddBF16x4, false><<<1, 32>>>();
    global_atomic<AddBF16x8, false><<<1, 32>>>();
}
