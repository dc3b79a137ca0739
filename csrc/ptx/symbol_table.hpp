// Looks up what a name means at a position in a function's body.
//
// METHOD
// Each '{' in the body opens a scope, which '}' closes. The open scopes form a stack. A name is
// looked up in the innermost scope first.
//
// Registers and variables are declared before they are used, so their names are looked up at once.
// A label may be used before it is defined. Each scope therefore stores the references to labels
// that it does not know yet. When the scope closes, it resolves the references to its own labels,
// and passes the remaining references to the enclosing scope.
//
// A range of registers, `%r<12>`, is stored as one entry with its prefix, and not as twelve
// entries.
#pragma once

#include <string_view>
#include <unordered_map>
#include <vector>

#include "ptx/module.hpp"

namespace coalesce::ptx {

// What a name means.
struct Binding {
    enum class Kind : uint8_t { none, reg, variable, parameter };
    Kind kind = Kind::none;
    uint32_t index = 0;  // an index into Function::registers or Function::variables
    uint32_t width = 1;  // The number of consecutive registers. A vector register .v4 has four.
};

// A name that may be a label. If it is one, `operand` becomes a label, or `target` is set.
struct Reference {
    std::string_view name;
    Operand* operand = nullptr;
    uint32_t* target = nullptr;
    // The name is used in a branch. There, any name that is not a label is an error.
    bool only_label = false;
};

class SymbolTable {
  public:
    void open() { scopes_.emplace_back(); }
    // Closes the innermost scope. References to labels that this scope does not define are passed
    // to the enclosing scope. If there is no enclosing scope, they are returned.
    std::vector<Reference> close();
    [[nodiscard]] size_t depth() const { return scopes_.size(); }

    // The three functions return false if the name is already declared in this scope.
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
