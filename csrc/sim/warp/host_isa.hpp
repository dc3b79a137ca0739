// Detects which instruction sets of x86-64 this machine can execute.
//
// The x86-64 psABI groups them into levels: v3 has AVX2, FMA and BMI2; v4 adds AVX-512 F, BW, CD,
// DQ and VL. host_level() returns the highest level of this machine. The simulator calls it when it
// starts. For a build that is for this machine only, CMake also runs a small program that calls it.
#pragma once

namespace coalesce::sim {

// Returns 4 for v4, 3 for v3, and 0 for the baseline of the architecture.
inline int host_level() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi2");
    const bool v4 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512vl");
    return v3 ? (v4 ? 4 : 3) : 0;
#else
    return 0;
#endif
}

}  // namespace coalesce::sim
