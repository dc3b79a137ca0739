// The modifiers of an instruction, such as .ftz. Functions that decode an instruction get a list of
// its modifiers. Each function removes the modifiers that it understands from the list. If
// modifiers remain at the end, the instruction is refused as unsupported. So no modifier is ignored
// by accident.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "ptx/module.hpp"

namespace coalesce::sim {

// A modifier of an instruction, as a number. String literals are converted to Modifiers at compile
// time. If the list below does not contain a literal, this is a compile-time error. Types (.f32)
// are not Modifiers: Modifiers::take_type() reads them.
class Modifier {
  public:
    constexpr Modifier() = default;  // empty: stands for no modifier
    template <size_t n>
    consteval Modifier(const char (&text)[n]) : number_(number_of(text)) {
        if (number_ == 0) throw "not in the list of modifiers";
    }
    // Returns the Modifier for a text, or an empty one if the list does not contain the text.
    [[nodiscard]] static Modifier named(std::string_view text);
    constexpr bool operator==(const Modifier&) const = default;
    constexpr explicit operator bool() const { return number_ != 0; }

  private:
    static constexpr std::string_view list[] = {
        "",
        // Modifiers of several kinds of instructions.
        "sync", "aligned", "ftz", "sat", "relu", "satfinite", "rn", "rz", "rm", "rp", "rna", "rni",
        "rzi", "rmi", "rpi", "lo", "hi", "wide", "cc", "wrap", "clamp", "l", "r", "up", "down",
        "to",
        // Modifiers of arithmetic.
        "approx", "full", "NaN", "xorsign", "abs", "noftz", "s16x2", "u16x2", "e4m3x2", "e5m2x2",
        "e2m3x2", "e3m2x2", "e2m1x2", "tf32", "pack", "finite", "infinite", "number", "notanumber",
        "normal", "subnormal", "shiftamt", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16",
        // Modifiers of comparisons.
        "eq", "ne", "lt", "le", "gt", "ge", "ls", "hs", "equ", "neu", "ltu", "leu", "gtu", "geu",
        "num", "nan", "and", "or", "xor",
        // Modifiers of barriers and of operations between lanes.
        "bfly", "idx", "all", "any", "uni", "ballot", "popc", "add", "min", "max", "arrive", "red",
        "wait", "warp", "parity", "expect_tx", "expect_tx_only", "noComplete", "noinc", "init",
        "inval", "arrive_drop", "complete_tx", "test_wait", "try_wait", "mbarrier",
        // Modifiers of memory instructions.
        "exch", "cas", "inc", "dec", "v2", "v4", "v8", "global", "shared", "shared::cta",
        "shared::cluster", "local", "const", "param", "param::entry", "param::func", "async",
        "bulk", "bulk_group", "commit_group", "wait_group", "wait_all",
        "mbarrier::complete_tx::bytes", "L2::cache_hint", "tensor", "tile", "1d", "2d", "3d", "4d",
        "5d", "multicast::cluster",
        // Memory orders, scopes and cache hints.
        "weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "mmio", "cta", "cluster",
        "gpu", "sys", "ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "unified", "cvt",
        "fractional", "L2", "L2::evict_last", "L2::evict_normal", "L2::evict_first",
        "L2::evict_unchanged",
        // Modifiers of instructions on matrices.
        "m8n8", "trans", "x1", "x2", "x4", "b16",
        // Modifiers of texture and surface instructions.
        "level", "grad", "a1d", "a2d", "cube", "acube", "g", "b", "a", "trap", "zero", "width",
        "height", "depth", "channel_data_type", "channel_order", "normalized_coords", "array_size",
        "num_mipmap_levels"};
    static constexpr uint8_t number_of(std::string_view text) {
        for (size_t n = 1; n < std::size(list); ++n) {
            if (list[n] == text) return uint8_t(n);
        }
        return 0;
    }
    uint8_t number_ = 0;
};

class Modifiers {
  public:
    explicit Modifiers(const ptx::Instruction& instruction)
        : Modifiers(std::span(instruction.modifiers)) {}
    explicit Modifiers(std::span<const std::string_view> modifiers);

    // Removes the modifier from the list. Returns false if the list does not contain it.
    bool take(Modifier modifier);
    // Removes the first of these modifiers that the list contains, and returns it. Returns an empty
    // Modifier if the list contains none of them.
    Modifier take_one(std::initializer_list<Modifier> modifiers);
    // Removes the first modifier that is a type (.f32), and returns the type.
    ptx::Type take_type();
    // Removes every modifier that starts with the prefix. The prefixes "L1::" and "L2::" stand for
    // cache hints.
    void drop_prefix(std::string_view prefix);
    void drop_all();
    // Returns the first type without removing it.
    [[nodiscard]] ptx::Type type() const;

    [[nodiscard]] bool empty() const;
    [[nodiscard]] bool has(Modifier modifier) const;
    [[nodiscard]] std::string_view first() const;

  private:
    struct Entry {
        std::string_view text;
        Modifier modifier;
        ptx::Type type = ptx::Type::none;
    };
    std::vector<Entry> left_;
};

}  // namespace coalesce::sim
