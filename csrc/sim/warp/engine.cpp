#include "sim/warp/engine.hpp"

#ifdef __linux__
#include <sched.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include "sim/warp/host_isa.hpp"

namespace coalesce::sim {

namespace {

// Returns on how many cores this process may run (taskset, cpuset of a container).
uint32_t cores_of_process() {
#ifdef __linux__
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1u, uint32_t(CPU_COUNT(&set)));
#endif
    return std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace

uint32_t worker_count(const GridRun& launch) {
    static const uint32_t cores = cores_of_process();
    const uint32_t workers = launch.workers ? launch.workers : cores;
    return uint32_t(
        std::clamp<uint64_t>(launch.block_count() / launch.cluster.count(), 1, workers));
}

const Engine& engine(Watch watch, Isa isa) {
    switch (isa) {
#define COALESCE_ISA_CASE(name) \
    case Isa::name:             \
        return name::engines[size_t(watch)];
        COALESCE_FOR_EACH_ISA(COALESCE_ISA_CASE)
#undef COALESCE_ISA_CASE
    }
    throw std::logic_error(
        "this build of coalesce was not compiled for the requested instruction set");
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

namespace {

int level_named(std::string_view name) { return name == "v4" ? 4 : name == "v3" ? 3 : 0; }

}  // namespace

Isa best_isa() {
    static const Isa best = [] {
        constexpr Isa held[] = {
#define COALESCE_ISA_ITEM(name) Isa::name,
            COALESCE_FOR_EACH_ISA(COALESCE_ISA_ITEM)
#undef COALESCE_ISA_ITEM
        };
        const int host = host_level();
        if (level_named(name_of(held[0])) > host) {
            throw std::runtime_error(
                std::string("coalesce was built for processors of level x86-64-") +
                name_of(held[0]) +
                ", but this processor has a lower level. Install coalesce again on this machine, "
                "or build it for all processors: "
                "pip install . --config-settings=cmake.define.COALESCE_ISAS=all");
        }
        const char* forced = std::getenv("COALESCE_ISA_LEVEL");
        const int most = forced ? std::min(host, level_named(forced)) : host;
        Isa isa = held[0];
        for (const Isa candidate : held) {
            if (level_named(name_of(candidate)) <= most) isa = candidate;
        }
        return isa;
    }();
    return best;
}

}  // namespace coalesce::sim
