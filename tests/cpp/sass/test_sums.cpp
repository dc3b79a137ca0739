// Tests the joining of the two instructions of a 64-bit sum (sass/lift_sums.cpp). Random machine
// code must compute the same as an interpreter that executes one instruction after the other. In
// particular, instructions between the two may use the registers of the sum.
#include <array>
#include <random>
#include <string>

#include "sass/rows.hpp"

namespace coalesce::sass {
namespace {

// The registers R0 to R7 and the predicates P0 to P2 of one thread.
struct State {
    std::array<uint32_t, 8> r{};
    std::array<bool, 3> p{};
};

// Returns how many sums of the code are joined.
size_t joined(const std::vector<std::string>& code) {
    const sim::Program program =
        lift_machine(code, sim::engine(sim::Watch::nothing, sim::best_isa()));
    return size_t(std::ranges::count_if(program.ops,
                                        [](const sim::Op& op) { return op.is<sim::WideSum>(); }));
}

class RandomSums {
  public:
    explicit RandomSums(uint64_t seed) : random_(seed) {
        for (sim::Words& w : inputs_) w = {wide(), wide(), wide()};
        for (size_t i = 0; i < inputs_.size(); ++i) {
            const sim::Words& w = inputs_[i];
            states_[i].r = {0,
                            0,
                            uint32_t(w.a),
                            uint32_t(w.a >> 32),
                            uint32_t(w.b),
                            uint32_t(w.b >> 32),
                            uint32_t(w.c),
                            uint32_t(w.c >> 32)};
            states_[i].p = {false, bool(w.a & 1), bool(w.b & 1)};
        }
        for (int n = 0; n < 12; ++n) add();
        // The results are all registers and predicates.
        for (int r = 2; r < 8; ++r) mix(r);
    }

    void check() const {
        const std::vector<Results> results = run_machine(code_, inputs_);
        std::string text;
        for (const std::string& line : code_) text += line + "\n";
        for (size_t i = 0; i < inputs_.size(); ++i) {
            const uint64_t value = uint64_t{states_[i].r[1]} << 32 | states_[i].r[0];
            ASSERT_EQ(results[i].value, value) << "thread " << i << " of\n" << text;
            ASSERT_EQ(results[i].p, states_[i].p[0]) << "thread " << i << " of\n" << text;
        }
    }

    [[nodiscard]] size_t sums() const { return joined(code_); }

  private:
    uint32_t any(uint32_t count) { return uint32_t(random_() % count); }
    // Words that often lead to a carry.
    uint32_t word() {
        constexpr uint32_t words[] = {0, 1, 0xffffffff, 0x80000000, 0xfffffff0};
        return any(3) ? words[any(std::size(words))] : uint32_t(random_());
    }
    uint64_t wide() { return uint64_t{word()} << 32 | word(); }
    static std::string reg(uint32_t n) { return "R" + std::to_string(n); }
    static std::string predicate(uint32_t n) { return "P" + std::to_string(n); }

