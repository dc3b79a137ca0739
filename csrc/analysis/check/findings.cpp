#include "analysis/check/findings.hpp"

#include <algorithm>

namespace coalesce::analysis {

const char* name_of(FindingKind kind) {
    static constexpr const char* names[] = {
#define COALESCE_FINDING(kind) #kind,
#include "analysis/check/finding_kinds.inc"
#undef COALESCE_FINDING
    };
    return names[size_t(kind)];
}

const char* name_of(Severity severity) {
    return severity == Severity::error     ? "error"
           : severity == Severity::warning ? "warning"
                                           : "note";
}

Findings::Place Findings::place_of(uint32_t pc) const {
    const ptx::SourceLine& at = program_.instructions[pc].source;
    return at.line ? Place{at.file, at.line} : Place{UINT32_MAX, pc};
}

Finding* Findings::group(FindingKind kind, uint32_t first_pc, uint32_t second_pc, uint32_t array,
                         bool& fresh) {
    constexpr int none = -1;
    const auto [known, new_pair] =
        by_instruction_.try_emplace({kind, first_pc, second_pc, array}, none);
    if (new_pair) {
        const auto [low, high] = std::minmax({place_of(first_pc), place_of(second_pc)});
        const auto [line, new_line] = by_line_.try_emplace({kind, low, high, array}, none);
        if (new_line && findings_.size() < max_groups) {
            line->second = int(findings_.size());
            findings_.emplace_back().kind = kind;
        }
        known->second = line->second;
    }
    fresh = false;
    if (known->second == none) {
        ++left_out_;
        return nullptr;
    }
    Finding& finding = findings_[size_t(known->second)];
    fresh = finding.count++ == 0;
    return &finding;
}

std::vector<Finding> Findings::finish() {
    using enum FindingKind;
    std::vector<bool> taken(findings_.size());
    const auto take = [&](Finding& race, const Group& other, bool counts) {
        const auto entry = by_line_.find(other);
        if (entry == by_line_.end() || entry->second < 0) return;
        if (counts) race.count += findings_[size_t(entry->second)].count;
        taken[size_t(entry->second)] = true;
    };
    for (const auto& [group, number] : by_line_) {
        const auto [kind, low, high, array] = group;
        if (number < 0 || kind != race) continue;
        Finding& finding = findings_[size_t(number)];
        take(finding, {uninitialized, low, low, array}, false);
        take(finding, {uninitialized, high, high, array}, false);
        take(finding, {same_value, low, high, array}, true);
        take(finding, {lockstep, low, high, array}, true);
        take(finding, {fence, low, high, array}, true);
    }
    std::vector<Finding> left;
    for (size_t n = 0; n < findings_.size(); ++n) {
        if (!taken[n]) left.push_back(std::move(findings_[n]));
    }
    return left;
}

}  // namespace coalesce::analysis
