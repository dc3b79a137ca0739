#include "sim/ptx_analysis/modifiers.hpp"

#include <algorithm>
#include <unordered_map>

namespace coalesce::sim {

Modifier Modifier::named(std::string_view text) {
    // It is never destroyed: the destructor of a static object of a program may launch a kernel.
    static const auto& numbers = *new auto([] {
        std::unordered_map<std::string_view, uint8_t> all;
        for (size_t n = 1; n < std::size(list); ++n) all.emplace(list[n], uint8_t(n));
        return all;
    }());
    Modifier modifier;
    if (const auto entry = numbers.find(text); entry != numbers.end())
        modifier.number_ = entry->second;
    return modifier;
}

Modifiers::Modifiers(std::span<const std::string_view> modifiers) {
    left_.reserve(modifiers.size());
    for (const std::string_view text : modifiers)
        left_.push_back({text, Modifier::named(text), ptx::type_named(text)});
}

bool Modifiers::take(Modifier modifier) {
    const auto entry = std::ranges::find(left_, modifier, &Entry::modifier);
    if (!modifier || entry == left_.end()) return false;
    left_.erase(entry);
    return true;
}

Modifier Modifiers::take_one(std::initializer_list<Modifier> modifiers) {
    for (const Modifier modifier : modifiers) {
        if (take(modifier)) return modifier;
    }
    return {};
}

ptx::Type Modifiers::take_type() {
    const auto is_type = [](const Entry& m) { return m.type != ptx::Type::none; };
    const auto modifier = std::ranges::find_if(left_, is_type);
    if (modifier == left_.end()) return ptx::Type::none;
    const ptx::Type type = modifier->type;
    left_.erase(modifier);
    return type;
}

void Modifiers::drop_prefix(std::string_view prefix) {
    std::erase_if(left_, [&](const Entry& m) { return m.text.starts_with(prefix); });
}

void Modifiers::drop_all() { left_.clear(); }

ptx::Type Modifiers::type() const { return Modifiers(*this).take_type(); }

bool Modifiers::empty() const { return left_.empty(); }

bool Modifiers::has(Modifier modifier) const {
    return modifier && std::ranges::find(left_, modifier, &Entry::modifier) != left_.end();
}

std::string_view Modifiers::first() const { return left_.front().text; }

}  // namespace coalesce::sim
