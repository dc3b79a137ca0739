// Counting: what each instruction of a kernel executed and moved.
//
// The numbers have Nsight Compute's names and meaning. They are of the instructions of the program
// that ran: the machine code where it could be lifted (csrc/sass), else the PTX, whose instructions
// the assembler merges and drops. docs/accuracy.md sets them beside a GPU's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "analysis/instruction_counts.hpp"
#include "model/time.hpp"
#include "sim/memory.hpp"

namespace coalesce::analysis {

struct CacheResult;

// The kernel that was counted, as tables of counts show it.
struct Listing {
    std::string kernel;
    uint32_t source_file = 0;               // key of `files`: the file the kernel is in
    std::map<uint32_t, std::string> files;  // of SourceLine
    std::vector<sim::InstructionInfo> instructions;
    bool operator==(const Listing&) const = default;
};

[[nodiscard]] std::shared_ptr<const Listing> listing_of(const sim::Program& program);

struct Counts {
    std::vector<InstructionCounts> instructions;  // by instruction
    std::shared_ptr<const Listing> listing;       // of the same instructions
    // Adds the counts of other blocks or launches of the same kernel; LaunchError if it is another.
    void add(const Counts& other);
    bool operator==(const Counts& other) const;
    // Sums over the instructions of a space and kind.
    [[nodiscard]] InstructionCounts sum(ptx::Space space, sim::Access access) const;
    [[nodiscard]] uint64_t executed() const;
    [[nodiscard]] uint64_t threads() const;
    // What the time model needs, of a grid of `blocks` of `warps` on buffers of `buffer_bytes`
    // (work.cpp).
    [[nodiscard]] model::Work work(uint64_t blocks, uint32_t warps, uint64_t buffer_bytes,
                                   const sim::MachineCode* machine = nullptr,
                                   const CacheResult* caches = nullptr) const;
    // By Nsight Compute's names.
    [[nodiscard]] std::map<std::string, double> metrics() const;
    void add_tensor_cores(std::map<std::string, double>& metrics) const;
};

// The counts of blocks that are added up apart.
struct GroupedCounts {
    std::unordered_map<uint64_t, uint32_t> group_of;  // by linear block number
    std::vector<Counts> groups;
    std::mutex mutex;

    // Adds the observer's counts to the group of `block`. All of them belong to this block: in a
    // launch with groups, no block waits for another, so each worker ends a block before it starts
    // the next.
    template <class O>
    void take(const sim::Block& block, O& observer) {
        {
            const std::lock_guard lock(mutex);
            observer.add_to(groups[group_of.at(block.linear)]);
        }
        observer.clear();
    }
};

}  // namespace coalesce::analysis
