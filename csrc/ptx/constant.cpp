#include "ptx/constant.hpp"

#include <bit>
#include <charconv>
#include <string>
#include <string_view>
#include <system_error>

namespace coalesce::ptx {
namespace {

constexpr int deepest = 64;
constexpr int of_terms = 10;  // The precedence of '*'. It is one above that of '+' and '-'.

int precedence_of(const Token& token) {
    if (token.kind != Token::Kind::punctuation) return 0;
    constexpr struct {
        std::string_view text;
        int precedence;
    } operators[] = {{"||", 1}, {"&&", 2}, {"|", 3},  {"^", 4},  {"&", 5},  {"==", 6},
                     {"!=", 6}, {"<", 7},  {"<=", 7}, {">", 7},  {">=", 7}, {"<<", 8},
                     {">>", 8}, {"+", 9},  {"-", 9},  {"*", 10}, {"/", 10}, {"%", 10}};
    for (const auto& op : operators) {
        if (token.text == op.text) return op.precedence;
    }
    return 0;
}

int digit_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return 99;
}

uint64_t digits(const Tokens& tokens, const Token& token, std::string_view text, uint64_t base) {
    uint64_t value = 0;
    if (text.empty()) tokens.fail(token, "malformed number '" + std::string(token.text) + "'");
    for (char c : text) {
        const uint64_t digit = digit_value(c);
        if (digit >= base) {
            tokens.fail(token, "malformed number '" + std::string(token.text.substr(0, 40)) + "'");
        }
        if (value > (UINT64_MAX - digit) / base) {
            tokens.fail(token, "the number does not fit in 64 bits");
        }
        value = value * base + digit;
    }
    return value;
}

Constant decimal_float(const Tokens& tokens, const Token& token) {
    const std::string_view text = token.text;
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) {
        tokens.fail(token, "malformed number '" + std::string(text.substr(0, 40)) + "'");
    }
    return {Constant::Kind::f64, std::bit_cast<uint64_t>(value), false};
}

Constant number(const Tokens& tokens, const Token& token) {
    std::string_view text = token.text;
    const char prefix = text.size() > 1 && text[0] == '0' ? text[1] | 0x20 : '\0';
    if (prefix == 'f' || prefix == 'd') {
        const size_t length = prefix == 'f' ? 8 : 16;
        if (text.size() != 2 + length) {
            tokens.fail(token, "expected " + std::to_string(length) +
                                   " hexadecimal digits after '" + std::string(text.substr(0, 2)) +
                                   "', got " + std::to_string(text.size() - 2));
        }
        return {prefix == 'f' ? Constant::Kind::f32 : Constant::Kind::f64,
                digits(tokens, token, text.substr(2), 16), false};
    }
    const bool hexadecimal = prefix == 'x';
    if (!hexadecimal && text.find_first_of(".eE") != std::string_view::npos) {
        return decimal_float(tokens, token);
    }
    Constant result;
    if (text.back() == 'U' || text.back() == 'u') {
        result.is_unsigned = true;
        text.remove_suffix(1);
    }
    if (hexadecimal) {
        result.bits = digits(tokens, token, text.substr(2), 16);
    } else if (prefix == 'b') {
        result.bits = digits(tokens, token, text.substr(2), 2);
    } else {
        result.bits = digits(tokens, token, text, text[0] == '0' ? 8 : 10);
    }
    result.is_unsigned |= result.bits > static_cast<uint64_t>(INT64_MAX);
    return result;
}

class Expression {
  public:
    explicit Expression(Tokens& tokens) : tokens_(tokens) {}

    Constant conditional() {
        Constant condition = binary(1);
        if (!tokens_.at("?")) return condition;
        const Token token = tokens_.take();
        require_integer(condition, token);
        const NestingGuard guard(*this);
        const Constant yes = conditional();
        tokens_.expect(":", "in the conditional expression");
        const Constant no = conditional();
        return condition.bits != 0 ? yes : no;
    }

    Constant binary(int least) {
        Constant left = unary();
        for (;;) {
            const int precedence = precedence_of(tokens_.peek());
            if (precedence < least || precedence == 0) return left;
            const Token op = tokens_.take();
            const Constant right = binary(precedence + 1);
            require_integer(left, op);
            require_integer(right, op);
            left = apply(op, left, right);
        }
    }

  private:
    struct NestingGuard {
        explicit NestingGuard(Expression& expression) : expression(expression) {
            if (++expression.depth_ > deepest) {
                expression.tokens_.fail(expression.tokens_.peek(),
                                        "the expression is nested too deeply");
            }
        }
        ~NestingGuard() { --expression.depth_; }
        Expression& expression;
    };

    void require_integer(const Constant& constant, const Token& token) const {
        if (constant.kind != Constant::Kind::integer) {
            tokens_.fail(token, "'" + std::string(token.text) +
                                    "' needs integers; a floating-point constant may only be "
                                    "negated");
        }
    }

