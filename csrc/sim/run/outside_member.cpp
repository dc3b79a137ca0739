#include "sim/run/outside_member.hpp"

#include <algorithm>

#include "errors.hpp"
#include "sim/warp/memory.hpp"
#include "sim/warp/observer.hpp"

namespace coalesce::sim {

namespace {

// Returns the numbers as "3, 4".
std::string listed(const std::vector<int64_t>& numbers) {
    std::string text;
    for (const int64_t n : numbers) text += (text.empty() ? "" : ", ") + std::to_string(n);
    return text;
}

}  // namespace

void report_outside_member(const Warp& w, const Op& op, int lane,
                           const std::function<uint64_t(size_t)>& argument) {
    constexpr size_t dimensions = 3, first_index = 2, first_extent = first_index + dimensions;
    const Program& program = *w.block->program;
    const uint64_t number = argument(0);
    const MemberAccess known = number < program.member_accesses.size()
                                   ? program.member_accesses[number]
                                   : MemberAccess{"a member", "read"};
    const size_t rank = std::clamp<size_t>(argument(1), 1, dimensions);
    std::vector<int64_t> indices, extents;
    for (size_t n = 0; n < rank; ++n) {
        indices.push_back(int64_t(argument(first_index + n)));
        extents.push_back(int64_t(argument(first_extent + n)));
    }
    const std::string has = rank == 1 ? " has " + listed(extents) + " elements"
                                      : " has shape (" + listed(extents) + ")";
    const Misuse wrong{.message = known.verb + " of `" + known.array + "[" + listed(indices) +
                                  "]`, which is outside the array\n  `" + known.array + "`" + has +
                                  ", in a parameter of the kernel",
                       .array = known.array,
                       .verb = known.verb};
    if (!w.block->announce->misuse(w.block->observer, w, op, lane, wrong))
        throw MemoryFault(Fault::outside, wrong.message + "\n  " + where(program, op) + "\n  " +
                                              thread_name(w, lane));
}

}  // namespace coalesce::sim
