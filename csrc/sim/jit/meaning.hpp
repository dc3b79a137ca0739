// What the handler of an operation computes, as LLVM code.
//
// METHOD
// An Op has no types and no modifiers: its handler is its meaning. The table of the engine
// returns the handler of each form of an instruction that is worth translating, such as add.u32. So
// the map from handlers to meanings also holds for machine code, whose operations have the same
// handlers. An operation whose handler is not in the map has no translation.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "sim/jit/writer.hpp"
#include "sim/warp/engine.hpp"

namespace coalesce::sim::jit {

// How the result of an operation changes from lane to lane if an operand changes by a constant
// stride. `none`: not by a constant stride.
enum class Linear : uint8_t {
    none,
    sum,
    difference,
    product,
    product_sum,
    left_shift,
    right_shift,
    conjunction,
    copy,
    signed_wide,    // a copy to twice the width, with the sign
    unsigned_wide,  // a copy to twice the width, with zeros
    signed_wide_product,
    unsigned_wide_product,
};

struct Meaning {
    enum class Kind : uint8_t {
        lanes,    // computes a value from values of the same lane
        compare,  // setp; `operands` has the type that is compared
        special,
        add_constant,
        load_parameter,
        load,
        store,
    };
    using Emit = std::string (*)(Writer& e, const std::vector<std::string>& a);
    Kind kind = Kind::lanes;
    LaneType result;
    std::vector<LaneType> operands;
    Emit emit = nullptr;
    Linear linear = Linear::none;
    bool is_signed = false;  // for comparisons
    bool shared = false;     // for memory
};

// The elements that a memory instruction moves.
struct Elements {
    uint8_t bits = 32;           // of an element in memory
    uint8_t register_bits = 32;  // of a register
    uint8_t count = 1;
    bool is_signed = false;
};

using Kind = Meaning::Kind;

inline constexpr LaneType i1{false, 1}, i16{false, 16}, i32{false, 32}, i64{false, 64};
inline constexpr LaneType f32{true, 32}, f64{true, 64};

class Meanings {
  public:
    explicit Meanings(const Engine& engine);
    // Returns null if there is no translation.
    [[nodiscard]] const Meaning* of(Handler handler) const {
        const auto it = meanings_.find(handler);
        return it == meanings_.end() ? nullptr : &it->second;
    }
    [[nodiscard]] const Elements* elements(Mover mover) const {
        const auto it = movers_.find(mover);
        return it == movers_.end() ? nullptr : &it->second;
    }

  private:
    void add(const Engine& engine, const std::string& form, Meaning meaning);
    std::unordered_map<Handler, Meaning> meanings_;
    std::unordered_map<Mover, Elements> movers_;
};

}  // namespace coalesce::sim::jit
