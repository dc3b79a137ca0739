#include "analysis/counts/counts.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include "errors.hpp"

namespace coalesce::analysis {

using ptx::Space;
using sim::Access;

void InstructionCounts::add(const InstructionCounts& o) {
    for (const Counter& c : counters) this->*c.value += o.*c.value;
    space = std::max(space, o.space);
    if (o.requests) access = o.access;
}

std::shared_ptr<const CountedCode> counted_code(const sim::Program& program) {
    return std::make_shared<const CountedCode>(
        CountedCode{program.kernel, program.source_file, program.files, program.instructions});
}

void Counts::add(const Counts& other) {
    if (code != other.code && *code != *other.code)
        throw LaunchError("the counts of " + code->kernel + " and the counts of " +
                          other.code->kernel +
                          " cannot be added: they belong to different compiled kernels");
    for (size_t i = 0; i < instructions.size(); ++i) instructions[i].add(other.instructions[i]);
}

bool Counts::operator==(const Counts& other) const {
    return instructions == other.instructions && (code == other.code || *code == *other.code);
}

InstructionCounts Counts::sum(Space space, Access access) const {
    InstructionCounts total;
    for (size_t i = 0; i < instructions.size(); ++i) {
        const InstructionCounts& c = instructions[i];
        if (code->instructions[i].traits.bulk) continue;
        if (c.requests && c.space == space && c.access == access) total.add(c);
    }
    return total;
}

uint64_t Counts::executed() const {
    return std::transform_reduce(instructions.begin(), instructions.end(), uint64_t{0}, std::plus(),
                                 std::mem_fn(&InstructionCounts::executed));
}

uint64_t Counts::threads() const {
    return std::transform_reduce(instructions.begin(), instructions.end(), uint64_t{0}, std::plus(),
                                 std::mem_fn(&InstructionCounts::threads));
}

namespace {

// The reasons why an instruction has no modelled cost.
constexpr const char* bulk_copies =
    "bulk copies (cp.async.bulk) do not pass through the load/store unit, and their time is not "
    "modelled";
constexpr const char* products_of_warpgroups =
    "products of warpgroups (wgmma) have no modelled time";
constexpr const char* waits_for_blocks =
    "threads repeat an access to global memory until other blocks have changed it, or no longer "
    "change it. How often they do so depends on the order of the blocks, which differs on a GPU";
constexpr const char* device_heap =
    "the kernel uses the device heap (malloc, free, new or delete), and the time of these "
    "functions is not known";

}  // namespace

std::string Counts::not_counted() const {
    for (size_t i = 0; i < instructions.size(); ++i) {
        const sim::Traits& traits = code->instructions[i].traits;
        if (instructions[i].executed && (traits.texture || traits.code == sim::OpCode::TXQ))
            return "accesses to textures and surfaces are executed and not counted: they do not "
                   "pass through the load/store unit, and their cost is not modelled";
    }
    return "";
}

std::string Counts::not_modelled() const {
    if (std::string why = not_counted(); !why.empty()) return why;
    std::string why;
    for (size_t i = 0; i < instructions.size(); ++i) {
        if (instructions[i].executed == 0) continue;
        const sim::Traits& traits = code->instructions[i].traits;
        if (traits.bulk) return bulk_copies;
        if (instructions[i].heap_calls) return device_heap;
        if (instructions[i].waits) return waits_for_blocks;
        if (traits.warpgroup)
            why = products_of_warpgroups;
        else if (why.empty() && traits.tensor_operations && !traits.tensor_cycles)
            why =
                "products of matrices are executed as PTX, and the time of the tensor cores is "
                "known for machine code only";
    }
    return why;
}

}  // namespace coalesce::analysis