    Constant unary() {
        const NestingGuard guard(*this);
        const Token token = tokens_.peek();
        if (tokens_.accept("+")) return unary();
        if (tokens_.accept("-")) {
            Constant value = unary();
            if (value.kind == Constant::Kind::f32) {
                value.bits ^= uint64_t{1} << 31;
            } else if (value.kind == Constant::Kind::f64) {
                value.bits ^= uint64_t{1} << 63;
            } else {
                value.bits = 0 - value.bits;
            }
            return value;
        }
        if (tokens_.accept("~")) {
            Constant value = unary();
            require_integer(value, token);
            value.bits = ~value.bits;
            return value;
        }
        if (tokens_.accept("!")) {
            Constant value = unary();
            require_integer(value, token);
            return {Constant::Kind::integer, value.bits == 0, false};
        }
        if (tokens_.accept("WARP_SZ")) return {Constant::Kind::integer, 32, false};
        if (token.kind == Token::Kind::number) {
            tokens_.take();
            return number(tokens_, token);
        }
        if (tokens_.accept("(")) {
            if (tokens_.at(".s64") || tokens_.at(".u64")) {
                const bool is_unsigned = tokens_.take().is(".u64");
                tokens_.expect(")", "after the type of the cast");
                Constant value = unary();
                require_integer(value, token);
                value.is_unsigned = is_unsigned;
                return value;
            }
            const Constant value = conditional();
            tokens_.expect(")", "to close the expression");
            return value;
        }
        tokens_.fail_expected("a constant");
    }

    Constant apply(const Token& op, const Constant& left, const Constant& right) const {
        const uint64_t a = left.bits, b = right.bits;
        const auto s = static_cast<int64_t>(a), t = static_cast<int64_t>(b);
        const bool is_unsigned = left.is_unsigned || right.is_unsigned;
        const auto truth = [](bool value) {
            return Constant{Constant::Kind::integer, value, false};
        };
        const auto value = [&](uint64_t bits) {
            return Constant{Constant::Kind::integer, bits, is_unsigned};
        };
        const std::string_view text = op.text;
        if (text == "||") return truth(a || b);
        if (text == "&&") return truth(a && b);
        if (text == "==") return truth(a == b);
        if (text == "!=") return truth(a != b);
        if (text == "<") return truth(is_unsigned ? a < b : s < t);
        if (text == "<=") return truth(is_unsigned ? a <= b : s <= t);
        if (text == ">") return truth(is_unsigned ? a > b : s > t);
        if (text == ">=") return truth(is_unsigned ? a >= b : s >= t);
        if (text == "|") return value(a | b);
        if (text == "^") return value(a ^ b);
        if (text == "&") return value(a & b);
        if (text == "+") return value(a + b);
        if (text == "-") return value(a - b);
        if (text == "*") return value(a * b);
        if (text == "<<" || text == ">>") {
            const uint64_t shift = b > 63 ? 63 : b;
            uint64_t bits = text == "<<" ? a << shift : a >> shift;
            if (text == ">>" && !left.is_unsigned) bits = static_cast<uint64_t>(s >> shift);
            if (b > 63 && (text == "<<" || left.is_unsigned)) bits = 0;
            return {Constant::Kind::integer, bits, left.is_unsigned};
        }
        if (b == 0) tokens_.fail(op, "division by zero");
        if (is_unsigned) return value(text == "/" ? a / b : a % b);
        // INT64_MIN / -1 does not fit in 64 bits. The result wraps around, as in two's complement.
        if (t == -1) return value(text == "/" ? 0 - a : 0);
        return value(static_cast<uint64_t>(text == "/" ? s / t : s % t));
    }

    Tokens& tokens_;
    int depth_ = 0;
};

}  // namespace

Constant constant_expression(Tokens& tokens) { return Expression(tokens).conditional(); }

uint64_t integer_term(Tokens& tokens) {
    const Token first = tokens.peek();
    const Constant constant = Expression(tokens).binary(of_terms);
    if (constant.kind != Constant::Kind::integer) tokens.fail(first, "expected an integer");
    return constant.bits;
}

uint64_t integer_constant(Tokens& tokens, std::string_view what, uint64_t most) {
    const Token first = tokens.peek();
    const Constant constant = Expression(tokens).binary(of_terms - 1);
    if (constant.kind != Constant::Kind::integer) {
        tokens.fail(first, "expected an integer for " + std::string(what));
    }
    if (!constant.is_unsigned && static_cast<int64_t>(constant.bits) < 0) {
        tokens.fail(first, std::string(what) + " is negative");
    }
    if (constant.bits > most) {
        tokens.fail(first, std::string(what) + " is " + std::to_string(constant.bits) +
                               ", more than the " + std::to_string(most) + " that are allowed");
    }
    return constant.bits;
}

uint64_t bits_as(const Constant& constant, Type type) {
    if (type != Type::f32 && type != Type::f64) return constant.bits;
    double value = 0;
    if (constant.kind == Constant::Kind::f64) {
        value = std::bit_cast<double>(constant.bits);
    } else if (constant.kind == Constant::Kind::f32) {
        // The bits are not converted, so that a NaN keeps its payload.
        if (type == Type::f32) return constant.bits;
        value = std::bit_cast<float>(static_cast<uint32_t>(constant.bits));
    } else {
        value = constant.is_unsigned ? static_cast<double>(constant.bits)
                                     : static_cast<double>(static_cast<int64_t>(constant.bits));
    }
    if (type == Type::f64) {
        return constant.kind == Constant::Kind::f64 ? constant.bits
                                                    : std::bit_cast<uint64_t>(value);
    }
    return std::bit_cast<uint32_t>(static_cast<float>(value));
}

}  // namespace coalesce::ptx
