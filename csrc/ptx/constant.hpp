// Constants and constant expressions, such as 4 * (N + 1).
//
// METHOD
// The parser of expressions compares the precedence of C's operators (this method is called
// precedence climbing). As in PTX, integers have 64 bits. They are signed, unless they have the
// suffix `U` or exceed the signed range. The only operator for floats is negation.
#pragma once

#include "ptx/lexer.hpp"

namespace coalesce::ptx {

struct Constant {
    enum class Kind : uint8_t { integer, f32, f64 };
    Kind kind = Kind::integer;
    // A constant: an integer in two's complement, the 32 bits of a float, or the 64 bits of a
    // double.
    uint64_t bits = 0;
    bool is_unsigned = false;
};

// Reads the whole expression at the cursor.
[[nodiscard]] Constant constant_expression(Tokens& tokens);

// Reads one term of a sum, such as the 4 in `name+4`. It stops before a following '+' or '-'.
[[nodiscard]] uint64_t integer_term(Tokens& tokens);

// Reads an integer that belongs to a directive or is an extent of an array. It must be at most
// `most`. `what` is its name in messages.
[[nodiscard]] uint64_t integer_constant(Tokens& tokens, std::string_view what, uint64_t most);

// Returns the bits that an element of `type` has for this constant (1 in an .f32 is 0x3F800000).
[[nodiscard]] uint64_t bits_as(const Constant& constant, Type type);

}  // namespace coalesce::ptx
