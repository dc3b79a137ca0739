// What a checked run found: groups of like findings, one example of each.
//
// Findings are alike if they are of one kind, at the same source lines (in either order) and in the
// same array. The first of them is kept, the others are counted; after `most_groups` groups new
// ones are only counted. In the end a race takes with it the warnings between its lines, and the
// reads of what was not written yet that are one of its sides: they are the same mistake.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "sim/program.hpp"

namespace coalesce::analysis {

enum class FindingKind : uint8_t {
    out_of_bounds,
    misaligned,
    read_only,
    use_after_free,
    uninitialized,
    race,
    same_value,  // a race of two writes of one value
    lockstep,    // ordered only if a warp's lanes move together
    barrier,     // reached by some threads only, or in divergent code
    warp_mask,   // of shfl, vote, match
    heap,        // free() used wrongly, or memory of malloc() that nobody can free
    stale_read,  // through the read-only path, of what the kernel writes
    stopped,     // the kernel could not go on: trap, assertion, limit
};
[[nodiscard]] const char* name_of(FindingKind kind);

// One side of a finding: what was done, by which instruction and thread.
struct Actor {
    std::string what;  // "write"; empty: there is no such side
    uint32_t pc = 0;
    uint32_t thread[3] = {};
    uint64_t block[3] = {};
};

struct Finding {
    FindingKind kind = FindingKind::race;
    bool warning = false;
    std::string title;
    std::vector<std::string> details;
    std::string space;  // "global", "shared", "local"; empty: no memory
    std::string array;  // empty: no array
    std::vector<int64_t> index;
    int64_t offset = 0;  // bytes from the start of the array
    uint32_t bytes = 0;  // of the access
    Actor first, second;
    uint64_t count = 0;
};

class Findings {
  public:
    explicit Findings(const sim::Program& program) : program_(program) {}

    // Where findings of a kind, at these instructions and in this array, are collected. If the
    // group is new, `fresh` is set and the caller fills it in. Null: there are too many groups.
    Finding* group(FindingKind kind, uint32_t first_pc, uint32_t second_pc, uint32_t array,
                   bool& fresh);

    [[nodiscard]] std::vector<Finding> finish();
    [[nodiscard]] uint64_t left_out() const { return left_out_; }
    void add(Finding finding) { findings_.push_back(std::move(finding)); }

  private:
    static constexpr size_t most_groups = 100;
    using Place = std::pair<uint32_t, uint32_t>;  // file and line, or an instruction of no line
    using Group = std::tuple<FindingKind, Place, Place, uint32_t>;
    [[nodiscard]] Place place_of(uint32_t pc) const;

    const sim::Program& program_;
    std::vector<Finding> findings_;
    // By instructions, which is quick to know, and by lines.
    std::map<std::tuple<FindingKind, uint32_t, uint32_t, uint32_t>, int> by_instruction_;
    std::map<Group, int> by_line_;
    uint64_t left_out_ = 0;
};

}  // namespace coalesce::analysis
