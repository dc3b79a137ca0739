// The findings of a checked run, merged into groups with one example each.
//
// A finding concerns an array and two source lines, which may be the same. Findings belong to one
// group if they have the same kind, the same array, and the same two source lines, in either order.
// The first finding of a group is kept as the example, and the others are only counted. At most
// `max_groups` groups are kept. Findings of further groups are only counted. At the end, findings
// that have the same cause as a race are merged into the race. These are warnings on the same lines
// as the race, and reads of uninitialized memory on one of its lines.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "sim/program/program.hpp"

namespace coalesce::analysis {

enum class FindingKind : uint8_t {
#define COALESCE_FINDING(kind) kind,
#include "analysis/check/finding_kinds.inc"
#undef COALESCE_FINDING
};
[[nodiscard]] const char* name_of(FindingKind kind);

// A warning is about code that usually works but is not guaranteed to. A note is about code that is
// correct, but may not do what its author meant.
enum class Severity : uint8_t { error, warning, note };
[[nodiscard]] const char* name_of(Severity severity);

// One of the two accesses of a finding: what was done, by which instruction, and by which thread.
struct Actor {
    std::string what;  // such as "write"; empty if there is no access
    uint32_t pc = 0;
    uint32_t thread[3] = {};
    uint64_t block[3] = {};
};

// A finding, or a group of findings with one of them as the example. `count` is the size of the
// group.
struct Finding {
    FindingKind kind = FindingKind::race;
    Severity severity = Severity::error;
    bool skipped = false;  // for a barrier: threads left the kernel without reaching it
    std::string title;
    std::vector<std::string> details;
    std::string space;  // "global", "shared", "local"; empty if the finding is not about memory
    std::string array;  // empty if the access is outside all arrays
    std::vector<int64_t> index;
    int64_t offset = 0;  // bytes from the start of the array
    // The address in global memory of an access that is not possible, or the handle of a texture
    // or surface object that does not exist. Otherwise 0.
    uint64_t address = 0;
    uint32_t bytes = 0;  // bytes of the access
    Actor first, second;
    uint64_t count = 0;
};

// Collects the findings of a run and groups them.
class Findings {
  public:
    explicit Findings(const sim::Program& program) : program_(program) {}

    // Returns the finding that represents the group of this kind, array and pair of instructions.
    // Returns null if there are too many groups. If the group is new, `fresh` is set to true, and
    // the caller must fill in the finding.
    Finding* group(FindingKind kind, uint32_t first_pc, uint32_t second_pc, uint32_t array,
                   bool& fresh);

    [[nodiscard]] std::vector<Finding> finish();
    [[nodiscard]] uint64_t left_out() const { return left_out_; }
    void add(Finding finding) { findings_.push_back(std::move(finding)); }

  private:
    static constexpr size_t max_groups = 100;
    // File and line. If the line is not known, the instruction replaces it.
    using Place = std::pair<uint32_t, uint32_t>;
    using Group = std::tuple<FindingKind, Place, Place, uint32_t>;
    [[nodiscard]] Place place_of(uint32_t pc) const;

    const sim::Program& program_;
    std::vector<Finding> findings_;
    // The number of a finding's group is looked up in two tables. by_instruction_ is tried first,
    // because it is fast. If it does not contain the two instructions, by_line_ is tried:
    // instructions of the same source lines belong to the same group.
    std::map<std::tuple<FindingKind, uint32_t, uint32_t, uint32_t>, int> by_instruction_;
    std::map<Group, int> by_line_;
    uint64_t left_out_ = 0;
};

}  // namespace coalesce::analysis
