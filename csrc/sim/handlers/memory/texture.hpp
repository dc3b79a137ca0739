// The handlers of texture and surface instructions. They have no loops over lanes that could be
// vectorized, so they are compiled once, for all instruction sets of the host.
#pragma once

#include "sim/warp/engine.hpp"
#include "sim/warp/memory.hpp"

namespace coalesce::sim {

template <Watch watch>
void fetch_texture(Warp& w, const Op& op);  // tex
template <Watch watch>
void gather_texture(Warp& w, const Op& op);  // tld4
template <Watch watch>
void load_surface(Warp& w, const Op& op);  // suld
template <Watch watch>
void store_surface(Warp& w, const Op& op);  // sust
void query_texture(Warp& w, const Op& op);  // txq, suq

// Returns the message for a surface access outside the surface, or at a misaligned byte.
[[nodiscard]] FaultText describe_surface_fault(const Warp& w, const Op& op, int lane, Access access,
                                               Fault fault);

}  // namespace coalesce::sim
