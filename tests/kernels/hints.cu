// Accesses to global memory with the cache hints, prefetch sizes and scopes of PTX, and prefetches.
// Each kernel has one form of access, so that a wrong count shows in which form it is.

#define INDEX (blockIdx.x * blockDim.x + threadIdx.x)

#define LOAD(name, form)                                                             \
    extern "C" __global__ void name(const unsigned* in, unsigned* out, int stride) { \
        unsigned i = INDEX, value;                                                   \
        asm volatile("ld.global" form ".u32 %0, [%1];"                               \
                     : "=r"(value)                                                   \
                     : "l"(in + i * stride)                                          \
                     : "memory");                                                    \
        out[i] = value;                                                              \
    }
#define STORE(name, form)                                                                  \
    extern "C" __global__ void name(const unsigned* in, unsigned* out, int stride) {       \
        unsigned i = INDEX;                                                                \
        asm volatile("st.global" form ".u32 [%0], %1;" ::"l"(out + i * stride), "r"(in[i]) \
                     : "memory");                                                          \
    }
#define ATOMIC(name, form)                                                           \
    extern "C" __global__ void name(const unsigned* in, unsigned* out, int stride) { \
        unsigned i = INDEX, old;                                                     \
        asm volatile("atom.global" form ".add.u32 %0, [%1], %2;"                     \
                     : "=r"(old)                                                     \
                     : "l"(out + i * stride), "r"(in[i])                             \
                     : "memory");                                                    \
        if (old == 0xffffffffu) out[i] = 0;                                          \
    }
#define REDUCTION(name, form)                                                                   \
    extern "C" __global__ void name(const unsigned* in, unsigned* out, int stride) {            \
        unsigned i = INDEX;                                                                     \
        asm volatile("red.global" form ".add.u32 [%0], %1;" ::"l"(out + i * stride), "r"(in[i]) \
                     : "memory");                                                               \
    }
#define PREFETCH(name, form)                                                         \
    extern "C" __global__ void name(const unsigned* in, unsigned* out, int stride) { \
        unsigned i = INDEX;                                                          \
        asm volatile(form " [%0];" ::"l"(in + i * stride) : "memory");               \
        out[i] = i;                                                                  \
    }

LOAD(load_no_allocate, ".L1::no_allocate")
LOAD(load_evict_first, ".L1::evict_first")
LOAD(load_evict_last, ".L1::evict_last")
LOAD(load_evict_unchanged, ".L1::evict_unchanged")
LOAD(load_l2_64, ".L2::64B")
LOAD(load_l2_128, ".L2::128B")
LOAD(load_l2_256, ".L2::256B")
LOAD(load_nc, ".nc")
LOAD(load_nc_no_allocate, ".nc.L1::no_allocate")
LOAD(load_nc_no_allocate_l2_256, ".nc.L1::no_allocate.L2::256B")
LOAD(load_cg, ".cg")
LOAD(load_cs, ".cs")
LOAD(load_relaxed_cta, ".relaxed.cta")
LOAD(load_relaxed_gpu, ".relaxed.gpu")
LOAD(load_relaxed_sys, ".relaxed.sys")
LOAD(load_acquire_cta, ".acquire.cta")
LOAD(load_acquire_gpu, ".acquire.gpu")
LOAD(load_acquire_sys, ".acquire.sys")
LOAD(load_weak_volatile, ".volatile")
STORE(store_no_allocate, ".L1::no_allocate")
STORE(store_evict_first, ".L1::evict_first")
STORE(store_evict_last, ".L1::evict_last")
STORE(store_evict_unchanged, ".L1::evict_unchanged")
STORE(store_cg, ".cg")
STORE(store_cs, ".cs")
STORE(store_wt, ".wt")
STORE(store_relaxed_cta, ".relaxed.cta")
STORE(store_relaxed_gpu, ".relaxed.gpu")
STORE(store_relaxed_sys, ".relaxed.sys")
STORE(store_release_cta, ".release.cta")
STORE(store_release_gpu, ".release.gpu")
STORE(store_release_sys, ".release.sys")
ATOMIC(atomic_relaxed_cta, ".relaxed.cta")
ATOMIC(atomic_relaxed_sys, ".relaxed.sys")
ATOMIC(atomic_acq_rel_gpu, ".acq_rel.gpu")
REDUCTION(reduction_relaxed_cta, ".relaxed.cta")
REDUCTION(reduction_relaxed_sys, ".relaxed.sys")
REDUCTION(reduction_release_gpu, ".release.gpu")
PREFETCH(prefetch_l1, "prefetch.global.L1")
PREFETCH(prefetch_l2, "prefetch.global.L2")
PREFETCH(prefetch_l2_evict_last, "prefetch.global.L2::evict_last")
