#include "ptx/module.hpp"

#include <iterator>

namespace coalesce::ptx {
namespace {

struct TypeRow {
    std::string_view name;
    uint32_t size;
};

constexpr TypeRow types[] = {
    // The entries have the order of Type.
    {"none", 0}, {"pred", 0},                                                         //
    {"b8", 1},   {"b16", 2},   {"b32", 4},  {"b64", 8},    {"b128", 16},              //
    {"u8", 1},   {"u16", 2},   {"u32", 4},  {"u64", 8},                               //
    {"s8", 1},   {"s16", 2},   {"s32", 4},  {"s64", 8},                               //
    {"f16", 2},  {"f16x2", 4}, {"bf16", 2}, {"bf16x2", 4}, {"f32", 4},   {"f64", 8},  //
};
static_assert(std::size(types) == static_cast<size_t>(Type::f64) + 1);

}  // namespace

bool is_signed(Type type) {
    return type == Type::s8 || type == Type::s16 || type == Type::s32 || type == Type::s64;
}

bool is_float(Type type) { return type == Type::f32 || type == Type::f64; }

Type unsigned_type(uint32_t bytes) {
    return bytes == 1 ? Type::u8 : bytes == 2 ? Type::u16 : bytes == 4 ? Type::u32 : Type::u64;
}

Type signed_type(uint32_t bytes) {
    return bytes == 1 ? Type::s8 : bytes == 2 ? Type::s16 : bytes == 4 ? Type::s32 : Type::s64;
}

uint32_t size_of(Type type) { return types[static_cast<size_t>(type)].size; }

std::string_view name_of(Type type) { return types[static_cast<size_t>(type)].name; }

Type type_named(std::string_view name) {
    for (size_t i = 1; i < std::size(types); ++i) {
        if (types[i].name == name) return static_cast<Type>(i);
    }
    return Type::none;
}

const Function* Module::find_function(std::string_view name) const {
    if (const auto alias = aliases.find(name); alias != aliases.end()) name = alias->second;
    for (const Function& function : functions) {
        if (function.name == name) return &function;
    }
    return nullptr;
}

const Variable* Module::find_variable(std::string_view name) const {
    for (const Variable& variable : variables) {
        if (variable.name == name) return &variable;
    }
    return nullptr;
}

}  // namespace coalesce::ptx
