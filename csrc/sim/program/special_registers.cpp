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
    using enum Special;
    switch (which) {
        case ntid_x:
            return launch.block.x;
        case ntid_y:
            return launch.block.y;
        case ntid_z:
            return launch.block.z;
        case ctaid_x:
            return block.index.x;
        case ctaid_y:
            return block.index.y;
        case ctaid_z:
            return block.index.z;
        case nctaid_x:
            return launch.grid.x;
        case nctaid_y:
            return launch.grid.y;
        case nctaid_z:
            return launch.grid.z;
        case warpid:
            return w.index;
        case virtual_id:
            return w.index << 8;
        case nwarpid:
            return launch.gpu.resident_warps();
        case smid:
            return block.linear % launch.gpu.multiprocessors;
        case nsmid:
            return launch.gpu.multiprocessors;
        case clock_low:
        case clock_64:
        case timer:
        case timer_low:
            return nanoseconds();
        case clock_high:
        case timer_high:
            return nanoseconds() >> 32;
        case dynamic_shared:
            return launch.shared_bytes;
        case total_shared:
        case aggregate_shared:
            return block.program->shared_bytes + launch.shared_bytes;
        case system_shared:
            return block.program->reserved_shared + system_shared_offset(*block.program, launch);
        case grid_workspace_high:
            return launch.cooperative ? grid_workspace >> 32 : 0;
        case grid_workspace_low:
            return launch.cooperative ? uint32_t(grid_workspace) : 0;
        case clusterid_x:
            return block.index.x / launch.cluster.x;
        case clusterid_y:
            return block.index.y / launch.cluster.y;
        case clusterid_z:
            return block.index.z / launch.cluster.z;
        case nclusterid_x:
            return launch.grid.x / launch.cluster.x;
        case nclusterid_y:
            return launch.grid.y / launch.cluster.y;
        case nclusterid_z:
            return launch.grid.z / launch.cluster.z;
        case cluster_ctaid_x:
            return block.index.x % launch.cluster.x;
        case cluster_ctaid_y:
            return block.index.y % launch.cluster.y;
        case cluster_ctaid_z:
            return block.index.z % launch.cluster.z;
        case cluster_nctaid_x:
            return launch.cluster.x;
        case cluster_nctaid_y:
            return launch.cluster.y;
        case cluster_nctaid_z:
            return launch.cluster.z;
        case cluster_ctarank:
            return block.rank;
        case cluster_nctarank:
            return launch.cluster.count();
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
#define COALESCE_SPECIAL(name, spelling) {spelling, Special::name},
#include "sim/program/special_registers.inc"
#undef COALESCE_SPECIAL
    };
    for (const Entry& e : entries) {
        if (e.name == name) return e.special;
    }
    return Special::unknown;
}

}  // namespace coalesce::sim
