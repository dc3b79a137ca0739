#include "analysis/time/latency.hpp"

#include "analysis/caches/cache_result.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace coalesce::analysis {

using ptx::Space;
using sim::Access;
using sim::Schedule;

namespace {

// The number of cycles after which a slow instruction has its result, if it is not a memory access.
// Examples are conversions, transcendental functions and reads of special registers.
constexpr double late_result = 20;
constexpr double operands_read = 12;  // cycles until a memory access has read its operands
constexpr int warps_tried = 8;
// Limits the time that the model needs to follow a warp through the code. One step is one executed
// instruction. The limit is `max_steps` steps for each instruction of the kernel. When it is
// reached, the model begins to pass inner loops only once. The limit is enough for five nested
// loops.
constexpr uint64_t max_steps = 32;

class Walk {
  public:
    Walk(const Counts& counts, const std::vector<Schedule>& schedule, const model::Work& work,
         const CacheResult* caches)
        : counts_(counts),
          schedule_(schedule),
          caches_(caches),
          miss_(std::min(1.0, work.from_l2 + work.from_dram)),
          dram_of_misses_(miss_ > 0 ? work.from_dram / (work.from_l2 + work.from_dram) : 0),
          open_branches_(schedule.size() + 1),
          spent_(schedule.size()) {}

    double sum() {
        double total = 0;
        for (int n = 0; n < warps_tried; ++n) {
            now_ = {};
            for (auto& branches : open_branches_) branches.clear();
            repeated_.assign(schedule_.size(), false);
            steps_ = 0;
            for (size_t i = 0; i < schedule_.size();) i = step(i);
            for (size_t i = 0; i < schedule_.size(); ++i) total += spent_[i] * executed(i);
        }
        return total / warps_tried;
    }

  private:
    struct State {
        double clock = 0;
        double unit_free = 0;  // the time at which the load-store unit is free
        // the time at which each scoreboard is clear
        std::array<double, Schedule::no_scoreboard + 1> clear{};
        // The times at which the last asynchronous copy and the last group of copies are complete.
        double copied = 0, group = 0;
    };
    // A forward branch that was passed, and whose target has not been reached yet.
    struct OpenBranch {
        double executed;  // how often the branch was executed
        State before;
    };

    [[nodiscard]] double executed(size_t i) const {
        return double(counts_.instructions[i].executed);
    }

    // Models the execution of instruction `i`. Returns the number of the next instruction.
    size_t step(size_t i) {
        // Handles the branches whose target is this instruction, the latest branch first. Each of
        // them jumps over code that ends here. The time of this code does not count in two cases:
        // the code is executed rarely, or it does not continue here. The branches need not be
        // nested. For example, where an `else` part begins, the branch at the end of the `then`
        // part is still open.
        std::vector<OpenBranch>& branches = open_branches_[i];
        for (auto branch = branches.rbegin(); branch != branches.rend(); ++branch) {
            const bool seldom = 2 * executed(i - 1) < branch->executed;
            if (seldom || schedule_[i - 1].ends) now_ = branch->before;
        }
        branches.clear();
        ++steps_;
        if (counts_.instructions[i].executed == 0) return i + 1;
        const Schedule& s = schedule_[i];
        const sim::Traits& traits = counts_.code->instructions[i].traits;
        const double start_clock = now_.clock;
        for (int b = 0; b < Schedule::scoreboards; ++b)
            if (s.awaits >> b & 1) now_.clock = std::max(now_.clock, now_.clear[size_t(b)]);
        if (traits.awaits_copies) now_.clock = std::max(now_.clock, now_.group);
        issue(i, s);
        now_.clock += std::max<double>(1, s.cycles);
        spent_[i] = now_.clock - start_clock;
        if (s.target == Schedule::no_branch) return i + 1;
        if (s.target > i) {
            open(s.target, {executed(i), now_});
        } else if (!repeated_[i]) {
            // Each pass through a loop normally passes its inner loops twice. With many nested
            // loops, this would take too many steps. When the limit of steps is reached, the second
            // pass of the outer loop does not pass the inner loops again.
            if (steps_ < max_steps * schedule_.size())
                std::fill(repeated_.begin() + s.target, repeated_.begin() + int64_t(i), false);
            repeated_[i] = true;
            return s.target;
        }
        return i + 1;
    }

