// Tests that remembered strides of addresses are right (sim/warp/lane_strides.hpp), with random
// machine code that changes the address registers of loads: for all lanes, under a guard, in
// branches. Some changes are 64-bit sums of another address and a constant (sass/lift_sums.cpp).
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <random>
#include <string>

#include "sass/rows.hpp"

namespace coalesce::sass {
namespace {

constexpr uint32_t lanes = 32;

// A random program and its results. The threads of a warp load words of the first 8 inputs, and mix
// them in R0.
class RandomLoads {
  public:
    explicit RandomLoads(uint64_t seed) : random_(seed) {
        for (sim::Words& w : inputs_) w = {random_(), random_(), random_()};
        const auto* words = reinterpret_cast<const uint32_t*>(inputs_.data());
        words_.assign(words, words + 6 * inputs_.size());
        code_ = {"LDC.64 R26, c[0x0][0x210]", "LOP3.LUT R21, R20, 0x5, RZ, 0x3c, !PT"};
        for (int pair = 0; pair < pairs; ++pair) change(pair, "");
        for (int n = 0; n < 30; ++n) add();
    }

    void check() {
        const std::vector<Results> results = run_machine(code_, inputs_);
        std::string text;
        for (const std::string& line : code_) text += line + "\n";
        for (uint32_t i = 0; i < lanes; ++i)
            ASSERT_EQ(uint32_t(results[i].value), sum_[i]) << "lane " << i << " of\n" << text;
    }

  private:
    static constexpr int pairs = 3;  // the pairs R10, R12 and R14 hold addresses

    uint32_t any(uint32_t count) { return uint32_t(random_() % count); }
    static std::string pair_name(int pair) { return "R" + std::to_string(10 + 2 * pair); }
    static std::string upper_name(int pair) { return "R" + std::to_string(11 + 2 * pair); }
    // Returns the lanes of a guard: P1 or P2, or all lanes for an empty guard.
    bool is_active(uint32_t lane, const std::string& guard) const {
        return guard.empty() || ((guard == "@P1 " ? inputs_[lane].a : inputs_[lane].b) & 1);
    }
    std::string any_guard() {
        static const std::string guards[] = {"", "", "@P1 ", "@P2 "};
        return guards[any(4)];
    }

    template <class F>
    void for_lanes(const std::string& guard, F&& f) {
        for (uint32_t i = 0; i < lanes; ++i)
            if (!(skipped_ >> i & 1) && is_active(i, guard)) f(i);
    }
    // Changes an address: to the same word in all lanes, to a stride, or to an irregular pattern.
    void change(int pair, const std::string& guard) {
        const uint32_t kind = any(3), words = 1 + any(3);
        const char* const index = kind == 0 ? "RZ" : kind == 1 ? "R20" : "R21";
        code_.push_back(guard + "IMAD.WIDE.U32 " + pair_name(pair) + ", " + index + ", 0x" +
                        std::string{"048c"[words]} + ", R26");
        for_lanes(guard, [&](uint32_t i) {
            at_[pair][i] = (kind == 0 ? 0 : kind == 1 ? i : i ^ 5) * words;
        });
    }
    // `changing` is a pair of which only the lower word has been changed yet.
    void load(int pair, const std::string& guard, int changing = -1) {
        if (pair == changing) return;
        const uint32_t offset = any(4);
        code_.push_back(guard + "LDG.E R9, desc[UR4][" + pair_name(pair) + ".64+0x" +
                        std::string{"048c"[offset]} + "]");
        code_.push_back(guard + "IMAD R0, R0, 0x3, R9");
        for_lanes(guard,
                  [&](uint32_t i) { sum_[i] = sum_[i] * 3 + words_[at_[pair][i] + offset]; });
    }
    // Sets an address to another address plus a few words, or minus one word. Between the two
    // instructions of the sum is a load.
    void move(int pair, int from, const std::string& guard) {
        const bool all_above = std::ranges::all_of(at_[from], [](uint32_t at) { return at > 0; });
        if (std::ranges::max(at_[from]) > words_.size() - 8) return change(pair, guard);
        const bool back = all_above && any(2) == 0;
        const int32_t words = back ? -1 : int32_t(any(4));
        const std::string d = pair_name(pair), upper = upper_name(pair), a = pair_name(from),
                          carry = any(2) ? "P5" : "P6";
        code_.push_back(guard + "IADD3 " + d + ", " + carry + ", " + a + ", " +
                        (back ? "-0x4" : "0x" + std::string{"048c"[words]}) + ", RZ");
        if (any(3)) load(int(any(pairs)), guard, pair);
        const std::string upper_term = back ? "-0x1" : "RZ";
        code_.push_back(guard + (any(2) || back ? "IADD3.X " + upper + ", " + upper_name(from) +
                                                      ", " + upper_term + ", RZ, " + carry + ", !PT"
                                                : "IMAD.X " + upper + ", RZ, RZ, " +
                                                      upper_name(from) + ", " + carry));
        for_lanes(guard, [&](uint32_t i) { at_[pair][i] = at_[from][i] + uint32_t(words); });
    }
    void simple() {
        const int pair = int(any(pairs));
        switch (any(4)) {
            case 0:
                return change(pair, any_guard());
            case 1:
                return move(pair, int(any(pairs)), any_guard());
            default:
                return load(pair, any_guard());
        }
    }
    void add() {
        if (any(8) == 0) return code_.emplace_back("WARPSYNC.ALL"), void();
        if (any(8) != 0) return simple();
        // Some lanes take a branch around a few instructions.
        const std::string label = ".L_x_" + std::to_string(labels_++);
        code_.push_back("BSSY B0, `(" + label + ")");
        code_.push_back("@P1 BRA `(" + label + ")");
        for_lanes("@P1 ", [&](uint32_t i) { skipped_ |= 1u << i; });
        for (uint32_t n = any(4); n-- > 0;) simple();
        skipped_ = 0;
        code_.push_back(label + ":");
        code_.emplace_back("BSYNC B0");
    }

