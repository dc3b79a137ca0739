// Each kernel executes one access in one warp. The addresses come from a table, so one kernel can
// be recorded with many patterns of addresses.
//
// Row `pattern` of the table holds a byte offset for each of the 32 lanes; a lane whose entry is
// `idle` is inactive. The accesses are written in PTX, so that no compiler merges, widens or
// removes them. A loaded value is stored to out[lane] (4 sectors), so that the load is not dead
// code.

typedef unsigned int u32;
typedef unsigned long long u64;

const u32 idle = 0xffffffff;
const u32 shared_bytes = 16384;

template <int width>
struct Word;
template <>
struct Word<1> {
    u32 x;
};
template <>
struct Word<2> {
    unsigned short x;
};
template <>
struct Word<4> {
    u32 x;
};
template <>
struct Word<8> {
    u32 x, y;
};
template <>
struct Word<16> {
    u32 x, y, z, w;
};

// Loads and stores of each width in a state space.
#define LOADS_AND_STORES(space, Address, letter)                                             \
    __device__ u32 load_##space(Word<1>& v, Address a) {                                     \
        asm volatile("ld." #space ".u8 %0, [%1];" : "=r"(v.x) : letter(a) : "memory");       \
        return v.x;                                                                          \
    }                                                                                        \
    __device__ u32 load_##space(Word<2>& v, Address a) {                                     \
        asm volatile("ld." #space ".u16 %0, [%1];" : "=h"(v.x) : letter(a) : "memory");      \
        return v.x;                                                                          \
    }                                                                                        \
    __device__ u32 load_##space(Word<4>& v, Address a) {                                     \
        asm volatile("ld." #space ".u32 %0, [%1];" : "=r"(v.x) : letter(a) : "memory");      \
        return v.x;                                                                          \
    }                                                                                        \
    __device__ u32 load_##space(Word<8>& v, Address a) {                                     \
        asm volatile("ld." #space ".v2.u32 {%0, %1}, [%2];"                                  \
                     : "=r"(v.x), "=r"(v.y)                                                  \
                     : letter(a)                                                             \
                     : "memory");                                                            \
        return v.x ^ v.y;                                                                    \
    }                                                                                        \
    __device__ u32 load_##space(Word<16>& v, Address a) {                                    \
        asm volatile("ld." #space ".v4.u32 {%0, %1, %2, %3}, [%4];"                          \
                     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)                            \
                     : letter(a)                                                             \
                     : "memory");                                                            \
        return v.x ^ v.y ^ v.z ^ v.w;                                                        \
    }                                                                                        \
    __device__ void store_##space(Word<1>, Address a) {                                      \
        asm volatile("st." #space ".u8 [%0], %1;" ::letter(a), "r"(0) : "memory");           \
    }                                                                                        \
    __device__ void store_##space(Word<2>, Address a) {                                      \
        asm volatile("st." #space ".u16 [%0], %1;" ::letter(a), "h"((short)0) : "memory");   \
    }                                                                                        \
    __device__ void store_##space(Word<4>, Address a) {                                      \
        asm volatile("st." #space ".u32 [%0], %1;" ::letter(a), "r"(0) : "memory");          \
    }                                                                                        \
    __device__ void store_##space(Word<8>, Address a) {                                      \
        asm volatile("st." #space ".v2.u32 [%0], {%1, %1};" ::letter(a), "r"(0) : "memory"); \
    }                                                                                        \
    __device__ void store_##space(Word<16>, Address a) {                                     \
        asm volatile("st." #space ".v4.u32 [%0], {%1, %1, %1, %1};" ::letter(a), "r"(0)      \
                     : "memory");                                                            \
    }

LOADS_AND_STORES(shared, u32, "r")
LOADS_AND_STORES(global, char*, "l")

__device__ u32 window(const void* p) { return u32(__cvta_generic_to_shared(p)); }

template <int width>
__global__ void shared_load(const u32* table, char* data, u32* out, int pattern) {
    __shared__ __align__(128) char memory[shared_bytes];
    const u32 offset = table[pattern * 32 + threadIdx.x];
    Word<width> v;
    u32 sum = 0;
    if (offset != idle) sum = load_shared(v, window(memory) + offset);
    out[threadIdx.x] = sum;
}

template <int width>
__global__ void shared_store(const u32* table, char* data, u32* out, int pattern) {
    __shared__ __align__(128) char memory[shared_bytes];
    const u32 offset = table[pattern * 32 + threadIdx.x];
    if (offset != idle) store_shared(Word<width>(), window(memory) + offset);
}

