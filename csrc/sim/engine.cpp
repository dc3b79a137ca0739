#include "sim/engine.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <thread>

namespace coalesce::sim {

uint32_t worker_count(const Launch& launch) {
    const uint32_t wanted =
        launch.workers ? launch.workers : std::max(1u, std::thread::hardware_concurrency());
    return uint32_t(std::clamp<uint64_t>(launch.block_count(), 1, wanted));
}

const char* name_of(Isa isa) {
    switch (isa) {
#define COALESCE_ISA_CASE(name) \
    case Isa::name:             \
        return #name;
        COALESCE_FOR_EACH_ISA(COALESCE_ISA_CASE)
#undef COALESCE_ISA_CASE
    }
    return "";
}

Isa best_isa() {
    static const Isa best = [] {
        Isa isa = Isa::generic;
#if defined(__x86_64__) && !defined(COALESCE_BASELINE)
        __builtin_cpu_init();
        if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
            __builtin_cpu_supports("bmi2"))
            isa = Isa::v3;
        if (isa == Isa::v3 && __builtin_cpu_supports("avx512f") &&
            __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
            __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd")) {
            isa = Isa::v4;
        }
        if (const char* forced = std::getenv("COALESCE_ISA_LEVEL")) {
            if (std::string_view(forced) == "generic") isa = Isa::generic;
            if (std::string_view(forced) == "v3" && isa == Isa::v4) isa = Isa::v3;
        }
#endif
        return isa;
    }();
    return best;
}

}  // namespace coalesce::sim
