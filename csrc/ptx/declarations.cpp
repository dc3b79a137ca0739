// Parses variables, parameters, registers and initializers.
#include <algorithm>
#include <utility>

#include "ptx/constant.hpp"
#include "ptx/parser.hpp"

namespace coalesce::ptx {
namespace {

constexpr uint64_t max_global_bytes = uint64_t{1} << 36;  // no GPU has so much memory for one array
// A thread has at most 512 KiB of local memory. This limit of the parser is larger.
constexpr uint64_t max_local_bytes = uint64_t{1} << 24;
constexpr uint64_t max_dimensions = 16;
constexpr uint64_t max_padding = uint64_t{1} << 20;
constexpr uint64_t max_registers = uint64_t{1} << 20;  // the limit for one function
constexpr uint64_t max_module_registers = uint64_t{1} << 22;
// The limit for the names of one range of registers together.
constexpr uint64_t max_name_bytes = uint64_t{1} << 26;

uint64_t max_bytes(Space space) {
    return space == Space::global || space == Space::constant ? max_global_bytes : max_local_bytes;
}

bool space_named(std::string_view dotted, Space& space) {
    if (dotted == ".global")
        space = Space::global;
    else if (dotted == ".shared")
        space = Space::shared;
    else if (dotted == ".local")
        space = Space::local;
    else if (dotted == ".const")
        space = Space::constant;
    else if (dotted == ".param")
        space = Space::param;
    else
        return false;
    return true;
}

}  // namespace

Parser::Declaration Parser::declaration(Space space) {
    Declaration result;
    result.space = space;
    bool typed = false;
    while (tokens_.at(Token::Kind::dotted)) {
        const Token token = tokens_.peek();
        if (token.is(".attribute")) {
            skip_attribute();
            continue;
        }
        tokens_.take();
        if (token.is(".align")) {
            // The number after .ptr is the alignment of the memory to which the parameter points.
            const Token number = tokens_.peek();
            const uint64_t alignment = integer_constant(tokens_, "the alignment", 1 << 20);
            if (alignment == 0 || (alignment & (alignment - 1)) != 0) {
                tokens_.fail(number, "the alignment is not a power of two");
            }
            if (!result.pointer) result.alignment = static_cast<uint32_t>(alignment);
        } else if (token.is(".ptr")) {
            result.pointer = true;
        } else if (result.pointer && space_named(token.text, result.pointee)) {
        } else if (token.is(".v2") || token.is(".v4") || token.is(".v8")) {
            result.width = token.text[2] - '0';
        } else if (const Type type = type_named(token.word()); type != Type::none) {
            result.type = type;
            typed = true;
        } else if (token.is(".texref") || token.is(".samplerref") || token.is(".surfref")) {
            typed = true;
        } else {
            tokens_.fail(token, "unknown type '" + std::string(token.text.substr(0, 40)) + "'");
        }
    }
    if (!typed) tokens_.fail_expected("a type");
    return result;
}

void Parser::skip_attribute() {  // Skips .attribute(.unified(1, 2)) or .attribute(.managed)
    tokens_.take();
    tokens_.expect("(", "after '.attribute'");
    for (size_t depth = 1; depth > 0;) {
        if (tokens_.at(Token::Kind::end)) tokens_.fail_expected("')' after '.attribute'");
        const Token token = tokens_.take();
        if (token.is("(")) ++depth;
        if (token.is(")")) --depth;
    }
}

// Parses a name, its dimensions, and its initial value if there is one.
Variable Parser::variable(const Declaration& head) {
    const Token name = tokens_.expect(Token::Kind::identifier, "a name");
    Variable result;
    result.name = name.text;
    result.space = head.space;
    result.type = head.type;
    result.alignment =
        std::max({head.alignment, 1u, head.alignment ? 1u : size_of(head.type) * head.width});
    const uint64_t most = max_bytes(head.space);
    std::vector<uint64_t> dimensions;
    result.count = head.width;
    while (tokens_.at("[")) {
        const Token open = tokens_.take();
        if (dimensions.size() == max_dimensions) tokens_.fail(open, "too many dimensions");
        // An extent of 0 stands for []. Either the initializer determines the extent later, or the
        // array is dynamic shared memory.
        uint64_t extent = 0;
        if (!tokens_.at("]")) {
            extent = integer_constant(tokens_, "the array's extent", UINT64_MAX);
            if (extent > most || (result.count > 0 && extent > most / result.count)) {
                tokens_.fail(open, "'" + result.name + "' is larger than the " +
                                       std::to_string(most) + " bytes that are allowed");
            }
        } else if (!dimensions.empty()) {
            tokens_.fail(open, "only the first dimension may have no extent");
        }
        tokens_.expect("]", "after the array's extent");
        dimensions.push_back(extent);
        result.count *= extent;
    }
    if (result.bytes() > most) {
        tokens_.fail(name, "'" + result.name + "' is larger than the " + std::to_string(most) +
                               " bytes that are allowed");
    }
    if (head.width > 1) dimensions.push_back(head.width);
    if (tokens_.accept("=")) initializer(result, dimensions);
    return result;
}

// METHOD
// `initial` gets the values in the order that they have in memory. An inner brace may list fewer
// values than its row has elements, as {1} in {{1}, {2, 3}} does. Then zeros are added before the
// next row begins. No zeros are added after the last row.
void Parser::initializer(Variable& variable, const std::vector<uint64_t>& dimensions) {
    if (!tokens_.at("{")) {
        variable.initial.push_back(initial_value(variable.type));
        return;
    }
    const Token open = tokens_.peek();
    nested_initializer(variable, dimensions, 0);
    const uint64_t values = variable.initial.size();
    if (!dimensions.empty() && dimensions.front() == 0) {
        uint64_t row = 1;
        for (size_t i = 1; i < dimensions.size(); ++i) row *= dimensions[i];
        variable.count = row == 0 ? 0 : (values + row - 1) / row * row;
    }
    if (values > variable.count) {
        tokens_.fail(open, "'" + variable.name + "' has " + std::to_string(variable.count) +
                               " elements, but its initialiser has " + std::to_string(values));
    }
}

void Parser::nested_initializer(Variable& variable, const std::vector<uint64_t>& dimensions,
                                size_t level) {
    const Token open = tokens_.expect("{", "to open the initialiser");
    uint64_t row = 1;  // the number of elements of one entry at this level
    for (size_t i = level + 1; i < dimensions.size(); ++i) row *= dimensions[i];
    const bool unbounded = level == 0 && (dimensions.empty() || dimensions.front() == 0);
    const uint64_t extent = unbounded ? UINT64_MAX : dimensions[level] * row;
    const uint64_t first = variable.initial.size();
    while (!tokens_.at("}")) {
        if (tokens_.at("{")) {
            if (level + 1 >= dimensions.size()) {
                tokens_.fail(tokens_.peek(),
                             "more braces than '" + variable.name + "' has dimensions");
            }
            const uint64_t values = variable.initial.size() - first;
            const uint64_t missing = row == 0 ? 0 : (row - values % row) % row;
            if (missing > max_padding - padding_) {
                tokens_.fail(open, "the initialiser leaves out too many values");
            }
            padding_ += missing;
            variable.initial.resize(first + values + missing);
            nested_initializer(variable, dimensions, level + 1);
        } else {
            variable.initial.push_back(initial_value(variable.type));
        }
        if (variable.initial.size() - first > extent) {
            tokens_.fail(open, "the initialiser has more values than '" + variable.name + "'");
        }
        if (!tokens_.accept(",")) break;
    }
    tokens_.expect("}", "to close the initialiser");
}

Initializer Parser::initial_value(Type type) {
    Initializer result;
    const bool is_name = tokens_.at(Token::Kind::identifier) && !tokens_.at("WARP_SZ");
    if (!is_name) {
        result.bits = bits_as(constant_expression(tokens_), type);
        if (tokens_.at("(")) {
            tokens_.fail(
                tokens_.peek(),
                "an initialiser that takes a part of an address, mask(symbol), is not supported");
        }
        return result;
    }
    Token name = tokens_.take();
    if (name.is("generic") && tokens_.accept("(")) {
        result.generic = true;
        name = tokens_.expect(Token::Kind::identifier, "a name after 'generic('");
        tokens_.expect(")", "after the name");
    }
    result.symbol = name.text;
    unknown_names_.push_back(name.text);
    while (tokens_.at("+") || tokens_.at("-")) {
        const bool minus = tokens_.take().is("-");
        const uint64_t term = integer_term(tokens_);
        result.bits += minus ? 0 - term : term;
    }
    return result;
}

// Parses the parameters after '(', and the ')'.
std::vector<Parameter> Parser::parameters(std::string_view what) {
    std::vector<Parameter> result;
    if (tokens_.accept(")")) return result;
    do {
        Space space = Space::param;
        if (tokens_.accept(".reg")) {
            space = Space::reg;
        } else if (!tokens_.accept(".param")) {
            tokens_.fail_expected("'.param'");
        }
        const Declaration head = declaration(space);
        Parameter parameter;
        static_cast<Variable&>(parameter) = variable(head);
        parameter.pointer = head.pointer;
        parameter.pointee = head.pointee;
        result.push_back(std::move(parameter));
    } while (tokens_.accept(","));
    tokens_.expect(")", "after " + std::string(what));
    return result;
}

// Parses register declarations such as .reg .b32 %r<12>, %x;
void Parser::registers() {
    tokens_.take();
    const Declaration head = declaration(Space::reg);
    do {
        const Token name = tokens_.expect(Token::Kind::identifier, "a register's name");
        if (tokens_.accept("<")) {
            const uint64_t count = integer_term(tokens_);
            tokens_.expect(">", "after the number of registers");
            add_registers(head, name, count, true);
        } else {
            add_registers(head, name, 1, false);
        }
    } while (tokens_.accept(","));
    tokens_.expect(";", "after the registers");
}

void Parser::add_registers(const Declaration& head, const Token& name, uint64_t count, bool range) {
    std::vector<Register>& all = function_->registers;
    if (count > max_registers || all.size() + count * head.width > max_registers ||
        total_registers_ + count * head.width > max_module_registers) {
        tokens_.fail(name, "more than " + std::to_string(max_registers) +
                               " registers in a function, or " +
                               std::to_string(max_module_registers) + " in the module");
    }
    if (name.text.size() * count > max_name_bytes) tokens_.fail(name, "the name is too long");
    total_registers_ += count * head.width;
    const Binding first{Binding::Kind::reg, static_cast<uint32_t>(all.size()), head.width};
    const bool is_new = range ? symbols_.bind_range(name.text, static_cast<uint32_t>(count), first)
                              : symbols_.bind(name.text, first);
    if (!is_new) tokens_.fail(name, "'" + std::string(name.text) + "' is declared twice");
    const std::string text(name.text);
    for (uint64_t i = 0; i < count; ++i) {
        const std::string one = range ? text + std::to_string(i) : text;
        constexpr std::string_view components[] = {".x", ".y", ".z", ".w"};
        for (uint32_t k = 0; k < head.width; ++k) {
            std::string full = one;
            if (head.width > 1) full += k < 4 ? components[k] : "." + std::to_string(k);
            all.push_back({std::move(full), head.type});
        }
    }
}

}  // namespace coalesce::ptx
