// Tests that remembered strides of addresses are right (sim/lane_strides.hpp), with random machine
// code that changes the address registers of loads: for all lanes, under a guard, in branches.
#include <algorithm>
#include <random>
#include <string>

#include "sass_rows.hpp"

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
    void load(int pair, const std::string& guard) {
        const uint32_t offset = any(4);
        code_.push_back(guard + "LDG.E R9, desc[UR4][" + pair_name(pair) + ".64+0x" +
                        std::string{"048c"[offset]} + "]");
        code_.push_back(guard + "IMAD R0, R0, 0x3, R9");
        for_lanes(guard,
                  [&](uint32_t i) { sum_[i] = sum_[i] * 3 + words_[at_[pair][i] + offset]; });
    }
    void simple() {
        if (any(3) == 0)
            change(int(any(pairs)), any_guard());
        else
            load(int(any(pairs)), any_guard());
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
