// Counts: how often each instruction of a kernel was executed, and which data it moved.
//
// The counts have the names and the meaning that they have in Nsight Compute. They belong to the
// code that the simulator executes. This is the machine code if the simulator can execute all its
// instructions (csrc/sass). Otherwise it is the PTX. The PTX may have more instructions, because
// the assembler merges and removes some when it makes the machine code. docs/accuracy.md compares
// the counts with those of a GPU.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "analysis/counts/instruction_counts.hpp"
#include "model/time.hpp"
#include "sim/warp/memory.hpp"

namespace coalesce::analysis {

struct CacheResult;

// Describes the counted kernel: its name, files and instructions. Tables of counts show these.
struct CountedCode {
    std::string kernel;
    // The number of the file that contains the kernel, a key of `files`.
    uint32_t source_file = 0;
    std::map<uint32_t, std::string> files;  // the names of the files; the key is SourceLine::file
    std::vector<sim::InstructionInfo> instructions;
    bool operator==(const CountedCode&) const = default;
};

[[nodiscard]] std::shared_ptr<const CountedCode> counted_code(const sim::Program& program);

// The counts of a kernel, summed over blocks or launches.
struct Counts {
    std::vector<InstructionCounts> instructions;  // one entry per instruction
    std::shared_ptr<const CountedCode> code;      // describes the same instructions
    // Adds the counts of other blocks or launches of the same kernel. Throws LaunchError if `other`
    // has the counts of a different kernel.
    void add(const Counts& other);
    bool operator==(const Counts& other) const;
    // Returns the sum over the instructions with this memory space and this kind of access. Copies
    // by the copy engine are left out.
    [[nodiscard]] InstructionCounts sum(ptx::Space space, sim::Access access) const;
    [[nodiscard]] uint64_t executed() const;
    [[nodiscard]] uint64_t threads() const;
    // Returns the input of the time model for `blocks` blocks with `warps` warps each.
    // `buffer_bytes` is the total size of the arrays. work.cpp defines this function.
    [[nodiscard]] model::Work work(uint64_t blocks, uint32_t warps, uint64_t buffer_bytes,
                                   const sim::MachineCode* machine = nullptr,
                                   const CacheResult* caches = nullptr) const;
    // Returns the reason why accesses of this launch are missing in the counts, or an empty string
    // if none are missing. (Some kinds of accesses cannot be counted.)
    [[nodiscard]] std::string not_counted() const;
    // Returns the reason why the time of the launch cannot be modelled, or an empty string if it
    // can be modelled.
    [[nodiscard]] std::string not_modelled() const;
    // Returns the floating-point operations of each type (float16, float32, float64), without those
    // of tensor cores. Only the counts of machine code have them.
    [[nodiscard]] std::map<std::string, double> flops() const;
    // Returns the counts under Nsight Compute's names.
    [[nodiscard]] std::map<std::string, double> metrics() const;
    void add_predicated(std::map<std::string, double>& metrics) const;
    void add_tensor_cores(std::map<std::string, double>& metrics) const;
};

}  // namespace coalesce::analysis
