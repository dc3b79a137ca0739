#include "sim/program/special_registers.hpp"

#include <chrono>

#include "sim/memory/address_space.hpp"
#include "sim/program/launch.hpp"
#include "sim/warp/warp.hpp"

namespace coalesce::sim {

namespace {

// Returns the time that the clock registers show.
uint64_t nanoseconds() {
    return uint64_t(std::chrono::duration_cast<std::chrono::nanoseconds>(
                        std::chrono::steady_clock::now().time_since_epoch())
                        .count());
}

}  // namespace

uint64_t uniform_value(const Warp& w, Special which) {
    const Block& block = *w.block;
    const GridRun& launch = *block.launch;
    switch (which) {
#define COALESCE_SPECIAL(name, spelling, value) \
    case Special::name:                         \
        return value;
#include "sim/program/special_registers.inc"
#undef COALESCE_SPECIAL
        default:
            return 0;
    }
}

Special special_named(std::string_view name) {
    struct Entry {
        std::string_view name;
        Special special;
    };
    static constexpr Entry entries[] = {
#define COALESCE_SPECIAL(name, spelling, value) {spelling, Special::name},
#include "sim/program/special_registers.inc"
#undef COALESCE_SPECIAL
    };
    for (const Entry& e : entries) {
        if (e.name == name) return e.special;
    }
    return Special::unknown;
}

}  // namespace coalesce::sim
