// Reports an index outside an array member of a structure, such as `s.a[4]` for `int a[4]`.
//
// The compiled code does not show such a mistake, because the address may be that of another
// member. So for a check, the package adds a test of the index to the source
// (cxx/member_accesses.py in Python). If the test fails, the code calls the function
// __coalesce_outside_member, which has no body (CallSite::Builtin). The scheduler then calls this
// function.
#pragma once

#include <functional>

#include "sim/warp/warp.hpp"

namespace coalesce::sim {

// `argument(n)` returns argument number n of the call:
//  0     an index into Program::member_accesses
//  1     the number of dimensions of the array, from 1 to 3
//  2-4   the indices
//  5-7   the extents of the array
void report_outside_member(const Warp& warp, const Op& op, int lane,
                           const std::function<uint64_t(size_t)>& argument);

}  // namespace coalesce::sim
