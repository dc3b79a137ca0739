// Constants and constant expressions.
//
// METHOD
// Precedence climbing over C's operators. PTX computes integers in 64 bits, signed unless a `U`
// or a value above the signed range makes them unsigned; so does this. A float may only be negated.
#pragma once

#include "ptx/lexer.hpp"

namespace coalesce::ptx {

struct Constant {
    enum class Kind : uint8_t { integer, f32, f64 };
    Kind kind = Kind::integer;
    uint64_t bits = 0;  // two's complement, the float's 32 bits, or the double's 64
    bool is_unsigned = false;
};

// The whole expression at the cursor.
[[nodiscard]] Constant constant_expression(Tokens& tokens);

// One term of a sum, as after the '+' of `name+4`: stops at a following '+' or '-'.
[[nodiscard]] uint64_t integer_term(Tokens& tokens);

// An integer of at most `most`, as in directives and dimensions; `what` names it in the message.
[[nodiscard]] uint64_t integer_constant(Tokens& tokens, std::string_view what, uint64_t most);

// The constant as the bits an element of `type` holds (1 in an .f32 is 0x3F800000).
[[nodiscard]] uint64_t bits_as(const Constant& constant, Type type);

}  // namespace coalesce::ptx
