// What a name means at a place in a function's body.
//
// METHOD
// A stack of scopes, one per open '{'. Registers, .param and other variables are declared before
// they are used, so a use is looked up at once, innermost scope first. A label may come after its
// use: each scope keeps the uses it could not settle, settles them when it closes and hands the
// rest to the scope around it. A range `%r<12>` is one entry (its prefix), not twelve.
#pragma once

#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ptx/module.hpp"

namespace coalesce::ptx {

struct Binding {
    enum class Kind : uint8_t { none, reg, variable, parameter };
    Kind kind = Kind::none;
    uint32_t index = 0;  // in Function::registers or Function::variables
    uint32_t width = 1;  // a vector register .v4 is four consecutive registers
};

// A name that may be a label. Where it is one, `operand` becomes a label or `target` is set.
struct Reference {
    std::string_view name;
    Operand* operand = nullptr;
    uint32_t* target = nullptr;
    bool only_label = false;  // a branch: anything but a label is an error
};

class Scopes {
  public:
    void open() { scopes_.emplace_back(); }
    // The references that no label of the scope settles go outwards; from the outermost scope they
    // are returned.
    std::vector<Reference> close();
    [[nodiscard]] size_t depth() const { return scopes_.size(); }

    // False: the name already has a meaning in this very scope.
    bool bind(std::string_view name, const Binding& binding);
    bool bind_range(std::string_view prefix, uint32_t count, const Binding& first);
    bool define_label(std::string_view name, uint32_t target);

    [[nodiscard]] Binding find(std::string_view name) const;
    void refer(const Reference& reference) { scopes_.back().references.push_back(reference); }

  private:
    struct Range {
        Binding first;
        uint32_t count = 0;
    };
    struct Scope {
        std::unordered_map<std::string_view, Binding> names;
        std::unordered_map<std::string_view, Range> ranges;
        std::unordered_map<std::string_view, uint32_t> labels;
        std::vector<Reference> references;
    };
    static Binding find_in_ranges(const Scope& scope, std::string_view name);

    std::vector<Scope> scopes_;
};

}  // namespace coalesce::ptx