    // Adds a branch. At its target, an earlier branch that is executed as often or more often takes
    // precedence. Such a branch is often the same one, passed in an earlier iteration of a loop.
    // The new branch then has no effect. If it were added, the number of branches could double with
    // each level of nested loops.
    void open(uint32_t target, const OpenBranch& branch) {
        std::vector<OpenBranch>& branches = open_branches_[target];
        if (branches.empty() || branches.back().executed < branch.executed)
            branches.push_back(branch);
    }

    void issue(size_t i, const Schedule& s) {
        const sim::InstructionInfo& info = counts_.code->instructions[i];
        const InstructionCounts& c = counts_.instructions[i];
        if (info.traits.ends_copy_group) now_.group = now_.copied;
        if (info.space == Space::reg || info.traits.bulk || !c.requests ||
            c.space == Space::constant) {
            set(s.result, now_.clock + late_result);
            set(s.operands, now_.clock + operands_read);
            return;
        }
        const double passes = std::max(1.0, l1_cycles(i, c) + wavefronts(c));
        const double sent = std::max(now_.clock, now_.unit_free);
        now_.unit_free = sent + passes;
        const double done = now_.unit_free - 1 + answer_cycles(i, info, c);
        if (info.access == Access::async_copy) now_.copied = std::max(now_.copied, done);
        set(s.result, done);
        set(s.operands, now_.unit_free + operands_read);
    }

    void set(uint8_t scoreboard, double until) {
        double& clear = now_.clear[scoreboard];
        clear = std::max(clear, until);
    }

    // Returns the cycles of L1 for a request of the instruction, averaged over its requests.
    [[nodiscard]] double l1_cycles(size_t i, const InstructionCounts& c) const {
        if (const Misses* m = misses(i)) return m->cycles_per_request();
        return double(c.lines) / double(c.requests);
    }

    static double wavefronts(const InstructionCounts& c) {
        return double(c.wavefronts) / double(c.requests);
    }

    [[nodiscard]] const Misses* misses(size_t i) const {
        return caches_ ? caches_->misses_of(i) : nullptr;
    }

    double answer_cycles(size_t i, const sim::InstructionInfo& info, const InstructionCounts& c) {
        if (c.space == Space::shared && info.access != Access::async_copy)
            return model::shared_latency;
        double miss = miss_, dram = dram_of_misses_, lines = 1;
        if (const Misses* m = misses(i)) {
            miss = double(m->missed) / double(m->requests);
            lines = double(m->lines) / double(std::max<uint64_t>(1, m->missed));
            if (m->read) dram = double(m->slow) / double(m->read);
        }
        // A request is complete when the last of its lines has arrived.
        dram = 1 - std::pow(1 - dram, std::max(1.0, lines));
        const double chance = at_random();
        if (chance >= miss) return model::l1_latency;
        return chance < miss * dram ? model::dram_latency : model::l2_latency;
    }

    // Returns a pseudo-random number from 0 to 1. The sequence is the same in every run.
    double at_random() {
        random_ = random_ * 6364136223846793005 + 1442695040888963407;
        return double(random_ >> 11) * 0x1p-53;
    }

    const Counts& counts_;
    const std::vector<Schedule>& schedule_;
    const CacheResult* caches_;
    const double miss_, dram_of_misses_;
    State now_;
    std::vector<std::vector<OpenBranch>> open_branches_;  // by the numbers of their targets
    std::vector<double> spent_;                           // time spent at each instruction
    std::vector<bool> repeated_;  // for each backward branch: true if it was already taken
    uint64_t steps_ = 0;          // steps of the current warp
    uint64_t random_ = 1;
};

}  // namespace

double latency(const Counts& counts, const std::vector<Schedule>& schedule, const model::Work& work,
               const CacheResult* caches) {
    return Walk(counts, schedule, work, caches).sum();
}

}  // namespace coalesce::analysis