template <int width>
__global__ void global_load(const u32* table, char* data, u32* out, int pattern) {
    const u32 offset = table[pattern * 32 + threadIdx.x];
    Word<width> v;
    u32 sum = 0;
    if (offset != idle) sum = load_global(v, data + offset);
    out[threadIdx.x] = sum;
}

template <int width>
__global__ void global_store(const u32* table, char* data, u32* out, int pattern) {
    const u32 offset = table[pattern * 32 + threadIdx.x];
    if (offset != idle) store_global(Word<width>(), data + offset);
}

// Atomics: `returning` uses the result (atom); otherwise the result is not used (red).
struct AddU32 {
    static __device__ u32 at(char* p) { return atomicAdd((u32*)p, threadIdx.x + 1); }
};
struct AddOne {
    static __device__ u32 at(char* p) { return atomicAdd((u32*)p, 1u); }
};
struct MaxU32 {
    static __device__ u32 at(char* p) { return atomicMax((u32*)p, threadIdx.x); }
};
struct AddF32 {
    static __device__ u32 at(char* p) { return u32(atomicAdd((float*)p, 1.0f + threadIdx.x)); }
};
struct AddU64 {
    static __device__ u32 at(char* p) { return u32(atomicAdd((u64*)p, u64(threadIdx.x))); }
};
struct AddF64 {
    static __device__ u32 at(char* p) { return u32(atomicAdd((double*)p, 1.0 + threadIdx.x)); }
};
struct ExchU32 {
    static __device__ u32 at(char* p) { return atomicExch((u32*)p, threadIdx.x); }
};
struct CasU32 {
    static __device__ u32 at(char* p) { return atomicCAS((u32*)p, threadIdx.x, 1u); }
};
struct CasU64 {
    static __device__ u32 at(char* p) { return u32(atomicCAS((u64*)p, u64(threadIdx.x), u64(1))); }
};

template <class Operation, bool returning>
__global__ void global_atomic(const u32* table, char* data, u32* out, int pattern) {
    const u32 offset = table[pattern * 32 + threadIdx.x];
    u32 old = 0;
    if (offset != idle) old = Operation::at(data + offset);
    if (returning) out[threadIdx.x] = old;
}

template <class Operation, bool returning>
__global__ void shared_atomic(const u32* table, char* data, u32* out, int pattern) {
    __shared__ __align__(128) char memory[shared_bytes];
    const u32 offset = table[pattern * 32 + threadIdx.x];
    u32 old = 0;
    if (offset != idle) old = Operation::at(memory + offset);
    if (returning) out[threadIdx.x] = old;
}

template <int width, bool past_l1>
__device__ void copy(u32 target, const char* source) {
    if (past_l1)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(target), "l"(source));
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(target), "l"(source),
                     "n"(width));
}

// The same, but only some bytes are read. The rest of the destination is filled with zeros.
template <int width, bool past_l1>
__device__ void copy(u32 target, const char* source, u32 bytes) {
    if (past_l1)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(source),
                     "r"(bytes));
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;" ::"r"(target), "l"(source),
                     "r"(bytes), "n"(width));
}

// cp.async from data + offset to shared memory. The next row of the table has the target offsets.
template <int width, bool past_l1>
__global__ void async_copy(const u32* table, char* data, u32* out, int pattern) {
    __shared__ __align__(128) char memory[shared_bytes];
    const u32 from = table[pattern * 32 + threadIdx.x];
    const u32 to = table[pattern * 32 + 32 + threadIdx.x];
    if (from != idle) copy<width, past_l1>(window(memory) + to, data + from);
    asm volatile("cp.async.wait_all;" ::: "memory");
}

// The same, but the row after the target offsets has the number of bytes that each lane reads. The
// rest of its destination is filled with zeros.
template <int width, bool past_l1>
__global__ void part_copy(const u32* table, char* data, u32* out, int pattern) {
    __shared__ __align__(128) char memory[shared_bytes];
    const u32* row = table + pattern * 32 + threadIdx.x;
    const u32 from = row[0], target = window(memory) + row[32], bytes = row[64];
    if (from != idle) copy<width, past_l1>(target, data + from, bytes);
    asm volatile("cp.async.wait_all;" ::: "memory");
}

