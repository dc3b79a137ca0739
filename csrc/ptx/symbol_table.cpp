#include "ptx/symbol_table.hpp"

#include <utility>

namespace coalesce::ptx {

std::vector<Reference> SymbolTable::close() {
    Scope scope = std::move(scopes_.back());
    scopes_.pop_back();
    std::vector<Reference> open;
    for (const Reference& reference : scope.references) {
        const auto label = scope.labels.find(reference.name);
        if (label == scope.labels.end()) {
            open.push_back(reference);
        } else if (reference.target) {
            *reference.target = label->second;
        } else if (reference.operand) {
            reference.operand->kind = Operand::Kind::label;
            reference.operand->target = label->second;
        }
    }
    if (scopes_.empty()) return open;
    std::vector<Reference>& outer = scopes_.back().references;
    outer.insert(outer.end(), open.begin(), open.end());
    return {};
}

bool SymbolTable::bind(std::string_view name, const Binding& binding) {
    return scopes_.back().names.emplace(name, binding).second;
}

bool SymbolTable::bind_range(std::string_view prefix, uint32_t count, const Binding& first) {
    return scopes_.back().ranges.emplace(prefix, Range{first, count}).second;
}

bool SymbolTable::define_label(std::string_view name, uint32_t target) {
    return scopes_.back().labels.emplace(name, target).second;
}

Binding SymbolTable::find(std::string_view name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
        if (const auto entry = scope->names.find(name); entry != scope->names.end()) {
            return entry->second;
        }
        const Binding binding = find_in_ranges(*scope, name);
        if (binding.kind != Binding::Kind::none) return binding;
    }
    return {};
}

// Looks up a name in the ranges of registers. A name can belong to several ranges: "%r12" may be
// number 12 of "%r", or number 2 of "%r1".
Binding SymbolTable::find_in_ranges(const Scope& scope, std::string_view name) {
    if (scope.ranges.empty()) return {};
    constexpr size_t max_digits = 8;
    uint64_t number = 0, weight = 1;
    for (size_t digits = 1; digits <= max_digits && digits < name.size(); ++digits) {
        const char c = name[name.size() - digits];
        if (c < '0' || c > '9') break;
        number += weight * (c - '0');
        weight *= 10;
        if (c == '0' && digits > 1) continue;  // no range contains "%r01"
        const auto range = scope.ranges.find(name.substr(0, name.size() - digits));
        if (range == scope.ranges.end() || number >= range->second.count) continue;
        Binding binding = range->second.first;
        binding.index += static_cast<uint32_t>(number) * binding.width;
        return binding;
    }
    return {};
}

}  // namespace coalesce::ptx
