// Compares the modelled latency of a warp with the exact number of cycles, for a few scheduled
// instructions.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "analysis/caches/cache_replay.hpp"
#include "analysis/time/latency.hpp"

namespace coalesce::analysis {
namespace {

using model::dram_latency;
using model::l1_latency;
using model::l2_latency;
using model::shared_latency;
using ptx::Space;
using sim::Access;
using sim::Schedule;

constexpr uint8_t step = 4;  // cycles between consecutive instructions
constexpr uint64_t often = 100;

// The scoreboards for which an instruction waits, and those that it sets.
struct Boards {
    uint8_t awaits = 0, result = Schedule::no_scoreboard, operands = Schedule::no_scoreboard;
};

class Code {
  public:
    Code& add(const std::string& opcode, uint64_t executed, Boards boards = {}) {
        sim::InstructionInfo info;
        info.set_text(opcode, opcode);
        code_->instructions.push_back(info);
        InstructionCounts c;
        c.executed = executed;
        counts_.instructions.push_back(c);
        schedule_.push_back({.cycles = step,
                             .awaits = boards.awaits,
                             .result = boards.result,
                             .operands = boards.operands});
        return *this;
    }

    Code& access(const std::string& opcode, Space space, Access access, uint64_t executed,
                 Boards boards, uint64_t passes = 1) {
        add(opcode, executed, boards);
        sim::InstructionInfo& info = code_->instructions.back();
        InstructionCounts& c = counts_.instructions.back();
        info.space = c.space = space;
        info.access = c.access = access;
        info.bytes = 4;
        c.requests = executed;
        (space == Space::shared ? c.wavefronts : c.lines) = passes * executed;
        return *this;
    }

    Code& load(uint64_t executed, uint8_t result, uint8_t awaits = 0, uint64_t lines = 1) {
        return access("LDG.E", Space::global, Access::load, executed, {awaits, result}, lines);
    }

    Code& use(uint64_t executed, uint8_t awaits) { return add("FADD", executed, {awaits}); }

    Code& branch(uint64_t executed, uint32_t target, bool always = false) {
        add("BRA", executed);
        schedule_.back().target = target;
        schedule_.back().ends = always;
        return *this;
    }

    Code& exit(uint64_t executed) {
        add("EXIT", executed);
        schedule_.back().ends = true;
        return *this;
    }

    // Returns the modelled cycles of all warps. L2 answers the loads, except the share `from_dram`,
    // which DRAM answers. If `caches` has counts for a load, these are used instead.
    [[nodiscard]] double cycles(const CacheResult* caches = nullptr, double from_dram = 0) {
        model::Work work;
        work.from_l2 = 1 - from_dram;
        work.from_dram = from_dram;
        counts_.code = code_;
        return latency(counts_, schedule_, work, caches);
    }