// The same, but each lane reads all bytes or none. Then the assembler uses a predicate.
template <int width, bool past_l1>
__global__ void filled_copy(const u32* table, char* data, u32* out, int pattern) {
    __shared__ __align__(128) char memory[shared_bytes];
    const u32* row = table + pattern * 32 + threadIdx.x;
    const u32 from = row[0], target = window(memory) + row[32], bytes = row[64] ? width : 0;
    if (from != idle) copy<width, past_l1>(target, data + from, bytes);
    asm volatile("cp.async.wait_all;" ::: "memory");
}

// The same as async_copy, but a guard excludes lanes: the lanes from `pattern` on.
template <int width, bool past_l1>
__global__ void guarded_copy(const u32* table, char* data, u32* out, int pattern) {
    __shared__ __align__(128) char memory[shared_bytes];
    const u32 from = table[threadIdx.x], target = window(memory) + table[32 + threadIdx.x];
    if (threadIdx.x < pattern) copy<width, past_l1>(target, data + from);
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    out[threadIdx.x] = memory[threadIdx.x];
}

// The instantiations that are tested. One compilation makes all of them.
void instantiations() {
    shared_load<1><<<1, 32>>>();
    shared_load<2><<<1, 32>>>();
    shared_load<4><<<1, 32>>>();
    shared_load<8><<<1, 32>>>();
    shared_load<16><<<1, 32>>>();
    shared_store<1><<<1, 32>>>();
    shared_store<2><<<1, 32>>>();
    shared_store<4><<<1, 32>>>();
    shared_store<8><<<1, 32>>>();
    shared_store<16><<<1, 32>>>();
    global_load<1><<<1, 32>>>();
    global_load<2><<<1, 32>>>();
    global_load<4><<<1, 32>>>();
    global_load<8><<<1, 32>>>();
    global_load<16><<<1, 32>>>();
    global_store<1><<<1, 32>>>();
    global_store<2><<<1, 32>>>();
    global_store<4><<<1, 32>>>();
    global_store<8><<<1, 32>>>();
    global_store<16><<<1, 32>>>();
    shared_atomic<AddU32,false><<<1, 32>>>();
    global_atomic<AddU32,false><<<1, 32>>>();
    shared_atomic<AddU32,true><<<1, 32>>>();
    global_atomic<AddU32,true><<<1, 32>>>();
    shared_atomic<AddOne,false><<<1, 32>>>();
    global_atomic<AddOne,false><<<1, 32>>>();
    shared_atomic<AddOne,true><<<1, 32>>>();
    global_atomic<AddOne,true><<<1, 32>>>();
    shared_atomic<MaxU32,false><<<1, 32>>>();
    global_atomic<MaxU32,false><<<1, 32>>>();
    shared_atomic<ExchU32,true><<<1, 32>>>();
    global_atomic<ExchU32,true><<<1, 32>>>();
    shared_atomic<CasU32,true><<<1, 32>>>();
    global_atomic<CasU32,true><<<1, 32>>>();
    shared_atomic<AddF32,false><<<1, 32>>>();
    global_atomic<AddF32,false><<<1, 32>>>();
    shared_atomic<AddF32,true><<<1, 32>>>();
    global_atomic<AddF32,true><<<1, 32>>>();
    shared_atomic<AddU64,false><<<1, 32>>>();
    global_atomic<AddU64,false><<<1, 32>>>();
    shared_atomic<CasU64,true><<<1, 32>>>();
    global_atomic<CasU64,true><<<1, 32>>>();
    shared_atomic<AddF64,false><<<1, 32>>>();
    global_atomic<AddF64,false><<<1, 32>>>();
    async_copy<4,false><<<1, 32>>>();
    async_copy<8,false><<<1, 32>>>();
    async_copy<16,false><<<1, 32>>>();
    async_copy<16,true><<<1, 32>>>();
    part_copy<4,false><<<1, 32>>>();
    part_copy<8,false><<<1, 32>>>();
    part_copy<16,false><<<1, 32>>>();
    part_copy<16,true><<<1, 32>>>();
    filled_copy<4,false><<<1, 32>>>();
    filled_copy<8,false><<<1, 32>>>();
    filled_copy<16,false><<<1, 32>>>();
    filled_copy<16,true><<<1, 32>>>();
    guarded_copy<4,false><<<1, 32>>>();
    guarded_copy<8,false><<<1, 32>>>();
    guarded_copy<16,false><<<1, 32>>>();
    guarded_copy<16,true><<<1, 32>>>();
}