    template <class F>
    void for_threads(F&& f) {
        for (State& s : states_) f(s);
    }
    // d = a + b, with a carry out or in. `form` selects the instruction that adds the upper words.
    void add_low(uint32_t d, uint32_t carry, uint32_t a, uint32_t b) {
        code_.push_back("IADD3 " + reg(d) + ", " + predicate(carry) + ", " + reg(a) + ", " +
                        reg(b) + ", RZ");
        for_threads([=](State& s) {
            const uint32_t x = s.r[a], sum = x + s.r[b];
            s.r[d] = sum;
            s.p[carry] = sum < x;
        });
    }
    void add_high(uint32_t d, uint32_t carry, uint32_t a, uint32_t b, uint32_t form) {
        const std::string p = predicate(carry);
        if (form == 0)
            code_.push_back("IADD3.X " + reg(d) + ", " + reg(a) + ", " + reg(b) + ", RZ, " + p +
                            ", !PT");
        else if (form == 1)
            code_.push_back("IMAD.X " + reg(d) + ", " + reg(a) + ", 0x1, " + reg(b) + ", " + p);
        else
            code_.push_back("IMAD.X " + reg(d) + ", RZ, RZ, " + reg(b) + ", " + p);
        for_threads(
            [=](State& s) { s.r[d] = (form == 2 ? 0 : s.r[a]) + s.r[b] + uint32_t(s.p[carry]); });
    }
    // An instruction that may stand between the two of a sum.
    void other() {
        const uint32_t d = 2 + any(6), a = 2 + any(6), b = 2 + any(6), p = any(3);
        switch (any(4)) {
            case 0:
                code_.push_back("LOP3.LUT " + reg(d) + ", " + reg(a) + ", " + reg(b) +
                                ", RZ, 0x3c, !PT");
                return for_threads([=](State& s) { s.r[d] = s.r[a] ^ s.r[b]; });
            case 1:
                code_.push_back("ISETP.NE.AND " + predicate(p) + ", PT, " + reg(a) + ", " + reg(b) +
                                ", PT");
                return for_threads([=](State& s) { s.p[p] = s.r[a] != s.r[b]; });
            case 2:
                code_.push_back("SEL " + reg(d) + ", " + reg(a) + ", " + reg(b) + ", " +
                                predicate(p));
                return for_threads([=](State& s) { s.r[d] = s.p[p] ? s.r[a] : s.r[b]; });
            default:
                return add_low(d, p, a, b);
        }
    }
    void add() {
        const uint32_t carry = any(3);
        add_low(2 + any(6), carry, 2 + any(6), 2 + any(6));
        if (any(8) == 0) code_.push_back(".L_x_" + std::to_string(labels_++) + ":");
        for (uint32_t n = any(4); n-- > 0;) other();
        add_high(2 + any(6), carry, 2 + any(6), 2 + any(6), any(3));
    }
    void mix(int r) {
        code_.push_back("IMAD R0, R0, 0x3, " + reg(uint32_t(r)));
        code_.push_back("LOP3.LUT R1, R1, R0, RZ, 0x3c, !PT");
        for_threads([=](State& s) {
            s.r[0] = s.r[0] * 3 + s.r[size_t(r)];
            s.r[1] ^= s.r[0];
        });
    }

    std::mt19937_64 random_;
    std::vector<sim::Words> inputs_{size_t{48}};  // one warp is not full
    std::vector<State> states_{size_t{48}};
    std::vector<std::string> code_;
    int labels_ = 0;
};

TEST(Sums, InstructionsInBetweenAreNotDisturbed) {
    size_t sums = 0;
    for (uint64_t seed = 0; seed < 500; ++seed) {
        const RandomSums program(seed);
        program.check();
        sums += program.sums();
    }
    EXPECT_GT(sums, 1000u);  // so the test is not about ordinary additions only
}

TEST(Sums, AreJoinedOnlyIfNothingIsInTheWay) {
    const std::string low = "IADD3 R0, P0, R2, R4, RZ", high = "IADD3.X R1, R3, R5, RZ, P0, !PT";
    const struct {
        std::vector<std::string> code;
        size_t joined;
    } rows[] = {
        {{low, high}, 1},
        {{low, "FADD R6, R2, R4", high}, 1},
        {{low, "LDG.E R6, desc[UR4][R22.64]", high}, 1},
        {{low, "FADD R6, R1, R4", high}, 1},  // R0 is computed later
        {{low, "FADD R6, R0, R4", high}, 1},  // R1 is computed earlier
        {{low, "FADD R6, R0, R1", high}, 0},
        {{low, "STG.E.64 desc[UR4][R24.64], R0", high}, 0},
        {{low, "FADD R3, R2, R4", high}, 1},
        {{low, "FADD R3, R0, R4", high}, 0},
        {{low, "IMAD.WIDE R2, R6, 0x4, R6", high}, 0},
        {{low, "ISETP.NE.AND P0, PT, R6, RZ, PT", high}, 0},
        {{low, "SEL R6, R6, R7, P0", high}, 1},  // R1 is computed earlier
        {{low, "SEL R1, R6, R7, P0", high}, 0},
        {{low, "@P1 FADD R6, R2, R4", high}, 0},
        {{low, "BAR.SYNC.DEFER_BLOCKING 0x0", high}, 0},
        {{"@P1 " + low, "@P1 " + high}, 0},
        {{low, "IADD3.X R1, ~R3, R5, RZ, P0, !PT"}, 0},
        {{low, "IADD3.X R0, R3, R5, RZ, P0, !PT"}, 0},
        {{"IADD3 R3, P0, R2, R4, RZ", high}, 0},  // the second instruction reads the lower word
        {{"@P1 BRA `(.L_x_0)", low, ".L_x_0:", high}, 0},
        {{"@P1 BRA `(.L_x_0)", ".L_x_0:", low, high}, 1},
    };
    for (const auto& row : rows) {
        std::string text;
        for (const std::string& line : row.code) text += line + "\n";
        EXPECT_EQ(joined(row.code), row.joined) << text;
    }
}

}  // namespace
}  // namespace coalesce::sass
