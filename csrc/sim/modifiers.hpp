// The modifiers of an instruction. Each function that interprets a modifier consumes it. If a
// modifier remains, the instruction is unsupported; so none is ignored by accident.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "ptx/module.hpp"

namespace coalesce::sim {

class Modifiers {
  public:
    explicit Modifiers(const ptx::Instruction& instruction) : left_(instruction.modifiers) {}

    // Consumes the modifier if it is present.
    bool take(std::string_view name) {
        const auto found = std::find(left_.begin(), left_.end(), name);
        if (found == left_.end()) return false;
        left_.erase(found);
        return true;
    }

    // Consumes the first of these names that is present. Returns an empty text if none is.
    std::string_view take_one(std::initializer_list<std::string_view> names) {
        for (const std::string_view name : names) {
            if (take(name)) return name;
        }
        return {};
    }

    // Consumes the first modifier that is a type.
    ptx::Type take_type() {
        for (auto it = left_.begin(); it != left_.end(); ++it) {
            const ptx::Type type = ptx::type_named(*it);
            if (type == ptx::Type::none) continue;
            left_.erase(it);
            return type;
        }
        return ptx::Type::none;
    }

    // Consumes every modifier that starts with the prefix (cache hints: "L1::", "L2::").
    void drop_prefix(std::string_view prefix) {
        std::erase_if(left_, [&](std::string_view m) { return m.starts_with(prefix); });
    }

    [[nodiscard]] bool empty() const { return left_.empty(); }
    [[nodiscard]] bool has(std::string_view name) const {
        return std::find(left_.begin(), left_.end(), name) != left_.end();
    }
    [[nodiscard]] std::string_view first() const { return left_.front(); }

  private:
    std::vector<std::string_view> left_;
};

}  // namespace coalesce::sim