  private:
    std::shared_ptr<CountedCode> code_ = std::make_shared<CountedCode>();
    Counts counts_;
    std::vector<Schedule> schedule_;
};

TEST(Latency, WithoutWaitsTheEncodedCyclesAreAddedUp) {
    EXPECT_DOUBLE_EQ(Code().add("FADD", 1).add("FMUL", 1).exit(1).cycles(), 3 * step);
    EXPECT_DOUBLE_EQ(Code().add("FADD", often).exit(often).cycles(), 2 * step * often);
    EXPECT_DOUBLE_EQ(Code().add("FADD", 1).add("FMUL", 0).exit(1).cycles(), 2 * step);
    // No instruction needs the result.
    EXPECT_DOUBLE_EQ(Code().load(1, 0).exit(1).cycles(), 2 * step);
    EXPECT_DOUBLE_EQ(Code().cycles(), 0);
}

TEST(Latency, TheFirstUseOfALoadWaits) {
    EXPECT_DOUBLE_EQ(Code().load(1, 0).use(1, 1).cycles(), l2_latency + step);
    EXPECT_DOUBLE_EQ(Code().load(1, 5).use(1, 1 << 5).cycles(), l2_latency + step);
    // Instructions in between are executed during the latency.
    EXPECT_DOUBLE_EQ(Code().load(1, 0).add("FMUL", 1).use(1, 1).cycles(), l2_latency + step);
    EXPECT_DOUBLE_EQ(Code().load(1, 0).use(1, 1).add("FMUL", 1).cycles(), l2_latency + 2 * step);
    // An instruction that waits for another scoreboard does not wait for the load.
    EXPECT_DOUBLE_EQ(Code().load(1, 0).use(1, 1 << 1).cycles(), 2 * step);
}

TEST(Latency, OnlyIndependentLoadsOverlap) {
    EXPECT_DOUBLE_EQ(Code().load(1, 0).load(1, 1).use(1, 3).cycles(), step + l2_latency + step);
    // Loads may share a scoreboard.
    EXPECT_DOUBLE_EQ(Code().load(1, 0).load(1, 0).use(1, 1).cycles(), step + l2_latency + step);
    EXPECT_DOUBLE_EQ(Code().load(1, 0).add("MUFU.RCP", 1, {.result = 0}).use(1, 1).cycles(),
                     l2_latency + step);
    EXPECT_DOUBLE_EQ(Code().load(1, 0).load(1, 1, 1).use(1, 2).cycles(), 2 * l2_latency + step);
}

TEST(Latency, AccessesQueueInTheLoadStoreUnit) {
    constexpr uint64_t lines = 32;
    const double second = Code().load(1, 0, 0, lines).load(1, 1).use(1, 2).cycles();
    EXPECT_DOUBLE_EQ(second, lines + l2_latency + step);
    const double itself = Code().load(1, 0, 0, lines).use(1, 1).cycles();
    EXPECT_DOUBLE_EQ(itself, lines - 1 + l2_latency + step);
    Code code;
    code.access("STS", Space::shared, Access::store, 1, {}, lines).load(1, 0).use(1, 1);
    EXPECT_DOUBLE_EQ(code.cycles(), lines + l2_latency + step);
}

TEST(Latency, SharedMemoryAnswersWithoutTheCaches) {
    Code code;
    code.access("LDS", Space::shared, Access::load, 1, {.result = 0}).use(1, 1);
    EXPECT_DOUBLE_EQ(code.cycles(), shared_latency + step);
}

TEST(Latency, OperandsAreReadBeforeTheAnswer) {
    Code code;
    code.access("STG.E", Space::global, Access::store, 1, {.operands = 1}).use(1, 1 << 1);
    EXPECT_GT(code.cycles(), 2 * step);
    EXPECT_LT(code.cycles(), l1_latency);
    Code late;
    late.add("MUFU.RCP", 1, {.result = 0}).use(1, 1);
    EXPECT_GT(late.cycles(), 2 * step);
    EXPECT_LT(late.cycles(), l1_latency);
}

TEST(Latency, LoopsIncludeLoadsForTheNextIteration) {
    Code code;
    code.use(often, 1).load(often, 0).branch(often, 0).exit(1);
    EXPECT_DOUBLE_EQ(code.cycles(), often * (l2_latency + step) + step);
    // A load before the loop delays the warp only in the first iteration. In the model, the second
    // iteration stands for all later ones.
    Code before;
    before.load(1, 0).use(often, 1).branch(often, 1).exit(1);
    EXPECT_LT(before.cycles(), often * 3 * step);
}

TEST(Latency, NestedLoopsAreWalkedTwiceEach) {
    constexpr uint64_t inner = often * 10;
    Code code;
    code.add("MOV", often).use(inner, 1).load(inner, 0).branch(inner, 1).branch(often, 0).exit(1);
    EXPECT_DOUBLE_EQ(code.cycles(), inner * (l2_latency + step) + often * 2 * step + step);
}

TEST(Latency, ManyBackwardJumpsDoNotTakeTooLong) {
    Code code;
    code.add("MOV", often);
    for (int n = 0; n < 64; ++n) code.branch(often, 0);
    EXPECT_DOUBLE_EQ(code.exit(often).cycles(), often * 66 * step);
}

TEST(Latency, TheSidesOfABranchDoNotWaitForEachOther) {
    const double waits = l2_latency - 2 * step + step;
    Code code;
    code.load(often, 0).branch(often, 4).use(50, 1).branch(50, 5, true).use(50, 1).exit(often);
    EXPECT_DOUBLE_EQ(code.cycles(),
                     often * 2 * step + 50 * (waits + step) + 50 * waits + often * step);
}

TEST(Latency, RareCodeDoesNotDelayTheMainPath) {
    // If most warps jump over some code, a wait in this code does not delay these warps. `waits` is
    // the waiting time after the load and the branch.
    const double waits = l2_latency - 2 * step + step;
    Code seldom;
    seldom.load(often, 0).branch(often, 4).use(1, 1).add("FMUL", 1).use(often, 1);
    EXPECT_DOUBLE_EQ(seldom.cycles(), often * (2 * step + waits) + waits + step);
    Code mostly;
    mostly.load(often, 0).branch(often, 4).use(90, 1).add("FMUL", 90).use(often, 1);
    EXPECT_DOUBLE_EQ(mostly.cycles(), often * (2 * step + step) + 90 * (waits + step));
}

TEST(Latency, CodeAfterAnExitIsReachedByABranch) {
    const double waits = l2_latency - 2 * step + step;
    Code code;
    code.load(often, 0).branch(often, 4).use(60, 1).exit(60).use(40, 1).exit(40);
    EXPECT_DOUBLE_EQ(code.cycles(), often * 2 * step + 60 * (waits + step) + 40 * (waits + step));
}

// Code with many branches out of nested loops, such as arithmetic on large integers.
TEST(Latency, BranchesOutOfNestedLoopsAreFollowedInAShortTime) {
    constexpr uint32_t branches = 1500, loops = 12;
    Code code;
    for (uint32_t n = 0; n < branches; ++n) code.branch(often, branches + loops);
    for (uint32_t n = 0; n < loops; ++n) code.branch(often, 0);
    code.exit(often);
    const auto start = std::chrono::steady_clock::now();
    EXPECT_GT(code.cycles(), 0);
    // It takes milliseconds. It took a minute when each pass through a loop added the branches.
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST(Latency, TheCacheReplayDecidesWhichCacheAnswers) {
    CacheResult caches;
    caches.misses.resize(2);
    Misses& load = caches.misses[0];
    const auto answered = [&] {
        // The counts of this instruction are used in place of the averages of all loads.
        Code code;
        return code.load(often, 0).use(often, 1).cycles(&caches, 0.5) / often - step;
    };
    load = {.requests = often, .missed = 0, .cycles = often};
    EXPECT_DOUBLE_EQ(answered(), l1_latency);
    load = {.requests = often, .missed = often, .lines = often, .read = often, .cycles = often};
    EXPECT_DOUBLE_EQ(answered(), l2_latency);
    load.slow = often;
    EXPECT_DOUBLE_EQ(answered(), dram_latency);
    load.cycles = 8 * often;
    EXPECT_DOUBLE_EQ(answered(), 7 + dram_latency);
}

TEST(Latency, RandomAnswersAreEqualInEveryRun) {
    const auto mixed = [](double from_dram) {
        Code code;
        for (int n = 0; n < 50; ++n) code.load(1, 0).use(1, 1);
        return (code.cycles(nullptr, from_dram) / 50 - step - l2_latency) /
               (dram_latency - l2_latency);
    };
    for (const double from_dram : {0.0, 0.25, 0.5, 0.75, 1.0}) {
        EXPECT_NEAR(mixed(from_dram), from_dram, 0.1);
        EXPECT_EQ(mixed(from_dram), mixed(from_dram));
    }
}

TEST(Latency, WaitingForAGroupWaitsForItsCopies) {
    Code code;
    code.access("LDGSTS.E", Space::global, Access::async_copy, 1, {})
        .add("LDGDEPBAR", 1)
        .add("DEPBAR.LE", 1);
    EXPECT_DOUBLE_EQ(code.cycles(), l2_latency + step);
    Code none;
    none.access("LDGSTS.E", Space::global, Access::async_copy, 1, {}).add("DEPBAR.LE", 1);
    EXPECT_DOUBLE_EQ(none.cycles(), 2 * step);
}

}  // namespace
}  // namespace coalesce::analysis
