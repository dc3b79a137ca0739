// The simulated special registers of PTX, such as %tid.x.
#pragma once

#include <cstdint>
#include <string_view>

namespace coalesce::sim {

enum class Special : uint8_t {
    unknown,
    tid_x,
    tid_y,
    tid_z,
    ntid_x,
    ntid_y,
    ntid_z,
    ctaid_x,
    ctaid_y,
    ctaid_z,
    nctaid_x,
    nctaid_y,
    nctaid_z,
    laneid,
    warpid,
    nwarpid,
    smid,
    nsmid,
    gridid,
    lanemask_eq,
    lanemask_le,
    lanemask_lt,
    lanemask_ge,
    lanemask_gt,
    clock_low,
    clock_high,
    clock_64,
    timer,
    timer_low,
    timer_high,
    dynamic_shared,
    total_shared,
    grid_workspace_high,
    grid_workspace_low,
    clusterid_x,
    clusterid_y,
    clusterid_z,
    nclusterid_x,
    nclusterid_y,
    nclusterid_z,
    cluster_ctaid_x,
    cluster_ctaid_y,
    cluster_ctaid_z,
    cluster_nctaid_x,
    cluster_nctaid_y,
    cluster_nctaid_z,
    cluster_ctarank,
    cluster_nctarank,
    is_explicit_cluster,  // this register is a predicate
};

struct Warp;

// Returns the value of a special register that is the same in all lanes of a warp. Registers that
// differ between the lanes, such as tid_x and laneid, are read in ops_move.cpp.
[[nodiscard]] uint64_t uniform_value(const Warp& warp, Special which);

// Returns the register of that name, or `unknown` if the register is not simulated.
[[nodiscard]] Special special_named(std::string_view name);

}  // namespace coalesce::sim
