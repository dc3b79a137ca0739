#include "sim/modifiers.hpp"

#include <algorithm>
#include <unordered_map>

namespace coalesce::sim {

Word Word::named(std::string_view text) {
    static const std::unordered_map<std::string_view, uint8_t> numbers = [] {
        std::unordered_map<std::string_view, uint8_t> all;
        for (size_t n = 1; n < std::size(list); ++n) all.emplace(list[n], uint8_t(n));
        return all;
    }();
    Word word;
    if (const auto entry = numbers.find(text); entry != numbers.end()) word.number_ = entry->second;
    return word;
}

Modifiers::Modifiers(std::span<const std::string_view> modifiers) {
    left_.reserve(modifiers.size());
    for (const std::string_view text : modifiers)
        left_.push_back({text, Word::named(text), ptx::type_named(text)});
}

bool Modifiers::take(Word word) {
    const auto modifier = std::ranges::find(left_, word, &Modifier::word);
    if (!word || modifier == left_.end()) return false;
    left_.erase(modifier);
    return true;
}

Word Modifiers::take_one(std::initializer_list<Word> words) {
    for (const Word word : words) {
        if (take(word)) return word;
    }
    return {};
}

ptx::Type Modifiers::take_type() {
    const auto is_type = [](const Modifier& m) { return m.type != ptx::Type::none; };
    const auto modifier = std::ranges::find_if(left_, is_type);
    if (modifier == left_.end()) return ptx::Type::none;
    const ptx::Type type = modifier->type;
    left_.erase(modifier);
    return type;
}

void Modifiers::drop_prefix(std::string_view prefix) {
    std::erase_if(left_, [&](const Modifier& m) { return m.text.starts_with(prefix); });
}

void Modifiers::drop_all() { left_.clear(); }

ptx::Type Modifiers::type() const { return Modifiers(*this).take_type(); }

bool Modifiers::empty() const { return left_.empty(); }

bool Modifiers::has(Word word) const {
    return word && std::ranges::find(left_, word, &Modifier::word) != left_.end();
}

std::string_view Modifiers::first() const { return left_.front().text; }

}  // namespace coalesce::sim
