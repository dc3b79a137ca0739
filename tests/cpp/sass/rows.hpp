// Helpers for tables of machine instructions. Each row of a table has an instruction and its
// expected effect in plain C++.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <iterator>
#include <random>

#include "sass/fixture.hpp"

namespace coalesce::sass {

using u32 = uint32_t;
using i32 = int32_t;
using u64 = uint64_t;
using i64 = int64_t;

// The three words of a thread. The functions return parts of these words: the values that the
// registers and predicates have at the start.
struct In {
    u64 a, b, c;
    [[nodiscard]] u32 x() const { return u32(a); }
    [[nodiscard]] u32 y() const { return u32(b); }
    [[nodiscard]] u32 z() const { return u32(c); }
    [[nodiscard]] float f() const { return std::bit_cast<float>(x()); }
    [[nodiscard]] float g() const { return std::bit_cast<float>(y()); }
    [[nodiscard]] float h() const { return std::bit_cast<float>(z()); }
    [[nodiscard]] double d() const { return std::bit_cast<double>(a); }
    [[nodiscard]] double e() const { return std::bit_cast<double>(b); }
    [[nodiscard]] double k() const { return std::bit_cast<double>(c); }
    [[nodiscard]] bool p1() const { return a & 1; }
    [[nodiscard]] bool p2() const { return b & 1; }
    [[nodiscard]] bool p3() const { return c & 1; }
};

enum class As : uint8_t { word, pair, f32, f64, predicates };

struct Row {
    std::vector<std::string> code;
    As as;
    Results (*expected)(In);
};

template <std::integral T>
Results of(T value, bool p = false, bool q = false) {
    return {u64(std::make_unsigned_t<T>(value)), p, q};
}
inline Results of(float value) { return {std::bit_cast<u32>(value), false, false}; }
inline Results of(double value) { return {std::bit_cast<u64>(value), false, false}; }
inline Results only(bool p, bool q = false) { return {0, p, q}; }

inline std::vector<sim::Words> inputs() {
    constexpr u32 edges[] = {0,          1,          2,          31,         32,
                             33,         0x7fffffff, 0x80000000, 0x80000001, 0xffffffff,
                             0xfffffffe, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000,
                             0x7fc00000, 0x00400000, 0x80400000, 0x4f000000, 0xcf000000,
                             0x4f800000, 0x3fc00000, 0x7ff00000, 0x40490fdb, 0x0000ffff};
    std::mt19937_64 random(7);
    const auto word = [&]() -> u32 {
        return random() % 4 ? edges[random() % std::size(edges)] : u32(random());
    };
    std::vector<sim::Words> all(1000);
    for (sim::Words& w : all) {
        w.a = u64{word()} << 32 | word();
        w.b = random() % 8 ? u64{word()} << 32 | word() : w.a;
        w.c = u64{word()} << 32 | word();
    }
    return all;
}

// Returns true if two results are equal. Two NaNs always count as equal.
inline bool same(As as, const Results& one, const Results& other) {
    if (one.p != other.p || one.q != other.q) return false;
    if (as == As::predicates || one.value == other.value) return true;
    if (as == As::f32)
        return std::isnan(std::bit_cast<float>(u32(one.value))) &&
               std::isnan(std::bit_cast<float>(u32(other.value)));
    return as == As::f64 && std::isnan(std::bit_cast<double>(one.value)) &&
           std::isnan(std::bit_cast<double>(other.value));
}

// Checks that the lifter reads every word of an instruction. The function adds an unknown modifier,
// and then one operand too many. The lifter must refuse both instructions.
inline void expect_every_word_counts(const std::vector<std::string>& code) {
    for (size_t n = 0; n < code.size(); ++n) {
        const size_t opcode = code[n].starts_with('@') ? code[n].find(' ') + 1 : 0;
        const size_t end = std::min(code[n].find(' ', opcode), code[n].size());
        std::vector<std::string> more = code;
        more[n].insert(end, ".FROB");
        EXPECT_THROW((void)run_machine(more, {sim::Words{1, 2, 3}}), UnsupportedInstruction)
            << more[n];
        more[n] = code[n] + ", R30";
        EXPECT_THROW((void)run_machine(more, {sim::Words{1, 2, 3}}), UnsupportedInstruction)
            << more[n];
    }
}

inline void expect(const std::vector<Row>& rows) {
    const std::vector<sim::Words> words = inputs();
    for (const Row& row : rows) expect_every_word_counts(row.code);
    for (const sim::Isa isa : sim::instruction_sets()) {
        for (const Row& row : rows) {
            std::vector<Results> results;
            ASSERT_NO_THROW(results = run_machine(row.code, words, isa)) << row.code.back();
            for (size_t n = 0; n < words.size(); ++n) {
                const In in{words[n].a, words[n].b, words[n].c};
                const Results wanted = row.expected(in);
                ASSERT_TRUE(same(row.as, results[n], wanted))
                    << row.code.front() << std::hex << " of " << in.a << ", " << in.b << ", "
                    << in.c << ": " << results[n].value << " " << results[n].p << results[n].q
                    << ", not " << wanted.value << " " << wanted.p << wanted.q;
            }
        }
    }
}

}  // namespace coalesce::sass