    std::mt19937_64 random_;
    std::vector<sim::Words> inputs_{lanes};
    std::vector<uint32_t> words_;
    std::vector<std::string> code_;
    uint32_t at_[pairs][lanes] = {};  // the word to which each address points
    uint32_t sum_[lanes] = {};
    uint32_t skipped_ = 0;  // the lanes that have taken the branch
    int labels_ = 0;
};

TEST(Strides, ChangesOfAddressRegistersAreNoticed) {
    for (uint64_t seed = 0; seed < 500; ++seed) RandomLoads(seed).check();
}

// The lower words of these addresses wrap around, in some lanes or in all. The upper words of the
// lanes then differ before a sum, after it, or both.
TEST(Strides, SumsCrossFourGigabytes) {
    constexpr uint64_t begin = (uint64_t{1} << 32) - 256;
    uint32_t words[192];
    for (uint32_t i = 0; i < std::size(words); ++i) words[i] = 1000 + i;
    for (uint32_t start = 0; start < 64; start += 9) {
        for (uint32_t by = 0; by < 32; by += 5) {
            char first[64], sum[64];
            std::snprintf(first, sizeof first, "IADD3 R10, P0, R8, 0x%x, RZ",
                          uint32_t(begin) + 4 * start);
            std::snprintf(sum, sizeof sum, "IADD3 R12, P5, R10, 0x%x, RZ", 4 * by);
            const auto results = run_machine(
                {"IMAD.WIDE.U32 R8, R20, 0x4, RZ", first, "IADD3.X R11, RZ, R9, RZ, P0, !PT", sum,
                 "LDG.E R0, desc[UR4][R10.64]", "IADD3.X R13, RZ, R11, RZ, P5, !PT",
                 "LDG.E R1, desc[UR4][R12.64]", "IADD3 R14, P6, R12, 0x80, RZ",
                 "IADD3.X R15, RZ, R13, RZ, P6, !PT", "LDG.E R9, desc[UR4][R14.64]",
                 "IMAD R1, R1, 0x10000, R9", "PLOP3.LUT P0, PT, P5, PT, PT, 0x80, 0x0",
                 "PLOP3.LUT P4, PT, P6, PT, PT, 0x80, 0x0"},
                std::vector<sim::Words>(lanes), sim::best_isa(), [&](sim::AddressSpace& space) {
                    sim::Buffer buffer;
                    buffer.address = begin;
                    buffer.bytes = sizeof words;
                    buffer.host = reinterpret_cast<std::byte*>(words);
                    space.add_at(buffer);
                });
            for (uint32_t i = 0; i < lanes; ++i) {
                const uint32_t at = start + i;
                ASSERT_EQ(uint32_t(results[i].value), words[at]) << first << i;
                const uint32_t second = words[at + by], third = words[at + by + 32];
                ASSERT_EQ(results[i].value >> 32, second << 16 | third) << first << sum << i;
                ASSERT_EQ(results[i].p, at < 64 && at + by >= 64) << first << sum << i;
                ASSERT_EQ(results[i].q, at + by < 64 && at + by + 32 >= 64) << first << sum << i;
            }
        }
    }
}

// VOTE writes the same number to all lanes. Here this number is an address.
TEST(Strides, VoteChangesAnAddress) {
    std::vector<sim::Words> inputs(lanes);
    inputs[16].a = 1;  // so VOTE returns the address 1 << 16
    uint32_t words[lanes];
    for (uint32_t i = 0; i < lanes; ++i) words[i] = 100 + i;
    const auto results = run_machine(
        {"MOV R11, RZ", "IMAD R10, R20, 0x4, RZ", "IADD3 R10, R10, 0x10000, RZ",
         "LDG.E R0, desc[UR4][R10.64]", "VOTE.ANY R10, PT, P1", "LDG.E R1, desc[UR4][R10.64]"},
        inputs, sim::best_isa(), [&](sim::AddressSpace& space) {
            sim::Buffer buffer;
            buffer.address = 1 << 16;
            buffer.bytes = sizeof words;
            buffer.host = reinterpret_cast<std::byte*>(words);
            space.add_at(buffer);
        });
    for (uint32_t i = 0; i < lanes; ++i)
        EXPECT_EQ(results[i].value, uint64_t{100} << 32 | words[i]);
}

}  // namespace
}  // namespace coalesce::sass
